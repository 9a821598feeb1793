"""A dozen puzzles and scans, and what the assembler and the evaluation give for them.

The fractures are stored beside this file, since a machine with other instructions rounds otherwise and so breaks
other puzzles from the same seed. They were made by

    eda fracture tests/golden/pairs --puzzles 2 --seed 4103 --pieces 2-2 --points 3000 --shapes held_out
    eda fracture tests/golden/fractures --puzzles 6 --seed 4101 --pieces 2-6 --points 3000 --shapes held_out

`python tests/golden/cases.py` writes `golden.json` anew. Do that only when a change of behaviour is meant, and say so
in the commit: the file is what shows that a change of the code alone changes no result.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from typer.testing import CliRunner

from eda.assembly import AssembleConfig, RankConfig, assemble
from eda.cli import app
from eda.data import open_examples

FILE = Path(__file__).parent / "golden.json"

# The puzzles of every case, as `eda evaluate --data` takes them, and how each of them is assembled.
FRACTURES = str(Path(__file__).parent / "fractures")
PAIRS = str(Path(__file__).parent / "pairs")
ROOMS = "rooms:rooms=3,pairs=1,seed=4102"
QUICK = AssembleConfig(samples=4, steps=5)

EVALUATIONS: dict[str, tuple[str, ...]] = {
    "fractures, pairwise": ("--model", "fracture-small", "--data", FRACTURES, "--steps", "5", "--repeats", "1"),
    "fractures, parts": (
        *("--model", "fracture-small", "--data", FRACTURES, "--steps", "2", "--solver", "rk1", "--repeats", "1"),
        *("--protocol", "breaking_bad"),
    ),
    "breaks": ("--model", "fracture-small", "--data", FRACTURES, "--protocol", "breaks"),
    "rooms, registration": (
        *("--model", "scan-small", "--data", ROOMS, "--steps", "5", "--repeats", "1", "--protocol", "registration"),
    ),
}


def assemblies() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """The name of every assembly, and how to make it."""
    fractures = [*open_examples(PAIRS), *open_examples(FRACTURES)]
    for index, example in enumerate(fractures):
        yield f"fracture {index}, {example.num_pieces} pieces", lambda one=example: _assembled(one)
    three = next(example for example in fractures if example.num_pieces == 3)
    pins = {0: _motion(7), 1: _motion(7)}
    yield "fracture with two pieces pinned", lambda: _assembled(three, turned=False, pins=pins)
    unrefined = AssembleConfig(samples=4, steps=5, ranking=RankConfig(refine=False))
    yield "fracture without refinement", lambda: _assembled(three, config=unrefined)
    rooms = list(open_examples(ROOMS))
    for index, example in enumerate(rooms):
        yield f"room {index}", lambda one=example: _assembled(one, model="scan-small")
    yield "room without a model", lambda: _assembled(rooms[0], model="none")


def evaluation(words: tuple[str, ...]) -> dict[str, Any]:
    """The figures that `eda evaluate` prints as JSON, without the times."""
    done = CliRunner().invoke(app, ["evaluate", *words, "--json", "-", "--device", "cpu"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    return {"metrics": report["metrics"]}


def fingerprint(example: Any) -> str:
    """Of the points of a puzzle to four digits: results are compared for the same input only."""
    rounded = np.round(np.concatenate(example.clouds()), 4) + 0.0
    return hashlib.sha256(rounded.astype("<f4").tobytes()).hexdigest()[:16]


def fingerprints() -> list[str]:
    """Of the rooms, which are not stored."""
    return [fingerprint(example) for example in open_examples(ROOMS)]


def _assembled(
    example: Any,
    *,
    turned: bool = True,
    model: str = "fracture-small",
    config: AssembleConfig = QUICK,
    pins: dict[int | str, np.ndarray] | None = None,
) -> dict[str, Any]:
    """The best assembly of a puzzle whose pieces lie turned and moved, as JSON knows it."""
    clouds, normals = example.clouds(), example.clouds(example.normals)
    for index in range(len(clouds)):
        motion = _motion(index) if turned else np.eye(4)
        clouds[index] = clouds[index] @ motion[:3, :3].T + motion[:3, 3]
        normals[index] = normals[index] @ motion[:3, :3].T
    found = assemble(clouds, normals, model=model, config=config, pins=pins).as_dict()
    best = found["alternatives"][0]
    return {
        "alternatives": len(found["alternatives"]),
        "probability": best["probability"],
        "score": best["score"],
        "placed": [piece["placed"] for piece in best["pieces"]],
        "confidence": [piece["confidence"] for piece in best["pieces"]],
        "poses": [piece["pose"] for piece in best["pieces"]],
        "joints": [[*joint["pieces"], joint["confidence"]] for joint in best["joints"]],
    }


def _motion(seed: int) -> np.ndarray:
    """A rigid motion (4, 4), by chance."""
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    motion = np.eye(4)
    motion[:3, :3], motion[:3, 3] = rotation * np.linalg.det(rotation), rng.normal(size=3)
    return motion


if __name__ == "__main__":
    torch.set_num_threads(1)
    golden = {
        "rooms": fingerprints(),
        "assemblies": {name: make() for name, make in assemblies()},
        "evaluations": {name: evaluation(words) for name, words in EVALUATIONS.items()},
    }
    FILE.write_text(json.dumps(golden, indent=1) + "\n")
