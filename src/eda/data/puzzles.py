"""A stream of puzzles: item i is always the same one, whoever makes it and in whichever order.

In: what to break and how. Out: examples for a dataset, or the broken object itself.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from eda.data.example import Example
from eda.data.fracture import Fracture, FractureConfig, fracture
from eda.data.mesh_files import MeshSource
from eda.data.shapes import SHAPES, check_kinds, random_shape
from eda.errors import InputError

if TYPE_CHECKING:
    from manifold3d import Manifold


@dataclass(frozen=True)
class FractureSource:
    """Item i -> one puzzle. Picklable, so that many workers can share the work."""

    config: FractureConfig = field(default_factory=FractureConfig)
    seed: int = 0
    shapes: tuple[str, ...] | None = None  # kinds of our own shapes, drawn at random; None: all
    meshes: MeshSource | None = None  # in their place, in turn: mesh i % len(meshes)

    def __post_init__(self) -> None:
        check_kinds(self._kinds)
        if self.config.foreign and self.meshes is not None and len(self.meshes) < 2:
            raise InputError("pieces of another object cannot come from a single mesh; give several, or foreign 0")

    @property
    def _kinds(self) -> tuple[str, ...]:
        return tuple(SHAPES) if self.shapes is None else self.shapes

    def __call__(self, item: int) -> list[Example]:
        """The puzzle as labelled points."""
        rng = np.random.default_rng([self.seed, item])
        name, broken = self._broken(item, rng)
        return [broken.example(self.config.num_points, rng, name)]

    def broken(self, item: int) -> tuple[str, Fracture]:
        """The name of the puzzle and the broken object."""
        return self._broken(item, np.random.default_rng([self.seed, item]))

    def description(self) -> dict[str, Any]:
        """All that decides about the puzzles, as JSON."""
        meshes = self.meshes
        of = list(self._kinds) if meshes is None else [meshes.name(i) for i in range(len(meshes))]
        what = "shapes" if meshes is None else "meshes"
        return {"made_by": "eda fracture", "seed": self.seed, "config": asdict(self.config), what: of}

    def _broken(self, item: int, rng: np.random.Generator) -> tuple[str, Fracture]:
        name, solid = self._whole(item, rng)
        broken = fracture(solid, rng, self.config, name)
        other = None
        if self.config.foreign:
            strange, solid = self._whole(item + self._to_another(rng), rng)
            other = fracture(solid, rng, self.config, strange)
        return f"{item:06d}-{name}", broken.spoiled(rng, self.config, other)

    def _to_another(self, rng: np.random.Generator) -> int:
        """From an item to one of another mesh."""
        return 0 if self.meshes is None else int(rng.integers(1, len(self.meshes)))

    def _whole(self, item: int, rng: np.random.Generator) -> tuple[str, Manifold]:
        if self.meshes is None:
            kind = self._kinds[rng.integers(len(self._kinds))]
            return kind, random_shape(rng, [kind])
        index = item % len(self.meshes)
        return self.meshes.name(index), self.meshes.solid(index)
