"""Light: surfaces become a picture. Key light, sky, a little gloss, and shade in hollows and behind edges.

The lights move with the camera, so a picture depends on the scene as the camera sees it and on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eda.view.colors import BACKGROUND, as_bytes
from eda.view.raster import Surface

# Right, up, towards the viewer; the key light stands high at the left, behind the viewer.
_KEY = np.array([-0.45, 0.62, 0.64], dtype=np.float32)
_KEY /= np.linalg.norm(_KEY)
_HALFWAY = _KEY + np.array([0, 0, 1], dtype=np.float32)
_HALFWAY /= np.linalg.norm(_HALFWAY)
_AMBIENT, _SKY, _KEY_LIGHT, _GLOSS = 0.66, 0.10, 0.46, 0.06

_REACHES = (0.004, 0.012, 0.035)  # of the shade, as parts of the picture: outlines, creases, hollows
_SHADE = (0.45, 0.5, 0.45)  # how dark each makes it at most
_SOFTNESS = 1.0  # how far, over the reach, the surroundings stand out for the full shade
_DIRECTIONS = ((1, 0), (0.7, 0.7), (0, 1), (-0.7, 0.7))  # and their opposites
_NOTHING = np.float32(-1e9)  # the depth where nothing is


def lit(strips: Sequence[Surface], oversampling: int) -> np.ndarray:
    """A picture from its strips, smaller by `oversampling` with smooth edges. -> (S, S, 3) uint8.

    It is lit a strip at a time, so that the arrays stay in the cache.
    """
    relief = _Relief.of(np.concatenate([strip.depth for strip in strips]))
    heights = [len(strip.depth) for strip in strips]
    tops = (np.cumsum(heights) - heights).tolist()
    return np.concatenate(
        [
            _lit(strip, relief.light(top, height), oversampling)
            for strip, top, height in zip(strips, tops, heights, strict=True)
        ]
    )


def _lit(strip: Surface, light: np.ndarray, oversampling: int) -> np.ndarray:
    from PIL import Image

    shaded = strip.colors * (_lambert(strip.normals) * light)[..., None]
    shaded += _GLOSS * _gloss(strip.normals)[..., None]
    picture = np.where(strip.covered[..., None], shaded, BACKGROUND.astype(np.float32))
    return np.asarray(Image.fromarray(as_bytes(picture)).reduce(oversampling))


def shade(depth: np.ndarray) -> np.ndarray:
    """Light that is left where nearer surfaces stand around: eye-dome lighting at several reaches. (S, S) -> 0 .. 1."""
    return _Relief.of(depth).light(0, len(depth))


@dataclass(frozen=True)
class _Relief:
    """The depths of a picture, with nothing around it as far as the shade reaches."""

    depth: np.ndarray  # (S + 2 margin, S + 2 margin) finite
    margin: int

    @staticmethod
    def of(depth: np.ndarray) -> _Relief:
        """Of the depths (S, S), -inf where nothing is."""
        margin = _pixels(_REACHES[-1], len(depth))
        return _Relief(np.pad(np.where(np.isfinite(depth), depth, _NOTHING), margin, constant_values=_NOTHING), margin)

    def light(self, top: int, height: int) -> np.ndarray:
        """(height, S) what is left on some rows."""
        side = len(self.depth) - 2 * self.margin
        here = self._rows(top, height, 0, 0)
        light = np.ones((height, side), dtype=np.float32)
        for reach, strength in zip(_REACHES, _SHADE, strict=True):
            light *= 1 - strength * self._hidden(here, top, _pixels(reach, side))
        return light

    def _hidden(self, here: np.ndarray, top: int, distance: int) -> np.ndarray:
        """How much of the sky the surroundings at this distance take, 0 .. 1.

        Opposite neighbours are taken together, so that a slope hides nothing and only hollows and edges do.
        """
        hidden = np.zeros(here.shape, dtype=np.float32)
        for across, down in _DIRECTIONS:
            i, j = round(down * distance), round(across * distance)
            both = [np.clip((self._rows(top, len(here), s * i, s * j) - here) / distance, -1, 1) for s in (1, -1)]
            hidden += np.clip((both[0] + both[1]) / _SOFTNESS, 0, 1)
        return hidden / len(_DIRECTIONS)

    def _rows(self, top: int, height: int, down: int, across: int) -> np.ndarray:
        """The depths that lie so far from those of some rows."""
        first, left = self.margin + top + down, self.margin + across
        return self.depth[first : first + height, left : left + len(self.depth) - 2 * self.margin]


def _pixels(part: float, side: int) -> int:
    return max(1, round(part * side))


def _lambert(normals: np.ndarray) -> np.ndarray:
    return _AMBIENT + _SKY * normals[..., 1] + _KEY_LIGHT * np.maximum(normals @ _KEY, 0)


def _gloss(normals: np.ndarray) -> np.ndarray:
    """The 24th power of how far a surface mirrors the key light, by squares: a general power is slow."""
    mirrored = np.maximum(normals @ _HALFWAY, 0)
    eighth = np.square(np.square(np.square(mirrored)))
    return eighth * eighth * eighth
