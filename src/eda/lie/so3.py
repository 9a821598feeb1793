"""SO(3) on tensors of shape (..., 3, 3), and its algebra as rotation vectors of shape (..., 3).

Every function is batched, differentiable, and accurate for all angles from 0 to pi in float32 and float64. Near 0 the
coefficients come from their Taylor series. Near pi the logarithm is computed from a unit quaternion.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from eda.lie.precision import full_precision

# Below this squared angle the closed forms lose digits, and the series of nine terms is exact in float64.
_SERIES_BELOW = 0.5


def _series(x: Tensor, coefficients: Sequence[Any]) -> Tensor:
    """The polynomial sum_n coefficients[n] x^n by Horner's rule. Rows of coefficients give several polynomials."""
    table = torch.tensor(coefficients, dtype=x.dtype, device=x.device)
    total = table[-1]
    for constant in reversed(table[:-1].unbind()):
        total = torch.addcmul(constant, total, x)
    return total


def _split(squared_angle: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Whether to use the series, a squared angle that is safe for it, and an angle that is safe for the closed form.

    Both branches of `torch.where` are evaluated and differentiated, so each gets an argument at which it is finite.
    """
    small = squared_angle < _SERIES_BELOW
    safe_square = torch.where(small, squared_angle, torch.zeros_like(squared_angle))
    safe_angle = torch.where(small, torch.ones_like(squared_angle), squared_angle).sqrt()
    return small, safe_square, safe_angle


# Taylor coefficients in the squared angle of sin(a)/a, (1 - cos a)/a^2 and (a - sin a)/a^3.
_EXP_SERIES = [[(-1) ** n / math.factorial(2 * n + offset) for offset in (1, 2, 3)] for n in range(9)]
# |B_2n| / (2n)! with the Bernoulli numbers B_2 .. B_18.
_BERNOULLI = [1 / 6, 1 / 30, 1 / 42, 1 / 30, 5 / 66, 691 / 2730, 7 / 6, 3617 / 510, 43867 / 798]
_COTANGENT_DEFECT = [b / math.factorial(2 * n + 2) for n, b in enumerate(_BERNOULLI)]


def _exp_coefficients(squared_angle: Tensor) -> Tensor:
    """sin(a)/a, (1 - cos a)/a^2 and (a - sin a)/a^3 for the angle a. (...) -> (..., 3)."""
    small, square, angle = _split(squared_angle)
    sine, half_sine = torch.sin(angle), torch.sin(angle / 2) / angle
    closed = torch.stack([sine / angle, 2 * half_sine**2, (angle - sine) / angle**3], dim=-1)
    return torch.where(small[..., None], _series(square[..., None], _EXP_SERIES), closed)


def hat(vector: Tensor) -> Tensor:
    """The skew matrix w_x with w_x y = w x y, eq. (5). (..., 3) -> (..., 3, 3)."""
    x, y, z = vector.unbind(-1)
    zero = torch.zeros_like(x)
    rows = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], dim=-1)
    return rows.reshape(*vector.shape[:-1], 3, 3)


@full_precision
def exp(vector: Tensor) -> Tensor:
    """The rotation by |w| about w. (..., 3) -> (..., 3, 3)."""
    return exp_and_left_jacobian(vector)[0]


@full_precision
def exp_and_left_jacobian(vector: Tensor) -> tuple[Tensor, Tensor]:
    """`exp` and `left_jacobian`, which share most of their work. (..., 3) -> (..., 3, 3) twice."""
    sinc, versine, defect = _exp_coefficients(vector.square().sum(-1))[..., None, None].unbind(-3)
    skew = hat(vector)
    square = skew @ skew
    eye = torch.eye(3, dtype=vector.dtype, device=vector.device)
    return eye + sinc * skew + versine * square, eye + versine * skew + defect * square


@full_precision
def quaternion(rotation: Tensor) -> Tensor:
    """The unit quaternion (w, x, y, z) with w >= 0. (..., 3, 3) -> (..., 4).

    There are four formulas, which divide by one component each. The one with the largest component (at least 1/2) is
    used, so no digits are lost anywhere, not even at pi.
    """
    r = rotation.flatten(-2)
    xx, xy, xz, yx, yy, yz, zx, zy, zz = r.unbind(-1)
    candidates = torch.stack(
        [
            torch.stack([1 + xx + yy + zz, zy - yz, xz - zx, yx - xy], -1),
            torch.stack([zy - yz, 1 + xx - yy - zz, xy + yx, xz + zx], -1),
            torch.stack([xz - zx, xy + yx, 1 - xx + yy - zz, yz + zy], -1),
            torch.stack([yx - xy, xz + zx, yz + zy, 1 - xx - yy + zz], -1),
        ],
        dim=-2,
    )
    largest = candidates.diagonal(dim1=-2, dim2=-1).detach().argmax(-1)
    index = largest[..., None, None].expand(*largest.shape, 1, 4)
    chosen = candidates.gather(-2, index).squeeze(-2)
    unit = chosen / torch.linalg.vector_norm(chosen, dim=-1, keepdim=True)
    return torch.where(unit[..., :1] < 0, -unit, unit)


@full_precision
def log(rotation: Tensor) -> Tensor:
    """The shortest rotation vector. (..., 3, 3) -> (..., 3). At exactly pi there are two; one of them is returned."""
    q = quaternion(rotation)
    cosine, sine = q[..., 0], q[..., 1:]
    square = sine.square().sum(-1)
    small = square < 1e-4
    # angle / |sine| = 2 atan(x) / (x cosine) with x = |sine| / cosine.
    tangent_square = torch.where(small, square / torch.where(small, cosine, 1).square(), 0)
    series = 2 / torch.where(small, cosine, 1) * _series(tangent_square, [1, -1 / 3, 1 / 5, -1 / 7, 1 / 9])
    length = torch.where(small, torch.ones_like(square), square).sqrt()
    closed = 2 * torch.atan2(length, cosine) / length
    return torch.where(small, series, closed)[..., None] * sine


@full_precision
def angle(rotation: Tensor) -> Tensor:
    """The angle of a rotation in radians, by atan2: near 0 the arccos of the trace loses half of its digits."""
    q = quaternion(rotation)
    return 2 * torch.atan2(torch.linalg.vector_norm(q[..., 1:], dim=-1), q[..., 0])


@full_precision
def left_jacobian(vector: Tensor) -> Tensor:
    """J with exp(w + d) = exp(J d) exp(w) to first order. (..., 3) -> (..., 3, 3)."""
    return exp_and_left_jacobian(vector)[1]


@full_precision
def inverse_left_jacobian(vector: Tensor) -> Tensor:
    """The inverse of `left_jacobian`, in closed form; finite for angles below 2 pi."""
    small, square, angle = _split(vector.square().sum(-1))
    closed = (1 - angle / 2 / torch.tan(angle / 2)) / angle**2
    coefficient = torch.where(small, _series(square, _COTANGENT_DEFECT), closed)
    skew = hat(vector)
    return (
        torch.eye(3, dtype=vector.dtype, device=vector.device) - skew / 2 + coefficient[..., None, None] * (skew @ skew)
    )


def random(
    *shape: int,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """Rotations drawn from the Haar measure U_SO(3). -> (*shape, 3, 3).

    A normal vector in R^4 points to a uniform unit quaternion. (A uniform angle about a uniform axis is not Haar.)
    """
    q = torch.randn(*shape, 4, generator=generator, dtype=dtype, device=device)
    return from_quaternion(q / torch.linalg.vector_norm(q, dim=-1, keepdim=True))


@full_precision
def from_quaternion(quaternion: Tensor) -> Tensor:
    """The rotation of a unit quaternion (w, x, y, z). (..., 4) -> (..., 3, 3)."""
    w, x, y, z = quaternion.unbind(-1)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(rows, dim=-1).reshape(*quaternion.shape[:-1], 3, 3)


@full_precision
def nearest(matrix: Tensor, damping: float = 0.0) -> Tensor:
    """The rotation nearest to a matrix in the Frobenius norm, never a reflection. (..., 3, 3) -> (..., 3, 3).

    Where it is hardly unique its gradient is large. With a `damping`, relative to the matrix, it is bounded instead.
    """
    return _Nearest.apply(matrix, damping)


class _Nearest(torch.autograd.Function):
    """`nearest` with its own backward: that of the SVD divides by differences of singular values, which vanish."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, damping: float) -> Tensor:
        left, singular, right = torch.linalg.svd(matrix)
        sign = _handedness(left) * _handedness(right)
        signs = torch.stack([torch.ones_like(sign), torch.ones_like(sign), sign], dim=-1)
        left, singular = left * signs[..., None, :], singular * signs
        ctx.save_for_backward(left, singular, right)
        ctx.damping = damping
        return left @ right

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        left, singular, right = ctx.saved_tensors
        inner = left.mT @ gradient @ right.mT
        total = singular[..., :, None] + singular[..., None, :]
        # A sum of zero means that the nearest rotation is not unique; the gradient is set to zero there.
        safe = torch.where(total > 0, total, torch.inf)
        if ctx.damping:
            safe = safe + (ctx.damping * singular[..., :1, None]).square() / safe
        return left @ ((inner - inner.mT) / safe) @ right, None


def _handedness(orthogonal: Tensor) -> Tensor:
    """1 for rotations and -1 for reflections, cheaper than a determinant. (..., 3, 3) -> (...)."""
    first, second, third = orthogonal.unbind(-2)
    return (torch.linalg.cross(first, second) * third).sum(-1).sign()


@full_precision
def polish(rotation: Tensor) -> Tensor:
    """A product of rotations without its rounding errors: one Newton step towards the nearest rotation.

    Unlike Gram-Schmidt it commutes with rotations from both sides, so it does not break equivariance.
    """
    return 1.5 * rotation - 0.5 * rotation @ (rotation.mT @ rotation)
