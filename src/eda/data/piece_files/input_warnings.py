"""What can be assembled as it is, but is probably not what was meant: copies, mixed units, pieces without thickness."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from eda.data.piece_files.piece_file import PieceFile, spread

_MANY_TIMES = 100  # metres taken for centimetres; the pieces of one object differ less
_FLAT = 1e-6  # of the length: coordinates in float32 have 7 digits


def input_warnings(pieces: Sequence[PieceFile]) -> list[str]:
    """One text for every oddity, for the person who gave the pieces: which of them, and what to do."""
    return [*_copies(pieces), *_mixed_units(pieces), *_flat_ones(pieces)]


def _copies(pieces: Sequence[PieceFile]) -> Iterator[str]:
    alike: dict[bytes, list[str]] = {}
    for piece in pieces:
        alike.setdefault(hashlib.sha256(piece.points.tobytes()).digest(), []).append(piece.where)
    for *others, last in alike.values():
        if others:
            yield (
                f"{', '.join(others)} and {last} hold the same points, and count as {len(others) + 1} pieces; "
                "leave copies out"
            )


def _mixed_units(pieces: Sequence[PieceFile]) -> Iterator[str]:
    extents = [float(np.ptp(piece.points, axis=0).max()) for piece in pieces]
    small, large = int(np.argmin(extents)), int(np.argmax(extents))
    if extents[large] > _MANY_TIMES * extents[small]:
        yield (
            f"{pieces[large].where} is {extents[large] / extents[small]:,.0f} times as long as {pieces[small].where}; "
            "if they are in different units, bring them to one"
        )


def _flat_ones(pieces: Sequence[PieceFile]) -> Iterator[str]:
    for piece in pieces:
        least, _, most = spread(piece.points)
        if least <= _FLAT * most:
            yield f"{piece.where}: all of its points lie in one plane; a piece with its thickness is easier to place"
