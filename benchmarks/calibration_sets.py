"""Puzzles to calibrate on: those that belong together, and those that do not.

    fractures   as they are
    foreign     with a piece of another object
    strangers   a piece of one object and a piece of another
    copies      a piece twice
    parts       blocks and posts that were made to fit: they touch without a break

What does not belong together lies far apart in its solution, so that nothing that an assembler says of it is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from eda.data import Example, Source
from eda.data.augment import with_foreign_piece
from eda.data.mesh_samples import sample_example
from eda.data.meshes import Mesh
from eda.data.rooms.forms import box, tube
from eda.evaluate import even_indices
from eda.evaluate.scatter import ScatteredPuzzle

SETS = {"fractures": 110, "foreign": 25, "strangers": 60, "copies": 30, "parts": 50}  # how many puzzles of each
FAR = 100.0  # times the size of a piece
POINTS = 4000  # of a puzzle of parts


@dataclass(frozen=True)
class Puzzles:
    """The puzzles of some sets, made from sources of broken objects in turn, evenly over each."""

    sources: Sequence[Source]
    names: Sequence[str]
    share: float = 1.0  # of the usual number

    def __iter__(self) -> Iterator[tuple[str, int, ScatteredPuzzle]]:
        """Set by set, numbered within it."""
        for name in self.names:
            for number in range(round(self.share * SETS[name])):
                seed = (list(SETS).index(name), number)
                yield name, number, ScatteredPuzzle.of(self._make(name, number, seed), seed[0], number)

    def _make(self, name: str, number: int, seed: tuple[int, int]) -> Example:
        rng = np.random.default_rng(seed)
        if name == "parts":
            return parts(rng, number)
        source = self.sources[number % len(self.sources)]
        count = -(-round(self.share * SETS[name]) // len(self.sources))
        index = even_indices(len(source), count)[(number // len(self.sources)) % len(source)]
        example, other = source[index], source[(index + len(source) // 2) % len(source)]
        if name == "foreign":
            return with_foreign_piece(example, other, rng)
        if name == "strangers":
            return strangers(example, other, rng)
        return copies(example, rng) if name == "copies" else example


def strangers(example: Example, other: Example, rng: np.random.Generator) -> Example:
    """A piece of each, the second often scaled to the extent of the first."""
    ours, theirs = _some_piece(example, rng), _some_piece(other, rng)
    scale = _extent(ours[0]) / _extent(theirs[0]) if rng.random() < 0.5 else 1.0
    return _apart(f"strangers-{example.name}", ours, (scale * theirs[0], theirs[1]))


def copies(example: Example, rng: np.random.Generator) -> Example:
    """A piece twice: with the very same points, or with half of them each, as two scans of it would have it."""
    points, normals = _some_piece(example, rng)
    order = rng.permutation(len(points))
    first, second = (order[::2], order[1::2]) if rng.random() < 0.5 else (order, order)
    return _apart(f"copies-{example.name}", (points[first], normals[first]), (points[second], normals[second]))


def parts(rng: np.random.Generator, number: int) -> Example:
    """Two to six blocks and posts, each standing with a flat end on a flat side of another."""
    bounds = [_block(np.zeros(3), rng.uniform(0.1, 1, 3))]
    meshes = [box(*bounds[0])]
    for _ in range(int(rng.integers(1, 6))):
        low, high, axis = _beside(bounds[rng.integers(len(bounds))], rng)
        bounds.append((low, high))
        meshes.append(box(low, high) if rng.random() < 0.6 else _post(low, high, axis))
    return sample_example(f"parts-{number}", meshes, POINTS, rng)


Bounds = tuple[np.ndarray, np.ndarray]  # (3,) low, (3,) high


def _block(middle: np.ndarray, edges: np.ndarray) -> Bounds:
    return middle - edges / 2, middle + edges / 2


def _beside(bounds: Bounds, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, int]:
    """A block on a random side of another, no wider there than that; and the axis across that side."""
    low, high = bounds
    axis, edges = int(rng.integers(3)), (high - low) * rng.uniform(0.15, 1, 3)
    edges[axis] = rng.uniform(0.05, 1)
    start = low + rng.random(3) * (high - low - edges)
    start[axis] = high[axis] if rng.random() < 0.5 else low[axis] - edges[axis]
    return start, start + edges, axis


def _post(low: np.ndarray, high: np.ndarray, axis: int) -> Mesh:
    """A round post along an axis, within a block."""
    edges = np.roll(high - low, 2 - axis)
    upright = tube([edges[:2].min() / 2] * 2, [-edges[2] / 2, edges[2] / 2], 24)
    return Mesh(np.roll(upright.vertices, axis - 2, axis=1) + (low + high) / 2, upright.faces)


def _some_piece(example: Example, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The points and normals of one piece, about its middle."""
    piece = int(rng.integers(example.num_pieces))
    points = example.clouds()[piece]
    assert example.normals is not None
    return points - points.mean(axis=0), example.clouds(example.normals)[piece]


def _extent(points: np.ndarray) -> float:
    return float(np.linalg.norm(np.ptp(points, axis=0)))


def _apart(name: str, *pieces: tuple[np.ndarray, np.ndarray]) -> Example:
    far = FAR * _extent(pieces[0][0])
    clouds = [points + i * far for i, (points, _) in enumerate(pieces)]
    return Example.from_clouds(name, clouds, [normals for _, normals in pieces])
