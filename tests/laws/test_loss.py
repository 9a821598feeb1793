"""The loss is eq. (2) puzzle by puzzle, and has the invariances of Prop. "Data efficiency"."""

import pytest
import torch
from support.lumpy_shapes import lumpy_puzzle
from support.oracles import twist_matrix
from support.rigid_motions import random_se3
from torch import Tensor

from eda import Eda, EdaConfig, NetworkConfig, Puzzle
from eda.flow import TAU_SAMPLERS, Path, sample_noise
from eda.flow.loss import Loss, flow_loss
from eda.lie import SE3

COUNTS = (2, 3)
TOTAL = sum(COUNTS)
TAU = torch.tensor([0.3, 0.8], dtype=torch.float64)
SEEDS = range(3)

with_seeds = pytest.mark.parametrize("seed", SEEDS)


def small_model(*, time_in_encoder: bool = True, **options) -> Eda:
    network = NetworkConfig(
        num_levels=2, num_blocks=1, num_neighbors=4, cross_neighbors=4, channels=8, num_heads=2, spacing=0.1,
        time_in_encoder=time_in_encoder,
    )  # fmt: skip
    return Eda(EdaConfig(network=network, **options)).double()


def two_solved_puzzles() -> Puzzle:
    return Puzzle.collate([lumpy_puzzle(n, 16, seed=n) for n in COUNTS])


def rotations(seed: int, count: int) -> SE3:
    return random_se3(count, seed, spread=0)


@torch.no_grad()
def loss_of_draw(model: Eda, puzzle: Puzzle, noise: SE3, tau: Tensor = TAU) -> Loss:
    """The loss for a given draw of noise (N,) and tau (B,)."""
    field, num_puzzles = model.field(puzzle.pieces), puzzle.pieces.num_puzzles
    path = Path.generated_by(noise, puzzle.solution, field.puzzle, num_puzzles)
    poses = path.at(tau[field.puzzle])
    wanted = field.center_velocity(path.twist, poses)
    return flow_loss(field.velocities(poses, tau), wanted, field.puzzle, num_puzzles, model.config.translation_weight)


def draws_of(model: Eda, puzzle: Puzzle, draws: int, seed: int) -> tuple[SE3, Tensor]:
    """What `Eda.loss` draws from a generator of this seed: noise (draws, N) and tau (draws, B)."""
    generator = torch.Generator().manual_seed(seed)
    noise = sample_noise(puzzle.pieces, model.config.noise_std, samples=draws, generator=generator)
    tau = TAU_SAMPLERS[model.config.tau_sampler](draws * puzzle.pieces.num_puzzles, generator)
    return noise, tau.double().reshape(draws, -1)


def model_loss(model: Eda, puzzle: Puzzle, seed: int, **options) -> Loss:
    with torch.no_grad():
        return model.loss(puzzle, generator=torch.Generator().manual_seed(seed), **options)


# -- its value -----------------------------------------------------------------------------------------------


@with_seeds
def test_is_the_frobenius_norm_of_matrices(seed):
    """|v_X(h) - dh/dtau|_F^2 with 4 x 4 matrices and a difference quotient, per puzzle, then averaged."""
    model, puzzle = small_model(), two_solved_puzzles()
    noise, tau = (values[0] for values in draws_of(model, puzzle, 1, seed))
    each = tau.repeat_interleave(torch.tensor(COUNTS))
    path, step = Path.generated_by(noise, puzzle.solution, puzzle.pieces.puzzle_of_piece, 2), 1e-5
    slope = (path.at(each + step).matrix() - path.at(each - step).matrix()) / (2 * step)
    with torch.no_grad():
        twist = model.velocity(puzzle.pieces, path.at(each), tau)
    gap = twist_matrix(twist) @ path.at(each).matrix() - slope
    by_piece = gap.square().sum((-2, -1))
    wanted = torch.stack([group.mean() for group in torch.split(by_piece, COUNTS)]).mean()
    torch.testing.assert_close(model_loss(model, puzzle, seed).total, wanted, rtol=1e-8, atol=0)


@pytest.mark.parametrize("weight", [0.0, 1.0, 2.5])
def test_by_hand(weight):
    """Two puzzles, of one piece and of two."""
    predicted = torch.zeros(3, 6)
    wanted = torch.tensor(
        [[1.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0, 0.0, 3.0], [0.0, 0.0, 0.0, 1.0, 2.0, 2.0]]
    )
    loss = flow_loss(predicted, wanted, torch.tensor([0, 1, 1]), 2, weight)
    assert float(loss.rotation) == pytest.approx((1 + (4 + 0) / 2) / 2)
    assert float(loss.translation) == pytest.approx((0 + (9 + 9) / 2) / 2)
    assert float(loss.total) == pytest.approx(2 * 1.5 + weight * 4.5)


@pytest.mark.parametrize("weight", [0.3, 4.0])
def test_model_uses_the_translation_weight_of_its_config(weight):
    plain, weighted = (model_loss(small_model(translation_weight=w), two_solved_puzzles(), 0) for w in (1.0, weight))
    torch.testing.assert_close(weighted.total, plain.total + (weight - 1) * plain.translation)


def test_perfect_prediction_has_no_loss():
    velocity = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    loss = flow_loss(velocity, velocity.clone(), torch.tensor([0, 0, 1, 1, 1]), 2)
    assert float(loss.total) == float(loss.rotation) == float(loss.translation) == 0


@pytest.mark.parametrize("part", [slice(0, 3), slice(3, 6)], ids=["rotation", "translation"])
def test_a_large_puzzle_weighs_no_more_than_a_small_one(part):
    """The same error of every piece of one puzzle costs the same, whichever puzzle it is."""
    puzzle = torch.tensor([0] * 8 + [1] * 2)
    costs = []
    for b in (0, 1):
        wanted = torch.zeros(10, 6, dtype=torch.float64)
        wanted[puzzle == b, part] = 1.0
        costs.append(float(flow_loss(torch.zeros_like(wanted), wanted, puzzle, 2).total))
    assert costs[0] == pytest.approx(costs[1])
    assert costs[0] == pytest.approx(3.0 if part.start == 0 else 1.5)


def test_loss_of_a_batch_is_the_mean_over_its_puzzles():
    model = small_model()
    puzzles = [lumpy_puzzle(n, 16, seed=n) for n in (8, 2)]
    noise = [random_se3(n, n, spread=0.2 * n) for n in (8, 2)]
    each = [loss_of_draw(model, p, g, tau[None]).total for p, g, tau in zip(puzzles, noise, TAU, strict=True)]
    together = loss_of_draw(model, Puzzle.collate(puzzles), SE3.cat(noise))
    torch.testing.assert_close(together.total, torch.stack(each).mean(), rtol=1e-10, atol=0)
    assert abs(float(each[0] / each[1]) - 1) > 0.05, "the case must tell the weightings apart"


# -- draws ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("time_in_encoder", [False, True])
@pytest.mark.parametrize("draws", [1, 3])
def test_several_draws_are_the_mean_of_single_ones(draws, time_in_encoder):
    model, puzzle = small_model(time_in_encoder=time_in_encoder), two_solved_puzzles()
    noise, tau = draws_of(model, puzzle, draws, seed=5)
    single = [loss_of_draw(model, puzzle, noise[k], tau[k]) for k in range(draws)]
    together = model_loss(model, puzzle, 5, draws=draws)
    for name in ("rotation", "translation", "total"):
        wanted = torch.stack([getattr(loss, name) for loss in single]).mean()
        torch.testing.assert_close(getattr(together, name), wanted, rtol=1e-10, atol=0)


@pytest.mark.parametrize("sampler", TAU_SAMPLERS)
def test_the_generator_decides_every_draw(sampler):
    model, puzzle = small_model(tau_sampler=sampler), two_solved_puzzles()
    before = torch.random.get_rng_state()
    first, again, other = (model_loss(model, puzzle, seed).total for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_pyramid_made_before_gives_the_same_loss():
    model, puzzle = small_model(), two_solved_puzzles()
    prepared = model_loss(model, puzzle, 3, pyramid=model.pyramid(puzzle.pieces))
    torch.testing.assert_close(prepared.total, model_loss(model, puzzle, 3).total)


# -- Prop. "Data efficiency" ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> Eda:
    return small_model()


@pytest.fixture(scope="module")
def puzzle() -> Puzzle:
    return two_solved_puzzles()


def noise_of(seed: int) -> SE3:
    return random_se3(TOTAL, seed)


def assert_same(ours: Loss, theirs: Loss) -> None:
    torch.testing.assert_close(ours.rotation, theirs.rotation, rtol=1e-9, atol=0)
    torch.testing.assert_close(ours.translation, theirs.translation, rtol=1e-9, atol=0)


def turned_pieces(puzzle: Puzzle, turn: SE3) -> Puzzle:
    """r X and its solution g~_1 r^-1."""
    return Puzzle(puzzle.pieces.move(turn), puzzle.solution @ turn.inverse())


@with_seeds
def test_turned_pieces_have_the_same_loss(model, puzzle, seed):
    """L(r X) = L(X) draw by draw, a rotation for every piece."""
    noise, turn = noise_of(seed), rotations(seed + 10, TOTAL)
    changed = loss_of_draw(model, turned_pieces(puzzle, turn), noise @ turn.inverse())
    assert_same(changed, loss_of_draw(model, puzzle, noise))


@pytest.mark.parametrize("order", [(1, 0, 2, 3, 4), (0, 1, 4, 2, 3), (1, 0, 3, 2, 4)])
def test_permuted_pieces_have_the_same_loss(model, puzzle, order):
    order, noise = torch.tensor(order), noise_of(0)
    permuted = Puzzle(puzzle.pieces.permute(order), puzzle.solution[order])
    assert_same(loss_of_draw(model, permuted, noise[order]), loss_of_draw(model, puzzle, noise))


@with_seeds
def test_a_turned_whole_has_the_same_loss(model, puzzle, seed):
    noise, turn = noise_of(seed), rotations(seed + 20, 2)[puzzle.pieces.puzzle_of_piece]
    changed = loss_of_draw(model, Puzzle(puzzle.pieces, turn @ puzzle.solution), turn @ noise)
    assert_same(changed, loss_of_draw(model, puzzle, noise))


@with_seeds
def test_a_turned_solution_alone_has_the_same_loss(model, puzzle, seed):
    """Stronger than the proposition, thanks to r*: the noise need not turn along."""
    noise, turn = noise_of(seed), rotations(seed + 20, 2)[puzzle.pieces.puzzle_of_piece]
    changed = loss_of_draw(model, Puzzle(puzzle.pieces, turn @ puzzle.solution), noise)
    assert_same(changed, loss_of_draw(model, puzzle, noise))


def test_the_law_can_fail(model, puzzle):
    """Pieces turned under noise that stays are another draw, with another loss."""
    noise, turn = noise_of(0), rotations(10, TOTAL)
    changed = loss_of_draw(model, turned_pieces(puzzle, turn), noise)
    assert abs(float(changed.total / loss_of_draw(model, puzzle, noise).total) - 1) > 1e-3
