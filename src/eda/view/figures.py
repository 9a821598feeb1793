"""Figures: pieces that can be drawn in any poses, as meshes where all of them are meshes, else as discs.

In: pieces as they came. Out: pictures of them, and the camera that sees most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eda.cloud import farthest_points
from eda.data.example import Example
from eda.data.piece_files import PieceFile
from eda.view.camera import Camera
from eda.view.mesh import draw_mesh
from eda.view.scene import good_view
from eda.view.splat import spacing, splat

MOST_TRIANGLES = 60_000  # of all pieces together; more are drawn as discs, which take the same time for any mesh
_FEWEST_POINTS = 60  # of a piece: fewer are no surface
_LOOKED_AT = 500  # points of a piece, to choose a view by


@dataclass(frozen=True)
class Given:
    """A piece as it came: what is delivered is moved from here."""

    name: str
    points: np.ndarray  # (n, 3) float64 on its surface
    normals: np.ndarray | None  # (n, 3) outward
    file: PieceFile | None = None  # what it was read from

    @property
    def num_triangles(self) -> int | None:
        """Of its mesh; None if it is a cloud."""
        return None if self.file is None or self.file.faces is None else len(self.file.faces)

    def thinned(self, count: int) -> Given:
        """With so many points, or what there are, evenly spaced."""
        rows = farthest_points(self.points, min(count, len(self.points)))
        return Given(self.name, self.points[rows], None if self.normals is None else self.normals[rows], self.file)


def are_meshes(pieces: Sequence[Given]) -> bool:
    """Whether all pieces are meshes, and together light enough to be drawn as such."""
    counts = [piece.num_triangles for piece in pieces]
    return None not in counts and sum(count or 0 for count in counts) <= MOST_TRIANGLES


@dataclass(frozen=True)
class Figures:
    """N pieces, each in its own frame: P points in all, one piece after the other."""

    points: np.ndarray  # (P, 3) float64, middles of discs or vertices of meshes
    piece: np.ndarray  # (P,) the piece of every point
    faces: np.ndarray | None = None  # (F, 3) rows of the points; None: discs
    normals: np.ndarray | None = None  # (P, 3) of discs; None: estimated
    radii: np.ndarray | None = None  # (P,) of discs

    @staticmethod
    def of(pieces: Sequence[Given], most_points: int) -> Figures:
        """Of pieces with at most so many discs in all, if they are drawn as such."""
        if are_meshes(pieces):
            return Figures._of_meshes([piece.file for piece in pieces if piece.file is not None])
        each = max(most_points // len(pieces), _FEWEST_POINTS)
        few = [piece.thinned(each) for piece in pieces]
        clouds, normals = [piece.points for piece in few], [piece.normals for piece in few]
        return Figures(
            points=np.concatenate(clouds),
            piece=_numbered(clouds),
            normals=None if any(n is None for n in normals) else np.concatenate([n for n in normals if n is not None]),
            radii=np.concatenate([spacing(c, n) for c, n in zip(clouds, normals, strict=True)]),
        )

    @staticmethod
    def _of_meshes(files: Sequence[PieceFile]) -> Figures:
        clouds = [file.points for file in files]
        starts = np.cumsum([0, *(len(cloud) for cloud in clouds)])
        faces = [file.faces + start for file, start in zip(files, starts, strict=False) if file.faces is not None]
        return Figures(np.concatenate(clouds), _numbered(clouds), np.concatenate(faces))

    def moved(self, poses: np.ndarray) -> np.ndarray:
        """(P, 3) where poses (N, 4, 4) put the points."""
        return _turned(self.points, poses, self.piece) + poses[self.piece, :3, 3]

    def picture(self, poses: np.ndarray, colors: np.ndarray, camera: Camera, size: int) -> np.ndarray:
        """(size, size, 3) uint8 of the pieces in poses (N, 4, 4) and colours (N, 3)."""
        points = self.moved(poses)
        if self.faces is not None:
            return draw_mesh(points, self.faces, colors[self.piece[self.faces[:, 0]]], camera=camera, size=size)
        normals = None if self.normals is None else _turned(self.normals, poses, self.piece)
        return splat(points, colors[self.piece], normals, camera=camera, size=size, radius=self.radii)


def view_of(pieces: Sequence[Given], poses: np.ndarray) -> Camera:
    """A camera at the good side of the pieces in these poses; it is not framed yet."""
    few = [piece.thinned(_LOOKED_AT).points for piece in pieces]
    clouds = [cloud @ pose[:3, :3].T + pose[:3, 3] for cloud, pose in zip(few, poses, strict=True)]
    return good_view(Example.from_clouds("pieces", clouds))


def between(start: np.ndarray, end: np.ndarray, middles: np.ndarray, count: int) -> np.ndarray:
    """(count, N, 4, 4) the way from one pose (N, 4, 4) to another, which it reaches; without its start.

    Pieces turn about their middles (N, 3), which go straight.
    """
    from scipy.spatial.transform import Rotation

    turn = Rotation.from_matrix(end[:, :3, :3] @ start[:, :3, :3].swapaxes(1, 2)).as_rotvec()
    here, there = (np.einsum("nij,nj->ni", g[:, :3, :3], middles) + g[:, :3, 3] for g in (start, end))
    way = np.tile(np.eye(4), (count, len(start), 1, 1))
    for pose, share in zip(way, np.linspace(0, 1, count + 1)[1:], strict=True):
        pose[:, :3, :3] = Rotation.from_rotvec(share * turn).as_matrix() @ start[:, :3, :3]
        pose[:, :3, 3] = here + share * (there - here) - np.einsum("nij,nj->ni", pose[:, :3, :3], middles)
    return way


def _numbered(clouds: Sequence[np.ndarray]) -> np.ndarray:
    return np.repeat(np.arange(len(clouds)), [len(cloud) for cloud in clouds])


def _turned(directions: np.ndarray, poses: np.ndarray, piece: np.ndarray) -> np.ndarray:
    return np.einsum("pij,pj->pi", poses[piece, :3, :3], directions)
