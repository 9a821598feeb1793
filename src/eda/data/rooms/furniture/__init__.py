"""Furniture that stands on the floor of a room.

In: chance. Out: a `Thing` that stands on z = 0 with its back along y = 0, x along the wall and y into the room, in
metres, and the places on it where smaller things can stand.
"""

from __future__ import annotations

from collections.abc import Callable

from eda.data.rooms.chance import Rng
from eda.data.rooms.furniture.cupboards import cabinet, counter, rack, shelf
from eda.data.rooms.furniture.desks import desks, piano, table
from eda.data.rooms.furniture.fixed import bath, partition, pillar, stairs
from eda.data.rooms.furniture.loose import bin_, cartons, heap, lamp, plant
from eda.data.rooms.furniture.seats import bed, chair, corner_sofa, sofa
from eda.data.rooms.furniture.thing import Thing, Top

__all__ = ["AT_WALLS", "INSIDE", "Thing", "Top", "chair"]

# How often, relative to the others. The order belongs to the random numbers: another one gives other rooms.
AT_WALLS: dict[Callable[[Rng], Thing], float] = {
    table: 3, shelf: 3, cabinet: 3, counter: 2, bed: 1, sofa: 2, lamp: 1, plant: 1, cartons: 1, heap: 1, bin_: 1,
    pillar: 1.2, partition: 0.8, piano: 1, chair: 1.5, bath: 1.2, stairs: 0.3, desks: 1, corner_sofa: 0.7, rack: 0.5,
}  # fmt: skip
INSIDE: dict[Callable[[Rng], Thing], float] = {
    table: 3, chair: 4, sofa: 1.5, shelf: 0.5, cabinet: 0.5, cartons: 1, heap: 1, bin_: 1, lamp: 0.5, plant: 0.7,
    bed: 0.5, partition: 0.4, pillar: 0.3, desks: 0.7, corner_sofa: 0.5, counter: 0.5, rack: 0.2,
}  # fmt: skip
