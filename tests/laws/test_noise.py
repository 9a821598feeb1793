"""P_0 is Haar on rotations, normal on translations, centred, invariant, and drawn from its generator."""

import math

import pytest
import torch
from scipy.stats import ks_2samp, kstest
from support.lumpy_shapes import lumpy_cloud, lumpy_pieces
from support.oracles import haar_p_value
from support.rigid_motions import random_motions, random_se3

from eda import Pieces, Puzzle
from eda.errors import InputError
from eda.flow import TAU_SAMPLERS, fit_noise_std, sample_noise
from eda.lie import SE3

COUNTS = (2, 3, 5)
STD = 0.7


def batch(dtype: torch.dtype = torch.float64) -> Pieces:
    """Puzzles of 2, 3 and 5 pieces."""
    puzzles = [lumpy_pieces(n, 8, seed=n, dtype=dtype, normals=False) for n in COUNTS]
    return Pieces.collate(puzzles)


def draw(pieces: Pieces, samples: int, seed: int = 0, std: float = STD) -> SE3:
    return sample_noise(pieces, std, samples=samples, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def many() -> SE3:
    """(2000, 10)."""
    return draw(batch(), 2000)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("samples", [1, 4])
def test_shape_and_precision_are_those_of_the_pieces(dtype, samples):
    noise = draw(batch(dtype), samples)
    assert noise.shape == (samples, sum(COUNTS))
    assert noise.rotation.dtype == noise.translation.dtype == dtype


@pytest.mark.parametrize("spread", [0.0, 2.0], ids=["centred pieces", "pieces off their origin"])
def test_the_centres_of_every_puzzle_have_mean_zero(spread):
    pieces = batch().move(SE3.from_matrix(random_motions(sum(COUNTS), 1, spread)))
    noise = draw(pieces, 3)
    for sample in range(3):
        clouds = torch.split(pieces.move(noise[sample]).points, pieces.sizes.tolist())
        centres = torch.stack([cloud.mean(0) for cloud in clouds])
        for group in torch.split(centres, COUNTS):
            torch.testing.assert_close(group.mean(0), torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-14)


def test_rotations_are_haar(many):
    assert haar_p_value(many.rotation.reshape(-1, 3, 3)) > 0.01


def test_rotations_of_two_pieces_are_independent(many):
    assert haar_p_value(many.rotation[:, 3].mT @ many.rotation[:, 4]) > 0.01


@pytest.mark.parametrize(("puzzle", "count"), [*enumerate(COUNTS)])
def test_translations_are_normal_and_centring_shrinks_them(many, puzzle, count):
    first = sum(COUNTS[:puzzle])
    for axis in range(3):
        values = many.translation[:, first, axis] / (STD * math.sqrt(1 - 1 / count))
        assert kstest(values.numpy(), "norm").pvalue > 0.01
    group = many.translation[:, first : first + count]
    degrees_of_freedom = 2000 * 3 * (count - 1)
    variance = float(group.square().sum()) / degrees_of_freedom
    assert variance == pytest.approx(STD**2, rel=4 * math.sqrt(2 / degrees_of_freedom))


def test_spread_is_proportional_to_noise_std():
    small, large = draw(batch(), 2, std=0.1), draw(batch(), 2, std=1.0)
    torch.testing.assert_close(small.translation * 10, large.translation)
    torch.testing.assert_close(small.rotation, large.rotation, rtol=0, atol=0)


def turned_pieces(noise: SE3) -> SE3:
    return noise @ random_se3(noise.shape[1], 7, spread=0).inverse()


def turned_whole(noise: SE3) -> SE3:
    return random_se3(1, 8, spread=0)[0] @ noise


def permuted(noise: SE3) -> SE3:
    return noise[:, torch.tensor([2, 3, 0, 1])]


@pytest.fixture(scope="module")
def two_sets() -> tuple[SE3, SE3]:
    """Independent sets of draws for one puzzle, each (2000, 4)."""
    pieces = lumpy_pieces(4, 8, normals=False)
    return draw(pieces, 2000, seed=1), draw(pieces, 2000, seed=2)


@pytest.mark.parametrize("change", [turned_pieces, turned_whole, permuted])
def test_noise_is_invariant(change, two_sets):
    """Assumption 4.3: statistics of changed draws are those of fresh ones (two-sample Kolmogorov-Smirnov)."""
    changed, fresh = change(two_sets[0]), two_sets[1]
    rows = [torch.cat([g.rotation.flatten(1), g.translation.flatten(1)], dim=1) for g in (changed, fresh)]
    source = torch.Generator().manual_seed(3)
    directions = torch.randn(rows[0].shape[1], 12, generator=source, dtype=torch.float64)
    axes = torch.eye(rows[0].shape[1], dtype=torch.float64)
    for direction in [*directions.T, *axes[-6:]]:
        ours, theirs = ((row @ direction).numpy() for row in rows)
        assert ks_2samp(ours, theirs).pvalue > 1e-3
    for i, j in [(0, 1), (2, 0)]:
        ours, theirs = (
            (g.rotation[:, i] @ g.translation[:, i, :, None]).squeeze(-1)[:, 0] * g.rotation[:, j, 0, 0]
            for g in (changed, fresh)
        )
        assert ks_2samp(ours.numpy(), theirs.numpy()).pvalue > 1e-3


def solved(*centres: tuple[float, float, float]) -> Puzzle:
    """A puzzle in units of its own with the pieces' centres at these places."""
    shape = torch.from_numpy(lumpy_cloud(0, 12)[0])
    shape = shape - shape.mean(0)
    shape = shape / (len(centres) * shape.square().sum(1).mean()).sqrt()
    return Puzzle.from_assembled([shape + torch.tensor(c) for c in centres], dtype=torch.float64)


@pytest.mark.parametrize("offset", [0.0, 5.0])
def test_fitted_std_by_hand(offset):
    """Centres at +-3 along x: squares 9 and 9 over the three coordinates that centring leaves free."""
    puzzle = solved((offset + 3.0, offset, 0.0), (offset - 3.0, offset, 0.0))
    assert fit_noise_std([puzzle]) == pytest.approx(math.sqrt(18 / 3))


def test_fitted_std_pools_the_coordinates_of_all_puzzles():
    line = solved((0.0, 1.0, 0.0), (0.0, -1.0, 0.0))
    triple = solved((2.0, 0.0, 0.0), (-1.0, 0.0, 1.0), (-1.0, 0.0, -1.0))
    assert fit_noise_std([line, triple]) == pytest.approx(math.sqrt((2 + 8) / (3 + 6)))
    assert fit_noise_std([Puzzle.collate([line, triple])]) == pytest.approx(math.sqrt((2 + 8) / (3 + 6)))


def test_fitted_std_recovers_the_noise_it_is_fitted_to():
    pieces = lumpy_pieces(3, 20)
    draws = sample_noise(pieces, 0.7, samples=4000, generator=torch.Generator().manual_seed(5))
    assert fit_noise_std(Puzzle(pieces, g) for g in draws) == pytest.approx(0.7, rel=0.02)


def test_fitted_std_looks_at_centres_not_at_origins():
    """A piece whose frame is off its centre has the same centre."""
    puzzle = solved((1.0, 0.0, 0.0), (-1.0, 0.0, 0.0))
    frame = random_se3(2, 0)
    moved = Puzzle(puzzle.pieces.move(frame), puzzle.solution @ frame.inverse())
    assert fit_noise_std([moved]) == pytest.approx(math.sqrt(2 / 3))


def test_nothing_to_fit_is_refused():
    with pytest.raises(InputError, match="no puzzles"):
        fit_noise_std([])


def test_logits_of_logit_normal_times_are_normal():
    tau = TAU_SAMPLERS["logit_normal"](5000, torch.Generator().manual_seed(0))
    assert kstest(torch.logit(tau.double()).numpy(), "norm").pvalue > 0.01


def test_uniform_times_are_uniform():
    tau = TAU_SAMPLERS["uniform"](5000, torch.Generator().manual_seed(0))
    assert kstest(tau.numpy(), "uniform").pvalue > 0.01


def test_at_the_start_all_times_are_zero():
    assert torch.equal(TAU_SAMPLERS["start"](5, None), torch.zeros(5))


@pytest.mark.parametrize("name", TAU_SAMPLERS)
def test_times_lie_between_noise_and_assembly(name):
    tau = TAU_SAMPLERS[name](10000, torch.Generator().manual_seed(1))
    assert tau.shape == (10000,)
    assert (tau >= 0).all()
    assert (tau <= 1).all()


def noise_bits(generator: torch.Generator | None) -> torch.Tensor:
    return sample_noise(batch(), STD, samples=2, generator=generator).matrix()


DRAWS = {
    "noise": noise_bits,
    **{
        name: lambda g, sampler=sampler: sampler(7, g) for name, sampler in TAU_SAMPLERS.items() if name != "start"
    },  # which draws nothing
}


@pytest.mark.parametrize("name", DRAWS)
def test_same_generator_same_bits(name):
    first, second, other = (DRAWS[name](torch.Generator().manual_seed(s)) for s in (4, 4, 5))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_from_a_generator_leaves_the_global_one_alone(name):
    before = torch.random.get_rng_state()
    DRAWS[name](torch.Generator().manual_seed(4))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("name", DRAWS)
def test_without_a_generator_the_global_one_is_used(name):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        seeded = DRAWS[name](None)
        torch.manual_seed(4)
        assert torch.equal(DRAWS[name](None), seeded)
        assert not torch.equal(DRAWS[name](None), seeded)
