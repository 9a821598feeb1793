"""Samples of Eda: rigid motions at the end of a trajectory, which share what they can and keep their pins."""

import pytest
import torch
from support.closeness import assert_near
from support.lumpy_shapes import lumpy_pieces, seeded, two_puzzles
from support.rigid_motions import random_se3_batch
from support.tiny_models import DOUBLE, SINGLE, model_of

from eda import SE3, InputError, Pieces
from eda.flow import SOLVERS, sample_noise

# -- sample and trajectory ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
@pytest.mark.parametrize("solver", SOLVERS)
def test_samples_are_rigid_motions(solver, dtype):
    pieces = two_puzzles(12, 12).to(dtype=dtype)
    poses = model_of(dtype).sample(pieces, 2, solver=solver, steps=2, tolerance=0.1, generator=seeded())
    assert poses.shape == (2, 5)
    assert poses.rotation.dtype == poses.translation.dtype == dtype
    assert poses.isfinite()
    bound = 1e-5 if dtype == SINGLE else 1e-13
    assert_near(poses.rotation @ poses.rotation.mT, torch.eye(3, dtype=dtype).expand(2, 5, 3, 3), bound)
    assert_near(torch.linalg.det(poses.rotation), torch.ones(2, 5, dtype=dtype), bound)
    assert not poses.rotation.requires_grad
    assert not torch.allclose(poses.translation[0], poses.translation[1])


def test_sampling_takes_rounding_out_of_rotations(model, pieces):
    noise = SE3(random_se3_batch(1, 3).rotation * (1 + 1e-5), torch.zeros(1, 3, 3).double())
    rotation = model.sample(pieces, noise=noise, steps=3, solver="rk1").rotation
    assert_near(rotation @ rotation.mT, torch.eye(3).double().expand(1, 3, 3, 3), 1e-12)


@pytest.mark.parametrize("solver", ["rk1", "rk4", "rkmk4"])
def test_a_trajectory_begins_at_the_noise(model, solver):
    pieces, noise = two_puzzles(12, 12), random_se3_batch(2, 5)
    walked = model.trajectory(pieces, 2, noise=noise, solver=solver, steps=3)
    assert walked.poses.shape == (4, 2, 5)
    assert torch.equal(walked.poses[0].matrix(), noise.matrix())
    assert torch.equal(walked.final.matrix(), walked.poses[-1].matrix())
    assert walked.taus.shape == (4, 4)  # two samples of two puzzles
    assert_near(walked.taus, torch.linspace(0, 1, 4).double()[:, None].expand(4, 4), 1e-6)
    for before, after in zip(walked.poses.translation[:-1], walked.poses.translation[1:], strict=True):
        assert (before - after).abs().max() > 0


def test_an_adaptive_trajectory_ends_at_one(model, pieces):
    walked = model.trajectory(pieces, 2, noise=random_se3_batch(2, 3), solver="adaptive", tolerance=0.1)
    assert walked.poses.shape == (len(walked.taus), 2, 3)
    assert walked.taus[0].eq(0).all()
    assert walked.taus[-1].eq(1).all()
    assert (walked.taus.diff(dim=0) >= 0).all()


def test_a_sample_is_the_end_of_a_trajectory(model, pieces):
    sample = model.sample(pieces, 2, steps=2, generator=seeded(5))
    walked = model.trajectory(pieces, 2, steps=2, generator=seeded(5))
    assert torch.equal(sample.matrix(), walked.final.matrix())
    assert torch.equal(walked.poses[0].matrix(), sample_noise(pieces, 0.4, samples=2, generator=seeded(5)).matrix())


def test_the_generator_decides_the_sample(model, pieces):
    a, b, c = (model.sample(pieces, steps=1, generator=seeded(s)).matrix() for s in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.allclose(a, c)


def test_samples_and_puzzles_do_not_see_each_other(model):
    first, second, noise = lumpy_pieces(3, 12), lumpy_pieces(2, 12, seed=1), random_se3_batch(2, 5)
    together = model.sample(Pieces.collate([first, second]), 2, noise=noise, steps=2).matrix()
    for k in range(2):
        assert_near(together[k, :3], model.sample(first, noise=noise[k : k + 1, :3], steps=2)[0].matrix(), 1e-10)
        assert_near(together[k, 3:], model.sample(second, noise=noise[k : k + 1, 3:], steps=2)[0].matrix(), 1e-10)


def test_a_callback_sees_every_step(model, pieces):
    seen = []
    walked = model.trajectory(pieces, 2, noise=random_se3_batch(2, 3), steps=3, solver="rk1", callback=seen.append)
    assert [progress.step for progress in seen] == [1, 2, 3]
    for progress, tau, poses in zip(seen, walked.taus[1:], walked.poses[1:].matrix(), strict=True):
        assert torch.equal(progress.tau, tau)
        assert torch.equal(progress.poses.matrix(), poses.flatten(0, 1))


def test_a_callback_may_stop_the_walk(model, pieces):
    noise = random_se3_batch(2, 3)
    whole = model.trajectory(pieces, 2, noise=noise, steps=5, solver="rk1")
    stopped = model.trajectory(
        pieces, 2, noise=noise, steps=5, solver="rk1", callback=lambda progress: progress.step == 2
    )
    assert stopped.poses.shape == (3, 2, 3)
    assert torch.equal(stopped.poses.matrix(), whole.poses[:3].matrix())
    assert_near(stopped.taus[-1], torch.full((2,), 0.4, dtype=torch.float64), 1e-6)


@pytest.mark.parametrize(
    ("time_in_encoder", "solver", "encoded"), [(True, "rk1", 2), (True, "rk4", 5), (False, "rk4", 1)]
)
def test_samples_share_the_encoder(pieces, monkeypatch, time_in_encoder, solver, encoded):
    """Two steps of rk4 meet the times 0, 1/4, 1/2, 3/4 and 1."""
    model, calls = model_of(time_in_encoder=time_in_encoder), []
    encode = model.network.encode
    monkeypatch.setattr(model.network, "encode", lambda *given, **named: calls.append(1) or encode(*given, **named))
    model.sample(pieces, 3, solver=solver, steps=2)
    assert len(calls) == encoded


def test_samples_share_the_first_self_attention(pieces, monkeypatch):
    """It sees tau but single pieces only: once per distinct time, on one copy of the tokens."""
    model, seen = model_of(time_in_encoder=False), []
    attune = model.network.attune
    monkeypatch.setattr(
        model.network, "attune", lambda tokens, tau: seen.append(len(tokens.points)) or attune(tokens, tau)
    )
    model.sample(pieces, 3, solver="rk4", steps=2)
    assert seen == [len(model.pyramid(pieces).coarse.points)] * 5


@pytest.mark.parametrize("time_in_encoder", [True, False])
def test_an_encoding_may_be_shared_by_several_calls(pieces, time_in_encoder):
    model, noise = model_of(time_in_encoder=time_in_encoder), random_se3_batch(3, 3)
    encoding = model.encode(pieces)
    for rows in (slice(0, 1), slice(1, 3)):
        count = rows.stop - rows.start
        alone = model.sample(pieces, count, noise=noise[rows], steps=2).matrix()
        assert torch.equal(model.sample(encoding, count, noise=noise[rows], steps=2).matrix(), alone)


def test_pins_belong_to_the_encoding(model, pieces):
    pins, noise = {0: random_se3_batch(seed=1), 2: random_se3_batch(seed=2)}, random_se3_batch(1, 2)
    alone = model.sample(pieces, noise=noise, pins=pins, steps=2)
    assert torch.equal(model.sample(model.encode(pieces, pins), noise=noise, steps=2).matrix(), alone.matrix())
    with pytest.raises(InputError, match="give the pins to `encode`"):
        model.sample(model.encode(pieces), noise=noise, pins=pins)


# -- pins --------------------------------------------------------------------------------------------------


def test_one_pin_only_moves_the_assembly(model, pieces):
    noise, pin = random_se3_batch(2, 3), SE3(torch.eye(3).double(), torch.tensor([1.0, -2.0, 3.0]).double())
    free = model.sample(pieces, 2, noise=noise, steps=2)
    pinned = model.sample(pieces, 2, noise=noise, steps=2, pins={1: pin})
    assert pinned.shape == (2, 3)
    for k in range(2):
        assert torch.equal(pinned[k, 1].matrix(), pin.matrix())
        whole = pin @ free[k, 1].inverse()
        assert_near(pinned[k].matrix(), torch.stack([(whole @ free[k, i]).matrix() for i in range(3)]), 1e-10)


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_several_pins_are_kept_exactly(model, pieces, dtype):
    pins = {2: random_se3_batch(seed=1, dtype=dtype), 0: random_se3_batch(seed=2, dtype=dtype)}
    walked = model.trajectory(pieces, 3, steps=2, pins=pins, generator=seeded())
    assert walked.poses.shape == (3, 3, 3)
    assert walked.poses.isfinite()
    for index, pin in pins.items():
        assert_near(walked.final[:, index].matrix(), pin.to(DOUBLE).matrix().expand(3, 4, 4), 1e-14)
    assert (walked.final.translation[0, 1] - walked.final.translation[1, 1]).norm() > 1e-3


def test_pins_that_leave_nothing_free(model, pieces):
    pins = {i: random_se3_batch(seed=i) for i in range(3)}
    poses = model.sample(pieces, steps=1, pins=pins)
    assert_near(poses[0].matrix(), torch.stack([pins[i].matrix() for i in range(3)]), 1e-14)


def test_no_pins_are_no_pins(model, pieces):
    noise = random_se3_batch(1, 3)
    plain, empty = (model.sample(pieces, noise=noise, steps=1, pins=pins).matrix() for pins in (None, {}))
    assert torch.equal(plain, empty)


def test_pins_of_one_puzzle_leave_the_other_alone(model):
    pieces, noise = two_puzzles(12, 12), random_se3_batch(1, 5)
    free = model.sample(pieces, noise=noise, steps=1)
    pinned = model.sample(pieces, noise=noise, steps=1, pins={4: SE3.identity()})
    assert_near(pinned[0, :3].matrix(), free[0, :3].matrix(), 1e-10)
    assert_near(pinned[0, 4].matrix(), torch.eye(4).double(), 1e-10)
