"""The whole of it learns: trained on one puzzle, sampling puts that puzzle together."""

import numpy as np
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from eda import Eda, EdaConfig, NetworkConfig, Puzzle
from eda.flow import fit_noise_std
from eda.metrics import pairwise_geodesic

STEPS, DRAWS, RATE = 1000, 48, 8e-3


def three_lobed_puzzle() -> Puzzle:
    """Three pieces, each of three lobes of different widths: no piece looks like itself turned, or like another."""
    rng = np.random.default_rng(0)
    clouds = []
    for _ in range(3):
        centers, widths = rng.normal(size=(3, 3)), rng.uniform(0.05, 0.25, size=3)
        lobes = [c + w * rng.normal(size=(14, 3)) for c, w in zip(centers, widths, strict=True)]
        clouds.append(np.concatenate(lobes) + 0.3 * rng.normal(size=3))
    return Puzzle.from_assembled(clouds)


def trained_on(puzzle: Puzzle) -> Eda:
    network = NetworkConfig(
        num_levels=2, channels=16, num_neighbors=6, cross_neighbors=None, time_in_encoder=False, normals="absent",
        spacing=0.1,
    )  # fmt: skip
    model = Eda(EdaConfig(network, noise_std=fit_noise_std([puzzle])))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS, pct_start=0.1)
    pyramid, generator = model.pyramid(puzzle.pieces), torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model.loss(puzzle, pyramid=pyramid, draws=DRAWS, generator=generator).total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        average.update_parameters(model)
    return average.module


def test_a_model_trained_on_one_puzzle_solves_it_from_nine_of_ten_noises():
    puzzle = three_lobed_puzzle()
    model = trained_on(puzzle)
    solved = []
    for seed in range(10):
        poses = model.sample(
            puzzle.pieces, solver="rk4", steps=20, generator=torch.Generator().manual_seed(seed)
        )[0]  # fmt: skip
        degrees, distance = pairwise_geodesic(poses, puzzle.solution, puzzle.pieces)
        print(f"seed {seed}: {float(degrees):.2f} degrees, {float(distance):.3f}")
        solved.append(float(degrees) < 5 and float(distance) < 0.05)
    assert sum(solved) >= 9
