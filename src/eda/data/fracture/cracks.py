"""Cracks: where the next cut of a breaking object goes, for every kind of break.

In: the surface of the part that breaks. Out: a `Sheet`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eda.data.fracture.cuts import Heights, Sheet, bend, facets, waves
from eda.data.meshes import Mesh

# Lengths relative to the object's size.
STEP = 1 / 36  # between the vertices of a sheet
LONGEST_WAVE, SHORTEST_WAVE = 1 / 3, 2 * STEP
NEAR_IMPACT = 0.1  # a part that comes so near to the place of the impact can be cracked from there
NOWHERE = 1e-3  # nearer than this, the direction from the impact is not known

CURVATURE = 0.8  # of bent sheets, times the object's size
INNER = (0.2, 0.8)  # quantiles of a part between which it is cut
OUTER = (0.0, 0.15)  # the same where chips come off: near one end, which may be any
EVENNESS, CHIP_EVENNESS = (1, 3), (3, 5)  # the body of an object with chips is always the largest part
STAR_SHARE = 0.5  # of the shells crack in a star around the impact


@dataclass(frozen=True)
class Crack:
    """What the cuts of one object have in common."""

    kind: str  # one of `KINDS`
    size: float  # of the object; what follows is in its units
    roughness: float  # standard deviation of the breaks
    erosion: float  # widest gap along the breaks
    evenness: float  # how much large parts break before small ones
    focus: float  # how much parts near the impact break before others
    impact: np.ndarray  # (3,) where it was hit
    star: bool  # whether a shell cracks in a star around it
    inner: tuple[float, float] = INNER  # quantiles of a part between which it is cut

    @staticmethod
    def draw(
        rng: np.random.Generator, kind: str, mesh: Mesh, size: float, roughness: float, erosion: float, chips: float = 0
    ) -> Crack:
        """A random crack from anywhere on the surface; `roughness` and `erosion` are bounds, relative to the size.

        With the chance `chips`, chips come off a body; else the parts that break are cut through their middles.
        """
        chipped = bool(chips and rng.random() < chips)
        return Crack(
            kind=kind,
            size=size,
            roughness=size * roughness * rng.uniform(1 / 3, 1),
            erosion=size * erosion * rng.uniform(1 / 3, 1),
            evenness=rng.uniform(*(CHIP_EVENNESS if chipped else EVENNESS)),
            focus=rng.uniform(0, 2),
            impact=_surface_point(rng, mesh)[0],
            star=bool(rng.random() < STAR_SHARE),
            inner=OUTER if chipped else INNER,
        )

    def weight(self, volume: float, mesh: Mesh) -> float:
        """How readily a part breaks; its volume as a share of the whole."""
        return float(volume**self.evenness * (1 + 10 * self.distance(mesh)) ** -self.focus)

    def distance(self, mesh: Mesh) -> float:
        """The distance of a part from the impact, relative to the object's size."""
        return float(np.linalg.norm(mesh.vertices - self.impact, axis=1).min() / self.size)

    def sheet(self, rng: np.random.Generator, mesh: Mesh) -> Sheet:
        """The next cut, through a part with this surface."""
        across, point, coarse = KINDS[self.kind](rng, self, mesh)
        fine = waves(rng, self.size * LONGEST_WAVE, self.size * SHORTEST_WAVE, self.roughness)
        return Sheet(
            frame=_frame(rng, across),
            point=point,
            heights=lambda u, v: coarse(u, v) + fine(u, v),
            step=self.size * STEP,
            gap=self._gap(rng) if self.erosion else None,
        )

    def _gap(self, rng: np.random.Generator) -> Heights:
        """The width of the gap, which varies from zero to the widest."""
        lost = waves(rng, self.size * LONGEST_WAVE, self.size * 2 * SHORTEST_WAVE, 0.5)
        return lambda u, v: self.erosion * np.clip(0.5 + lost(u, v), 0, 1)


Course = tuple[np.ndarray, np.ndarray, Heights]  # the direction across the sheet, a point of it, its coarse form
Draw = Callable[[np.random.Generator, Crack, Mesh], Course]


def _rough(rng: np.random.Generator, crack: Crack, mesh: Mesh) -> Course:
    """A bent sheet through the middle."""
    across = _long_direction(rng, mesh)
    return across, _inner_point(rng, mesh, across, crack.inner), bend(rng, CURVATURE / crack.size)


def _cells(rng: np.random.Generator, crack: Crack, mesh: Mesh) -> Course:
    """The wall of a few Voronoi cells."""
    across = _long_direction(rng, mesh)
    return across, _inner_point(rng, mesh, across, crack.inner), facets(rng, 0.35 * float(np.ptp(mesh.vertices, axis=0).max()))


def _shell(rng: np.random.Generator, crack: Crack, mesh: Mesh) -> Course:
    """A sheet at right angles to the wall, as pots crack: anywhere, or from the impact if the part reaches there."""
    across = _long_direction(rng, mesh)
    point, normal = _inner_surface_point(rng, mesh, across, crack.inner)
    around = np.cross(normal, point - crack.impact)
    if crack.star and crack.distance(mesh) < NEAR_IMPACT and np.linalg.norm(around) > NOWHERE * crack.size:
        across = around
    return across - (across @ normal) * normal, point, bend(rng, CURVATURE / crack.size)


KINDS: dict[str, Draw] = {"rough": _rough, "cells": _cells, "shell": _shell}


def _surface_point(
    rng: np.random.Generator, mesh: Mesh, faces: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The centre of a triangle, drawn by area from all or from some (F,) bool, and its unit normal: (3,) each."""
    vectors = mesh.area_vectors
    areas = np.linalg.norm(vectors, axis=1)
    weights = areas if faces is None else areas * faces
    face = rng.choice(len(areas), p=weights / weights.sum())
    return mesh.corners[face].mean(axis=0), vectors[face] / areas[face]


def _long_direction(rng: np.random.Generator, mesh: Mesh) -> np.ndarray:
    """A random direction, mostly along the part, since things break across."""
    return rng.normal(size=len(mesh.vertices)) @ (mesh.vertices - mesh.vertices.mean(axis=0))


def _inner_point(
    rng: np.random.Generator, mesh: Mesh, across: np.ndarray, inner: tuple[float, float]
) -> np.ndarray:
    """A point of the part between two quantiles in this direction."""
    center, axis = mesh.vertices.mean(axis=0), across / np.linalg.norm(across)
    return center + axis * rng.uniform(*np.quantile((mesh.vertices - center) @ axis, inner))


def _inner_surface_point(
    rng: np.random.Generator, mesh: Mesh, across: np.ndarray, inner: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """A point of the surface between two quantiles in this direction, and the unit normal there."""
    along = mesh.corners.mean(axis=1) @ across
    low, high = np.quantile(along, inner)
    return _surface_point(rng, mesh, (along >= low) & (along <= high))


def _frame(rng: np.random.Generator, across: np.ndarray) -> np.ndarray:
    """A rotation whose last row points along `across`."""
    w = across / np.linalg.norm(across)
    u = np.cross(w, rng.normal(size=3))
    u /= np.linalg.norm(u)
    return np.stack([u, np.cross(w, u), w])
