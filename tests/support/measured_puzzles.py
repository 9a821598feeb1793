"""For tests of measuring: small puzzles, and answers to them that are made from the truth."""

import numpy as np
from support.lumpy_shapes import lumpy_cloud
from support.rigid_motions import random_motions, random_se3

from eda import SE3
from eda.data import Example
from eda.evaluate import Answer, scatter


def example(num_pieces: int, seed: int, *, foreign: int = 0, size: int = 60, name: str = "") -> Example:
    rng = np.random.default_rng(seed)
    clouds, normals = zip(*[lumpy_cloud(100 * seed + i, size + 3 * i) for i in range(num_pieces)], strict=True)
    clouds = [cloud + place for cloud, place in zip(clouds, 1.5 * rng.normal(size=(num_pieces, 3)), strict=True)]
    strangers = [i >= num_pieces - foreign for i in range(num_pieces)]
    return Example.from_clouds(name or f"puzzle {seed}", clouds, normals, foreign=strangers)


EXAMPLES = [example(2 + seed % 3, seed) for seed in range(5)]


def answers_with(motion, examples=EXAMPLES) -> list[Answer]:
    """Answers (1, 1, N) that `motion` makes from the truth and the puzzle's number."""
    return [
        Answer(puzzle, motion(puzzle.solution, index).reshape(1, 1, -1))
        for index, puzzle in enumerate(scatter(examples, 0))
    ]


def whole_moved(solution: SE3, index: int) -> SE3:
    return random_se3(1, index)[0] @ solution


def at_random(solution: SE3, index: int) -> SE3:
    return SE3.from_matrix(random_motions(len(solution), index))
