"""For tests of files of pieces: a cloud with normals and colors and a box, and the one piece of a file."""

from pathlib import Path

import numpy as np
from support.dataset_files import box
from support.lumpy_shapes import lumpy_cloud

from eda.data.piece_files import PieceFile, read_pieces

POINTS, NORMALS = lumpy_cloud(0, 50)
COLORS = np.random.default_rng(0).integers(0, 256, size=(50, 3)).astype(np.uint8)
VERTICES, FACES = box(0, 1)
EXACT = POINTS.astype(np.float32).astype(np.float64)  # what a file of float32 keeps


def one(path: Path) -> PieceFile:
    (piece,) = read_pieces([path])
    return piece
