"""The right motions are proposed amid wrong matches, and those of scans settle where these agree (ours)."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from support.lumpy_shapes import seeded
from support.rigid_motions import random_se3
from support.soft_matches import by_hand, centers_of, drawn, matches_by_hand, pairs_of, unit
from support.surface_pairs import moved
from torch import Tensor

from eda import SE3
from eda.nn.correspondences import MatchScores
from eda.registration.hypotheses import PairHypotheses, find_hypotheses
from eda.registration.icp import Surface


def errors(found: SE3, truth: SE3) -> tuple[Tensor, Tensor]:
    angle = Rotation.from_matrix((found.rotation @ truth.rotation.mT).numpy()).magnitude()
    return torch.from_numpy(angle), (found.translation - truth.translation).norm(dim=-1)


# -- what is right is found amid what is wrong -------------------------------------------------------------


def outliers(share: float, motions: SE3, count: int = 40, seed: int = 0) -> MatchScores:
    """Places of which a share is taken for another one at random, and the others are brought by one of the motions."""
    places, generator = drawn(count, 3, seed=seed), seeded(seed + 1)
    which = torch.arange(count) % len(motions)
    brought = motions[which].act(places) + 0.02 * drawn(count, 3, seed=seed + 2)
    order = torch.randperm(count, generator=generator)
    match = torch.argsort(order)
    wrong = torch.randperm(count, generator=generator)[: round(share * count)]
    match[wrong] = match[wrong].roll(1)
    scores = torch.zeros(count, count).double()
    scores[torch.arange(count), match] = 6.0
    return by_hand([places, brought[order]], [scores], reach=0.3)


def proposed(matching: MatchScores) -> PairHypotheses:
    """By matches alone: nothing settles."""
    (matches,) = matching.puzzles()
    return find_hypotheses(matches, centers_of(matches), None)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.0, 0.6])
def test_the_best_motion_is_the_true_one_though_most_matches_are_wrong(share, seed):
    truth = random_se3(1, seed=seed + 5, spread=0.7)
    motions = proposed(outliers(share, truth, seed=10 * seed))
    angle, distance = errors(motions.T_second_first[0, :1], truth)
    assert float(angle) < 0.05
    assert float(distance) < 0.05
    support = motions.features[0, :, 2]
    assert support[0] == support.max()
    assert float(support[0]) == pytest.approx(0, abs=1e-9)
    assert motions.valid[0, 0]


def test_two_motions_that_are_both_right_come_before_all_others():
    """However many seeds propose each of them."""
    truths = random_se3(2, seed=3, spread=0.7)
    motions = proposed(outliers(0.2, truths))
    best = [
        [float(errors(motions.T_second_first[0, k : k + 1], truths[i : i + 1])[0]) < 0.1 for k in (0, 1)]
        for i in (0, 1)
    ]
    assert best in ([[True, False], [False, True]], [[False, True], [True, False]])


def scene(poses: SE3, share: float, count: int = 60, seed: int = 0) -> MatchScores:
    """Pieces that all see 4 of every 5 places of a scene, from the frames that `poses` bring to it, in any order. A
    place matches what it is in every other piece; or, a share of them, any one else.
    """
    places, generator = drawn(count, 3, seed=seed), seeded(seed + 1)
    seen = [torch.randperm(count, generator=generator)[: 4 * count // 5] for _ in range(len(poses))]
    noise = [0.02 * drawn(len(rows), 3, seed=seed + 10 + i) for i, rows in enumerate(seen)]
    pieces = [poses[i].inverse().act(places[rows]) + noise[i] for i, rows in enumerate(seen)]
    scores = []
    for i, j in pairs_of([len(poses)]):
        block = 6.0 * (seen[i][:, None] == seen[j]).double()
        wrong = torch.randperm(len(block), generator=generator)[: round(share * len(block))]
        block[wrong] = block[wrong].roll(1, 0)
        scores.append(block)
    return by_hand(pieces, scores, reach=0.3)


@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("count", [3, 5])
def test_the_best_motions_of_all_pairs_of_many_pieces_are_the_true_ones(count, share):
    """Fewer matches of each pair propose than there are."""
    poses = random_se3(count, seed=count, spread=0.7)
    motions = proposed(scene(poses, share))
    for q, (i, j) in enumerate(pairs_of([count])):
        angle, distance = errors(motions.T_second_first[q, :1], (poses[j].inverse() @ poses[i]).reshape(1))
        assert float(angle) < 0.05
        assert float(distance) < 0.08
        assert motions.valid[q, 0]


# -- scans that settle -------------------------------------------------------------------------------------


def walls(seed: int, count: int = 600) -> Surface:
    """A sample of a box without a lid, with a bump on one side: 1.2 x 1 x 0.8."""
    rng = np.random.default_rng(seed)
    points, face = rng.uniform(0, 1, (count, 3)), rng.integers(5, size=count)
    axis = np.array([0, 0, 1, 1, 2])[face]
    points[np.arange(count), axis] = np.array([0.0, 1.0, 0.0, 1.0, 0.0])[face]
    normals = np.eye(3)[axis] * rng.choice([-1, 1], (count, 1))
    return Surface(points * [1.2, 1.0, 0.8], normals, 0.08)


def test_scans_whose_matches_are_off_settle_where_they_agree():
    """Every match is off by a spacing or so; what was fitted to few is wrong by degrees, and then is not."""
    truth, surfaces = random_se3(2, seed=8, spread=2.0), [walls(0), walls(1)]
    places = 0.1 + drawn(14, 3).abs() * torch.tensor([0.5, 0.4, 0.3]).double()
    off = [places + 0.06 * drawn(14, 3, seed=seed) for seed in (1, 2)]
    parts = [truth[k].inverse().act(off[k]) for k in (0, 1)]
    scans = tuple(moved(of, truth[k].inverse()) for k, of in enumerate(surfaces))
    weights = torch.eye(14).double() + 0.01 * unit(drawn(14, 14, seed=4)).abs()
    matches = matches_by_hand(parts, [weights], reach=0.3)
    right = (truth[1].inverse() @ truth[0]).reshape(1)
    before, after = (find_hypotheses(matches, centers_of(matches), of) for of in (None, scans))
    rough = [float(x) for x in errors(before.T_second_first[0, :1], right)]
    assert rough[0] > math.radians(1)
    best = after.features[0, :, 1].masked_fill(~after.valid[0], -torch.inf).argmax()
    fine = [float(x) for x in errors(after.T_second_first[0, best : best + 1], right)]
    assert fine[0] < math.radians(0.1)
    assert fine[1] < 0.002
    apart = [
        errors(after.T_second_first[0, k : k + 1], right)[0] < 0.1 for k in after.valid[0].nonzero()[:, 0].tolist()
    ]
    assert sum(map(bool, apart)) == 1, "all that settled there are one"
