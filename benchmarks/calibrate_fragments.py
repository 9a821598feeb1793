"""Fit the probabilities of assembled fragments: the calibrations in the header of its model.

    python benchmarks/calibrate_fragments.py --json fit.json \
        --data fracture:pieces=2-8,puzzles=144,seed=8002,shapes=held_out
    python benchmarks/calibrate_fragments.py --from fit.json                             # the coefficients again
    python benchmarks/calibrate_fragments.py --from fit.json --write my-model.safetensors  # and into a model's header

The assembler puts puzzles together, and every probability that it gives is recorded with the features that it comes
from. What is right is decided as by `eda evaluate --assemble`, which measures the probabilities on other puzzles.
"""

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eda.assembly import AssembleConfig
from eda.assembly.confidence import FractureConfidence
from eda.atomic import write_atomically
from eda.calibration import Calibration, Calibrations, calibrate, shipped_calibrations, write_calibrations
from eda.data import open_examples
from eda.evaluate import PROTOCOLS, Answer, AssemblerAnswers, PuzzleSet
from eda.evaluate.reliability import claims_of

KINDS = ("assembly", "piece", "joint")


@dataclass
class Recorder:
    """A calibration that remembers the features it was asked about."""

    calibration: Calibration
    features: np.ndarray | None = None

    def __call__(self, features: np.ndarray) -> np.ndarray:
        self.features = features
        return self.calibration(features)


def rows_of(answer: Answer, recorders: dict[str, Recorder]) -> dict[str, list[dict[str, Any]]]:
    """Of each kind, the features of every probability of the best assembly, and whether what it claims is right."""
    placed = np.flatnonzero(answer.placed[0, 0])
    joints = np.argwhere(np.triu(answer.confidence.joints, 1) > 0)
    places = {
        "assembly": [(0,)] if len(placed) else [],
        "piece": [(0, i) for i in placed],
        "joint": [(0, i, j) for i, j in joints],
    }
    claims = claims_of(answer, PROTOCOLS["pairwise"])
    return {
        kind: [
            {"features": recorders[kind].features[place].tolist(), "right": right}
            for place, (_, right) in zip(places[kind], claims[kind], strict=True)
        ]
        for kind in KINDS
    }


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One entry a puzzle; what is finished is written at once."""
    torch.set_num_threads(1)
    results = []
    for puzzle in PuzzleSet.choose(open_examples(options.data), limit=options.limit).scatter():
        recorders = {kind: Recorder(shipped_calibrations("fracture")[kind]) for kind in KINDS}
        ranking = replace(AssembleConfig().ranking, confidence=FractureConfidence(**recorders))
        (answer,) = AssemblerAnswers(options.model, replace(AssembleConfig(), ranking=ranking)).answers([puzzle])
        results.append(rows_of(answer, recorders))
        if options.json:
            write_atomically(options.json, json.dumps(results).encode())
    return results


def fit(results: list[dict[str, Any]]) -> Calibrations:
    """The calibrations, which are also printed."""
    calibrations = {}
    for kind in KINDS:
        rows = [row for result in results for row in result[kind]]
        features, right = np.array([row["features"] for row in rows]), np.array([row["right"] for row in rows])
        fitted = calibrate(features, right, fitted=f"{len(rows)} of {len(results)} puzzles")
        print(kind, tuple(round(w, 3) for w in fitted.weights), round(fitted.bias, 3), fitted.fitted)
        calibrations[kind] = fitted
    return calibrations


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="as eda evaluate takes it")
    parser.add_argument("--from", dest="results", type=Path, nargs="+", help="results of earlier runs")
    parser.add_argument("--model", default="fracture-small")
    parser.add_argument("--limit", type=int, help="evenly chosen puzzles, at most")
    parser.add_argument("--json", type=Path, help="where to keep the features")
    parser.add_argument("--write", type=Path, help="a model file whose header gets the calibrations")
    options = parser.parse_args()
    if (options.data is None) == (options.results is None):
        parser.error("give either --data or --from")
    kept = [json.loads(path.read_text()) for path in options.results or []]
    fitted = fit([result for part in kept for result in part] if kept else measure(options))
    if options.write:
        write_calibrations(options.write, fitted)
