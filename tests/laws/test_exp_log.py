"""exp and log undo each other, agree with scipy, and have the right gradients at every angle from 0 to pi."""

import math

import pytest
import scipy.linalg
import torch
from scipy.spatial.transform import Rotation
from support.closeness import assert_near
from support.oracles import skew_matrix, twist_matrix, unit_vectors
from torch.autograd import gradcheck, gradgradcheck

from eda.lie import SE3, so3

DTYPES = [torch.float32, torch.float64]
SERIES = math.sqrt(0.5)  # the angle at which the coefficients of exp change from series to closed form
LOG_SERIES = 2 * math.asin(1e-2)  # and the one of log
SWITCHES = {"exp": SERIES, "log": LOG_SERIES}
TINY = [1e-30, 1e-8, 1e-4]
MIDDLE = [0.999 * LOG_SERIES, 1.001 * LOG_SERIES, 0.15, 0.999 * SERIES, 1.001 * SERIES, 1.0, 2.5]
NEAR_PI = [math.pi - 1e-1, math.pi - 1e-3, math.pi - 1e-6]
ANGLES = [0.0, *TINY, *MIDDLE, *NEAR_PI]

both_precisions = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
at_all_angles = pytest.mark.parametrize("angle", ANGLES)


def epsilon(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps


def translations(count: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(7), dtype=dtype)


def twists(angle: float, count: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.cat([angle * unit_vectors(count, dtype), translations(count, dtype)], dim=-1)


def align_sign(vector: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Of a rotation vector and its opposite, which are one rotation at pi, the one nearer to `like`."""
    return torch.where((vector * like).sum(-1, keepdim=True) < 0, -vector, vector)


# -- round trips -------------------------------------------------------------------------------------------


@at_all_angles
@both_precisions
def test_log_undoes_exp(angle, dtype):
    """To a relative rounding error, which keeps every digit of a tiny rotation."""
    w = angle * unit_vectors(40, dtype)
    found = so3.log(so3.exp(w))
    if math.pi - angle < 20 * epsilon(dtype):
        found = align_sign(found, w)
    assert_near(found, w, 8 * epsilon(dtype) * angle)


@at_all_angles
@both_precisions
def test_exp_undoes_log(angle, dtype):
    rotation = Rotation.from_rotvec(angle * unit_vectors(40).numpy()).as_matrix()
    rotation = torch.tensor(rotation, dtype=dtype)
    assert_near(so3.exp(so3.log(rotation)), rotation, 16 * epsilon(dtype))


@both_precisions
def test_exp_undoes_log_on_random_rotations(dtype):
    rotation = so3.random(2000, generator=torch.Generator().manual_seed(0), dtype=dtype)
    assert_near(so3.exp(so3.log(rotation)), rotation, 20 * epsilon(dtype))


@both_precisions
def test_log_of_half_turns_is_pi_times_the_axis_up_to_sign(dtype):
    axis = unit_vectors(40)
    half_turn = (2 * axis[:, :, None] * axis[:, None, :] - torch.eye(3, dtype=torch.float64)).to(dtype)
    found = so3.log(half_turn)
    assert_near(align_sign(found, axis.to(dtype)), (math.pi * axis).to(dtype), 16 * epsilon(dtype))
    assert_near(so3.exp(found), half_turn, 8 * epsilon(dtype))


@both_precisions
def test_log_is_the_shortest(dtype):
    """Also for motions that were made by a longer way round."""
    axis = unit_vectors(40, dtype)
    for angle in (3.5, 5.0, 6.0):
        found = so3.log(so3.exp(angle * axis))
        assert_near(found, (angle - 2 * math.pi) * axis, 30 * epsilon(dtype))


@pytest.mark.parametrize("angle", [*ANGLES[:-1], math.pi - 1e-5])
@both_precisions
def test_se3_log_undoes_exp(angle, dtype):
    twist = twists(angle, 40, dtype)
    found = SE3.exp(twist).log()
    assert_near(found[:, :3], twist[:, :3], 8 * epsilon(dtype) * angle)
    assert_near(found[:, 3:], twist[:, 3:], 30 * epsilon(dtype))


@pytest.mark.parametrize("angle", [*ANGLES, math.pi])
@both_precisions
def test_se3_exp_undoes_log(angle, dtype):
    rotation = Rotation.from_rotvec(angle * unit_vectors(40).numpy()).as_matrix()
    g = SE3(torch.tensor(rotation, dtype=dtype), translations(40, dtype))
    back = SE3.exp(g.log())
    assert_near(back.rotation, g.rotation, 16 * epsilon(dtype))
    assert_near(back.translation, g.translation, 60 * epsilon(dtype))


@both_precisions
def test_pure_translations_are_their_own_logarithm(dtype):
    t = translations(40, dtype)
    twist = torch.cat([torch.zeros_like(t), t], dim=-1)
    assert torch.equal(SE3.exp(twist).translation, t)
    assert torch.equal(SE3.exp(twist).log(), twist)


# -- against scipy -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("angle", [*ANGLES, math.pi, 4.0, 6.0])
def test_exp_agrees_with_scipy(angle):
    w = angle * unit_vectors(40)
    assert_near(so3.exp(w), torch.tensor(Rotation.from_rotvec(w.numpy()).as_matrix()), 2e-15)


@at_all_angles
def test_log_agrees_with_scipy(angle):
    matrix = Rotation.from_rotvec(angle * unit_vectors(40).numpy()).as_matrix()
    expected = torch.tensor(Rotation.from_matrix(matrix).as_rotvec())
    assert_near(so3.log(torch.tensor(matrix)), expected, 4e-15)


@pytest.mark.parametrize("angle", [0.0, 1e-4, 0.15, 1.0, math.pi - 1e-1])
def test_log_is_the_matrix_logarithm(angle):
    for w in angle * unit_vectors(9)[-3:]:
        rotation = torch.matrix_exp(skew_matrix(w))
        expected = torch.tensor(scipy.linalg.logm(rotation.numpy()).real)
        assert_near(skew_matrix(so3.log(rotation)), expected, 1e-12)


@pytest.mark.parametrize("angle", [0.0, 1e-4, 0.15, 1.0, math.pi - 1e-1])
def test_se3_log_is_the_matrix_logarithm(angle):
    for twist in twists(angle, 9)[-3:]:
        matrix = torch.matrix_exp(twist_matrix(twist))
        expected = torch.tensor(scipy.linalg.logm(matrix.numpy()).real)
        assert_near(twist_matrix(SE3.from_matrix(matrix).log()), expected, 1e-12)


@pytest.mark.parametrize("angle", [angle for angle in [*ANGLES, math.pi] if angle != 1e-30])
@both_precisions
def test_angle_keeps_every_digit(angle, dtype):
    rotation = torch.matrix_exp(skew_matrix(angle * unit_vectors(40))).to(dtype)
    tolerance = 8 * epsilon(dtype) * angle
    assert_near(so3.angle(rotation), torch.full((40,), angle, dtype=dtype), tolerance)


@pytest.mark.parametrize("angle", [*ANGLES, math.pi])
@both_precisions
def test_quaternion_is_the_half_angle_one(angle, dtype):
    axis = unit_vectors(40)
    expected = torch.cat([torch.full_like(axis[:, :1], math.cos(angle / 2)), math.sin(angle / 2) * axis], dim=-1)
    rotation = torch.tensor(Rotation.from_quat(expected.numpy(), scalar_first=True).as_matrix(), dtype=dtype)
    found = so3.quaternion(rotation)
    assert (found[:, 0] >= 0).all()
    if math.pi - angle < 20 * epsilon(dtype):
        found = align_sign(found, expected.to(dtype))
    assert_near(found, expected.to(dtype), 4 * epsilon(dtype))
    assert_near(so3.from_quaternion(found), rotation, 8 * epsilon(dtype))


# -- gradients ---------------------------------------------------------------------------------------------

FUNCTIONS = {
    "exp": so3.exp,
    "left_jacobian": so3.left_jacobian,
    "inverse_left_jacobian": so3.inverse_left_jacobian,
    "log of exp": lambda w: so3.log(so3.exp(w)),
}


def weights(value: torch.Tensor) -> torch.Tensor:
    """Some gradient to send back."""
    return torch.randn(value.shape, generator=torch.Generator().manual_seed(8), dtype=value.dtype)


def twists_at_every_angle(dtype: torch.dtype) -> torch.Tensor:
    return torch.stack([twists(angle, 20, dtype) for angle in [*ANGLES, SERIES, LOG_SERIES, math.pi]])


@pytest.mark.parametrize("name", FUNCTIONS)
@both_precisions
def test_gradients_are_finite_everywhere(name, dtype):
    w = twists_at_every_angle(dtype)[..., :3].requires_grad_()
    value = FUNCTIONS[name](w)
    value.backward(weights(value))
    assert w.grad.isfinite().all()
    assert (w.grad.abs().amax(dim=(-2, -1)) > 1e-2).all(), "and there is one"


@both_precisions
def test_se3_gradients_are_finite_everywhere(dtype):
    twist = twists_at_every_angle(dtype).requires_grad_()
    value = SE3.exp(twist).log()
    value.backward(weights(value))
    assert twist.grad.isfinite().all()


@pytest.mark.parametrize("function", [so3.log, so3.angle, so3.quaternion])
@both_precisions
def test_gradients_are_finite_at_all_rotations(function, dtype):
    vectors = twists_at_every_angle(torch.float64)[..., :3].reshape(-1, 3)
    rotation = torch.tensor(Rotation.from_rotvec(vectors.numpy()).as_matrix(), dtype=dtype).requires_grad_()
    value = function(rotation)
    value.backward(weights(value))
    assert rotation.grad.isfinite().all()


@at_all_angles
@both_precisions
def test_derivative_of_log_undoes_derivative_of_exp(angle, dtype):
    """The Jacobian of log(exp(w)) is 1, at the angles too at which finite differences have no digits."""
    w = angle * unit_vectors(20, dtype)
    rows = torch.func.vmap(torch.func.jacrev(lambda v: so3.log(so3.exp(v))))(w)
    assert_near(rows, torch.eye(3, dtype=dtype).expand(20, 3, 3), 30 * epsilon(dtype))


POINTS = [0.0, 1e-3, LOG_SERIES, SERIES, 1.0, 3.0]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("angle", POINTS)
def test_gradients_are_the_derivatives(name, angle):
    w = (angle * unit_vectors(9)[-2:]).requires_grad_()
    assert gradcheck(FUNCTIONS[name], (w,), atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("angle", POINTS)
def test_gradient_of_log_is_the_derivative(angle):
    rotation = torch.matrix_exp(skew_matrix(angle * unit_vectors(9)[-2:])).requires_grad_()
    assert gradcheck(so3.log, (rotation,), atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("angle", POINTS)
def test_se3_gradients_are_the_derivatives(angle):
    twist = twists(angle, 9)[-1:].requires_grad_()
    assert gradcheck(lambda x: SE3.exp(x).matrix(), (twist,), atol=1e-8, rtol=1e-6)
    assert gradcheck(lambda x: SE3.exp(x).log(), (twist,), atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("angle", [0.0, 1.0])
def test_second_derivatives_are_right(angle):
    torch.manual_seed(0)  # gradgradcheck draws its weights
    twist = twists(angle, 7)[-1:].requires_grad_()
    assert gradgradcheck(lambda x: SE3.exp(x).matrix(), (twist,), atol=1e-6)


# -- the switch from series to closed form -----------------------------------------------------------------


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("switch", SWITCHES)
@both_precisions
def test_values_and_gradients_do_not_jump_at_the_switch(name, switch, dtype):
    """A step across it of a few rounding units changes them by a few rounding units."""
    axis, step = unit_vectors(20, dtype), 16 * epsilon(dtype)
    below, above = (SWITCHES[switch] * (1 + s * step) * axis for s in (-1, 1))
    function = FUNCTIONS[name]
    assert_near(function(below), function(above), 80 * epsilon(dtype))
    slope = torch.func.vmap(torch.func.jacrev(function))
    assert_near(slope(below), slope(above), 120 * epsilon(dtype))


def test_the_switch_is_where_these_tests_look():
    assert math.isclose(so3._SERIES_BELOW, SERIES**2)
