"""Cor. 4.4 on samples: transported noise gives the transported assembly; and samples are reproducible."""

from dataclasses import dataclass
from functools import cached_property

import pytest
import torch
from support.lumpy_shapes import lumpy_pieces
from support.oracles import haar_rotations, stirred

from eda import SE3, Eda, EdaConfig, NetworkConfig, Pieces
from eda.flow import sample_noise

SMALL = {
    "num_levels": 1, "num_blocks": 1, "num_neighbors": 4, "cross_neighbors": 4, "channels": 4, "num_heads": 2,
    "num_knots": 5, "spacing": 0.2,
}  # fmt: skip
VARIANTS = {"as in the paper": {}, "ours": {"cross_neighbors": None, "time_in_encoder": False}}


@dataclass(frozen=True)
class Run:
    """A network and a way to follow its field."""

    variant: str
    solver: str
    steps: int
    tolerance: float = 1e-9
    rounds: int = 1

    def __str__(self) -> str:
        return f"{self.variant}, {self.solver}" + f", {self.rounds} rounds" * (self.rounds > 1)

    @cached_property
    def model(self) -> Eda:
        model = stirred(Eda(EdaConfig(NetworkConfig(**{**SMALL, **VARIANTS[self.variant]}))))
        with torch.no_grad():
            model.network.head.output.weight.mul_(10)  # so that the flow has somewhere to go
        return model

    def sample(self, pieces: Pieces, noise: SE3) -> SE3:
        options = {"solver": self.solver, "steps": self.steps, "rounds": self.rounds, "tolerance": 0.1}
        return self.model.sample(pieces, len(noise), noise=noise, **options)


# The adaptive solver crawls over the jumps of a field whose neighbours change: it gets the one without.
RUNS = [
    Run("as in the paper", "rk1", 4),
    Run("as in the paper", "rk4", 2),
    Run("as in the paper", "rkmk4", 2),
    Run("ours", "rk4", 2),
    Run("ours", "rk4", 2, rounds=2),
    Run("ours", "adaptive", 3, tolerance=1e-6),
]
in_all_runs = pytest.mark.parametrize("run", RUNS, ids=str)


@pytest.fixture(scope="module")
def pieces() -> Pieces:
    """Two puzzles, of 3 and of 2 pieces."""
    return Pieces.collate([lumpy_pieces(3, 16), lumpy_pieces(2, 20, seed=1)])


def noise_for(pieces: Pieces, samples: int = 1, seed: int = 0) -> SE3:
    return sample_noise(pieces, 0.4, samples=samples, generator=torch.Generator().manual_seed(seed))


def distance(a: SE3, b: SE3) -> float:
    return float((a.matrix() - b.matrix()).abs().max())


def rotations_only(rotation: torch.Tensor) -> SE3:
    return SE3(rotation, torch.zeros(*rotation.shape[:-1], dtype=rotation.dtype))


# -- Cor. 4.4 ----------------------------------------------------------------------------------------------


@in_all_runs
def test_the_flow_goes_somewhere(run, pieces):
    noise = noise_for(pieces)
    assert distance(run.sample(pieces, noise), noise) > 0.1


@in_all_runs
def test_pieces_turned_one_by_one_give_the_same_assembly(run, pieces):
    """(R_{r^-1})_# P_X = P_rX: g r^-1 assembles r X as g assembles X."""
    r, noise = rotations_only(haar_rotations(5, seed=4)), noise_for(pieces)
    got = run.sample(pieces.move(r), noise @ r.inverse())
    assert distance(got, run.sample(pieces, noise) @ r.inverse()) < run.tolerance


@in_all_runs
def test_pieces_moved_one_by_one_give_the_same_assembly(run, pieces):
    """The same for all of SE(3)^N: a piece need not be centred on its origin."""
    h, noise = SE3(haar_rotations(5, seed=4), haar_rotations(5, seed=5)[:, 0]), noise_for(pieces)
    got = run.sample(pieces.move(h), noise @ h.inverse())
    assert distance(got, run.sample(pieces, noise) @ h.inverse()) < run.tolerance


@in_all_runs
def test_pieces_in_another_order_give_the_same_assembly(run, pieces):
    order, noise = torch.tensor([2, 0, 1, 4, 3]), noise_for(pieces)
    got = run.sample(pieces.permute(order), noise[:, order])
    assert distance(got, run.sample(pieces, noise)[:, order]) < run.tolerance


@in_all_runs
def test_turned_noise_gives_the_turned_assembly(run, pieces):
    """(L_r)_# P_X = P_X, with another r for every puzzle."""
    turns = haar_rotations(2, seed=6)[torch.tensor([0, 0, 0, 1, 1])]
    r, noise = rotations_only(turns), noise_for(pieces)
    got = run.sample(pieces, r @ noise)
    assert distance(got, r @ run.sample(pieces, noise)) < run.tolerance


@in_all_runs
def test_other_noise_gives_another_assembly(run, pieces):
    """The negative control: the laws do not hold because all noise flows to one place."""
    first, second = (run.sample(pieces, noise_for(pieces, seed=s)) for s in (0, 1))
    assert distance(first, second) > 0.1


# -- batches -----------------------------------------------------------------------------------------------


@in_all_runs
def test_samples_in_one_batch_equal_single_runs(run, pieces):
    noise = noise_for(pieces, samples=3)
    together = run.sample(pieces, noise)
    assert together.shape == (3, 5)
    for k in range(3):
        alone = run.sample(pieces, noise[k : k + 1])
        assert distance(together[k : k + 1], alone) < run.tolerance


@in_all_runs
def test_a_puzzle_does_not_see_its_batch_companions(run, pieces):
    parts = [lumpy_pieces(3, 16), lumpy_pieces(2, 20, seed=1)]
    noise = noise_for(pieces)
    together = run.sample(pieces, noise)
    first, second = (
        run.sample(parts[0], noise[:, :3]),
        run.sample(parts[1], noise[:, 3:]),
    )
    assert distance(together[:, :3], first) < run.tolerance
    assert distance(together[:, 3:], second) < run.tolerance


@pytest.mark.parametrize("run", [RUNS[1], RUNS[3]], ids=["as in the paper", "ours"])
def test_a_field_of_several_samples_equals_single_evaluations_at_any_times(run, pieces):
    """What is kept between calls or shared by samples is not kept or shared too long."""
    poses = noise_for(pieces, samples=3)
    field = run.model.field(pieces, samples=3)
    # The same time for all, then for none, then for two samples; and back to the first.
    early, mixed, shared = (
        [[0.1, 0.1]] * 3,
        [[0.1, 0.2], [0.5, 0.7], [0.9, 0.3]],
        [[0.4, 0.6]] * 2 + [[0.8, 0.6]],
    )
    for times in (early, mixed, shared, early):
        tau = torch.tensor(times, dtype=torch.float64)
        with torch.no_grad():
            together = field(poses.reshape(-1), tau.flatten())
            alone = torch.cat([run.model.velocity(pieces, poses[k], tau[k]) for k in range(3)])
        torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


# -- randomness --------------------------------------------------------------------------------------------


def drawn(pieces: Pieces, seed: int) -> SE3:
    return RUNS[0].model.sample(pieces, 2, solver="rk1", steps=2, generator=torch.Generator().manual_seed(seed))


def test_the_same_seed_gives_the_same_bits(pieces):
    first = drawn(pieces, 5)
    torch.manual_seed(123)  # nothing is drawn from the global generator
    second = drawn(pieces, 5)
    assert torch.equal(first.matrix(), second.matrix())


def test_other_seeds_and_other_samples_differ(pieces):
    first, second = drawn(pieces, 5), drawn(pieces, 6)
    assert distance(first, second) > 0.1
    assert distance(first[0], first[1]) > 0.1


def test_sampling_does_not_touch_the_global_generator(pieces):
    before = torch.get_rng_state()
    drawn(pieces, 5)
    assert torch.equal(before, torch.get_rng_state())


def test_the_same_seed_gives_the_same_network():
    first, second, other = (Eda(EdaConfig(NetworkConfig(**SMALL)), seed=s).state_dict() for s in (1, 1, 2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


# -- what comes out ----------------------------------------------------------------------------------------


@in_all_runs
def test_sampled_poses_are_rotations_without_gradients(run, pieces):
    rotation = run.sample(pieces, noise_for(pieces)).rotation
    one = torch.eye(3, dtype=torch.float64).expand_as(rotation)
    torch.testing.assert_close(rotation @ rotation.mT, one, rtol=0, atol=1e-12)
    assert (torch.linalg.det(rotation) > 0).all()
    assert not rotation.requires_grad


def test_a_trajectory_begins_at_the_noise_and_ends_at_the_sample(pieces):
    noise = noise_for(pieces, samples=2)
    run = RUNS[1]
    walk = run.model.trajectory(pieces, 2, noise=noise, solver=run.solver, steps=run.steps)
    assert walk.poses.shape == (3, 2, 5)
    assert distance(walk.poses[0], noise) == 0
    assert distance(walk.final, run.sample(pieces, noise)) == 0
    torch.testing.assert_close(walk.taus, torch.linspace(0, 1, 3).double()[:, None].expand(3, 4))
