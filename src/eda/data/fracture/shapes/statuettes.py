"""Figures: people, animals and parts of them, from limbs and lumps.

In: a random generator. Out: a solid; the z axis points up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from eda.data.fracture.shapes.loft import Vector, ball, bow, lathe, outline, tube
from eda.data.fracture.solids import union

if TYPE_CHECKING:
    from manifold3d import Manifold


def _limb(rng: np.random.Generator, knots: Sequence[Vector], thick: float, thin: float) -> Manifold:
    """A bent limb, from thick to thin."""
    return tube(bow(knots, 8), np.linspace(thick, thin, 8), 10, rng.uniform(0.8, 1.25))


def _arm(rng: np.random.Generator, side: int) -> Manifold:
    u = rng.uniform
    shoulder, elbow = (side * 0.12, 0, 0.76), (side * u(0.24, 0.33), u(-0.12, 0.12), u(0.5, 0.7))
    hand = (side * u(0.1, 0.4), u(-0.3, 0.3), u(0.35, 1.0))
    upper = tube(np.array([shoulder, elbow]), np.array([0.06, 0.05]))
    lower = tube(np.array([elbow, hand]), np.array([0.05, u(0.035, 0.05)]))
    return union([upper, ball(elbow, (0.05,) * 3, segments=10), lower])


def _leg(rng: np.random.Generator, side: int) -> Manifold:
    u = rng.uniform
    knee, foot = (side * u(0.1, 0.16), u(-0.1, 0.1), 0.2), (side * 0.11, u(-0.08, 0.08), -0.03)
    return _limb(rng, [(side * 0.09, 0, 0.44), knee, foot], 0.085, 0.06)


def figurine(rng: np.random.Generator) -> Manifold:
    """A standing figure: trunk, head, two arms that do something; legs on a base, or a robe."""
    u = rng.uniform
    hips = [(u(0.13, 0.2), 0.35), (u(0.1, 0.14), 0.52), (u(0.15, 0.2), 0.75)]
    trunk = lathe(outline([*hips, (0.06, 0.84), (0.05, 0.95)], 12), 18)
    head = ball((u(-0.03, 0.03), u(-0.03, 0.03), 0.97), u(0.09, 0.12, size=3), squareness=u(0.8, 1))
    parts = [trunk, head, _arm(rng, -1), _arm(rng, 1)]
    if rng.random() < 0.5:
        robe = lathe(outline([(u(0.2, 0.3), 0), (u(0.16, 0.24), 0.2), (0.13, 0.42)], 8), 18)
        return union([*parts, robe])
    base = ball((u(-0.03, 0.03), u(-0.03, 0.03), -0.07), (u(0.22, 0.3), u(0.18, 0.25), 0.06), squareness=0.4)
    return union([*parts, _leg(rng, -1), _leg(rng, 1), base])


def animal(rng: np.random.Generator) -> Manifold:
    """A body on four legs with neck, head and tail."""
    u = rng.uniform
    long, wide, high = u(0.3, 0.42), u(0.12, 0.2), u(0.25, 0.4)
    body = ball((0, 0, 0), (long, wide, u(0.13, 0.2)), squareness=u(0.75, 1), segments=20)
    nape = (long + u(0.02, 0.15), u(-0.06, 0.06), u(0.15, 0.35))
    neck = _limb(rng, [(0.7 * long, 0, 0.03), (long, 0, 0.1), nape], 0.11, 0.07)
    head = ball(np.add(nape, (0.05, 0, 0.02)), (u(0.1, 0.17), u(0.06, 0.1), u(0.07, 0.1)))
    tip = (-long - u(0.1, 0.3), u(-0.15, 0.15), u(-0.15, 0.3))
    tail = _limb(rng, [(-0.8 * long, 0, 0.02), (-long - 0.05, 0, 0.05), tip], 0.05, 0.025)
    legs = []
    for x, y in ((-1, -1), (-1, 1), (1, -1), (1, 1)):
        hip = np.array([x * 0.62 * long, y * 0.5 * wide, -0.03])
        knee = np.add(hip, (u(-0.06, 0.06), 0, -0.5 * high))
        foot = np.add(hip, (u(-0.06, 0.06), 0.1 * y * wide, -high))
        legs.append(_limb(rng, [hip, knee, foot], u(0.06, 0.075), u(0.04, 0.055)))
    return union([body, neck, head, tail, *legs])


def bird(rng: np.random.Generator) -> Manifold:
    """A body with head, beak, wings and tail, sitting on a stone."""
    u = rng.uniform
    body = ball((0, 0, 0), (u(0.28, 0.36), u(0.16, 0.22), u(0.17, 0.23)), segments=20)
    head_at = np.array([u(0.25, 0.35), u(-0.05, 0.05), u(0.2, 0.3)])
    head = ball(head_at, u(0.1, 0.14, size=3))
    neck = _limb(rng, [(0.1, 0, 0), np.add(0.5 * head_at, (0.1, 0, 0)), head_at], 0.12, 0.09)
    tip = np.add(head_at, (u(0.18, 0.28), 0, -0.03))
    beak = _limb(rng, [head_at, np.add(head_at, (0.12, 0, 0)), tip], 0.06, 0.015)
    tail = ball((-0.36, u(-0.05, 0.05), u(0, 0.08)), (u(0.15, 0.25), u(0.08, 0.14), 0.035), squareness=0.8)
    wings = [
        ball((-0.05, side * u(0.14, 0.22), u(0, 0.1)), (u(0.18, 0.28), u(0.08, 0.2), u(0.03, 0.1)))
        for side in (-1, 1)
    ]  # fmt: skip
    rock = ball((u(-0.1, 0.1), 0, -u(0.2, 0.25)), (u(0.14, 0.24), u(0.14, 0.24), u(0.1, 0.14)), squareness=u(0.5, 1))
    return union([body, neck, head, beak, tail, *wings, rock])


def fish(rng: np.random.Generator) -> Manifold:
    """A flat body with fins."""
    u = rng.uniform
    body = ball((0, 0, 0), (u(0.4, 0.5), u(0.08, 0.14), u(0.15, 0.22)), segments=20)
    tail = ball((-0.45, u(-0.04, 0.04), 0), (u(0.08, 0.15), 0.035, u(0.15, 0.22)), squareness=1.2)
    fins = [ball((u(-0.15, 0.15), 0, s * u(0.12, 0.18)), (u(0.08, 0.16), 0.03, u(0.06, 0.12))) for s in (-1, 1)]
    side = ball((u(0, 0.15), u(0.07, 0.1), u(-0.06, 0.06)), (u(0.06, 0.12), u(0.05, 0.1), u(0.03, 0.06)))
    return union([body, tail, *fins, side])


def bust(rng: np.random.Generator) -> Manifold:
    """A head with nose, ears and hair, on shoulders, on a pedestal."""
    u = rng.uniform
    shoulders = ball((0, 0, 0.28), (u(0.24, 0.32), u(0.13, 0.17), u(0.15, 0.2)), squareness=u(0.6, 0.9), segments=20)
    neck = lathe(outline([(0.12, 0.3), (0.08, 0.5), (0.09, 0.68)], 6), 14)
    head = ball((0, 0.02, 0.74), (u(0.12, 0.15), u(0.14, 0.18), u(0.17, 0.21)), squareness=u(0.85, 1), segments=20)
    nose = ball((u(-0.01, 0.01), 0.18, 0.73), (0.025, u(0.04, 0.06), u(0.04, 0.06)), segments=10)
    ears = [ball((side * 0.135, 0.01, 0.74), (0.025, 0.03, u(0.03, 0.05)), segments=8) for side in (-1, 1)]
    hair = ball((u(-0.02, 0.02), -u(0.02, 0.07), u(0.8, 0.86)), u(0.13, 0.17, size=3))
    pedestal = lathe(outline([(u(0.14, 0.2), -0.1), (u(0.1, 0.14), 0.0), (u(0.08, 0.12), 0.25)], 8), 16)
    return union([shoulders, neck, head, nose, *ears, hair, pedestal])


def mask(rng: np.random.Generator) -> Manifold:
    """A hollow face with openings."""
    u = rng.uniform
    face = np.array([u(0.3, 0.4), u(0.12, 0.22), u(0.4, 0.5)])
    shell = ball((0, 0, 0), face, squareness=u(0.85, 1), segments=28)
    hollow = ball((0, -u(0.06, 0.09), 0), face * u(0.88, 0.96), squareness=u(0.9, 1), segments=28)
    nose = ball((u(-0.02, 0.02), face[1], -0.02), (u(0.04, 0.07), u(0.05, 0.1), u(0.08, 0.14)))
    eyes = [
        ball((s * u(0.1, 0.15), face[1], u(0.1, 0.16)), (u(0.04, 0.07), 0.3, u(0.02, 0.05)), segments=12)
        for s in (-1, 1)
    ]
    mouth = ball((u(-0.03, 0.03), face[1], -u(0.18, 0.24)), (u(0.07, 0.12), 0.3, u(0.02, 0.05)), segments=12)
    return union([shell, nose]) - union([hollow, *eyes, mouth])


def chessman(rng: np.random.Generator) -> Manifold:
    """A turned piece, its outline left to chance, with a finial that is not round."""
    u = rng.uniform
    heights = np.concatenate([[0], np.sort(u(0.05, 0.95, size=int(rng.integers(4, 8)))), [1]])
    radii = u(0.05, 0.24, size=len(heights)) * np.linspace(1.2, 0.8, len(heights))
    radii[0] = u(0.22, 0.3)
    body = lathe(outline(list(zip(radii, heights, strict=True)), 30), 28)
    top = ball((u(-0.04, 0.04), u(-0.04, 0.04), 1), u(0.07, 0.16, size=3), squareness=u(0.4, 1.1))
    return union([body, top])


FIGURES = {make.__name__: make for make in (figurine, animal, bird, fish, bust, mask, chessman)}
