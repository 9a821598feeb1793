"""DrawablePieces: pieces that can be drawn in any poses, as meshes if all of them are meshes, otherwise as discs.

In: pieces as they were given. Out: pictures of them, and the camera with the best view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eda.data.example import Example
from eda.data.piece_files import PieceFile
from eda.render.input_piece import InputPiece, can_draw_as_meshes
from eda.render.mesh_drawing import draw_mesh
from eda.render.point_drawing import draw_points, point_spacing
from eda.render.scene import best_view
from eda.render.virtual_camera import Camera

_MIN_DISCS = 60  # of a piece: fewer do not look like a surface
_VIEW_POINTS = 500  # of a piece, by which a view is chosen


@dataclass(frozen=True)
class DrawablePieces:
    """N pieces, each in its own frame: P points in all, one piece after the other."""

    points: np.ndarray  # (P, 3) float64, centres of discs or vertices of meshes
    piece: np.ndarray  # (P,) the piece of every point
    faces: np.ndarray | None = None  # (F, 3) rows of the points; None: discs
    normals: np.ndarray | None = None  # (P, 3) of discs; None: estimated
    radii: np.ndarray | None = None  # (P,) of discs

    @staticmethod
    def of(pieces: Sequence[InputPiece], max_discs: int) -> DrawablePieces:
        """Meshes if all pieces are light meshes, otherwise at most `max_discs` discs in all."""
        if can_draw_as_meshes(pieces):
            return DrawablePieces._of_meshes([piece.file for piece in pieces if piece.file is not None])
        each = max(max_discs // len(pieces), _MIN_DISCS)
        downsampled = [piece.downsample(each) for piece in pieces]
        clouds, normals = [piece.points for piece in downsampled], [piece.normals for piece in downsampled]
        return DrawablePieces(
            points=np.concatenate(clouds),
            piece=_piece_indices(clouds),
            normals=None if any(n is None for n in normals) else np.concatenate([n for n in normals if n is not None]),
            radii=np.concatenate([point_spacing(c, n) for c, n in zip(clouds, normals, strict=True)]),
        )

    @staticmethod
    def _of_meshes(files: Sequence[PieceFile]) -> DrawablePieces:
        clouds = [file.points for file in files]
        starts = np.cumsum([0, *(len(cloud) for cloud in clouds)])
        faces = [file.faces + start for file, start in zip(files, starts, strict=False) if file.faces is not None]
        return DrawablePieces(np.concatenate(clouds), _piece_indices(clouds), np.concatenate(faces))

    def posed_points(self, poses: np.ndarray) -> np.ndarray:
        """(P, 3) the points in the poses (N, 4, 4)."""
        return _rotate(self.points, poses, self.piece) + poses[self.piece, :3, 3]

    def picture(self, poses: np.ndarray, colors: np.ndarray, camera: Camera, size: int) -> np.ndarray:
        """(size, size, 3) uint8, the pieces in poses (N, 4, 4) and colours (N, 3)."""
        points = self.posed_points(poses)
        if self.faces is not None:
            return draw_mesh(points, self.faces, colors[self.piece[self.faces[:, 0]]], camera=camera, size=size)
        normals = None if self.normals is None else _rotate(self.normals, poses, self.piece)
        return draw_points(points, colors[self.piece], normals, camera=camera, size=size, radius=self.radii)


def best_view_of_pieces(pieces: Sequence[InputPiece], poses: np.ndarray) -> Camera:
    """The camera with the best view of the pieces in poses (N, 4, 4); it still has to be framed."""
    downsampled = [piece.downsample(_VIEW_POINTS).points for piece in pieces]
    clouds = [cloud @ pose[:3, :3].T + pose[:3, 3] for cloud, pose in zip(downsampled, poses, strict=True)]
    return best_view(Example.from_clouds("pieces", clouds))


def _piece_indices(clouds: Sequence[np.ndarray]) -> np.ndarray:
    """(P,) the index of its cloud for every point."""
    return np.repeat(np.arange(len(clouds)), [len(cloud) for cloud in clouds])


def _rotate(vectors: np.ndarray, poses: np.ndarray, piece: np.ndarray) -> np.ndarray:
    """(P, 3) every vector rotated by the pose of its piece."""
    return np.einsum("pij,pj->pi", poses[piece, :3, :3], vectors)
