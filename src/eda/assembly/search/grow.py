"""Growing assemblies: joints that were right in different samples, combined by a beam search over pieces."""

from __future__ import annotations

import numpy as np

from eda.assembly.contact.evidence import Evidence
from eda.assembly.contact.score import score_assemblies
from eda.assembly.search.assemblies import Assemblies
from eda.assembly.search.joints import Joint, JointConfig
from eda.assembly.search.support import all_supported
from eda.registration.beam_search import beam_search


def grow(evidence: Evidence, joints: list[Joint], config: JointConfig, anchor: int | None = None) -> Assemblies:
    """Assemblies from joints, by a beam search, the best first. Pieces without a supported joint stay unplaced.

    With an anchor, only assemblies with this piece.
    """
    seeds = _seed_beam(evidence, [joint for joint in joints if anchor is None or anchor in joint.pair], config)
    beams = beam_search(seeds, lambda beam: _expand_beam(evidence, beam, joints, config))
    return Assemblies.cat(beams).best(evidence, 4 * config.beam)


def _seed_beam(evidence: Evidence, joints: list[Joint], config: JointConfig) -> Assemblies:
    """Assemblies of two pieces: the best joints."""
    best = sorted(joints, key=lambda joint: -joint.score)[: 2 * config.beam]
    poses = np.tile(np.eye(4), (len(best), len(evidence), 1, 1))
    placed = np.zeros((len(best), len(evidence)), dtype=bool)
    for k, joint in enumerate(best):
        poses[k, joint.pair[0]] = joint.relative
        placed[k, list(joint.pair)] = True
    return Assemblies.of(evidence, poses, placed)


def _expand_beam(evidence: Evidence, beam: Assemblies, joints: list[Joint], config: JointConfig) -> Assemblies | None:
    """The assemblies with one more piece, in the best of the ways that joints offer; None if there is none."""
    by_score = sorted(joints, key=lambda joint: -joint.score)
    offers: list[tuple[int, int, np.ndarray]] = []
    for k in range(len(beam)):
        added = [joint.adds_to(beam.poses[k], beam.placed[k]) for joint in by_score]
        offers += [(k, *offer) for offer in added if offer is not None][: config.tries]
    if not offers:
        return None
    rough = with_piece(evidence, beam, offers).best(evidence, 2 * config.beam)
    refined = rough.polish(evidence)
    grown = refined[np.flatnonzero(all_supported(refined, config))].best(evidence, config.beam)
    return grown if len(grown) else None


def with_piece(evidence: Evidence, beam: Assemblies, offers: list[tuple[int, int, np.ndarray]]) -> Assemblies:
    """For every offer (assembly, piece, pose), the assembly with that piece at that pose."""
    source, piece = np.array([k for k, _, _ in offers]), np.array([i for _, i, _ in offers])
    every, before = np.arange(len(offers)), beam[source]
    poses, placed = before.poses.copy(), before.placed.copy()
    poses[every, piece] = np.stack([pose for _, _, pose in offers])
    placed[every, piece] = True
    new = np.zeros((*placed.shape, len(evidence)), dtype=bool)
    new[every, piece] = new[every, :, piece] = before.placed
    added = score_assemblies(evidence, poses, joints=new)  # the other joints are as they were
    return Assemblies(poses, placed, before.score + added.score, before.pieces + added.pieces)
