"""Branched figures with thin limbs: toy people, and animals with antlers.

In: a random generator. Out: a solid; the z axis points up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from eda.data.fracture.shapes.loft import Vector, ball, bow, tube
from eda.data.fracture.solids import union

if TYPE_CHECKING:
    from manifold3d import Manifold


def _limb(joints: Sequence[Vector], thick: float, thin: float) -> Manifold:
    """Straight bones from joint to joint, each thinner than the one before it."""
    radii = np.linspace(thick, thin, len(joints))
    ends = zip(joints[:-1], joints[1:], radii[:-1], radii[1:], strict=True)
    bones = [tube(bow([a, b], 5), np.linspace(ra, rb, 5), 9) for a, b, ra, rb in ends]
    knobs = [ball(at, np.full(3, 1.15 * r), segments=10) for at, r in zip(joints[1:], radii[1:], strict=True)]
    return union([*bones, *knobs])


def _arm(rng: np.random.Generator, side: int, shoulder: float, thick: float) -> list[Manifold]:
    """An arm in any pose, and a hand or what it holds."""
    u = rng.uniform
    elbow = np.array([side * u(0.16, 0.28), u(-0.12, 0.12), shoulder + u(-0.2, 0.12)])
    hand = np.add(elbow, (side * u(-0.1, 0.15), u(-0.18, 0.18), u(-0.15, 0.22)))
    arm = _limb([(0, 0, shoulder), elbow, hand], thick, 0.75 * thick)
    if rng.random() < 0.3:
        staff = [np.add(hand, (0, 0, -u(0.1, 0.3))), hand, np.add(hand, (u(-0.05, 0.05), 0, u(0.15, 0.4)))]
        return [arm, tube(bow(staff, 8), np.full(8, u(0.012, 0.02)), 8)]
    return [arm, ball(hand, u(1.0, 2.0, size=3) * thick, segments=10)]


def puppet(rng: np.random.Generator) -> Manifold:
    """A toy figure: a small trunk, a head, thin arms and legs in any pose, some on a thin base."""
    u = rng.uniform
    arm, leg, shoulder = u(0.016, 0.035), u(0.02, 0.04), u(0.66, 0.72)
    on_base = rng.random() < 0.5
    lift = 0.02 if on_base else 0.15  # the highest that a foot is raised
    trunk = ball((0, 0, 0.6), (u(0.07, 0.13), u(0.05, 0.09), u(0.16, 0.22)), squareness=u(0.5, 1), segments=18)
    head = ball((u(-0.03, 0.03), 0, u(0.9, 0.95)), u(0.07, 0.13, size=3), squareness=u(0.6, 1))
    parts = [trunk, head, _limb([(0, 0, 0.7), (0, 0, 0.9)], u(0.02, 0.04), 0.02)]
    for side in (-1, 1):
        knee = np.array([side * u(0.05, 0.14), u(-0.12, 0.12), u(0.22, 0.32)])
        foot = np.array([side * u(0.05, 0.16), u(-0.12, 0.12), u(0, lift)])
        parts += [*_arm(rng, side, shoulder, arm), _limb([(side * 0.03, 0, 0.5), knee, foot], leg, 0.8 * leg)]
        parts.append(ball(np.add(foot, (0, 0.03, 0)), (u(0.03, 0.05), u(0.05, 0.08), u(0.02, 0.04)), segments=10))
    if on_base:
        base = ball((u(-0.03, 0.03), 0, 0), (u(0.2, 0.3), u(0.2, 0.25), u(0.02, 0.04)), squareness=0.3, segments=24)
        parts.append(base)
    return union(parts)


def _antler(rng: np.random.Generator, root: np.ndarray, side: int) -> list[Manifold]:
    """A thin bent beam with a few tines."""
    u = rng.uniform
    tip = np.add(root, (u(-0.15, 0.1), side * u(0.12, 0.25), u(0.18, 0.35)))
    path = bow([root, np.add(root, (u(-0.08, 0), side * u(0.06, 0.14), u(0.06, 0.12))), tip], 9)
    thick = u(0.014, 0.022)
    tines = []
    for at in path[rng.choice(np.arange(3, 8), size=rng.integers(1, 4), replace=False)]:
        end = np.add(at, (u(0.05, 0.12), side * u(-0.05, 0.05), u(0.03, 0.1)))
        tines.append(tube(np.array([at, end]), thick * np.array([0.85, 0.6]), 8))
    return [tube(path, thick * np.linspace(1, 0.75, 9), 8), *tines]


def stag(rng: np.random.Generator) -> Manifold:
    """A slender animal on thin legs, with antlers."""
    u = rng.uniform
    long, leg, high = u(0.22, 0.32), u(0.018, 0.032), u(0.3, 0.42)
    body = ball((0, 0, 0), (long, u(0.07, 0.11), u(0.08, 0.12)), squareness=u(0.75, 1), segments=20)
    nape = np.array([long + u(0.05, 0.15), u(-0.08, 0.08), u(0.2, 0.32)])
    head = ball(np.add(nape, (0.05, 0, 0)), (u(0.08, 0.12), u(0.04, 0.06), u(0.04, 0.06)), segments=14)
    neck = tube(bow([(0.6 * long, 0, 0.02), (0.95 * long, 0, 0.1), nape], 8), np.linspace(0.07, u(0.03, 0.05), 8), 10)
    tail = _limb([(-0.9 * long, 0, 0.02), (-long - u(0.04, 0.12), u(-0.05, 0.05), u(-0.08, 0.08))], 0.02, 0.014)
    parts = [body, head, neck, tail]
    for x, y in ((-1, -1), (-1, 1), (1, -1), (1, 1)):
        hip = np.array([0.68 * x * long, 0.035 * y, -0.03])
        knee = np.add(hip, (u(-0.08, 0.08), 0.02 * y, -0.5 * high))
        parts.append(_limb([hip, knee, np.add(hip, (u(-0.1, 0.1), 0.02 * y, -high))], 1.3 * leg, leg))
    for side in (-1, 1):
        parts += _antler(rng, np.add(nape, (0.02, 0.02 * side, 0.02)), side)
    return union(parts)


THIN_LIMBED = {make.__name__: make for make in (puppet, stag)}
