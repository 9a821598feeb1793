"""Surfaces settle on each other as loops over points and solvers of scipy have it; frames, order and signs of normals
do not matter, and their agreement is what it is said to be.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from places import assert_near, drawn, poses_of, seeded, unit
from scipy.linalg import expm
from scipy.optimize import least_squares
from scipy.spatial.distance import cdist
from torch import Tensor

from eda import SE3
from eda.nn import surfaces
from eda.nn.surfaces import (
    AGREEMENT,
    AGREES,
    CLOSE,
    FARTHEST,
    LEAST_HOLD,
    LEAST_SHARE,
    NEAR,
    REACHES,
    SPREAD,
    STIFFNESS,
    USUAL,
    Surface,
    agreement,
    settled,
)

SPACING = 0.1  # of the surfaces below: 400 points on four unit squares
NOTHING = math.log(1e-3)  # the log of no share

# -- surfaces by formula -----------------------------------------------------------------------------------


def exact(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def surface_of(points: np.ndarray, normals: np.ndarray) -> Surface:
    return Surface(torch.from_numpy(points), torch.from_numpy(normals), SPACING)


def bumps(seed: int, count: int = 400) -> Surface:
    """A sample of a height field over four unit squares that is like no other part of itself."""
    x, y = np.random.default_rng(seed).uniform(-1, 1, (2, count))
    z = 0.2 * np.sin(3 * x + 1) * np.cos(2 * y) + 0.15 * np.cos(4 * x - 3 * y)
    by_x = 0.6 * np.cos(3 * x + 1) * np.cos(2 * y) - 0.6 * np.sin(4 * x - 3 * y)
    by_y = -0.4 * np.sin(3 * x + 1) * np.sin(2 * y) + 0.45 * np.sin(4 * x - 3 * y)
    normals = np.stack([-by_x, -by_y, np.ones(count)], axis=1)
    return surface_of(np.stack([x, y, z], axis=1), normals / np.linalg.norm(normals, axis=1, keepdims=True))


def corner(seed: int, count: int = 400) -> Surface:
    """A sample of the three faces of a box that meet at the origin."""
    points, face = np.random.default_rng(seed).uniform(0, 1.15, (count, 3)), np.arange(count) % 3
    points[np.arange(count), face] = 0
    return surface_of(points, np.eye(3)[face])


def plane(seed: int, count: int = 400) -> Surface:
    """A sample of two by two in the plane z = 0."""
    points = np.random.default_rng(seed).uniform(-1, 1, (count, 3)) * [1, 1, 0]
    return surface_of(points, np.tile([0.0, 0.0, 1.0], (count, 1)))


def pipe(seed: int, count: int = 600) -> Surface:
    """A sample of a pipe of length 2 and radius 1/2 about the z axis."""
    angle, height = np.random.default_rng(seed).uniform([[0.0], [-1.0]], [[2 * math.pi], [1.0]], (2, count))
    normals = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    return surface_of(normals / 2 + np.array([0, 0, 1]) * height[:, None], normals)


SHAPES: dict[str, Callable[[int], Surface]] = {"bumps": bumps, "corner": corner}
of_both_shapes = pytest.mark.parametrize("shape", SHAPES)


def moved(surface: Surface, pose: SE3) -> Surface:
    """In another frame; the pose is one."""
    return replace(surface, points=pose.act(surface.points), normals=surface.normals @ pose.rotation.mT)


def slightly(count: int, degrees: float = 5.0, spacings: float = 1.0, seed: int = 0) -> SE3:
    """(K,) motions that turn by so many degrees about any axis and move by so many spacings."""
    turn = math.radians(degrees) * unit(drawn(count, 3, seed=seed))
    twist = torch.cat([turn, torch.zeros(count, 3).double()], dim=1)
    return SE3(SE3.exp(twist).rotation, spacings * SPACING * unit(drawn(count, 3, seed=seed + 1)))


def pair_of(shape: str, count: int = 4) -> tuple[Surface, Surface, SE3, SE3]:
    """Two samples, in frames of their own; motions (K,) that are slightly off, and the true one."""
    poses = poses_of(2, seed=3, spread=2.0)
    true = poses[1] @ poses[0].inverse()
    here, there = (moved(SHAPES[shape](seed), poses[seed]) for seed in (0, 1))
    off = poses[1].reshape(1) @ slightly(count) @ poses[0].inverse().reshape(1)
    return here, there, off, true


def random_surface(count: int, seed: int, spread: float = 0.3) -> Surface:
    """Points and normals at random: nothing fits, and most is near something."""
    return Surface(spread * drawn(count, 3, seed=seed), unit(drawn(count, 3, seed=seed + 1)), SPACING)


def assert_off(motion: SE3, true: SE3, degrees: float, spacings: float) -> None:
    """By at most so much, as the middle of the shapes sees it."""
    apart = (motion @ true.inverse().reshape(1)).matrix().numpy()
    turned = [math.degrees(math.acos(min((np.trace(one[:3, :3]) - 1) / 2, 1))) for one in apart]
    gone = motion.translation - true.translation
    assert max(turned) < degrees
    assert float(gone.norm(dim=1).max()) < spacings * SPACING


# -- settling ----------------------------------------------------------------------------------------------


@of_both_shapes
def test_samples_of_one_surface_settle_on_each_other_from_five_degrees_and_one_spacing_off(shape):
    here, there, off, true = pair_of(shape, count=12)
    with pytest.raises(AssertionError):
        assert_off(off, true, 4.9, 0.9)
    found = settled(here, there, off)
    assert_off(found, true, 0.1, 0.05)
    assert (agreement(here, there, found)[:, AGREES] > agreement(here, there, off)[:, AGREES] + 0.1).all()


def test_samples_that_share_only_a_part_settle_there():
    """One shows all but the right, the other all but the left."""
    here, there = bumps(0, 800), bumps(1, 800)
    sides = (here.points[:, 0] < 0.4, there.points[:, 0] > -0.4)
    here, there = (
        replace(of, points=of.points[rows], normals=of.normals[rows])
        for of, rows in zip((here, there), sides, strict=True)
    )
    assert_off(settled(here, there, slightly(8)), SE3.identity(dtype=torch.float64), 0.5, 0.2)


@of_both_shapes
def test_the_true_motion_of_the_same_points_stays(shape):
    here, true = SHAPES[shape](0), poses_of(3, seed=5, spread=2.0)
    for k in range(3):
        there = moved(here, true[k])
        assert_near(settled(here, there, true[k : k + 1]).matrix(), true[k : k + 1].matrix(), 1e-12)


def test_a_plane_settles_flat_and_slides_nowhere():
    """Nothing pulls along it, or turns it about its normal: what was off there stays off, to second order."""
    tilt = SE3.exp(exact([[0.06, -0.05, 0.0, 0.0, 0.0, 0.07]]))
    aside = SE3.exp(exact([[0.0, 0.0, 0.1, 0.03, -0.02, 0.0]]))
    found = settled(plane(0), plane(1), tilt @ aside)
    flat = found.matrix()[0]
    assert_near(flat[2], exact([0.0, 0.0, 1.0, 0.0]), 1e-6)
    kept = aside.matrix()[0]
    torch.testing.assert_close(flat[:2, :2], kept[:2, :2], rtol=0, atol=0.01)
    torch.testing.assert_close(flat[:2, 3], kept[:2, 3], rtol=0, atol=0.02)
    still = settled(plane(0), plane(1), aside)
    assert_near(still.matrix(), aside.matrix(), 1e-12)


# -- one step, by scipy ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Meeting:
    """A point of one of two pieces, and the nearest of the other, where a motion brings them."""

    gap: float
    first: np.ndarray  # of the two, that of the first piece
    second: np.ndarray
    plane: np.ndarray  # the normal at the nearest
    parallel: float


def meetings(here: Surface, there: Surface, motion: np.ndarray) -> list[Meeting]:
    """Of all points of both: all distances, and the least of each."""
    R, t = motion[:3, :3], motion[:3, 3]
    x, n = here.points.numpy() @ R.T + t, here.normals.numpy() @ R.T
    y, m = there.points.numpy(), there.normals.numpy()
    distance, found = cdist(x, y), []
    for i in range(len(x)):
        j = int(distance[i].argmin())
        found.append(Meeting(distance[i, j], x[i], y[j], m[j], abs(float(n[i] @ m[j]))))
    for j in range(len(y)):
        i = int(distance[:, j].argmin())
        found.append(Meeting(distance[i, j], x[i], y[j], n[i], abs(float(n[i] @ m[j]))))
    return found


def nearness(one: Meeting, reach: float) -> float:
    """A bell of that width; nothing counts from three spacings on."""
    return math.exp(-((one.gap / (reach * SPACING)) ** 2) / 2) if one.gap < 3 * SPACING else 0.0


def skew(w: np.ndarray) -> np.ndarray:
    return np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])


def stepped(here: Surface, there: Surface, motion: np.ndarray, reach: float) -> np.ndarray:
    """The motion after a step: the twist (w, t) about the middle of what meets for which the weighted squares of what
    is left of all heights, and of the twist itself, are least.
    """
    every = meetings(here, there, motion)
    weight = np.array([nearness(one, reach) * one.parallel**2 for one in every])
    first, second, normal = (np.stack([getattr(one, of) for one in every]) for of in ("first", "second", "plane"))
    between = (first + second) / 2
    center = weight @ between / weight.sum()

    def left(twist: np.ndarray) -> np.ndarray:
        going = np.cross(twist[:3], between - center) + twist[3:]
        heights = ((second - first - going) * normal).sum(1)
        return np.concatenate([np.sqrt(weight) * heights, math.sqrt(1e-3 * (1 + weight.sum())) * twist])

    twist = least_squares(left, np.zeros(6), xtol=1e-15, ftol=1e-15, gtol=1e-15).x
    generator, shift = np.zeros((4, 4)), np.eye(4)
    generator[:3, :3], generator[:3, 3], shift[:3, 3] = skew(twist[:3]), twist[3:], center
    return shift @ expm(generator) @ np.linalg.inv(shift) @ motion


def cases() -> dict[str, tuple[Surface, Surface, SE3]]:
    """Also two surfaces of which nothing fits, and one of few points."""
    found = {shape: pair_of(shape, 3)[:3] for shape in SHAPES}
    anywhere = SE3(slightly(3, 60.0).rotation, 0.2 * drawn(3, 3, seed=9))
    return {
        **found,
        "nothing fits": (random_surface(70, 1), random_surface(90, 3), anywhere),
        "few points": (random_surface(4, 5, 0.1), random_surface(6, 7, 0.1), slightly(3, 60.0)),
    }


CASES = list(cases())
in_all_cases = pytest.mark.parametrize("case", CASES)


@in_all_cases
@pytest.mark.parametrize("reach", [1.7, 1.0, 0.4])
def test_a_step_is_the_least_of_weighted_squares_by_scipy(case, reach, monkeypatch):
    monkeypatch.setattr(surfaces, "REACHES", (reach,))
    here, there, motion = cases()[case]
    found = settled(here, there, motion)
    expected = np.stack([stepped(here, there, one, reach) for one in motion.matrix().numpy()])
    assert_near(found.matrix(), torch.from_numpy(expected), 1e-7)
    assert (found.matrix() - motion.matrix()).abs().amax((1, 2)).min() > 1e-4


@in_all_cases
def test_motions_settle_step_by_step_by_scipy(case):
    here, there, motion = cases()[case]
    expected = []
    for one in motion.matrix().numpy()[:2]:
        for reach in (1.7, 1.7, 1.0, 1.0, 1.0, 1.0):
            one = stepped(here, there, one, reach)
        expected.append(one)
    assert_near(settled(here, there, motion[:2]).matrix(), torch.from_numpy(np.stack(expected)), 1e-6)


def test_the_numbers_of_settling_and_of_agreement_are_as_they_were_chosen():
    """What is learned depends on all of these."""
    assert REACHES == (1.7, 1.7, 1.0, 1.0, 1.0, 1.0)
    assert (NEAR, CLOSE, FARTHEST, STIFFNESS, LEAST_SHARE, LEAST_HOLD) == (1.0, 0.5, 3.0, 1e-3, 1e-3, 1e-5)
    assert (AGREEMENT, AGREES) == (12, 1)
    assert len(USUAL) == len(SPREAD) == AGREEMENT
    assert min(SPREAD) > 0, "more stays more"


@of_both_shapes
def test_a_step_follows_the_slope_of_what_is_left_of_heights(shape, monkeypatch):
    """By finite differences: that of the squares of heights, of the same meetings as the first piece moves on."""
    monkeypatch.setattr(surfaces, "REACHES", (1.0,))
    here, there, motion, _ = pair_of(shape, 2)
    for begin, end in zip(motion.matrix().numpy(), settled(here, there, motion).matrix().numpy(), strict=True):
        every, going = meetings(here, there, begin), end @ np.linalg.inv(begin)
        weight = np.array([nearness(one, 1.0) * one.parallel**2 for one in every])

        def left(share: float, every=every, weight=weight, going=going) -> float:
            """After a share of the step, all along the way straight on."""
            heights = [
                float(
                    (one.second - one.first - share * (going[:3, :3] @ one.first + going[:3, 3] - one.first))
                    @ one.plane
                )
                for one in every
            ]
            return float(weight @ np.square(heights))

        assert (left(1e-4) - left(0)) / 1e-4 < -0.5 * left(0)
        assert left(1.0) < 0.5 * left(0.0)


# -- what does not matter ----------------------------------------------------------------------------------


def both(here: Surface, there: Surface, motion: SE3) -> tuple[SE3, Tensor]:
    """Settled motions, and the agreement before."""
    return settled(here, there, motion), agreement(here, there, motion)


@in_all_cases
@pytest.mark.parametrize("which", [(True, False), (False, True), (True, True)])
def test_motions_follow_the_frames_of_both_pieces(case, which):
    here, there, motion = cases()[case]
    frames = [poses_of(1, seed=11 + k, spread=3.0)[0] if yes else poses_of(1, 0, 0.0)[0] for k, yes in enumerate(which)]
    forth, back = frames[1].reshape(1), frames[0].inverse().reshape(1)
    expected, numbers = both(here, there, motion)
    found, others = both(moved(here, frames[0]), moved(there, frames[1]), forth @ motion @ back)
    assert_near((forth.inverse() @ found @ back.inverse()).matrix(), expected.matrix(), 1e-10)
    assert_near(others, numbers, 1e-9)


@in_all_cases
def test_the_way_back_settles_as_the_inverse_and_agrees_alike(case):
    here, there, motion = cases()[case]
    expected, numbers = both(here, there, motion)
    found, others = both(there, here, motion.inverse())
    assert_near(found.inverse().matrix(), expected.matrix(), 1e-11)
    assert_near(others, numbers, 1e-10)


@in_all_cases
def test_signs_of_normals_and_the_order_of_points_do_not_matter(case):
    here, there, motion = cases()[case]
    expected, numbers = both(here, there, motion)
    flipped = [
        replace(of, normals=of.normals * torch.sign(drawn(len(of.points), 1, seed=k)))
        for k, of in enumerate((here, there))
    ]
    assert (flipped[0].normals != here.normals).any()
    shuffled = []
    for of in (here, there):
        order = torch.randperm(len(of.points), generator=seeded(3))
        shuffled.append(replace(of, points=of.points[order], normals=of.normals[order]))
    for pair in ((flipped[0], there), (here, flipped[1]), tuple(flipped), tuple(shuffled)):
        found, others = both(*pair, motion)
        assert_near(found.matrix(), expected.matrix(), 1e-11)
        assert_near(others, numbers, 1e-10)


@in_all_cases
def test_motions_do_not_see_each_other(case):
    """Also one that brings nothing near, among others."""
    here, there, motion = cases()[case]
    away = SE3(motion.rotation[:1], motion.translation[:1] + 50)
    motion = SE3.cat([motion[:2], away, motion[2:]])
    found, numbers = both(here, there, motion)
    for k in range(len(motion)):
        one, others = both(here, there, motion[k : k + 1])
        assert_near(found[k : k + 1].matrix(), one.matrix(), 1e-12)
        assert_near(numbers[k : k + 1], others, 1e-12)
    none, nothing = both(here, there, motion[:0])
    assert none.shape == (0,)
    assert nothing.shape == (0, 12)


def test_no_gradient_passes_and_rotations_stay_rotations():
    here, there, motion, _ = pair_of("bumps")
    motion = SE3(motion.rotation.clone().requires_grad_(), motion.translation.clone().requires_grad_())
    found, numbers = both(here, there, motion)
    assert not any(of.requires_grad for of in (found.rotation, found.translation, numbers))
    assert_near(found.rotation @ found.rotation.mT, torch.eye(3).double().expand(4, 3, 3), 1e-15)


def test_the_rounding_of_rotations_is_taken_out():
    here, there, motion, _ = pair_of("bumps")
    rough = SE3(motion.rotation * (1 + 1e-6), motion.translation)
    found = settled(here, there, rough).rotation
    assert_near(found @ found.mT, torch.eye(3).double().expand(4, 3, 3), 1e-10)


# -- where there is nothing to settle on -------------------------------------------------------------------


def test_without_normals_nothing_settles():
    here, there, motion, _ = pair_of("bumps")
    bare = [replace(of, normals=torch.zeros_like(of.normals)) for of in (here, there)]
    for pair in ((bare[0], there), (here, bare[1]), tuple(bare)):
        found, numbers = both(*pair, motion)
        assert_near(found.matrix(), motion.matrix(), 1e-13)
        assert numbers.isfinite().all()
        near = agreement(here, there, motion)
        torch.testing.assert_close(numbers[:, [0, 2]], near[:, [0, 2]], rtol=0, atol=1e-12)
        assert (numbers[:, [1, 3, 7, 8]] - NOTHING).abs().max() < 1e-9, "what is near is parallel to nothing"
        assert (numbers[:, [5, 6]] == 0).all()
        assert (numbers[:, 9:] - math.log(1e-5)).abs().max() < 1e-9


def test_where_nothing_is_near_a_motion_stays_and_its_numbers_are_those_of_nothing():
    here, there, motion, _ = pair_of("corner")
    away = SE3(motion.rotation, motion.translation + 9)
    found, numbers = both(here, there, away)
    assert_near(found.matrix(), away.matrix(), 1e-13)
    expected = [NOTHING] * 4 + [0.0] * 3 + [NOTHING] * 2 + [math.log(1e-5)] * 3
    assert_near(numbers, exact(expected).expand(4, 12), 1e-12)


@pytest.mark.parametrize(("height", "seen"), [(2.99, True), (3.01, False)])
def test_what_is_three_spacings_off_does_not_count(height, seen):
    """Two equal planes, one over the other: every point looks for the nearest straight ahead."""
    here, lift = plane(0), SE3.exp(exact([[0, 0, 0, 0, 0, height * SPACING]]))
    gap, row = here.nearest(lift.act(here.points))
    assert gap.isfinite().all() == seen
    assert torch.equal(row, torch.arange(400) if seen else torch.zeros(400, dtype=torch.int64))
    share = math.exp(-(height**2) / 2) if seen else 0.0
    found = agreement(here, here, lift)[0]
    assert_near(found[:2], exact([math.log(share + 1e-3)] * 2), 1e-9)
    assert float(found[4]) == pytest.approx(height * share * 800 / max(share * 800, 1), abs=1e-9)
    stays = settled(here, here, lift).translation[0, 2] == lift.translation[0, 2]
    assert bool(stays) == (not seen)


# -- agreement, point by point -----------------------------------------------------------------------------


def agreement_by_loop(here: Surface, there: Surface, motion: np.ndarray) -> list[float]:
    every = meetings(here, there, motion)
    total = {"near": 0.0, "near alike": 0.0, "close": 0.0, "close alike": 0.0}
    plane_gap = parallel = 0.0
    middle, spread = np.zeros(3), np.zeros((3, 3))
    for one in every:
        alike, near, close = one.parallel**8, nearness(one, 1.0), nearness(one, 0.5)
        for name, amount in zip(total, (near, near * alike, close, close * alike), strict=True):
            total[name] += amount
        plane_gap += near * abs(float((one.first - one.second) @ one.plane)) / SPACING
        parallel += near * one.parallel
        middle += near * alike * (one.first + one.second) / 2
        spread += near * alike * np.outer(one.plane, one.plane)
    middle /= max(total["near alike"], 1e-12)
    resisted = np.zeros((6, 6))
    for one in every:  # by how much the point leaves the plane, twist by twist
        twists = np.eye(6)
        leaves = [(skew(w[:3]) @ ((one.first + one.second) / 2 - middle) + w[3:]) @ one.plane for w in twists]
        resisted += nearness(one, 1.0) * one.parallel**8 * np.outer(leaves, leaves) / len(every)
    of_normals = np.sort(np.linalg.eigvals(spread / max(total["near alike"], 1)).real)
    of_twists = np.sort(np.linalg.eigvals(resisted).real)
    return [
        *(math.log(amount / len(every) + 1e-3) for amount in total.values()),
        *(amount / max(total["near"], 1) for amount in (plane_gap, parallel, total["near alike"])),
        *(math.log(max(value, 0) + 1e-3) for value in of_normals[:2]),
        *(math.log(max(value, 0) + 1e-5) for value in of_twists[:3]),
    ]


@in_all_cases
def test_agreement_is_that_of_a_loop_over_points(case):
    here, there, motion = cases()[case]
    found = agreement(here, there, motion)
    assert found.shape == (3, 12)
    expected = [agreement_by_loop(here, there, one) for one in motion.matrix().numpy()]
    assert_near(found, torch.tensor(expected, dtype=torch.float64), 1e-9)
    assert found.std(0).min() > 1e-5, "every number tells motions apart"


def test_the_little_that_is_hardly_near_says_little():
    """One point of each piece, two spacings apart: less than a point is near, and means are not those of so little."""
    here = surface_of(np.zeros((1, 3)), np.array([[0.0, 0.0, 1.0]]))
    lift = SE3.exp(exact([[0, 0, 0, 0, 0, 2 * SPACING]]))
    found, near = agreement(here, here, lift)[0], 2 * math.exp(-2)
    assert_near(found[4:7], exact([2 * near, near, near]), 1e-9)
    assert_near(found, exact(agreement_by_loop(here, here, lift.matrix()[0].numpy())), 1e-9)


def test_agreement_of_the_same_points_by_hand():
    """A corner with itself: all is near, close and parallel; a third of all normals along each axis."""
    here = corner(0, 300)
    found = agreement(here, here, SE3.identity(1, dtype=torch.float64))[0]
    all_of_it = math.log(1.001)
    expected = [all_of_it] * 4 + [0.0, 1.0, 1.0] + [math.log(1 / 3 + 1e-3)] * 2
    assert_near(found[:9], exact(expected), 1e-12)


def test_a_turned_normal_counts_by_the_eighth_power_of_its_cosine_and_half_a_step_up_by_the_bell():
    """Two equal planes half a spacing apart, of which one has its normals turned by 30 degrees."""
    here, lift = plane(0), SE3.exp(exact([[0, 0, 0, 0, 0, 0.5 * SPACING]]))
    normals = exact([0.0, 0.5, math.sqrt(3) / 2]).expand(400, 3)
    found = agreement(here, replace(here, normals=normals), lift)[0]
    near, close, alike = math.exp(-0.125), math.exp(-0.5), 0.75**4
    shares = [math.log(share + 1e-3) for share in (near, near * alike, close, close * alike)]
    height = 0.5 * (1 + math.sqrt(3) / 2) / 2  # each half of the points is seen over the other's planes
    assert_near(found[:7], exact([*shares, height, math.sqrt(3) / 2, alike]), 1e-9)
    spread = [0.0, (1 - math.sqrt(3) / 2) / 2]  # half of the normals are 30 degrees from the other half
    assert_near(found[7:9], exact([math.log(value + 1e-3) for value in spread]), 1e-6)


def test_agreement_falls_with_the_share_that_overlaps():
    """A plane and itself shifted by a share of its width: that share has nothing near, but for its seam."""
    here, found = plane(0, 4000), []
    for share in (0.0, 0.25, 0.5, 0.75):
        shift = SE3.exp(exact([[0, 0, 0, 2 * share, 0, 0]]))
        here_again = plane(1, 4000)
        found.append(agreement(replace(here, spacing=0.03), replace(here_again, spacing=0.03), shift)[0])
    near = (torch.stack(found)[:, 0].exp() - 1e-3) / (float(found[0][0].exp()) - 1e-3)
    assert_near(near, exact([1.0, 0.75, 0.5, 0.25]), 0.03)
    for column in (0, 1, 2, 3):
        assert (torch.stack(found)[:, column].diff() < -0.1).all()
    assert (torch.stack(found)[:, 5:7] > 0.99).all(), "what is near agrees as before"


@pytest.mark.parametrize(("shape", "free"), [(plane, 3), (pipe, 2), (bumps, 0), (corner, 0)])
def test_surfaces_could_slide_along_planes_and_pipes_and_not_along_bumps_and_corners(shape, free):
    """A plane by three twists, a pipe by two: along its axis and about it. Their logs are then about the least."""
    numbers = agreement(shape(0), shape(1), SE3.identity(1, dtype=torch.float64))[0]
    slides = numbers[9:].exp() - 1e-5
    assert (slides[:free] < 5e-4).all()
    assert (slides[free:] > 5e-3).all()
    assert (numbers[9:].diff() >= 0).all()
    spread = numbers[7:9].exp() - 1e-3
    directions = {plane: [0.0, 0.0], pipe: [0.0, 0.5], corner: [1 / 3, 1 / 3]}
    if shape in directions:
        torch.testing.assert_close(spread, exact(directions[shape]), rtol=0, atol=0.05)
    else:
        assert (spread > 0.02).all()


def test_what_three_planes_resist_by_hand():
    """Squares of half-width 1 that cross at their middle: two of three resist a turn about an axis, each by the mean of
    x^2, which is a third; one of three resists a shift, so turns are resisted least.
    """
    square, still = plane(0, 3000).points, SE3.identity(1, dtype=torch.float64)
    points = torch.cat([square, square[:, [2, 0, 1]], square[:, [1, 2, 0]]])
    cross = Surface(points, torch.eye(3).double()[[2, 0, 1]].repeat_interleave(3000, 0), SPACING)
    found = agreement(cross, cross, still)[0, 9:].exp()
    torch.testing.assert_close(found, torch.full((3,), 2 / 9).double(), rtol=0.05, atol=0)


@in_all_cases
@pytest.mark.parametrize("scale", [0.3, 4.0])
def test_all_but_the_resistance_of_twists_is_in_units_of_the_spacing(case, scale):
    """Points and their spacing grow together. Twists turn by radians and move by lengths, so they do not."""
    here, there, motion = cases()[case]
    large = [replace(of, points=scale * of.points, spacing=scale * of.spacing) for of in (here, there)]
    wide = SE3(motion.rotation, scale * motion.translation)
    found, expected = agreement(*large, wide), agreement(here, there, motion)
    assert_near(found[:, :9], expected[:, :9], 1e-10)
    assert (found[:, 9:] - expected[:, 9:]).abs().max() > 1e-2


@of_both_shapes
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_large_and_small_surfaces_settle_alike(shape, scale):
    """Not by the same steps, since what keeps a motion still has a unit; but to the same place."""
    here, there, motion, _ = pair_of(shape)
    large = [replace(of, points=scale * of.points, spacing=scale * of.spacing) for of in (here, there)]
    found = settled(*large, SE3(motion.rotation, scale * motion.translation))
    expected = settled(here, there, motion)
    assert_near(found.rotation, expected.rotation, 1e-4)
    assert_near(found.translation / scale, expected.translation, 1e-4)


# -- the nearest point -------------------------------------------------------------------------------------


def test_the_nearest_point_is_that_of_all_distances_in_any_shape():
    surface, points = random_surface(50, 1), 0.4 * drawn(3, 5, 7, 3)
    gap, row = surface.nearest(points)
    assert gap.shape == row.shape == (3, 5, 7)
    distance = cdist(points.reshape(-1, 3).numpy(), surface.points.numpy())
    near = distance.min(1) < 3 * SPACING
    assert 0.2 < near.mean() < 0.95
    assert (gap.flatten().isfinite().numpy() == near).all()
    np.testing.assert_allclose(gap.flatten().numpy()[near], distance.min(1)[near], atol=1e-12)
    assert (row.flatten().numpy()[near] == distance.argmin(1)[near]).all()
    assert row.min() >= 0
    assert row.max() < 50
    assert surface.tree is surface.tree
