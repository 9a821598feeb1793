"""Break your own mesh, put it together again, and measure the error.

python examples/01_break_your_own_mesh.py statue.stl --pieces 4
python examples/01_break_your_own_mesh.py             # a generated object of a kind that no model was trained on
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from eda import AssembleConfig, assemble, show_assembly
from eda.data import FractureConfig, FractureSource, open_meshes

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("mesh", type=Path, nargs="?", help="a closed mesh: OBJ, PLY, STL, OFF or GLB")
parser.add_argument("--pieces", type=int, default=2)
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--show", action="store_true", help="open the report in a browser")
parser.add_argument("--quick", action="store_true", help="fewer samples and steps")
options = parser.parse_args()

# Break it. An example holds the pieces in their true places, as points with outward normals.
settings = FractureConfig(min_pieces=options.pieces, max_pieces=options.pieces, num_points=6000)
meshes = open_meshes(options.mesh) if options.mesh else None
example = FractureSource(settings, options.seed, shapes=("bust",), meshes=meshes)[0]
clouds, normals = example.clouds(), example.clouds(example.normals)
print(f"{example.name}: {example.num_pieces} pieces of {', '.join(str(len(cloud)) for cloud in clouds)} points")

# Turn every piece at random. The ground truth is the motion that turns it back.
turns = Rotation.random(example.num_pieces, random_state=options.seed).as_matrix()
scattered = [cloud @ turn.T for cloud, turn in zip(clouds, turns, strict=True)]
directions = [normal @ turn.T for normal, turn in zip(normals, turns, strict=True)]
truth = np.tile(np.eye(4), (example.num_pieces, 1, 1))
truth[:, :3, :3] = turns.transpose(0, 2, 1)

# Put it together. The assembler does not see the ground truth.
config = AssembleConfig(samples=8, steps=5) if options.quick else AssembleConfig()
assembly = assemble(scattered, directions, config=config)

print(f"{assembly.best.placed.sum()} pieces placed, probability {assembly.best.probability:.0%}")
if assembly.best.placed.sum() > 1:
    degrees, distance = assembly.compare(truth)
    print(f"off by {degrees:.1f} degrees and {distance:.1%} of the size, over all pairs of placed pieces")
if options.show:
    print("the report is in", show_assembly(assembly))
