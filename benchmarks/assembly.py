"""How many puzzles the assembler solves, against one refined sample of the same network.

    python benchmarks/assembly.py --data fracture:pieces=2-2,puzzles=64,seed=9001,shapes=held_out [--model NAME]

Pieces are turned and moved at random first. A puzzle is solved if its pairs are off by less than 10 degrees and 5 % of
its size in the mean (the paper's pairwise errors). `one` draws a single sample and refines it, without proposals.
"""

import argparse
import time
from collections import defaultdict

import numpy as np
import torch

from eda import SE3, Eda, Puzzle, assemble
from eda.assembly import AssembleConfig, Assembly, RankConfig
from eda.data import Example, open_examples
from eda.lie import so3
from eda.metrics import pairwise_geodesic

METHODS = {
    "all": AssembleConfig(),
    "one": AssembleConfig(samples=1, ranking=RankConfig(propose=None, repaired=0)),
}


def errors(example: Example, config: AssembleConfig, model: Eda, seed: int) -> tuple[float, float, Assembly]:
    """Degrees and lengths off, in the mean over pairs, and what was found."""
    generator = torch.Generator().manual_seed(seed)
    turns = so3.random(example.num_pieces, generator=generator, dtype=torch.float64).numpy()
    clouds = [cloud @ turn.T for cloud, turn in zip(example.clouds(), turns, strict=True)]
    normals = [normal @ turn.T for normal, turn in zip(example.clouds(example.normals), turns, strict=True)]
    assembly = assemble(clouds, normals, model=model, config=config)
    motions = assembly.best.poses.copy()  # of the turned clouds; of the clouds in place:
    motions[:, :3, :3] = motions[:, :3, :3] @ turns
    puzzle = Puzzle.from_assembled(example.clouds(), dtype=torch.float64)
    found = puzzle.pieces.from_user(SE3.from_matrix(torch.from_numpy(motions)))
    degrees, length = pairwise_geodesic(found, puzzle.solution, puzzle.pieces)
    return float(degrees), float(length), assembly


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", default="fracture-small")
    parser.add_argument("--limit", type=int, default=10**9)
    parser.add_argument("--methods", default="all,one")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = Eda.load(arguments.model)
    rows: dict[tuple[str, int], list[tuple[float, float, float, float]]] = defaultdict(list)
    for index, example in zip(range(arguments.limit), open_examples(arguments.data), strict=False):
        for method in arguments.methods.split(","):
            began = time.perf_counter()
            degrees, length, found = errors(example, METHODS[method], model, index)
            seconds = time.perf_counter() - began
            rows[method, example.num_pieces].append((degrees, length, found.best.probability, seconds))
    print("| method | pieces | puzzles | solved | median degrees | mean degrees | Brier | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for (method, pieces), results in sorted(rows.items()):
        degrees, length, probability, seconds = np.array(results).T
        solved = (degrees < 10) & (length < 0.05)
        print(
            f"| {method} | {pieces} | {len(results)} | {solved.mean():.0%} | {np.median(degrees):.1f} | "
            f"{degrees.mean():.1f} | {np.square(probability - solved).mean():.3f} | {seconds.mean():.1f} |"
        )


if __name__ == "__main__":
    main()
