"""The paper's figure of error against steps: a model's samples by RK1 and RK4, from one step to many.

    python benchmarks/steps.py --model fracture-small --data fracture:pieces=2-8,puzzles=70,seed=9,shapes=held_out \
        --puzzles 70 --json steps.json --picture steps.svg

Every setting starts from the same noise. The mean error of uncertain answers may grow when samples become sharper, so
the share of samples within 10 degrees stands beside it.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from curves import Curve, charts

from eda import Eda
from eda.data import open_examples
from eda.evaluate import NetworkAnswers, PuzzleSet, Sampling, evaluate

SOLVERS = ("rk1", "rk4")
STEPS = (1, 2, 5, 10, 20)
CLOSE = 10.0  # degrees


def errors_of(model: Eda, puzzles: PuzzleSet, sampling: Sampling) -> tuple[np.ndarray, np.ndarray]:
    """The pairwise rotation error of every puzzle in degrees, and its number of pieces."""
    records = evaluate(NetworkAnswers(model, sampling).answers(puzzles.scatter()), "pairwise").records
    return np.array([r.figures["rotation"].mean() for r in records]), np.array([r.num_pieces for r in records])


def measure(model: Eda, puzzles: PuzzleSet, options: argparse.Namespace) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for solver in SOLVERS:
        for steps in options.steps:
            sampling = Sampling(samples=1, repeats=1, solver=solver, steps=steps, seed=options.seed)
            error, pieces = errors_of(model, puzzles, sampling)
            by = {int(n): float((error[pieces == n] < CLOSE).mean()) for n in np.unique(pieces)}
            row = {
                "solver": solver,
                "steps": steps,
                "mean": float(error.mean()),
                "close": float((error < CLOSE).mean()),
            }
            rows.append({**row, "close_by_pieces": by})
            shares = "  ".join(f"{n}: {share:.2f}" for n, share in by.items())
            print(f"| {solver} x {steps} | {row['mean']:.1f} | {row['close']:.2f} | {shares} |", flush=True)
    return rows


def picture(rows: list[dict[str, object]]) -> str:
    panels = {}
    for title, key, factor in (("mean error (degrees)", "mean", 1.0), ("within 10 degrees (%)", "close", 100.0)):
        curves = []
        for solver in SOLVERS:
            own = [row for row in rows if row["solver"] == solver]
            x, y = ([float(row[name]) for row in own] for name in ("steps", key))  # type: ignore[arg-type]
            curves.append(Curve(solver.upper(), np.array(x), factor * np.array(y)))
        panels[title] = curves
    return charts(panels, "steps")


def main(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    model = Eda.load(options.model)
    puzzles = PuzzleSet.choose(open_examples(options.data), seed=options.seed, limit=options.puzzles)
    print("| solver | mean degrees | within 10 degrees | by number of pieces |\n|---|---|---|---|")
    rows = measure(model, puzzles, options)
    if options.json:
        settings = {"model": options.model, "data": options.data, "puzzles": options.puzzles, "seed": options.seed}
        options.json.write_text(json.dumps({**settings, "rows": rows}, indent=2) + "\n")
    if options.picture:
        options.picture.write_text(picture(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="fracture-small")
    parser.add_argument("--data", required=True)
    parser.add_argument("--puzzles", type=int, default=70, help="evenly over the whole")
    parser.add_argument("--steps", type=int, nargs="+", default=list(STEPS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    main(parser.parse_args())
