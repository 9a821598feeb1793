"""Shading: visible surfaces become a picture. Key light, sky, a little gloss, and shade in hollows and behind edges.

The lights move with the camera, so a picture depends only on the scene as the camera sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eda.render.colors import BACKGROUND, as_bytes
from eda.render.raster import GBuffer

# Right, up, towards the viewer; the key light stands high at the left, behind the viewer.
_KEY = np.array([-0.45, 0.62, 0.64], dtype=np.float32)
_KEY /= np.linalg.norm(_KEY)
_HALFWAY = _KEY + np.array([0, 0, 1], dtype=np.float32)
_HALFWAY /= np.linalg.norm(_HALFWAY)
_AMBIENT, _SKY, _KEY_LIGHT, _GLOSS = 0.66, 0.10, 0.46, 0.06

# Eye-dome lighting at three distances, as fractions of the picture: outlines, creases, hollows.
_DISTANCES = (0.004, 0.012, 0.035)
_DARKNESS = (0.45, 0.5, 0.45)  # the greatest darkening at each distance
_SOFTNESS = 1.0  # how far the surroundings rise, over the distance, where the shade is full
_DIRECTIONS = ((1, 0), (0.7, 0.7), (0, 1), (-0.7, 0.7))  # and their opposites
_EMPTY = np.float32(-1e9)  # the depth where there is no surface


def shade_picture(strips: Sequence[GBuffer], oversampling: int) -> np.ndarray:
    """The strips of a picture, shaded, and reduced by `oversampling` for smooth edges. -> (S, S, 3) uint8.

    One strip is shaded at a time, so that the arrays stay in the cache.
    """
    relief = Relief.of(np.concatenate([strip.depth for strip in strips]))
    heights = [len(strip.depth) for strip in strips]
    tops = (np.cumsum(heights) - heights).tolist()
    return np.concatenate(
        [
            _shade_strip(strip, relief.light(top, height), oversampling)
            for strip, top, height in zip(strips, tops, heights, strict=True)
        ]
    )


def _shade_strip(strip: GBuffer, light: np.ndarray, oversampling: int) -> np.ndarray:
    from PIL import Image

    shaded = strip.colors * (_diffuse(strip.normals) * light)[..., None]
    shaded += _GLOSS * _specular(strip.normals)[..., None]
    picture = np.where(strip.is_covered[..., None], shaded, BACKGROUND.astype(np.float32))
    return np.asarray(Image.fromarray(as_bytes(picture)).reduce(oversampling))


@dataclass(frozen=True)
class Relief:
    """The depths of a picture with an empty margin around it, as wide as the shade reaches: for eye-dome lighting."""

    depth: np.ndarray  # (S + 2 margin, S + 2 margin) finite
    margin: int

    @staticmethod
    def of(depth: np.ndarray) -> Relief:
        """From depths (S, S), -inf where there is no surface."""
        margin = _to_pixels(_DISTANCES[-1], len(depth))
        return Relief(np.pad(np.where(np.isfinite(depth), depth, _EMPTY), margin, constant_values=_EMPTY), margin)

    def light(self, top: int, height: int) -> np.ndarray:
        """(height, S) the light on some rows, 0 .. 1."""
        side = len(self.depth) - 2 * self.margin
        here = self._rows(top, height, 0, 0)
        light = np.ones((height, side), dtype=np.float32)
        for distance, strength in zip(_DISTANCES, _DARKNESS, strict=True):
            light *= 1 - strength * self._occlusion(here, top, _to_pixels(distance, side))
        return light

    def _occlusion(self, here: np.ndarray, top: int, distance: int) -> np.ndarray:
        """The share of the sky, 0 .. 1, that the surroundings at this distance hide.

        Opposite neighbours are taken together, so that a slope hides nothing and only hollows and edges do.
        """
        hidden = np.zeros(here.shape, dtype=np.float32)
        for across, down in _DIRECTIONS:
            i, j = round(down * distance), round(across * distance)
            both = [np.clip((self._rows(top, len(here), s * i, s * j) - here) / distance, -1, 1) for s in (1, -1)]
            hidden += np.clip((both[0] + both[1]) / _SOFTNESS, 0, 1)
        return hidden / len(_DIRECTIONS)

    def _rows(self, top: int, height: int, down: int, across: int) -> np.ndarray:
        """The depths at this offset from some rows."""
        first, left = self.margin + top + down, self.margin + across
        return self.depth[first : first + height, left : left + len(self.depth) - 2 * self.margin]


def _to_pixels(fraction: float, side: int) -> int:
    return max(1, round(fraction * side))


def _diffuse(normals: np.ndarray) -> np.ndarray:
    return _AMBIENT + _SKY * normals[..., 1] + _KEY_LIGHT * np.maximum(normals @ _KEY, 0)


def _specular(normals: np.ndarray) -> np.ndarray:
    """The 24th power of the cosine to the half-way vector, by squaring: a general power is slow."""
    cosine = np.maximum(normals @ _HALFWAY, 0)
    eighth = np.square(np.square(np.square(cosine)))
    return eighth * eighth * eighth
