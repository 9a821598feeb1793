"""How many pairs of real scans the assembler registers: 3DMatch's fragments of rooms, turned and moved at random.

    python benchmarks/scans.py path/of/3dmatch-pack --pairs 40 --json scans.jsonl
    python benchmarks/scans.py --from scans.jsonl                                    # the table again

A pair is registered if the motion between its two scans is off by less than 15 degrees and 0.3 m. The scenes named by
`--scenes` (all by default) are asked alike; the lists are 3DMatch with more than 30 % overlap, and 3DLoMatch with 10 to
30 %. What is right is read off the solution; the assembler sees the two clouds alone.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from scipy.spatial.transform import Rotation

from eda import assemble
from eda.assembly import expected_calibration_error
from eda.data.readers.threedmatch_pack import ThreeDMatchPack

RIGHT_DEGREES, RIGHT_METRES = 15, 0.3
LISTS = {"over 30 %": ("3DMatch", 0.3, 1.0), "10 to 30 %": ("3DLoMatch", 0.1, 0.3)}


def registered(clouds: list[np.ndarray], rng: np.random.Generator, model: str | None) -> dict:
    """One pair that lies in place, turned and moved, put together again, and compared."""
    motions = np.tile(np.eye(4), (2, 1, 1))
    motions[:, :3, :3], motions[:, :3, 3] = Rotation.random(2, rng).as_matrix(), rng.normal(size=(2, 3)) * 5
    given = [cloud @ motion[:3, :3].T + motion[:3, 3] for cloud, motion in zip(clouds, motions, strict=True)]
    assembly = assemble(given, model=model)
    first, second = assembly.best.poses @ motions  # where the clouds that lay in place have come to lie: both alike
    off = np.linalg.inv(second) @ first
    middle = clouds[0].mean(
        axis=0
    )  # of which the translation is told, so that it means the same wherever the origin is
    degrees = float(np.degrees(Rotation.from_matrix(off[:3, :3]).magnitude()))
    metres = float(np.linalg.norm(off[:3, :3] @ middle + off[:3, 3] - middle))
    right = assembly.best.placed.all() and degrees < RIGHT_DEGREES and metres < RIGHT_METRES
    return {
        "degrees": degrees,
        "metres": metres,
        "placed": bool(assembly.best.placed.all()),
        "right": bool(right),
        "score": assembly.best.score,
        "probability": assembly.best.probability,
        "seconds": assembly.seconds,
        "model": assembly.model,
    }


def table(rows: list[dict]) -> None:
    print(
        "| overlap | pairs | registered | left apart | median degrees | median metres | calibration error | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for overlap in LISTS:
        some = [row for row in rows if row["overlap"] == overlap]
        if not some:
            continue
        right, sure = np.array([row["right"] for row in some]), np.array([row["probability"] for row in some])
        apart = 1 - np.mean([row["placed"] for row in some])
        middle = [np.median([row[name] for row in some]) for name in ("degrees", "metres", "seconds")]
        print(
            f"| {overlap} | {len(some)} | {right.mean():.0%} | {apart:.0%} | {middle[0]:.1f} | {middle[1]:.2f} "
            f"| {expected_calibration_error(sure, right):.2f} | {middle[2]:.1f} |"
        )


def run(options: argparse.Namespace) -> list[dict]:
    rows = []
    for overlap, (name, least, most) in LISTS.items():
        scenes = tuple(options.scenes)
        pack = ThreeDMatchPack(options.pack, name, scenes, min_overlap=least, max_overlap=most, most=options.pairs)
        rng = np.random.default_rng(0)
        for item in pack.items:
            clouds = [cloud.astype(np.float64) for cloud in pack.read(item).clouds()]
            rows.append({"overlap": overlap, **registered(clouds, rng, options.model)})
            if options.json:
                options.json.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", type=Path, nargs="?", help="the folder with fragments_5cm.npz and index.json")
    parser.add_argument("--pairs", type=int, default=40, help="of each list, evenly chosen")
    parser.add_argument("--scenes", nargs="*", default=[])
    parser.add_argument("--model", help="as eda assemble takes it")
    parser.add_argument("--json", type=Path, help="where to keep every pair")
    parser.add_argument("--from", dest="results", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    table([json.loads(line) for line in options.results.read_text().splitlines()] if options.results else run(options))
