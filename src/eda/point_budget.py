"""PointBudget: to how many points a puzzle is thinned before a network sees it."""

from __future__ import annotations

from dataclasses import dataclass

from eda.settings import check_whole


@dataclass(frozen=True)
class PointBudget:
    """A number of points for a puzzle; more for one of many pieces, so that each of its joints keeps enough."""

    points: int
    per_piece: int = 0  # at least so many for each piece

    def __post_init__(self) -> None:
        check_whole("points", self.points, 1, 2**40)
        check_whole("per_piece", self.per_piece, 0, 2**40)

    def of(self, num_pieces: int) -> int:
        """For a puzzle of so many pieces."""
        return max(self.points, self.per_piece * num_pieces)
