"""Colours, all as (n, 3) floats in 0 .. 1 (sRGB): for pieces by their index, for confidences, for any scalar.

All of them can be told apart by people with colour blindness too.
"""

from __future__ import annotations

import numpy as np


def from_hex(*codes: str) -> np.ndarray:
    """Colours (n, 3) from texts such as 387FBA."""
    return np.array([[int(code[i : i + 2], 16) for i in (0, 2, 4)] for code in codes]) / 255


# The first ones differ most, for puzzles of few pieces.
PIECES = from_hex(
    "387FBA", "E88B4F", "45B48C", "A34C56", "F4D566", "D496FA", "B4DFF1", "76652B",
    "DFB0C0", "126F7B", "8ACB72", "B02F74", "E1D5A6", "5963C5", "667309", "C78263",
    "5C9B8D", "BBC6F9", "82709F", "AE861D", "47B7D3", "CA84BB", "B3E0C0", "7F5099",
)  # fmt: skip

FOREIGN = from_hex("4A4D52", "8B8F96")  # the two stripes of a piece of another object
PLAIN = from_hex("C9C4BA")[0]  # any other surface
BREAK = from_hex("CC4B37")[0]  # a break surface
BACKGROUND = from_hex("FBFAF8")[0]
INK = from_hex("2F3237")[0]
FAINT_INK = from_hex("7C8088")[0]

_CONFIDENCE = from_hex("B2302A", "E2764A", "F6C877", "C9DDC4", "6FB0C6", "2D6FA8")  # from 0, red, to 1, blue


def piece_colors(count: int) -> np.ndarray:
    """The colours (count, 3) of pieces 0 .. count - 1. They do not depend on the count, and repeat after 24."""
    return PIECES[np.arange(count) % len(PIECES)]


def confidence_colors(values: np.ndarray) -> np.ndarray:
    """Colours from red at 0 to blue at 1; values outside are clipped. (n,) -> (n, 3)."""
    return _interpolate(_CONFIDENCE, values)


def as_bytes(colors: np.ndarray) -> np.ndarray:
    """Colours in 0 .. 1 as bytes 0 .. 255."""
    return (np.clip(colors, 0, 1) * 255 + 0.5).astype(np.uint8)


def _interpolate(stops: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Linear interpolation between the stops (m, 3), which are evenly spaced on 0 .. 1. (n,) -> (n, 3)."""
    at = np.linspace(0, 1, len(stops))
    return np.stack([np.interp(values, at, stops[:, channel]) for channel in range(3)], axis=-1)
