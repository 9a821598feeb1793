"""The paper's ablation (Sec. 6.4) at the scale of a CPU: Eda, Eda-(r), Eda-(r, h), Eda-(r, e) and Eda-(r, h, e).

    python benchmarks/ablation.py --data TRAIN --validation VAL --minutes 60 --seeds 0,1,2 --out ablation.json

All variants have the same weights to learn, see the same puzzles for the same number of steps (what fits into the
minutes in all, by a trial of each variant, or --steps), and are sampled by RK1 with 10 steps as in the paper. Writes
OUT, a table beside it (.md) and the curves (.svg); the runs lie in OUT without its suffix. The same command goes on
where it was stopped. The loss of Eda itself is not comparable with the others: r* makes its paths shorter.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from curves import Curve, charts

from eda.atomic import write_atomically
from eda.data import Dataset
from eda.errors import InputError
from eda.evaluate import NetworkAnswers, Sampling, evaluate, scatter, summarize
from eda.recipes import RECIPES
from eda.train import Ranks, TrainConfig, Watcher, overridden, train

VARIANTS = {
    "ablation": "Eda",
    "ablation-r": "Eda-(r)",
    "ablation-rh": "Eda-(r, h)",
    "ablation-re": "Eda-(r, e)",
    "ablation-rhe": "Eda-(r, h, e)",
}
HERE = Ranks(0, 1, torch.device("cpu"))
TRIAL_STEPS = 8
REPORTS = 8  # validations of a run


def config_of(variant: str, arguments: argparse.Namespace, steps: int, seed: int) -> TrainConfig:
    """The recipe, with its cosine over `steps`."""
    settings = [
        f"data.train={arguments.data}",
        f"data.validation={arguments.validation}",
        f"optimizer.steps={steps}",
        f"optimizer.warmup={max(1, steps // 20)}",
        f"watch.log_every={max(1, steps // 40)}",
        f"watch.checkpoint_every={max(1, steps // 10)}",
        f"watch.validate_every={max(1, steps // REPORTS)}",
        f"seed={seed}",
    ]
    return overridden(RECIPES[variant](), settings)


def seconds_per_step(variant: str, arguments: argparse.Namespace) -> float:
    """By the second of two short trials: in the first, pyramids are built and kept beside the data."""
    config = config_of(variant, arguments, TRIAL_STEPS, 0)
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            train(config, Path(folder), HERE, Watcher(config, None, lambda line: None))
    return (time.perf_counter() - began) / TRIAL_STEPS


def learned(variant: str, arguments: argparse.Namespace, steps: int, seed: int, folder: Path) -> dict[str, Any]:
    """Train one variant, or finish its training, and measure it."""
    folder.mkdir(parents=True, exist_ok=True)
    config = config_of(variant, arguments, steps, seed)
    examples = Dataset(arguments.validation)[: config.watch.validation_puzzles]
    run = train(config, folder, HERE, Watcher(config, folder, lambda line: print(line, flush=True), examples))
    if run.step < steps:
        raise SystemExit("stopped; the same command goes on from here")
    sampling = Sampling(samples=1, repeats=3, solver="rk1", steps=10, points=config.model.num_points)
    puzzles = scatter(Dataset(arguments.validation)[: arguments.puzzles], sampling.seed)
    report = summarize(evaluate(NetworkAnswers(run.averaged, sampling).answers(puzzles)))
    return {"variant": variant, "seed": seed, "steps": steps, **report, **logged(folder)}


def logged(folder: Path) -> dict[str, Any]:
    """What the run's log says: the seconds of a step, and curves; of steps that were made twice, the last."""
    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    losses = {entry["step"]: entry["rotation"] for entry in entries if "rotation" in entry}
    errors = {entry["step"]: entry["validation"]["mean"] for entry in entries if "validation" in entry}
    seconds = [1 / entry["steps_per_second"] for entry in entries if "steps_per_second" in entry]
    return {
        "seconds_per_step": float(np.median(seconds)),
        "rotation_loss": sorted(losses.items()),
        "validation_degrees": sorted(errors.items()),
    }


def failed(variant: str, seed: int, steps: int, error: Exception) -> dict[str, Any]:
    """A run that did not converge is a result too: the paper's Eda-(r, h, e) is one."""
    return {"variant": variant, "seed": seed, "steps": steps, "failed": str(error)}


def table(runs: list[dict[str, Any]]) -> str:
    """A row for every variant: means over seeds ± their standard deviation."""
    lines = ["| | seeds | rotation [deg] | translation [% of size] | solved [%] | last loss (rotation) | s/step |"]
    lines.append("|:--|--:|--:|--:|--:|--:|--:|")
    for variant, label in VARIANTS.items():
        done = [run for run in runs if run["variant"] == variant and "failed" not in run]
        lost = sum(run["variant"] == variant and "failed" in run for run in runs)
        if not done:
            lines += [f"| {label} | {lost} failed | - | - | - | - | - |"] if lost else []
            continue
        columns = [
            ([run["metrics"]["rotation"]["mean"] for run in done], 1),
            ([run["metrics"]["relative_translation"]["mean"] for run in done], 100),
            ([run["metrics"]["solved"]["mean"] for run in done], 100),
            ([run["rotation_loss"][-1][1] for run in done], 1),
            ([run["seconds_per_step"] for run in done], 1),
        ]
        figures = " | ".join(with_spread(np.array(values) * factor) for values, factor in columns)
        lines.append(f"| {label} | {len(done)}{f', {lost} failed' if lost else ''} | {figures} |")
    return "\n".join(lines) + "\n"


def with_spread(values: np.ndarray) -> str:
    return f"{values.mean():.3g}" + (f" ± {values.std(ddof=1):.2g}" if len(values) > 1 else "")


def picture(runs: list[dict[str, Any]]) -> str:
    """Both curves of all variants, means over seeds."""
    panels = {}
    for title, key in (("validation error [deg]", "validation_degrees"), ("rotation loss", "rotation_loss")):
        panels[title] = []
        for variant, label in VARIANTS.items():
            done = [run[key] for run in runs if run["variant"] == variant and run.get(key)]
            if done:
                mean = np.mean([[value for _, value in curve] for curve in done], axis=0)
                panels[title].append(Curve(label, np.array([step for step, _ in done[0]]), mean))
    return charts(panels, "steps")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="a dataset of pairs to learn from")
    parser.add_argument("--validation", required=True, help="a dataset of unseen pairs")
    parser.add_argument("--minutes", type=float, default=60.0, help="of all runs together, about")
    parser.add_argument("--steps", type=int, default=0, help="of every run, instead of --minutes")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--puzzles", type=int, default=128, help="to measure on at the end")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def planned(arguments: argparse.Namespace, seeds: list[int], variants: list[str]) -> dict[str, Any]:
    """What was begun, or a new plan whose number of steps fits into the minutes."""
    if arguments.out.is_file():
        return json.loads(arguments.out.read_bytes())
    steps = arguments.steps
    if not steps:
        cost = sum(seconds_per_step(variant, arguments) for variant in variants) * len(seeds)
        steps = max(TRIAL_STEPS, int(60 * arguments.minutes / cost))
    return {"data": str(arguments.data), "validation": str(arguments.validation), "steps": steps, "runs": []}


def main() -> None:
    arguments = parsed()
    torch.set_num_threads(1)
    seeds, variants = [int(word) for word in arguments.seeds.split(",")], arguments.variants.split(",")
    for folder in (arguments.data, arguments.validation):
        Dataset(folder)  # what is wrong with the data is no result of a variant
    plan = planned(arguments, seeds, variants)
    done = {(run["variant"], run["seed"]) for run in plan["runs"]}
    for seed, variant in [(seed, variant) for seed in seeds for variant in variants]:  # a whole table for each seed
        if (variant, seed) in done:
            continue
        print(f"{VARIANTS[variant]}, seed {seed}, {plan['steps']:,} steps", flush=True)
        folder = arguments.out.with_suffix("") / f"{variant}-{seed}"
        try:
            plan["runs"].append(learned(variant, arguments, plan["steps"], seed, folder))
        except (InputError, FloatingPointError) as error:
            plan["runs"].append(failed(variant, seed, plan["steps"], error))
        write_atomically(arguments.out, json.dumps(plan, indent=1).encode())
        write_atomically(arguments.out.with_suffix(".md"), table(plan["runs"]).encode())
        write_atomically(arguments.out.with_suffix(".svg"), picture(plan["runs"]).encode())
    print(table(plan["runs"]))


if __name__ == "__main__":
    main()
