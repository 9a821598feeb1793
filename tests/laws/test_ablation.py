"""The paper's ablation: switches that take the theory out of a model one part at a time (Sec. 6.4)."""

import dataclasses

import pytest
import torch
from support.lumpy_shapes import TINY_NETWORK, lumpy_pieces, lumpy_puzzle
from support.oracles import haar_rotations
from support.rigid_motions import random_se3

from eda import SE3, Eda, EdaConfig, NetworkConfig
from eda.evaluate import check_equivariance
from eda.field import VelocityField
from eda.flow import Path, integrate
from eda.flow.loss import rotate_velocity, spatial_twist
from eda.recipes import RECIPES
from eda.segment import ranges

VARIANTS = ("ablation", "ablation-r", "ablation-rh", "ablation-re", "ablation-rhe")
FREE = dataclasses.replace(TINY_NETWORK, free_network=True)


def model_of(network: NetworkConfig = TINY_NETWORK, **options: bool) -> Eda:
    return Eda(EdaConfig(network, **options)).double()


def laws_kept(model: Eda) -> dict[str, bool]:
    report = check_equivariance(model, draws=2, points=24, dtypes=(torch.float64,))
    return {result.law: result.holds for result in report.results}


# -- the recipes -------------------------------------------------------------------------------------------


def test_all_variants_have_the_same_weights_to_learn():
    shapes = [[(name, p.shape) for name, p in Eda(RECIPES[v]().model).named_parameters()] for v in VARIANTS]
    assert all(each == shapes[0] for each in shapes)


def test_a_variant_differs_from_eda_in_its_letters_only():
    def switched(name: str) -> tuple[bool, bool, bool]:
        model = RECIPES[name]().model
        return model.no_correction, model.body_twist, model.network.free_network

    assert [switched(name) for name in VARIANTS] == [
        (False, False, False),
        (True, False, False),
        (True, True, False),
        (True, False, True),
        (True, True, True),
    ]
    plain = RECIPES["ablation"]()
    for name in VARIANTS:
        recipe = RECIPES[name]()
        network = dataclasses.replace(recipe.model.network, free_network=False)
        model = dataclasses.replace(recipe.model, network=network, no_correction=False, body_twist=False)
        assert dataclasses.replace(recipe, model=model) == plain


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_learns_and_samples(name):
    config = RECIPES[name]().model
    network = dataclasses.replace(TINY_NETWORK, free_network=config.network.free_network, time_in_encoder=False)
    model, puzzle = Eda(dataclasses.replace(config, network=network)).double(), lumpy_puzzle(2, 20)
    model.loss(puzzle, draws=2, generator=torch.Generator().manual_seed(0)).total.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert model.sample(puzzle.pieces, 2, solver="rk1", steps=2).shape == (2, 2)


# -- (r) ---------------------------------------------------------------------------------------------------


def test_without_correction_the_path_ends_in_the_given_turn_of_the_solution():
    puzzle, noise, solution = ranges(torch.tensor([2, 3])), random_se3(5), random_se3(5, seed=1)
    turn = haar_rotations(2, 0)
    target = Path.generated_by(noise, solution, puzzle, 2, turn=turn).target
    torch.testing.assert_close(target.rotation, turn[puzzle] @ solution.rotation)
    torch.testing.assert_close(target.translation, (turn[puzzle] @ solution.translation[..., None]).squeeze(-1))


def test_without_correction_the_paths_are_longer():
    """r* is the nearest of all turns, so the field that a network has to learn is smaller with it."""
    puzzle = lumpy_puzzle(2, 20)

    def size_of_target(*, no_correction: bool) -> float:
        model = model_of(dataclasses.replace(TINY_NETWORK, time_in_encoder=False), no_correction=no_correction)
        torch.nn.init.zeros_(model.network.head.output.weight)  # a field of zeros: the loss is the target's square
        with torch.no_grad():
            return float(model.loss(puzzle, draws=64, generator=torch.Generator().manual_seed(0)).rotation)

    assert size_of_target(no_correction=True) > 1.3 * size_of_target(no_correction=False)


def test_without_correction_the_laws_still_hold():
    assert all(laws_kept(model_of(no_correction=True)).values())


# -- (h) ---------------------------------------------------------------------------------------------------


def test_a_constant_body_twist_leads_from_g_to_g_exp():
    """The curve g_0 exp(tau xi) has the body twist xi all along; its spatial twist is Ad_g xi."""
    pieces, start = lumpy_pieces(3, 12), random_se3(3)
    velocities = torch.randn(3, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    field = VelocityField(lambda poses, tau: velocities, pieces, body_twist=True)
    twist = spatial_twist(velocities, pieces.centroids())
    arrived = integrate(field, start, solver="rk1", steps=7).final
    torch.testing.assert_close(arrived.matrix(), (start @ SE3.exp(twist)).matrix(), rtol=0, atol=1e-10)


def test_the_wanted_body_velocity_is_that_of_the_canonical_path():
    """log(g_0^-1 g_1), the same at every tau."""
    model, pieces, noise, solution = (
        model_of(body_twist=True),
        lumpy_pieces(3, 12),
        random_se3(3),
        random_se3(3, seed=1),
    )
    path = Path(noise, solution)
    wanted = spatial_twist_of_body(path, pieces.centroids())
    for tau in (0.0, 0.4, 1.0):
        poses = path.at(torch.full((3,), tau, dtype=torch.float64))
        found = model.field(pieces).center_velocity(path.twist, poses)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


def spatial_twist_of_body(path: Path, centers: torch.Tensor) -> torch.Tensor:
    body = (path.noise.inverse() @ path.target).log()
    return torch.cat([body[:, :3], body[:, 3:] + torch.linalg.cross(body[:, :3], centers)], dim=-1)


def test_turning_a_velocity_turns_both_vectors():
    rotation = haar_rotations(4, 0)
    velocity = torch.randn(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for part in (slice(0, 3), slice(3, 6)):
        expected = torch.einsum("nij,nj->ni", rotation, velocity[:, part])
        torch.testing.assert_close(rotate_velocity(velocity, rotation)[:, part], expected)


def test_a_body_twist_breaks_the_laws_of_turned_pieces():
    kept = laws_kept(model_of(body_twist=True))
    assert kept["L_P"]
    assert not kept["Prop. 4.5"]
    assert not kept["L_R"]


# -- (e) ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("time_in_encoder", [True, False])
def test_a_free_network_is_evaluated_on_the_moved_pieces(time_in_encoder):
    """v_X(g) = f(gX) g holds by construction; that f(gX) turns with gX does not."""
    kept = laws_kept(model_of(dataclasses.replace(FREE, time_in_encoder=time_in_encoder)))
    assert kept["L_P"]
    assert kept["Prop. 4.5"]
    assert not kept["L_R"]
    assert not kept["samples, whole turned"]


def test_samples_of_a_free_network_do_not_depend_on_their_companions():
    model, pieces = model_of(FREE), lumpy_pieces(2, 20)
    noise = SE3.stack([random_se3(2), random_se3(2, seed=1)])
    both = model.sample(pieces, 2, noise=noise, solver="rk1", steps=2)
    for k in range(2):
        alone = model.sample(pieces, 1, noise=noise[k][None], solver="rk1", steps=2)
        torch.testing.assert_close(both[k].matrix(), alone[0].matrix(), rtol=0, atol=1e-12)
