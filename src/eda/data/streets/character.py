"""What kind of street it is: how it is built up, planted and parked."""

from __future__ import annotations

from typing import NamedTuple

from eda.data.rooms.chance import Rng, draw_kind

Range = tuple[float, float]


class Character(NamedTuple):
    """Chances and sizes, in metres."""

    half_width: Range  # of the road
    pavement: Range  # its width
    branches: Range  # from one branching road to the next
    built: float  # share of the frontage with buildings
    joined: float  # chance that a building touches the one before
    setback: Range  # from the pavement to a building
    width: Range  # of a building, along the road
    height: Range  # of a building
    bounded: float  # share of plots with a hedge, fence or wall
    parked: float  # share of the kerb with parked cars
    trees: float  # for every 10 m of a side
    backs: float  # trees, bushes and sheds behind, for every 100 square metres
    posts: float  # lamps, signs and bollards, for every 10 m of a side
    traffic: float  # cars on the road that one sweep sees
    rough: Range  # metres, how uneven the ground beside the road is
    bends: float  # share of the road that bends
    turns: float  # chance of a turn after every 25 to 110 m


RESIDENTIAL = Character(
    half_width=(3.5, 5.5), pavement=(1.5, 3), branches=(40, 110), built=0.75, joined=0.35, setback=(0.5, 9),
    width=(8, 18), height=(5, 11), bounded=0.55, parked=0.35, trees=1.0, backs=3.0, posts=0.45, traffic=0.8,
    rough=(0.2, 1.0), bends=0.4, turns=0.25,
)  # fmt: skip
CENTRE = Character(
    half_width=(4.5, 9.0), pavement=(2.5, 6), branches=(45, 120), built=0.85, joined=0.7, setback=(0, 3),
    width=(8, 25), height=(8, 18), bounded=0.1, parked=0.4, trees=0.8, backs=1.5, posts=0.6, traffic=2.5,
    rough=(0.0, 0.3), bends=0.3, turns=0.25,
)  # fmt: skip
LEAFY = Character(
    half_width=(3.2, 5.0), pavement=(1.2, 3), branches=(70, 180), built=0.35, joined=0.1, setback=(3, 12),
    width=(8, 20), height=(4, 10), bounded=0.6, parked=0.2, trees=1.4, backs=4.0, posts=0.3, traffic=0.8,
    rough=(0.3, 1.2), bends=0.6, turns=0.15,
)  # fmt: skip
WORKS = Character(
    half_width=(3.8, 6.0), pavement=(1, 3), branches=(60, 160), built=0.5, joined=0.1, setback=(3, 20),
    width=(15, 50), height=(5, 12), bounded=0.5, parked=0.3, trees=0.7, backs=1.5, posts=0.4, traffic=1.5,
    rough=(0.0, 0.5), bends=0.3, turns=0.25,
)  # fmt: skip
COUNTRY = Character(
    half_width=(3.0, 4.5), pavement=(0.2, 1.0), branches=(90, 250), built=0.08, joined=0.1, setback=(5, 20),
    width=(8, 20), height=(4, 9), bounded=0.25, parked=0.03, trees=1.2, backs=3.0, posts=0.25, traffic=0.7,
    rough=(0.4, 1.8), bends=0.7, turns=0.05,
)  # fmt: skip

# How often. The order belongs to the random numbers: another one gives other streets.
CHARACTERS = {RESIDENTIAL: 4.0, CENTRE: 2.0, LEAFY: 2.0, WORKS: 1.0, COUNTRY: 1.0}


def draw_character(rng: Rng) -> Character:
    """One of the kinds, or something between two of them."""
    first, second = draw_kind(rng, CHARACTERS), draw_kind(rng, CHARACTERS)
    share = rng.uniform(0, 0.35)

    def between(a: float | Range, b: float | Range) -> float | Range:
        if isinstance(a, tuple) and isinstance(b, tuple):
            return tuple(x + share * (y - x) for x, y in zip(a, b, strict=True))  # type: ignore[return-value]
        return a + share * (b - a)  # type: ignore[operator]

    return Character(*(between(a, b) for a, b in zip(first, second, strict=True)))  # type: ignore[arg-type]
