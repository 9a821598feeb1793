"""Hypotheses are those that loops over correspondences find, in any puzzle; those of scans are then registered."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from support.closeness import assert_near_and_nonzero
from support.lumpy_shapes import seeded
from support.oracles import haar_rotations, kabsch
from support.soft_matches import (
    REACH,
    centers_of,
    drawn,
    hypotheses_of,
    matches_at_random,
    of_both_kinds,
    pairs_of,
    surfaces_of,
    with_garbage,
)
from support.surface_pairs import overlap, registered
from torch import Tensor

from eda import SE3
from eda.registration.hypotheses import MIN_SPREAD, RADII, WINDOW, _duplicates, find_hypotheses, per_pair
from eda.registration.overlap import MEANS, SCALES
from eda.registration.pair_scorer import ContactScorer, OverlapScorer
from eda.registration.soft_correspondences import SoftCorrespondences

# -- budgets -----------------------------------------------------------------------------------------------


# By the number of pieces: matches of a pair that are looked at, those that propose, hypotheses that are kept.
BUDGETS = {
    1: (512, 128, 32),
    2: (512, 128, 32),
    3: (256, 64, 16),
    4: (256, 42, 10),
    5: (256, 32, 8),
    9: (256, 32, 8),
    60: (256, 32, 8),
}


def test_a_pair_has_less_of_a_budget_the_more_pieces_there_are_and_never_less_than_the_least():
    for pieces, expected in BUDGETS.items():
        assert tuple(per_pair(of, pieces) for of in ((512, 256), (128, 32), (32, 8))) == expected
        assert per_pair((100, 0), pieces) == math.floor(100 / max(pieces - 1, 1))


@pytest.mark.parametrize("pieces", [2, 3, 4, 6])
def test_motions_keep_to_their_budgets_and_those_that_hold_come_first(pieces):
    """30 places of each piece: more than enough to propose all that may be."""
    matches = matches_at_random([30] * pieces)
    motions = find_hypotheses(matches, centers_of(matches), None)
    looked_at, _, kept = BUDGETS[min(pieces, 5)]
    pairs = pieces * (pieces - 1) // 2
    assert motions.valid.shape == motions.T_second_first.shape == (pairs, kept)
    assert motions.features.shape == (pairs, kept, 15)
    assert motions.scorer.weights.shape == (pairs, looked_at)
    for q in range(pairs):
        surest = matches.weights[q].flatten().sort(descending=True).values[:looked_at]
        assert torch.equal(motions.scorer.weights[q], surest)
        i, j = int(matches.first[q]), int(matches.second[q])
        for c in (0, 1, looked_at - 1):
            row = int((matches.places[i] == motions.scorer.source[q, c]).all(1).nonzero())
            column = int((matches.places[j] == motions.scorer.target[q, c]).all(1).nonzero())
            assert matches.weights[q, row, column] == surest[c]
    assert motions.valid.any(1).all()
    assert (motions.valid.int().diff(dim=1) <= 0).all()


# -- motions, seed by seed ---------------------------------------------------------------------------------

Found = tuple[float, np.ndarray, np.ndarray]  # how well a motion is supported, its rotation and its translation


def proposals_by_loop(matches: SoftCorrespondences, pair: int, looked_at: int, seeds: int) -> tuple[list[Found], float]:
    """What the surest pairs of places propose, of what is well-posed at every step; and the weight of all."""
    a, b = int(matches.first[pair]), int(matches.second[pair])
    x, y = (matches.places[i][matches.present[i]].numpy() for i in (a, b))
    weight_of = {(i, j): float(matches.weights[pair, i, j]) for i in range(len(x)) for j in range(len(y))}
    surest = sorted(weight_of, key=lambda match: -weight_of[match])[:looked_at]
    weight = np.array([weight_of[match] for match in surest])
    here, there = (points[[match[side] for match in surest]] for side, points in enumerate((x, y)))
    found = []
    for i, j in surest[:seeds]:
        apart = ((here - x[i]) ** 2).sum(1) + ((there - y[j]) ** 2).sum(1)
        agreeing, spreads = weight * np.exp(-apart / (2 * (WINDOW * matches.reach) ** 2)), []
        for radius in RADII:
            R, t, spread = kabsch(agreeing, here, there)
            spreads.append(spread)
            left = ((here @ R.T + t - there) ** 2).sum(1)
            agreeing = weight * np.exp(-left / (2 * (radius * matches.reach) ** 2))
        if min(spreads) > (MIN_SPREAD * matches.reach) ** 2:
            found.append((agreeing.sum(), R, t))
    return found, float(weight.sum())


def beaten_by_loop(found: list[Found], here: np.ndarray, there: np.ndarray, reach: float) -> list[bool]:
    """Which have a better one beside them: within 10 degrees, and within the reach. Of equals, the first is better."""

    def beside(one: Found, other: Found) -> bool:
        (_, R, t), (_, S, s) = one, other
        forth = np.linalg.norm(R @ here + t - S @ here - s)
        back = np.linalg.norm(R.T @ (there - t) - S.T @ (there - s))
        return forth < reach and back < reach and (np.trace(R.T @ S) - 1) / 2 > 0.985

    order = sorted(range(len(found)), key=lambda row: -found[row][0])  # stable: the first of equals stays so
    rank = {row: place for place, row in enumerate(order)}
    return [any(rank[o] < rank[m] and beside(found[m], found[o]) for o in rank) for m in range(len(found))]


PUZZLES = {
    "two pieces, not all of whose matches are looked at": ([24, 23], REACH),
    "three pieces": ([17, 16, 17], REACH),
    "few places, all of whose matches find_hypotheses": ([7, 7, 7], REACH),
    "matches too far apart for fits that hold": ([7, 7, 7], 0.18),
    "five pieces of very different sizes": ([7, 17, 16, 3, 6], REACH),
}


def puzzle_at_random(puzzle: str) -> tuple[SoftCorrespondences, Tensor]:
    """With padding, and centres far off and near: each sees another distance."""
    sizes, reach = PUZZLES[puzzle]
    matches = with_garbage(replace(matches_at_random(sizes, seed=3, columns=max(sizes) + 2), reach=reach))
    return replace(matches, places=matches.places + 1), 2 * drawn(len(sizes), 3, seed=2)


def kept_by_loop(matches: SoftCorrespondences, centers: Tensor, pair: int) -> tuple[list[Found], list[Found], float]:
    """Of all that is proposed, what is kept; also all, and the weight of all matches."""
    looked_at, seeds, kept = BUDGETS[len(centers)]
    found, total = proposals_by_loop(matches, pair, looked_at, seeds)
    here, there = (centers[int(of[pair])].numpy() for of in (matches.first, matches.second))
    beaten = beaten_by_loop(found, here, there, matches.reach)
    left = sorted((m for m, b in zip(found, beaten, strict=True) if not b), key=lambda m: -m[0])
    return left[:kept], found, total


@pytest.mark.parametrize("puzzle", PUZZLES)
def test_motions_are_those_that_a_loop_over_seeds_proposes(puzzle):
    sizes, reach = PUZZLES[puzzle]
    matches, centers = puzzle_at_random(puzzle)
    motions = find_hypotheses(matches, centers, None)
    _, seeds, kept = BUDGETS[len(sizes)]
    assert motions.features.shape == (len(matches.first), kept, 15)
    proposed = 0
    for pair in range(len(matches.first)):
        found, every, total = kept_by_loop(matches, centers, pair)
        proposed += len(every)
        best = max((m[0] for m in every), default=0.0)
        assert float(motions.scorer.best_support[pair]) == pytest.approx(best, abs=1e-10)
        assert motions.valid[pair].tolist() == [k < len(found) for k in range(kept)]
        if not found:
            continue
        support, rotation, translation = (np.stack(x) for x in zip(*found, strict=True))
        assert_near_and_nonzero(motions.T_second_first.rotation[pair, : len(found)], torch.from_numpy(rotation), 1e-7)
        assert_near_and_nonzero(
            motions.T_second_first.translation[pair, : len(found)], torch.from_numpy(translation), 1e-7
        )
        logs = np.log(support + 1e-6)
        expected = np.stack([logs, support / (total + 1e-6), logs - math.log(best + 1e-6)], axis=1)
        assert_near_and_nonzero(motions.features[pair, : len(found), :3], torch.from_numpy(expected), 1e-7)
    well_posed = sum(min(seeds, sizes[a] * sizes[b]) for a, b in pairs_of([len(sizes)]))
    assert (proposed < well_posed) == (reach < REACH or min(sizes) < 4)
    assert isinstance(motions.scorer, ContactScorer)
    assert motions.scorer.radius == pytest.approx(RADII[-1] * reach)


@pytest.mark.parametrize("puzzle", PUZZLES)
def test_motions_of_scans_are_those_that_a_loop_proposes_after_they_settled_each_place_once(puzzle):
    """Of those that came to the same place, the one by which most points are near and parallel."""
    sizes, reach = PUZZLES[puzzle]
    matches, centers = puzzle_at_random(puzzle)
    surfaces = surfaces_of(matches)
    motions = find_hypotheses(matches, centers, surfaces)
    kept, met = BUDGETS[len(sizes)][2], 0
    assert motions.valid.shape == motions.T_second_first.shape == (len(matches.first), kept)
    assert motions.features.shape == (len(matches.first), kept, 12)
    for pair, (a, b) in enumerate(pairs_of([len(sizes)])):
        found, _, _ = kept_by_loop(matches, centers, pair)
        if not found:
            assert not motions.valid[pair].any()
            continue
        _, rotation, translation = (torch.from_numpy(np.stack(x)) for x in zip(*found, strict=True))
        ends = registered(surfaces[a], surfaces[b], SE3(rotation, translation))
        numbers = overlap(surfaces[a], surfaces[b], ends)
        numbers = (numbers - torch.tensor(MEANS).double()) / torch.tensor(SCALES).double()
        rows = slice(0, len(found))
        assert_near_and_nonzero(motions.T_second_first[pair, rows].matrix(), ends.matrix(), 1e-6)
        assert_near_and_nonzero(motions.features[pair, rows], numbers, 1e-4)
        assert (motions.T_second_first[pair, rows].matrix() - SE3(rotation, translation).matrix()).abs().max() > 1e-3
        each = zip(
            motions.features[pair, rows, 1].tolist(), ends.rotation.numpy(), ends.translation.numpy(), strict=True
        )
        beaten = beaten_by_loop(list(each), centers[a].numpy(), centers[b].numpy(), reach)
        met += sum(beaten)
        assert motions.valid[pair].tolist() == [not one for one in beaten] + [False] * (kept - len(found))
    assert met or reach < REACH, "some came to the same place"
    assert isinstance(motions.scorer, OverlapScorer)


@of_both_kinds
def test_evidence_is_what_is_known_of_the_motions(complementary):
    matches = matches_at_random([12, 14, 13])
    motions = hypotheses_of(matches, complementary)
    assert motions.scorer.matches is matches
    assert_near_and_nonzero(motions.features, motions.scorer.features(torch.arange(3), motions.T_second_first), 1e-12)


def test_motions_are_beaten_by_better_ones_beside_them_and_of_equals_by_the_first():
    """Turns and places agree at random, support is one of few numbers."""
    turns = torch.stack([haar_rotations(5)[k % 5] for k in range(60)])
    wiggle = torch.from_numpy(Rotation.from_rotvec(0.08 * drawn(60, 3).numpy()).as_matrix())
    motion = SE3((wiggle @ turns)[None], 0.3 * drawn(1, 60, 3, seed=1))
    support = torch.randint(4, (1, 60), generator=seeded()).double()
    for here, there in itertools.product((0.0, 4.0), repeat=2):
        centers = [side * torch.ones(1, 3).double() for side in (here, there)]
        found = [
            (float(s), *m)
            for s, *m in zip(support[0], *(x[0].numpy() for x in (motion.rotation, motion.translation)), strict=True)
        ]
        expected = beaten_by_loop(found, centers[0][0].numpy(), centers[1][0].numpy(), REACH)
        assert _duplicates(motion, support, centers, REACH)[0].tolist() == expected
        assert 5 < sum(expected) < 55
