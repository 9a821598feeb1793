"""Train on your own objects: break them into puzzles, train on these, and assemble a new one with the model.

python examples/04_train_on_your_own_objects.py meshes/ --steps 4000      # hours
python examples/04_train_on_your_own_objects.py --quick                   # seconds, only to see that it runs
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from eda import AssembleConfig, Eda, assemble
from eda.data import FractureConfig, FractureSource, Plan, build, open_meshes
from eda.recipes import fracture_small
from eda.train import Watcher, join, train

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("meshes", type=Path, nargs="?", help="a folder of closed meshes; without it, stones of ours")
parser.add_argument("--steps", type=int, default=2000)
parser.add_argument("--puzzles", type=int, default=500)
parser.add_argument("--out", type=Path, help="folder for the data and the run; the same folder resumes it")
parser.add_argument("--quick", action="store_true", help="a few steps on a few puzzles")
options = parser.parse_args()
folder = options.out or Path(tempfile.mkdtemp())
steps, puzzles = (3, 8) if options.quick else (options.steps, options.puzzles)

# Puzzles of two and three pieces. Training and test puzzles have different seeds.
settings = FractureConfig(min_pieces=2, max_pieces=3, num_points=2400)
meshes = open_meshes(options.meshes) if options.meshes else None
source = FractureSource(settings, seed=1, shapes=("stone",), meshes=meshes, num_puzzles=puzzles)
build(Plan.from_source(source, source.description()), folder / "data")

# A recipe is a whole config; replace what should differ.
recipe = fracture_small()
config = replace(
    recipe,
    data=replace(recipe.data, train=str(folder / "data"), workers=0),
    optimizer=replace(recipe.optimizer, steps=steps, warmup=min(recipe.optimizer.warmup, steps // 2)),
)
run = folder / "run"
run.mkdir(exist_ok=True)
with join() as ranks:
    train(config, run, ranks, Watcher(config, run, print))

# The model is one file, and `--model` of `eda assemble` takes it too.
model = Eda.load(run / "model.safetensors")
unseen = FractureSource(settings, seed=2, shapes=("stone",), meshes=meshes)[0]
tried = AssembleConfig(samples=2, steps=2) if options.quick else AssembleConfig()
assembly = assemble(unseen.clouds(), unseen.clouds(unseen.normals), model=model, config=tried)
print(f"{assembly.best.placed.sum()} of {unseen.num_pieces} pieces placed; the model is {run / 'model.safetensors'}")
