"""Samples of the flow, in batches that share one encoding."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.lumpy_shapes import TINY_NETWORK, lumpy_cloud, lumpy_pieces
from support.oracles import stirred
from support.rigid_motions import random_motions, random_se3_batch, transform_points
from support.tiny_models import model_of

from eda import Eda, EdaConfig
from eda.assembly.contact.detail import Detail
from eda.assembly.proposals.flow_samples import SAMPLES_AT_ONCE, Resampler, Sampler, side_by_side
from eda.budget import Budget, Stage
from eda.flow import Trajectory
from eda.lie import SE3


def sampler(model: Eda, solver: str = "rk1") -> Sampler:
    return Sampler(model, model.encode(lumpy_pieces(3, 20, dtype=torch.float32)), steps=2, rounds=1, solver=solver)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="module")
def model() -> Eda:
    return Eda(EdaConfig(replace(TINY_NETWORK, time_in_encoder=False)))


def test_batches_share_one_pass_of_the_encoder(model, monkeypatch):
    calls, descend = [], model.network.descend
    monkeypatch.setattr(model.network, "descend", lambda *given: calls.append(1) or descend(*given))
    drawn = sampler(model).sample(2 * SAMPLES_AT_ONCE + 1, generator(), None, Budget())
    assert drawn.final.shape == (2 * SAMPLES_AT_ONCE + 1, 3)
    assert len(calls) == 1


def test_what_was_begun_is_finished_when_time_is_over(model):
    drawn = sampler(model).sample(3 * SAMPLES_AT_ONCE, generator(), None, Budget(0.0))
    assert drawn.final.shape == (SAMPLES_AT_ONCE, 3)


def test_an_adaptive_solver_may_take_other_steps_in_every_batch(model):
    told: list[float] = []
    budget = Budget(progress=lambda stage, share: told.append(share) if stage == Stage.SAMPLE else None)
    drawn = sampler(model, "adaptive").sample(SAMPLES_AT_ONCE + 1, generator(), None, budget)
    assert drawn.final.shape == (SAMPLES_AT_ONCE + 1, 3)
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1)


def test_samples_of_different_lengths_stay_at_their_end():
    def walk(steps: int, samples: int) -> Trajectory:
        places = torch.arange(steps * samples * 2.0).reshape(steps, samples, 2, 1).expand(-1, -1, -1, 3)
        turns = torch.eye(3).expand(steps, samples, 2, 3, 3)
        return Trajectory(torch.linspace(0, 1, steps)[:, None].expand(-1, samples), SE3(turns, places))

    short, long = walk(3, 2), walk(5, 1)
    both = side_by_side([short, long])
    assert both.poses.shape == (5, 3, 2)
    torch.testing.assert_close(both.final.translation[:2], short.final.translation)
    torch.testing.assert_close(both.poses.translation[2:, :2], short.final.translation.expand(3, -1, -1, -1))
    torch.testing.assert_close(both.poses.translation[:, 2:], long.poses.translation)
    assert both.taus.tolist()[-1] == [1, 1, 1]


# -- pieces that were merged -------------------------------------------------------------------------------


def merged_clouds() -> Detail:
    """Three blobs, each far from the origin of its own frame."""
    points, normals = zip(*(lumpy_cloud(seed, 70 + 5 * seed) for seed in range(3)), strict=True)
    return Detail(tuple(cloud + np.array([3.0, seed, -2.0]) for seed, cloud in enumerate(points)), normals)


def resampler(model: Eda, seed: int = 0) -> Resampler:
    return Resampler(model, samples=2, steps=2, rounds=1, solver="rk1", seed=seed)


def test_poses_of_merged_pieces_act_on_the_frames_of_their_points(monkeypatch):
    """Every cloud is moved, and the noise that it starts from turned back: then the assembled clouds are the same."""
    model, detail = stirred(model_of()), merged_clouds()
    noise, motions = random_se3_batch(2, 3, seed=1), random_motions(3, 2, spread=4.0).numpy()
    monkeypatch.setattr(model, "sample_noise", lambda *given: noise)
    here = resampler(model)(detail, Budget())
    moved = Detail(
        tuple(transform_points(g, cloud) for g, cloud in zip(motions, detail.points, strict=True)),
        tuple(each @ g[:3, :3].T for g, each in zip(motions, detail.normals, strict=True)),
    )
    turned = SE3(noise.rotation @ torch.from_numpy(motions[:, :3, :3]).mT, noise.translation)
    monkeypatch.setattr(model, "sample_noise", lambda *given: turned)
    there = resampler(model)(moved, Budget())
    np.testing.assert_allclose(there @ motions, here, atol=1e-8)
    assert np.abs(here[:, :, :3, :3] - noise.rotation.numpy()).max() > 0.1  # the flow did something


def test_the_unit_of_merged_pieces_is_that_of_their_points(monkeypatch):
    """In another unit all distances are so many times as long."""
    model, detail = stirred(model_of()), merged_clouds()
    noise = random_se3_batch(2, 3, seed=1)
    monkeypatch.setattr(model, "sample_noise", lambda *given: noise)
    here = resampler(model)(detail, Budget())
    there = resampler(model)(Detail(tuple(7 * cloud for cloud in detail.points), detail.normals), Budget())
    np.testing.assert_allclose(there[..., :3, :3], here[..., :3, :3], atol=1e-8)
    np.testing.assert_allclose(there[..., :3, 3], 7 * here[..., :3, 3], atol=1e-7)


def test_merged_pieces_are_sampled_alike_by_the_same_seed_and_rigidly(model):
    detail = merged_clouds()
    first, again, other = (resampler(model, seed)(detail, Budget()) for seed in (0, 0, 1))
    assert first.shape == (2, 3, 4, 4)
    assert first.dtype == np.float64
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.1
    rotation = first[..., :3, :3]
    np.testing.assert_allclose(
        rotation @ rotation.swapaxes(-1, -2), np.broadcast_to(np.eye(3), rotation.shape), atol=1e-14
    )


def test_merged_pieces_are_sampled_at_least_once_when_time_is_over(model):
    many = replace(resampler(model), samples=2 * SAMPLES_AT_ONCE)
    assert many(merged_clouds(), Budget(0.0)).shape == (SAMPLES_AT_ONCE, 3, 4, 4)
