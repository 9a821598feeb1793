"""Docking a piece again: against all that is already in place.

Alone, a small joint is easily mistaken. But when its neighbours are in place, a piece has to fill the gap between
them: nearly all of its break meets theirs at once, which hardly happens by chance. So a piece that is left over, or
that is badly supported, is offered to the rest as a whole.
"""

from __future__ import annotations

import numpy as np

from eda.assembly.contact.evidence import Evidence
from eda.assembly.proposals import DockingConfig, Proposals, docking_poses
from eda.assembly.search.assemblies import Assemblies
from eda.assembly.search.grow import with_piece
from eda.assembly.search.joints import JointConfig, find_joints
from eda.assembly.search.merged_pieces import merge_fragments
from eda.assembly.search.support import all_supported, is_connected
from eda.budget import Budget

# Of a piece against the rest: there is much to lean on, so the right place comes early among them.
PROPOSALS = 48


def dock_piece(evidence: Evidence, one: Assemblies, piece: int, config: JointConfig, look: DockingConfig) -> Assemblies:
    """An assembly (K = 1) with one piece taken out, if it is in, and put where it fits the rest; the best first."""
    placed = one.placed.copy()
    placed[0, piece] = False
    if not placed.any():
        return Assemblies.none(len(evidence))
    rest = Assemblies.of(evidence, one.poses, placed)
    merged = merge_fragments(evidence, one.poses[0], placed[0])
    whole = Evidence.of([evidence.fragments[piece], merged], evidence.rules)
    proposals = Proposals(rough=docking_poses(whole, (0, 1), look)[:PROPOSALS])
    joints = find_joints(whole, (0, 1), proposals, config)
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
    config: JointConfig,
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
