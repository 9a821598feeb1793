"""Puzzles fresh from the generator of fractures: puzzle i is always the same one, whoever makes it and in any order.

In: what to break and how. Out: examples, or the broken objects themselves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from eda.data.example import Example
from eda.data.fracture.generator import Fracture, FractureConfig, fracture
from eda.data.fracture.mesh_collections import Meshes, open_meshes
from eda.data.fracture.shapes import SHAPES, check_kinds, kinds_of, random_shape
from eda.data.setting_text import typed_settings
from eda.data.source import ItemSource
from eda.errors import InputError
from eda.settings import check_whole

if TYPE_CHECKING:
    from manifold3d import Manifold


@dataclass(frozen=True)
class FractureSource(ItemSource[int]):
    """Broken objects. Picklable, so that many workers can share the work."""

    config: FractureConfig = field(default_factory=FractureConfig)
    seed: int = 0
    shapes: tuple[str, ...] | None = None  # kinds of our own shapes, drawn at random; None: all
    meshes: Meshes | None = None  # in their place, in turn: mesh i % len(meshes)
    num_puzzles: int = 1000

    def __post_init__(self) -> None:
        check_whole("puzzles", self.num_puzzles, 1, 2**31)
        check_whole("seed", self.seed, 0, 2**63)
        check_kinds(self._kinds)
        if self.config.foreign and self.meshes is not None and len(self.meshes) < 2:
            raise InputError("pieces of another object cannot come from a single mesh; give several, or foreign 0")

    @staticmethod
    def from_settings(settings: Mapping[str, str]) -> FractureSource:
        """The source of text settings: seed, puzzles, pieces=MIN-MAX, shapes, meshes=PATH, or of `FractureConfig`."""
        fields = dataclasses.fields(FractureConfig)
        of_config = {each.name: each.default for each in fields if each.default is not None}
        of_source = {"puzzles": 100, "seed": 0, "shapes": "all", "meshes": "", "pieces": "2-8"}
        values = typed_settings("fracture", settings, {**of_source, **of_config})
        if "pieces" in values:
            least, _, most = values["pieces"].partition("-")
            ends = {"min_pieces": least, "max_pieces": most or least}
            values |= typed_settings("fracture", ends, of_config)
        config = FractureConfig(**{key: value for key, value in values.items() if key in of_config})
        given = {**of_source, **values}
        meshes = open_meshes(given["meshes"]) if given["meshes"] else None
        kinds = kinds_of(given["shapes"].split("+"))
        return FractureSource(config, given["seed"], kinds, meshes, given["puzzles"])

    @property
    def _kinds(self) -> tuple[str, ...]:
        return tuple(SHAPES) if self.shapes is None else self.shapes

    @property
    def items(self) -> range:
        """The numbers of the puzzles."""
        return range(self.num_puzzles)

    def read(self, item: int) -> Example:
        """The puzzle as labelled points."""
        rng = np.random.default_rng([self.seed, item])
        name, broken = self._break(item, rng)
        return broken.example(self.config.num_points, rng, name)

    def fracture(self, item: int) -> tuple[str, Fracture]:
        """The name of the puzzle and the broken object."""
        return self._break(item, np.random.default_rng([self.seed, item]))

    def description(self) -> dict[str, Any]:
        """Everything that determines the puzzles, as JSON."""
        meshes = self.meshes
        of = list(self._kinds) if meshes is None else [meshes.name(i) for i in range(len(meshes))]
        what = "shapes" if meshes is None else "meshes"
        return {"made_by": "eda fracture", "seed": self.seed, "config": asdict(self.config), what: of}

    def _break(self, item: int, rng: np.random.Generator) -> tuple[str, Fracture]:
        name, solid = self._solid(item, rng)
        broken = fracture(solid, rng, self.config, name)
        other = None
        if self.config.foreign:
            foreign_name, solid = self._solid(item + self._step_to_another(rng), rng)
            other = fracture(solid, rng, self.config, foreign_name)
        return f"{item:06d}-{name}", broken.with_missing_and_foreign(rng, self.config, other)

    def _step_to_another(self, rng: np.random.Generator) -> int:
        """How many items further one of another mesh is."""
        return 0 if self.meshes is None else int(rng.integers(1, len(self.meshes)))

    def _solid(self, item: int, rng: np.random.Generator) -> tuple[str, Manifold]:
        """The name of what is to be broken, and the whole of it."""
        if self.meshes is None:
            kind = self._kinds[rng.integers(len(self._kinds))]
            return kind, random_shape(rng, [kind])
        index = item % len(self.meshes)
        return self.meshes.name(index), self.meshes.solid(index)
