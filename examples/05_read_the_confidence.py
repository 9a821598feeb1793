"""Read the confidence: the alternatives, which joints to trust, and which piece belongs to nothing.

python examples/05_read_the_confidence.py
"""

import argparse

from eda import AssembleConfig, assemble
from eda.data import FractureConfig, FractureSource

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="fewer samples and steps")
options = parser.parse_args()

# A stone in two pieces, and a piece of another one that does not belong.
settings = FractureConfig(min_pieces=2, max_pieces=2, num_points=4000, kinds=("rough",))
stone, other = FractureSource(settings, seed=3, shapes=("stone",))[0], FractureSource(settings, seed=8)[1]
clouds = [*stone.clouds(), other.clouds()[0]]
normals = [*stone.clouds(stone.normals), other.clouds(other.normals)[0]]

config = AssembleConfig(samples=8, steps=5) if options.quick else AssembleConfig()
assembly = assemble(clouds, normals, names=["stone 1", "stone 2", "stranger"], config=config)

# The alternatives are ranked; the probability says whether all pieces that are placed are where they belong.
for rank, alternative in enumerate(assembly.alternatives, start=1):
    left_over = ", ".join(assembly.names[i] for i in alternative.unplaced) or "nothing"
    print(f"{rank}. score {alternative.score:.2f}, right with {alternative.probability:.0%}, left over: {left_over}")

# In the best one, every piece and every joint has a confidence: what to glue first, and what to look at again.
best = assembly.best
for i, name in enumerate(assembly.names):
    print(f"{name}: " + (f"confidence {best.confidence[i]:.0%}" if best.placed[i] else "fits nowhere"))
    for j in range(i):
        if best.joints[i, j]:
            print(f"  touches {assembly.names[j]}, confidence {best.joints[i, j]:.0%}")
