"""Assembly: what `assemble` found, in the user's own frames and units; how it is written down, and compared.

`assembly.json` has a version of its own; docs/assemble.md describes it field by field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from eda.assembly.clouds import Clouds
from eda.errors import InputError
from eda.lie import SE3
from eda.metrics import pairwise_errors

SCHEMA = 1


class Comparison(NamedTuple):
    """How far apart two assemblies are: the paper's pairwise errors, blind to a motion of the whole."""

    degrees: float  # mean over ordered pairs of pieces
    distance: float  # the same, relative to the size of the puzzle


@dataclass(frozen=True)
class Alternative:
    """One way to put the pieces together."""

    poses: np.ndarray  # (N, 4, 4) motions of the clouds as they were given; those of unplaced pieces mean nothing
    placed: np.ndarray  # (N,) bool
    score: float  # of the judge: about 1 if all breaks are closed, more if surfaces go on across the seams
    probability: float  # that all placed pieces are where they belong
    confidence: np.ndarray  # (N,) in the place of every piece, 0 if unplaced, 1 if pinned
    joints: np.ndarray  # (N, N) confidence in every joint, 0 where two pieces do not touch
    count: int  # how many assemblies of this shape were found

    @property
    def unplaced(self) -> list[int]:
        """The pieces that fit nowhere."""
        return np.flatnonzero(~self.placed).tolist()


@dataclass(frozen=True)
class Assembly:
    """Ranked alternatives for N pieces, the best first."""

    names: tuple[str, ...]  # (N,)
    clouds: Clouds  # the pieces as they were given, in as many points as are of use
    alternatives: tuple[Alternative, ...]
    flow: np.ndarray  # (T, N, 4, 4) from noise to the sample nearest to the best alternative
    pinned: tuple[int, ...]  # the pieces whose place was given
    model: str
    why: str  # this model
    settings: dict[str, Any]
    seconds: float
    stopped: bool  # at the time limit, before all was tried

    @property
    def best(self) -> Alternative:
        """The alternative with the highest score."""
        return self.alternatives[0]

    @property
    def is_empty(self) -> bool:
        """Whether no place was found for any piece, other than those that were given one."""
        looked_for = np.ones(len(self.names), dtype=bool)
        looked_for[list(self.pinned)] = False
        return bool(looked_for.any()) and not bool((self.best.placed & looked_for).any())

    def compare(self, other: Assembly | Alternative | np.ndarray) -> Comparison:
        """How far the best alternative is from another assembly of the same pieces, or from motions (N, 4, 4) of them.

        Pieces that are not placed in both are left out.
        """
        if isinstance(other, Assembly):
            other = other.best
        motions, placed = (other.poses, other.placed) if isinstance(other, Alternative) else (np.asarray(other), True)
        if motions.shape != self.best.poses.shape:
            raise InputError(f"expected motions {self.best.poses.shape} to compare with, got {motions.shape}")
        both = np.flatnonzero(self.best.placed & placed)
        if len(both) < 2:
            raise InputError("nothing to compare: fewer than two pieces are placed in both assemblies")
        ours, theirs = (self._about_centers(poses, both) for poses in (self.best.poses, motions))
        degrees, distance = pairwise_errors(ours, theirs)
        return Comparison(degrees, distance / self.size)

    @property
    def size(self) -> float:
        """The unit of length of the puzzle, as `Pieces.scales`: what holds of its pieces however they lie."""
        spread = [np.square(cloud - cloud.mean(axis=0)).sum(axis=1).mean() for cloud in self.clouds.points]
        return float(np.sqrt(np.sum(spread)))

    def _about_centers(self, poses: np.ndarray, rows: np.ndarray) -> SE3:
        """Motions of some pieces, with what they do to the pieces' middles in place of what they do to the origin."""
        moved = poses[rows].astype(np.float64)
        centers = np.stack([self.clouds.points[i].mean(axis=0) for i in rows])
        moved[:, :3, 3] += np.einsum("nij,nj->ni", moved[:, :3, :3], centers)
        return SE3.from_matrix(torch.from_numpy(moved))

    def as_dict(self) -> dict[str, Any]:
        """Everything but the clouds and the flow, as JSON knows it."""
        return {
            "schema": SCHEMA,
            "pieces": list(self.names),
            "pinned": [self.names[i] for i in self.pinned],
            "model": self.model,
            "why": self.why,
            "settings": self.settings,
            "seconds": round(self.seconds, 3),
            "stopped": self.stopped,
            "alternatives": [_as_dict(alternative, self.names) for alternative in self.alternatives],
        }


def _as_dict(alternative: Alternative, names: tuple[str, ...]) -> dict[str, Any]:
    touching = np.argwhere(np.triu(alternative.joints, 1) > 0)
    return {
        "score": round(alternative.score, 6),
        "probability": round(alternative.probability, 6),
        "found": alternative.count,
        "unplaced": [names[i] for i in alternative.unplaced],
        "pieces": [
            {
                "name": name,
                "placed": bool(alternative.placed[i]),
                "confidence": round(float(alternative.confidence[i]), 6),
                "pose": alternative.poses[i].tolist() if alternative.placed[i] else None,
            }
            for i, name in enumerate(names)
        ],
        "joints": [
            {"pieces": [names[i], names[j]], "confidence": round(float(alternative.joints[i, j]), 6)}
            for i, j in touching
        ],
    }
