"""What can be assembled as it is, but is probably not what was meant: copies, mixed units, chips, flat pieces."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from eda.data.piece_files.piece_file import PieceFile, spread

_MANY_TIMES = 100  # metres taken for centimetres; the pieces of one object differ less
# Two groups of pieces, each within a factor of 4, and nothing between them: in 40 broken objects with chips the widest
# gap was 13.
_GAP, _ALIKE = 15, 4
_UNITS = {  # how many of the first are one of the second
    25.4: ("millimetres", "inches"),
    39.37: ("inches", "metres"),
    100: ("centimetres", "metres"),
    304.8: ("millimetres", "feet"),
    1000: ("millimetres", "metres"),
}
_NEAR = 1.25  # of a factor between units; pieces differ in length
_CHIP = 0.01  # of the volume of all pieces
_FLAT = 1e-6  # of the length: coordinates in float32 have 7 digits
_MOST_NAMES = 3


def input_warnings(pieces: Sequence[PieceFile]) -> list[str]:
    """One text for every oddity, for the person who gave the pieces: which of them, and what to do."""
    # In other units a piece is no chip.
    sizes = [*_mixed_units(pieces)] or [*_chips(pieces)]
    return [*_copies(pieces), *sizes, *_flat_ones(pieces)]


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
    extents = np.array([float(np.ptp(piece.points, axis=0).max()) for piece in pieces])
    if len(pieces) < 2 or not _differ_by_unit(np.sort(extents)):
        return
    order = np.argsort(extents, kind="stable")
    cut = _widest_gap(extents[order])
    small, large = order[:cut], order[cut:]
    ratio = float(np.median(extents[large]) / np.median(extents[small]))
    odd, word, others = (large, "long", small) if len(large) <= len(small) else (small, "short", large)
    rest = pieces[others[0]].where if len(others) == 1 else "the others"
    yield (
        f"{_list([pieces[i].where for i in odd])} {'is' if len(odd) == 1 else 'are'} {ratio:,.0f} times as {word} as "
        f"{rest}; {_likely_unit(ratio, word == 'long')}"
    )


def _differ_by_unit(extents: np.ndarray) -> bool:
    """Whether lengths, ascending, are more different than those of one object are."""
    if extents[-1] > _MANY_TIMES * extents[0]:
        return True
    cut = _widest_gap(extents)
    alike = all(group[-1] <= _ALIKE * group[0] for group in (extents[:cut], extents[cut:]))
    # Of two pieces, one may be a chip of the other.
    return len(extents) > 2 and alike and bool(extents[cut] >= _GAP * extents[cut - 1])


def _widest_gap(extents: np.ndarray) -> int:
    """The number of lengths, ascending, below the widest gap between two."""
    return int((extents[1:] / extents[:-1]).argmax()) + 1


def _likely_unit(ratio: float, longer: bool) -> str:
    factor = min(_UNITS, key=lambda known: abs(np.log(ratio / known)))
    if not 1 / _NEAR < ratio / factor < _NEAR:
        return "if they are in different units, bring them to one"
    small, large = _UNITS[factor]
    taken, among = (small, large) if longer else (large, small)
    return f"probably {taken} among {among} (a factor of {factor:,}): bring all pieces to one unit"


def _chips(pieces: Sequence[PieceFile]) -> Iterator[str]:
    repairs = [piece.repair for piece in pieces]
    volumes = [abs(repair.mesh.volume) for repair in repairs if repair is not None and repair.is_outward]
    if len(volumes) < len(pieces):
        return  # clouds and open meshes have none
    names = [piece.name for piece, volume in zip(pieces, volumes, strict=True) if volume < _CHIP * sum(volumes)]
    if names:
        yield (
            f"{_list(names)}: less than {_CHIP:.0%} of the volume of all pieces{' each' * (len(names) > 1)}; chips "
            "like this are often placed wrongly, and the tiniest are set aside; leave them out if they do not matter"
        )


def _list(names: Sequence[str]) -> str:
    """Names in a sentence, the first few of many."""
    if len(names) > _MOST_NAMES + 1:
        return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _flat_ones(pieces: Sequence[PieceFile]) -> Iterator[str]:
    for piece in pieces:
        least, _, most = spread(piece.points)
        if least <= _FLAT * most:
            yield f"{piece.where}: all of its points lie in one plane; a piece with its thickness is easier to place"
