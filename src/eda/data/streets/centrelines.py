"""The middles of roads: the one that is driven along, and those that branch off it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from eda.data.rooms.chance import Rng

_TURN_RADIUS = (8.0, 12.0)  # metres, of a turn at a junction


class Centreline(NamedTuple):
    """A curve through points a metre apart."""

    points: np.ndarray  # (n, 2)
    heading: np.ndarray  # (n,) radians
    corners: tuple[int, ...] = ()  # the points where it begins to turn at a junction, for the curve that is driven

    @property
    def length(self) -> int:
        """In metres."""
        return len(self.points) - 1

    def at(self, along: float, aside: float = 0.0) -> tuple[float, float, float]:
        """x, y and heading so far along it, and so far to the left of it."""
        i = min(max(int(along), 0), len(self.points) - 2)
        rest, heading = along - i, float(self.heading[i])
        x, y = self.points[i] + rest * (self.points[i + 1] - self.points[i])
        return float(x - aside * math.sin(heading)), float(y + aside * math.cos(heading)), heading

    def part(self, first: int, last: int) -> Centreline:
        """What lies between two points."""
        first, last = max(first, 0), min(last, self.length)
        corners = tuple(corner - first for corner in self.corners if first <= corner <= last)
        return Centreline(self.points[first : last + 1], self.heading[first : last + 1], corners)


def driven_line(rng: Rng, length: float, bends: float, turns: float) -> Centreline:
    """Straights, bends and turns at junctions. `bends` is the share of bends, `turns` the chance of a turn after each.

    Turns mostly change sides, so that the way does not lead back.
    """
    curvature: list[np.ndarray] = []
    corners, done, side = [], 0, rng.choice([-1, 1])
    while done < length:
        piece = np.zeros(int(rng.uniform(25, 110)))
        if rng.random() < bends:
            piece[:] = rng.choice([-1, 1]) / rng.uniform(60, 350)
        curvature.append(piece)
        done += len(piece)
        if rng.random() < turns:
            side = -side if rng.random() < 0.8 else side
            radius = rng.uniform(*_TURN_RADIUS)
            corners.append(done)
            curvature.append(np.full(int(radius * rng.uniform(1.3, 1.8)), side / radius))
            done += len(curvature[-1])
    return _integrated(np.zeros(2), rng.uniform(0, 2 * math.pi), np.concatenate(curvature), tuple(corners))


def branches(rng: Rng, line: Centreline, distance: tuple[float, float]) -> list[Centreline]:
    """The roads that go straight on where the line turns, and those that branch off every so many metres."""
    made = []
    for corner in line.corners:
        heading = line.heading[corner]
        made.append(_branch(rng, line.points[corner] - 8 * _direction(heading), heading))
        turned = line.heading[min(corner + 25, line.length)]
        if rng.random() < 0.6:
            middle = line.points[corner] + 9 * _direction(heading)
            made.append(_branch(rng, middle, turned + math.pi))
    along = rng.uniform(10, distance[1])
    while along < line.length:
        if not any(-20 < along - corner < 40 for corner in line.corners):
            x, y, heading = line.at(along)
            for side in rng.permutation([-1, 1])[: rng.integers(1, 3)]:
                made.append(_branch(rng, np.array([x, y]), heading + side * rng.uniform(1.2, 1.95)))
        along += rng.uniform(*distance)
    return made


def _branch(rng: Rng, start: np.ndarray, heading: float) -> Centreline:
    curvature = np.full(int(rng.uniform(50, 110)), rng.normal(0, 1 / 300))
    return _integrated(start, heading, curvature)


def _integrated(start: np.ndarray, heading: float, curvature: np.ndarray, corners: tuple[int, ...] = ()) -> Centreline:
    """The curve of a curvature for every metre."""
    headings = heading + np.concatenate([[0], np.cumsum(curvature)])
    steps = np.stack([np.cos(headings[:-1]), np.sin(headings[:-1])], axis=1)
    return Centreline(start + np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)]), headings, corners)


def _direction(heading: float) -> np.ndarray:
    return np.array([math.cos(heading), math.sin(heading)])
