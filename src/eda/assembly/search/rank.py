"""Ranking: from sampled assemblies to a few refined, scored, distinct ones, each with its confidence.

    samples, proposers ─► candidates ─► distinct ─► ranked, with confidence

In: evidence and sampled poses. Out: alternatives, the best first. Nothing here knows the solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from eda.assembly.confidence import AssemblyStats, ConfidenceEstimator, Probabilities
from eda.assembly.confidence.features import mean_support
from eda.assembly.contact.detail import Detail
from eda.assembly.contact.evidence import Evidence
from eda.assembly.contact.score import score_assemblies
from eda.assembly.proposals import Problem, Resample
from eda.assembly.regimes import AssemblyRegime, regime_of
from eda.assembly.result import Alternative
from eda.assembly.search.abstain import leave_out
from eda.assembly.search.assemblies import Assemblies, contradict, is_same, same_shape
from eda.assembly.search.candidates import find_assemblies
from eda.assembly.search.merged_pieces import expand_assemblies, groups_of, merge_detail, merge_evidence
from eda.assembly.search.rank_config import RankConfig
from eda.budget import Budget, Stage
from eda.errors import InputError
from eda.registration.rigid import act, relative_poses
from eda.registration.rigid_groups import RigidGroups
from eda.registration.suppression import keep_distinct

# Imaginary samples that agree with nothing, counted beside those that were drawn: two of two agreeing says little.
DOUBT = 8


def rank(
    evidence: Evidence,
    samples: np.ndarray,
    config: RankConfig | None = None,
    *,
    regime: AssemblyRegime | None = None,
    budget: Budget | None = None,
    rigid: Sequence[Sequence[int]] = (),
    group_poses: np.ndarray | None = None,
    detail: Detail | None = None,
    resample: Resample | None = None,
) -> list[Alternative]:
    """The best distinct assemblies from samples (K, N, 4, 4), K may be 0. The last alternative may place nothing.

    When the budget is exhausted, no new work begins and the best so far is the result, which then depends on the
    machine. `rigid` are groups of pieces that lie the same in all samples and are kept so; every assembly contains the
    first of them. Where there is no sample, `group_poses` (N, 4, 4) says how the pieces of a group lie. `detail` is
    all points of the pieces, for proposers that use them and for the last refinement; `resample` draws
    assemblies of merged pieces.
    """
    config, budget = config or RankConfig(), budget or Budget()
    regime = regime or regime_of(evidence.rules.name)
    if samples.ndim != 4 or samples.shape[1:] != (len(evidence), 4, 4) or not np.isfinite(samples).all():
        raise InputError(f"samples must be finite poses (K, {len(evidence)}, 4, 4), got shape {samples.shape}")
    first = samples[:1] if group_poses is None else group_poses[None]
    groups = groups_of(first, rigid)
    found = Assemblies.none(len(groups.first))
    if config.refine and len(groups.first) > 1:
        merged = None if detail is None else merge_detail(groups, evidence, detail)
        anchor, clouds = None if groups.is_trivial else 0, detail.points if detail else ()
        of_groups = samples[:, groups.first.numpy()]
        problem = Problem(merge_evidence(groups, evidence), of_groups, groups, anchor, merged, resample, clouds)
        found = find_assemblies(problem, regime, config, budget)
    budget.report(Stage.RANK, 1.0)
    only_samples = bool(len(samples) and not len(found) and (budget.exhausted or not config.refine))
    if only_samples:
        every = Assemblies.of(evidence, samples, np.ones(samples.shape[:2], dtype=bool))
    else:
        every = Assemblies.cat([expand_assemblies(groups, evidence, found), _fallback(evidence, first, groups)])
    pinned = np.isin(np.arange(len(evidence)), [i for group in rigid for i in group])
    return _alternatives(evidence, every, samples, pinned, config, regime, abstain=not only_samples)


def _fallback(evidence: Evidence, first: np.ndarray, groups: RigidGroups) -> Assemblies:
    """The assembly in which no piece has a place, or only the first rigid group; poses are those of `first`, if any."""
    poses = first if len(first) else np.tile(np.eye(4), (1, len(evidence), 1, 1))
    first_group = (groups.group == 0).numpy()[None]
    return Assemblies.of(evidence, poses, first_group & (not groups.is_trivial))


# -- distinct, with confidence -----------------------------------------------------------------------------------------


def _alternatives(
    evidence: Evidence,
    every: Assemblies,
    samples: np.ndarray,
    pinned: np.ndarray,
    config: RankConfig,
    regime: AssemblyRegime,
    *,
    abstain: bool,
) -> list[Alternative]:
    """The best distinct ones; `pinned` (N,) are pieces whose place is not in question.

    If it may `abstain`, the best has no piece whose place is probably wrong.
    """
    best, merit, counts = _distinct(evidence, every, samples, config)
    judge = _Judge(evidence, samples, pinned, config, config.confidence or regime.confidence)
    ranked = _Ranked(best, _margin(merit), counts, np.zeros(best.placed.shape))
    if abstain:
        ranked = _without_doubtful(ranked, judge)
    best, found = ranked.best, judge.believe(ranked.best, ranked.margin)
    probability = _consistent(evidence, best, found.wholes)
    shares = mean_support(sample_support(evidence, best, samples, config), best.placed)
    score = score_assemblies(evidence, best.poses, best.placed).score  # all at one scale, whatever they were ranked by
    return [
        Alternative(
            poses=best.poses[k],
            placed=best.placed[k],
            score=float(score[k]),
            probability=float(probability[k]),
            confidence=found.pieces[k],
            joints=found.joints[k],
            count=count,
            support=float(shares[k]),
            rejected=ranked.rejected[k],
        )
        for k, count in enumerate(ranked.counts)
    ]


@dataclass(frozen=True)
class _Judge:
    """What is believed of assemblies of the same pieces."""

    evidence: Evidence
    samples: np.ndarray  # (S, N, 4, 4)
    pinned: np.ndarray  # (N,) bool
    config: RankConfig
    confidence: ConfidenceEstimator

    def believe(self, every: Assemblies, margin: np.ndarray) -> Probabilities:
        """How likely assemblies are right that beat the others by a margin (K,)."""
        support = sample_support(self.evidence, every, self.samples, self.config)
        scores = score_assemblies(self.evidence, every.poses, every.placed)
        stats = AssemblyStats(self.evidence, every.poses, scores, every.placed, self.pinned, margin, support)
        return self.confidence.estimate(stats).consistent(stats)


class _Ranked(NamedTuple):
    """K distinct assemblies, the best first."""

    best: Assemblies
    margin: np.ndarray  # (K,) by how much each beats the others
    counts: list[int]  # K, how many of each shape there are
    rejected: np.ndarray  # (K, N) how likely its place was that a piece was denied


def _without_doubtful(ranked: _Ranked, judge: _Judge) -> _Ranked:
    """The best without the pieces that are probably wrong, before what there was: as it was it is worth a look."""
    first, margin = ranked.best[[0]], ranked.margin[:1]

    def some(placed: np.ndarray) -> Assemblies:
        return Assemblies.of(judge.evidence, first.poses, placed[None])

    placed, rejected = leave_out(first.placed[0], judge.pinned, lambda placed: judge.believe(some(placed), margin))
    best = Assemblies.cat([some(placed), ranked.best])
    keep = [0, *(k for k in range(1, len(best)) if not is_same(judge.evidence, best, 0, k))]
    return _Ranked(
        best[keep],
        np.append(margin, ranked.margin)[keep],
        [[ranked.counts[0], *ranked.counts][k] for k in keep],
        np.vstack([rejected, ranked.rejected])[keep],
    )


def _distinct(
    evidence: Evidence, every: Assemblies, samples: np.ndarray, config: RankConfig
) -> tuple[Assemblies, np.ndarray, list[int]]:
    """The best assemblies of distinct shapes, their merit (K,), and how many of each shape there are."""
    ranked = every.best(evidence, 4 * config.candidates)
    agreed = mean_support(sample_support(evidence, ranked, samples, config), ranked.placed)
    merit = ranked.score + config.support_weight * agreed
    order = np.argsort(-merit, kind="stable")
    ranked, merit = ranked[order], merit[order]
    kept, counts = keep_distinct(len(ranked), lambda a, b: same_shape(evidence, ranked, a, b), config.candidates)
    return ranked[kept], merit[kept], counts


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


def sample_support(evidence: Evidence, every: Assemblies, samples: np.ndarray, config: RankConfig) -> np.ndarray:
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
