"""Use the network by hand: sample assemblies, animate the flow, and find the break surfaces. No refinement, no ranking.

python examples/06_use_the_network_by_hand.py --gif flow.gif
"""

import argparse
from pathlib import Path

import torch

from eda import Eda
from eda.data import FractureConfig, FractureSource
from eda.metrics import pairwise_geodesic
from eda.render import animate

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--gif", type=Path, help="the flow of the best sample, as an animation")
parser.add_argument("--quick", action="store_true", help="fewer samples and steps")
options = parser.parse_args()

model = Eda.load("fracture-small")
settings = FractureConfig(min_pieces=2, max_pieces=2, kinds=("rough",))
example = FractureSource(settings, seed=3, shapes=("stone",))[0]
example = example.downsample(model.config.num_points)  # as many points as it was trained with, evenly spaced
puzzle = example.puzzle()  # pieces, each in its own frame, and the poses that assemble them

# The flow carries noise to assemblies: all samples at once, poses of shape (steps + 1, samples, pieces).
samples, steps = (4, 4) if options.quick else (32, 20)
generator = torch.Generator().manual_seed(0)
flow = model.trajectory(puzzle.pieces, samples, steps=steps, generator=generator)

# Errors between pairs of pieces do not depend on where the whole lies.
errors = [pairwise_geodesic(flow.final[k], puzzle.solution, puzzle.pieces) for k in range(samples)]
degrees = [float(angle) for angle, _ in errors]
best = min(range(samples), key=degrees.__getitem__)
print(f"{samples} samples: {sorted(round(angle) for angle in degrees)} degrees off")

# The break head gives the probability of every point to lie on a break surface.
broken = model.break_probability(puzzle.pieces).numpy() > 0.5
print(f"breaks: {(broken == example.on_break).mean():.0%} of the points are told right")

if options.gif:
    options.gif.write_bytes(animate(puzzle.pieces, flow.poses[:, best]))
    print("wrote", options.gif)
