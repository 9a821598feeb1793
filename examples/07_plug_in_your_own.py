"""Plug in your own network, noise, solver and data: train, check, save, load and evaluate a model made of them.

python examples/07_plug_in_your_own.py --out run           # trains, then says how well it does

The parts have names from the moment this module is imported. On the command line `--plugin` imports it:

cd examples
eda --plugin 07_plug_in_your_own evaluate --model run/model.safetensors --data bricks:50 --solver midpoint
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import eda
from eda import SE3, Eda, EdaConfig, Pieces
from eda.data import Example, Plan, build, open_examples, register_source
from eda.evaluate import NetworkAnswers, Sampling, check_equivariance, evaluate, scatter, summarize
from eda.flow import Solver, Table, sample_noise
from eda.nn.protocol import CustomNetwork
from eda.train import DataConfig, OptimizerConfig, TrainConfig, Watcher, join, overridden, train


class CentroidNetwork(nn.Module):
    """Every piece looks at the centroids of the others. It learns where pieces go, but not how they are turned.

    Equivariant: it adds up vectors between centroids, weighted by functions of their lengths and of tau.
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.config = {"width": width}  # the arguments that make it again, for model files
        self.weights = nn.Sequential(nn.Linear(2, width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, pieces: Pieces, tau: Tensor) -> Tensor:
        """Pieces at their poses, tau (B,) -> (N, 6): the angular velocity and the velocity of the centroid."""
        centers, puzzle = pieces.centroids(), pieces.puzzle_of_piece
        between = centers[None] - centers[:, None]  # (N, N, 3)
        seen = torch.stack([between.square().sum(-1), tau[puzzle].expand(len(centers), -1)], dim=-1)
        weights = self.weights(seen) * (puzzle[:, None] == puzzle[None])[..., None]  # pieces of other puzzles: 0
        return torch.einsum("ijk,ijc->ikc", weights, between).flatten(1)


def shell_noise(pieces: Pieces, noise_std: float, *, samples: int = 1, generator: torch.Generator | None = None) -> SE3:
    """Uniform rotations, and all pieces equally far from the origin: `samples` draws of N poses."""
    draws = sample_noise(pieces, noise_std, samples=samples, generator=generator)
    return SE3(draws.rotation, noise_std * nn.functional.normalize(draws.translation, dim=-1))


class Bricks:
    """A source of puzzles: bricks of random size, cut in two by a random plane. Brick i is always the same."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Example:
        rng = np.random.default_rng(index)
        points = rng.uniform(-1, 1, size=(200, 3)) * rng.uniform(0.3, 1.0, size=3)
        side = points @ rng.normal(size=3)
        halves = [points[side > np.median(side)], points[side <= np.median(side)]]
        return Example.from_clouds(f"brick {index}", halves)

    def __iter__(self) -> Iterator[Example]:
        return (self[index] for index in range(len(self)))


def centroids_recipe() -> TrainConfig:
    """Bricks in two pieces, by a network of centroids and a noise of our own."""
    model = EdaConfig(CustomNetwork("centroids", {"width": 16}), noise="shell", noise_std=0.5, num_points=100)
    return TrainConfig(model, OptimizerConfig(steps=200, lr=1e-2, warmup=10), DataConfig(points_per_batch=1600))


eda.register_network("centroids", CentroidNetwork)
eda.register_noise("shell", shell_noise)
eda.register_solver("midpoint", Solver(Table(stages=((), (0.5,)), weights=(0.0, 1.0), nodes=(0.0, 0.5))))
eda.register_recipe("centroids", centroids_recipe)
register_source("bricks", lambda text: Bricks(int(text)))

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder of the run; the same folder resumes it")
    parser.add_argument("--quick", action="store_true", help="a few steps")
    options = parser.parse_args()
    folder = options.out or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)

    # Training reads from disk, so the puzzles are written there first.
    bricks = Bricks(64)
    build(Plan(lambda index: [bricks[index]], len(bricks), {"made": "bricks"}), folder / "data")
    words = [f"data.train={folder / 'data'}", *(["optimizer.steps=20"] if options.quick else [])]
    config = overridden(centroids_recipe(), words)
    with join("cpu") as ranks:
        train(config, folder, ranks, Watcher(config, folder, print))

    # The file has the names and the settings, never code: this works where the names are registered.
    model = Eda.load(folder / "model.safetensors")
    print("keeps the laws of equivariance:", check_equivariance(model, draws=4).holds)
    source = NetworkAnswers(model, Sampling(solver="midpoint", steps=10, repeats=1, points=100))
    answers = source.answers(scatter(open_examples("bricks:8"), seed=0))
    for name, figures in summarize(evaluate(answers, "pairwise"))["metrics"].items():
        print(f"{name}: {figures['mean']:.3g} on average over 8 bricks")
