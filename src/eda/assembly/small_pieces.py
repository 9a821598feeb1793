"""Pieces that are too small beside the others: no place is looked for, and the result says so.

All pieces are judged at one scale, that of the larger ones. A tiny chip fits nearly everywhere at that scale, so its
place would be a guess; and it would take time and points from the pieces that can be placed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from eda.assembly.inputs.clouds import Clouds
from eda.assembly.result import Alternative, Assembly

# The radius below which a piece is too small, relative to that of the largest piece. Measured on raw meshes: of seven
# chips up to 0.09 that were placed, one was right; those from 0.18 on mostly were.
SMALLEST_RADIUS = 0.1


@dataclass(frozen=True)
class SmallPieces:
    """All N pieces, and which of them are large enough to be placed."""

    names: tuple[str, ...]  # (N,)
    clouds: Clouds  # N
    large: np.ndarray  # (L,) the indices of the others, ascending

    @staticmethod
    def among(names: tuple[str, ...], clouds: Clouds, pinned: Collection[int]) -> SmallPieces:
        """Those among the pieces of a broken object. A piece that is `pinned` counts as large, and so do all if fewer
        than two would.
        """
        radius = np.array([_radius(cloud) for cloud in clouds.points])
        large = radius >= SMALLEST_RADIUS * radius.max()
        large[list(pinned)] = True
        return SmallPieces(names, clouds, np.flatnonzero(large if large.sum() > 1 else np.ones_like(large)))

    @staticmethod
    def none(names: tuple[str, ...], clouds: Clouds) -> SmallPieces:
        """All pieces are large enough."""
        return SmallPieces(names, clouds, np.arange(len(names)))

    @property
    def are_none(self) -> bool:
        """Whether every piece is large enough."""
        return len(self.large) == len(self.names)

    def add_to(self, assembly: Assembly) -> Assembly:
        """An assembly of the large pieces as one of all pieces, in which the small ones are unplaced."""
        if self.are_none:
            return assembly
        flow = np.tile(np.eye(4), (len(assembly.flow), len(self.names), 1, 1))
        flow[:, self.large] = assembly.flow
        return replace(
            assembly,
            names=self.names,
            clouds=self.clouds,
            alternatives=tuple(self._with_unplaced(one) for one in assembly.alternatives),
            flow=flow,
            pinned=tuple(int(self.large[i]) for i in assembly.pinned),
        )

    def _with_unplaced(self, found: Alternative) -> Alternative:
        count, large = len(self.names), self.large
        poses, joints, small = np.tile(np.eye(4), (count, 1, 1)), np.zeros((count, count)), np.ones(count, dtype=bool)
        poses[large], joints[np.ix_(large, large)], small[large] = found.poses, found.joints, False
        return replace(
            found,
            poses=poses,
            placed=self._of_all(found.placed),
            confidence=self._of_all(found.confidence),
            joints=joints,
            rejected=None if found.rejected is None else self._of_all(found.rejected),
            too_small=small,
        )

    def _of_all(self, values: np.ndarray) -> np.ndarray:
        """Values (L,) of the large pieces as values (N,), zero for the small ones."""
        whole = np.zeros(len(self.names), dtype=values.dtype)
        whole[self.large] = values
        return whole


def _radius(cloud: np.ndarray) -> float:
    """Of the smallest sphere around the mean of the points (n, 3)."""
    return float(np.linalg.norm(cloud - cloud.mean(axis=0), axis=1).max())
