"""Assembly: what `assemble` found, in the user's own frames and units; how it is written down, and compared.

`assembly.json` has a version of its own; docs/assemble.md describes it field by field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from eda.assembly.inputs.clouds import Clouds
from eda.assembly.verdict import Observed, Verdict
from eda.errors import InputError
from eda.lie import SE3
from eda.metrics import pairwise_errors

SCHEMA = 1
_RIGID = 1e-3  # how far a rotation may be from one: what float32 and printed matrices leave


class Comparison(NamedTuple):
    """How far apart two assemblies are: the paper's pairwise errors, blind to a motion of the whole."""

    degrees: float  # mean over ordered pairs of pieces
    distance: float  # the same, relative to the size of the puzzle


@dataclass(frozen=True)
class Group:
    """Pieces that hang together, but not with those that are placed."""

    pieces: tuple[int, ...]  # (n,) in rising order
    poses: np.ndarray  # (n, 4, 4) motions of the user's clouds into a frame of the group's own
    probability: float  # that all of them lie rightly to each other


@dataclass(frozen=True)
class Alternative:
    """One way to put N pieces together. The search has it in the frames of the network, a result in the user's."""

    poses: np.ndarray  # (N, 4, 4) motions of the pieces; those of unplaced pieces mean nothing
    placed: np.ndarray  # (N,) bool
    score: float  # about 1 if all breaks are closed, more if surfaces continue across the seams
    probability: float  # that all placed pieces are where they belong
    confidence: np.ndarray  # (N,) in the place of every piece, 0 if unplaced, 1 if pinned
    joints: np.ndarray  # (N, N) confidence in every joint, 0 where two pieces do not touch
    count: int = 1  # how many assemblies of this shape were found
    support: float = 0.0  # the share of samples that have its joints, roughly
    rejected: np.ndarray | None = None  # (N,) how likely its place was that an unplaced piece was denied; 0: none found
    too_small: np.ndarray | None = None  # (N,) bool, for which pieces no place was looked for
    groups: tuple[Group, ...] = ()  # of unplaced pieces, the largest first

    def __post_init__(self) -> None:
        count = len(self.poses)
        check_rigid("poses", self.poses, (count, 4, 4))
        for what, array, shape in (
            ("placed", self.placed, (count,)),
            ("confidence", self.confidence, (count,)),
            ("joints", self.joints, (count, count)),
        ):
            if np.shape(array) != shape:
                raise InputError(f"{what} of an alternative must have shape {shape}, got {np.shape(array)}")
        if not np.isfinite(self.score):
            raise InputError(f"the score of an alternative must be a finite number, got {self.score}")
        for what, values in (
            ("probability", self.probability),
            ("confidence", self.confidence),
            ("joint", self.joints),
        ):
            if not np.all((np.asarray(values) >= 0) & (np.asarray(values) <= 1)):
                raise InputError(f"every {what} of an alternative must lie in 0 .. 1, got {values}")

    @property
    def unplaced(self) -> list[int]:
        """The pieces that fit nowhere."""
        return np.flatnonzero(~self.placed).tolist()

    def why_unplaced(self, piece: int) -> str | None:
        """The reason why a piece has no place; None if it has one."""
        if self.placed[piece]:
            return None
        if self.too_small is not None and self.too_small[piece]:
            return "too small beside the other pieces: no place was looked for"
        for number, group in enumerate(self.groups, start=2):
            if piece in group.pieces:
                return f"in group {number}, which does not connect to those that are placed"
        likely = 0.0 if self.rejected is None else self.rejected[piece]
        return f"left out: its best place is {likely:.0%} likely" if likely > 0 else "no place was found where it holds"

    @property
    def contacts(self) -> list[tuple[int, int, float]]:
        """The pairs of pieces i < j that touch, each with the confidence in its joint."""
        pairs = np.argwhere(np.triu(self.joints, 1) > 0).tolist()
        return [(i, j, float(self.joints[i, j])) for i, j in pairs]

    def as_dict(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Everything, as JSON knows it, for pieces of these names."""
        return {
            "score": round(self.score, 6),
            "probability": round(self.probability, 6),
            "found": self.count,
            "support": round(self.support, 6),
            "unplaced": [names[i] for i in self.unplaced],
            "pieces": [
                {
                    "name": name,
                    "placed": bool(self.placed[i]),
                    "confidence": round(float(self.confidence[i]), 6),
                    "pose": self.poses[i].tolist() if self.placed[i] else None,
                    "why_unplaced": self.why_unplaced(i),
                }
                for i, name in enumerate(names)
            ],
            "joints": [
                {"pieces": [names[i], names[j]], "confidence": round(confidence, 6)}
                for i, j, confidence in self.contacts
            ],
            "groups": [
                {
                    "pieces": [names[i] for i in group.pieces],
                    "poses": group.poses.tolist(),
                    "probability": round(group.probability, 6),
                }
                for group in self._all_groups
            ],
        }

    @property
    def _all_groups(self) -> list[Group]:
        """The pieces placed, and the other groups."""
        rows = np.flatnonzero(self.placed)
        placed = [Group(tuple(rows.tolist()), self.poses[rows], self.probability)] if len(rows) else []
        return [*placed, *self.groups]


def check_rigid(what: str, poses: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raises `InputError` unless poses (..., 4, 4) have this shape and are rigid motions."""
    if np.shape(poses) != shape:
        raise InputError(f"{what} must have shape {shape}, got {np.shape(poses)}")
    rotation = poses[..., :3, :3]
    skew = np.abs(rotation @ np.swapaxes(rotation, -1, -2) - np.eye(3)).max(initial=0)
    # Written so that NaN fails too.
    if not (np.isfinite(poses).all() and skew < _RIGID and (np.linalg.det(rotation) > 0).all()):
        raise InputError(f"{what} must be rigid motions: a rotation and a translation, without scale")


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
    calibrated: bool = True  # False: the probabilities were calibrated for another model
    known: bool = True  # False: the pieces are unlike those that the probabilities were calibrated on
    pairs: int | None = None  # of many scans, how many pairs were registered; None: all pieces were searched at once

    @property
    def best(self) -> Alternative:
        """The alternative with the highest score."""
        return self.alternatives[0]

    @property
    def is_empty(self) -> bool:
        """Whether no place was found for any piece for which one was looked for."""
        small = self.best.too_small
        looked_for = np.ones(len(self.names), dtype=bool) if small is None else ~small
        looked_for[list(self.pinned)] = False
        return bool(looked_for.any()) and not bool((self.best.placed & looked_for).any())

    @property
    def verdict(self) -> Verdict:
        """In words, whether the best alternative is right, and what to try."""
        observed = Observed(
            probability=self.best.probability,
            empty=self.is_empty,
            unplaced=len(self.best.unplaced),
            weakest=self._weakest,
            trusted=self.calibrated,
            known=self.known,
            stopped=self.stopped,
            samples=int(self.settings.get("samples", 0)),
        )
        return Verdict.of(observed)

    @property
    def _weakest(self) -> str | None:
        """The name of the piece placed that is least likely right, of more than two; None if all are alike."""
        confidence = np.where(self.best.placed, self.best.confidence, np.inf)
        differ = self.best.placed.sum() > 2 and np.ptp(confidence[self.best.placed]) > 0
        return self.names[int(confidence.argmin())] if differ else None

    @property
    def notes(self) -> list[str]:
        """What a reader of the result must not miss, in sentences."""
        notes = []
        if self.is_empty:
            others = " except those that were pinned" if self.pinned else ""
            notes.append(f"No piece could be placed{others}: none was found to fit.")
        if self.best.groups:
            notes.append(self._groups_note)
        if self.stopped:
            notes.append("Stopped at the time limit: this is the best result found until then.")
        small = [] if self.best.too_small is None else [self.names[i] for i in np.flatnonzero(self.best.too_small)]
        if small:
            notes.append(
                f"Too small beside the others, so that no place was looked for: {', '.join(small)}. "
                "Pin what you know the place of."
            )
        if not self.calibrated:
            notes.append("The probabilities are not calibrated for this model: use them only to compare alternatives.")
        return notes

    @property
    def _groups_note(self) -> str:
        """How the pieces fall into groups."""
        sizes = [int(self.best.placed.sum()), *(len(group.pieces) for group in self.best.groups)]
        alone = len(self.names) - sum(sizes)
        rest = f", and {alone} connect to nothing" if alone else ""
        listed = f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"
        return f"The pieces form {len(sizes)} groups that do not connect, of {listed}{rest}: only the first is placed."

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
        """The unit of length of the puzzle, as `Pieces.scales`: a property of its pieces, however they lie."""
        spread = [np.square(cloud - cloud.mean(axis=0)).sum(axis=1).mean() for cloud in self.clouds.points]
        return float(np.sqrt(np.sum(spread)))

    def _about_centers(self, poses: np.ndarray, rows: np.ndarray) -> SE3:
        """Motions of some pieces, with what they do to the pieces' centers in place of what they do to the origin."""
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
            "calibrated": self.calibrated,
            "verdict": self.verdict.as_dict(),
            "settings": self.settings,
            "seconds": round(self.seconds, 3),
            "stopped": self.stopped,
            "pairs": self.pairs,
            "alternatives": [alternative.as_dict(self.names) for alternative in self.alternatives],
        }
