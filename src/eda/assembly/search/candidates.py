"""Candidates: assemblies of joints, wherever these were proposed, and samples refined as they are.

samples ───┬─► refined as they are ─────────┐
           ├─► joints ─► grown assemblies ──┴─► repaired ─► once more, sure pieces merged ─► finished
proposers ─┘
"""

from __future__ import annotations

import numpy as np

from eda.assembly.contact.evidence import Evidence
from eda.assembly.proposals import Docking, Problem, Proposals
from eda.assembly.regimes import AssemblyRegime
from eda.assembly.search.assemblies import Assemblies
from eda.assembly.search.finish import finish
from eda.assembly.search.grow import grow
from eda.assembly.search.joints import NEARBY, Joint, find_joints
from eda.assembly.search.merged_pieces import expand_assemblies
from eda.assembly.search.rank_config import RankConfig
from eda.assembly.search.redock import repair
from eda.assembly.search.refine import RefineConfig, refine
from eda.assembly.search.second_look import merge_sure_pieces
from eda.assembly.search.support import prune_unsupported
from eda.budget import Budget, Stage

# Samples that are refined as wholes at once.
AT_ONCE = 8


def find_assemblies(problem: Problem, regime: AssemblyRegime, config: RankConfig, budget: Budget) -> Assemblies:
    """Assemblies of refined joints, and samples refined as they are; all have the first group, if there are pins."""
    found = _search(problem, regime, config, budget)
    for _ in range(config.looks if regime.refines_samples else 0):
        again = None if budget.exhausted or not len(found) else merge_sure_pieces(problem, _best(found), budget)
        if again is None:
            break
        groups, merged = again
        grown = expand_assemblies(groups, problem.evidence, _search(merged, regime, config, budget))
        better = len(grown) > 0 and grown.score.max() > found.score.max()
        found = Assemblies.cat([found, grown])
        if not better:  # the next look would see the same
            break
    if problem.detail is None or not regime.finishes:
        return found
    return finish(problem.evidence, found, problem.detail, config.candidates, budget)


def _best(found: Assemblies) -> Assemblies:
    return found[[int(found.score.argmax())]]


def _search(problem: Problem, regime: AssemblyRegime, config: RankConfig, budget: Budget) -> Assemblies:
    """The candidates of one look."""
    evidence = problem.evidence
    joints = _joints(problem, regime, config, budget)
    budget.report(Stage.GROW, 0.0)
    grown = grow(evidence, joints, config.joints, anchor=problem.anchor)
    if regime.refines_samples and len(evidence) > 2:
        wholes = _refine_samples(problem, config, budget)
        grown = Assemblies.cat([grown, *wholes]).best(evidence, 4 * config.joints.beam)
    return _repair(evidence, grown, regime, config, budget)


def _repair(
    evidence: Evidence, grown: Assemblies, regime: AssemblyRegime, config: RankConfig, budget: Budget
) -> Assemblies:
    """The assemblies, and the best of them after docking again what is left over or badly supported."""
    budget.report(Stage.DOCK, 0.0)
    if config.docking is None or not regime.redocks or len(evidence) == 2:
        return grown
    best = grown.best(evidence, config.repairs)
    rounds = len(evidence) + 2
    better = [
        repair(evidence, best[[k]], config.joints, config.docking, rounds=rounds, budget=budget)
        for k in range(len(best))
    ]
    return Assemblies.cat([*better, grown])


def _joints(problem: Problem, regime: AssemblyRegime, config: RankConfig, budget: Budget) -> list[Joint]:
    """The refined joints of all pairs that come from anything that was proposed, as long as there is time."""
    docking = None if config.docking is None else Docking(config.docking, config.proposals)
    proposers = regime.proposers(docking) if config.proposers is None else config.proposers
    of_pair = [proposer.propose(problem, budget) for proposer in proposers]
    pairs, joints = problem.evidence.pairs, []
    for done, pair in enumerate(pairs):
        if budget.exhausted:
            break
        budget.report(Stage.REFINE_JOINTS, done / len(pairs))
        proposed = Proposals.cat([propose(pair) for propose in of_pair])
        joints += find_joints(problem.evidence, pair, proposed, config.joints)
    return joints


def _refine_samples(problem: Problem, config: RankConfig, budget: Budget) -> list[Assemblies]:
    """Samples, refined with all pieces at once, without those that are not supported. Small pieces are pulled into
    their place by all neighbours together where no joint alone would hold. Some at a time, since it may take long.
    """
    found: list[Assemblies] = []
    for first in range(0, len(problem.samples), AT_ONCE):
        if budget.exhausted:
            break
        budget.report(Stage.REFINE_SAMPLES, first / len(problem.samples))
        some = problem.samples[first : first + AT_ONCE]
        refined = np.concatenate([refine(problem.evidence, some, config=how) for how in (RefineConfig(), NEARBY)])
        found.append(prune_unsupported(problem.evidence, refined, config.joints, problem.anchor))
    return found
