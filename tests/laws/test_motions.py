"""Pieces follow the motions that may bring them together, as weighed by a loop over all of them (ours)."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from places import assert_near, drawn, model_of, pairs_of, poses_of
from reference import haar_rotations
from scipy.spatial.transform import Rotation
from torch import Tensor, nn

from eda import SE3
from eda.flow import Path
from eda.nn.evidence import EVIDENCE
from eda.nn.motions import MotionPath, toward
from eda.nn.proposals import Motions

FAR, LEAST_TIME = 3.0, 0.02  # the fastest that pieces move, in sizes of the puzzle; the time that is always left


# -- the way of a motion -----------------------------------------------------------------------------------


def motions_of(motion: SE3, counts: list[int], seed: int = 0) -> Motions:
    """Of the pairs of puzzles of `counts` pieces, whose centres are no origins."""
    first, second = torch.tensor(pairs_of(counts)).unbind(1)
    evidence = drawn(*motion.shape, EVIDENCE, seed=seed)
    holds = torch.ones(motion.shape, dtype=torch.bool)
    return Motions(first, second, motion, holds, evidence, 0.5 * drawn(sum(counts), 3, seed=seed + 1))


def moved_on(poses: SE3, velocity: Tensor, centers: Tensor, time: float) -> SE3:
    """By scipy: every piece turns about its centre, which moves straight on. velocity (N, 6) is (w, u)."""
    turn = torch.from_numpy(Rotation.from_rotvec((time * velocity[:, :3]).numpy()).as_matrix())
    middle = poses.act(centers)
    rotation = turn @ poses.rotation
    return SE3(rotation, middle + time * velocity[:, 3:] - (rotation @ centers[..., None]).squeeze(-1))


def both_ways(way: Tensor) -> Tensor:
    """The velocities of two pieces from that of the first."""
    return torch.stack([way, -way])


@pytest.mark.parametrize("seed", range(3))
def test_the_way_leads_to_the_motion_at_once_and_step_by_step(seed):
    motions, poses = motions_of(poses_of(1, seed + 10).reshape(1, 1), [2], seed), poses_of(2, seed, spread=2.0)
    way = toward(motions, poses)[0][0, 0]
    at_once = moved_on(poses, both_ways(way), motions.centers, 1.0)
    steps, walked = 40, poses
    for step in range(steps):  # v(g, tau) = way(g) / (1 - tau)
        velocity = both_ways(toward(motions, walked)[0][0, 0]) / (1 - step / steps)
        walked = moved_on(walked, velocity, motions.centers, 1 / steps)
    for end in (at_once, walked):
        assert_near((end[1].inverse() @ end[0]).matrix(), motions.motion[0, 0].matrix(), 1e-9)
        assert_near(end.act(motions.centers).sum(0), poses.act(motions.centers).sum(0), 1e-9)
    assert_near(walked.matrix(), at_once.matrix(), 1e-9)


def test_the_way_of_the_second_piece_is_the_opposite_one_and_as_far():
    """The pair the other way round, whose motion is the inverse. Far is counted in half turns and in `FAR`."""
    motions, poses = motions_of(poses_of(12, 1).reshape(3, 4), [3]), poses_of(3)
    back = replace(motions, first=motions.second, second=motions.first, motion=motions.motion.inverse())
    (way, turned, moved), (opposite, *as_far) = toward(motions, poses), toward(back, poses)
    assert_near(opposite, -way)
    for found, expected in zip(as_far, (turned, moved), strict=True):
        assert_near(found, expected)
    for q, k in itertools.product(range(3), range(4)):
        one, other = poses.rotation[motions.first[q]], poses.rotation[motions.second[q]]
        angle = Rotation.from_matrix((other @ motions.motion.rotation[q, k] @ one.T).numpy()).magnitude()
        assert float(turned[q, k]) == pytest.approx(angle / math.pi, abs=1e-9)
        assert float(way[q, k, :3].norm()) == pytest.approx(angle / 2, abs=1e-9)
        assert float(moved[q, k]) == pytest.approx(float(way[q, k, 3:].norm()) / FAR, abs=1e-12)


def test_pieces_that_fit_already_stay():
    motions = motions_of(poses_of(1, 5).reshape(1, 1), [2])
    second = poses_of(1, 2)
    poses = SE3.cat([second @ motions.motion[0], second])
    way, turned, moved = toward(motions, poses)
    assert max(float(x.abs().max()) for x in (way, turned, moved)) < 1e-7


def test_the_way_is_that_of_the_training_path_where_translations_vanish():
    noise = SE3(haar_rotations(2, 3), torch.zeros(2, 3).double())
    solution = SE3(haar_rotations(2, 4), torch.zeros(2, 3).double())
    path = Path.generated_by(noise, solution, torch.tensor([0, 0]), 1)
    truth = (solution[1:].inverse() @ solution[:1]).reshape(1, 1)
    motions = replace(motions_of(truth, [2]), centers=torch.zeros(2, 3).double())
    for tau in (0.0, 0.3, 0.8):
        way = toward(motions, path.at(torch.tensor([tau, tau]).double()))[0][0, 0]
        assert_near(both_ways(way / (1 - tau)), path.twist, 1e-6)


# -- the weights of motions, piece by piece ----------------------------------------------------------------


@torch.no_grad()
def path_of(none: float | None = None) -> MotionPath:
    """With `none`, all motions weigh the same, and the rest that."""
    path = model_of().network.motions
    if none is not None:
        nn.init.zeros_(path.judge[-1].weight)
        nn.init.zeros_(path.judge[-1].bias)
        nn.init.constant_(path.none, none)
    return path


def mixed_by_loop(
    path: MotionPath, motions: Motions, poses: SE3, tau: Tensor, rest: Tensor, boldness: float = 1.0
) -> Tensor:
    """Of the density to the power `boldness`, in which a motion fills (12 x 10)^-3 of what all others do."""
    way, turned, moved = toward(motions, poses)
    rows = []
    for i in range(len(rest)):
        odds, ways = [], []
        for q, k in itertools.product(range(len(motions.first)), range(motions.motion.shape[1])):
            if i not in (int(motions.first[q]), int(motions.second[q])) or not motions.holds[q, k]:
                continue
            far = [float(turned[q, k]), float(moved[q, k])]
            known = torch.cat([motions.evidence[q, k], torch.tensor(far, dtype=torch.float64)])
            odds.append(float(path.judge(known)))
            side = 1 if i == int(motions.first[q]) else -1
            ways.append(side * way[q, k] / max(1 - float(tau[i]), LEAST_TIME, *far))
        logs = [boldness * logit + (boldness - 1) * 3 * math.log(120) for logit in odds] + [boldness * float(path.none)]
        odds, ways = [math.exp(log - max(logs)) for log in logs], [*ways, rest[i]]
        rows.append(sum(weight / sum(odds) * velocity for weight, velocity in zip(odds, ways, strict=True)))
    return torch.stack(rows)


@torch.no_grad()
def test_a_velocity_is_the_mean_by_a_loop_over_all_motions_of_a_piece_and_the_rest():
    """Puzzles of 3, 1, 2 and 2 pieces; one is late, so that the least time counts, one is far off; some do not hold."""
    path, motions = path_of(), motions_of(poses_of(15, 1).reshape(5, 3), [3, 1, 2, 2])
    holds = torch.tensor([[True, False, True], [True] * 3, [False, False, True], [False, True, True], [False] * 3])
    motions = replace(motions, holds=holds)
    poses = SE3(haar_rotations(8), torch.tensor([0.5, 0.5, 30, 1, 0.5, 0.5, 1, 1]).double()[:, None] * drawn(8, 3))
    tau = torch.tensor([0.3, 0.3, 0.3, 0.6, 0.995, 0.995, 0.2, 0.2]).double()
    rest = drawn(8, 6, seed=3)
    for boldness in (1.0, 0.9, 1.5, 16.0, 1e6):
        found = path(motions, poses, tau, rest, boldness)
        assert_near(found, mixed_by_loop(path, motions, poses, tau, rest, boldness))
        assert torch.equal(found[[3, 6, 7]], rest[[3, 6, 7]]), "a piece alone has no motions, others none that hold"
        assert (found - rest)[[0, 1, 2, 4, 5]].abs().amax(1).min() > 1e-3
    assert torch.equal(path(motions, poses, tau, rest), path(motions, poses, tau, rest, 1.0))


def test_motions_that_do_not_hold_have_no_weight_at_all():
    """Neither have they one where they are all that a pair has, nor do they teach anything."""
    path, motions, poses = path_of(), motions_of(poses_of(12, 1).reshape(3, 4), [3]), poses_of(3)
    motions = replace(motions, holds=torch.tensor([[True, False, True, False], [True] * 4, [False] * 4]))
    tau, rest = torch.full((3,), 0.4, dtype=torch.float64), drawn(3, 6)
    other = motions_of(poses_of(12, 2).reshape(3, 4), [3], seed=9)
    mask = motions.holds[..., None]
    changed = replace(
        motions,
        motion=SE3(
            torch.where(mask[..., None], motions.motion.rotation, other.motion.rotation),
            torch.where(mask, motions.motion.translation, 1e3 * other.motion.translation),
        ),
        evidence=torch.where(mask, motions.evidence, 1e3 * other.evidence),
    )
    slopes = []
    for boldness in (1.0, 1.01):
        found, expected = (path(m, poses, tau, rest, boldness) for m in (changed, motions))
        assert_near(found, expected, 1e-12)
        slopes += [
            torch.autograd.grad((v * drawn(3, 6, seed=1)).sum(), path.judge[0].weight)[0] for v in (found, expected)
        ]
    for found, expected in (slopes[:2], slopes[2:]):
        assert_near(found, expected, 1e-12)


@torch.no_grad()
def test_a_field_of_one_motion_leads_to_it():
    """In 400 steps of Euler, from noise as it comes; what is left is what the least time leaves."""
    path, truth, poses = path_of(-50.0), poses_of(1, 11), poses_of(2, 4)
    motions = motions_of(SE3.cat([truth] * 5).reshape(1, 5), [2])
    rest, steps = drawn(2, 6), 400
    for step in range(steps):
        velocity = path(motions, poses, torch.full((2,), step / steps, dtype=torch.float64), rest)
        poses = moved_on(poses, velocity, motions.centers, 1 / steps)
    torch.testing.assert_close((poses[1].inverse() @ poses[0]).matrix(), truth[0].matrix(), rtol=0, atol=0.03)


@pytest.mark.parametrize("tau", [0.0, 0.99, 1.0])
@pytest.mark.parametrize("spread", [1.0, 1e3, 1e7])
@torch.no_grad()
def test_no_piece_is_asked_to_be_faster_than_half_a_turn_and_the_far(tau, spread):
    """50 pairs of one motion each."""
    path, motions = path_of(-50.0), motions_of(poses_of(50, 1).reshape(50, 1), [2] * 50)
    poses, rest = poses_of(100, 3, spread=spread), torch.zeros(100, 6).double()
    w, u = path(motions, poses, torch.full((100,), tau, dtype=torch.float64), rest).split(3, dim=1)
    assert float(w.norm(dim=1).max()) <= math.pi / 2 + 1e-9
    assert float(u.norm(dim=1).max()) <= FAR + 1e-9
    if spread > 1:
        assert float(u.norm(dim=1).min()) == pytest.approx(FAR, rel=1e-6)


@pytest.mark.parametrize(("tau", "left"), [(0.4, 0.6), (0.99, LEAST_TIME), (1.0, LEAST_TIME)])
@torch.no_grad()
def test_pieces_that_nearly_fit_take_the_time_that_is_left(tau, left):
    path, motions = path_of(-50.0), motions_of(poses_of(1, 5).reshape(1, 1), [2])
    second, little = poses_of(1, 2), SE3.exp(torch.full((1, 6), 0.005).double())
    poses = SE3.cat([second @ motions.motion[0] @ little, second])
    found = path(motions, poses, torch.full((2,), tau, dtype=torch.float64), torch.zeros(2, 6).double())
    assert_near(found, both_ways(toward(motions, poses)[0][0, 0]) / left, 1e-12)
