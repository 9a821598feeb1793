"""Samples of the flow, in batches that share one encoding."""

from dataclasses import replace

import pytest
import torch
from support.lumpy_shapes import TINY_NETWORK, lumpy_pieces

from eda import Eda, EdaConfig
from eda.assembly.proposals.flow_samples import SAMPLES_AT_ONCE, Sampler, side_by_side
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
