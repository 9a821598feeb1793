"""Rigid groups of pieces in the search: their evidence and their assemblies.

In: the evidence of N pieces and samples in which the pieces of a group always lie the same. Out: the evidence of G <= N
groups, and the way back from assemblies of groups to assemblies of pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from eda.assembly.assemblies import Assemblies
from eda.assembly.dock import merge_fragments
from eda.assembly.evidence import Evidence
from eda.errors import InputError
from eda.lie import SE3
from eda.registration.rigid_groups import RigidGroups


def groups_of(samples: np.ndarray, groups: Sequence[Sequence[int]]) -> RigidGroups:
    """Groups of pieces of samples (K, N, 4, 4), from the first of which their relative poses are taken."""
    if not len(samples) and any(len(set(group)) > 1 for group in groups):
        raise InputError("rigid groups need a sample, which says how their pieces lie")
    poses = samples[0] if len(samples) else np.tile(np.eye(4), (samples.shape[1], 1, 1))
    return RigidGroups.of(_motions(poses), groups)


def merge_evidence(groups: RigidGroups, evidence: Evidence) -> Evidence:
    """The evidence of groups; the breaks between the pieces of one are closed."""
    if groups.is_trivial:
        return evidence
    T_group_piece, group = groups.T_group_piece.matrix().numpy(), groups.group.numpy()
    merged = [merge_fragments(evidence, T_group_piece, group == number) for number in range(len(groups.first))]
    return Evidence.of(merged, evidence.regime)


def expand_assemblies(groups: RigidGroups, evidence: Evidence, found: Assemblies) -> Assemblies:
    """Assemblies of groups as assemblies of their pieces, judged by the evidence of these."""
    if groups.is_trivial:
        return found
    poses = groups.expand(_motions(found.poses)).matrix().numpy()
    return Assemblies.of(evidence, poses, found.placed[:, groups.group.numpy()])


def _motions(poses: np.ndarray) -> SE3:
    return SE3.from_matrix(torch.from_numpy(np.ascontiguousarray(poses, dtype=np.float64)))
