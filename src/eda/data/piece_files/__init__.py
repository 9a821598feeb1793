"""Pieces as a user has them: files of meshes and clouds in any common format.

In: files or folders. Out: `read_pieces` gives a `PieceFile` for every piece, checked; `doubts` says what is odd about
them; `sampled` draws points with normals from one. Readers trust no number in a header before the size of the file
confirms it.
"""

from eda.data.piece_files.doubts import doubts
from eda.data.piece_files.drawing import sampled
from eda.data.piece_files.finding import SUFFIXES, read_file, read_pieces
from eda.data.piece_files.piece import PieceFile

__all__ = ["SUFFIXES", "PieceFile", "doubts", "read_file", "read_pieces", "sampled"]
