"""Appendix C: the theory on two pieces with one solution, step by step, with an f that is a formula.

f knows the assembled clouds: it reads by which rotations A and B the two pieces differ from them, and turns both
towards each other at the rate that makes A = B at tau = 1.
"""

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from support.closeness import assert_near
from support.oracles import haar_rotations
from torch import Tensor

from eda.flow import integrate
from eda.lie import SE3

WHOLE = np.random.default_rng(0).normal(size=(2, 8, 3))  # Y_1 and Y_2, assembled
r_1, r_2, r_3, r_4, r_5 = haar_rotations(5, seed=1)
X = np.stack([WHOLE[0] @ r_1.numpy(), WHOLE[1] @ r_2.numpy()])  # r_i^-1 Y_i, so that (r_1, r_2) is a solution
NOISE = haar_rotations(2, seed=2)


def f(clouds: np.ndarray, names: tuple[int, int] = (0, 1)) -> np.ndarray:
    """w of both pieces, for one unit of time. `names` says which of the two assembled clouds each of them is."""
    A, B = (Rotation.align_vectors(clouds[i], WHOLE[name])[0] for i, name in enumerate(names))
    half = (B * A.inv()).as_rotvec() / 2
    return np.stack([half, -half])


def flow(clouds: np.ndarray, noise: Tensor, names: tuple[int, int] = (0, 1)) -> Tensor:
    """Where v_X(g) = f(g X) g leads from the noise, eq. (4). -> the rotations (2, 3, 3)."""

    def field(poses: SE3, tau: Tensor) -> Tensor:
        w = f(np.einsum("nij,npj->npi", poses.rotation.numpy(), clouds), names) / (1 - float(tau))
        return torch.cat([torch.from_numpy(w), torch.zeros(2, 3, dtype=torch.float64)], dim=1)

    start = SE3(noise, torch.zeros(2, 3, dtype=torch.float64))
    return integrate(field, start, solver="rk1", steps=4).final.rotation


@pytest.mark.parametrize("seed", range(3))
def test_the_field_flows_to_the_solution(seed):
    """From any noise; up to a rotation of the whole."""
    g_1, g_2 = flow(X, haar_rotations(2, seed=10 + seed))
    assert_near(g_2.T @ g_1, r_2.T @ r_1)


def test_it_also_works_for_turned_pieces():
    """Cor. 4.4 and Prop. 4.5: for (r_3 X_1, r_4 X_2) it flows to (g_1 r_3^-1, g_2 r_4^-1)."""
    turned = np.stack([X[0] @ r_3.numpy().T, X[1] @ r_4.numpy().T])
    back = torch.stack([r_3.T, r_4.T])
    assert_near(flow(turned, NOISE @ back), flow(X, NOISE) @ back)
    g_1, g_2 = flow(turned, NOISE)  # and from any other noise, since P_0 is invariant
    assert_near(g_2.T @ g_1, r_4 @ r_2.T @ r_1 @ r_3.T)


def test_f_follows_permutations_and_rotations_of_both():
    """The conditions of Prop. 4.6: f(X_2, X_1) is swapped, and f(r X_1, r X_2) is turned."""
    w = f(X)
    np.testing.assert_allclose(f(X[::-1], (1, 0)), w[::-1], atol=1e-12)
    np.testing.assert_allclose(f(X @ r_5.numpy().T), w @ r_5.numpy().T, atol=1e-12)


def test_so_does_the_assembly():
    """The conclusions of Prop. 4.6."""
    assert_near(flow(X[::-1], NOISE.flip(0), (1, 0)), flow(X, NOISE).flip(0))
    assert_near(flow(X, r_5 @ NOISE), r_5 @ flow(X, NOISE))


def test_a_field_that_is_not_related_does_not_work_for_turned_pieces():
    """The negative control: v_X(g) = f(X) g looks at the pieces as they came, not at g X."""

    def field(poses: SE3, tau: Tensor) -> Tensor:
        return torch.cat([torch.from_numpy(f(X)), torch.zeros(2, 3, dtype=torch.float64)], dim=1)

    start = SE3(NOISE, torch.zeros(2, 3, dtype=torch.float64))
    g_1, g_2 = integrate(field, start, solver="rk1", steps=4).final.rotation
    assert float((g_2.T @ g_1 - r_2.T @ r_1).abs().max()) > 0.1
