"""Where two pieces touch: how closely, how surely at a break, and how firmly that holds them.

Right joints are close over all of their contact, at points that are breaks on both sides, and hold: a small motion in
any direction would open them. What only happens to touch is apart by more than chance leaves, or could slide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eda.assembly.contact.fracture_contact import OPPOSED, REACH, TOUCHED
from eda.assembly.contact.fragment import Fragment
from eda.registration.rigid import act, inverse

LEAST_CONTACTS = 4  # of one side: fewer say nothing
WIDEST_GAP = 2.0  # spacings: what is wider counts like this
LOOSEST = 1e-5  # the stiffness that counts as none
# Normals from which two surfaces look the same way, and how close they must be (in spacings) to be one and the same.
ALIKE, COINCIDENT = 0.7, 0.3
# What is measured where nothing touches: gap, likeness to a break, log of the stiffness, coincidence.
NO_CONTACT = np.array([WIDEST_GAP, -1.0, np.log(LOOSEST), 0.0])


@dataclass(frozen=True)
class JointContact:
    """What M points of a piece meet on another that they touch."""

    points: np.ndarray  # (M, 3)
    normals: np.ndarray  # (M, 3)
    gap: np.ndarray  # (M,) between the surfaces, in spacings
    likeness: np.ndarray  # (M,) the evidence for a break, a mean of both sides
    coincident: float  # the share of the piece's points that lie on the other's surface, looking the same way

    @staticmethod
    def of(piece: Fragment, other: Fragment, relative: np.ndarray, spacing: float) -> JointContact:
        """The contacts of a piece at a pose (4, 4) in the frame of another."""
        points, reach = act(relative[None], piece.points)[0], REACH * spacing
        low, high = other.points.min(axis=0) - reach, other.points.max(axis=0) + reach
        row = np.flatnonzero(((points > low) & (points < high)).all(axis=1))
        normals = piece.normals[row] @ relative[:3, :3].T
        distance, index = other.tree.query(points[row], k=range(1, min(TOUCHED, len(other.points)) + 1))
        offset, theirs = points[row, None] - other.points[index], other.normals[index]
        height = np.abs((offset * theirs).sum(axis=2))
        apart = (height + np.abs((offset * normals[:, None]).sum(axis=2))) / (2 * spacing)
        cosine, near = (normals[:, None] * theirs).sum(axis=2), distance < reach
        facing = np.where(near & (cosine < OPPOSED), apart, np.inf)
        touching = np.flatnonzero(np.isfinite(facing).any(axis=1))
        nearest = touching, facing[touching].argmin(axis=1)
        broken = piece.break_evidence[row[touching]] + other.break_evidence[index[nearest]]
        alike = near & (cosine > ALIKE) & (apart < COINCIDENT)
        return JointContact(
            points[row[touching]],
            normals[touching],
            apart[nearest].clip(max=WIDEST_GAP),
            broken / 2,
            float(alike.any(axis=1).sum() / len(piece.points)),
        )

    def stiffness(self) -> float:
        """How firmly contacts hold: the least sum of squares by which a unit motion opens them, as a mean over them.

        A plane can slide and a cylinder can turn, so they have none.
        """
        arm = self.points - self.points.mean(axis=0)
        arm = arm / max(float(np.sqrt(np.square(arm).sum(axis=1).mean())), 1e-9)
        opening = np.hstack([np.cross(arm, self.normals), self.normals])
        return float(np.linalg.eigvalsh(opening.T @ opening / len(arm))[0])


def measure_contact(piece: Fragment, other: Fragment, relative: np.ndarray, spacing: float) -> np.ndarray:
    """Of a joint: gap, likeness to a break, log of the stiffness, coincidence. (4, 4) -> (4,), alike in the two."""
    both = (
        JointContact.of(piece, other, relative, spacing),
        JointContact.of(other, piece, inverse(relative), spacing),
    )
    coincident = max(side.coincident for side in both)
    sides = [side for side in both if len(side.gap) >= LEAST_CONTACTS]
    if not sides:
        return np.array([*NO_CONTACT[:3], coincident])
    widest = max(sides, key=lambda side: len(side.gap))
    return np.array(
        [
            np.mean([side.gap.mean() for side in sides]),
            np.mean([side.likeness.mean() for side in sides]),
            np.log(max(widest.stiffness(), LOOSEST)),
            coincident,
        ]
    )
