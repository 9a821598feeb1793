"""Pins: pieces whose place is known. In the result they are where they were put, and all else is found around them.

In: a motion (4, 4) in the user's own units for some pieces. Out: the same by index and checked; and whole assemblies
moved to where their pins are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eda.data.reading import as_motion, read_json
from eda.errors import InputError
from eda.lie import so3
from eda.registration.rigid import inverse, is_rigid

# The matrices of files are rounded, but what scales, shears or mirrors is no motion.
_TOLERANCE = 1e-3


def pins_by_index(pins: Mapping[Any, Any], names: Sequence[str]) -> dict[int, np.ndarray]:
    """Rigid motions (4, 4) by the index of the piece, from pins by index or name. Raises `InputError`."""
    return {_index_of(piece, names): _rigid_motion(motion, f"the pin of {piece!r}") for piece, motion in pins.items()}


def _index_of(piece: Any, names: Sequence[str]) -> int:
    if isinstance(piece, str) and list(names).count(piece) == 1:
        return list(names).index(piece)
    if isinstance(piece, int | np.integer) and 0 <= piece < len(names):
        return int(piece)
    raise InputError(f"there is no one piece {piece!r} to pin; the pieces are {', '.join(names)}")


def _rigid_motion(motion: Any, what: str) -> np.ndarray:
    matrix = as_motion(motion, what)
    if not is_rigid(matrix, _TOLERANCE):
        raise InputError(f"{what} is not rigid: it scales or shears")
    matrix[:3, :3] = so3.nearest(torch.from_numpy(matrix[:3, :3])).numpy()
    return matrix


def read_pin(path: Path, name: str) -> np.ndarray:
    """The known motion of a piece from a JSON file: 3 or 4 rows of 4, or an `assembly.json` that has placed it."""
    content = read_json(path)
    if isinstance(content, dict) and "alternatives" in content:
        content = _pose_in(content, path, name)
    return _rigid_motion(content, str(path))


def _pose_in(record: dict[str, Any], path: Path, name: str) -> Any:
    """The pose of a piece in the best alternative of an `assembly.json`."""
    try:
        (pose,) = [piece["pose"] for piece in record["alternatives"][0]["pieces"] if piece["name"] == name]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(f"{path}: an assembly, but not one with a piece {name!r}") from error
    if pose is None:
        raise InputError(f"{path}: this assembly has no place for {name!r}")
    return pose


def align_to_pins(pins: Mapping[int, np.ndarray], motions: np.ndarray) -> np.ndarray:
    """Assemblies (..., N, 4, 4) moved as wholes to where their pins are, each of which is then exact."""
    if not pins:
        return motions
    first = min(pins)
    moved = (pins[first] @ inverse(motions[..., first, :, :]))[..., None, :, :] @ motions
    for index, motion in pins.items():
        moved[..., index, :, :] = motion
    return moved
