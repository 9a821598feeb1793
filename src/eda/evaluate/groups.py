"""Properties by which the figures of puzzles are grouped.

An `Example` does not carry its category or scene, so both are read off its name, and only here:

    everyday/Bowl/1a2b/fractured_3                category Bowl      (Breaking Bad: subset/category/shape/fracture)
    000012-chair                                  category chair     (the fracture generator: number-kind)
    7-scenes-redkitchen/cloud_bin_1-cloud_bin_0   scene 7-scenes-redkitchen   (3DMatch: the folder of the scans)
    000003-6-4-0.77                               scene 000003       (generated rooms: room-scan-scan-overlap)
    000012-3-100.4                                scene 000012       (generated streets: clip-frames-metres)
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from eda.data import Example
from eda.metrics import overlap_mask

UNKNOWN = "unknown"
# Upper bounds of the shares of overlap: the usual lists are 10 to 30 % (3DLoMatch) and above 30 % (3DMatch).
OVERLAPS = ((0.0, "0 %"), (0.1, "0-10 %"), (0.3, "10-30 %"), (1.0, "30-100 %"))


def category(name: str) -> str:
    """The kind of object that the name of a puzzle tells."""
    parts = name.split("/")
    if len(parts) == 4:
        return parts[1]
    generated = re.fullmatch(r"\d+-([a-zA-Z_]+)", name)
    return generated[1] if generated else UNKNOWN


def scene(name: str) -> str:
    """The scene of two scans that the name of the pair tells."""
    folder, _, pair = name.rpartition("/")
    if "-" not in pair:
        return UNKNOWN
    return folder.rpartition("/")[2] if folder else pair.partition("-")[0]


def overlap(example: Example) -> str:
    """The band of the share of the first piece that the second one saw too: within 5 cm, both in place."""
    source, target = example.clouds()[:2]
    share = float(np.mean(overlap_mask(source, target)))
    return next(label for bound, label in OVERLAPS if share <= bound)


def group_order(group: str) -> tuple[int, str]:
    """A key that sorts groups: by the number that they begin with, then by the alphabet."""
    number = re.match(r"\d+", group)
    return (int(number[0]) if number else -1, group)


PROPERTIES: dict[str, Callable[[Example], str]] = {
    "pieces": lambda example: str(int(example.own.sum())),
    "category": lambda example: category(example.name),
    "scene": lambda example: scene(example.name),
    "overlap": overlap,
}
