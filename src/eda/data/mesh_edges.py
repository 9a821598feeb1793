"""The edges of the faces of a mesh, and which faces have them in common."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eda.data.meshes import equal_rows


class Edges(NamedTuple):
    """The three edges of every face, one face after the other, as the face passes them."""

    ends: np.ndarray  # (3 F, 2) vertices
    number: np.ndarray  # (3 F,) the same in both directions
    sharing: np.ndarray  # (3 F,) how many faces have this edge

    @staticmethod
    def of(faces: np.ndarray) -> Edges:
        """Those of faces (F, 3)."""
        ends = np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1).reshape(-1, 2)
        number = equal_rows(np.sort(ends, axis=1))
        return Edges(ends, number, np.bincount(number)[number])

    @property
    def sign(self) -> np.ndarray:
        """(3 F,) 1 from the lower vertex to the higher one, -1 backwards."""
        return np.where(self.ends[:, 0] < self.ends[:, 1], 1, -1)

    def take(self, rows: np.ndarray) -> Edges:
        """Some of the edges."""
        return Edges(self.ends[rows], self.number[rows], self.sharing[rows])


def links_of_equals(keys: np.ndarray, things: np.ndarray) -> np.ndarray:
    """(m, 2) of the things (n,), each with the next one that has the same key."""
    order = np.argsort(keys, kind="stable")
    is_same = keys[order[1:]] == keys[order[:-1]]
    return np.stack([things[order[:-1]], things[order[1:]]], axis=1)[is_same]
