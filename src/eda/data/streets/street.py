"""A whole street: roads on their ground, and everything that stands along them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from eda.data.rooms.chance import Rng
from eda.data.streets.bodies import Bodies, Body, move_bodies
from eda.data.streets.buildings import building, shed
from eda.data.streets.centrelines import Centreline, branches
from eda.data.streets.character import Character
from eda.data.streets.greenery import bush, hedge, tree
from eda.data.streets.ground_plan import GroundPlan, Road
from eda.data.streets.street_furniture import fence, low_wall, post, rail
from eda.data.streets.vehicles import cyclist, vehicle, walker

_BACKS = 60.0  # metres from the driven line within which something stands behind buildings
_PARKING = 2.1  # metres of a road that parked cars take


def draw_road(rng: Rng, line: Centreline, character: Character) -> Road:
    """A road with this middle."""
    return Road(line, rng.uniform(*character.half_width), rng.uniform(*character.pavement))


def lane_of(road: Road, character: Character) -> float:
    """How far to the right of its middle one drives."""
    parking = _PARKING if character.parked > 0.1 else 0.0
    return max((road.half_width - parking) / 2, 1.0)


@dataclass
class Street:
    """The roads around a driven line, while they are being built up."""

    rng: Rng
    character: Character
    roads: list[Road]  # the first one is driven along
    plan: GroundPlan
    bodies: list[Body] = field(default_factory=list)

    @staticmethod
    def along(rng: Rng, driven: Road, character: Character) -> Street:
        """A street with everything in it."""
        roads = [driven, *(draw_road(rng, line, character) for line in branches(rng, driven.line, character.branches))]
        plan = GroundPlan(rng, roads, abs(rng.normal(0, 0.035)), rng.uniform(*character.rough))
        street = Street(rng, character, roads, plan)
        for road in roads:
            for side in (-1, 1):
                street._build_up(road, side)
                street._park(road, side)
                street._plant(road, side)
        street._fill_backs()
        return street

    def traffic(self, along: float) -> Bodies:
        """Who is on the road, and walks beside it, when the sensor is so far along the driven line."""
        rng, road, made = self.rng, self.roads[0], list[Body]()
        lane = lane_of(road, self.character)
        for _ in range(rng.poisson(self.character.traffic)):
            distance = rng.uniform(9, 70) * rng.choice([-1, 1])
            side = rng.choice([-1, 1])
            made += self._on_road(vehicle(rng), road.line, along + distance, -side * lane, side < 0)
        for _ in range(rng.poisson(1.5 * self.character.built)):
            distance, side = rng.uniform(-50, 50), rng.choice([-1, 1])
            someone = walker(rng) if rng.random() < 0.8 else cyclist(rng)
            aside = side * (road.half_width + rng.uniform(0.2, max(road.pavement, 0.4)))
            made += self._on_road(someone, road.line, along + distance, aside, rng.random() < 0.5)
        return Bodies.of(made)

    # -- along the road ----------------------------------------------------------------------------------------

    def _build_up(self, road: Road, side: int) -> None:
        """Plots with buildings, and what bounds them."""
        rng, character = self.rng, self.character
        along = rng.uniform(0, 10)
        while along < road.line.length:
            width = rng.uniform(*character.width)
            front = road.half_width + road.pavement
            bounded = rng.random() < character.bounded
            if rng.random() < character.built:
                set_back, depth = rng.uniform(*character.setback), rng.uniform(7, 14)
                height = rng.uniform(*character.height)
                x, y, yaw = road.line.at(along + width / 2, side * (front + 1.3 + set_back + depth / 2))
                if self.plan.claim(x, y, (width / 2 - 0.3, depth / 2 - 0.3), yaw):
                    parts = move_bodies(building(rng, width, depth, height), (-width / 2, -depth / 2, 0), 0)
                    self._stand(parts, x, y, yaw if side > 0 else yaw + math.pi)
            if bounded:
                self._bound(road, side, along, width, front)
            along += width + (0.0 if rng.random() < character.joined else rng.uniform(1, 12))

    def _bound(self, road: Road, side: int, along: float, width: float, front: float) -> None:
        """A hedge, a fence or a wall beside the pavement, in parts between gates, and the sides of plots."""
        rng, start = self.rng, along
        kind = (hedge, hedge, fence, low_wall, rail)[rng.integers(4 if self.character.built > 0.1 else 5)]
        while start < along + width - 2:
            length = min(rng.uniform(3, 14), along + width - start)
            x, y, yaw = road.line.at(start + length / 2, side * (front + rng.uniform(0.3, 0.8)))
            if self.plan.from_edge(x, y) > 0.8 * road.pavement:
                self._stand(move_bodies(kind(rng, length), (-length / 2, 0, 0), 0), x, y, yaw)
            start += length + rng.choice([0.0, rng.uniform(1, 4)])
        if kind is not rail and rng.random() < 0.6:
            depth = rng.uniform(4, 12)
            x, y, yaw = road.line.at(along, side * (front + 0.8 + depth / 2))
            if self.plan.claim(x, y, (0.3, depth / 2), yaw):
                self._stand(move_bodies(kind(rng, depth), (-depth / 2, 0, 0), 0), x, y, yaw + math.pi / 2)

    def _park(self, road: Road, side: int) -> None:
        """Cars along the kerb."""
        rng, along = self.rng, self.rng.uniform(0, 8)
        share, lane = self.character.parked * rng.uniform(0.3, 1.7), lane_of(road, self.character)
        while along < road.line.length:
            aside = max(road.half_width - rng.uniform(0.9, 1.15), lane + 2.5)  # of a narrow road, on the pavement
            x, y, yaw = road.line.at(along, side * aside)
            if rng.random() < share and self.plan.from_edge(x, y) > -1.6:
                self._stand(vehicle(rng), x, y, (yaw if side < 0 else yaw + math.pi) + rng.normal(0, 0.02))
            along += rng.uniform(5.2, 6.5)

    def _plant(self, road: Road, side: int) -> None:
        """Trees, posts and bushes beside the road."""
        rng, character = self.rng, self.character
        front = road.half_width + road.pavement
        for along, thing in self._scattered(
            road, (character.trees, character.posts, 0.7 * character.trees + 0.3 * character.bounded)
        ):
            aside = (rng.uniform(0.6, 6), rng.choice([-0.3, -max(road.pavement - 0.5, 0.2)]), rng.uniform(1, 5))[thing]
            x, y, yaw = road.line.at(along, side * (front + aside))
            standing = self.plan.from_edge(x, y) > 0.3 if thing == 1 else self.plan.claim(x, y, (0.6, 0.6))
            if standing:
                self._stand((tree, post, bush)[thing](rng), x, y, yaw if side > 0 else yaw + math.pi)

    def _scattered(self, road: Road, rates: tuple[float, ...]) -> Iterator[tuple[float, int]]:
        """Places along a road and the number of a kind, for as many as each kind has every 10 m."""
        for kind, rate in enumerate(rates):
            for along in self.rng.uniform(0, road.line.length, self.rng.poisson(rate * road.line.length / 10)):
                yield along, kind

    def _fill_backs(self) -> None:
        """Trees, bushes, sheds and parked cars behind the first row."""
        rng, line = self.rng, self.roads[0].line
        area = 2 * _BACKS * line.length / 100
        for _ in range(int(area * (self.character.backs + 0.1 * self.character.built))):
            x, y, yaw = line.at(rng.uniform(0, line.length), rng.uniform(-1, 1) * _BACKS)
            make = (tree, tree, bush, bush, shed, vehicle)[rng.integers(6)]
            half = (2.4, 3.0) if make in (shed, vehicle) else (0.8, 0.8)
            yaw += rng.integers(4) * math.pi / 2 + rng.normal(0, 0.05)
            if self.plan.claim(x, y, half, yaw):
                self._stand(make(rng), x, y, yaw)

    # -- one thing -----------------------------------------------------------------------------------------------

    def _stand(self, thing: list[Body], x: float, y: float, yaw: float) -> None:
        self.bodies += move_bodies(thing, (x, y, self.plan.ground.at((x, y))), yaw)

    def _on_road(self, thing: list[Body], line: Centreline, along: float, aside: float, back: bool) -> list[Body]:
        if not 0 < along < line.length:
            return []
        x, y, yaw = line.at(along, aside)
        return move_bodies(thing, (x, y, self.plan.ground.at((x, y))), yaw + (math.pi if back else 0))
