"""The solvers: their orders, exactness and cost, and that puzzles of a batch do not feel each other."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.integrate import RK23, solve_ivp
from support.oracles import twist_matrix
from support.rigid_motions import random_se3
from torch import Tensor

from eda.errors import InputError
from eda.flow import SOLVERS, Progress, Trajectory, integrate
from eda.lie import SE3
from eda.segment import ranges

FIXED = ["rk1", "rk4", "rkmk4"]
COUNTS = (2, 3)
PUZZLE = ranges(torch.tensor(COUNTS))

all_solvers = pytest.mark.parametrize("solver", SOLVERS)


class SmoothField:
    """A random field, smooth in pose and time: every piece sees itself, the mean pose of its puzzle, and tau.

    Puzzle b moves `gains[b]` times as fast. Calls are counted, and bounded so that an endless walk fails.
    """

    def __init__(self, counts: tuple[int, ...], gains: tuple[float, ...], seed: int = 0) -> None:
        source = torch.Generator().manual_seed(seed)
        self.puzzle = ranges(torch.tensor(counts))
        self.counts, self.gains = counts, gains
        self.inner = torch.randn(25, 12, generator=source, dtype=torch.float64) / 5
        self.outer = torch.randn(12, 6, generator=source, dtype=torch.float64) / 2
        self.calls = 0

    def __call__(self, poses: SE3, tau: Tensor) -> Tensor:
        self.calls += 1
        assert self.calls < 20000, "the walk does not end"
        assert tau.shape == (len(self.counts),)
        rows = poses.matrix()[:, :3].flatten(1)
        groups = zip(torch.split(rows, self.counts), tau, self.gains, strict=True)
        return torch.cat([gain * self._of_one_puzzle(group, time) for group, time, gain in groups])

    def _of_one_puzzle(self, rows: Tensor, tau: Tensor) -> Tensor:
        seen = torch.cat([rows, rows.mean(0, keepdim=True).expand_as(rows), 3 * tau.expand(len(rows), 1)], dim=1)
        return torch.sin(seen @ self.inner + 1) @ self.outer


def noise(count: int = sum(COUNTS), seed: int = 0) -> SE3:
    return random_se3(count, seed)


def smooth() -> SmoothField:
    return SmoothField(COUNTS, (1.0, 1.0))


def walk(field: Callable[[SE3, Tensor], Tensor], solver: str, **options) -> Trajectory:
    return integrate(field, noise(), solver=solver, puzzle=PUZZLE, **options)


def reference_end(field: SmoothField, start: SE3) -> Tensor:
    """dg/dtau = f g on the entries of matrices, solved by scipy to twelve digits. -> (N, 4, 4)."""
    shape = (len(start), 4, 4)

    def slope(tau: float, flat: np.ndarray) -> np.ndarray:
        matrix = torch.from_numpy(flat.reshape(shape))
        times = torch.full((len(field.counts),), tau, dtype=torch.float64)
        return (twist_matrix(field(SE3.from_matrix(matrix), times)) @ matrix).flatten().numpy()

    flat = start.matrix().flatten().numpy()
    end = solve_ivp(slope, (0, 1), flat, method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    return torch.from_numpy(end.reshape(shape))


@pytest.fixture(scope="module")
def exact() -> Tensor:
    return reference_end(smooth(), noise())


def error(trajectory: Trajectory, exact: Tensor) -> float:
    return float((trajectory.final.matrix() - exact).norm())


# -- accuracy ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("solver", "order"), [("rk1", 1), ("rk4", 2), ("rkmk4", 4)])
def test_order(solver, order, exact):
    """The slope of log error over log step; the paper's RK4 is of second order on this group."""
    steps = np.array([8, 12, 18, 27])
    errors = [error(walk(smooth(), solver, steps=int(n)), exact) for n in steps]
    assert min(errors) > 1e-9, "rounding and the reference must not be seen"
    slope = np.polyfit(np.log(1 / steps), np.log(errors), 1)[0]
    assert slope == pytest.approx(order, abs=0.15)


TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5)


@pytest.fixture(scope="module")
def adaptive(exact) -> list[tuple[float, int, int]]:
    """(error, evaluations, steps) of the adaptive solver for every tolerance."""
    results = []
    for tolerance in TOLERANCES:
        field = smooth()
        trajectory = walk(field, "adaptive", tolerance=tolerance)
        results.append((error(trajectory, exact), field.calls, len(trajectory.taus) - 1))
    return results


def test_adaptive_error_is_of_the_size_of_the_tolerance(adaptive):
    for tolerance, (gap, _, _) in zip(TOLERANCES, adaptive, strict=True):
        assert gap < 5 * tolerance


def test_adaptive_error_shrinks_with_the_tolerance(adaptive):
    errors, _, steps = zip(*adaptive, strict=True)
    assert list(errors) == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 300
    assert list(steps) == sorted(set(steps))


def test_adaptive_is_of_third_order(adaptive):
    """With steps chosen freely, k times the work brings about k^3 in accuracy."""
    errors, costs, _ = zip(*adaptive, strict=True)
    assert np.polyfit(np.log(costs), np.log(errors), 1)[0] < -2.7


@pytest.mark.parametrize("steps", range(1, 7))
def test_adaptive_keeps_the_estimated_error_of_every_step_below_the_tolerance(steps):
    """Turning about one axis is a quadrature, and its estimate of the error that of scipy's RK23."""
    tolerance = 1e-3

    def rate(tau):
        return 3 * np.sin(9 * tau) + np.cos(4 * tau)

    def field(poses: SE3, tau: Tensor) -> Tensor:
        return torch.from_numpy(rate(tau.numpy()))[:, None] * torch.eye(6, dtype=torch.float64)[2:3]

    start = SE3.identity(1, dtype=torch.float64)
    taus = integrate(field, start, solver="adaptive", steps=steps, tolerance=tolerance).taus[:, 0].numpy()
    eta = np.diff(taus)
    slopes = rate(taus[:-1, None] + eta[:, None] * np.append(RK23.C, 1.0))
    estimates = np.abs(eta * (slopes @ RK23.E))
    assert estimates.max() <= tolerance * (1 + 1e-9)
    assert np.median(estimates) > tolerance / 20, "steps much shorter than needed"


@all_solvers
@pytest.mark.parametrize("steps", [1, 7])
def test_constant_twists_are_followed_exactly(solver, steps):
    twist = torch.randn(5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    trajectory = walk(lambda poses, tau: twist, solver, steps=steps)
    for tau, poses in zip(trajectory.taus, trajectory.poses, strict=True):
        wanted = torch.linalg.matrix_exp(tau[PUZZLE][:, None, None] * twist_matrix(twist)) @ noise().matrix()
        torch.testing.assert_close(poses.matrix(), wanted, rtol=0, atol=1e-13)


def test_one_step_of_rk1_is_the_papers():
    field, eta = smooth(), 0.5
    wanted = noise().matrix()
    for i in range(2):
        twist = field(SE3.from_matrix(wanted), torch.full((2,), i * eta, dtype=torch.float64))
        wanted = torch.linalg.matrix_exp(eta * twist_matrix(twist)) @ wanted
    torch.testing.assert_close(walk(field, "rk1", steps=2).final.matrix(), wanted, rtol=0, atol=1e-13)


def test_one_step_of_rk4_is_the_papers():
    """Eq. (9), with the matrix exponential."""
    field, start, one = smooth(), noise().matrix(), torch.ones(2, dtype=torch.float64)

    def exp(twist: Tensor) -> Tensor:
        return torch.linalg.matrix_exp(twist_matrix(twist))

    k1 = field(SE3.from_matrix(start), 0 * one)
    k2 = field(SE3.from_matrix(exp(k1 / 2) @ start), one / 2)
    k3 = field(SE3.from_matrix(exp(k2 / 2) @ start), one / 2)
    k4 = field(SE3.from_matrix(exp(k3) @ start), one)
    wanted = exp(k4 / 6) @ exp(k3 / 3) @ exp(k2 / 3) @ exp(k1 / 6) @ start
    torch.testing.assert_close(walk(field, "rk4", steps=1).final.matrix(), wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("solver", "steps"), [("rk1", 200), ("rk4", 30), ("rkmk4", 30), ("adaptive", 30)])
def test_rotations_stay_orthonormal(solver, steps):
    """And become so where they begin a little off: what is off shrinks to its square with every step."""

    def field(poses: SE3, tau: Tensor) -> Tensor:
        return 10 * torch.sin(poses.rotation.flatten(1)[:, :6] + 5 * tau)

    start = SE3(noise().rotation * (1 + 1e-5), noise().translation)
    rotation = integrate(field, start, solver=solver, steps=steps).poses.rotation
    assert len(rotation) > 30
    assert (rotation.mT @ rotation - torch.eye(3, dtype=torch.float64))[3:].abs().max() < 1e-14
    assert (torch.linalg.det(rotation) > 0).all()


@all_solvers
def test_float32_stays_float32(solver):
    trajectory = integrate(
        lambda poses, tau: 0.1 * poses.translation.repeat(1, 2) + tau,
        noise().to(torch.float32),
        solver=solver,
    )
    assert {trajectory.taus.dtype, trajectory.poses.rotation.dtype} == {torch.float32}
    rotation = trajectory.final.rotation
    assert (rotation.mT @ rotation - torch.eye(3)).abs().max() < 1e-6


# -- the walk ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", FIXED)
@pytest.mark.parametrize("steps", [1, 3, 10])
def test_trajectory_of_fixed_steps(solver, steps):
    trajectory = walk(smooth(), solver, steps=steps)
    assert trajectory.taus.shape == (steps + 1, 2)
    assert trajectory.poses.shape == (steps + 1, 5)
    wanted = (torch.arange(steps + 1, dtype=torch.float64) / steps)[:, None].expand(-1, 2)
    torch.testing.assert_close(trajectory.taus, wanted)


def test_trajectory_of_adaptive_steps():
    trajectory = walk(SmoothField(COUNTS, (1.0, 4.0)), "adaptive")
    assert trajectory.poses.shape == (len(trajectory.taus), 5)
    gaps = trajectory.taus.diff(dim=0)
    assert (gaps >= 0).all()
    assert (gaps > 0).any(dim=1).all(), "a row where no puzzle moved"
    assert torch.equal(trajectory.taus[0], torch.zeros(2, dtype=torch.float64))
    assert torch.equal(trajectory.taus[-1], torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("steps", [5, 50])
def test_adaptive_begins_with_the_step_asked_for(steps):
    trajectory = walk(smooth(), "adaptive", steps=steps, tolerance=1.0)
    torch.testing.assert_close(trajectory.taus[1], torch.full((2,), 1 / steps, dtype=torch.float64))


@all_solvers
def test_trajectory_begins_with_the_noise_and_ends_with_the_final_poses(solver):
    trajectory = walk(smooth(), solver)
    assert torch.equal(trajectory.poses[0].matrix(), noise().matrix())
    assert torch.equal(trajectory.poses[-1].matrix(), trajectory.final.matrix())
    assert trajectory.final.shape == (5,)


@pytest.mark.parametrize("solver", FIXED)
def test_times_seen_by_the_field(solver):
    seen = []

    def field(poses: SE3, tau: Tensor) -> Tensor:
        seen.append(float(tau[0]))
        return torch.zeros(5, 6, dtype=torch.float64)

    walk(field, solver, steps=2)
    one = [0.0] if solver == "rk1" else [0.0, 0.25, 0.25, 0.5]
    assert seen == pytest.approx([*one, *(0.5 + tau for tau in one)])


@pytest.mark.parametrize(("solver", "per_step"), [("rk1", 1), ("rk4", 4), ("rkmk4", 4)])
def test_evaluations_of_fixed_steps(solver, per_step):
    field = smooth()
    walk(field, solver, steps=6)
    assert field.calls == 6 * per_step


def test_evaluations_of_adaptive_steps():
    """One to begin with, then three for each step: the last stage of a step is the first of the next."""
    field = SmoothField((5,), (0.1,))
    trajectory = integrate(field, noise(), solver="adaptive", steps=10, tolerance=1e-2)
    assert len(trajectory.taus) > 2
    assert field.calls == 1 + 3 * (len(trajectory.taus) - 1)


def test_a_rejected_step_costs_three_evaluations_and_is_not_in_the_trajectory():
    field = SmoothField((5,), (3.0,))
    trajectory = integrate(field, noise(), solver="adaptive", steps=1, tolerance=1e-4)
    assert trajectory.taus[1, 0] < 1
    rejected, rest = divmod(field.calls - 1 - 3 * (len(trajectory.taus) - 1), 3)
    assert rejected > 0
    assert rest == 0


def test_a_field_that_jumps_does_not_stop_the_walk():
    """The turn reverses at 0.437: the end is where 2 * 0.437 - 1 leads, within the shortest step."""
    calls = []

    def field(poses: SE3, tau: Tensor) -> Tensor:
        calls.append(tau)
        assert len(calls) < 5000
        return torch.where(tau < 0.437, 1.0, -1.0)[:, None] * torch.eye(6, dtype=torch.float64)[2:3]

    start = SE3.identity(1, dtype=torch.float64)
    end = integrate(field, start, solver="adaptive", tolerance=1e-6).final.log()
    assert float(end[0, 2]) == pytest.approx(2 * 0.437 - 1, abs=2e-3)


# -- companions ----------------------------------------------------------------------------------------------


def own_steps(trajectory: Trajectory, puzzle: int, rows: slice) -> tuple[Tensor, Tensor]:
    """The times and poses of one puzzle, at its own steps. -> (S+1,), (S+1, n, 4, 4)."""
    taus = trajectory.taus[:, puzzle]
    fresh = torch.cat([torch.tensor([True]), taus.diff() > 0])
    return taus[fresh], trajectory.poses[:, rows].matrix()[fresh]


@all_solvers
@pytest.mark.parametrize("calm_first", [True, False])
def test_a_puzzle_does_not_feel_its_companions(solver, calm_first):
    """A calm puzzle, alone and in a batch with a stiff one."""
    options = {"solver": solver, "steps": 5, "tolerance": 1e-3}
    calm, stiff = noise(2, seed=1), noise(3, seed=2)
    alone = integrate(SmoothField((2,), (1.0,)), calm, **options)
    counts, gains = ((2, 3), (1.0, 8.0)) if calm_first else ((3, 2), (8.0, 1.0))
    together = integrate(
        SmoothField(counts, gains),
        SE3.cat([calm, stiff] if calm_first else [stiff, calm]),
        puzzle=ranges(torch.tensor(counts)),
        **options,
    )
    index, rows = (0, slice(0, 2)) if calm_first else (1, slice(3, 5))
    taus, poses = own_steps(together, index, rows)
    torch.testing.assert_close(taus, alone.taus[:, 0], rtol=0, atol=1e-12)
    torch.testing.assert_close(poses, alone.poses.matrix(), rtol=0, atol=1e-12)
    torch.testing.assert_close(together.final[rows].matrix(), alone.final.matrix(), rtol=0, atol=1e-12)
    assert solver != "adaptive" or len(together.taus) > 2 * len(alone.taus)


def test_a_puzzle_stands_still_while_others_walk():
    trajectory = walk(SmoothField(COUNTS, (0.3, 6.0)), "adaptive")
    waits = trajectory.taus[:, 0].diff() == 0
    assert waits.sum() > 10
    moved = (trajectory.poses.matrix()[1:, :2] - trajectory.poses.matrix()[:-1, :2]).abs().amax((1, 2, 3))
    assert (moved[waits] == 0).all()
    assert (moved[~waits] > 0).all()


@pytest.mark.parametrize("solver", FIXED)
def test_without_puzzles_all_pieces_belong_to_one(solver):
    trajectory = integrate(SmoothField((5,), (1.0,)), noise(), solver=solver, steps=4)
    assert trajectory.taus.shape == (5, 1)


@all_solvers
def test_a_second_round_begins_where_the_first_ended(solver):
    first = walk(smooth(), solver, steps=4)
    second = integrate(smooth(), first.final, puzzle=PUZZLE, solver=solver, steps=4)
    both = walk(smooth(), solver, steps=4, rounds=2)
    assert torch.equal(both.poses.matrix(), torch.cat([first.poses.matrix(), second.poses.matrix()[1:]]))
    assert torch.equal(both.taus, torch.cat([first.taus, 1 + second.taus[1:]]))


# -- callbacks and refusals ----------------------------------------------------------------------------------


@all_solvers
def test_callback_is_told_every_step(solver):
    told: list[Progress] = []
    trajectory = walk(smooth(), solver, steps=6, callback=told.append)
    assert [progress.step for progress in told] == list(range(1, len(trajectory.taus)))
    for progress in told:
        assert isinstance(progress, Progress)
        assert torch.equal(progress.tau, trajectory.taus[progress.step])
        assert torch.equal(progress.poses.matrix(), trajectory.poses[progress.step].matrix())


@all_solvers
def test_callback_stops_the_walk(solver):
    whole = walk(smooth(), solver, steps=6)
    field = smooth()
    stopped = walk(field, solver, steps=6, callback=lambda progress: progress.step == 2)
    assert len(stopped.taus) == len(stopped.poses) == 3
    assert torch.equal(stopped.poses.matrix(), whole.poses[:3].matrix())
    assert field.calls <= 4 * 3, "the field was called after the stop"


@all_solvers
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("since", [-1.0, 0.5], ids=["always", "late"])
def test_a_field_that_is_not_finite_raises(solver, bad, since):
    calls = []

    def field(poses: SE3, tau: Tensor) -> Tensor:
        calls.append(tau)
        assert len(calls) < 300, "the walk does not end"
        return torch.where(tau[PUZZLE] > since, bad, 0.5)[:, None].expand(5, 6).double()

    with pytest.raises(FloatingPointError, match="not finite"):
        walk(field, solver)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "rk5"}, "rk5"),
        ({"steps": 0}, "steps"),
        ({"steps": -3}, "steps"),
        ({"rounds": 0}, "rounds"),
        ({"solver": "adaptive", "tolerance": 0.0}, "tolerance"),
        ({"solver": "adaptive", "tolerance": -1e-3}, "tolerance"),
        ({"solver": "adaptive", "tolerance": math.nan}, "tolerance"),
    ],
)
def test_impossible_walks_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        integrate(smooth(), noise(), puzzle=PUZZLE, **options)
