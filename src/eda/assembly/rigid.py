"""Rigid groups: pieces that are already together, and are searched as the one piece that they make.

In: the evidence of N pieces and samples in which the pieces of a group always lie the same. Out: the evidence and the
samples of U <= N units, and the way back from assemblies of units to assemblies of pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eda.assembly.assemblies import Assemblies
from eda.assembly.dock import merged
from eda.assembly.evidence import Evidence
from eda.assembly.motion import inverse
from eda.assembly.proposals.base import PairPoses
from eda.errors import InputError


@dataclass(frozen=True)
class Units:
    """U units of N pieces. Those of more than one piece come first, in the order in which they were given."""

    unit: np.ndarray  # (N,) the unit of every piece
    first: np.ndarray  # (U,) the piece in whose frame a unit lies
    within: np.ndarray  # (N, 4, 4) the pose of every piece in its unit

    @staticmethod
    def of(samples: np.ndarray, groups: Sequence[Sequence[int]]) -> Units:
        """Groups of pieces of samples (K, N, 4, 4), from the first of which their places are taken."""
        num_pieces = samples.shape[1]
        members = [sorted(set(group)) for group in groups if len(set(group)) > 1]
        grouped = [i for group in members for i in group]
        if len(grouped) != len(set(grouped)) or not all(0 <= i < num_pieces for i in grouped):
            raise InputError(f"rigid groups must be disjoint sets of the pieces 0 to {num_pieces - 1}, got {groups}")
        if members and not len(samples):
            raise InputError("rigid groups need a sample, which says how their pieces lie")
        members += [[i] for i in range(num_pieces) if i not in grouped]
        unit, within = np.empty(num_pieces, dtype=np.int64), np.tile(np.eye(4), (num_pieces, 1, 1))
        for number, group in enumerate(members):
            unit[group] = number
            if len(group) > 1:
                within[group] = inverse(samples[0, group[0]]) @ samples[0, group]
        return Units(unit, np.array([group[0] for group in members]), within)

    @property
    def grouped(self) -> bool:
        """Whether any unit is more than one piece."""
        return len(self.first) < len(self.unit)

    def evidence(self, evidence: Evidence) -> Evidence:
        """Of the units; the breaks between the pieces of one are closed."""
        if not self.grouped:
            return evidence
        fragments = [merged(evidence, self.within, self.unit == number) for number in range(len(self.first))]
        return Evidence.of(fragments, evidence.regime)

    def matches(self, matches: PairPoses) -> PairPoses:
        """Of the units, from those of their pieces."""
        found: dict[tuple[int, int], list[np.ndarray]] = {}
        for (i, j), poses in matches.items():
            a, b = int(self.unit[i]), int(self.unit[j])
            whole = self.within[j] @ poses @ inverse(self.within[i])
            if a != b:
                found.setdefault((min(a, b), max(a, b)), []).append(whole if a < b else inverse(whole))
        return {pair: np.concatenate(several) for pair, several in found.items()}

    def taken_apart(self, evidence: Evidence, units: Assemblies) -> Assemblies:
        """Assemblies of units as assemblies of their pieces, judged by the evidence of these."""
        if not self.grouped:
            return units
        poses = units.poses[:, self.unit] @ self.within
        return Assemblies.judged(evidence, poses, units.placed[:, self.unit])
