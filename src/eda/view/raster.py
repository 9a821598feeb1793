"""From shapes to pixels: spans of pixels row by row, a depth buffer, and what lies in front blended.

A fragment is one pixel of one item (a disc or a triangle). All of it is whole-array work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_STRIP = 128  # rows; even, so that strips can be made smaller one by one


@dataclass(frozen=True)
class Strip:
    """Some rows of a square picture. Pictures are drawn a strip at a time, so that the arrays stay in the cache."""

    top: int
    height: int
    width: int

    @property
    def num_pixels(self) -> int:
        """Of the strip."""
        return self.height * self.width

    @staticmethod
    def all_of(side: int) -> list[Strip]:
        """The strips of a picture, from the top."""
        return [Strip(top, min(_STRIP, side - top), side) for top in range(0, side, _STRIP)]


@dataclass(frozen=True)
class Fragments:
    """F pixels of items, in no order that matters."""

    item: np.ndarray  # (F,) whose pixel it is
    x: np.ndarray  # (F,) the middle of the pixel, float32
    y: np.ndarray  # (F,)
    pixel: np.ndarray  # (F,) index into the flat strip


@dataclass(frozen=True)
class Surface:
    """What is seen in every pixel; `depth` is -inf where nothing is."""

    depth: np.ndarray  # (H, W) in pixels, towards the viewer
    normals: np.ndarray  # (H, W, 3) right, up, towards the viewer; unit
    colors: np.ndarray  # (H, W, 3)

    @property
    def covered(self) -> np.ndarray:
        """(H, W) where anything is."""
        return np.isfinite(self.depth)


def rows_of(low: np.ndarray, high: np.ndarray, strip: Strip) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the strip whose middles lie between low and high, for every item: item and row, one entry each."""
    first, count = _between(low, high, strip.top, strip.top + strip.height)
    item, step = _expand(count)
    return item, first[item] + step


def middle(index: np.ndarray) -> np.ndarray:
    """Where the middle of a pixel is."""
    return index.astype(np.float32) + np.float32(0.5)


def fill(item: np.ndarray, row: np.ndarray, left: np.ndarray, right: np.ndarray, strip: Strip) -> Fragments:
    """The pixels of spans: each on one row, from left to right."""
    first, count = _between(left, right, 0, strip.width)
    span, step = _expand(count)
    column = first[span] + step
    start = (row - strip.top) * strip.width
    return Fragments(item[span], middle(column), middle(row)[span], start[span] + column)


def nearest(pixel: np.ndarray, depth: np.ndarray, strip: Strip) -> np.ndarray:
    """(pixels of the strip,) the depth buffer of these fragments: -inf where nothing is."""
    buffer = np.full(strip.num_pixels, -np.inf, dtype=np.float32)
    np.maximum.at(buffer, pixel, depth)
    return buffer


def summed(pixel: np.ndarray, values: np.ndarray, strip: Strip) -> np.ndarray:
    """(pixels of the strip,) the sum of the values in every pixel."""
    total = np.zeros(strip.num_pixels, dtype=np.float32)
    np.add.at(total, pixel, values.astype(np.float32, copy=False))
    return total


def blend(pixel: np.ndarray, weight: np.ndarray, depth: np.ndarray, look: list[np.ndarray], strip: Strip) -> Surface:
    """The weighted mean of fragments; `look` is the six columns of normals and colours."""
    total = summed(pixel, weight, strip)
    covered = total > 0
    share = 1 / np.where(covered, total, 1)
    means = np.stack([summed(pixel, weight * column, strip) * share for column in look], axis=-1)
    normals = means[:, :3] / np.maximum(np.sqrt(np.square(means[:, :3]).sum(axis=1, keepdims=True)), 1e-6)
    depths = np.where(covered, summed(pixel, weight * depth, strip) * share, -np.inf)
    shape = strip.height, strip.width
    return Surface(depths.reshape(shape), normals.reshape(*shape, 3), means[:, 3:].reshape(*shape, 3))


def opaque(pixel: np.ndarray, depth: np.ndarray, look: np.ndarray, strip: Strip) -> Surface:
    """Fragments as they are, one for a pixel; of several any. `look` (F, 6) is normals and colours."""
    depths = np.full(strip.num_pixels, -np.inf, dtype=np.float32)
    depths[pixel] = depth
    looks = np.zeros((strip.num_pixels, 6), dtype=np.float32)
    looks[pixel] = look
    shape = strip.height, strip.width
    return Surface(depths.reshape(shape), looks[:, :3].reshape(*shape, 3), looks[:, 3:].reshape(*shape, 3))


def _between(low: np.ndarray, high: np.ndarray, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """The pixels start <= i < stop with their middles in low .. high: the first, and how many."""
    first = np.ceil(np.clip(low, start, stop) - 0.5).astype(np.int32)
    last = np.ceil(np.clip(high, start, stop) - 0.5).astype(np.int32)
    return first, np.maximum(last - first, 0)


def _expand(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which item, and the how-manieth of it: (2, 1) -> (0, 0, 1), (0, 1, 0)."""
    item = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    first = (np.cumsum(counts) - counts).astype(np.int32)
    return item, np.arange(len(item), dtype=np.int32) - first[item]
