"""Cuts: rough sheets along which a solid breaks in two.

In: a solid, a frame and a height field. Out: what lies on both sides, and the ids by which the faces of the break are
known afterwards.

One boolean gives both sides, so they fit exactly. It runs in the frame of the sheet: there the walls that close the
cutter stay clear of the solid, which makes it several times as fast as in an oblique frame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from eda.data.fracture.solids import box_of, rotate_solid, solid_with_id

if TYPE_CHECKING:
    from manifold3d import Manifold

Heights = Callable[[np.ndarray, np.ndarray], np.ndarray]  # u (n,), v (m,) -> (n, m)

# The breaks of most materials, from glass to bronze, are self-affine with about this exponent.
HURST = 0.8
WAVES_PER_OCTAVE = 10

MAX_CELLS = 48  # of a sheet, along one axis: the time of a boolean grows with their number


def waves(rng: np.random.Generator, longest: float, shortest: float, deviation: float) -> Heights:
    """Smooth self-affine noise of this standard deviation: octaves of plane waves, the longest first."""
    octaves = max(1, round(np.log2(longest / shortest)) + 1)
    lengths = np.repeat(longest / 2.0 ** np.arange(octaves), WAVES_PER_OCTAVE)
    lengths = lengths * rng.uniform(0.7, 1.4, size=lengths.shape)
    turn, phase = 2 * np.pi * rng.random((2, *lengths.shape))
    amplitude = lengths**HURST * np.exp(1j * phase)
    amplitude *= deviation * np.sqrt(2 / np.square(np.abs(amplitude)).sum())
    along_u, along_v = 2j * np.pi / lengths * np.cos(turn), 2j * np.pi / lengths * np.sin(turn)
    return lambda u, v: np.real((np.exp(np.outer(u, along_u)) * amplitude) @ np.exp(np.outer(along_v, v)))


def bend(rng: np.random.Generator, curvature: float) -> Heights:
    """A paraboloid with random curvatures of this order."""
    a, b, c = rng.normal(size=3) * curvature / 2
    return lambda u, v: a * np.square(u)[:, None] + b * np.square(v)[None, :] + c * np.outer(u, v)


def facets(rng: np.random.Generator, reach: float) -> Heights:
    """The wall between two groups of cells of a Voronoi diagram: planes that meet in edges.

    With the seeds a of one group below the plane w = 0 and the seeds b of the other above it, a point belongs to the
    upper group where some b is nearer than every a, that is above min_b max_a h_ab, h_ab the bisecting plane of a, b.
    """
    below, above = (rng.uniform(-reach, reach, size=(count, 3)) for count in rng.integers(1, 4, size=2))
    below[:, 2] = -reach * rng.uniform(0.4, 1, size=len(below))
    above[:, 2] = reach * rng.uniform(0.4, 1, size=len(above))
    apart = above[:, None] - below  # (b, a, 3)
    level = (np.square(above).sum(-1)[:, None] - np.square(below).sum(-1)) / (2 * apart[..., 2])
    slope = -apart[..., :2] / apart[..., 2:]

    def heights(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        planes = level[..., None, None] + slope[..., :1, None] * u[:, None] + slope[..., 1:, None] * v
        return planes.max(axis=1).min(axis=0)

    return heights


@dataclass(frozen=True)
class Sheet:
    """w = H(u, v) about a point, in a frame; what lies less than gap / 2 above or below it is lost."""

    frame: np.ndarray  # (3, 3) a rotation; its rows are the axes u, v, w
    point: np.ndarray  # (3,) where u = v = w = 0
    heights: Heights
    step: float  # between the sheet's vertices
    gap: Heights | None = None  # None: nothing is lost

    def split(self, solid: Manifold) -> tuple[Manifold, Manifold, list[int]]:
        """What lies below the sheet, what lies above it, and the ids of the faces of the break."""
        turned = rotate_solid(solid, self.frame)
        u, v, bottom = self._extent(turned)
        origin = self.frame @ self.point
        heights = origin[2] + self.heights(u - origin[0], v - origin[1])
        bottom = min(bottom, heights.min()) - self.step
        if self.gap is None:
            cutter, mark = _lower_half(u, v, heights, bottom)
            (below, above), marks = turned.split(cutter), [mark]
        else:
            half_gap = self.gap(u, v) / 2
            lower, first = _lower_half(u, v, heights - half_gap, bottom)
            upper, second = _lower_half(u, v, heights + half_gap, bottom)
            below, above, marks = turned ^ lower, turned - upper, [first, second]
        return rotate_solid(below, self.frame.T), rotate_solid(above, self.frame.T), marks

    def _extent(self, turned: Manifold) -> tuple[np.ndarray, np.ndarray, float]:
        """The sheet's vertices along u and v, which go a little beyond the solid; and how deep the solid reaches."""
        low, high = box_of(turned) + np.outer([-1, 1], np.full(3, self.step / 4))
        cells = np.clip(np.ceil((high - low) / self.step).astype(int), 3, MAX_CELLS)
        u, v = (np.linspace(low[axis], high[axis], cells[axis] + 1) for axis in (0, 1))
        return u, v, float(low[2])


def _lower_half(u: np.ndarray, v: np.ndarray, heights: np.ndarray, bottom: float) -> tuple[Manifold, int]:
    """The solid between a height field (n, m) and a floor below it, and its id."""
    sheet = np.stack([*np.meshgrid(u, v, indexing="ij"), heights], axis=-1).reshape(-1, 3)
    floor = [(u[0], v[0], bottom), (u[-1], v[0], bottom), (u[-1], v[-1], bottom), (u[0], v[-1], bottom)]
    return solid_with_id(np.concatenate([sheet, floor]), _lower_half_faces(*heights.shape))


@lru_cache(maxsize=256)
def _lower_half_faces(n: int, m: int) -> np.ndarray:
    """The triangles of a sheet of n x m vertices, closed by four walls and a floor on four more vertices."""
    grid = np.arange(n * m).reshape(n, m)
    a, b, c, d = grid[:-1, :-1], grid[1:, :-1], grid[1:, 1:], grid[:-1, 1:]
    faces = [np.stack(corners, axis=-1).reshape(-1, 3) for corners in ((a, b, c), (a, c, d))]
    for side, rim in enumerate((grid[:, 0], grid[-1, :], grid[::-1, -1], grid[0, ::-1])):
        near, far, half = n * m + side, n * m + (side + 1) % 4, len(rim) // 2
        foot = np.where(np.arange(len(rim) - 1) < half, near, far)
        faces += [np.stack([rim[1:], rim[:-1], foot], axis=-1), np.array([[near, far, rim[half]]])]
    return np.concatenate([*faces, n * m + np.array([[0, 2, 1], [0, 3, 2]])])
