"""SO(3) and SE(3) are groups, act on points, and have the Lie algebra that their matrices have."""

import math

import pytest
import torch
from support.closeness import assert_near
from support.oracles import skew_matrix, twist_matrix, unit_vectors

from eda.errors import InputError
from eda.lie import SE3, so3
from eda.lie.se3 import bracket

DTYPES = [torch.float32, torch.float64]
ANGLES = [0.0, 1e-8, 1e-3, 0.5, math.sqrt(0.5), 1.0, 2.0, 3.0, math.pi, 5.0]
ROUNDING = {torch.float32: 5e-6, torch.float64: 1e-14}

both_precisions = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def poses(count: int, seed: int, dtype: torch.dtype = torch.float64) -> SE3:
    source = generator(seed)
    rotation = so3.random(count, generator=source, dtype=dtype)
    return SE3(rotation, torch.randn(count, 3, generator=source, dtype=dtype))


def normal(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=dtype)


def assert_same_motion(g: SE3, h: SE3, tolerance: float) -> None:
    assert_near(g.rotation, h.rotation, tolerance)
    assert_near(g.translation, h.translation, tolerance)


# -- the group ---------------------------------------------------------------------------------------------


@both_precisions
def test_composition_is_associative(dtype):
    g, h, k = (poses(50, seed, dtype) for seed in range(3))
    assert_same_motion((g @ h) @ k, g @ (h @ k), ROUNDING[dtype])


def test_composition_is_not_commutative():
    g, h = poses(50, 0), poses(50, 1)
    assert ((g @ h).rotation - (h @ g).rotation).norm(dim=(-2, -1)).min() > 1e-2


@both_precisions
def test_inverse_undoes_from_both_sides(dtype):
    g = poses(50, 0, dtype)
    one = SE3.identity(50, dtype=dtype)
    assert_same_motion(g @ g.inverse(), one, ROUNDING[dtype])
    assert_same_motion(g.inverse() @ g, one, ROUNDING[dtype])


@both_precisions
def test_identity_is_neutral_from_both_sides(dtype):
    g = poses(50, 0, dtype)
    one = SE3.identity(50, dtype=dtype)
    assert_same_motion(g @ one, g, 0)
    assert_same_motion(one @ g, g, 0)


@both_precisions
def test_rotations_stay_rotations(dtype):
    g = poses(50, 0, dtype) @ poses(50, 1, dtype) @ poses(50, 2, dtype).inverse()
    assert_near(g.rotation @ g.rotation.mT, torch.eye(3, dtype=dtype).expand(50, 3, 3), ROUNDING[dtype])
    assert_near(torch.linalg.det(g.rotation), torch.ones(50, dtype=dtype), ROUNDING[dtype])


@both_precisions
def test_act_composes(dtype):
    g, h, x = poses(50, 0, dtype), poses(50, 1, dtype), normal(50, 3, seed=2, dtype=dtype)
    assert_near((g @ h).act(x), g.act(h.act(x)), ROUNDING[dtype])


def test_identity_moves_nothing():
    x = normal(50, 3, seed=0)
    assert_near(SE3.identity(50, dtype=torch.float64).act(x), x, 0)


def test_act_preserves_distances_and_orientation():
    g, x = poses(50, 0), normal(4, 50, 3, seed=1)
    moved = g.act(x)
    assert_near((moved[0] - moved[1]).norm(dim=-1), (x[0] - x[1]).norm(dim=-1), 1e-14)
    edges, moved_edges = (torch.stack([p[i] - p[0] for i in (1, 2, 3)], -1) for p in (x, moved))
    assert_near(torch.linalg.det(moved_edges), torch.linalg.det(edges), 1e-12)


def test_act_is_the_homogeneous_matrix():
    g, x = poses(50, 0), normal(50, 3, seed=1)
    homogeneous = torch.cat([x, torch.ones(50, 1, dtype=x.dtype)], dim=-1)
    moved = (g.matrix() @ homogeneous[..., None]).squeeze(-1)
    assert_near(moved[:, :3], g.act(x), 1e-14)
    assert_near(moved[:, 3], torch.ones(50, dtype=x.dtype), 0)


@both_precisions
def test_matrix_is_a_homomorphism(dtype):
    g, h = poses(50, 0, dtype), poses(50, 1, dtype)
    assert_near((g @ h).matrix(), g.matrix() @ h.matrix(), ROUNDING[dtype])
    assert_near(g.inverse().matrix(), torch.linalg.inv(g.matrix()), ROUNDING[dtype])


@pytest.mark.parametrize("rows", [3, 4])
def test_from_matrix_inverts_matrix(rows):
    g = poses(50, 0)
    assert_same_motion(SE3.from_matrix(g.matrix()[..., :rows, :]), g, 0)


def test_one_motion_broadcasts_over_a_batch():
    g, h, x = poses(1, 0)[0], poses(50, 1), normal(50, 3, seed=2)
    assert_same_motion(g @ h, SE3.stack([g] * 50) @ h, 1e-14)
    assert_same_motion(h @ g, h @ SE3.stack([g] * 50), 1e-14)
    assert_near(g.act(x), SE3.stack([g] * 50).act(x), 1e-14)


def test_batch_operations_only_rearrange():
    g = poses(6, 0)
    assert len(g) == 6
    assert g.shape == (6,)
    assert g.reshape(2, 3).shape == (2, 3)
    assert_same_motion(g.reshape(2, 3)[1, 2], g[5], 0)
    assert_same_motion(SE3.stack([g[i] for i in range(6)]), g, 0)
    assert_same_motion(SE3.cat([g[:2], g[2:]]), g, 0)
    assert_same_motion(SE3.stack([g, g.inverse()], dim=1)[:, 1], g.inverse(), 0)
    assert g.to(torch.float32).translation.dtype == g.to(torch.float32).rotation.dtype == torch.float32


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_isfinite_sees_both_parts(bad):
    g = poses(5, 0)
    assert g.isfinite()
    assert not SE3(g.rotation, g.translation.index_fill(0, torch.tensor([3]), bad)).isfinite()
    assert not SE3(g.rotation.index_fill(0, torch.tensor([3]), bad), g.translation).isfinite()


# -- the exponential and its derivative --------------------------------------------------------------------


@pytest.mark.parametrize("angle", ANGLES)
@both_precisions
def test_so3_exp_is_the_matrix_exponential(angle, dtype):
    w = angle * unit_vectors(20, dtype)
    expected = torch.matrix_exp(skew_matrix(w.double())).to(dtype)
    assert_near(so3.exp(w), expected, {torch.float32: 2e-6, torch.float64: 5e-15}[dtype])


@pytest.mark.parametrize("angle", ANGLES)
@both_precisions
def test_se3_exp_is_the_matrix_exponential(angle, dtype):
    twist = torch.cat([angle * unit_vectors(20, dtype), normal(20, 3, seed=1, dtype=dtype)], dim=-1)
    expected = torch.matrix_exp(twist_matrix(twist.double())).to(dtype)
    assert_near(SE3.exp(twist).matrix(), expected, {torch.float32: 2e-6, torch.float64: 1e-14}[dtype])


def test_exp_of_multiples_of_one_twist_is_a_one_parameter_group():
    twist = normal(50, 6, seed=0)
    assert_same_motion(SE3.exp(0.3 * twist) @ SE3.exp(0.9 * twist), SE3.exp(1.2 * twist), 1e-13)
    assert_same_motion(SE3.exp(-twist), SE3.exp(twist).inverse(), 1e-13)


def test_hat_is_the_cross_product():
    w, y = normal(20, 3, seed=0), normal(20, 3, seed=1)
    assert_near((so3.hat(w) @ y[..., None]).squeeze(-1), torch.linalg.cross(w, y), 4e-15)


@pytest.mark.parametrize("angle", ANGLES)
def test_left_jacobian_is_the_derivative_of_exp(angle):
    """Central differences of exp(w + h d) exp(w)^-1, whose derivative in h is the skew matrix of J d."""
    w, d, h = angle * unit_vectors(20), unit_vectors(20, seed=1).flip(0), 1e-5
    ahead, behind, back = (torch.matrix_exp(skew_matrix(v)) for v in (w + h * d, w - h * d, -w))
    expected = (ahead - behind) / (2 * h) @ back
    assert_near(skew_matrix((so3.left_jacobian(w) @ d[..., None]).squeeze(-1)), expected, 1e-9)


@pytest.mark.parametrize("angle", ANGLES)
@both_precisions
def test_inverse_left_jacobian_is_the_inverse(angle, dtype):
    w = angle * unit_vectors(20, dtype)
    one = torch.eye(3, dtype=dtype).expand(20, 3, 3)
    assert_near(so3.inverse_left_jacobian(w) @ so3.left_jacobian(w), one, ROUNDING[dtype])
    assert_near(so3.left_jacobian(w) @ so3.inverse_left_jacobian(w), one, ROUNDING[dtype])


@pytest.mark.parametrize("angle", ANGLES)
def test_left_jacobian_minus_its_transpose_turns_forward(angle):
    """J(w) = exp(w) J(-w), and J(-w) = J(w)^T."""
    w = angle * unit_vectors(20)
    assert_near(so3.left_jacobian(-w), so3.left_jacobian(w).mT, 4e-15)
    assert_near(so3.left_jacobian(w), so3.exp(w) @ so3.left_jacobian(-w), 1e-14)


# -- the algebra -------------------------------------------------------------------------------------------


@both_precisions
def test_adjoint_conjugates(dtype):
    g, twist = poses(50, 0, dtype), normal(50, 6, seed=1, dtype=dtype)
    assert_same_motion(SE3.exp(g.adjoint(twist)), g @ SE3.exp(twist) @ g.inverse(), 4 * ROUNDING[dtype])


def test_adjoint_is_conjugation_of_twist_matrices():
    g, twist = poses(50, 0), normal(50, 6, seed=1)
    expected = g.matrix() @ twist_matrix(twist) @ g.inverse().matrix()
    assert_near(twist_matrix(g.adjoint(twist)), expected, 1e-13)


def test_adjoint_is_a_homomorphism():
    g, h, twist = poses(50, 0), poses(50, 1), normal(50, 6, seed=2)
    assert_near((g @ h).adjoint(twist), g.adjoint(h.adjoint(twist)), 1e-13)


def test_bracket_is_the_commutator():
    a, b = normal(50, 6, seed=0), normal(50, 6, seed=1)
    A, B = twist_matrix(a), twist_matrix(b)
    assert_near(twist_matrix(bracket(a, b)), A @ B - B @ A, 1e-13)


def test_bracket_is_the_derivative_of_adjoint():
    a, b, h = normal(50, 6, seed=0), normal(50, 6, seed=1), 1e-5
    difference = (SE3.exp(h * a).adjoint(b) - SE3.exp(-h * a).adjoint(b)) / (2 * h)
    assert_near(bracket(a, b), difference, 1e-8)


def test_bracket_is_antisymmetric():
    a, b = normal(50, 6, seed=0), normal(50, 6, seed=1)
    assert_near(bracket(a, b), -bracket(b, a), 1e-14)


def test_jacobi_identity():
    a, b, c = (normal(50, 6, seed=seed) for seed in range(3))
    total = bracket(a, bracket(b, c)) + bracket(b, bracket(c, a)) + bracket(c, bracket(a, b))
    assert bracket(a, bracket(b, c)).abs().max() > 1
    assert_near(total, torch.zeros_like(total), 1e-13)


def test_adjoint_preserves_bracket():
    g, a, b = poses(50, 0), normal(50, 6, seed=1), normal(50, 6, seed=2)
    assert_near(g.adjoint(bracket(a, b)), bracket(g.adjoint(a), g.adjoint(b)), 1e-12)


# -- back to the group -------------------------------------------------------------------------------------


def matrices(kind: str) -> torch.Tensor:
    if kind == "generic":
        return normal(40, 3, 3, seed=0)
    if kind == "reflection":
        return so3.random(40, generator=generator(0), dtype=torch.float64) @ torch.diag(
            torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)
        )
    if kind == "noisy rotation":
        return so3.random(40, generator=generator(0), dtype=torch.float64) + 0.1 * normal(40, 3, 3, seed=1)
    rank = {"rank 0": 0, "rank 1": 1, "rank 2": 2}[kind]
    return normal(40, 3, rank, seed=0) @ normal(40, rank, 3, seed=1)


KINDS = ["generic", "reflection", "noisy rotation", "rank 0", "rank 1", "rank 2"]


@pytest.mark.parametrize("kind", KINDS)
@both_precisions
def test_nearest_is_a_rotation_never_a_reflection(kind, dtype):
    found = so3.nearest(matrices(kind).to(dtype))
    assert_near(found @ found.mT, torch.eye(3, dtype=dtype).expand_as(found), ROUNDING[dtype])
    assert_near(torch.linalg.det(found), torch.ones(len(found), dtype=dtype), ROUNDING[dtype])


@pytest.mark.parametrize("kind", KINDS)
def test_nearest_is_beaten_by_no_rotation(kind):
    """Neither by rotations from everywhere nor by small turns of the answer."""
    matrix = matrices(kind)
    found = so3.nearest(matrix)
    best = (found - matrix).norm(dim=(-2, -1))
    anywhere = so3.random(2000, 1, generator=generator(3), dtype=torch.float64)
    turns = torch.matrix_exp(skew_matrix(torch.cat([s * unit_vectors(30) for s in (1e-3, 0.1)])))[:, None]
    for rivals in (anywhere, turns @ found):
        assert ((rivals - matrix).norm(dim=(-2, -1)) >= best - 1e-12).all()


@both_precisions
def test_nearest_keeps_rotations(dtype):
    rotation = so3.random(40, generator=generator(0), dtype=dtype)
    assert_near(so3.nearest(rotation), rotation, ROUNDING[dtype])


def orthogonality_error(matrix: torch.Tensor) -> torch.Tensor:
    return (matrix.mT @ matrix - torch.eye(3, dtype=matrix.dtype)).norm(dim=(-2, -1))


@pytest.mark.parametrize("noise", [1e-2, 1e-4, 1e-6])
def test_polish_squares_the_orthogonality_error(noise):
    rotation = so3.random(40, generator=generator(0), dtype=torch.float64)
    rough = rotation + noise * normal(40, 3, 3, seed=1)
    assert (orthogonality_error(so3.polish(rough)) <= orthogonality_error(rough).square() + 1e-15).all()


def test_polish_goes_to_the_nearest_rotation():
    rotation = so3.random(40, generator=generator(0), dtype=torch.float64)
    rough = rotation + 1e-4 * normal(40, 3, 3, seed=1)
    assert_near(so3.polish(rough), so3.nearest(rough), 1e-6)


def test_polish_takes_the_drift_out_of_a_long_float32_product():
    steps = so3.random(2000, generator=generator(0))
    plain = polished = torch.eye(3)
    for step in steps:
        plain, polished = step @ plain, so3.polish(step @ polished)
    assert orthogonality_error(polished) < 1e-6
    assert orthogonality_error(plain) > 3 * orthogonality_error(polished)


def test_polish_commutes_with_rotations_from_both_sides():
    left, middle, right = (poses(40, seed).rotation for seed in range(3))
    rough = middle + 0.1 * normal(40, 3, 3, seed=3)
    assert_near(so3.polish(left @ rough @ right), left @ so3.polish(rough) @ right, 1e-14)


def test_polish_of_a_motion_keeps_its_translation():
    g = poses(40, 0)
    rough = SE3(g.rotation + 1e-4 * normal(40, 3, 3, seed=1), g.translation)
    assert_same_motion(rough.polish(), SE3(so3.polish(rough.rotation), g.translation), 0)


# -- what surrounds it -------------------------------------------------------------------------------------


def tensors(value: SE3 | torch.Tensor) -> list[torch.Tensor]:
    return [value.rotation, value.translation] if isinstance(value, SE3) else [value]


OPERATIONS = {
    "compose": lambda g, h, x, twist: g @ h,
    "inverse": lambda g, h, x, twist: g.inverse(),
    "act": lambda g, h, x, twist: g.act(x),
    "exp": lambda g, h, x, twist: SE3.exp(twist),
    "exp by keyword": lambda g, h, x, twist: SE3.exp(twist=twist),
    "log": lambda g, h, x, twist: g.log(),
    "adjoint": lambda g, h, x, twist: g.adjoint(twist),
    "bracket": lambda g, h, x, twist: bracket(g.log(), twist),
    "polish": lambda g, h, x, twist: g.polish(),
    "matrix": lambda g, h, x, twist: g.matrix(),
    "so3.exp": lambda g, h, x, twist: so3.exp(x),
    "so3.log": lambda g, h, x, twist: so3.log(g.rotation),
    "so3.angle": lambda g, h, x, twist: so3.angle(g.rotation),
    "so3.left_jacobian": lambda g, h, x, twist: so3.left_jacobian(x),
    "so3.inverse_left_jacobian": lambda g, h, x, twist: so3.inverse_left_jacobian(x),
    "so3.nearest": lambda g, h, x, twist: so3.nearest(g.rotation + h.rotation),
    "so3.random": lambda g, h, x, twist: so3.random(50, generator=generator(5)),
}


@pytest.mark.parametrize("name", OPERATIONS)
@both_precisions
def test_autocast_changes_no_bit(name, dtype):
    g, h = poses(50, 0, dtype), poses(50, 1, dtype)
    arguments = (g, h, normal(50, 3, seed=2, dtype=dtype), normal(50, 6, seed=3, dtype=dtype))
    expected = OPERATIONS[name](*arguments)
    with torch.autocast("cpu", torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16, "autocast must be on"
        found = OPERATIONS[name](*arguments)
        assert torch.is_autocast_enabled("cpu"), "autocast must stay on for what follows"
    for a, b in zip(tensors(found), tensors(expected), strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("rotation", "translation"),
    [
        ((3, 3), (4,)),
        ((3, 4), (3,)),
        ((4, 4), (4,)),
        ((3,), (3,)),
        ((5, 3, 3), (3,)),
        ((3, 3), (5, 3)),
        ((5, 3, 3), (4, 3)),
    ],
)
def test_poses_of_wrong_shape_are_refused(rotation, translation):
    with pytest.raises(InputError, match="a pose needs"):
        SE3(torch.zeros(rotation), torch.zeros(translation))


def test_poses_of_mixed_precision_are_refused():
    with pytest.raises(InputError, match="share dtype"):
        SE3(torch.eye(3), torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize("size", [3, 5, 7])
def test_twists_of_wrong_size_are_refused(size):
    with pytest.raises(InputError, match="6 components"):
        SE3.exp(torch.zeros(4, size))


@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (2, 4), (5, 4, 5)])
def test_matrices_of_wrong_shape_are_refused(shape):
    with pytest.raises(InputError, match="expected matrices"):
        SE3.from_matrix(torch.zeros(shape))
