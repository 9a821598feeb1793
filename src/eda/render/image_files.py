"""Pictures as the bytes of image files: PNG for one picture, GIF for an animation.

GIFs stay small: all frames share one palette, and there is no dithering.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

LAST_FRAME = 1500  # milliseconds for which the last frame is shown
_PALETTE = 255  # colours of a GIF: the maximum, less one to spare
_BACKGROUND_WEIGHT = 10_000  # pixels, so many that the palette contains the background exactly


def encode_png(picture: np.ndarray | Image, *, optimize: bool = False) -> bytes:
    """A picture, or an array (H, W, 3) uint8, as the content of a PNG file; `optimize` takes longer and saves space."""
    from PIL import Image

    image = Image.fromarray(picture) if isinstance(picture, np.ndarray) else picture
    file = io.BytesIO()
    image.save(file, "PNG", optimize=optimize)
    return file.getvalue()


def encode_gif(pictures: Sequence[np.ndarray], milliseconds: int = 80) -> bytes:
    """Pictures (H, W, 3) uint8 as the content of a GIF file that repeats for ever and pauses on its last frame."""
    from PIL import Image

    palette = _shared_palette(pictures)
    images = [Image.fromarray(p).quantize(palette=palette, dither=Image.Dither.NONE) for p in pictures]
    durations = [milliseconds] * (len(images) - 1) + [LAST_FRAME]
    file = io.BytesIO()
    images[0].save(
        file, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=False, disposal=1
    )
    return file.getvalue()


def _shared_palette(pictures: Sequence[np.ndarray]) -> Image:
    """A palette for all pictures, chosen from six of them. Every colour counts once, so small pieces keep theirs."""
    from PIL import Image

    chosen = np.unique(np.linspace(0, len(pictures) - 1, 6).round().astype(int))
    pixels = np.concatenate([pictures[i].reshape(-1, 3) for i in chosen])
    background = pixels[:1].repeat(_BACKGROUND_WEIGHT, axis=0)
    shades = _unique_colors(pixels | 3)
    return Image.fromarray(np.concatenate([background, shades])[None]).quantize(_PALETTE, Image.Quantize.MEDIANCUT)


def _unique_colors(colors: np.ndarray) -> np.ndarray:
    """(n, 3) bytes -> (m, 3), every colour once. Each is packed into one number: that sorts ten times as fast."""
    codes = np.unique(colors.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], dtype=np.uint32))
    return np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1).astype(np.uint8)
