"""Candidate pairs: which scans to register with which. Their number grows with the scans, not with their square."""

from __future__ import annotations

import numpy as np

from eda.assembly.proposals.proposer import Pair


def nearest_pairs(similarity: np.ndarray, neighbors: int) -> list[Pair]:
    """Every scan with the most similar others, of a similarity (N, N): at most `neighbors` N pairs, i < j."""
    return _pairs(similarity, np.ones(len(similarity), dtype=bool), neighbors)


def bridging_pairs(similarity: np.ndarray, group: np.ndarray, old_pairs: set[Pair], neighbors: int) -> list[Pair]:
    """Further pairs that may connect groups (N,): scans outside of the largest one, with the most similar of others."""
    same = group[:, None] == group
    remaining = np.where(same, -np.inf, similarity)
    for i, j in old_pairs:
        remaining[i, j] = remaining[j, i] = -np.inf
    largest = np.bincount(group).argmax()
    return _pairs(remaining, group != largest, neighbors)


def _pairs(similarity: np.ndarray, seeking: np.ndarray, neighbors: int) -> list[Pair]:
    """The pairs of the scans that seek (N,) with the most similar others, the most similar pair first."""
    order = np.argsort(-similarity, axis=1, kind="stable")[:, :neighbors]
    pairs = {
        (min(i, j), max(i, j))
        for i in np.flatnonzero(seeking).tolist()
        for j in order[i].tolist()
        if np.isfinite(similarity[i, j])
    }
    return sorted(pairs, key=lambda pair: (-similarity[pair], pair))
