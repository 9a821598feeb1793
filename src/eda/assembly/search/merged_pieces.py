"""Merged pieces: some pieces as one fragment, and rigid groups of pieces in the search.

In: the evidence of N pieces and samples in which the pieces of a group always lie the same. Out: the evidence of G <= N
groups, and the way back from assemblies of groups to assemblies of pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.spatial import cKDTree

from eda.assembly.contact.evidence import Evidence
from eda.assembly.contact.fracture_contact import OPPOSED, REACH
from eda.assembly.contact.fragment import Fragment
from eda.assembly.search.assemblies import Assemblies
from eda.errors import InputError
from eda.lie import SE3
from eda.registration.rigid import act, rotate
from eda.registration.rigid_groups import RigidGroups


def merge_fragments(evidence: Evidence, poses: np.ndarray, placed: np.ndarray) -> Fragment:
    """The pieces placed (N,) as one, whose breaks are those that are still open."""
    pieces = np.flatnonzero(placed)
    points = [act(poses[i], evidence.fragments[i].points) for i in pieces]
    normals = [rotate(poses[i], evidence.fragments[i].normals) for i in pieces]
    trees = [cKDTree(cloud) for cloud in points]
    open_break = []
    for a, i in enumerate(pieces):
        covered = np.zeros(len(points[a]), dtype=bool)
        for b in range(len(pieces)):
            if a != b:
                distance, index = trees[b].query(points[a], distance_upper_bound=REACH * evidence.spacing)
                facing = (normals[a] * normals[b][index.clip(max=len(points[b]) - 1)]).sum(axis=1) < OPPOSED
                covered |= np.isfinite(distance) & facing
        open_break.append(np.where(covered, 0.0, evidence.fragments[i].break_probability))
    return Fragment(np.concatenate(points), np.concatenate(normals), np.concatenate(open_break))


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
    return Evidence.of(merged, evidence.rules)


def expand_assemblies(groups: RigidGroups, evidence: Evidence, found: Assemblies) -> Assemblies:
    """Assemblies of groups as assemblies of their pieces, scored by the evidence of these."""
    if groups.is_trivial:
        return found
    poses = groups.expand(_motions(found.poses)).matrix().numpy()
    return Assemblies.of(evidence, poses, found.placed[:, groups.group.numpy()])


def _motions(poses: np.ndarray) -> SE3:
    return SE3.from_matrix(torch.from_numpy(np.ascontiguousarray(poses, dtype=np.float64)))
