"""Breaking closed solids into rough pieces that fit exactly.

In: a closed mesh or a solid, and how to break it. Out: `Fracture`: the surfaces of its pieces, each triangle knowing
the cut that made it; from these, labelled points.

A cut may leave crumbs: they are joined to what they touched across the cut. A cut that leaves a side without a piece
of sufficient size is drawn again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eda.data.example import Example
from eda.data.fracture.cracks import KINDS, Crack
from eda.data.fracture.labelled_points import PieceSurface, label_points
from eda.data.fracture.solids import connected_parts, mesh_of, one_solid, origins_of, size_of, solid_of, union
from eda.data.meshes import Mesh
from eda.errors import InputError
from eda.settings import check_positive, check_whole

if TYPE_CHECKING:
    from manifold3d import Manifold

MAX_PIECES = 20
MOST_POINTS = 1_000_000
TRIES_PER_PIECE = 8  # cuts drawn for one more piece before an object counts as broken enough
ATTEMPTS = 3  # at reaching the number of pieces
ROUNDING = 1e-6  # of the volume of the smallest piece
TOUCHING = 0.01  # what is nearer than this share of the object's size touches, after material was lost


@dataclass(frozen=True)
class FractureConfig:
    """How to break things. Lengths are relative to the object's size, the diagonal of its bounding box."""

    min_pieces: int = 2
    max_pieces: int = 8
    weights: tuple[float, ...] | None = None  # of min_pieces, ..., max_pieces; None: all alike
    kinds: tuple[str, ...] = tuple(KINDS)  # each object breaks in one of these ways
    roughness: float = 0.02  # standard deviation of a break from a smooth one; an object gets a third of it or more
    min_volume: float = 1 / 40  # of a piece, as a share of the whole
    chips: float = 0.0  # chance that an object breaks into a body and chips
    missing: float = 0.0  # chance of each piece to be left out; two always stay
    foreign: float = 0.0  # chance, for each piece, that a piece of another object is put in
    erosion: float = 0.0  # widest gap along the breaks; an object gets a third of it or more
    num_points: int = 4000  # of all pieces together

    def __post_init__(self) -> None:
        check_whole("min_pieces", self.min_pieces, 2, MAX_PIECES)
        check_whole("max_pieces", self.max_pieces, self.min_pieces, MAX_PIECES)
        check_whole("num_points", self.num_points, 100, MOST_POINTS)
        check_positive("roughness", self.roughness)
        check_positive("min_volume", self.min_volume)
        for name, most in (("chips", 1), ("missing", 1), ("foreign", 1), ("erosion", 0.2)):
            _check_share(name, getattr(self, name), most)
        if self.min_volume * self.min_pieces >= 1:
            raise InputError(f"{self.min_pieces} pieces cannot each have {self.min_volume:.3g} of the volume")
        if not self.kinds or not set(self.kinds) <= set(KINDS):
            raise InputError(f"kinds must be some of {', '.join(KINDS)}, got {self.kinds!r}")
        if self.weights is not None:
            _check_weights(self.weights, self.max_pieces - self.min_pieces + 1)


def _check_share(name: str, value: Any, most: float) -> None:
    if type(value) not in (int, float) or not 0 <= value <= most:
        raise InputError(f"{name} must be a number from 0 to {most}, got {value!r}")


def _check_weights(weights: Any, count: int) -> None:
    if len(weights) != count or not all(0 <= weight < math.inf for weight in weights) or not sum(weights) > 0:
        raise InputError(f"weights must be {count} numbers, none negative and one positive, got {weights!r}")


@dataclass(frozen=True)
class Fracture:
    """A broken object, its pieces in assembled position and in random order."""

    pieces: tuple[PieceSurface, ...]
    volume: float  # of the whole
    size: float  # of the whole
    touching: float  # what is not farther than this touches; infinite if no material was lost
    missing: frozenset[int] = frozenset()  # pieces that are not there
    foreign: tuple[PieceSurface, ...] = ()  # pieces of another object

    @property
    def present(self) -> list[int]:
        """The pieces that are not missing."""
        return [index for index in range(len(self.pieces)) if index not in self.missing]

    def with_missing_and_foreign(
        self, rng: np.random.Generator, config: FractureConfig, other: Fracture | None = None
    ) -> Fracture:
        """The fracture with some pieces left out, and some of another object added, scaled to the size of this one."""
        order = rng.permutation(len(self.pieces))
        missing = order[: max(0, min(int(rng.binomial(len(order), config.missing)), len(order) - 2))]
        foreign = () if other is None else other._some(rng, int(rng.binomial(len(order), config.foreign)))
        scale = 1.0 if other is None else self.size / other.size
        return replace(
            self, missing=frozenset(missing.tolist()), foreign=tuple(surface.scaled(scale) for surface in foreign)
        )

    def _some(self, rng: np.random.Generator, count: int) -> tuple[PieceSurface, ...]:
        return tuple(self.pieces[i] for i in rng.permutation(len(self.pieces))[:count])

    def example(self, num_points: int, rng: np.random.Generator, name: str) -> Example:
        """About `num_points` labelled points, at the same density on all pieces that are there."""
        return label_points(name, self.pieces, self.missing, self.foreign, num_points, self.touching, rng)


def fracture(
    whole: Mesh | Manifold, rng: np.random.Generator, config: FractureConfig | None = None, name: str = "mesh"
) -> Fracture:
    """Break a closed mesh or a solid. Raises `InputError` if it cannot be broken into the smallest number of pieces.

    The number of pieces is drawn; an object that does not yield so many gets as many as it does.
    """
    config = config or FractureConfig()
    solid = one_solid(solid_of(whole.vertices, whole.faces, name), name) if isinstance(whole, Mesh) else whole
    counts = np.arange(config.min_pieces, config.max_pieces + 1)
    weights = None if config.weights is None else np.array(config.weights) / np.sum(config.weights)
    count = int(rng.choice(counts, p=weights))
    best = max(_attempts(solid, count, rng, config), key=lambda breakage: len(breakage.parts))
    if len(best.parts) < config.min_pieces:
        raise InputError(
            f"{name}: cannot be broken into {config.min_pieces} pieces that have {config.min_volume:.3g} of its volume"
        )
    return best.fracture(rng)


def _attempts(solid: Manifold, count: int, rng: np.random.Generator, config: FractureConfig) -> list[_Breakage]:
    """Tries to break into so many pieces, up to the first that succeeds."""
    attempts: list[_Breakage] = []
    while len(attempts) < ATTEMPTS and not (attempts and len(attempts[-1].parts) == count):
        kind = config.kinds[rng.integers(len(config.kinds))]
        surface, size = mesh_of(solid), size_of(solid)
        crack = Crack.draw(rng, kind, surface, size, config.roughness, config.erosion, config.chips)
        attempts.append(_Breakage(solid, crack, config.min_volume * solid.volume()))
        attempts[-1].run(count, rng)
    return attempts


@dataclass(frozen=True)
class _SolidPart:
    """A piece in the making."""

    solid: Manifold
    mesh: Mesh  # its surface
    weight: float  # how readily it breaks; 0 if it is too small


@dataclass
class _Breakage:
    """An object as it breaks, cut after cut."""

    whole: Manifold
    crack: Crack
    smallest: float  # volume of a piece
    parts: list[_SolidPart] = field(default_factory=list)
    cut_of_mark: dict[int, int] = field(default_factory=dict)  # which cut the faces with an id come from
    num_tries: int = 0

    def run(self, count: int, rng: np.random.Generator) -> None:
        """Cut until there are so many parts, or no hope of it."""
        self.parts = [self._part(self.whole)]
        while len(self.parts) < count and self.num_tries < TRIES_PER_PIECE * count:
            weights = np.array([part.weight for part in self.parts])
            if not weights.sum() > 0:
                return
            self._cut(int(rng.choice(len(weights), p=weights / weights.sum())), count, rng)

    def _part(self, solid: Manifold) -> _SolidPart:
        volume, mesh = solid.volume(), mesh_of(solid)
        share = volume / self.whole.volume()
        return _SolidPart(solid, mesh, self.crack.weight(share, mesh) if volume > 2 * self.smallest else 0.0)

    def _cut(self, index: int, count: int, rng: np.random.Generator) -> None:
        """Try to cut one part."""
        self.num_tries += 1
        part = self.parts[index]
        below, above, marks = self.crack.sheet(rng, part.mesh).split(part.solid)
        made = _pieces(below, above, self.smallest)
        if made and len(self.parts) - 1 + len(made) <= count and self._adds_up(part.solid, made):
            self.parts[index : index + 1] = [self._part(solid) for solid in made]
            self.cut_of_mark.update(dict.fromkeys(marks, self.num_tries))

    def _adds_up(self, solid: Manifold, made: list[Manifold]) -> bool:
        """Cuts through a surface that crosses itself may lose or win some volume; erosion should lose some."""
        lost, rounding = solid.volume() - sum(part.volume() for part in made), ROUNDING * self.smallest
        return lost >= -rounding if self.crack.erosion else abs(lost) <= rounding

    def fracture(self, rng: np.random.Generator) -> Fracture:
        """The result, its pieces in random order."""
        size = self.crack.size
        return Fracture(
            pieces=tuple(self._surface(self.parts[i]) for i in rng.permutation(len(self.parts))),
            volume=self.whole.volume(),
            size=size,
            touching=TOUCHING * size if self.crack.erosion else math.inf,
        )

    def _surface(self, part: _SolidPart) -> PieceSurface:
        origin, back = origins_of(part.solid)
        marks, which = np.unique(origin, return_inverse=True)
        cut = np.array([self.cut_of_mark.get(mark, -1) for mark in marks.tolist()])[which]
        return PieceSurface(part.mesh, np.where(cut < 0, -1, 2 * cut + back))


def _pieces(below: Manifold, above: Manifold, smallest: float) -> list[Manifold]:
    """The connected parts on both sides of a cut, crumbs joined to what they touch; none if that cannot be done."""
    sides = [[(part, part.volume()) for part in connected_parts(side)] for side in (below, above)]
    large = [[part for part, volume in side if volume >= smallest] for side in sides]
    crumbs = [[part for part, volume in side if volume < smallest] for side in sides]
    if not (large[0] and large[1]):
        return []
    for crumb, others in ((crumb, large[1 - side]) for side in (0, 1) for crumb in crumbs[side]):
        if not _join(crumb, others):
            return []
    return large[0] + large[1]


def _join(crumb: Manifold, others: list[Manifold]) -> bool:
    """Join a crumb to the one among the others with which it shares most surface; False if it hangs on none."""
    unions = [union([crumb, other]) for other in others]
    shared = [other.surface_area() - union.surface_area() for union, other in zip(unions, others, strict=True)]
    best = int(np.argmax(shared))
    parts = connected_parts(unions[best])
    others[best] = parts[0]
    return len(parts) == 1
