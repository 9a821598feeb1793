"""Fit the probabilities of assembled fragments: the calibrations in the header of their model.

    python benchmarks/calibrate_fragments.py --json fit.jsonl --write my-model.safetensors   # all in one, resumable
    python benchmarks/calibrate_fragments.py --from fit.jsonl                                # the fit again
    python benchmarks/calibrate_fragments.py --sets strangers copies --json some.jsonl       # a part of the work

The assembler puts together puzzles of `calibration_sets.py`: what belongs together and what does not. Of every best
assembly, the features of its probabilities are kept, with whether it is right as `eda evaluate --assemble` decides it.
`--data` may be given several times: the sets are shared between them. By default it takes about a quarter of an hour.
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from calibration_sets import SETS, Puzzles

from eda import Eda
from eda.assembly import AssembleConfig
from eda.assembly.confidence import AssemblyStats, Probabilities
from eda.assembly.confidence.features import FEATURES, Features, kind_features
from eda.assembly.contact.evidence import Evidence
from eda.atomic import write_atomically
from eda.calibration import Calibration, calibrate, write_calibrations
from eda.data import open_examples
from eda.evaluate import PROTOCOLS, AssemblerAnswers
from eda.evaluate.reliability import claims_of
from eda.evaluate.scatter import ScatteredPuzzle
from eda.metrics import expected_calibration_error

DATA = "fracture:pieces=2-8,puzzles=1000,seed=8002,shapes=held_out"
FOLDS = 8  # of the cross-validation
# There are few puzzles for the features, but which kind of pieces they are of shows in one.
RIDGE = {"joint": 1e-2, "piece": 1e-2, "assembly": 1e-2, "kind": 1e-3}
Row = dict[str, Any]


class Recorder:
    """Believes everything, so that nothing is left out, and remembers what was first observed."""

    def __init__(self) -> None:
        self.stats: AssemblyStats | None = None

    def estimate(self, stats: AssemblyStats) -> Probabilities:
        """All certain. What is first asked about is the best assembly, alone."""
        self.stats = self.stats or stats
        return Probabilities(np.ones_like(stats.scores.good), np.ones(stats.placed.shape), np.ones(len(stats.placed)))

    def knows(self, evidence: Evidence) -> bool:
        """Everything."""
        return True


def observe(puzzle: ScatteredPuzzle, model: Eda) -> dict[str, list[Row]]:
    """Of each kind, the features of every probability of the best assembly, and whether what it claims is right."""
    recorder = Recorder()
    ranking = replace(AssembleConfig().ranking, confidence=recorder)
    (answer,) = AssemblerAnswers(model, replace(AssembleConfig(), ranking=ranking)).answers([puzzle])
    if recorder.stats is None:
        return {kind: [] for kind in FEATURES}
    features, placed = Features(recorder.stats), np.flatnonzero(answer.placed[0, 0])
    columns = {"joint": features.joints()[0], "piece": features.pieces()[0], "assembly": features.assemblies()[0]}
    places = {
        "assembly": [()] if len(placed) else [],
        "piece": [(i,) for i in placed],
        "joint": [(i, j) for i, j in np.argwhere(np.triu(answer.confidence.joints, 1) > 0)],
    }
    claims = claims_of(answer, PROTOCOLS["pairwise"])
    return {
        kind: [
            {"features": columns[kind][place].tolist(), "right": right}
            for place, (_, right) in zip(places[kind], claims[kind], strict=True)
        ]
        for kind in places
    } | {"kind": [{"features": kind_features(recorder.stats.evidence).tolist(), "right": True}]}


def measure(puzzles: Iterable[tuple[str, int, ScatteredPuzzle]], model: Eda, done: set[tuple]) -> Iterator[Row]:
    """One row a puzzle that is not done yet."""
    for name, number, puzzle in puzzles:
        if (name, number) not in done:
            rows = observe(puzzle, model)
            for row in rows["kind"]:
                row["right"] = name != "parts"
            yield {"set": name, "number": number, "puzzle": puzzle.example.name, **rows}


def resumed(options: argparse.Namespace) -> list[Row]:
    """The rows of all puzzles; those in the file of an earlier run are taken from there."""
    torch.set_num_threads(1)
    rows = read(options.json) if options.json and options.json.exists() else []
    if options.json:  # without a line that was cut short
        write_atomically(options.json, "".join(json.dumps(row) + "\n" for row in rows).encode())
    done = {(row["set"], row["number"]) for row in rows}
    puzzles = Puzzles([open_examples(data) for data in options.data or [DATA]], options.sets, options.share)
    for row in measure(puzzles, Eda.load(options.model), done):
        rows.append(row)
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps(row) + "\n")
    return rows


def read(path: Path) -> list[Row]:
    """The rows of a file, but for one whose writing was interrupted."""
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def fit(results: list[Row]) -> dict[str, Calibration]:
    """The calibrations, which are also printed with how well those do that were fitted to other puzzles.

    Parts that were made to fit tell which kind of pieces there is. The other calibrations take a broken object for
    granted, so they learn nothing from parts.
    """
    broken = [result for result in results if result["set"] != "parts"]
    return {kind: _fit_kind(kind, results if kind == "kind" else broken) for kind in FEATURES}


def _fit_kind(kind: str, results: list[Row]) -> Calibration:
    of_row = np.array([number for number, result in enumerate(results) for _ in result[kind]])
    rows = [row for result in results for row in result[kind]]
    features, right = np.array([row["features"] for row in rows]), np.array([row["right"] for row in rows])
    likely = np.zeros(len(rows))
    for fold in range(FOLDS):
        inside = of_row % FOLDS == fold
        likely[inside] = calibrate(features[~inside], right[~inside], fitted="", ridge=RIDGE[kind])(features[inside])
    made = f"{len(rows)} of {len(results)} puzzles"
    print(f"{kind}: {made}, calibration error {expected_calibration_error(likely, right):.3f}")
    sets = np.array([results[number]["set"] for number in of_row])
    for name in dict.fromkeys(sets):
        of_set = sets == name
        print(f"    {name:10} share right {right[of_set].mean():.2f}, mean probability {likely[of_set].mean():.2f}")
    fitted = calibrate(features, right, fitted=made, ridge=RIDGE[kind], usual=sets != "parts")
    weights = zip(FEATURES[kind], fitted.weights * features.std(axis=0), strict=True)
    print("   ", ", ".join(f"{name} {weight:+.2f}" for name, weight in weights))
    return fitted


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", help=f"as eda evaluate takes it; {DATA}")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS), help="which; all")
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of puzzles")
    parser.add_argument("--from", dest="results", type=Path, nargs="+", help="results of earlier runs")
    parser.add_argument("--model", default="fracture-small")
    parser.add_argument("--json", type=Path, help="where to keep the features, a line a puzzle; what is there stays")
    parser.add_argument("--write", type=Path, help="a model file whose header gets the calibrations")
    options = parser.parse_args()
    kept = [row for path in options.results or [] for row in read(path)]
    fitted = fit(kept if options.results else resumed(options))
    if options.write:
        write_calibrations(options.write, fitted)
