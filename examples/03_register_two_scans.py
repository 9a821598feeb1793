"""Register two scans that overlap: the motion that brings the second to the first.

A network without a break head is for scans: pieces that show the same surface, instead of meeting at a break. If the
model `scan-small` ships with your version it is used. If not, an untrained network takes its place, whose samples are
worth nothing, and what follows does all the work: patches of one scan are laid onto those of the other, refined, and
judged by how well the surfaces agree. That is right for a bust, a chair and a hammer; a mug and a teapot, which look
alike from both sides, come out half a turn off.

    python examples/03_register_two_scans.py
"""

import argparse

import numpy as np
from scipy.spatial.transform import Rotation

from eda import AssembleConfig, Eda, assemble
from eda.data import FractureConfig, FractureSource
from eda.recipes import scan_small
from eda.weights import SHIPPED

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="try less hard")
options = parser.parse_args()

# Two scanners look at a bust from the left and from the right, and each sees two thirds of it.
settings = FractureConfig(min_pieces=2, max_pieces=2, num_points=8000, kinds=("rough",))
(bust,) = FractureSource(settings, seed=7, shapes=("bust",))(0)
outer = ~bust.on_break
points, normals = bust.points[outer].astype(float), bust.normals[outer].astype(float)
sides = [points[:, 0] < np.quantile(points[:, 0], 0.67), points[:, 0] > np.quantile(points[:, 0], 0.33)]
rng = np.random.default_rng(0)
seen = [np.flatnonzero(side & (rng.random(len(points)) < 0.6)) for side in sides]  # not the same points of it

turn = Rotation.random(random_state=1).as_matrix()  # the second scan lies in a frame of its own
scans = [points[seen[0]], points[seen[1]] @ turn.T]
directions = [normals[seen[0]], normals[seen[1]] @ turn.T]

ships = "scan-small" in {shipped.name for shipped in SHIPPED}
model = Eda.load("scan-small") if ships else Eda(scan_small().model)
config = AssembleConfig(samples=4, steps=2) if options.quick else AssembleConfig()
assembly = assemble(scans, directions, model=model, config=config)

first, second = assembly.best.poses
motion = np.linalg.inv(first) @ second  # from the second scan's frame to the first one's
off = np.degrees(Rotation.from_matrix(motion[:3, :3] @ turn).magnitude())
print(f"{'scan-small' if ships else 'an untrained network and the geometry'}: {assembly.seconds:.0f} s")
print(f"the second scan lies {off:.1f} degrees from where it belongs")
