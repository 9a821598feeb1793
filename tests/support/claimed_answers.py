"""For tests of measuring: answers of an assembler that leaves pieces out and gives probabilities, without one."""

from dataclasses import dataclass

import numpy as np
import torch

from eda import SE3
from eda.evaluate import Answer, Confidence, ScatteredPuzzle, fill_unplaced


def claimed_answer(puzzle: ScatteredPuzzle, poses: SE3, placed, *, whole=0.8, pieces=0.9, joints=0.7) -> Answer:
    """An answer (1, 1, N) in which all placed pieces touch each other; probabilities are the same for all."""
    is_placed = np.asarray(placed, dtype=bool)
    confidence = Confidence(
        whole if is_placed.any() else 0.0,
        np.where(is_placed, pieces, 0.0),
        joints * (is_placed[:, None] & is_placed & ~np.eye(len(is_placed), dtype=bool)),
    )
    filled = fill_unplaced(poses, is_placed)
    return Answer(puzzle, filled.reshape(1, 1, -1), np.array([2.0]), is_placed[None, None], confidence, "stub")


@dataclass
class FakeAlternative:
    """What is read of the best alternative of an assembly."""

    poses: np.ndarray
    placed: np.ndarray
    probability: float
    confidence: np.ndarray
    joints: np.ndarray


@dataclass
class FakeAssembly:
    """What is read of an assembly."""

    best: FakeAlternative
    model: str = "stub"


class FakeAssembler:
    """Stands in for `eda.assembly.assemble`: leaves every piece where it was given, and the last one out of it."""

    def __init__(self) -> None:
        self.calls: list[dict] = []

    def __call__(self, clouds, normals=None, **options) -> FakeAssembly:
        self.calls.append({"clouds": clouds, "normals": normals, **options})
        count = len(clouds)
        placed = np.arange(count) < count - 1
        poses = np.tile(np.eye(4), (count, 1, 1))
        poses[-1] = np.diag([-1.0, -1.0, 1.0, 1.0]) + 7 * np.eye(4, k=3)  # means nothing, since it is not placed
        joints = np.where(placed[:, None] & placed & ~np.eye(count, dtype=bool), 0.25, 0.0)
        return FakeAssembly(FakeAlternative(poses, placed, 0.5, 0.75 * placed, joints))


def far_off(solution: SE3, piece: int) -> SE3:
    """The truth, but for one piece, which is turned by 90 degrees and moved by 5."""
    rotation, translation = solution.rotation.clone(), solution.translation.clone()
    quarter = torch.tensor([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]], dtype=torch.float64)
    rotation[piece] = quarter @ rotation[piece]
    translation[piece] += 5
    return SE3(rotation, translation)
