"""Pieces as a user has them: files of meshes and clouds in any common format.

In: files or folders. Out: `read_pieces` gives a checked `PieceFile` for every piece, `read_usable_pieces` leaves out
what cannot be one, `InputNotes` says what is odd about them and what was repaired, `sample_piece` draws points with
normals from one, `write_ply` writes one. Readers trust no number in a header before the size of the file confirms it.
"""

from eda.data.piece_files.input_notes import InputNotes
from eda.data.piece_files.input_warnings import input_warnings
from eda.data.piece_files.piece_file import Geometry, PieceFile
from eda.data.piece_files.piece_list import UsablePieces, read_as_one, read_file, read_pieces, read_usable_pieces
from eda.data.piece_files.piece_sample import sample_piece
from eda.data.piece_files.ply import ply_bytes, write_ply

__all__ = [
    "Geometry",
    "InputNotes",
    "PieceFile",
    "UsablePieces",
    "input_warnings",
    "ply_bytes",
    "read_as_one",
    "read_file",
    "read_pieces",
    "read_usable_pieces",
    "sample_piece",
    "write_ply",
]
