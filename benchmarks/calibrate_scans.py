"""Fit how likely two scans lie rightly to each other, by how their surfaces agree: a calibration for scans.

    python benchmarks/calibrate_scans.py --data rooms:rooms=100,seed=777 --pairs 300 --json scans.jsonl
    python benchmarks/calibrate_scans.py --from scans.jsonl                         # the coefficients again
    python benchmarks/calibrate_scans.py --from scans.jsonl --write my-model.safetensors  # and into a model's header

Joints are what the assembler finds from its samples and matches for pairs of scans of generated rooms. One is right if
it is off by less than 15 degrees and 0.3 m. A logistic regression is fitted to them, in the shares in which they come.
`eda evaluate --assemble --protocol registration` measures the fitted probabilities on other pairs.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from scipy.spatial.transform import Rotation

from eda import Eda, prepare
from eda.assembly import AssembleConfig, JointConfig
from eda.assembly.contact.scan_contact import REACH
from eda.assembly.proposals import Proposals, match
from eda.assembly.search.joints import find_joints
from eda.atomic import write_atomically
from eda.calibration import Calibration, calibrate, write_calibrations
from eda.data import Example, open_examples
from eda.evaluate import even_indices
from eda.metrics import expected_calibration_error
from eda.registration.overlap import overlap_features
from eda.registration.rigid import relative_poses

RIGHT_DEGREES, RIGHT_METRES = 15, 0.3
ALL = JointConfig(joints_per_pair=1000, least_gain=-1.0)  # also those that do not hold
SAMPLES = AssembleConfig(samples=8)
RIDGE = 3e-4


def joints(example: Example, model: Eda, rng: np.random.Generator) -> Iterator[dict]:
    """The distinct joints of a pair that lies in place: how the surfaces agree, and whether they should."""
    clouds = [cloud.astype(np.float64) for cloud in example.clouds()]
    turns = Rotation.random(2, rng).as_matrix()
    prepared = prepare([cloud @ turn.T for cloud, turn in zip(clouds, turns, strict=True)], model=model)
    evidence = prepared.evidence
    samples = prepared.sample(SAMPLES).final.to(torch.float64).polish().matrix().numpy()
    matched = match(prepared.model_input.detail(prepared.clouds).points)[0, 1]
    proposals = Proposals(rough=matched, close=np.concatenate([matched, relative_poses(samples, (0, 1))]))
    relative = np.stack([joint.relative for joint in find_joints(evidence, (0, 1), proposals, ALL)])
    numbers = overlap_features(*(f.surface(REACH * evidence.spacing) for f in evidence.fragments), relative)
    both = np.stack([relative, np.broadcast_to(np.eye(4), relative.shape)], axis=1)
    motion = prepared.model_input.to_user(both)
    motion[..., :3, :3] = motion[..., :3, :3] @ turns
    off, middle = np.linalg.inv(motion[:, 1]) @ motion[:, 0], clouds[0].mean(axis=0)
    degrees = np.degrees(Rotation.from_matrix(off[:, :3, :3]).magnitude())
    metres = np.linalg.norm(off[:, :3, :3] @ middle + off[:, :3, 3] - middle, axis=1)
    right = (degrees < RIGHT_DEGREES) & (metres < RIGHT_METRES)
    for of_one, is_right in zip(numbers, right, strict=True):
        yield {"agreement": of_one.tolist(), "right": bool(is_right)}


def measured(options: argparse.Namespace) -> list[dict]:
    torch.set_num_threads(1)
    model, rng, rows = Eda.load(options.model), np.random.default_rng(0), []
    examples = open_examples(options.data)
    chosen = set(even_indices(len(examples), options.pairs))
    for number, example in enumerate(examples):
        if number in chosen:
            of = {"room": example.name.partition("-")[0], "pair": number}
            rows += [{**of, **joint} for joint in joints(example, model, rng)]
            if options.json:
                write_atomically(options.json, "".join(json.dumps(row) + "\n" for row in rows).encode())
    return rows


def report(rows: list[dict]) -> Calibration:
    """Print the coefficients, and how well they do on rooms that were left out of the fit, a tenth at a time."""
    numbers, right = np.array([row["agreement"] for row in rows]), np.array([row["right"] for row in rows], dtype=float)
    _, room = np.unique([row["room"] for row in rows], return_inverse=True)
    tenth = room % 10
    likely = np.zeros(len(rows))
    for left_out in range(10):
        others = calibrate(numbers[tenth != left_out], right[tenth != left_out], fitted="", ridge=RIDGE)
        likely[tenth == left_out] = others(numbers[tenth == left_out])
    auc = (likely[right == 1][:, None] > likely[right == 0]).mean()
    pairs = len({row["pair"] for row in rows})
    fitted = calibrate(numbers, right, fitted=f"{len(rows)} joints of {pairs} pairs of scans", ridge=RIDGE)
    print(f"{len(rows)} joints of {pairs} pairs, {right.mean():.0%} of them right; of rooms left out of the fit:")
    print(f"AUC {auc:.3f}, calibration error {expected_calibration_error(likely, right):.3f}")
    print(tuple(round(weight, 3) for weight in fitted.weights), round(fitted.bias, 3))
    return fitted


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="rooms:rooms=100,seed=777")
    parser.add_argument("--pairs", type=int, default=300, help="evenly chosen")
    parser.add_argument("--model", default="scan-small")
    parser.add_argument("--json", type=Path, help="where to keep every joint")
    parser.add_argument("--from", dest="results", type=Path)
    parser.add_argument("--write", type=Path, help="a model file whose header gets the calibration")
    options = parser.parse_args()
    kept = options.results.read_text().splitlines() if options.results else None
    fitted = report(measured(options) if kept is None else [json.loads(line) for line in kept])
    if options.write:
        write_calibrations(options.write, {"joint": fitted})
