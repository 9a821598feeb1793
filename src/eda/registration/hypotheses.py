"""Hypotheses: relative poses by which two pieces may fit, from soft correspondences between them.

In: the `SoftCorrespondences` of a puzzle. Out: `PairHypotheses`, a few for every pair of pieces, with the features that
speak for each; found once per puzzle, for all pairs at once.

Many correspondences are wrong, so no single fit to all of them would be right. Each of the strongest proposes the pose
that fits those around it, then those that agree with it wherever they are. Surfaces that overlap are then registered by
ICP. Nothing here is learned: no gradient passes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eda.lie import SE3
from eda.registration.icp import Surface, point_to_plane_icp
from eda.registration.overlap import PARALLEL_SHARE
from eda.registration.pair_scorer import ContactScorer, OverlapScorer, PairScorer
from eda.registration.procrustes import weighted_procrustes
from eda.registration.soft_correspondences import SoftCorrespondences, gaussian_weight, squared_residuals
from eda.registration.suppression import has_better_duplicate

# Of two pieces, and of a pair of many; there are so many more pairs then.
CORRESPONDENCES = (512, 256)  # that are looked at: the strongest
SEEDS = (128, 32)  # of these, each of which proposes a pose
HYPOTHESES = (32, 8)  # of those proposed that are kept: the best supported that differ
# In units of the places' reach:
WINDOW = 1.4  # correspondences this near a seed, in both pieces, decide what it proposes
RADII = (1.0, 0.6, 0.6, 0.6)  # then, again and again, of the inliers of what it proposed
MIN_SPREAD = 0.05  # of correspondences that determine a pose
SAME_ROTATION = 0.985  # the cosine, of 10 degrees, from which rotations are the same


@dataclass(frozen=True)
class PairHypotheses:
    """K hypotheses for every pair of pieces of a puzzle."""

    T_second_first: SE3  # (Q, K) poses of the first piece in the frame of the second
    valid: Tensor  # (Q, K) which of these are hypotheses at all: well-posed fits, unlike all better ones
    features: Tensor  # (Q, K, F) what speaks for each
    scorer: PairScorer  # by which any other pose may be scored


def per_pair(of_two_and_many: tuple[int, int], num_pieces: int) -> int:
    """How many per pair: the first for a pair alone, less with every further piece, never less than the second."""
    alone, least = of_two_and_many
    return max(alone // max(num_pieces - 1, 1), least)


@torch.no_grad()
def find_hypotheses(
    matches: SoftCorrespondences, centers: Tensor, surfaces: tuple[Surface, ...] | None
) -> PairHypotheses:
    """The hypotheses of every pair of the puzzle's pieces, whose centres are at (N, 3). Fits are made in float64.

    Scans come with the surfaces of all pieces, on which they are registered; complementary pieces without.
    """
    dtype, num_pieces = matches.places.dtype, len(matches.places)
    weights, source, target = matches.strongest(per_pair(CORRESPONDENCES, num_pieces))
    poses, support = _consensus(weights, source, target, per_pair(SEEDS, num_pieces), matches.reach)
    ends = [centers[pieces].double() for pieces in (matches.first, matches.second)]
    valid = (support > 0) & ~_duplicates(poses, support, ends, matches.reach)
    order = torch.where(valid, support, support - support.amax(1, keepdim=True) - 1)
    rows = order.topk(min(per_pair(HYPOTHESES, num_pieces), order.shape[1])).indices
    poses, valid = SE3(_take(poses.rotation, rows), _take(poses.translation, rows)), _take(valid, rows)
    pairs = torch.arange(len(rows), device=rows.device)
    if surfaces is None:
        weights, source, target, best = (of.to(dtype) for of in (weights, source, target, support.amax(1)))
        contacts = ContactScorer(matches, weights, source, target, RADII[-1] * matches.reach, best)
        return PairHypotheses(poses.to(dtype), valid, contacts.features(pairs, poses.to(dtype)), contacts)
    overlaps = OverlapScorer(matches, surfaces)
    poses = _register(overlaps, poses)
    features = overlaps.features(pairs, poses.to(dtype))
    agreement = features[..., PARALLEL_SHARE].masked_fill(~valid, -torch.inf)
    valid = valid & ~_duplicates(poses, agreement, ends, matches.reach)  # many come to the same pose
    return PairHypotheses(poses.to(dtype), valid, features, overlaps)


def _consensus(weights: Tensor, source: Tensor, target: Tensor, seeds: int, reach: float) -> tuple[SE3, Tensor]:
    """The poses (Q, K) that fit the correspondences around the first `seeds` ones, and the weight of their inliers:
    zero where these do not determine a pose.
    """
    apart = [torch.cdist(side[:, :seeds], side).square() for side in (source, target)]
    inliers = weights[:, None] * gaussian_weight(apart[0] + apart[1], WINDOW * reach)
    valid = weights[:, :seeds] > 0  # padding is no correspondence
    for radius in RADII:
        poses, spread = weighted_procrustes(inliers, source, target)
        valid = valid & (spread > (MIN_SPREAD * reach) ** 2)
        inliers = weights[:, None] * gaussian_weight(squared_residuals(poses, source, target), radius * reach)
    return poses, inliers.sum(-1).masked_fill(~valid, 0)


def _register(scorer: OverlapScorer, poses: SE3) -> SE3:
    """Poses (Q, K) after ICP of the surfaces of every pair."""
    matrices = poses.matrix().cpu().numpy()
    each = [point_to_plane_icp(*scorer.of_pair(pair), start) for pair, start in enumerate(matrices)]
    if not each:  # a piece alone is in no pair
        return poses
    return SE3.stack([SE3.from_matrix(torch.from_numpy(found)) for found in each]).to(poses.rotation)


def _take(values: Tensor, rows: Tensor) -> Tensor:
    """Some rows (Q, K') of values (Q, K, ...)."""
    return values[torch.arange(len(rows), device=rows.device)[:, None], rows]


def _duplicates(poses: SE3, score: Tensor, centers: list[Tensor], reach: float) -> Tensor:
    """(Q, K) which poses have a better one that turns alike, and brings the centres of the two pieces (Q, 3) to the
    same places.
    """
    flat = poses.rotation.flatten(-2)
    alike = (flat @ flat.mT - 1) / 2 > SAME_ROTATION  # the cosine of the angle between two of them
    for pose, center in ((poses, centers[0]), (poses.inverse(), centers[1])):
        brought = pose.act(center[:, None])
        alike = alike & (torch.cdist(brought, brought) < reach)
    return has_better_duplicate(alike, score)
