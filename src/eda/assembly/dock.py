"""Docking: a piece against all that is already together.

Alone, a small joint is easily mistaken. But when its neighbours are in place, a piece has to fill the gap between
them: nearly all of its break meets theirs at once, which hardly happens by chance. So a piece that is left over, or
that is badly supported, is offered to the rest as a whole.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from eda.assembly.assemblies import Assemblies
from eda.assembly.evidence import Evidence
from eda.assembly.fragment import Fragment
from eda.assembly.pool import PoolConfig, all_supported, find_joints, is_connected, with_piece
from eda.assembly.proposals.docking import DockingConfig, docking_poses
from eda.assembly.sherds import OPPOSED, REACH
from eda.budget import Budget
from eda.registration.rigid import act, rotate

# Of a piece against the rest: there is much to lean on, so the right place comes early among them.
PROPOSALS = 48


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


def dock_piece(evidence: Evidence, one: Assemblies, piece: int, config: PoolConfig, look: DockingConfig) -> Assemblies:
    """An assembly (K = 1) with one piece taken out, if it is in, and put where it fits the rest; the best first."""
    placed = one.placed.copy()
    placed[0, piece] = False
    if not placed.any():
        return Assemblies.none(len(evidence))
    rest = Assemblies.of(evidence, one.poses, placed)
    merged = merge_fragments(evidence, one.poses[0], placed[0])
    whole = Evidence.of([evidence.fragments[piece], merged], evidence.regime)
    joints = find_joints(whole, (0, 1), config, rough=docking_poses(whole, (0, 1), look)[:PROPOSALS])
    if not joints:
        return Assemblies.none(len(evidence))
    rough = with_piece(evidence, rest, [(0, piece, joint.relative) for joint in joints[:3]])
    found = rough.polish(evidence)
    return found[np.flatnonzero(all_supported(found, config) & is_connected(evidence, found))].best(
        evidence, len(found)
    )


def repair(
    evidence: Evidence,
    one: Assemblies,
    config: PoolConfig,
    look: DockingConfig,
    *,
    rounds: int,
    budget: Budget,
) -> Assemblies:
    """An assembly (K = 1) after docking again, one by one, the pieces that are left over or supported least."""
    tried: set[int] = set()
    for _ in range(rounds):
        order = np.argsort(np.where(one.placed[0], one.pieces[0], -np.inf), kind="stable")
        piece = next((int(i) for i in order if int(i) not in tried), None)
        if piece is None or budget.exhausted:
            break
        tried.add(piece)
        better = dock_piece(evidence, one, piece, config, look)
        if len(better) and better.score[0] > one.score[0] + 1e-3:
            one, tried = better[[0]], {piece}
    return one
