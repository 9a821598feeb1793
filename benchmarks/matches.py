"""How good a model's correspondences are, by the number of pieces: before any pose is known.

    python benchmarks/matches.py --model fracture-small --data fracture:pieces=2-8,puzzles=112,seed=8002,shapes=held_out

Three shares: of the places that are matched, those that lie at a joint; of these, those whose best match is right, and
those with a right one among their eight best. A place lies at a joint, and a match is right, if the solution brings a
place of another piece within 1.5 and 2 times the distance that places of one joint usually have.
"""

import argparse

import numpy as np
import torch

from eda import Eda
from eda.data import Example, open_examples
from eda.data.focused_puzzles import dense_pieces, puzzle_of
from eda.evaluate import PuzzleSet
from eda.pieces import Puzzle
from eda.registration.soft_correspondences import SAME_PLACE
from eda.segment import ranges

BEST = 8


def shown(model: Eda, example: Example) -> Puzzle:
    """The puzzle as the model is shown it."""
    points = model.config.budget.of(example.num_pieces)
    if not model.config.focus:
        return example.downsample(points).puzzle()
    return puzzle_of(example, model.focus(dense_pieces(example, points)))


@torch.no_grad()
def quality(model: Eda, puzzle: Puzzle) -> list[float]:
    """The three shares of one puzzle; NaN for the last two if no place lies at a joint."""
    pyramid = model.pyramid(puzzle.pieces)
    found = model.network.match(pyramid, model.network.descend(pyramid, None))
    piece = ranges(found.sizes)
    placed = puzzle.solution[piece].act(found.points)
    unit = SAME_PLACE * found.reach
    distance = torch.cdist(placed, placed).masked_fill(piece[:, None] == piece[None], torch.inf)
    joint = distance.amin(1) < 1.5 * unit
    best = found.weights()[0, : len(piece), : len(piece)].topk(BEST, dim=1).indices
    right = distance.gather(1, best) < 2 * unit
    return [float(joint.float().mean()), *(float(of[joint].float().mean()) for of in (right[:, 0], right.any(1)))]


def main(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    model, by_count = Eda.load(options.model), {}
    for puzzle in PuzzleSet.choose(open_examples(options.data), limit=options.puzzles).scatter():
        shares = quality(model, shown(model, puzzle.example))
        by_count.setdefault(puzzle.example.num_pieces, []).append(shares)
    print("| pieces | puzzles | at a joint | best match right | right among the best eight |\n|---|---|---|---|---|")
    for count, shares in sorted(by_count.items()):
        cells = " | ".join(f"{share:.2f}" for share in np.nanmean(shares, axis=0))
        print(f"| {count} | {len(shares)} | {cells} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="fracture-small")
    parser.add_argument("--data", required=True)
    parser.add_argument("--puzzles", type=int, default=112, help="evenly over the whole")
    parser.add_argument("--threads", type=int, default=1)
    main(parser.parse_args())
