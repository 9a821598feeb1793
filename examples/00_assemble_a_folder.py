"""Assemble a folder of pieces: files in, ranked assemblies and a report out. The same as `eda assemble`, from Python.

python examples/00_assemble_a_folder.py sherds/ --out result
python examples/00_assemble_a_folder.py               # breaks an object and assembles it again
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from eda import AssembleConfig, assemble, save_assembly
from eda.data import FractureConfig, FractureSource
from eda.data.fracture import write_puzzles
from eda.data.piece_files import read_pieces, sample_piece


def broken_stone(folder: Path) -> Path:
    """A stone in two pieces, as meshes, in a folder."""
    settings = FractureConfig(min_pieces=2, max_pieces=2, kinds=("rough",))
    write_puzzles(FractureSource(settings, seed=3, shapes=("stone",), num_puzzles=1), folder)
    return next(path for path in folder.iterdir() if path.is_dir())


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder", type=Path, nargs="?", help="one piece a file, or several in one GLB")
parser.add_argument("--out", type=Path, help="where to write the result")
parser.add_argument("--quick", action="store_true", help="fewer samples and steps")
options = parser.parse_args()

folder = options.folder or broken_stone(Path(tempfile.mkdtemp()))
pieces = read_pieces([folder])  # meshes and clouds of any common format
points, normals, oriented = zip(*[sample_piece(piece, 1500, np.random.default_rng(0)) for piece in pieces], strict=True)
# Normals whose sign is not known are left out; they are then estimated.
outward = [n if is_outward else None for n, is_outward in zip(normals, oriented, strict=True)]

config = AssembleConfig(samples=8, steps=5) if options.quick else AssembleConfig()
assembly = assemble(points, outward, names=[piece.name for piece in pieces], config=config)

print(f"{assembly.best.placed.sum()} of {len(pieces)} pieces placed, probability {assembly.best.probability:.0%}")
for name, pose in zip(assembly.names, assembly.best.poses, strict=True):
    print(name, np.round(pose, 3).tolist())  # the motion of this file, in its own units
if options.out:
    print("open", save_assembly(assembly, options.out) / "report.html")
