"""Ranking: from sampled assemblies to a few refined, judged, distinct ones, each with its confidence.

    samples ─┬─► refined as they are ────────────┐
             ├─► joints ─► grown assemblies ─────┴─► repaired ─► distinct ─► ranked
    geometry ┘

In: evidence and sampled poses. Out: candidates, the best first. Nothing here knows the solution.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from eda.assembly.assemblies import Assemblies, contradict, same_shape
from eda.assembly.confidence import SHERDS, Confidence, Seen
from eda.assembly.dock import repair
from eda.assembly.evidence import Evidence
from eda.assembly.features import mean_support
from eda.assembly.groups import expand_assemblies, groups_of, merge_evidence
from eda.assembly.judge import judge
from eda.assembly.match import Matches
from eda.assembly.pool import NO_POSES, Joint, PoolConfig, find_joints, grow, prune_unsupported
from eda.assembly.propose import ProposeConfig, propose
from eda.assembly.refine import refine
from eda.assembly.scans import Scan, Trusted
from eda.errors import InputError
from eda.registration.rigid import act, relative_poses
from eda.registration.rigid_groups import RigidGroups
from eda.registration.suppression import keep_distinct

Progress = Callable[[str, float], None]  # what is being done, and which share of it is done

# Samples that agree with nothing, thought beside those that were drawn: that two of two agree does not say much.
DOUBT = 8
# Samples that are refined as wholes at once.
AT_ONCE = 8


@dataclass(frozen=True)
class RankConfig:
    """What to try, and for how long."""

    refine: bool = True  # False: samples are judged as they are, nothing is proposed or pooled
    pool: PoolConfig = field(default_factory=PoolConfig)
    propose: ProposeConfig | None = field(default_factory=ProposeConfig)  # None: only what was sampled
    proposals: int = 320  # from geometry, shared by all pairs
    repaired: int = 1  # assemblies whose weakest pieces are docked again
    candidates: int = 8
    support_weight: float = 0.05  # of the share of samples that agree, when ranking
    support_distance: float = 0.5  # a sample agrees with a joint if no point lies further off
    confidence: Confidence | None = None  # None: what is known of such pieces


@dataclass(frozen=True)
class Candidate:
    """One assembly of N pieces."""

    poses: np.ndarray  # (N, 4, 4); those of unplaced pieces mean nothing
    placed: np.ndarray  # (N,) bool
    score: float  # of `judge`
    support: float  # the share of other samples that had its joints, roughly
    count: int  # how many assemblies of the same shape were found
    probability: float  # of being right
    joints: np.ndarray  # (N, N) confidence in every joint, 0 where two pieces do not touch
    pieces: np.ndarray  # (N,) confidence in the place of every piece, 0 if unplaced

    @property
    def unplaced(self) -> list[int]:
        """The pieces for which no joint holds."""
        return np.flatnonzero(~self.placed).tolist()


def rank(
    evidence: Evidence,
    samples: np.ndarray,
    config: RankConfig | None = None,
    progress: Progress = lambda what, done: None,
    *,
    deadline: float | None = None,
    rigid: Sequence[Sequence[int]] = (),
    lying: np.ndarray | None = None,
    matches: Matches | None = None,
) -> list[Candidate]:
    """The best distinct assemblies from samples (K, N, 4, 4), K may be 0. The last resort places nothing.

    `deadline` is a time of `time.monotonic`, after which no new work begins and the best so far is what there is: the
    result then depends on the machine. `rigid` are groups of pieces that lie the same in all samples and are kept so;
    every assembly holds the first of them. Where there is no sample, `lying` (N, 4, 4) says how the pieces
    of a group lie. `matches` are tried beside the samples.
    """
    config = config or RankConfig()
    if samples.ndim != 4 or samples.shape[1:] != (len(evidence), 4, 4) or not np.isfinite(samples).all():
        raise InputError(f"samples must be finite poses (K, {len(evidence)}, 4, 4), got shape {samples.shape}")

    def out_of_time() -> bool:
        return deadline is not None and time.monotonic() >= deadline

    first = samples[:1] if lying is None else lying[None]
    groups = groups_of(first, rigid)
    found = Assemblies.none(len(groups.first))
    if config.refine and len(found.placed.T) > 1:
        parts, sampled = merge_evidence(groups, evidence), samples[:, groups.first.numpy()]
        joints = _joints(parts, sampled, groups.merge_pair_poses(matches or {}), config, progress, out_of_time)
        found = _searched(parts, joints, sampled, not groups.is_trivial, config, progress, out_of_time)
    progress("ranking", 1.0)
    as_they_are = len(samples) and not len(found) and (out_of_time() or not config.refine)
    if as_they_are:
        every = Assemblies.of(evidence, samples, np.ones(samples.shape[:2], dtype=bool))
    else:
        every = Assemblies.cat([expand_assemblies(groups, evidence, found), _last_resort(evidence, first, groups)])
    known = np.isin(np.arange(len(evidence)), [i for group in rigid for i in group])
    return _candidates(evidence, every, samples, known, config)


def _searched(
    evidence: Evidence,
    joints: list[Joint],
    samples: np.ndarray,
    anchored: bool,
    config: RankConfig,
    progress: Progress,
    out_of_time: Callable[[], bool],
) -> Assemblies:
    """Assemblies of refined joints, and samples refined as they are; with the first piece in all of them, if they are
    anchored there.
    """
    progress("growing assemblies", 0.0)
    grown = grow(evidence, joints, config.pool, anchor=0 if anchored else None)
    if evidence.regime.docks and len(evidence) > 2:
        wholes = _wholes(evidence, samples, 0 if anchored else None, config, progress, out_of_time)
        grown = Assemblies.cat([grown, *wholes]).best(evidence, 4 * config.pool.beam)
    progress("docking left over pieces", 0.0)
    mended = [_repaired(evidence, grown[[k]], config, out_of_time) for k in range(min(config.repaired, len(grown)))]
    return Assemblies.cat([*mended, grown])


def _wholes(
    evidence: Evidence,
    samples: np.ndarray,
    anchor: int | None,
    config: RankConfig,
    progress: Progress,
    out_of_time: Callable[[], bool],
) -> list[Assemblies]:
    """Samples, refined with all pieces at once, and without those that do not hold: small pieces are pulled into their
    place by all neighbours together where no joint alone would hold. Some at a time, since it may take long.
    """
    found: list[Assemblies] = []
    for first in range(0, len(samples), AT_ONCE):
        if out_of_time():
            break
        progress("refining samples", first / len(samples))
        refined = refine(evidence, samples[first : first + AT_ONCE])
        found.append(prune_unsupported(evidence, refined, config.pool, anchor))
    return found


def _joints(
    evidence: Evidence,
    samples: np.ndarray,
    matches: Matches,
    config: RankConfig,
    progress: Progress,
    out_of_time: Callable[[], bool],
) -> list[Joint]:
    joints: list[Joint] = []
    for done, pair in enumerate(evidence.pairs):
        if out_of_time():
            break
        progress("refining joints", done / len(evidence.pairs))
        sampled, matched = relative_poses(samples, pair), matches.get(pair, NO_POSES)
        if not evidence.regime.docks:
            # Samples of scans have settled on each other: to look further would pull them off a small overlap.
            rough, close = matched, np.concatenate([matched, sampled])
        elif config.propose is None:
            rough, close = sampled, matched
        else:
            kept = max(24, config.proposals // len(evidence.pairs))
            rough, close = np.concatenate([sampled, propose(evidence, pair, config.propose)[:kept]]), matched
        joints += find_joints(evidence, pair, config.pool, rough=rough, close=close)
    return joints


def _repaired(evidence: Evidence, one: Assemblies, config: RankConfig, out_of_time: Callable[[], bool]) -> Assemblies:
    if config.propose is None or not evidence.regime.docks or len(evidence) == 2:
        return one
    rounds = len(evidence) + 2
    return repair(evidence, one, config.pool, config.propose, rounds=rounds, out_of_time=out_of_time)


def _last_resort(evidence: Evidence, first: np.ndarray, groups: RigidGroups) -> Assemblies:
    """The assembly in which no piece has a place, or only the first rigid group; poses are those of `first`, if any."""
    poses = first if len(first) else np.tile(np.eye(4), (1, len(evidence), 1, 1))
    first_group = (groups.group == 0).numpy()[None]
    return Assemblies.of(evidence, poses, first_group & (not groups.is_trivial))


# -- distinct, with confidence -----------------------------------------------------------------------------------------


def _candidates(
    evidence: Evidence, every: Assemblies, samples: np.ndarray, known: np.ndarray, config: RankConfig
) -> list[Candidate]:
    """The best distinct ones; `known` (N,) are pieces whose place is not in question."""
    ranked = every.best(evidence, 4 * config.candidates)
    agreed = mean_support(_support(evidence, ranked, samples, config), ranked.placed)
    merit = ranked.score + config.support_weight * agreed
    order = np.argsort(-merit, kind="stable")
    ranked, merit = ranked[order], merit[order]
    kept, counts = keep_distinct(len(ranked), lambda a, b: same_shape(evidence, ranked, a, b), config.candidates)
    best, margin = ranked[kept], _margin(merit[kept])
    support = _support(evidence, best, samples, config)
    judged, shared = judge(evidence, best.poses, best.placed), mean_support(support, best.placed)
    seen = Seen(evidence, judged, best.placed, known, margin, support)
    sure = config.confidence or (Trusted() if isinstance(evidence.regime, Scan) else SHERDS)
    joints = sure.joints(seen) * (judged.good + judged.bad > 0)
    joints = np.maximum(joints, joints.swapaxes(1, 2))
    pieces = sure.pieces(seen) * (joints > 0).any(axis=2)
    least_sure = np.where(best.placed & ~known, pieces, 1).min(axis=1)
    probability = _consistent(evidence, best, np.minimum(sure.whole(seen), least_sure))
    return [
        Candidate(
            poses=best.poses[k],
            placed=best.placed[k],
            score=float(best.score[k]),
            support=float(shared[k]),
            count=count,
            probability=float(probability[k]),
            joints=joints[k],
            pieces=pieces[k],
        )
        for k, count in enumerate(counts)
    ]


def _consistent(evidence: Evidence, best: Assemblies, probability: np.ndarray) -> np.ndarray:
    """(K,) probabilities of which none has more than those before it that contradict it leave over.

    An assembly that places nothing has none.
    """
    probability = probability * best.placed.any(axis=1)
    for k in range(len(best)):
        taken = sum(probability[before] for before in range(k) if contradict(evidence, best, before, k))
        probability[k] = min(probability[k], max(0.0, 1 - taken))
    return probability


def _margin(merit: np.ndarray) -> np.ndarray:
    """(K,) by how much each beats the best of the others, of which one that gained nothing is always thought."""
    best, second = [*merit[:2], 0.0, 0.0][:2]
    return merit - np.where(np.arange(len(merit)) == 0, max(second, 0.0), best)


def _support(evidence: Evidence, every: Assemblies, samples: np.ndarray, config: RankConfig) -> np.ndarray:
    """(K, N, N) the share of samples in which two pieces lie roughly as in an assembly; 0 if one is not placed.

    One of them does not count, since the assembly may be its own sample.
    """
    support = np.zeros((len(every), len(evidence), len(evidence)))
    for i, j in evidence.pairs if len(samples) else []:
        corners = evidence.fragments[i].corners
        sampled = act(relative_poses(samples, (i, j)), corners)
        wanted = act(relative_poses(every.poses, (i, j)), corners)
        apart = np.square(sampled - wanted[:, None]).sum(axis=3).max(axis=2)
        others = (apart < config.support_distance**2).sum(axis=1) - 1
        support[:, i, j] = support[:, j, i] = others.clip(min=0) / (len(samples) + DOUBT)
    return support * every.placed[:, :, None] * every.placed[:, None]
