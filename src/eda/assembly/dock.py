"""Docking: a piece against all that is already together.

Alone, a small joint is easily mistaken. But when its neighbours are in place, a piece has to fill the gap between
them: nearly all of its break meets theirs at once, which hardly happens by chance. So a piece that is left over, or
that is badly supported, is offered to the rest as a whole.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.spatial import cKDTree

from eda.assembly.assemblies import Assemblies
from eda.assembly.evidence import Evidence
from eda.assembly.fragment import Fragment
from eda.assembly.pool import PoolConfig, all_supported, find_joints, is_connected, with_piece
from eda.assembly.propose import ProposeConfig, propose
from eda.assembly.sherds import OPPOSED, REACH
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


def dock_piece(evidence: Evidence, one: Assemblies, piece: int, config: PoolConfig, look: ProposeConfig) -> Assemblies:
    """An assembly (K = 1) with one piece taken out, if it is in, and put where it fits the rest; the best first."""
    placed = one.placed.copy()
    placed[0, piece] = False
    if not placed.any():
        return Assemblies.none(len(evidence))
    rest = Assemblies.of(evidence, one.poses, placed)
    whole = Evidence.of(
        [evidence.fragments[piece], merge_fragments(evidence, one.poses[0], placed[0])], evidence.regime
    )
    joints = find_joints(whole, (0, 1), config, rough=propose(whole, (0, 1), look)[:PROPOSALS])
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
    look: ProposeConfig,
    *,
    rounds: int,
    out_of_time: Callable[[], bool],
) -> Assemblies:
    """An assembly (K = 1) after docking again, one by one, the pieces that are left over or supported least."""
    tried: set[int] = set()
    for _ in range(rounds):
        order = np.argsort(np.where(one.placed[0], one.pieces[0], -np.inf), kind="stable")
        piece = next((int(i) for i in order if int(i) not in tried), None)
        if piece is None or out_of_time():
            break
        tried.add(piece)
        better = dock_piece(evidence, one, piece, config, look)
        if len(better) and better.score[0] > one.score[0] + 1e-3:
            one, tried = better[[0]], {piece}
    return one
