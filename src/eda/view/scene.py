"""Scenes: an `Example` as something to draw: apart, in colours, seen from a good side.

In: pieces in assembled position. Out: moved points, colours of points, and a camera.
"""

from __future__ import annotations

import numpy as np

from eda.data import Example
from eda.errors import InputError
from eda.lie import SE3
from eda.pieces import Pieces
from eda.view.camera import Camera, looking
from eda.view.colors import BREAK, FOREIGN, PLAIN, piece_colors
from eda.view.splat import spacing

EXPLOSION = 1.7
_STRIPES = 7  # on a foreign piece, light and dark together
_DIRECTIONS = 12  # around the upright axis, to choose a view from
_NEAR_AXIS = 0.95  # cosine
_CELLS = 40  # of the coarse picture by which a view is judged


def posed(pieces: Pieces, poses: SE3, name: str = "") -> Example:
    """The pieces of one puzzle where poses (N,) put them, as an example: a solution or a guess at one."""
    if pieces.num_puzzles != 1:
        raise InputError(f"a picture shows one puzzle, not {pieces.num_puzzles}")
    moved = pieces.moved(poses)
    return Example(
        name=name,
        points=moved.points.detach().cpu().numpy(),
        sizes=moved.sizes.cpu().numpy(),
        normals=None if moved.normals is None else moved.normals.detach().cpu().numpy(),
    )


def piece_of_point(example: Example) -> np.ndarray:
    """(P,) the piece of every point."""
    return np.repeat(np.arange(example.num_pieces), example.sizes)


def own_points(example: Example) -> np.ndarray:
    """(P,) which points are of the object itself."""
    return example.own[piece_of_point(example)]


def exploded(example: Example, factor: float = EXPLOSION) -> np.ndarray:
    """(P, 3) the points, with the centre of every own piece `factor` times as far from the middle of the centres."""
    centers = np.stack([cloud.mean(axis=0) for cloud in example.clouds()])
    away = centers - centers[example.own].mean(axis=0) if example.own.any() else np.zeros_like(centers)
    shift = np.where(example.own[:, None], (factor - 1) * away, 0)
    return example.points + shift[piece_of_point(example)]


def laid_out(example: Example, camera: Camera, factor: float = EXPLOSION) -> np.ndarray:
    """`exploded`, with the foreign pieces, which have no place, side by side below the others as the camera sees it."""
    points = exploded(example, factor)
    if example.own.all() or not example.own.any():
        return points
    seen = camera.turn(points)
    of, own = piece_of_point(example), own_points(example)
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
    """(P, 3) the colour of its piece for every point; foreign pieces are grey and striped."""
    of = piece_of_point(example)
    stripe = np.concatenate([_stripes(cloud) for cloud in example.clouds()])
    return np.where(own_points(example)[:, None], piece_colors(example.num_pieces)[of], FOREIGN[stripe])


def colors_by_break(example: Example) -> np.ndarray | None:
    """(P, 3) red on breaks and plain elsewhere; None if the example does not know."""
    return None if example.on_break is None else np.where(example.on_break[:, None], BREAK, PLAIN)


def disc_sizes(example: Example) -> np.ndarray:
    """(P,) the `spacing` of points among those of their own piece: it stays the same wherever the pieces go."""
    normals = [None] * example.num_pieces if example.normals is None else example.clouds(example.normals)
    return np.concatenate([spacing(cloud, n) for cloud, n in zip(example.clouds(), normals, strict=True)])


def good_view(example: Example) -> Camera:
    """A camera half from above, at the side from which most of most pieces is seen; it is not framed yet."""
    own = own_points(example) if example.own.any() else np.ones(len(example.points), dtype=bool)
    points, piece = example.points[own], piece_of_point(example)[own]
    up, elevation = _upright(points)
    across = np.cross(up, np.eye(3)[np.abs(up).argmin()])
    across /= np.linalg.norm(across)
    views = []
    for turn in np.arange(_DIRECTIONS) * (2 * np.pi / _DIRECTIONS):
        side = np.cos(turn) * across + np.sin(turn) * np.cross(up, across)
        views.append(looking(np.cos(elevation) * side + np.sin(elevation) * up, up).framing(points))
    return max(views, key=lambda view: _shown(view, points, piece))


def _upright(points: np.ndarray) -> tuple[np.ndarray, float]:
    """The axis to draw upright, and how high to look from: long things stand, flat ones lie.

    Of a turned body it is the axis whose spread is unlike the other two; things with no such axis keep their z.
    """
    spread, axes = np.linalg.eigh(np.cov(points.T.astype(np.float64)))
    thin, middle, long = np.sqrt(np.maximum(spread, 0))
    odd = _snapped(axes[:, 2] if long - middle > middle - thin else axes[:, 0])
    flat = thin < 0.6 * middle and long < 1.4 * middle
    clear = flat or long > 1.4 * middle or np.abs(odd).max() == 1
    axis = odd if clear else np.array([0.0, 0.0, 1.0])
    return axis * np.sign(axis[np.abs(axis).argmax()]), np.radians(50 if flat else 26)


def _snapped(axis: np.ndarray) -> np.ndarray:
    """The coordinate axis if one is near: things are mostly modelled upright."""
    main = int(np.abs(axis).argmax())
    return np.eye(3)[main] if abs(axis[main]) > _NEAR_AXIS else axis


def _shown(camera: Camera, points: np.ndarray, piece: np.ndarray) -> float:
    """How much is seen: the square roots of the pieces' areas on a coarse picture, so that every piece counts."""
    place = camera.project(points)
    column, row = np.clip((place[:, :2] + 1) / 2 * _CELLS, 0, _CELLS - 1).astype(int).T
    front = np.full((_CELLS, _CELLS), -1)
    order = np.argsort(place[:, 2])  # the nearest is written last
    front[row[order], column[order]] = piece[order]
    return float(np.sqrt(np.bincount(front[front >= 0])).sum())


def _stripes(cloud: np.ndarray) -> np.ndarray:
    """(n,) 0 or 1 in turn along the cloud's longest direction."""
    along = (cloud - cloud.mean(axis=0)) @ np.linalg.eigh(np.cov(cloud.T.astype(np.float64)))[1][:, 2]
    return (np.floor(_STRIPES * (along - along.min()) / max(float(np.ptp(along)), 1e-30)) % 2).astype(int)
