"""Assembly: what `assemble` found, in the user's own frames and units; and how it is written down.

`assembly.json` has a version of its own; docs/assemble.md describes it field by field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SCHEMA = 1


@dataclass(frozen=True)
class Alternative:
    """One way to put the pieces together."""

    poses: np.ndarray  # (N, 4, 4) motions of the clouds as they were given; those of unplaced pieces mean nothing
    placed: np.ndarray  # (N,) bool
    score: float  # of the judge: 1 would be perfect contact of all breaks
    probability: float  # that all placed pieces are where they belong
    confidence: np.ndarray  # (N,) in the place of every piece, 0 if unplaced
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
    alternatives: tuple[Alternative, ...]
    flow: np.ndarray  # (T, N, 4, 4) from noise to the sample nearest to the best alternative
    model: str
    settings: dict[str, Any]
    seconds: float

    @property
    def best(self) -> Alternative:
        """The alternative with the highest score."""
        return self.alternatives[0]

    def as_dict(self) -> dict[str, Any]:
        """Everything but the flow, as JSON knows it."""
        return {
            "schema": SCHEMA,
            "pieces": list(self.names),
            "model": self.model,
            "settings": self.settings,
            "seconds": round(self.seconds, 3),
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
