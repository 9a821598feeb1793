"""Chance: choices by weight, and smooth random functions of place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

import numpy as np

Rng = np.random.Generator
Kind = TypeVar("Kind")


def draw_kind(rng: Rng, kinds: Mapping[Kind, float]) -> Kind:
    """One of the kinds, by weight."""
    weights = np.array(list(kinds.values()), dtype=float)
    return list(kinds)[rng.choice(len(kinds), p=weights / weights.sum())]


def bumps(rng: Rng, points: np.ndarray, frequency: float, count: int = 6) -> np.ndarray:
    """A smooth function of variance one, with waves of about `frequency` radians a unit. (n, d) -> (n,)."""
    axes = rng.normal(size=(points.shape[1], count)) * frequency
    return _sum_of_waves(points, axes, rng.uniform(0, 2 * math.pi, count))


def waves(rng: Rng, points: np.ndarray, lengths: tuple[float, float], count: int) -> np.ndarray:
    """A smooth function of variance one, of waves with lengths in this range. (n, 3) -> (n,)."""
    axes = rng.normal(size=(3, count))
    drawn_lengths = np.exp(rng.uniform(math.log(lengths[0]), math.log(lengths[1]), count))
    axes *= 2 * math.pi / np.linalg.norm(axes, axis=0) / drawn_lengths
    start = rng.uniform(0, 2 * math.pi, count)
    # Single precision: a scan asks for some millions of cosines.
    return _sum_of_waves(points.astype(np.float32), axes.astype(np.float32), start.astype(np.float32))


def _sum_of_waves(points: np.ndarray, axes: np.ndarray, start: np.ndarray) -> np.ndarray:
    """points (n, d), axes (d, waves), start (waves,) -> (n,)."""
    return np.cos(points @ axes + start).sum(axis=1).astype(np.float64) * math.sqrt(2 / len(start))
