"""The surfaces of broken pieces as points, and which piece each of them touches.

In: surfaces whose triangles know the cut that made them. Out: an `Example`.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from eda.data.example import LOST, OUTER, Example
from eda.data.mesh_samples import SurfaceSample, sample_surfaces
from eda.data.meshes import Mesh


@dataclass(frozen=True)
class PieceSurface:
    """The closed surface of a piece."""

    mesh: Mesh
    side: np.ndarray  # (F,) -1 on the object's own surface; 2 c below cut c, 2 c + 1 above it

    def scaled(self, factor: float) -> PieceSurface:
        """Larger or smaller, with its centre at the origin."""
        centred = self.mesh.vertices - self.mesh.vertices.mean(axis=0)
        return PieceSurface(Mesh(factor * centred, self.mesh.faces), self.side)


def label_points(
    name: str,
    pieces: Sequence[PieceSurface],
    missing: AbstractSet[int],
    foreign: Sequence[PieceSurface],
    num_points: int,
    touching: float,
    rng: np.random.Generator,
) -> Example:
    """About `num_points` points, evenly by area, on the pieces that are not missing and on the foreign ones.

    The missing ones are drawn too, since what touches them is to be labelled LOST; so is what is farther than
    `touching` from the other side of its break, and every break of a foreign piece.
    """
    surfaces = [*pieces, *foreign]
    there = np.array([index not in missing for index in range(len(surfaces))])
    areas = np.array([surface.mesh.area for surface in surfaces])
    in_all = round(num_points * areas.sum() / areas[there].sum())
    samples = sample_surfaces([surface.mesh for surface in surfaces], in_all, rng)
    sides = [surface.side[sample.faces] for surface, sample in zip(surfaces, samples, strict=True)]
    own = len(pieces)
    contact = _contact_across_cuts(samples[:own], sides[:own], touching) + [
        np.where(s < 0, OUTER, LOST) for s in sides[own:]
    ]
    new_number = np.append(np.where(there, np.cumsum(there) - 1, LOST), [LOST, OUTER])  # the last two: at -2 and -1
    kept = np.flatnonzero(there)
    return Example.from_clouds(
        name,
        [samples[i].points for i in kept],
        [samples[i].normals for i in kept],
        [new_number[contact[i]] for i in kept],
        [bool(i >= own) for i in kept],
    )


def _contact_across_cuts(
    samples: Sequence[SurfaceSample], sides: Sequence[np.ndarray], touching: float
) -> list[np.ndarray]:
    """For the points of every piece, the piece on the other side of the same cut, or OUTER or LOST."""
    from scipy.spatial import cKDTree

    points, normals = (np.concatenate([getattr(s, name) for s in samples]) for name in ("points", "normals"))
    side, sizes = np.concatenate(sides), [len(s.points) for s in samples]
    piece = np.repeat(np.arange(len(samples)), sizes)
    broken = side >= 0
    if not broken.any():  # breaks so small that no point fell on them
        return [np.full(size, OUTER) for size in sizes]
    points, normals, side, piece = points[broken], normals[broken], side[broken], piece[broken]
    apart = 10 * np.ptp(points, axis=0).max()  # a fourth coordinate, so that only the other side is found
    tree = cKDTree(np.column_stack([points, apart * side]))
    distance, nearest = tree.query(np.column_stack([points, apart * (side ^ 1)]))
    gap = np.abs(np.einsum("px,px->p", points[nearest] - points, normals))
    # Where material was lost, a piece may have both sides of a cut, and nothing in between.
    met = (distance < apart / 2) & (gap <= touching) & (piece[nearest] != piece)
    contact = np.full(len(broken), OUTER)
    contact[broken] = np.where(met, piece[nearest], LOST)
    return np.split(contact, np.cumsum(sizes)[:-1])
