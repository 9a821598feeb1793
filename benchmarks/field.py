"""Where along the path a model's field is wrong: |dw|^2 and |du|^2 at several taus, by the number of pieces.

    python benchmarks/field.py --model fracture-small --data v8 --puzzles 96

A field that predicted nothing would have the figures of the last columns, the mean squares of what is wanted. An error
at small tau means that the network does not see where the pieces belong; one near 1, that it does not see it precisely.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eda import Eda
from eda.data import Dataset
from eda.flow import Path as FlowPath
from eda.flow import sample_noise
from eda.lie import SE3
from eda.segment import segment_mean

TAUS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97)


@torch.no_grad()
def field_errors(model: Eda, example, draws: int, generator: torch.Generator) -> Tensor:
    """Means over draws and pieces of one puzzle. -> (len(TAUS), 4): |dw|^2, |du|^2, |w|^2, |u|^2."""
    puzzle = example.puzzle()
    field = model.field(puzzle.pieces, samples=draws)
    rows = []
    for tau in TAUS:
        noise = sample_noise(puzzle.pieces, model.config.noise_std, samples=draws, generator=generator).reshape(-1)
        path = FlowPath.generated_by(noise, SE3.cat([puzzle.solution] * draws), field.puzzle, draws)
        times = torch.full((draws,), tau)
        poses = path.at(times[field.puzzle])
        wanted = field.center_velocity(path.twist, poses)
        squares = torch.cat([field.velocities(poses, times) - wanted, wanted], dim=1).square()
        parts = squares.unflatten(1, (4, 3)).sum(-1)
        rows.append(segment_mean(parts, field.puzzle, draws).mean(0))
    return torch.stack(rows)


def main(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    model, dataset = Eda.load(options.model), Dataset(options.data)
    generator = torch.Generator().manual_seed(options.seed)
    by_count: dict[int, list[Tensor]] = {}
    for number in range(min(options.puzzles, len(dataset))):
        example = dataset[number].downsample(model.config.num_points)
        by_count.setdefault(example.num_pieces, []).append(field_errors(model, example, options.draws, generator))
    print("| pieces | puzzles | " + " | ".join(f"tau {tau}" for tau in TAUS) + " | nothing |")
    print("|---" * (3 + len(TAUS)) + "|")
    for count, errors in sorted(by_count.items()):
        mean = torch.stack(errors).mean(0).numpy()
        cells = [f"{w:.2f} / {u:.2f}" for w, u in mean[:, :2]]
        nothing = " / ".join(f"{square:.2f}" for square in mean[:, 2:].mean(0))
        print(f"| {count} | {len(errors)} | {' | '.join(cells)} | {nothing} |")
    whole = np.mean([errors.numpy() for some in by_count.values() for errors in some], axis=(0, 1))
    print(f"all: {whole[0]:.3f} / {whole[1]:.3f} of {whole[2]:.3f} / {whole[3]:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="fracture-small")
    parser.add_argument("--data", type=Path, required=True, help="a dataset of `eda fracture` or `eda prepare`")
    parser.add_argument("--puzzles", type=int, default=96)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
