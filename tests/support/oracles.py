"""Oracles that share no code with the package: slow, plain, and written from the definitions."""

import math

import numpy as np
import torch
from e3nn import o3
from scipy.interpolate import BSpline
from scipy.spatial.transform import Rotation
from scipy.stats import kstest
from torch import Tensor, nn


def unit_vectors(count: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    """Directions uniform on the sphere, after the six along the axes."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(count, 3, generator=generator, dtype=torch.float64)
    axes = torch.cat([torch.eye(3, dtype=torch.float64), -torch.eye(3, dtype=torch.float64)])
    return torch.cat([axes, drawn / drawn.norm(dim=-1, keepdim=True)])[:count].to(dtype)


def skew_matrix(vector: Tensor) -> Tensor:
    """The matrix of y -> w x y, column by column. (..., 3) -> (..., 3, 3)."""
    columns = [torch.linalg.cross(vector, e.expand_as(vector)) for e in torch.eye(3, dtype=vector.dtype)]
    return torch.stack(columns, dim=-1)


def twist_matrix(twist: Tensor) -> Tensor:
    """The 4 x 4 matrix of a twist (w, t), whose exponential is a rigid motion. (..., 6) -> (..., 4, 4)."""
    matrix = twist.new_zeros(*twist.shape[:-1], 4, 4)
    matrix[..., :3, :3] = skew_matrix(twist[..., :3])
    matrix[..., :3, 3] = twist[..., 3:]
    return matrix


# -- rotations and weights for the tests of the network ----------------------------------------------------


def haar_rotations(count: int, seed: int = 0) -> Tensor:
    """Rotations by scipy. -> (count, 3, 3) float64."""
    return torch.from_numpy(Rotation.random(count, random_state=seed).as_matrix())


def turned(features: Tensor, rotation: Tensor) -> Tensor:
    """Features (..., M, C) of all degrees under one rotation (3, 3), by e3nn's Wigner matrices."""
    degrees = range(math.isqrt(features.shape[-2]))
    parts = [e3nn_wigner(rotation, l) @ features[..., l * l : (l + 1) ** 2, :] for l in degrees]
    return torch.cat(parts, dim=-2)


def e3nn_wigner(rotation: Tensor, degree: int) -> Tensor:
    """D^l of a rotation (3, 3), from Y^l(R x) = D Y^l(x) on a few x: e3nn's own D has only float32 digits."""
    x = unit_vectors(4 * degree + 8)
    moved = o3.spherical_harmonics(degree, x @ rotation.T, normalize=True)
    return torch.linalg.lstsq(o3.spherical_harmonics(degree, x, normalize=True), moved).solution.T


def stirred(module: nn.Module, seed: int = 0, size: float = 0.2) -> nn.Module:
    """In float64, every parameter moved at random: what begins at zero or one must not hide what it does."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(size * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return module


# -- edge attention as the paper writes it -----------------------------------------------------------------


def cubic_spline(control: Tensor, length: float) -> Tensor:
    """The uniform cubic B-spline in x = r / (r + 1) on [0, 1], control values (T, ...). -> (...)."""
    intervals = len(control) - 3
    knots = np.arange(-3, intervals + 4) / intervals
    return torch.from_numpy(np.asarray(BSpline(knots, control.numpy(), 3)(length / (length + 1))))


def frame_onto_y(direction: Tensor, seed: int = 0) -> Tensor:
    """Some rotation r with r d = (0, 1, 0), turned at random about it: its rows are an orthonormal basis."""
    helper = torch.randn(3, generator=torch.Generator().manual_seed(seed), dtype=direction.dtype)
    first = torch.linalg.cross(direction, helper)
    first = first / first.norm()
    return torch.stack([first, direction, torch.linalg.cross(first, direction)])


def so2_matrix(a: Tensor, b: Tensor) -> Tensor:
    """D_K of one channel, eq. (D_K), from a_0 .. a_L and b_1 .. b_L; rows and columns are orders -L .. L."""
    L = len(b)
    D = torch.zeros(2 * L + 1, 2 * L + 1, dtype=a.dtype)
    D[L, L] = a[0]
    for m in range(1, L + 1):
        D[L - m, L - m] = D[L + m, L + m] = a[m]
        D[L - m, L + m], D[L + m, L - m] = -b[m - 1], b[m - 1]
    return D


def edge_message(feature: Tensor, vector: Tensor, weight: Tensor, control: Tensor) -> Tensor:
    """K_v = R^T (W (D R F_v)) of one edge, eq. (QKV_SO2), every degree padded to 2L + 1 orders.

    feature (M, C); weight (L+1, L+1, O, C), from the second degree and C to the first and O;
    control (T, 2L+1, C) of a_0 .. a_L, b_1 .. b_L. -> (M, O).
    """
    L = math.isqrt(len(feature)) - 1
    slots = [slice(L - l, L + l + 1) for l in range(L + 1)]
    r = frame_onto_y(vector / vector.norm())
    F = torch.zeros(L + 1, 2 * L + 1, feature.shape[1], dtype=feature.dtype)
    R = torch.zeros(L + 1, 2 * L + 1, 2 * L + 1, dtype=feature.dtype)
    for l, slot in enumerate(slots):
        F[l, slot] = feature[l * l : (l + 1) ** 2]
        R[l, slot, slot] = e3nn_wigner(r, l)
    coefficients = cubic_spline(control, float(vector.norm()))
    Z = R @ F
    for c in range(Z.shape[2]):
        Z[:, :, c] = Z[:, :, c] @ so2_matrix(coefficients[: L + 1, c], coefficients[L + 1 :, c]).T
    K = R.mT @ torch.einsum("tsoc,smc->tmo", weight, Z)
    return torch.cat([K[l, slot] for l, slot in enumerate(slots)])


def brute_force_attention(
    features: Tensor,
    queries: Tensor,
    neighbors: Tensor,
    vectors: Tensor,
    key_weight: Tensor,
    value_weight: Tensor,
    key_control: Tensor,
    value_control: Tensor,
    num_heads: int,
) -> Tensor:
    """A_u of eq. (attention), edge by edge. A head owns channels of Z = D R F, so columns of W_K and W_V.

    features (S, M, C), queries (U, M, O), neighbors (U, k), vectors (U, k, 3); weights and controls as for
    `edge_message`. -> (U, M, O of value_weight).
    """
    result = torch.zeros(len(queries), features.shape[1], value_weight.shape[2], dtype=features.dtype)
    width = features.shape[2] // num_heads
    for u in range(len(queries)):
        seen = [(int(v), x) for v, x in zip(neighbors[u], vectors[u], strict=True) if v >= 0 and x.norm() > 0]
        for h in range(num_heads if seen else 0):
            own = slice(h * width, (h + 1) * width)
            keys = [edge_message(features[v, :, own], x, key_weight[..., own], key_control[..., own]) for v, x in seen]
            values = [
                edge_message(features[v, :, own], x, value_weight[..., own], value_control[..., own]) for v, x in seen
            ]
            scores = [math.exp(float((queries[u] * K).sum())) for K in keys]
            for score, V in zip(scores, values, strict=True):
                result[u] += score / sum(scores) * V
    return result


def haar_p_value(rotation: Tensor) -> float:
    """Kolmogorov-Smirnov: how well the angles of rotations follow Haar's density (1 - cos a) / pi."""
    angle = Rotation.from_matrix(rotation.double().numpy()).magnitude()
    return float(kstest(angle, lambda a: (a - np.sin(a)) / np.pi).pvalue)


# -- places of pieces that look at each other ---------------------------------------------------------------


def invariants(features: Tensor, offset: Tensor, reach: float) -> Tensor:
    """Of every place: its scalars, the lengths of its features, how they lie to the offset, and its length."""
    distance = offset.norm(dim=1, keepdim=True)
    degrees = range(1, round(features.shape[1] ** 0.5))
    parts = [features[:, l * l : (l + 1) ** 2] for l in degrees]
    lengths = [(part.square().sum(1) + 1e-6).sqrt() for part in parts]
    spheres = [o3.spherical_harmonics(l, offset / (distance + reach), False, "component") for l in degrees]
    toward = [torch.einsum("pm,pmc->pc", sphere, part) for sphere, part in zip(spheres, parts, strict=True)]
    return torch.cat([features[:, 0], *lengths, *toward, distance / reach], dim=1)


def looked(layer: nn.Module, places: Tensor, at: list[list[int]]) -> Tensor:
    """A layer of a transformer, place by place and head by head: place i looks at those in at[i]."""
    query, key, value = (
        part.unflatten(1, (4, -1)).unbind(1) for part in layer.look(layer.norm(places)).chunk(3, dim=1)
    )
    rows = []
    for i, others in enumerate(at):
        place = places[i]
        if others:
            scores = [k[others] @ q[i] / len(q[i]) ** 0.5 for q, k in zip(query, key, strict=True)]
            seen = [torch.softmax(s, 0) @ v[others] for s, v in zip(scores, value, strict=True)]
            place = place + layer.output(torch.cat(seen))
        rows.append(place + layer.feed(layer.norm_feed(place)))
    return torch.stack(rows)


def kabsch(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The rotation and the translation that fit, and the second singular value of the covariance."""
    w = w / w.sum()
    middle, goal = w @ x, w @ y
    left, singular, right = np.linalg.svd((w[:, None] * (y - goal)).T @ (x - middle))
    rotation = left @ np.diag([1, 1, np.linalg.det(left @ right)]) @ right
    return rotation, goal - rotation @ middle, singular[1]
