"""Solvers for dg/dtau = f_tau(g) g on SE(3)^N (Sec. 4.4 and Appendix E).

A solver is a table of Runge-Kutta coefficients and a step function that reads it. There are two step functions.
`products` multiplies exponentials of the stages, as the paper's RK4 does (which is of second order on this group).
`munthe_kaas` solves the equation in the Lie algebra, where the classical orders hold. tau is (B,), one time per puzzle,
so that an adaptive solver chooses its steps for every puzzle by itself, and the result does not depend on the batch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from eda.errors import InputError
from eda.lie import SE3
from eda.lie.se3 import bracket
from eda.registry import look_up, register
from eda.segment import segment_max

# An adaptive step this short is accepted whatever its error: a field that jumps must not stall the solver.
MIN_STEP = 1e-3

Field = Callable[[SE3, Tensor], Tensor]  # poses (N,), tau (B,) -> spatial twists (N, 6)


@dataclass(frozen=True)
class Table:
    """Coefficients of an explicit Runge-Kutta method (a Butcher tableau) of s stages.

    With `embedded`, the weights of a method of lower order, the solver chooses its own steps. The last stage must then
    be evaluated where the next step begins (FSAL), and the error of a step is taken to grow as its length cubed.
    """

    stages: tuple[tuple[float, ...], ...]  # a_ij: row i has i coefficients
    weights: tuple[float, ...]  # b_i
    nodes: tuple[float, ...]  # c_i
    embedded: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        count = len(self.stages)
        rows = (self.weights, self.nodes, self.weights if self.embedded is None else self.embedded)
        if not count or any(len(row) != count for row in rows):
            raise InputError(f"a table of {count} stages needs as many weights and nodes, got {self}")
        if any(len(row) != i for i, row in enumerate(self.stages)):
            raise InputError(f"stage i of an explicit method has i coefficients, got {self.stages}")
        if abs(sum(self.weights) - 1) > 1e-9:
            raise InputError(f"the weights of a method must add up to 1, got {self.weights}")


EULER = Table(stages=((),), weights=(1.0,), nodes=(0.0,))
CLASSICAL = Table(
    stages=((), (1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0)),
    weights=(1 / 6, 1 / 3, 1 / 3, 1 / 6),
    nodes=(0.0, 1 / 2, 1 / 2, 1.0),
)
# Bogacki and Shampine, orders 3 and 2: the last stage is evaluated where the next step begins.
BOGACKI_SHAMPINE = Table(
    stages=((), (1 / 2,), (0.0, 3 / 4), (2 / 9, 1 / 3, 4 / 9)),
    weights=(2 / 9, 1 / 3, 4 / 9, 0.0),
    nodes=(0.0, 1 / 2, 3 / 4, 1.0),
    embedded=(7 / 24, 1 / 4, 1 / 3, 1 / 8),
)


@dataclass(frozen=True)
class StepResult:
    """The poses after a step, and the field as it was evaluated on the way."""

    poses: SE3  # (N,)
    slopes: list[Tensor]  # the stages k_i, each (N, 6)
    last: Tensor  # (N, 6) the field as evaluated last


# (table, field, poses (N,), tau (B,), eta (B,), puzzle (N,), the field at poses if it was evaluated) -> StepResult
Step = Callable[[Table, Field, SE3, Tensor, Tensor, Tensor, Tensor | None], StepResult]


def products(
    table: Table,
    field: Field,
    poses: SE3,
    tau: Tensor,
    eta: Tensor,
    puzzle: Tensor,
    first: Tensor | None = None,
) -> StepResult:
    """g <- exp(eta b_s k_s) ... exp(eta b_1 k_1) g, and the stages alike: eq. (RK4) for the classical table."""
    step = eta[puzzle][:, None]
    slopes: list[Tensor] = []

    def along(coefficients: tuple[float, ...]) -> SE3:
        scaled = [c * step * slope for c, slope in zip(coefficients, slopes, strict=True) if c]
        if not scaled:
            return poses
        motions = SE3.exp(torch.stack(scaled))  # all exponentials in one call
        return functools.reduce(lambda moved, i: motions[i] @ moved, range(len(scaled)), poses)

    for coefficients, node in zip(table.stages, table.nodes, strict=True):
        if first is not None and not slopes:
            slopes.append(first)
        else:
            slopes.append(field(along(coefficients), tau + node * eta))
    return StepResult(along(table.weights), slopes, slopes[-1])


def munthe_kaas(
    table: Table,
    field: Field,
    poses: SE3,
    tau: Tensor,
    eta: Tensor,
    puzzle: Tensor,
    first: Tensor | None = None,
) -> StepResult:
    """g <- exp(eta sum_i b_i k_i) g, with g(tau) = exp(Theta) g and Theta' = dexp^-1_Theta(f) solved by the table."""
    step = eta[puzzle][:, None]
    velocity = field(poses, tau) if first is None else first
    slopes = [velocity]
    for coefficients, node in zip(table.stages[1:], table.nodes[1:], strict=True):
        theta = step * _combined(coefficients, slopes)
        velocity = field(SE3.exp(theta) @ poses, tau + node * eta)
        slopes.append(_dexp_inverse(theta, velocity))
    return StepResult(SE3.exp(step * _combined(table.weights, slopes)) @ poses, slopes, velocity)


def _combined(coefficients: tuple[float, ...], slopes: list[Tensor]) -> Tensor:
    """sum_i coefficients[i] slopes[i]."""
    return torch.stack([c * k for c, k in zip(coefficients, slopes, strict=True)]).sum(0)


def _dexp_inverse(theta: Tensor, velocity: Tensor) -> Tensor:
    """The Bernoulli series of dexp^-1 up to theta^2: enough for order 4, since the cubic term is zero."""
    first = bracket(theta, velocity)
    return velocity - first / 2 + bracket(theta, first) / 12


@dataclass(frozen=True)
class Solver:
    """A table with the step function that reads it."""

    table: Table
    step: Step = munthe_kaas


SOLVERS: dict[str, Solver] = {
    "rk1": Solver(EULER, products),
    "rk4": Solver(CLASSICAL, products),
    "rkmk4": Solver(CLASSICAL, munthe_kaas),
    "adaptive": Solver(BOGACKI_SHAMPINE, munthe_kaas),
}


def register_solver(name: str, solver: Solver) -> None:
    """Give a solver a name, by which `--solver` and `solver=` find it. Raises `InputError` where it is taken."""
    register(SOLVERS, "solver", name, solver)


@dataclass(frozen=True)
class Progress:
    """What a callback gets after every step; it returns True to stop there."""

    step: int  # steps done
    tau: Tensor  # (B,)
    poses: SE3  # (N,)


Callback = Callable[[Progress], bool | None]


@dataclass(frozen=True)
class Trajectory:
    """The poses after every step, the noise first."""

    taus: Tensor  # (S+1, B)
    poses: SE3  # (S+1, N)

    @property
    def final(self) -> SE3:
        """The poses at the end. (N,)."""
        return self.poses[-1]


def integrate(
    field: Field,
    noise: SE3,
    *,
    solver: str = "rk4",
    steps: int = 20,
    rounds: int = 1,
    tolerance: float = 1e-3,
    puzzle: Tensor | None = None,
    callback: Callback | None = None,
) -> Trajectory:
    """Follow the field from noise (N,) at tau = 0 to tau = 1; in further rounds from where that led, at tau = 0 again.

    Haar noise may be any rotation, so the end of one round can be the noise of the next. The tau that is reported and
    returned goes on counting: in a second round it runs from 1 to 2.

    `puzzle` (N,) is the puzzle of every piece (default: all belong to one). Solvers of a fixed step take `steps` of
    them; "adaptive" starts with a step of 1 / steps and then chooses its own, so that the estimated error of each stays
    below `tolerance` (radians, and units of the puzzle's size).
    """
    method = look_up(SOLVERS, "solver", solver)
    if steps < 1 or rounds < 1:
        raise InputError(f"steps and rounds must be at least 1, got {steps} and {rounds}")
    if not tolerance > 0:
        raise InputError(f"tolerance must be positive, got {tolerance}")
    if puzzle is None:
        puzzle = torch.zeros(len(noise), dtype=torch.long, device=noise.translation.device)
    if puzzle.shape != noise.shape:
        raise InputError(f"{tuple(noise.shape)} poses need as many puzzle indices, got {tuple(puzzle.shape)}")
    taus, poses = [_zero_times(noise, puzzle)], [noise]
    for tau, moved in _rounds(method, field, noise, puzzle, steps, rounds, tolerance):
        _check_finite(moved.translation, taus[-1])
        _check_finite(moved.rotation, taus[-1])
        taus.append(tau)
        poses.append(moved)
        if callback is not None and callback(Progress(len(poses) - 1, tau, moved)):
            break
    return Trajectory(torch.stack(taus), SE3.stack(poses))


def _rounds(
    solver: Solver, field: Field, poses: SE3, puzzle: Tensor, steps: int, rounds: int, tolerance: float
) -> Iterator[tuple[Tensor, SE3]]:
    for done in range(rounds):
        if solver.table.embedded is None:
            path = _fixed_steps(solver, field, poses, puzzle, steps)
        else:
            path = _adaptive_steps(solver, field, poses, puzzle, steps, tolerance)
        for tau, poses in path:
            yield tau + done, poses


def _check_finite(values: Tensor, tau: Tensor) -> None:
    if not bool(values.isfinite().all()):
        raise FloatingPointError(f"the field is not finite at tau = {float(tau.max()):.3f}")


def _zero_times(noise: SE3, puzzle: Tensor) -> Tensor:
    return noise.translation.new_zeros(int(puzzle.max()) + 1)


def _fixed_steps(solver: Solver, field: Field, poses: SE3, puzzle: Tensor, steps: int) -> Iterator[tuple[Tensor, SE3]]:
    start = _zero_times(poses, puzzle)
    eta = torch.full_like(start, 1 / steps)
    for i in range(steps):
        poses = solver.step(solver.table, field, poses, start + i / steps, eta, puzzle, None).poses.polish()
        yield start + (i + 1) / steps, poses


def _adaptive_steps(
    solver: Solver, field: Field, poses: SE3, puzzle: Tensor, steps: int, tolerance: float
) -> Iterator[tuple[Tensor, SE3]]:
    table = solver.table
    assert table.embedded is not None
    difference = tuple(w - e for w, e in zip(table.weights, table.embedded, strict=True))
    tau = _zero_times(poses, puzzle)
    eta = torch.full_like(tau, 1 / steps)
    velocity = field(poses, tau)
    while bool((tau < 1).any()):
        # A puzzle that has reached tau = 1 takes steps of length zero while the others go on.
        eta = torch.minimum(eta, 1 - tau)
        result = solver.step(table, field, poses, tau, eta, puzzle, velocity)
        gap = eta[puzzle] * torch.linalg.vector_norm(_combined(difference, result.slopes), dim=-1)
        _check_finite(gap, tau)
        error = segment_max(gap, puzzle, len(tau))
        accepted = (eta > 0) & ((error <= tolerance) | (eta <= MIN_STEP))
        moves = accepted[puzzle][:, None]
        moved = result.poses.polish()
        poses = SE3(
            torch.where(moves[..., None], moved.rotation, poses.rotation),
            torch.where(moves, moved.translation, poses.translation),
        )
        velocity = torch.where(moves, result.last, velocity)
        arrives = eta >= 1 - tau
        tau = torch.where(accepted, torch.where(arrives, torch.ones_like(tau), tau + eta), tau)
        # The error of a step goes as eta^3; aim a little below the tolerance and never change the step abruptly.
        growth = (0.9 * (tolerance / error.clamp(min=1e-12)) ** (1 / 3)).clamp(0.2, 5.0)
        eta = (eta * growth).clamp(min=MIN_STEP)
        if bool(accepted.any()):
            yield tau, poses
