"""Light: a `Surface` becomes a picture. Key light, sky, a little gloss, and shade in hollows and behind edges.

The lights move with the camera, so a picture depends on the scene as the camera sees it and on nothing else.
"""

from __future__ import annotations

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


def lit(surface: Surface, oversampling: int) -> np.ndarray:
    """The picture, smaller by `oversampling` with smooth edges. -> (S, S, 3) uint8."""
    from PIL import Image

    shaded = surface.colors * (_lambert(surface.normals) * shade(surface.depth))[..., None]
    shaded += _GLOSS * _gloss(surface.normals)[..., None]
    picture = np.where(surface.covered[..., None], shaded, BACKGROUND.astype(np.float32))
    return np.asarray(Image.fromarray(as_bytes(picture)).reduce(oversampling))


def shade(depth: np.ndarray) -> np.ndarray:
    """Light that is left where nearer surfaces stand around: eye-dome lighting at several reaches. (S, S) -> 0 .. 1."""
    light = np.ones(depth.shape, dtype=np.float32)
    floor = np.where(np.isfinite(depth), depth, _NOTHING)
    for reach, strength in zip(_REACHES, _SHADE, strict=True):
        distance = max(1, round(reach * len(depth)))
        light *= 1 - strength * _hidden(floor, distance)
    return light


def _hidden(depth: np.ndarray, distance: int) -> np.ndarray:
    """How much of the sky the surroundings at this distance take, 0 .. 1.

    Opposite neighbours are taken together, so that a slope hides nothing and only hollows and edges do.
    """
    padded = np.pad(depth, distance, constant_values=_NOTHING)
    hidden = np.zeros(depth.shape, dtype=np.float32)
    for across, down in _DIRECTIONS:
        i, j = round(down * distance), round(across * distance)
        rise, fall = _stand_out(padded, depth, i, j, distance), _stand_out(padded, depth, -i, -j, distance)
        hidden += np.clip((rise + fall) / _SOFTNESS, 0, 1)
    return hidden / len(_DIRECTIONS)


def _stand_out(padded: np.ndarray, depth: np.ndarray, i: int, j: int, distance: int) -> np.ndarray:
    """How far the neighbour (i, j) pixels away stands out, over the distance, within -1 .. 1."""
    top, left = distance + i, distance + j
    return np.clip((padded[top : top + len(depth), left : left + len(depth)] - depth) / distance, -1, 1)


def _lambert(normals: np.ndarray) -> np.ndarray:
    return _AMBIENT + _SKY * normals[..., 1] + _KEY_LIGHT * np.maximum(normals @ _KEY, 0)


def _gloss(normals: np.ndarray) -> np.ndarray:
    """The 24th power of how far a surface mirrors the key light, by squares: a general power is slow."""
    mirrored = np.maximum(normals @ _HALFWAY, 0)
    eighth = np.square(np.square(np.square(mirrored)))
    return eighth * eighth * eighth
