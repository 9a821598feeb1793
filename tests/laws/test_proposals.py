"""Motions are proposed, and what speaks for them told, as loops over places do; frames and padding do not matter."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from places import REACH, assert_near, at_random, by_hand, centers_of, drawn, moved, poses_of, seeded, swapped
from reference import haar_rotations
from scipy.spatial.transform import Rotation
from torch import Tensor

from eda import SE3
from eda.nn.evidence import ALIKE, EVIDENCE, contact, support_of
from eda.nn.matching import LEAST_PLACES, SAME, Matching
from eda.nn.proposals import LEAST_SPREAD, MOTIONS, RADII, WINDOW, Motions, _beaten, fitted, propose


def assert_same_motions(a: Motions, b: Motions, atol: float = 1e-9) -> None:
    """What does not hold may be anything."""
    for name in ("first", "second", "holds"):
        assert torch.equal(getattr(a, name), getattr(b, name)), name
    assert b.holds.any(1).all()
    assert_near(a.motion.matrix()[b.holds], b.motion.matrix()[b.holds], atol)
    assert_near(a.evidence[b.holds], b.evidence[b.holds], atol)


# -- motions, seed by seed ---------------------------------------------------------------------------------


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


Found = tuple[float, np.ndarray, np.ndarray]  # how well a motion is supported, its rotation and its translation


def proposals_by_loop(matching: Matching, pair: int) -> list[Found]:
    """What every pair of places proposes, of what is well-posed at every step."""
    a, b = int(matching.first[pair]), int(matching.second[pair])
    x, y = (matching.places[i][matching.present[i]].numpy() for i in (a, b))
    matches = list(itertools.product(range(len(x)), range(len(y))))
    weight = np.array([float(matching.weights()[pair, i, j]) for i, j in matches])
    here, there = (points[[match[side] for match in matches]] for side, points in enumerate((x, y)))
    found = []
    for i, j in matches:
        apart = ((here - x[i]) ** 2).sum(1) + ((there - y[j]) ** 2).sum(1)
        agreeing, spreads = weight * np.exp(-apart / (2 * (WINDOW * matching.reach) ** 2)), []
        for radius in RADII:
            R, t, spread = kabsch(agreeing, here, there)
            spreads.append(spread)
            left = ((here @ R.T + t - there) ** 2).sum(1)
            agreeing = weight * np.exp(-left / (2 * (radius * matching.reach) ** 2))
        if min(spreads) > (LEAST_SPREAD * matching.reach) ** 2:
            found.append((agreeing.sum(), R, t))
    return found


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


@pytest.mark.parametrize("reach", [REACH, 0.18])
def test_motions_are_those_that_a_loop_over_seeds_proposes(reach):
    """49 pairs of places that are no padding, all of them seeds; some see too few matches for fits that hold."""
    matching = replace(at_random([7, 7, 7], seed=3, columns=9), reach=reach)
    pairs = {name: getattr(matching, name)[[0, 2]] for name in ("first", "second", "scores")}
    matching = replace(matching, places=matching.places + 1, **pairs)
    centers = torch.tensor([[0.0, 0, 0], [9, 0, 0], [0, 0, 1]]).double()  # far off and near: each sees another distance
    motions = propose(matching, centers)
    assert motions.evidence.shape == (2, MOTIONS, EVIDENCE)
    assert torch.equal(motions.centers, centers)
    for pair, (a, b) in enumerate(((0, 1), (1, 2))):
        found = proposals_by_loop(matching, pair)
        assert (len(found) < 49) == (reach < REACH)
        beaten = beaten_by_loop(found, centers[a].numpy(), centers[b].numpy(), reach)
        found = sorted((m for m, b in zip(found, beaten, strict=True) if not b), key=lambda m: -m[0])[:MOTIONS]
        assert motions.holds[pair].tolist() == [k < len(found) for k in range(MOTIONS)]
        support, rotation, translation = (np.stack(x) for x in zip(*found, strict=True))
        assert_near(motions.motion.rotation[pair, : len(found)], torch.from_numpy(rotation), 1e-7)
        assert_near(motions.motion.translation[pair, : len(found)], torch.from_numpy(translation), 1e-7)
        total, logs = float(matching.weights()[pair].sum()), np.log(support + 1e-6)
        expected = np.stack([logs, support / (total + 1e-6), logs - logs.max()], axis=1)
        assert_near(motions.evidence[pair, : len(found), :3], torch.from_numpy(expected), 1e-7)
    assert_near(motions.evidence[..., 3:], contact(matching, motions.motion), 1e-12)


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


def test_where_places_lie_on_a_line_or_are_one_no_motion_holds():
    line = torch.linspace(-1, 1, 8).double()[:, None] * torch.tensor([1.0, 2.0, -1.0]).double()
    for matching in (by_hand([line, drawn(8, 3)], [drawn(8, 8)]), at_random([1, 2, 6], columns=LEAST_PLACES)):
        motions = propose(matching, centers_of(matching))
        assert not motions.holds.any()
        assert motions.evidence.isfinite().all()
        assert motions.motion.isfinite()


def outliers(share: float, motions: SE3, count: int = 40, seed: int = 0) -> Matching:
    """Places of which a share is taken for another one at random, and the others are brought by one of the motions."""
    places, generator = drawn(count, 3, seed=seed), seeded(seed + 1)
    which = torch.arange(count) % len(motions)
    moved = motions[which].act(places) + 0.02 * drawn(count, 3, seed=seed + 2)
    order = torch.randperm(count, generator=generator)
    match = torch.argsort(order)
    wrong = torch.randperm(count, generator=generator)[: round(share * count)]
    match[wrong] = match[wrong].roll(1)
    scores = torch.zeros(count, count).double()
    scores[torch.arange(count), match] = 6.0
    return by_hand([places, moved[order]], [scores], reach=0.3)


def errors(found: SE3, truth: SE3) -> tuple[Tensor, Tensor]:
    angle = Rotation.from_matrix((found.rotation @ truth.rotation.mT).numpy()).magnitude()
    return torch.from_numpy(angle), (found.translation - truth.translation).norm(dim=-1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.0, 0.6])
def test_the_best_motion_is_the_true_one_though_most_matches_are_wrong(share, seed):
    truth = poses_of(1, seed=seed + 5)
    matching = outliers(share, truth, seed=10 * seed)
    motions = propose(matching, centers_of(matching))
    angle, distance = errors(motions.motion[0, :1], truth)
    assert float(angle) < 0.05
    assert float(distance) < 0.05
    support = motions.evidence[0, :, 2]
    assert support[0] == support.max() == 0
    assert motions.holds[0, 0]


def test_two_motions_that_are_both_right_come_before_all_others():
    """However many seeds propose each of them."""
    truths = poses_of(2, seed=3)
    matching = outliers(0.2, truths)
    motions = propose(matching, centers_of(matching))
    best = [[float(errors(motions.motion[0, k : k + 1], truths[i : i + 1])[0]) < 0.1 for k in (0, 1)] for i in (0, 1)]
    assert best in ([[True, False], [False, True]], [[False, True], [True, False]])


def test_motions_follow_the_frames_of_pieces():
    matching, poses = at_random([12, 14, 13]), poses_of(3, seed=4, spread=3.0)
    before, after = (propose(m, centers_of(m)) for m in (matching, moved(matching, poses)))
    back = poses[after.second].inverse().reshape(-1, 1) @ after.motion @ poses[after.first].reshape(-1, 1)
    assert_same_motions(replace(after, motion=back), before, 1e-8)


def test_the_way_back_is_the_inverse_motion_and_has_the_same_evidence():
    matching = at_random([12, 14, 13])
    forth, back = (propose(m, centers_of(m)) for m in (matching, swapped(matching)))
    again = replace(back, first=back.second, second=back.first, motion=back.motion.inverse())
    assert_same_motions(again, forth, 1e-8)


def test_no_gradient_passes_through_proposals():
    matching = at_random([6, 7])
    matching = replace(matching, scores=matching.scores.clone().requires_grad_())
    assert not propose(matching, centers_of(matching)).evidence.requires_grad


def test_fits_are_made_in_double_precision():
    matching = at_random([12, 12])
    single = replace(matching, **{n: getattr(matching, n).float() for n in ("places", "normals", "shared", "scores")})
    exact, rough = propose(matching, centers_of(matching)), propose(single, centers_of(matching).float())
    assert rough.motion.rotation.dtype == rough.evidence.dtype == torch.float32
    assert_near(rough.motion[:, :4].matrix().double(), exact.motion[:, :4].matrix(), 1e-4)


@pytest.mark.parametrize("sizes", [[12, 14, 13], [4, 6, 5]])
def test_padding_does_not_change_what_is_proposed(sizes):
    plain, wide = at_random(sizes, columns=LEAST_PLACES), at_random(sizes, columns=20)
    assert_same_motions(propose(wide, centers_of(wide)), propose(plain, centers_of(plain)))


def test_several_batches_of_motions_are_those_of_one_batch():
    parts = [at_random([12, 14, 13]), at_random([13, 12], seed=5)]
    each = [propose(m, centers_of(m)) for m in parts]
    cat = Motions.cat(each)
    assert cat.first.tolist() == [0, 0, 1, 3]
    assert cat.second.tolist() == [1, 2, 2, 4]
    assert torch.equal(cat.motion.matrix(), torch.cat([m.motion.matrix() for m in each]))
    for name in ("holds", "evidence", "centers"):
        assert torch.equal(getattr(cat, name), torch.cat([getattr(m, name) for m in each])), name


# -- evidence, place by place ------------------------------------------------------------------------------


def contact_by_loop(matching: Matching, pair: int, motion: SE3) -> list[float]:
    """Of one motion."""
    a, b = int(matching.first[pair]), int(matching.second[pair])
    points = [matching.places[i][matching.present[i]].numpy() for i in (a, b)]
    normals = [np.zeros_like(p) for p in points]
    if matching.normals is not None:
        normals = [matching.normals[i][matching.present[i]].numpy() for i in (a, b)]
    R, t = motion.rotation.numpy(), motion.translation.numpy()
    sides = [(points[0] @ R.T + t, normals[0] @ R.T), (points[1], normals[1])]
    parallel, plane = [], []
    for (x, n), (y, m) in (sides, sides[::-1]):
        for point, normal in zip(x, n, strict=True):
            nearest = int(np.argmin(np.linalg.norm(y - point, axis=1)))
            if np.linalg.norm(y[nearest] - point) < 2 * SAME * matching.reach:
                parallel.append(abs(normal @ m[nearest]))
                plane.append(abs((point - y[nearest]) @ m[nearest]) / matching.reach)
    agree = [p > ALIKE for p in parallel]
    count = len(points[0]) + len(points[1])
    means = [float(np.mean(x)) if len(x) else 0.0 for x in (parallel, agree, plane)]
    return [math.log(len(parallel) / count + 1e-3), math.log(sum(agree) / count + 1e-3), *means]


@pytest.mark.parametrize("normals", [True, False])
def test_contact_is_that_of_a_loop_over_places(normals):
    """The last motion brings nothing near."""
    matching = at_random([9, 14, 6], [3], columns=17)
    matching = matching if normals else replace(matching, normals=None)
    spread = torch.tensor([0.1, 0.3, 0.5, 1.0, 99.0]).double()[:, None]
    motion = SE3(haar_rotations(15).reshape(3, 5, 3, 3), spread * drawn(3, 5, 3))
    found = contact(matching, motion)
    expected = [[contact_by_loop(matching, q, motion[q, k]) for k in range(5)] for q in range(3)]
    assert_near(found, torch.tensor(expected, dtype=torch.float64), 1e-12)
    assert bool(found[..., 2:4].any()) == normals
    assert found[:, 4].std(0).max() < 1e-12, "where nothing touches, there is nothing to tell apart"


def test_contact_does_not_depend_on_which_piece_comes_first_nor_on_the_signs_of_normals():
    matching = at_random([9, 14, 6], columns=15)
    motion = SE3(haar_rotations(15).reshape(3, 5, 3, 3), 0.3 * drawn(3, 5, 3))
    assert_near(contact(swapped(matching), motion.inverse()), contact(matching, motion), 1e-12)
    flipped = replace(matching, normals=matching.normals * torch.sign(drawn(3, 15, 1, seed=8)))
    assert torch.equal(contact(flipped, motion), contact(matching, motion))


def test_support_by_hand():
    found = support_of(torch.tensor([[2.0, 1.0], [0.0, 0.0]]).double(), torch.tensor([4.0, 0.0]).double())
    expected = [
        [[math.log(2), 0.5, 0.0], [0.0, 0.25, -math.log(2)]],
        [[math.log(1e-6), 0.0, 0.0], [math.log(1e-6), 0.0, 0.0]],
    ]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=2e-6)
