"""Candidate pairs: which scans to register with which. Their number grows with the scans, not with their square."""

from __future__ import annotations

import numpy as np

from eda.assembly.proposals.proposer import Pair


def nearest_pairs(alike: np.ndarray, neighbors: int) -> list[Pair]:
    """Every scan with the most similar others, of a similarity (N, N): at most `neighbors` N pairs, i < j."""
    return _pairs(alike, np.ones(len(alike), dtype=bool), neighbors)


def bridging_pairs(alike: np.ndarray, group: np.ndarray, tried: set[Pair], neighbors: int) -> list[Pair]:
    """Further pairs that may connect groups (N,): scans outside of the largest one, with the most similar of others."""
    same = group[:, None] == group
    left = np.where(same, -np.inf, alike)
    for i, j in tried:
        left[i, j] = left[j, i] = -np.inf
    largest = np.bincount(group).argmax()
    return _pairs(left, group != largest, neighbors)


def _pairs(alike: np.ndarray, asking: np.ndarray, neighbors: int) -> list[Pair]:
    """The pairs of the scans that ask (N,) with the most similar others, the most similar pair first."""
    order = np.argsort(-alike, axis=1, kind="stable")[:, :neighbors]
    found = {
        (min(i, j), max(i, j))
        for i in np.flatnonzero(asking).tolist()
        for j in order[i].tolist()
        if np.isfinite(alike[i, j])
    }
    return sorted(found, key=lambda pair: (-alike[pair], pair))
