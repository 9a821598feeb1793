"""Objects of our own to break: pots, figures, tools and stones, of random form, dented and bent.

In: a random generator. Out: a solid of about two thousand triangles and about one unit. No two are alike, and hardly
one has a symmetry that would leave the place of a piece undetermined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from eda.data.fracture.shapes.cutlery import CUTLERY
from eda.data.fracture.shapes.flat_objects import FLAT
from eda.data.fracture.shapes.implements import TOOLS
from eda.data.fracture.shapes.solid_objects import BLOCKS
from eda.data.fracture.shapes.statuettes import FIGURES
from eda.data.fracture.shapes.thin_limbs import THIN_LIMBED
from eda.data.fracture.shapes.thin_walls import THIN_WALLED
from eda.data.fracture.shapes.vessels import VESSELS
from eda.data.fracture.solids import connected_parts, size_of
from eda.errors import InputError

if TYPE_CHECKING:
    from manifold3d import Manifold

_THICK = {**VESSELS, **FIGURES, **TOOLS, **BLOCKS}
_THIN = {**FLAT, **CUTLERY, **THIN_WALLED, **THIN_LIMBED}
SHAPES: dict[str, Callable[[np.random.Generator], Manifold]] = {**_THICK, **_THIN}

# Kinds to measure on that a network has not been shown, some near to the others and some far from them.
HELD_OUT_KINDS = ("amphora", "bust", "chair", "plate", "spoon", "clump")
TRAIN_KINDS = tuple(name for name in SHAPES if name not in HELD_OUT_KINDS)
THIN_KINDS = tuple(_THIN)
# What `train` was before there were thin kinds, in the same order: a seed still gives the same puzzles of these.
THICK_KINDS = tuple(name for name in _THICK if name not in HELD_OUT_KINDS)

NUM_WAVES = 6


# Names for many kinds.
_GROUPS = {
    "all": tuple(SHAPES),
    "train": TRAIN_KINDS,
    "thick": THICK_KINDS,
    "thin": THIN_KINDS,
    "held_out": HELD_OUT_KINDS,
}


def kinds_of(words: Sequence[str]) -> tuple[str, ...]:
    """The kinds that words name, each a kind or one of the groups all, train, thick, thin and held_out."""
    return tuple(kind for word in words for kind in _GROUPS.get(word, (word,)))


def check_kinds(kinds: Sequence[str]) -> None:
    """Raises `InputError` for a kind of shape that there is not."""
    unknown = [kind for kind in kinds if kind not in SHAPES]
    if unknown or not kinds:
        raise InputError(f"no shapes {', '.join(unknown) or 'given'}; there are {', '.join(SHAPES)}")


def random_shape(rng: np.random.Generator, kinds: Sequence[str] | None = None) -> Manifold:
    """A shape of one of these kinds, or of any kind."""
    kinds = tuple(SHAPES) if kinds is None else kinds
    check_kinds(kinds)
    solid = SHAPES[kinds[int(rng.integers(len(kinds)))]](rng)
    return _dent(connected_parts(solid)[0], rng)  # where parts were stuck together, a crumb may be left over


def _dent(solid: Manifold, rng: np.random.Generator) -> Manifold:
    """The solid moved by a smooth field that nowhere folds space, then stretched and twisted a little."""
    lengths = size_of(solid) * rng.uniform(0.5, 1.2, size=(NUM_WAVES, 1))
    along, push = rng.normal(size=(2, NUM_WAVES, 3))
    along *= 2 * np.pi / lengths / np.linalg.norm(along, axis=1, keepdims=True)
    # A wave shears space by at most a tenth, so all of them together by less than one.
    shear = rng.uniform(0.02, 0.1, size=(NUM_WAVES, 1))
    push *= shear * lengths / (2 * np.pi) / np.linalg.norm(push, axis=1, keepdims=True)
    phase = rng.uniform(0, 2 * np.pi, size=NUM_WAVES)
    stretch, twist = rng.uniform(0.85, 1.15, size=3), rng.normal() * 0.2

    def warp(x: np.ndarray) -> np.ndarray:
        x = (x + np.sin(x @ along.T + phase) @ push) * stretch
        cosine, sine = np.cos(twist * x[:, 2]), np.sin(twist * x[:, 2])
        return np.stack([cosine * x[:, 0] - sine * x[:, 1], sine * x[:, 0] + cosine * x[:, 1], x[:, 2]], axis=-1)

    return solid.warp_batch(warp)
