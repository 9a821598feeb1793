"""What becomes of pieces that do not belong together: how many are put together, and with what probability.

    python benchmarks/strangers.py --data breaking-bad-pack:everyday_train.npz,half=odd --sets strangers copies
    python benchmarks/strangers.py --folders PARTNET/*

The sets are those of `calibration_sets.py`. Every folder is a thing of parts that were made to fit. A line a puzzle:
pieces, those placed, the probability of the best assembly, and the verdict.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from calibration_sets import SETS, Puzzles

from eda import assemble
from eda.data import open_examples
from eda.evaluate.scatter import ScatteredPuzzle


def puzzles(options: argparse.Namespace) -> Iterator[tuple[str, ScatteredPuzzle]]:
    """Each with the name of its set."""
    if options.data:
        for name, _, puzzle in Puzzles([open_examples(options.data)], options.sets, options.share):
            yield name, puzzle
    for index, folder in enumerate(options.folders):
        for example in open_examples(str(folder)):
            yield "parts of files", ScatteredPuzzle.of(example, 0, index)


def main() -> None:
    """Assemble and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="broken objects, as eda evaluate takes them")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=["strangers", "copies"])
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of puzzles")
    parser.add_argument("--folders", nargs="+", type=Path, default=[])
    parser.add_argument("--model", default="fracture-small")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, list[tuple[bool, float]]] = {}
    for name, puzzle in puzzles(options):
        assembly = assemble(puzzle.clouds(), puzzle.normals(), model=options.model)
        best = assembly.best
        found.setdefault(name, []).append((not assembly.is_empty, best.probability))
        print(name, puzzle.example.name, f"{best.placed.sum()} of {len(best.placed)} placed", end="  ")
        print(f"probability {best.probability:.3f}  {assembly.verdict}", flush=True)
    for name, rows in found.items():
        placed, probability = np.array(rows).T
        print(
            f"{name}: {len(rows)} puzzles, {placed.sum():.0f} put together, mean probability {probability.mean():.3f}"
        )


if __name__ == "__main__":
    main()
