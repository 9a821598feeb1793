"""Wigner matrices represent rotations, harmonics follow them, and both are e3nn's; edges get frames."""

import math

import pytest
import torch
from e3nn import o3
from scipy.special import eval_legendre
from support.closeness import assert_near
from support.oracles import unit_vectors

from eda.lie import so3
from eda.lie.frames import edge_frames
from eda.lie.wigner import degree_rows, harmonics, rotate_features, rows_of, wigner

L = 6
DEGREES = range(L + 1)
DTYPES = [torch.float32, torch.float64]
ROUNDING = {torch.float32: 2e-6, torch.float64: 1e-14}  # of the entries of D, which are below 1

both_precisions = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
at_all_degrees = pytest.mark.parametrize("degree", DEGREES)


def rotations(count: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return so3.random(count, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def apply(matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return (matrix @ vector[..., None]).squeeze(-1)


def turn_about_y(angle: torch.Tensor) -> torch.Tensor:
    return so3.exp(angle[..., None] * torch.tensor([0.0, 1.0, 0.0], dtype=angle.dtype))


# -- Wigner matrices ---------------------------------------------------------------------------------------


@at_all_degrees
@both_precisions
def test_wigner_is_a_homomorphism(degree, dtype):
    R, S = rotations(50, 0, dtype), rotations(50, 1, dtype)
    expected = wigner(R, L)[degree] @ wigner(S, L)[degree]
    assert_near(wigner(R @ S, L)[degree], expected, ROUNDING[dtype])


@at_all_degrees
@both_precisions
def test_wigner_is_orthogonal(degree, dtype):
    D = wigner(rotations(50, 0, dtype), L)[degree]
    one = torch.eye(2 * degree + 1, dtype=dtype).expand_as(D)
    assert_near(D @ D.mT, one, 4 * ROUNDING[dtype])
    assert (torch.linalg.det(D) > 0).all()


@at_all_degrees
def test_wigner_of_the_identity_is_the_identity(degree):
    found = wigner(torch.eye(3, dtype=torch.float64), L)[degree]
    assert_near(found, torch.eye(2 * degree + 1, dtype=torch.float64), 1e-14)


@at_all_degrees
def test_wigner_of_the_inverse_is_the_transpose(degree):
    R = rotations(50)
    assert_near(wigner(R.mT, L)[degree], wigner(R, L)[degree].mT, 1e-14)


@both_precisions
def test_degree_0_does_not_turn_and_degree_1_is_the_rotation(dtype):
    R = rotations(50, 0, dtype)
    blocks = wigner(R, L)
    assert torch.equal(blocks[0], torch.ones(50, 1, 1, dtype=dtype))
    assert torch.equal(blocks[1], R)


@at_all_degrees
def test_trace_of_wigner_is_the_character(degree):
    angle = torch.linspace(0.1, math.pi, 20, dtype=torch.float64)
    rotation = so3.exp(angle[:, None] * unit_vectors(20))
    found = wigner(rotation, L)[degree].diagonal(dim1=-2, dim2=-1).sum(-1)
    assert_near(found, torch.sin((degree + 0.5) * angle) / torch.sin(angle / 2), 1e-13)


@at_all_degrees
def test_turn_about_y_turns_each_pair_by_its_order(degree):
    """D mixes -m with m and nothing else, as the plane turns by m times the angle."""
    angle = torch.linspace(-3, 3, 13, dtype=torch.float64)
    expected = torch.zeros(13, 2 * degree + 1, 2 * degree + 1, dtype=torch.float64)
    expected[:, degree, degree] = 1
    for m in range(1, degree + 1):
        minus, plus = degree - m, degree + m
        expected[:, minus, minus] = expected[:, plus, plus] = torch.cos(m * angle)
        expected[:, minus, plus], expected[:, plus, minus] = torch.sin(m * angle), -torch.sin(m * angle)
    assert_near(wigner(turn_about_y(angle), L)[degree], expected, 1e-14)


@pytest.fixture
def _float64_by_default():
    """e3nn computes its generators in the default precision."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@at_all_degrees
@pytest.mark.usefixtures("_float64_by_default")
def test_wigner_agrees_with_e3nn(degree):
    alpha, beta, gamma = o3.matrix_to_angles(rotations(50))
    R = o3.angles_to_matrix(alpha, beta, gamma)
    assert_near(wigner(R, L)[degree], o3.wigner_D(degree, alpha, beta, gamma), 1e-13)


@pytest.mark.parametrize("degree", [1, 2, 5])
@pytest.mark.parametrize("angle", [0.0, 1.0])
def test_wigner_has_the_right_gradient_where_euler_angles_are_singular(degree, angle):
    turn = turn_about_y(torch.tensor(angle, dtype=torch.float64))
    w = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w: wigner(so3.exp(w) @ turn, L)[degree], (w,), atol=1e-8)


# -- harmonics ---------------------------------------------------------------------------------------------


@at_all_degrees
@both_precisions
def test_harmonics_are_equivariant(degree, dtype):
    R, x = rotations(50, 0, dtype), unit_vectors(50, dtype)
    rows = degree_rows(degree)
    expected = apply(wigner(R, L)[degree], harmonics(x, L)[:, rows])
    assert_near(harmonics(apply(R, x), L)[:, rows], expected, 5 * ROUNDING[dtype])


@at_all_degrees
@both_precisions
def test_harmonics_agree_with_e3nn(degree, dtype):
    x = unit_vectors(200)
    expected = o3.spherical_harmonics(degree, x, normalize=True, normalization="component").to(dtype)
    assert_near(harmonics(x.to(dtype), L)[:, degree_rows(degree)], expected, 5 * ROUNDING[dtype])


@at_all_degrees
def test_harmonics_obey_the_addition_theorem(degree):
    """Y(x) . Y(y) = (2l+1) P_l(x . y): the norm, and that no two degrees are mixed up."""
    x, y = unit_vectors(50, seed=0), unit_vectors(50, seed=1).flip(0)
    rows = degree_rows(degree)
    found = (harmonics(x, L)[:, rows] * harmonics(y, L)[:, rows]).sum(-1)
    expected = (2 * degree + 1) * torch.tensor(eval_legendre(degree, (x * y).sum(-1).clamp(-1, 1).numpy()))
    assert_near(found, expected, 3e-13)


@at_all_degrees
def test_harmonics_have_the_parity_of_their_degree(degree):
    x, rows = unit_vectors(50), degree_rows(degree)
    assert_near(harmonics(-x, L)[:, rows], (-1) ** degree * harmonics(x, L)[:, rows], 1e-14)


def test_harmonics_at_the_pole_have_order_0_only():
    found = harmonics(torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64), L)
    expected = torch.zeros_like(found)
    for l in DEGREES:
        expected[l * l + l] = math.sqrt(2 * l + 1)
    assert_near(found, expected, 1e-14)


@at_all_degrees
def test_lower_degrees_do_not_depend_on_the_highest(degree):
    R, x = rotations(5), unit_vectors(5)
    assert len(wigner(R, degree)) == degree + 1
    assert torch.equal(wigner(R, degree)[-1], wigner(R, L)[degree])
    assert harmonics(x, degree).shape == (5, rows_of(degree))
    assert torch.equal(harmonics(x, degree), harmonics(x, L)[:, : rows_of(degree)])


# -- features ----------------------------------------------------------------------------------------------


@both_precisions
def test_rotate_features_is_the_block_diagonal_matrix(dtype):
    features = torch.randn(20, rows_of(L), 4, generator=torch.Generator().manual_seed(0), dtype=dtype)
    blocks = wigner(rotations(20, 0, dtype), L)
    expected = torch.stack([torch.block_diag(*[D[i] for D in blocks]) @ features[i] for i in range(20)])
    assert_near(rotate_features(features, blocks), expected, 5 * ROUNDING[dtype])


def test_rotate_features_composes():
    features = torch.randn(20, rows_of(L), 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    R, S = rotations(20, 0), rotations(20, 1)
    expected = rotate_features(rotate_features(features, wigner(S, L)), wigner(R, L))
    assert_near(rotate_features(features, wigner(R @ S, L)), expected, 5e-14)


def test_rotate_features_turns_degree_1_as_vectors():
    vectors = unit_vectors(20)
    features = torch.zeros(20, rows_of(2), 1, dtype=torch.float64)
    features[:, degree_rows(1), 0] = vectors
    R = rotations(20)
    turned = rotate_features(features, wigner(R, 2))
    assert_near(turned[:, degree_rows(1), 0], apply(R, vectors), 4e-15)
    assert_near(turned[:, degree_rows(2), 0], torch.zeros(20, 5, dtype=torch.float64), 0)


# -- frames ------------------------------------------------------------------------------------------------


def directions(place: str, dtype: torch.dtype) -> torch.Tensor:
    """Unit vectors everywhere, or a tilt (from none to a percent) away from a pole or from the equator."""
    if place == "anywhere":
        return unit_vectors(500, dtype)
    tilt = torch.tensor([0.0, 1e-30, 1e-12, 1e-8, 1e-6, 1e-4, 1e-3, 1e-2], dtype=torch.float64)[:, None]
    turn = torch.linspace(0, 2 * math.pi, 17, dtype=torch.float64)
    x, z = tilt * 0 + torch.cos(turn), tilt * 0 + torch.sin(turn)
    y = torch.cos(tilt).expand_as(x), torch.sin(tilt).expand_as(x)
    d = {
        "north pole": lambda: torch.stack([torch.sin(tilt) * x, y[0], torch.sin(tilt) * z], -1),
        "south pole": lambda: torch.stack([torch.sin(tilt) * x, -y[0], torch.sin(tilt) * z], -1),
        "above the equator": lambda: torch.stack([torch.cos(tilt) * x, y[1], torch.cos(tilt) * z], -1),
        "below the equator": lambda: torch.stack([torch.cos(tilt) * x, -y[1], torch.cos(tilt) * z], -1),
    }
    return d[place]().reshape(-1, 3).to(dtype)


PLACES = ["anywhere", "north pole", "south pole", "above the equator", "below the equator"]
everywhere = pytest.mark.parametrize("place", PLACES)


@everywhere
@both_precisions
def test_edge_frames_turn_the_edge_onto_y(place, dtype):
    d = directions(place, dtype)
    pole = torch.tensor([0.0, 1.0, 0.0], dtype=dtype).expand_as(d)
    assert_near(apply(edge_frames(d), d), pole, 8 * torch.finfo(dtype).eps)


@everywhere
@both_precisions
def test_edge_frames_are_rotations(place, dtype):
    R = edge_frames(directions(place, dtype))
    rounding = 10 * torch.finfo(dtype).eps
    assert_near(R @ R.mT, torch.eye(3, dtype=dtype).expand_as(R), rounding)
    assert_near(torch.linalg.det(R), torch.ones(len(R), dtype=dtype), rounding)


@everywhere
@both_precisions
def test_edge_frames_have_finite_gradients(place, dtype):
    d = directions(place, dtype).requires_grad_()
    R = edge_frames(d)
    R.backward(torch.linspace(-1, 1, R.numel(), dtype=dtype).reshape(R.shape))
    assert d.grad.isfinite().all()


def test_edge_frames_at_the_poles_are_near_the_ones_beside_them():
    """The jump of the construction is at the equator, so at a pole there is none."""
    for place in ("north pole", "south pole"):
        d = directions(place, torch.float64)
        R = edge_frames(d)
        tilt = (d - d[:1]).norm(dim=-1)
        assert ((R - R[:1]).norm(dim=(-2, -1)) <= 2 * tilt + 1e-14).all()


@at_all_degrees
def test_edge_frames_turn_harmonics_of_the_edge_to_order_0(degree):
    d = unit_vectors(50)
    found = apply(wigner(edge_frames(d), L)[degree], harmonics(d, L)[:, degree_rows(degree)])
    expected = torch.zeros_like(found)
    expected[:, degree] = math.sqrt(2 * degree + 1)
    assert_near(found, expected, 1e-13)


# -- what surrounds it -------------------------------------------------------------------------------------


@both_precisions
def test_autocast_changes_no_bit(dtype):
    R, d = rotations(20, 0, dtype), unit_vectors(20, dtype)

    def everything() -> list[torch.Tensor]:
        return [*wigner(R, L), harmonics(d, L), edge_frames(d)]

    expected = everything()
    with torch.autocast("cpu", torch.bfloat16):
        found = everything()
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == dtype
        assert torch.equal(a, b)
