"""Animations: pieces on their way from noise to an assembly, seen by one camera."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from eda.errors import InputError
from eda.lie import SE3
from eda.pieces import Pieces
from eda.render.colors import piece_colors
from eda.render.image_files import encode_gif
from eda.render.point_drawing import draw_points
from eda.render.scene import best_view, disc_radii, piece_of_point, posed_example
from eda.render.virtual_camera import Camera


def animate(
    pieces: Pieces,
    poses: SE3,
    *,
    colors: np.ndarray | None = None,
    camera: Camera | None = None,
    size: int = 360,
    milliseconds: int = 80,
) -> bytes:
    """A GIF of one puzzle's pieces in poses (T, N), from first to last; colors (N, 3) of the pieces.

    Without a camera, the best view of the last frame is taken and made wide enough for all frames.
    """
    return encode_gif(list(draw_frames(pieces, poses, colors=colors, camera=camera, size=size)), milliseconds)


def draw_frames(
    pieces: Pieces, poses: SE3, *, colors: np.ndarray | None = None, camera: Camera | None = None, size: int = 360
) -> Iterator[np.ndarray]:
    """The pictures (size, size, 3) uint8 of an animation, one for every pose in poses (T, N)."""
    if len(poses.shape) != 2 or not poses.shape[0]:
        raise InputError(f"an animation needs poses (T, N) with T > 0, got {tuple(poses.shape)}")
    examples = [posed_example(pieces, poses[t]) for t in range(poses.shape[0])]
    last = examples[-1]
    if camera is None:
        camera = best_view(last).framing(np.concatenate([e.points for e in examples]))
    colors = piece_colors(last.num_pieces) if colors is None else colors
    point_colors, radii = colors[piece_of_point(last)], disc_radii(last)
    for example in examples:
        yield draw_points(example.points, point_colors, example.normals, camera=camera, size=size, radius=radii)


def interpolate_poses(start: np.ndarray, end: np.ndarray, centers: np.ndarray, count: int) -> np.ndarray:
    """Poses (count, N, 4, 4) on the way from `start` to `end`, both (N, 4, 4); the last is `end`, the first is not
    `start`.

    Pieces rotate about their centers (N, 3), which move in straight lines.
    """
    from scipy.spatial.transform import Rotation

    turn = Rotation.from_matrix(end[:, :3, :3] @ start[:, :3, :3].swapaxes(1, 2)).as_rotvec()
    first, last = (np.einsum("nij,nj->ni", g[:, :3, :3], centers) + g[:, :3, 3] for g in (start, end))
    poses = np.tile(np.eye(4), (count, len(start), 1, 1))
    for pose, share in zip(poses, np.linspace(0, 1, count + 1)[1:], strict=True):
        pose[:, :3, :3] = Rotation.from_rotvec(share * turn).as_matrix() @ start[:, :3, :3]
        pose[:, :3, 3] = first + share * (last - first) - np.einsum("nij,nj->ni", pose[:, :3, :3], centers)
    return poses
