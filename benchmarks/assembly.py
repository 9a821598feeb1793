"""How many puzzles the assembler solves, which pieces it leaves out, and how far its probabilities can be believed.

    python benchmarks/assembly.py --data fracture:pieces=2-8,puzzles=64,seed=9002,shapes=held_out --json results.json
    python benchmarks/assembly.py --from results.json --diagram docs/images/reliability.svg   # tables and diagram
    python benchmarks/assembly.py --from development.json --fit                          # calibrations of a model

Pieces are turned and moved at random first. A puzzle is solved if all its pieces are placed and its pairs are off by
less than 10 degrees and 5 % of its size in the mean (the paper's pairwise errors). A piece is right if its Chamfer
distance from its place is below 0.01, with the assembly laid onto the piece with which most are (PA without an anchor).
`--foreign` adds the first piece of the next puzzle, which should stay unplaced.
"""

import argparse
import json
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eda import SE3, Eda, Puzzle, assemble
from eda.assembly import AssembleConfig, RankConfig
from eda.assembly.confidence import FractureConfidence
from eda.assembly.confidence.shipped import shipped_calibrations
from eda.assembly.motion import act, angle, inverse
from eda.atomic import write_atomically
from eda.calibration import Calibration, calibrate, write_calibrations
from eda.data import open_examples
from eda.lie import so3
from eda.metrics import chamfer, expected_calibration_error, pairwise_geodesic

METHODS = {
    "all": RankConfig(),
    "one": RankConfig(docking=None, repaired=0),  # a single sample, refined
}
KINDS = {kind: shipped_calibrations("fracture")[kind] for kind in ("assembly", "piece", "joint")}
RIGHT_DEGREES, RIGHT_LENGTH, PART_THRESHOLD = 10, 0.05, 0.01


@dataclass
class Recorded:
    """A calibration that remembers the features it was asked about."""

    calibration: Calibration
    features: np.ndarray | None = None

    def __call__(self, features: np.ndarray) -> np.ndarray:
        self.features = features
        return self.calibration(features)

    def row(self, index: tuple, right: bool) -> dict[str, Any]:
        """The features of one probability, and whether what it speaks of is right."""
        assert self.features is not None
        return {"features": self.features[index].tolist(), "right": bool(right)}


# -- one puzzle --------------------------------------------------------------------------------------------------------


def run(clouds: list, normals: list, own: int, config: AssembleConfig, model: Eda, seed: int) -> dict[str, Any]:
    """One puzzle, of which the first `own` pieces belong together. What was found, and what of it is right."""
    generator = torch.Generator().manual_seed(seed)
    turns = so3.random(len(clouds), generator=generator, dtype=torch.float64).numpy()
    recorded = {kind: Recorded(calibration) for kind, calibration in KINDS.items()}
    ranking = replace(config.ranking, confidence=FractureConfidence(**recorded))
    began = time.perf_counter()
    found = assemble(
        [cloud @ turn.T for cloud, turn in zip(clouds, turns, strict=True)],
        [normal @ turn.T for normal, turn in zip(normals, turns, strict=True)],
        model=model,
        config=replace(config, ranking=ranking),
    )
    seconds, best = time.perf_counter() - began, found.best
    motions = best.poses.copy()  # of the turned clouds; of the clouds in place, where the truth is to move none:
    motions[:, :3, :3] = motions[:, :3, :3] @ turns
    puzzle = Puzzle.from_assembled(clouds[:own], dtype=torch.float64)
    size = float(puzzle.pieces.scales[0])
    poses = puzzle.pieces.from_user(SE3.from_matrix(torch.from_numpy(motions[:own])))
    degrees, length = (float(error) for error in pairwise_geodesic(poses, puzzle.solution, puzzle.pieces))
    belongs = np.arange(len(clouds)) < own
    right, fits = in_place(clouds, motions, best.placed & belongs, size), fitting(clouds, motions, belongs, size)
    placed, pairs = np.flatnonzero(best.placed), np.argwhere(np.triu(best.joints, 1) > 0)
    whole = len(placed) > 0 and bool(fits[np.ix_(placed, placed)].all())
    return {
        "pieces": own,
        "foreign": len(clouds) - own,
        "solved": bool(best.placed[:own].all() and degrees < RIGHT_DEGREES and length < RIGHT_LENGTH),
        "degrees": degrees,
        "part_accuracy": float(right[:own].mean()),
        "unplaced": (~best.placed).tolist(),
        "seconds": seconds,
        "assembly": [recorded["assembly"].row((0,), whole)] if len(placed) else [],
        "piece": [recorded["piece"].row((0, i), right[i]) for i in placed],
        "joint": [recorded["joint"].row((0, i, j), fits[i, j]) for i, j in pairs],
    }


def in_place(clouds: list, motions: np.ndarray, placed: np.ndarray, size: float) -> np.ndarray:
    """(N,) the pieces in their places, laid onto the piece for which they are most."""
    best = np.zeros(len(clouds), dtype=bool)
    for anchor in np.flatnonzero(placed):
        moved = inverse(motions[anchor]) @ motions
        right = [bool(placed[i]) and _near(cloud / size, moved[i], size) for i, cloud in enumerate(clouds)]
        best = max(best, np.array(right), key=np.sum)
    return best


def _near(cloud: np.ndarray, motion: np.ndarray, size: float) -> bool:
    motion = motion.copy()
    motion[:3, 3] /= size
    return chamfer(act(motion, cloud), cloud) < PART_THRESHOLD


def fitting(clouds: list, motions: np.ndarray, belongs: np.ndarray, size: float) -> np.ndarray:
    """(N, N) whether two pieces lie as they should: by the same bounds as a solved puzzle, twice as far."""
    centers = np.stack([cloud.mean(axis=0) for cloud in clouds])
    relative = inverse(motions)[:, None] @ motions[None]
    moved = np.stack([act(relative[:, j], centers[j][None])[:, 0] for j in range(len(clouds))], axis=1)
    near = np.linalg.norm(moved - centers, axis=2) < 2 * RIGHT_LENGTH * size
    return near & (np.degrees(angle(relative)) < 2 * RIGHT_DEGREES) & belongs & belongs[:, None]


# -- all puzzles -------------------------------------------------------------------------------------------------------


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Every puzzle by every method."""
    torch.set_num_threads(1)
    model, examples = Eda.load(arguments.model), list(open_examples(arguments.data))
    results = []
    for index in range(min(arguments.limit, len(examples))):
        clouds, normals = (list(examples[index].clouds(values)) for values in (None, examples[index].normals))
        own, other = len(clouds), examples[(index + 1) % len(examples)]
        if arguments.foreign:
            clouds.append(other.clouds()[0])
            normals.append(other.clouds(other.normals)[0])
        for method in arguments.methods.split(","):
            samples = 1 if method == "one" else arguments.samples
            config = AssembleConfig(samples, arguments.steps, arguments.rounds, ranking=METHODS[method])
            clouds = [np.asarray(cloud, dtype=np.float64) for cloud in clouds]
            results.append({"method": method, **run(clouds, normals, own, config, model, index)})
            if arguments.json:
                write_atomically(arguments.json, json.dumps(results).encode())
    return results


def print_tables(results: list[dict[str, Any]]) -> None:
    """By method and number of pieces; then what was left out, and how far probabilities are off."""
    groups = defaultdict(list)
    for result in results:
        groups[result["method"], str(result["pieces"])].append(result)
        groups[result["method"], "all"].append(result)
    print("| method | pieces | puzzles | solved | part accuracy | median degrees | mean degrees | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for (method, pieces), group in sorted(groups.items()):
        solved, accuracy, degrees, seconds = (
            np.array([result[key] for result in group]) for key in ("solved", "part_accuracy", "degrees", "seconds")
        )
        print(
            f"| {method} | {pieces} | {len(group)} | {solved.mean():.0%} | {accuracy.mean():.0%} | "
            f"{np.median(degrees):.1f} | {degrees.mean():.1f} | {seconds.mean():.1f} |"
        )
    print("\n| unplaced: | of another object | of the object | precision | recall |\n|---|---|---|---|---|")
    foreign = [left for r in results for left in r["unplaced"][r["pieces"] :]]
    own = [left for r in results for left in r["unplaced"][: r["pieces"]]]
    precision = sum(foreign) / max(sum(foreign) + sum(own), 1)
    recall = np.mean(foreign or [0])
    print(f"| | {sum(foreign)} of {len(foreign)} | {sum(own)} of {len(own)} | {precision:.2f} | {recall:.2f} |")
    if all(result["method"] != "all" for result in results):
        return  # probabilities are of pooled assemblies
    print("\n| probability of | number | right | mean | calibration error | Brier score |\n|---|---|---|---|---|---|")
    for kind in KINDS:
        probability, right = probabilities(results, kind)
        error, brier = expected_calibration_error(probability, right), np.square(probability - right).mean()
        print(f"| {kind} | {len(right)} | {right.mean():.2f} | {probability.mean():.2f} | {error:.3f} | {brier:.3f} |")


def probabilities(results: list[dict[str, Any]], kind: str) -> tuple[np.ndarray, np.ndarray]:
    """(M,) probabilities, as the present calibration has them, and (M,) whether right, of the method `all`."""
    rows, bounds = [], []
    for result in results:
        if result["method"] == "all":
            rows += result[kind]
            bounds += [_least_sure_piece(result) if kind == "assembly" else 1.0] * len(result[kind])
    given = KINDS[kind](np.array([row["features"] for row in rows]))
    return np.minimum(given, bounds), np.array([float(row["right"]) for row in rows])


def _least_sure_piece(result: dict[str, Any]) -> float:
    """An assembly is no likelier to be right than any of its pieces."""
    return min((float(KINDS["piece"](np.array(row["features"]))) for row in result["piece"]), default=1.0)


def fit(results: list[dict[str, Any]], model: Path | None) -> None:
    """Print calibrations of what was recorded, and put them into the header of a model file, if one is given."""
    calibrations = {}
    for kind in KINDS:
        rows = [row for result in results if result["method"] == "all" for row in result[kind]]
        features, right = np.array([row["features"] for row in rows]), np.array([row["right"] for row in rows])
        fitted = calibrate(features, right, fitted=f"{len(rows)} of {len(results)} puzzles")
        print(kind, tuple(round(w, 3) for w in fitted.weights), round(fitted.bias, 3), fitted.fitted)
        calibrations[kind] = fitted
    if model is not None:
        write_calibrations(model, calibrations)


def diagram(results: list[dict[str, Any]], bins: int = 5) -> str:
    """SVG: how often what was given a probability is right, a curve for each kind, the area of a dot by its number."""
    size, colors = 300, {"assembly": "#c0392b", "piece": "#2471a3", "joint": "#1e8449"}
    parts = [f'<path d="M0 0V{size}H{size}V0ZM0 {size}L{size} 0" fill="none" stroke="#999"/>']
    for number, (kind, color) in enumerate(colors.items()):
        probability, right = probabilities(results, kind)
        bin_of = np.minimum((probability * bins).astype(int), bins - 1)
        some = [bin_of == b for b in np.unique(bin_of)]
        dots = [(size * probability[b].mean(), size * (1 - right[b].mean()), 3 + 12 * b.mean() ** 0.5) for b in some]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in dots)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}" fill="{color}" opacity="0.5"/>' for x, y, r in dots]
        parts.append(f'<text x="8" y="{18 * (number + 1)}" fill="{color}">{kind} ({len(right)})</text>')
    parts.append(f'<text x="{size / 2}" y="{size + 24}" text-anchor="middle">probability</text>')
    parts.append(f'<text transform="rotate(-90)" x="{-size / 2}" y="-12" text-anchor="middle">share right</text>')
    box = f'viewBox="-40 -20 {size + 60} {size + 60}" width="{size + 60}" font-family="sans-serif" font-size="13"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {box}>', *parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--from", dest="read", type=Path, nargs="+", help="results of earlier runs, instead of --data")
    parser.add_argument("--model", default="fracture-small")
    parser.add_argument("--limit", type=int, default=10**9)
    parser.add_argument("--methods", default="all")
    parser.add_argument("--samples", type=int, default=AssembleConfig().samples)
    parser.add_argument("--steps", type=int, default=AssembleConfig().steps)
    parser.add_argument("--rounds", type=int, default=AssembleConfig().rounds)
    parser.add_argument("--foreign", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--diagram", type=Path)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--write", type=Path, help="with --fit, a model file whose header gets the calibrations")
    arguments = parser.parse_args()
    if (arguments.data is None) == (arguments.read is None):
        parser.error("give either --data or --from")
    read = [json.loads(path.read_text()) for path in arguments.read or []]
    results = [result for part in read for result in part] if read else measure(arguments)
    print_tables(results)
    if arguments.fit:
        fit(results, arguments.write)
    if arguments.diagram:
        write_atomically(arguments.diagram, diagram(results).encode())


if __name__ == "__main__":
    main()
