"""How well files are assembled whose pieces lie in their places: each piece is turned and moved, then put together.

    python benchmarks/files.py GLBS/*.glb --json files.json

Every file, or folder of files, is a puzzle. The pieces are read, repaired and sampled as `eda assemble` does it. A line
a puzzle: pieces, those placed and in place, the mean error of pairs of pieces in degrees, the stated probability, and
seconds of CPU time. Then the share that is solved, how many of the pieces placed are in their place, and how many
puzzles have a piece in a wrong place at a stated probability of over 0.9.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from eda.assembly.inputs.downsample import POINTS_PER_PIECE
from eda.data import Example
from eda.data.piece_files import read_usable_pieces, sample_piece
from eda.evaluate import AssemblerAnswers
from eda.evaluate.scatter import ScatteredPuzzle
from eda.evaluate.scoring import score_answer


def puzzles(paths: Sequence[Path], seed: int) -> Iterator[ScatteredPuzzle]:
    """Every path as a puzzle whose pieces were turned by chance."""
    for index, path in enumerate(paths):
        rng = np.random.default_rng((seed, index))
        samples = [sample_piece(piece, POINTS_PER_PIECE, rng) for piece in read_usable_pieces([path]).pieces]
        example = Example.from_clouds(path.stem, [s.points for s in samples], [s.normals for s in samples])
        yield ScatteredPuzzle.of(example, seed, index)


def measure(puzzle: ScatteredPuzzle, model: str | None) -> dict[str, float]:
    """The figures of one puzzle, of which a claim over 0.9 that is wrong is one."""
    began = time.process_time()
    (answer,) = AssemblerAnswers(model).answers([puzzle])
    seconds, record = time.process_time() - began, score_answer(answer)
    assert record.claims is not None
    figures = {name: float(values[0, 0]) for name, values in record.figures.items()}
    pieces, wholes = record.claims["piece"], record.claims["assembly"]
    return {
        "pieces": puzzle.example.num_pieces,
        "placed": len(pieces),
        "right": sum(right for _, right in pieces),
        "degrees": figures["rotation"],
        "solved": figures["solved"],
        "probability": wholes[0][0] if wholes else 0.0,
        "sure_and_wrong": any(p > 0.9 and not right for p, right in pieces),
        "seconds": seconds,
    }


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--model", help="by default chosen by the pieces")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = {}
    for puzzle in puzzles(options.paths, options.seed):
        row = rows[puzzle.example.name] = measure(puzzle, options.model)
        print(puzzle.example.name, *(f"{name} {value:.3g}" for name, value in row.items()), sep="  ", flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    total = {name: np.array([row[name] for row in rows.values()]) for name in next(iter(rows.values()))}
    print(
        f"{len(rows)} puzzles, {total['solved'].mean():.0%} solved, mean {total['degrees'].mean():.1f} degrees;",
        f"{total['right'].sum()} of {total['placed'].sum()} pieces placed are in place, of {total['pieces'].sum()};",
        f"{total['sure_and_wrong'].sum()} puzzles with a wrong piece at over 0.9",
    )


if __name__ == "__main__":
    main()
