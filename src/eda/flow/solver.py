"""Solvers for dg/dtau = f_tau(g) g on SE(3)^N (Sec. 4.4 and Appendix E).

A solver is a table of Runge-Kutta coefficients and one of two step functions. `products` multiplies exponentials of the
stages, as the paper's RK4 does (which is of second order on this group). `munthe_kaas` solves the equation in the Lie
algebra, where the classical orders hold. tau is (B,), one time per puzzle, so that an adaptive solver may
walk every puzzle at its own pace and a puzzle does not depend on its companions.
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
from eda.segment import segment_max

# An adaptive step this short is taken whatever its error: a field that jumps must not stop the walk.
SHORTEST_STEP = 1e-3

Field = Callable[[SE3, Tensor], Tensor]  # poses (N,), tau (B,) -> spatial twists (N, 6)


@dataclass(frozen=True)
class Table:
    """Coefficients of a Runge-Kutta method (a Butcher tableau); `embedded` are the weights of a lower order twin."""

    stages: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    nodes: tuple[float, ...]
    embedded: tuple[float, ...] | None = None


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
class Stepped:
    """Where a step led, and what it saw on the way."""

    poses: SE3  # (N,)
    slopes: list[Tensor]  # the stages k_i, each (N, 6)
    last: Tensor  # (N, 6) the field as evaluated last


# (table, field, poses (N,), tau (B,), eta (B,), puzzle (N,), the field at poses if it is known) -> Stepped
Step = Callable[[Table, Field, SE3, Tensor, Tensor, Tensor, Tensor | None], Stepped]


def products(
    table: Table,
    field: Field,
    poses: SE3,
    tau: Tensor,
    eta: Tensor,
    puzzle: Tensor,
    first: Tensor | None = None,
) -> Stepped:
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
        known = first is not None and not slopes
        slopes.append(first if known else field(along(coefficients), tau + node * eta))  # type: ignore[arg-type]
    return Stepped(along(table.weights), slopes, slopes[-1])


def munthe_kaas(
    table: Table,
    field: Field,
    poses: SE3,
    tau: Tensor,
    eta: Tensor,
    puzzle: Tensor,
    first: Tensor | None = None,
) -> Stepped:
    """g <- exp(eta sum_i b_i k_i) g, with g(tau) = exp(Theta) g and Theta' = dexp^-1_Theta(f) solved by the table."""
    step = eta[puzzle][:, None]
    velocity = field(poses, tau) if first is None else first
    slopes = [velocity]
    for coefficients, node in zip(table.stages[1:], table.nodes[1:], strict=True):
        theta = step * _combined(coefficients, slopes)
        velocity = field(SE3.exp(theta) @ poses, tau + node * eta)
        slopes.append(_dexp_inverse(theta, velocity))
    return Stepped(SE3.exp(step * _combined(table.weights, slopes)) @ poses, slopes, velocity)


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
    step: Step


SOLVERS = {
    "rk1": Solver(EULER, products),
    "rk4": Solver(CLASSICAL, products),
    "rkmk4": Solver(CLASSICAL, munthe_kaas),
    "adaptive": Solver(BOGACKI_SHAMPINE, munthe_kaas),
}


@dataclass(frozen=True)
class Progress:
    """What a callback is told after every step; it returns True to stop there."""

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

    Haar noise may be any rotation, so the end of one round is a beginning of the next. tau counts on in what is told
    and returned: a second round takes it from 1 to 2.

    `puzzle` (N,) says which puzzle a piece belongs to (default: all to one). Solvers of a fixed step take `steps` of
    them; "adaptive" begins with a step of 1 / steps and then chooses its own, so that the estimated error of each stays
    below `tolerance` (radians, and units of the puzzle's size).
    """
    if solver not in SOLVERS:
        raise InputError(f"unknown solver {solver!r}: choose one of {', '.join(SOLVERS)}")
    if steps < 1 or rounds < 1:
        raise InputError(f"steps and rounds must be at least 1, got {steps} and {rounds}")
    if not tolerance > 0:
        raise InputError(f"tolerance must be positive, got {tolerance}")
    if puzzle is None:
        puzzle = torch.zeros(len(noise), dtype=torch.long, device=noise.translation.device)
    if puzzle.shape != noise.shape:
        raise InputError(f"{tuple(noise.shape)} poses need as many puzzle indices, got {tuple(puzzle.shape)}")
    taus, poses = [_zero_times(noise, puzzle)], [noise]
    for tau, moved in _rounds(SOLVERS[solver], field, noise, puzzle, steps, rounds, tolerance):
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
            walk = _fixed_steps(solver, field, poses, puzzle, steps)
        else:
            walk = _adaptive_steps(solver, field, poses, puzzle, steps, tolerance)
        for tau, poses in walk:
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
        # A puzzle that has arrived takes steps of zero while the others walk on.
        eta = torch.minimum(eta, 1 - tau)
        stepped = solver.step(table, field, poses, tau, eta, puzzle, velocity)
        gap = eta[puzzle] * torch.linalg.vector_norm(_combined(difference, stepped.slopes), dim=-1)
        _check_finite(gap, tau)
        error = segment_max(gap, puzzle, len(tau))
        accepted = (eta > 0) & ((error <= tolerance) | (eta <= SHORTEST_STEP))
        moves = accepted[puzzle][:, None]
        moved = stepped.poses.polish()
        poses = SE3(
            torch.where(moves[..., None], moved.rotation, poses.rotation),
            torch.where(moves, moved.translation, poses.translation),
        )
        velocity = torch.where(moves, stepped.last, velocity)
        arrives = eta >= 1 - tau
        tau = torch.where(accepted, torch.where(arrives, torch.ones_like(tau), tau + eta), tau)
        # The error of a step goes as eta^3; aim a little below the tolerance and never change the step abruptly.
        growth = (0.9 * (tolerance / error.clamp(min=1e-12)) ** (1 / 3)).clamp(0.2, 5.0)
        eta = (eta * growth).clamp(min=SHORTEST_STEP)
        if bool(accepted.any()):
            yield tau, poses
