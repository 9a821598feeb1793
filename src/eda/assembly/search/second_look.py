"""A second look: what is surely joined becomes one piece, and the flow is asked again.

Eight pieces are harder than four: each has fewer points, and there are more pairs to confuse. But even where most of an
assembly is wrong, some of its joints are sure. Their pieces, merged, are a puzzle of fewer and larger pieces, whose
closed breaks are gone. The network has learned such puzzles, too: pieces were joined at random in its training.
"""

from __future__ import annotations

import numpy as np

from eda.assembly.contact.evidence import Evidence
from eda.assembly.contact.score import score_assemblies
from eda.assembly.proposals import Problem
from eda.assembly.search.assemblies import Assemblies
from eda.assembly.search.merged_pieces import groups_of, merge_detail, merge_evidence
from eda.assembly.search.support import components
from eda.budget import Budget
from eda.registration.rigid_groups import RigidGroups

# What a piece that surely lies right gains of what it could.
SURE_GAIN = 0.45


def merge_sure_pieces(problem: Problem, best: Assemblies, budget: Budget) -> tuple[RigidGroups, Problem] | None:
    """The groups that the sure joints of an assembly (K = 1) make, and the problem of these, sampled anew.

    None if no joint is sure, or all pieces are surely joined: then there is nothing else to find out.
    """
    if problem.resample is None or problem.detail is None:
        return None
    groups = _sure_groups(problem.evidence, best)
    if groups.is_trivial or len(groups.first) == 1:
        return None
    evidence = merge_evidence(groups, problem.evidence)
    detail = merge_detail(groups, problem.evidence, problem.detail)
    samples = problem.resample(detail, budget)
    anchor = None if problem.anchor is None else int(groups.group[problem.anchor])
    return groups, Problem(evidence, samples, groups_of(samples, []), anchor, detail, problem.resample)


def _sure_groups(evidence: Evidence, best: Assemblies) -> RigidGroups:
    """The components of the sure pieces that are connected by joints that gain."""
    sure = best.placed[0] & (best.pieces[0] > SURE_GAIN)
    component = components(score_assemblies(evidence, best.poses).gain[0], sure)
    return groups_of(best.poses, [np.flatnonzero(component == number).tolist() for number in np.unique(component)])
