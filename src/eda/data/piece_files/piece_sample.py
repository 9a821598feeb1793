"""Points with normals from a piece, more than are needed, so that farthest point sampling can choose among them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eda.cloud import estimate_normals
from eda.data.mesh_repair import Repair
from eda.data.mesh_samples import sample_surfaces
from eda.data.meshes import Mesh
from eda.data.piece_files.piece_file import PieceFile
from eda.settings import check_whole

DENSER = 8  # candidates for every point that is needed


class PieceSample(NamedTuple):
    """Points of a piece."""

    points: np.ndarray  # (n, 3)
    normals: np.ndarray  # (n, 3) unit
    oriented: bool  # whether the normals point out of the piece, or are right only up to their sign


def sample_piece(piece: PieceFile, num_points: int, rng: np.random.Generator) -> PieceSample:
    """Up to `DENSER` times `num_points` points, chosen by a rule that does not know the axes.

    Meshes are repaired, and drawn from evenly by area. Clouds are thinned at random; normals of the file are taken to
    point outward, missing ones are estimated.
    """
    check_whole("num_points", num_points, 1, 10**7)
    if piece.repair is not None:
        return _from_surface(piece.repair, DENSER * num_points, rng)
    rows = np.arange(len(piece.points))
    if len(rows) > DENSER * num_points:
        rows = np.sort(rng.choice(len(rows), DENSER * num_points, replace=False, shuffle=False))
    points = piece.points[rows]
    if piece.normals is not None:
        return PieceSample(points, piece.normals[rows], oriented=True)
    return PieceSample(points, estimate_normals(points), oriented=False)


def _from_surface(repair: Repair, count: int, rng: np.random.Generator) -> PieceSample:
    mesh = repair.mesh
    center = mesh.vertices.mean(axis=0)
    extent = np.abs(mesh.vertices - center).max()
    # In its own units, because areas and volumes of tiny or remote pieces lose their digits.
    unit = Mesh((mesh.vertices - center) / extent, mesh.faces)
    (sample,) = sample_surfaces([unit], count, rng)
    return PieceSample(center + extent * sample.points, sample.normals, repair.is_outward)
