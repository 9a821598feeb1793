"""Spherical harmonics and Wigner-D matrices of any degree, from one table per degree.

The table `stretch_table(l)` is the isometry that projects (degree l) x (degree 1) to degree l + 1, by the
Clebsch-Gordan coefficients <l m 1 s | l+1 m+s>. It raises the degree of harmonics and of rotation matrices:

    Y^{l+1}(x) ~ S (Y^l(x) x Y^1(x)),        D^{l+1}(R) = S (D^l(R) x D^1(R)) S^T.

There are no Euler angles, hence no singular directions, and D is a polynomial in the entries of R. The basis is that
of e3nn: the polar axis is y, orders are m = -l .. l, and degree 1 is (x, y, z) itself. So D^1(R) = R, and a feature of
degree 1 is an ordinary vector. A rotation about the y axis rotates each pair (-m, m) of a degree by m times its angle.

Features of all degrees 0 .. L are stacked: degree l in rows l^2 .. (l+1)^2 - 1, M = (L+1)^2 rows in all.
"""

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from eda.lie.precision import full_precision


def degree_rows(degree: int) -> slice:
    """The rows of degree l among the stacked rows."""
    return slice(degree**2, (degree + 1) ** 2)


def rows_of(max_degree: int) -> int:
    """M, the number of stacked rows."""
    return (max_degree + 1) ** 2


@full_precision
def wigner(rotation: Tensor, max_degree: int) -> list[Tensor]:
    """[D^0, ..., D^L] of a rotation. (..., 3, 3) -> L + 1 tensors (..., 2l+1, 2l+1)."""
    blocks = [torch.ones_like(rotation[..., :1, :1]), rotation]
    for degree in range(1, max_degree):
        stretch = _stretch_like(degree, rotation)
        previous = blocks[-1]
        # D^l x D^1 as one (2l+1) 3 x (2l+1) 3 matrix.
        product = previous[..., :, None, :, None] * rotation[..., None, :, None, :]
        product = product.flatten(-4, -3).flatten(-2, -1)
        blocks.append(stretch @ product @ stretch.mT)
    return blocks[: max_degree + 1]


@full_precision
def harmonics(direction: Tensor, max_degree: int) -> Tensor:
    """[Y^0, ..., Y^L] of unit vectors, each degree of norm sqrt(2l+1). (..., 3) -> (..., M)."""
    blocks = [torch.ones_like(direction[..., :1]), math.sqrt(3) * direction]
    for degree in range(1, max_degree):
        stretch = _stretch_like(degree, direction)
        product = (blocks[-1][..., :, None] * direction[..., None, :]).flatten(-2, -1)
        blocks.append(_raising_gain(degree) * product @ stretch.mT)
    return torch.cat(blocks[: max_degree + 1], dim=-1)


def rotate_features(features: Tensor, blocks: list[Tensor]) -> Tensor:
    """D(r) F, degree by degree. Features (..., M, C), blocks as from `wigner`."""
    turned = [D @ features[..., degree_rows(l), :] for l, D in enumerate(blocks[1:], start=1)]
    return torch.cat([features[..., :1, :], *turned], dim=-2)  # D^0 = 1


def _raising_gain(degree: int) -> float:
    """The factor that gives S (Y^l x unit vector) the norm of degree l + 1."""
    pole = np.zeros(2 * degree + 1)
    pole[degree] = math.sqrt(2 * degree + 1)
    raised = stretch_table(degree) @ np.kron(pole, [0.0, 1.0, 0.0])
    return math.sqrt(2 * degree + 3) / float(raised[degree + 1])


@lru_cache(maxsize=64)
def _stretch_tensor(degree: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(stretch_table(degree), dtype=dtype, device=device)


def _stretch_like(degree: int, like: Tensor) -> Tensor:
    return _stretch_tensor(degree, like.dtype, like.device)


@lru_cache(maxsize=32)
def stretch_table(degree: int) -> np.ndarray:
    """S, the real form of <l m 1 s | l+1 m+s>. -> (2l+3, (2l+1) 3)."""
    l = degree
    complex_table = np.zeros((2 * l + 3, 2 * l + 1, 3))
    for m in range(-l, l + 1):
        up = math.sqrt((l + m + 1) * (l + m + 2) / ((2 * l + 1) * (2 * l + 2)))
        level = math.sqrt((l - m + 1) * (l + m + 1) / ((2 * l + 1) * (l + 1)))
        down = math.sqrt((l - m + 1) * (l - m + 2) / ((2 * l + 1) * (2 * l + 2)))
        for s, value in ((1, up), (0, level), (-1, down)):
            complex_table[m + s + l + 1, m + l, s + 1] = value
    real = np.einsum(
        "am,mnp,bn,cp->abc",
        _real_from_complex(l + 1), complex_table, _real_from_complex(l).conj(), _real_from_complex(1).conj(),
    )  # fmt: skip
    assert np.abs(real.imag).max() < 1e-12
    return real.real.reshape(2 * l + 3, -1)


def _real_from_complex(degree: int) -> np.ndarray:
    """The unitary matrix from complex harmonics (Condon-Shortley phase) to real ones, orders -l .. l."""
    l = degree
    matrix = np.zeros((2 * l + 1, 2 * l + 1), dtype=complex)
    matrix[l, l] = 1
    for m in range(1, l + 1):
        matrix[l + m, l + m], matrix[l + m, l - m] = (-1) ** m / math.sqrt(2), 1 / math.sqrt(2)
        matrix[l - m, l - m], matrix[l - m, l + m] = 1j / math.sqrt(2), -1j * (-1) ** m / math.sqrt(2)
    return matrix
