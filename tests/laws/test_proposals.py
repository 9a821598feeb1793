"""Motions are proposed as loops over matches do, in any puzzle, and those of scans settle; frames, order and padding do
not matter.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from places import (
    REACH,
    assert_near,
    by_hand,
    centers_of,
    drawn,
    matches_at_random,
    matches_by_hand,
    moved,
    pairs_of,
    poses_of,
    reordered,
    seeded,
    surfaces_of,
    swapped,
    unit,
    with_garbage,
)
from reference import haar_rotations
from scipy.spatial.transform import Rotation
from torch import Tensor

from eda import SE3
from eda.nn.evidence import Contacts, Overlaps
from eda.nn.matching import Matches, Matching
from eda.nn.proposals import LEAST_SPREAD, RADII, WINDOW, Motions, _beaten, budget, fitted, propose
from eda.nn.surfaces import SPREAD, USUAL, Surface, agreement, settled

of_both_kinds = pytest.mark.parametrize("mates", [False, True])


def motions_of(matches: Matches, mates: bool, centers: Tensor | None = None) -> Motions:
    """Scans consist of their places."""
    centers = centers_of(matches) if centers is None else centers
    return propose(matches, centers, None if mates else surfaces_of(matches))


def assert_same_motions(a: Motions, b: Motions, atol: float = 1e-9) -> None:
    """What does not hold may be anything."""
    assert torch.equal(a.holds, b.holds)
    assert b.holds.any(1).all()
    assert_near(a.motion.matrix()[b.holds], b.motion.matrix()[b.holds], atol)
    assert_near(a.evidence[b.holds], b.evidence[b.holds], atol)


# -- fits ----------------------------------------------------------------------------------------------------


def kabsch(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The rotation and the translation that fit, and the second singular value of the covariance."""
    w = w / w.sum()
    middle, goal = w @ x, w @ y
    left, singular, right = np.linalg.svd((w[:, None] * (y - goal)).T @ (x - middle))
    rotation = left @ np.diag([1, 1, np.linalg.det(left @ right)]) @ right
    return rotation, goal - rotation @ middle, singular[1]


def test_a_fit_is_the_one_of_scipy_and_its_spread_that_of_numpy():
    """Of points that do not fit: also where a mirror image fitted better."""
    here, there = drawn(2, 9, 3), drawn(2, 9, 3, seed=1) + 4
    weight = torch.rand(2, 7, 9, generator=seeded(), dtype=torch.float64)
    found, spread = fitted(weight, here, there)
    mirrors = 0
    for q, k in itertools.product(range(2), range(7)):
        w, x, y = weight[q, k].numpy(), here[q].numpy(), there[q].numpy()
        middle, goal = (np.average(points, axis=0, weights=w) for points in (x, y))
        rotation = Rotation.align_vectors(y - goal, x - middle, w)[0].as_matrix()
        mirrors += np.linalg.det((w[:, None] * (y - goal)).T @ (x - middle)) < 0
        assert_near(found[q, k].rotation, torch.from_numpy(rotation), 1e-6)
        assert_near(found[q, k].translation, torch.from_numpy(goal - rotation @ middle), 1e-6)
        assert float(spread[q, k]) == pytest.approx(kabsch(w, x, y)[2], abs=1e-12)
    assert 0 < mirrors < 14


def test_the_spread_of_points_is_that_of_their_second_direction_squared():
    sides = drawn(1, 200, 3) * torch.tensor([5.0, 0.3, 0.01]).double()
    sides = sides - sides.mean(1, keepdim=True)
    exact = torch.linalg.svdvals(sides[0])[1] ** 2 / 200
    found = fitted(torch.ones(1, 1, 200).double(), sides, poses_of(1, 3).act(sides))[1]
    assert float(found) == pytest.approx(float(exact), rel=1e-9)
    line = sides * torch.tensor([1.0, 0.0, 0.0]).double()
    assert float(fitted(torch.ones(1, 1, 200).double(), line, line)[1]) < 1e-12


# -- motions, seed by seed -----------------------------------------------------------------------------------

# By the number of pieces: matches of a pair that are looked at, those that propose, motions that are kept.
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
        assert tuple(budget(of, pieces) for of in ((512, 256), (128, 32), (32, 8))) == expected
        assert budget((100, 0), pieces) == math.floor(100 / max(pieces - 1, 1))


@pytest.mark.parametrize("pieces", [2, 3, 4, 6])
def test_motions_keep_to_their_budgets_and_those_that_hold_come_first(pieces):
    """30 places of each piece: more than enough to propose all that may be."""
    matches = matches_at_random([30] * pieces)
    motions = propose(matches, centers_of(matches), None)
    looked_at, _, kept = BUDGETS[min(pieces, 5)]
    pairs = pieces * (pieces - 1) // 2
    assert motions.holds.shape == motions.motion.shape == (pairs, kept)
    assert motions.evidence.shape == (pairs, kept, 15)
    assert motions.known.weight.shape == (pairs, looked_at)
    for q in range(pairs):
        surest = matches.weights[q].flatten().sort(descending=True).values[:looked_at]
        assert torch.equal(motions.known.weight[q], surest)
        i, j = int(matches.first[q]), int(matches.second[q])
        for c in (0, 1, looked_at - 1):
            row = int((matches.places[i] == motions.known.here[q, c]).all(1).nonzero())
            column = int((matches.places[j] == motions.known.there[q, c]).all(1).nonzero())
            assert matches.weights[q, row, column] == surest[c]
    assert motions.holds.any(1).all()
    assert (motions.holds.int().diff(dim=1) <= 0).all()


Found = tuple[float, np.ndarray, np.ndarray]  # how well a motion is supported, its rotation and its translation


def proposals_by_loop(matches: Matches, pair: int, looked_at: int, seeds: int) -> tuple[list[Found], float]:
    """What the surest pairs of places propose, of what is well-posed at every step; and the weight of all looked at."""
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
        if min(spreads) > (LEAST_SPREAD * matches.reach) ** 2:
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
    "few places, all of whose matches propose": ([7, 7, 7], REACH),
    "matches too far apart for fits that hold": ([7, 7, 7], 0.18),
    "five pieces of very different sizes": ([7, 17, 16, 3, 6], REACH),
}


def puzzle_at_random(puzzle: str) -> tuple[Matches, Tensor]:
    """With padding, and centres far off and near: each sees another distance."""
    sizes, reach = PUZZLES[puzzle]
    matches = with_garbage(replace(matches_at_random(sizes, seed=3, columns=max(sizes) + 2), reach=reach))
    return replace(matches, places=matches.places + 1), 2 * drawn(len(sizes), 3, seed=2)


def kept_by_loop(matches: Matches, centers: Tensor, pair: int) -> tuple[list[Found], list[Found], float]:
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
    motions = propose(matches, centers, None)
    _, seeds, kept = BUDGETS[len(sizes)]
    assert motions.evidence.shape == (len(matches.first), kept, 15)
    proposed = 0
    for pair in range(len(matches.first)):
        found, every, total = kept_by_loop(matches, centers, pair)
        proposed += len(every)
        best = max((m[0] for m in every), default=0.0)
        assert float(motions.known.best[pair]) == pytest.approx(best, abs=1e-10)
        assert motions.holds[pair].tolist() == [k < len(found) for k in range(kept)]
        if not found:
            continue
        support, rotation, translation = (np.stack(x) for x in zip(*found, strict=True))
        assert_near(motions.motion.rotation[pair, : len(found)], torch.from_numpy(rotation), 1e-7)
        assert_near(motions.motion.translation[pair, : len(found)], torch.from_numpy(translation), 1e-7)
        logs = np.log(support + 1e-6)
        expected = np.stack([logs, support / (total + 1e-6), logs - math.log(best + 1e-6)], axis=1)
        assert_near(motions.evidence[pair, : len(found), :3], torch.from_numpy(expected), 1e-7)
    well_posed = sum(min(seeds, sizes[a] * sizes[b]) for a, b in pairs_of([len(sizes)]))
    assert (proposed < well_posed) == (reach < REACH or min(sizes) < 4)
    assert isinstance(motions.known, Contacts)
    assert motions.known.radius == pytest.approx(RADII[-1] * reach)


@pytest.mark.parametrize("puzzle", PUZZLES)
def test_motions_of_scans_are_those_that_a_loop_proposes_after_they_settled_each_place_once(puzzle):
    """Of those that came to the same place, the one by which most points are near and parallel."""
    sizes, reach = PUZZLES[puzzle]
    matches, centers = puzzle_at_random(puzzle)
    surfaces = surfaces_of(matches)
    motions = propose(matches, centers, surfaces)
    kept, met = BUDGETS[len(sizes)][2], 0
    assert motions.holds.shape == motions.motion.shape == (len(matches.first), kept)
    assert motions.evidence.shape == (len(matches.first), kept, 12)
    for pair, (a, b) in enumerate(pairs_of([len(sizes)])):
        found, _, _ = kept_by_loop(matches, centers, pair)
        if not found:
            assert not motions.holds[pair].any()
            continue
        _, rotation, translation = (torch.from_numpy(np.stack(x)) for x in zip(*found, strict=True))
        ends = settled(surfaces[a], surfaces[b], SE3(rotation, translation))
        numbers = agreement(surfaces[a], surfaces[b], ends)
        numbers = (numbers - torch.tensor(USUAL).double()) / torch.tensor(SPREAD).double()
        rows = slice(0, len(found))
        assert_near(motions.motion[pair, rows].matrix(), ends.matrix(), 1e-6)
        assert_near(motions.evidence[pair, rows], numbers, 1e-4)
        assert (motions.motion[pair, rows].matrix() - SE3(rotation, translation).matrix()).abs().max() > 1e-3
        each = zip(
            motions.evidence[pair, rows, 1].tolist(), ends.rotation.numpy(), ends.translation.numpy(), strict=True
        )
        beaten = beaten_by_loop(list(each), centers[a].numpy(), centers[b].numpy(), reach)
        met += sum(beaten)
        assert motions.holds[pair].tolist() == [not one for one in beaten] + [False] * (kept - len(found))
    assert met or reach < REACH, "some came to the same place"
    assert isinstance(motions.known, Overlaps)


@of_both_kinds
def test_evidence_is_what_is_known_of_the_motions(mates):
    matches = matches_at_random([12, 14, 13])
    motions = motions_of(matches, mates)
    assert motions.known.matches is matches
    assert_near(motions.evidence, motions.known.evidence(torch.arange(3), motions.motion), 1e-12)


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
        assert _beaten(motion, support, centers, REACH)[0].tolist() == expected
        assert 5 < sum(expected) < 55


# -- where nothing is to be proposed ---------------------------------------------------------------------------


@of_both_kinds
def test_where_places_lie_on_a_line_or_are_one_or_two_no_motion_holds(mates):
    line = torch.linspace(-1, 1, 8).double()[:, None] * torch.tensor([1.0, 2.0, -1.0]).double()
    on_a_line = matches_by_hand([line, drawn(8, 3)], [drawn(8, 8).exp()], normals=[drawn(8, 3)] * 2)
    for matches in (on_a_line, matches_at_random([1, 2, 6]), matches_at_random([1, 1]), matches_at_random([2, 50])):
        motions = motions_of(matches, mates)
        assert not motions.holds.any()
        assert motions.evidence.isfinite().all()
        assert motions.motion.isfinite()


@of_both_kinds
def test_where_nothing_matches_no_motion_holds(mates):
    """Neither of any pair, nor of one pair beside another."""
    plain = matches_at_random([9, 8, 7])
    for some in ([0.0, 0.0, 0.0], [1.0, 0.0, 1.0]):
        motions = motions_of(replace(plain, weights=plain.weights * torch.tensor(some).double()[:, None, None]), mates)
        assert motions.holds.any(1).tolist() == [bool(one) for one in some]
        assert motions.evidence.isfinite().all()
        assert motions.motion.isfinite()


def test_nothing_is_proposed_but_by_matches():
    """Five of one pair and one more of another, in tables of 400 pairs of places, of which most are no match at all."""
    weights = [torch.zeros(20, 20).double() for _ in range(3)]
    for k in range(5):
        weights[0][3 * k, 19 - 2 * k] = 1.0
    weights[1][4, 4] = 1.0
    places = [0.5 * drawn(20, 3, seed=k) for k in range(3)]
    places[1][[19 - 2 * k for k in range(5)]] = poses_of(1).act(places[0][[3 * k for k in range(5)]])
    motions = propose(matches_by_hand(places, weights), torch.zeros(3, 3).double(), None)
    assert 1 <= int(motions.holds[0].sum()) <= 5
    assert not motions.holds[1:].any(), "one match does not fix a motion"
    assert_near(motions.motion[0, 0].matrix(), poses_of(1)[0].matrix(), 1e-9)


@of_both_kinds
@pytest.mark.parametrize("sizes", [[12, 14, 13], [4, 6, 5], [4, 40, 5]])
def test_padding_neither_proposes_anything_nor_changes_what_is_proposed(sizes, mates):
    plain, wide = matches_at_random(sizes), with_garbage(matches_at_random(sizes, columns=max(sizes) + 5))
    tight, loose = (motions_of(matches, mates, centers_of(plain)) for matches in (plain, wide))
    kept = tight.holds.shape[1]
    assert not loose.holds[:, kept:].any()
    loose = replace(
        loose, motion=loose.motion[:, :kept], holds=loose.holds[:, :kept], evidence=loose.evidence[:, :kept]
    )
    assert_same_motions(loose, tight)
    for pair, (i, j) in enumerate(pairs_of([3])):
        assert int(loose.holds[pair].sum()) <= sizes[i] * sizes[j]


@of_both_kinds
def test_a_piece_alone_has_no_motions(mates):
    matches = matches_at_random([9])
    motions = motions_of(matches, mates)
    assert motions.holds.shape == (0, 32)
    assert motions.motion.shape == (0, 32)
    assert motions.evidence.shape == (0, 32, 15 if mates else 12)


# -- what is right is found amid what is wrong -----------------------------------------------------------------


def outliers(share: float, motions: SE3, count: int = 40, seed: int = 0) -> Matching:
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


def proposed(matching: Matching) -> Motions:
    """By matches alone: nothing settles."""
    (matches,) = matching.puzzles()
    return propose(matches, centers_of(matches), None)


def errors(found: SE3, truth: SE3) -> tuple[Tensor, Tensor]:
    angle = Rotation.from_matrix((found.rotation @ truth.rotation.mT).numpy()).magnitude()
    return torch.from_numpy(angle), (found.translation - truth.translation).norm(dim=-1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.0, 0.6])
def test_the_best_motion_is_the_true_one_though_most_matches_are_wrong(share, seed):
    truth = poses_of(1, seed=seed + 5)
    motions = proposed(outliers(share, truth, seed=10 * seed))
    angle, distance = errors(motions.motion[0, :1], truth)
    assert float(angle) < 0.05
    assert float(distance) < 0.05
    support = motions.evidence[0, :, 2]
    assert support[0] == support.max()
    assert float(support[0]) == pytest.approx(0, abs=1e-9)
    assert motions.holds[0, 0]


def test_two_motions_that_are_both_right_come_before_all_others():
    """However many seeds propose each of them."""
    truths = poses_of(2, seed=3)
    motions = proposed(outliers(0.2, truths))
    best = [[float(errors(motions.motion[0, k : k + 1], truths[i : i + 1])[0]) < 0.1 for k in (0, 1)] for i in (0, 1)]
    assert best in ([[True, False], [False, True]], [[False, True], [True, False]])


def scene(poses: SE3, share: float, count: int = 60, seed: int = 0) -> Matching:
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
    poses = poses_of(count, seed=count)
    motions = proposed(scene(poses, share))
    for q, (i, j) in enumerate(pairs_of([count])):
        angle, distance = errors(motions.motion[q, :1], (poses[j].inverse() @ poses[i]).reshape(1))
        assert float(angle) < 0.05
        assert float(distance) < 0.08
        assert motions.holds[q, 0]


# -- frames, order, precision ----------------------------------------------------------------------------------


@of_both_kinds
def test_motions_follow_the_frames_of_pieces(mates):
    matches, poses = matches_at_random([12, 14, 13, 5]), poses_of(4, seed=4, spread=3.0)
    before, after = (motions_of(m, mates) for m in (matches, moved(matches, poses)))
    back = poses[matches.second].inverse().reshape(-1, 1) @ after.motion @ poses[matches.first].reshape(-1, 1)
    assert_same_motions(replace(after, motion=back), before, 1e-8)


@of_both_kinds
def test_the_way_back_is_the_inverse_motion_and_has_the_same_evidence(mates):
    matches = matches_at_random([12, 14, 13])
    forth, back = (motions_of(m, mates) for m in (matches, swapped(matches)))
    assert_same_motions(replace(back, motion=back.motion.inverse()), forth, 1e-8)


@of_both_kinds
@pytest.mark.parametrize("order", [[3, 1, 0, 2], [2, 3, 1, 0], [1, 0, 3, 2]])
def test_motions_follow_the_order_of_pieces(order, mates):
    matches = matches_at_random([12, 14, 5, 13])
    other, rows, turned = reordered(matches, order)
    before, after = (motions_of(m, mates) for m in (matches, other))
    forth = after.motion.inverse().where(torch.tensor(turned)[:, None], after.motion)
    expected = replace(before, motion=before.motion[rows], holds=before.holds[rows], evidence=before.evidence[rows])
    assert any(turned)
    assert_same_motions(replace(after, motion=forth), expected, 1e-8)


@of_both_kinds
def test_a_motion_is_not_the_better_for_other_pairs(mates):
    """The pairs of a puzzle each for themselves, with what budget pairs of three pieces have."""
    matches = matches_at_random([12, 14, 13])
    together = motions_of(matches, mates)
    for q in range(3):
        alone = {name: getattr(matches, name)[q : q + 1] for name in ("first", "second", "weights")}
        motions = motions_of(replace(matches, **alone), mates)
        one = {"motion": together.motion[q : q + 1], "holds": together.holds[q : q + 1]}
        assert_same_motions(motions, replace(together, **one, evidence=together.evidence[q : q + 1]), 1e-9)


@of_both_kinds
def test_no_gradient_passes_through_proposals(mates):
    matches = matches_at_random([6, 7])
    matches = replace(matches, weights=matches.weights.clone().requires_grad_())
    motions = motions_of(matches, mates)
    assert not motions.evidence.requires_grad
    assert not motions.motion.rotation.requires_grad


@of_both_kinds
def test_fits_are_made_in_double_precision(mates):
    matches = matches_at_random([12, 12])
    names = ("places", "normals", "shared", "weights")
    single = replace(matches, **{name: getattr(matches, name).float() for name in names})
    surfaces = None if mates else surfaces_of(matches)
    exact, rough = (propose(m, centers_of(matches).to(m.places.dtype), surfaces) for m in (matches, single))
    assert rough.motion.rotation.dtype == rough.evidence.dtype == torch.float32
    if mates:
        assert all(of.dtype == torch.float32 for of in (rough.known.weight, rough.known.here, rough.known.best))
    assert_near(rough.motion[:, :4].matrix().double(), exact.motion[:, :4].matrix(), 1e-4)


# -- scans that settle -----------------------------------------------------------------------------------------


def walls(seed: int, count: int = 600) -> Surface:
    """A sample of a box without a lid, with a bump on one side: 1.2 x 1 x 0.8."""
    rng = np.random.default_rng(seed)
    points, face = rng.uniform(0, 1, (count, 3)), rng.integers(5, size=count)
    axis = np.array([0, 0, 1, 1, 2])[face]
    points[np.arange(count), axis] = np.array([0.0, 1.0, 0.0, 1.0, 0.0])[face]
    normals = np.eye(3)[axis] * rng.choice([-1, 1], (count, 1))
    return Surface(torch.from_numpy(points * [1.2, 1.0, 0.8]), torch.from_numpy(normals), 0.08)


def test_scans_whose_matches_are_off_settle_where_they_agree():
    """Every match is off by a spacing or so; what was fitted to few of them is wrong by degrees, and then is not."""
    truth, surfaces = poses_of(2, seed=8, spread=2.0), [walls(0), walls(1)]
    places = 0.1 + drawn(14, 3).abs() * torch.tensor([0.5, 0.4, 0.3]).double()
    off = [places + 0.06 * drawn(14, 3, seed=seed) for seed in (1, 2)]
    parts = [truth[k].inverse().act(off[k]) for k in (0, 1)]
    scans = tuple(
        replace(of, points=truth[k].inverse().act(of.points), normals=of.normals @ truth[k].rotation)
        for k, of in enumerate(surfaces)
    )
    weights = torch.eye(14).double() + 0.01 * unit(drawn(14, 14, seed=4)).abs()
    matches = matches_by_hand(parts, [weights], reach=0.3)
    right = (truth[1].inverse() @ truth[0]).reshape(1)
    before, after = (propose(matches, centers_of(matches), of) for of in (None, scans))
    rough, fine = ([float(x) for x in errors(of.motion[0, :1], right)] for of in (before, after))
    assert rough[0] > math.radians(1)
    best = after.evidence[0, :, 1].masked_fill(~after.holds[0], -torch.inf).argmax()
    fine = [float(x) for x in errors(after.motion[0, best : best + 1], right)]
    assert fine[0] < math.radians(0.1)
    assert fine[1] < 0.002
    apart = [errors(after.motion[0, k : k + 1], right)[0] < 0.1 for k in after.holds[0].nonzero()[:, 0].tolist()]
    assert sum(map(bool, apart)) == 1, "all that settled there are one"
