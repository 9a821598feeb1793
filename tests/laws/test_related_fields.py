"""Lemma F.1 and Cor. F.3 (Thm. 2 of Köhler et al. 2020): related fields have related flows.

If v is F-related to w, F after the flow of v is the flow of w after F. The corollary is the case w = v in Euclidean
space. Fields are formulas, and the flows are those of the solvers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from support.oracles import haar_rotations
from support.rigid_motions import random_se3
from torch import Tensor

from eda.flow import SOLVERS, integrate
from eda.lie import SE3

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}
in_both_precisions = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
by_all_solvers = pytest.mark.parametrize("solver", SOLVERS)
Field = Callable[[SE3, Tensor], Tensor]
COUNT = 4


def flow(field: Field, start: SE3, solver: str, steps: int = 5) -> SE3:
    return integrate(field, start, solver=solver, steps=steps).final


def distance(a: SE3, b: SE3) -> float:
    return float((a.matrix() - b.matrix()).abs().max())


def start(dtype: torch.dtype) -> SE3:
    return random_se3(COUNT, 0).to(dtype)


def weights(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) / 4


def smooth(poses: SE3, tau: Tensor) -> Tensor:
    """A field without any symmetry: every piece is different and sees the mean of all."""
    rows = poses.matrix()[:, :3].flatten(1)
    seen = torch.cat([rows, rows.mean(0, keepdim=True).expand_as(rows)], dim=1)
    hidden = torch.sin(seen @ weights(1, 24, 8).to(seen) + weights(2, COUNT, 8).to(seen) + tau)
    return hidden @ weights(3, 8, 6).to(seen)


# -- Lemma F.1, on SE(3)^N -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Map:
    """A diffeomorphism F of SE(3)^N, and the field that `smooth` is F-related to."""

    apply: Callable[[SE3], SE3]
    related: Field


def left(dtype: torch.dtype) -> Map:
    """L_h with a rotation h of the whole. (A translation would change the error that the adaptive solver estimates.)"""
    h = SE3(haar_rotations(1, seed=5), torch.zeros(1, 3, dtype=torch.float64)).to(dtype)
    return Map(lambda g: h @ g, lambda g, tau: h.adjoint(smooth(h.inverse() @ g, tau)))


def right(dtype: torch.dtype) -> Map:
    """R_h: a motion of every piece in its own frame. The spatial twist stays the same."""
    h = random_se3(COUNT, 6).to(dtype)
    return Map(lambda g: g @ h, lambda g, tau: smooth(g @ h.inverse(), tau))


def permutation(_: torch.dtype) -> Map:
    """sigma: the pieces in another order."""
    order = torch.tensor([2, 0, 3, 1])
    return Map(lambda g: g[order], lambda g, tau: smooth(g[order.argsort()], tau)[order])


MAPS = {"left": left, "right": right, "permutation": permutation}


@in_both_precisions
@by_all_solvers
@pytest.mark.parametrize("name", MAPS)
def test_related_fields_have_related_flows(name, solver, dtype):
    """To rounding, since every step of a solver has these equivariances too."""
    F, g = MAPS[name](dtype), start(dtype)
    moved = F.apply(flow(smooth, g, solver))
    assert distance(moved, flow(F.related, F.apply(g), solver)) < TOLERANCE[dtype]
    assert distance(moved, flow(smooth, F.apply(g), solver)) > 0.05, "the field is not related to itself"


def test_related_flows_of_a_map_that_steps_do_not_follow_agree_in_the_limit():
    """The inversion g -> g^-1: d(g^-1)/dtau = -Ad_{g^-1}(f) g^-1. A step does not commute with it; the flow does."""
    inverse = Map(SE3.inverse, lambda g, tau: -g.adjoint(smooth(g.inverse(), tau)))
    g = start(torch.float64)
    gaps = [
        distance(inverse.apply(flow(smooth, g, "rkmk4", n)), flow(inverse.related, inverse.apply(g), "rkmk4", n))
        for n in (10, 40)
    ]
    assert gaps[1] < 1e-7
    assert gaps[1] < gaps[0] / 100  # fourth order: 256 times less


# -- Cor. F.3, in Euclidean space ----------------------------------------------------------------------------


def attraction(poses: SE3, tau: Tensor) -> Tensor:
    """Points that attract each other by a function of their distance: it commutes with motions and permutations."""
    x = poses.translation
    offset = x[None] - x[:, None]
    pull = (offset / (1 + offset.square().sum(-1, keepdim=True) + tau)).sum(1)
    return torch.cat([torch.zeros_like(pull), pull], dim=1)


def drift(poses: SE3, tau: Tensor) -> Tensor:
    """The same with a wind, which no rotation leaves alone."""
    return attraction(poses, tau) + torch.tensor([0, 0, 0, 1.0, 0, 0]).to(poses.translation)


def points(dtype: torch.dtype) -> SE3:
    x = 4 * weights(4, COUNT, 3).to(dtype)
    return SE3(SE3.identity(COUNT, dtype=dtype).rotation, x)


def euclidean(g: SE3) -> SE3:
    """F on R^3N: points are rotated, shifted and permuted."""
    R, order = haar_rotations(1, seed=3)[0].to(g.translation), torch.tensor([1, 3, 0, 2])
    return SE3(g.rotation, (g.translation @ R.T + 0.5)[order])


@in_both_precisions
@by_all_solvers
def test_the_flow_of_an_invariant_field_commutes_with_the_map(solver, dtype):
    x = points(dtype)
    there = euclidean(flow(attraction, x, solver))
    assert distance(there, flow(attraction, euclidean(x), solver)) < TOLERANCE[dtype]
    assert distance(there, euclidean(x)) > 0.1, "the flow goes somewhere"


@by_all_solvers
def test_the_flow_of_another_field_does_not(solver):
    x = points(torch.float64)
    assert distance(euclidean(flow(drift, x, solver)), flow(drift, euclidean(x), solver)) > 0.1
