"""Register two scans that overlap: the motion that brings the second to the first.

Scans show the same surface, instead of meeting at a break. No model is needed: features of the surface that both saw
are matched (`pip install '.[scan]'`), and the resulting poses are refined, and scored by how well the surfaces agree.
The model for scans of rooms, "scan-small", would add its samples: give it in place of "none". Without, a bust, a
chair and a hammer come out right; a mug and a teapot, which look alike from both sides, about half a turn off.

    python examples/03_register_two_scans.py
"""

import argparse

import numpy as np
from scipy.spatial.transform import Rotation

from eda import assemble
from eda.data import FractureConfig, FractureSource

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="fewer points")
options = parser.parse_args()

# Two scanners look at a bust from the left and from the right, and each sees two thirds of it.
settings = FractureConfig(min_pieces=2, max_pieces=2, num_points=4000 if options.quick else 8000, kinds=("rough",))
bust = FractureSource(settings, seed=7, shapes=("bust",))[0]
outer = ~bust.on_break
points, normals = bust.points[outer].astype(float), bust.normals[outer].astype(float)
sides = [points[:, 0] < np.quantile(points[:, 0], 0.67), points[:, 0] > np.quantile(points[:, 0], 0.33)]
rng = np.random.default_rng(0)
seen = [np.flatnonzero(side & (rng.random(len(points)) < 0.6)) for side in sides]  # not the same points of it

turn = Rotation.random(random_state=1).as_matrix()  # the second scan has another frame
scans = [points[seen[0]], points[seen[1]] @ turn.T]
directions = [normals[seen[0]], normals[seen[1]] @ turn.T]

assembly = assemble(scans, directions, model="none")

first, second = assembly.best.poses
motion = np.linalg.inv(first) @ second  # from the second scan's frame to the first one's
off = np.degrees(Rotation.from_matrix(motion[:3, :3] @ turn).magnitude())
print(f"matched without a model in {assembly.seconds:.0f} s, probability {assembly.best.probability:.0%}")
print(f"the second scan lies {off:.1f} degrees from where it belongs")
