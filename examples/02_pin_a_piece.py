"""Pin a piece: its pose is known and stays fixed, and the other pieces are placed around it.

python examples/02_pin_a_piece.py
"""

import argparse

import numpy as np
from scipy.spatial.transform import Rotation

from eda import AssembleConfig, assemble
from eda.data import FractureConfig, FractureSource

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="fewer samples and steps")
options = parser.parse_args()

settings = FractureConfig(min_pieces=2, max_pieces=2, num_points=4000, kinds=("rough",))
example = FractureSource(settings, seed=3, shapes=("stone",))[0]
clouds, normals = example.clouds(), example.clouds(example.normals)

# The foot of the stone stands in a showcase: turned by 30 degrees, 2 units to the right.
stand = np.eye(4)
stand[:3, :3] = Rotation.from_euler("z", 30, degrees=True).as_matrix()
stand[:3, 3] = (2, 0, 0)

config = AssembleConfig(samples=8, steps=5) if options.quick else AssembleConfig()
assembly = assemble(clouds, normals, names=["foot", "head"], pins={"foot": stand}, config=config)

foot, head = assembly.best.poses
print("the foot is where it was put:", np.allclose(foot, stand))
if assembly.best.placed[1]:
    # The pieces came in their true places, so the head belongs where the foot's motion takes it.
    off = np.degrees(Rotation.from_matrix(stand[:3, :3].T @ head[:3, :3]).magnitude())
    print(f"the head was found {off:.1f} degrees from where it belongs, confidence {assembly.best.confidence[1]:.0%}")
else:
    print("no place was found for the head")
