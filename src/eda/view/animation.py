"""Animations: pieces on their way, as a GIF that stays small: one camera, one palette, no dithering."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from eda.errors import InputError
from eda.lie import SE3
from eda.pieces import Pieces
from eda.view.camera import Camera
from eda.view.colors import piece_colors
from eda.view.scene import disc_sizes, good_view, piece_of_point, posed
from eda.view.splat import splat

if TYPE_CHECKING:
    from PIL.Image import Image

PALETTE = 255  # colours of a GIF, the most that leave one to spare
_BACKGROUND_SHARE = 10_000
LAST_FRAME = 1500  # milliseconds that the end is shown


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

    Without a camera it looks at the last frame from its good side, and frames them all.
    """
    return gif(list(frames(pieces, poses, colors=colors, camera=camera, size=size)), milliseconds)


def frames(
    pieces: Pieces, poses: SE3, *, colors: np.ndarray | None = None, camera: Camera | None = None, size: int = 360
) -> Iterator[np.ndarray]:
    """The pictures (size, size, 3) of an animation, one after the other."""
    if len(poses.shape) != 2 or not poses.shape[0]:
        raise InputError(f"an animation needs poses (T, N) with T > 0, got {tuple(poses.shape)}")
    examples = [posed(pieces, poses[t]) for t in range(poses.shape[0])]
    last = examples[-1]
    if camera is None:
        camera = good_view(last).framing(np.concatenate([e.points for e in examples]))
    colors = piece_colors(last.num_pieces) if colors is None else colors
    look, sizes = colors[piece_of_point(last)], disc_sizes(last)
    for example in examples:
        yield splat(example.points, look, example.normals, camera=camera, size=size, radius=sizes)


def gif(pictures: Sequence[np.ndarray], milliseconds: int = 80) -> bytes:
    """Pictures (H, W, 3) uint8 as a GIF that repeats for ever and rests at its end."""
    from PIL import Image

    palette = _common_palette(pictures)
    images = [Image.fromarray(p).quantize(palette=palette, dither=Image.Dither.NONE) for p in pictures]
    durations = [milliseconds] * (len(images) - 1) + [LAST_FRAME]
    file = io.BytesIO()
    images[0].save(
        file, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=False, disposal=1
    )
    return file.getvalue()


def _common_palette(pictures: Sequence[np.ndarray]) -> Image:
    """For a few of the pictures, from the first to the last. A colour counts once: small pieces keep their shades."""
    from PIL import Image

    chosen = np.unique(np.linspace(0, len(pictures) - 1, 6).round().astype(int))
    pixels = np.concatenate([pictures[i].reshape(-1, 3) for i in chosen])
    background = pixels[:1].repeat(_BACKGROUND_SHARE, axis=0)  # often enough to be met exactly
    shades = _distinct(pixels | 3)
    return Image.fromarray(np.concatenate([background, shades])[None]).quantize(PALETTE, Image.Quantize.MEDIANCUT)


def _distinct(colors: np.ndarray) -> np.ndarray:
    """(n, 3) bytes -> (m, 3), each colour once; as one number each, which sort ten times as fast as rows do."""
    codes = np.unique(colors.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], dtype=np.uint32))
    return np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1).astype(np.uint8)
