"""Merged pieces: some pieces as one fragment, and rigid groups of pieces in the search.

In: the evidence of N pieces and samples in which the pieces of a group always lie the same. Out: the evidence of G <= N
groups, and the way back from assemblies of groups to assemblies of pieces.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from scipy.spatial import cKDTree

from eda.assembly.contact.detail import Detail
from eda.assembly.contact.evidence import Evidence
from eda.assembly.contact.fracture_contact import OPPOSED, REACH
from eda.assembly.contact.fragment import Fragment
from eda.assembly.search.assemblies import Assemblies
from eda.errors import InputError
from eda.lie import SE3
from eda.pieces import MIN_POINTS
from eda.registration.rigid import act, rotate
from eda.registration.rigid_groups import RigidGroups


def merge_fragments(evidence: Evidence, poses: np.ndarray, placed: np.ndarray) -> Fragment:
    """The pieces placed (N,) as one, whose breaks are those that are still open."""
    pieces = [(evidence.fragments[i], poses[i]) for i in np.flatnonzero(placed)]
    closed = _closed_breaks(evidence, poses, placed)
    return Fragment(
        np.concatenate([act(pose, fragment.points) for fragment, pose in pieces]),
        np.concatenate([rotate(pose, fragment.normals) for fragment, pose in pieces]),
        np.concatenate([np.where(c, 0.0, f.break_probability) for (f, _), c in zip(pieces, closed, strict=True)]),
    )


def _closed_breaks(evidence: Evidence, poses: np.ndarray, placed: np.ndarray) -> list[np.ndarray]:
    """For each of the pieces placed (N,), which of its points (n_i,) touch another one of them face to face."""
    pieces = np.flatnonzero(placed)
    points = [act(poses[i], evidence.fragments[i].points) for i in pieces]
    normals = [rotate(poses[i], evidence.fragments[i].normals) for i in pieces]
    trees = [cKDTree(cloud) for cloud in points]
    closed = [np.zeros(len(cloud), dtype=bool) for cloud in points]
    for a, b in itertools.permutations(range(len(pieces)), 2):
        distance, index = trees[b].query(points[a], distance_upper_bound=REACH * evidence.spacing)
        facing = (normals[a] * normals[b][index.clip(max=len(points[b]) - 1)]).sum(axis=1) < OPPOSED
        closed[a] |= np.isfinite(distance) & facing
    return closed


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


def merge_detail(groups: RigidGroups, evidence: Evidence, detail: Detail) -> Detail:
    """All points of groups, without those on the breaks between the pieces of one."""
    if groups.is_trivial:
        return detail
    T_group_piece, group = groups.T_group_piece.matrix().numpy(), groups.group.numpy()
    merged = [_merge_clouds(evidence, detail, T_group_piece, group == number) for number in range(len(groups.first))]
    return Detail(tuple(points for points, _ in merged), tuple(normals for _, normals in merged))


def _merge_clouds(
    evidence: Evidence, detail: Detail, poses: np.ndarray, placed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """All points of the pieces placed (N,) as one cloud, with normals, without those on closed breaks."""
    pieces, closed = np.flatnonzero(placed), _closed_breaks(evidence, poses, placed)
    rows = [_open_rows(evidence.fragments[i], detail.points[i], c) for i, c in zip(pieces, closed, strict=True)]
    return (
        np.concatenate([act(poses[i], detail.points[i][kept]) for i, kept in zip(pieces, rows, strict=True)]),
        np.concatenate([rotate(poses[i], detail.normals[i][kept]) for i, kept in zip(pieces, rows, strict=True)]),
    )


def _open_rows(fragment: Fragment, points: np.ndarray, closed: np.ndarray) -> np.ndarray:
    """(m,) which points (m, 3) of a piece have a nearest one in the evidence that is not `closed` (n,).

    All, if these are too few for a piece.
    """
    if not closed.any():
        return np.ones(len(points), dtype=bool)
    _, nearest = fragment.tree.query(points)
    kept = ~closed[nearest]
    return kept if kept.sum() >= MIN_POINTS else np.ones(len(points), dtype=bool)


def expand_assemblies(groups: RigidGroups, evidence: Evidence, found: Assemblies) -> Assemblies:
    """Assemblies of groups as assemblies of their pieces, scored by the evidence of these."""
    if groups.is_trivial:
        return found
    poses = groups.expand(_motions(found.poses)).matrix().numpy()
    return Assemblies.of(evidence, poses, found.placed[:, groups.group.numpy()])


def _motions(poses: np.ndarray) -> SE3:
    return SE3.from_matrix(torch.from_numpy(np.ascontiguousarray(poses, dtype=np.float64)))
