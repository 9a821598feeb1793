"""Scenes: how to draw an `Example`: its pieces moved apart, the colours of its points, and the best camera.

In: pieces in assembled position. Out: moved points, colours of points, and a camera.
"""

from __future__ import annotations

import numpy as np

from eda.data import Example
from eda.errors import InputError
from eda.lie import SE3
from eda.pieces import Pieces
from eda.render.colors import BREAK, FOREIGN, PLAIN, piece_colors
from eda.render.point_drawing import point_spacing
from eda.render.virtual_camera import Camera, look_from

EXPLOSION = 1.7  # distance of the pieces from their common centre, over that in the assembly
_WIDEST = 1.2  # radius of a disc, in units of the median
_STRIPES = 7  # on a foreign piece, light and dark
_DIRECTIONS = 12  # around the upright axis, from which the best view is chosen
_NEAR_AXIS = 0.95  # cosine
_CELLS = 40  # along a side of the coarse picture by which a view is rated


def posed_example(pieces: Pieces, poses: SE3, name: str = "") -> Example:
    """The pieces of one puzzle in poses (N,), as an example; the poses may be the solution or an estimate."""
    if pieces.num_puzzles != 1:
        raise InputError(f"a picture shows one puzzle, not {pieces.num_puzzles}")
    moved = pieces.move(poses)
    return Example(
        name=name,
        points=moved.points.detach().cpu().numpy(),
        sizes=moved.sizes.cpu().numpy(),
        normals=None if moved.normals is None else moved.normals.detach().cpu().numpy(),
    )


def piece_of_point(example: Example) -> np.ndarray:
    """(P,) the piece of every point."""
    return np.repeat(np.arange(example.num_pieces), example.sizes)


def own_point_mask(example: Example) -> np.ndarray:
    """(P,) bool, the points that belong to the object itself."""
    return example.own[piece_of_point(example)]


def explode(example: Example, factor: float = EXPLOSION) -> np.ndarray:
    """(P, 3) the points, with the centre of every own piece `factor` times as far from the mean of the centres."""
    centers = np.stack([cloud.mean(axis=0) for cloud in example.clouds()])
    away = centers - centers[example.own].mean(axis=0) if example.own.any() else np.zeros_like(centers)
    shift = np.where(example.own[:, None], (factor - 1) * away, 0)
    return example.points + shift[piece_of_point(example)]


def lay_out(example: Example, camera: Camera, factor: float = EXPLOSION) -> np.ndarray:
    """(P, 3) the exploded points, with foreign pieces in a row below the others, as the camera sees them."""
    points = explode(example, factor)
    if example.own.all() or not example.own.any():
        return points
    seen = camera.rotate(points)
    of, own = piece_of_point(example), own_point_mask(example)
    low, middle = seen[own].min(axis=0), (seen[own].min(axis=0) + seen[own].max(axis=0)) / 2
    gap = 0.08 * float(np.ptp(seen[own], axis=0).max())
    foreign = [of == i for i in np.flatnonzero(~example.own)]
    width = sum(float(np.ptp(seen[rows, 0])) + gap for rows in foreign) - gap
    left = middle[0] - width / 2
    for rows in foreign:
        corner = np.array([seen[rows, 0].min(), seen[rows, 1].max(), seen[rows, 2].mean()])
        seen[rows] += np.array([left, low[1] - gap, middle[2]]) - corner
        left += float(np.ptp(seen[rows, 0])) + gap
    return seen @ camera.rotation


def colors_by_piece(example: Example) -> np.ndarray:
    """(P, 3) every point in the colour of its piece; foreign pieces have grey stripes."""
    of = piece_of_point(example)
    stripe = np.concatenate([_stripes(cloud) for cloud in example.clouds()])
    return np.where(own_point_mask(example)[:, None], piece_colors(example.num_pieces)[of], FOREIGN[stripe])


def colors_by_break(example: Example) -> np.ndarray | None:
    """(P, 3) red on breaks and plain elsewhere; None if the breaks of the example are unknown."""
    return None if example.on_break is None else np.where(example.on_break[:, None], BREAK, PLAIN)


def disc_radii(example: Example) -> np.ndarray:
    """(P,) the `point_spacing` within each piece, which does not change when the pieces move.

    At most `_WIDEST` times the usual one: what a lidar sees from afar are single points, and no surface between them.
    """
    normals = [None] * example.num_pieces if example.normals is None else example.clouds(example.normals)
    spacing = np.concatenate([point_spacing(cloud, n) for cloud, n in zip(example.clouds(), normals, strict=True)])
    return np.minimum(spacing, _WIDEST * np.median(spacing))


def best_view(example: Example) -> Camera:
    """The camera, of several that look down at an angle, that sees most of the pieces; it still has to be framed."""
    own = own_point_mask(example) if example.own.any() else np.ones(len(example.points), dtype=bool)
    points, piece = example.points[own], piece_of_point(example)[own]
    up, elevation = _upright(points)
    across = np.cross(up, np.eye(3)[np.abs(up).argmin()])
    across /= np.linalg.norm(across)
    views = []
    for turn in np.arange(_DIRECTIONS) * (2 * np.pi / _DIRECTIONS):
        side = np.cos(turn) * across + np.sin(turn) * np.cross(up, across)
        views.append(look_from(np.cos(elevation) * side + np.sin(elevation) * up, up).framing(points))
    return max(views, key=lambda view: _visible_area(view, points, piece))


def _upright(points: np.ndarray) -> tuple[np.ndarray, float]:
    """The axis to draw upright, and the camera's elevation in radians: long things stand, flat ones lie.

    The axis is the principal one whose spread differs most from the other two, as for a body of revolution. If no axis
    stands out, it is z.
    """
    spread, axes = np.linalg.eigh(np.cov(points.T.astype(np.float64)))
    thin, middle, long = np.sqrt(np.maximum(spread, 0))
    odd = _snap_to_axis(axes[:, 2] if long - middle > middle - thin else axes[:, 0])
    flat = thin < 0.6 * middle and long < 1.4 * middle
    clear = flat or long > 1.4 * middle or np.abs(odd).max() == 1
    axis = odd if clear else np.array([0.0, 0.0, 1.0])
    return axis * np.sign(axis[np.abs(axis).argmax()]), np.radians(50 if flat else 26)


def _snap_to_axis(axis: np.ndarray) -> np.ndarray:
    """The nearest coordinate axis if it is close, since most things are modelled upright; otherwise the axis itself."""
    main = int(np.abs(axis).argmax())
    return np.eye(3)[main] if abs(axis[main]) > _NEAR_AXIS else axis


def _visible_area(camera: Camera, points: np.ndarray, piece: np.ndarray) -> float:
    """The sum of the square roots of the pieces' visible areas in a coarse picture, so that every piece counts."""
    projected = camera.project(points)
    column, row = np.clip((projected[:, :2] + 1) / 2 * _CELLS, 0, _CELLS - 1).astype(int).T
    front = np.full((_CELLS, _CELLS), -1)
    order = np.argsort(projected[:, 2])  # the nearest is written last
    front[row[order], column[order]] = piece[order]
    return float(np.sqrt(np.bincount(front[front >= 0])).sum())


def _stripes(cloud: np.ndarray) -> np.ndarray:
    """(n,) alternately 0 and 1 along the cloud's longest direction."""
    along = (cloud - cloud.mean(axis=0)) @ np.linalg.eigh(np.cov(cloud.T.astype(np.float64)))[1][:, 2]
    return (np.floor(_STRIPES * (along - along.min()) / max(float(np.ptp(along)), 1e-30)) % 2).astype(int)
