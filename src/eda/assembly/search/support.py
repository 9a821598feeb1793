"""Support: which pieces of an assembly are connected to the others by joints that gain enough."""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import connected_components

from eda.assembly.contact.evidence import Evidence
from eda.assembly.contact.score import score_assemblies
from eda.assembly.search.assemblies import Assemblies
from eda.assembly.search.joints import JointConfig


def prune_unsupported(
    evidence: Evidence, poses: np.ndarray, config: JointConfig, anchor: int | None = None
) -> Assemblies:
    """Assemblies (K, N, 4, 4) without their unsupported pieces, taken out one after the other, and of the rest the
    connected component that gains most. With an anchor, which is never taken out, the component of this piece.
    """
    gain, placed = score_assemblies(evidence, poses).gain, np.ones(poses.shape[:2], dtype=bool)
    for _ in range(len(evidence)):
        pieces = (gain * placed[:, None]).sum(axis=2) / evidence.masses
        unsupported = placed & (pieces <= config.least_gain)
        if anchor is not None:
            unsupported[:, anchor] = False
        rows = np.flatnonzero(unsupported.any(axis=1))
        placed[rows, np.where(unsupported, pieces, np.inf)[rows].argmin(axis=1)] = False
    components = [_best_component(one, some, anchor) for one, some in zip(gain, placed, strict=True)]
    placed = np.array(components, dtype=bool).reshape(placed.shape)
    found = Assemblies.of(evidence, poses, placed)
    return found[np.flatnonzero(all_supported(found, config) & (placed.sum(axis=1) > 1))]


def _best_component(gain: np.ndarray, placed: np.ndarray, anchor: int | None) -> np.ndarray:
    """(N,) of the pieces placed, the component, connected by joints of gain (N, N), that gains most."""
    component = components(gain, placed)
    if anchor is not None:
        return placed & (component == component[anchor])
    within = [gain[np.ix_(component == k, component == k)].sum() for k in range(component.max() + 1)]
    return placed & (component == int(np.argmax(within)))


def components(gain: np.ndarray, placed: np.ndarray) -> np.ndarray:
    """(N,) the number of the connected component of every piece; those not placed are components of their own."""
    return connected_components((gain + gain.T > 0) & placed & placed[:, None], directed=False)[1]


def is_connected(evidence: Evidence, assemblies: Assemblies) -> np.ndarray:
    """(K,) whether the pieces placed are connected by joints that gain."""
    gain = score_assemblies(evidence, assemblies.poses, assemblies.placed).gain
    every = zip(gain, assemblies.placed, strict=True)
    return np.array([len(np.unique(components(one, placed)[placed])) <= 1 for one, placed in every], dtype=bool)


def all_supported(assemblies: Assemblies, config: JointConfig) -> np.ndarray:
    """(K,) whether every piece that is placed gains enough."""
    return ((assemblies.pieces > config.least_gain) | ~assemblies.placed).all(axis=1)
