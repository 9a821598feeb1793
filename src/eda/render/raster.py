"""From shapes to pixels: spans of pixels row by row, a depth buffer, and the visible surface in every pixel.

A fragment is one pixel of one item (a disc or a triangle). All work is done on whole arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_STRIP_HEIGHT = 128  # rows; even, so that every strip can be reduced by two


@dataclass(frozen=True)
class Strip:
    """Some rows of a square picture. Pictures are drawn one strip at a time, so that the arrays stay in the cache."""

    top: int
    height: int
    width: int

    @property
    def num_pixels(self) -> int:
        """The number of pixels of the strip."""
        return self.height * self.width

    @staticmethod
    def all_of(side: int) -> list[Strip]:
        """The strips of a picture, from the top."""
        return [Strip(top, min(_STRIP_HEIGHT, side - top), side) for top in range(0, side, _STRIP_HEIGHT)]


@dataclass(frozen=True)
class Fragments:
    """F pixels of items, in any order."""

    item: np.ndarray  # (F,) the item that the pixel belongs to
    x: np.ndarray  # (F,) the centre of the pixel, float32
    y: np.ndarray  # (F,)
    pixel: np.ndarray  # (F,) index into the flat strip


@dataclass(frozen=True)
class GBuffer:
    """The visible surface in every pixel; `depth` is -inf where there is none."""

    depth: np.ndarray  # (H, W) in pixels, towards the viewer
    normals: np.ndarray  # (H, W, 3) right, up, towards the viewer; unit
    colors: np.ndarray  # (H, W, 3)

    @property
    def is_covered(self) -> np.ndarray:
        """(H, W) bool, where a surface is visible."""
        return np.isfinite(self.depth)


def rows_between(low: np.ndarray, high: np.ndarray, strip: Strip) -> tuple[np.ndarray, np.ndarray]:
    """For every item, the rows of the strip whose centres lie between low and high: item and row, one entry each."""
    first, count = _pixels_between(low, high, strip.top, strip.top + strip.height)
    item, step = _expand(count)
    return item, first[item] + step


def pixel_center(index: np.ndarray) -> np.ndarray:
    """The coordinate of the centre of a pixel."""
    return index.astype(np.float32) + np.float32(0.5)


def fill_spans(item: np.ndarray, row: np.ndarray, left: np.ndarray, right: np.ndarray, strip: Strip) -> Fragments:
    """The pixels of spans, each on one row, from left to right."""
    first, count = _pixels_between(left, right, 0, strip.width)
    span, step = _expand(count)
    column = first[span] + step
    start = (row - strip.top) * strip.width
    return Fragments(item[span], pixel_center(column), pixel_center(row)[span], start[span] + column)


def depth_buffer(pixel: np.ndarray, depth: np.ndarray, strip: Strip) -> np.ndarray:
    """(pixels of the strip,) the depth of the nearest fragment, -inf where there is none."""
    buffer = np.full(strip.num_pixels, -np.inf, dtype=np.float32)
    np.maximum.at(buffer, pixel, depth)
    return buffer


def sum_per_pixel(pixel: np.ndarray, values: np.ndarray, strip: Strip) -> np.ndarray:
    """(pixels of the strip,) the sum of the fragments' values."""
    total = np.zeros(strip.num_pixels, dtype=np.float32)
    np.add.at(total, pixel, values.astype(np.float32, copy=False))
    return total


def blend(
    pixel: np.ndarray, weight: np.ndarray, depth: np.ndarray, attributes: list[np.ndarray], strip: Strip
) -> GBuffer:
    """The weighted mean of the fragments in every pixel; `attributes` are the six columns of normals and colours."""
    total = sum_per_pixel(pixel, weight, strip)
    covered = total > 0
    share = 1 / np.where(covered, total, 1)
    means = np.stack([sum_per_pixel(pixel, weight * column, strip) * share for column in attributes], axis=-1)
    normals = means[:, :3] / np.maximum(np.sqrt(np.square(means[:, :3]).sum(axis=1, keepdims=True)), 1e-6)
    depths = np.where(covered, sum_per_pixel(pixel, weight * depth, strip) * share, -np.inf)
    return _g_buffer(depths, normals, means[:, 3:], strip)


def write_fragments(pixel: np.ndarray, depth: np.ndarray, attributes: np.ndarray, strip: Strip) -> GBuffer:
    """The fragments as they are, any one of them in each pixel. `attributes` (F, 6) are normals and colours."""
    depths = np.full(strip.num_pixels, -np.inf, dtype=np.float32)
    depths[pixel] = depth
    values = np.zeros((strip.num_pixels, 6), dtype=np.float32)
    values[pixel] = attributes
    return _g_buffer(depths, values[:, :3], values[:, 3:], strip)


def _g_buffer(depths: np.ndarray, normals: np.ndarray, colors: np.ndarray, strip: Strip) -> GBuffer:
    """A buffer from flat arrays (pixels,), (pixels, 3) and (pixels, 3)."""
    shape = strip.height, strip.width
    return GBuffer(depths.reshape(shape), normals.reshape(*shape, 3), colors.reshape(*shape, 3))


def _pixels_between(low: np.ndarray, high: np.ndarray, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """The pixels start <= i < stop with their centres in low .. high: the first of them, and their number."""
    first = np.ceil(np.clip(low, start, stop) - 0.5).astype(np.int32)
    last = np.ceil(np.clip(high, start, stop) - 0.5).astype(np.int32)
    return first, np.maximum(last - first, 0)


def _expand(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every unit of the counts, its item and its index within the item: (2, 1) -> (0, 0, 1), (0, 1, 0)."""
    item = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    first = (np.cumsum(counts) - counts).astype(np.int32)
    return item, np.arange(len(item), dtype=np.int32) - first[item]
