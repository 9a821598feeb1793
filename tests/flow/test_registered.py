"""Noises and solvers from outside: a name each, used by training and sampling, and refused where they do not fit."""

import pytest
import torch
from support.lumpy_shapes import TINY_NETWORK, lumpy_pieces, lumpy_puzzle, seeded
from support.rigid_motions import random_se3_batch

from eda import SE3, Eda, EdaConfig, InputError, register_noise, register_solver
from eda.flow import NOISES, SOLVERS, Solver, Table, integrate
from eda.flow.solver import EULER, StepResult, munthe_kaas

pytestmark = pytest.mark.usefixtures("registries")


# -- noise -------------------------------------------------------------------------------------------------


class Constant:
    """The same poses in every draw, and a record of what was asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, int]] = []

    def __call__(self, pieces, noise_std, *, samples=1, generator=None) -> SE3:
        self.calls.append((noise_std, samples))
        return SE3.stack([random_se3_batch(pieces.num_pieces, dtype=pieces.points.dtype)] * samples)


def test_a_noise_is_where_samples_start_and_what_training_draws():
    noise = Constant()
    register_noise("constant", noise)
    model = Eda(EdaConfig(TINY_NETWORK, noise="constant", noise_std=0.7)).double()
    pieces = lumpy_pieces(3, 12)
    path = model.trajectory(pieces, 2, steps=1)
    assert torch.equal(path.poses[0].matrix(), SE3.stack([random_se3_batch(3)] * 2).matrix())
    one, two = (model.loss(lumpy_puzzle(3, 12), draws=4, generator=seeded(seed)).rotation for seed in (0, 1))
    assert noise.calls == [(0.7, 2), (0.7, 4), (0.7, 4)]
    assert not torch.equal(one, two), "tau is still drawn"


def test_the_noise_is_part_of_the_file(tmp_path):
    register_noise("constant", Constant())
    Eda(EdaConfig(TINY_NETWORK, noise="constant")).save(tmp_path / "model.safetensors")
    assert Eda.load(tmp_path / "model.safetensors").config.noise == "constant"
    del NOISES["constant"]
    with pytest.raises(InputError, match=r"model.safetensors: .*noise 'constant' is not known here.*register_noise"):
        Eda.load(tmp_path / "model.safetensors")


def test_a_noise_of_another_shape_is_an_input_error():
    register_noise("flat", lambda pieces, std, *, samples=1, generator=None: random_se3_batch(pieces.num_pieces))
    model = Eda(EdaConfig(TINY_NETWORK, noise="flat")).double()
    with pytest.raises(InputError, match=r"noise 'flat' must return poses of shape \(2, 3\), but gave \(3,\)"):
        model.sample(lumpy_pieces(3, 12), 2)


def test_a_noise_that_is_taken_or_unknown_is_an_input_error():
    with pytest.raises(InputError, match="the noise 'haar_gaussian' exists already"):
        register_noise("haar_gaussian", Constant())
    with pytest.raises(InputError, match=r"the noise 'pink' is not known here \(there are haar_gaussian\)"):
        EdaConfig(noise="pink")


# -- solvers -----------------------------------------------------------------------------------------------

MIDPOINT = Table(stages=((), (0.5,)), weights=(0.0, 1.0), nodes=(0.0, 0.5))


def constant_twist(poses: SE3, tau: torch.Tensor) -> torch.Tensor:
    return torch.tensor([[0.3, -0.2, 0.9, 1.0, 0.0, -2.0]], dtype=torch.float64).expand(len(poses), 6)


def turning_twist(poses: SE3, tau: torch.Tensor) -> torch.Tensor:
    """A rotation about x whose speed is tau squared: the angle at the end is 1/3."""
    axis = torch.tensor([1.0, 0, 0, 0, 0, 0], dtype=torch.float64)
    return tau[torch.zeros(len(poses), dtype=torch.long)][:, None] ** 2 * axis


def angle_after(solver: str, steps: int) -> float:
    end = integrate(turning_twist, SE3.identity(1, dtype=torch.float64), solver=solver, steps=steps).final
    return float(end.log()[0, 0])


def test_a_table_is_a_solver_of_its_order():
    register_solver("midpoint", Solver(MIDPOINT))
    start = random_se3_batch(2)
    end = integrate(constant_twist, start, solver="midpoint", steps=3).final
    torch.testing.assert_close(end.matrix(), (SE3.exp(constant_twist(start, None)) @ start).matrix())
    coarse, fine = (abs(angle_after("midpoint", steps) - 1 / 3) for steps in (4, 8))
    assert coarse / fine == pytest.approx(4, rel=0.01)  # second order


def test_a_step_function_of_ones_own_is_used():
    calls = []

    def step(table, field, poses, tau, eta, puzzle, first) -> StepResult:
        calls.append(float(tau[0]))
        return munthe_kaas(table, field, poses, tau, eta, puzzle, first)

    register_solver("watched", Solver(EULER, step))
    assert angle_after("watched", 4) == pytest.approx(sum((i / 4) ** 2 / 4 for i in range(4)))
    assert calls == [0, 0.25, 0.5, 0.75]


def test_a_solver_serves_the_model_and_the_evaluation():
    from eda.evaluate import NetworkAnswers, Sampling, scatter

    register_solver("midpoint", Solver(MIDPOINT))
    model = Eda(EdaConfig(TINY_NETWORK))
    from support.small_datasets import lumpy_example

    source = NetworkAnswers(model, Sampling(solver="midpoint", steps=2, points=40))
    (answer,) = source.answers(scatter([lumpy_example(0, 2, 20)], 0))
    assert answer.poses.shape == (3, 1, 2)


def test_a_solver_that_is_taken_or_unknown_is_an_input_error():
    with pytest.raises(InputError, match="the solver 'rk4' exists already"):
        register_solver("rk4", Solver(MIDPOINT))
    assert SOLVERS["rk4"].table is not MIDPOINT
    with pytest.raises(InputError, match=r"the solver 'midpoint' is not known here \(there are rk1, rk4, rkmk4, adap"):
        angle_after("midpoint", 2)


BAD_TABLES = {
    "no stages": (dict(stages=(), weights=(), nodes=()), "table of 0 stages"),
    "too few weights": (dict(stages=((), (0.5,)), weights=(1.0,), nodes=(0.0, 0.5)), "as many weights and nodes"),
    "too many nodes": (dict(stages=((),), weights=(1.0,), nodes=(0.0, 0.5)), "as many weights and nodes"),
    "embedded": (dict(stages=((),), weights=(1.0,), nodes=(0.0,), embedded=(0.5, 0.5)), "as many weights and nodes"),
    "implicit": (dict(stages=((1.0,),), weights=(1.0,), nodes=(0.0,)), "stage i of an explicit method"),
    "not consistent": (dict(stages=((),), weights=(0.9,), nodes=(0.0,)), "must add up to 1"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_table_that_is_no_method_is_an_input_error(name):
    values, message = BAD_TABLES[name]
    with pytest.raises(InputError, match=message):
        Table(**values)
