"""Hypotheses, and how pieces come to lie, are scored by whether the solution says that they are right (ours)."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from support.arrangements import arrangements_of, leaving, pair_matrix
from support.lumpy_shapes import seeded
from support.pose_fields import path_of, pieces_of
from support.rigid_motions import random_se3, transform_points
from support.soft_matches import drawn, of_both_kinds, pairs_of
from torch import Tensor, nn

from eda import SE3
from eda.nn.pose_field import hypothesis_loss, is_correct
from eda.registration.arrangements import Arrangements, PairScores
from eda.registration.hypotheses import PairHypotheses
from eda.registration.pair_scorer import num_features

# -- what is right -----------------------------------------------------------------------------------------


def turned_by(degrees: float, seed: int) -> Tensor:
    axis = drawn(3, seed=seed)
    return torch.from_numpy(Rotation.from_rotvec((math.radians(degrees) * axis / axis.norm()).numpy()).as_matrix())


@pytest.mark.parametrize(
    ("degrees", "moved", "right"),
    [(0, 0, True), (19.9, 0, True), (20.1, 0, False), (0, 0.249, True), (0, 0.251, False), (19.9, 0.249, True),
     (19.9, 0.251, False), (20.1, 0.249, False), (180, 0, False)],
)  # fmt: skip
def test_a_motion_is_right_within_twenty_degrees_and_a_quarter_of_the_size_of_the_puzzle(degrees, moved, right):
    """Turned about the centre that the first piece then has; then moved."""
    true, center = random_se3(3, 2, spread=4.0), 3 * drawn(3, 3)
    middle, push = true.act(center), drawn(3, 3, seed=5)
    push = moved * push / push.norm(dim=-1, keepdim=True)
    turn = torch.stack([turned_by(degrees, seed) for seed in range(3)])
    about = SE3(turn, middle - (turn @ middle[..., None]).squeeze(-1) + push)
    found = is_correct((about @ true).reshape(3, 1), true, center)
    assert found.tolist() == [[right]] * 3


# -- the loss of judgements --------------------------------------------------------------------------------


def proposals(complementary: bool) -> tuple[list[PairHypotheses], Arrangements, SE3]:
    """For puzzles of 3, 2, 1 and 4 pieces: many motions are nearly right or just not, and most hold. Arrangements."""
    counts, ways = [3, 2, 1, 4], [5, 6, 4, 3]
    solution, arrangements, proposed = random_se3(10, 6, spread=0.7), [], []
    for b, (count, num) in enumerate(zip(counts, ways, strict=True)):
        begin = sum(counts[:b])
        own, some = solution[begin : begin + count], arrangements_of([count], num, complementary=complementary, seed=b)
        near = SE3.exp(0.07 * drawn(count, num, 6, seed=b))
        right = torch.rand(count, num, generator=seeded(b)) < 0.75
        lies = (own.reshape(-1, 1) @ near).where(right, some.poses)
        some = replace(some, poses=lies, valid=torch.rand(1, num, generator=seeded(b)) < 0.8)
        arrangements.append(leaving(some, (0, 0)))
        pairs = torch.tensor(pairs_of([count]), dtype=torch.int64).reshape(-1, 2)
        true = (own[pairs[:, 1]].inverse() @ own[pairs[:, 0]]).reshape(-1, 1)
        motion = true @ SE3.exp(0.12 * drawn(len(pairs), num, 6, seed=b + 7))
        chosen = torch.rand(len(pairs), num, generator=seeded(b + 1)) < 0.5
        motion = motion.where(chosen, random_se3(len(pairs) * num, b + 9, spread=0.7).reshape(len(pairs), num))
        holds = torch.rand(len(pairs), num, generator=seeded(b + 2)) < 0.7
        evidence = drawn(len(pairs), num, num_features(complementary), seed=b + 30)
        proposed.append(PairHypotheses(motion, holds, evidence, None))
    return proposed, Arrangements.cat(arrangements), solution


def entropy(value: float, right: bool) -> float:
    return math.log1p(math.exp(-value if right else value))


def is_near(motion: np.ndarray, true: np.ndarray, center: np.ndarray) -> bool:
    turned = Rotation.from_matrix(motion[:3, :3] @ true[:3, :3].T).magnitude()
    return (
        turned < math.radians(20)
        and np.linalg.norm(transform_points(motion, center) - transform_points(true, center)) < 0.25
    )


def balanced(judgements: list[tuple[float, bool]]) -> float:
    """Half of the mean of those that are right, and half of that of those that are wrong."""
    kinds = [[entropy(value, right) for value, right in judgements if right == kind] for kind in (True, False)]
    return sum(sum(kind) / len(kind) for kind in kinds if kind) / 2


def judgements_by_loop(
    judges: PairScores, proposed: list[PairHypotheses], arrangements: Arrangements, solution: SE3, own: list[bool]
) -> tuple[list[tuple[float, bool]], list[tuple[float, bool]]]:
    """The values of all proposed motions, and of all pairs that came to lie somehow, and whether they are right."""
    truth, pairs = solution.matrix().numpy(), pairs_of(arrangements.counts.tolist())
    true = {(i, j): np.linalg.inv(truth[j]) @ truth[i] for i, j in pairs}
    center = arrangements.centers.numpy()
    joined, lying, names = [], [], iter(pairs)
    for motions in proposed:
        for q, (i, j) in zip(range(len(motions.valid)), names, strict=False):
            for k in motions.valid[q].nonzero()[:, 0].tolist():
                right = (
                    is_near(motions.T_second_first[q, k].matrix().numpy(), true[i, j], center[i]) and own[i] and own[j]
                )
                joined.append((float(judges.joint(motions.features[q, k][None])[0]), right))
    puzzle = {i: b for b, pieces in enumerate(pieces_of(arrangements)) for i in pieces}
    for (q, (i, j)), h in itertools.product(enumerate(pairs), range(arrangements.valid.shape[1])):
        placed = arrangements.placed[i, h] and arrangements.placed[j, h] and arrangements.valid[puzzle[i], h]
        if placed and not arrangements.is_joint[q, h]:
            right = is_near(pair_matrix(arrangements, q, h), true[i, j], center[i]) and own[i] and own[j]
            lying.append((float(judges.neighbor(arrangements.features[q, h][None])[0]), right))
    return joined, lying


@of_both_kinds
@pytest.mark.parametrize("own", [None, [True, True, False, True, True, True, True, False, True, True], [False] * 10])
@torch.no_grad()
def test_the_loss_of_judgements_is_that_by_a_loop_in_which_right_and_wrong_ones_count_alike(complementary, own):
    """Also where no piece is the puzzle's own, so that nothing is right."""
    judges, (proposed, arrangements, solution) = (
        path_of(complementary=complementary).pair_scores,
        proposals(complementary),
    )
    kinds = judgements_by_loop(judges, proposed, arrangements, solution, own or [True] * 10)
    found = hypothesis_loss(judges, proposed, arrangements, solution, None if own is None else torch.tensor(own))
    assert float(found) == pytest.approx(balanced(kinds[0]) + balanced(kinds[1]), abs=1e-9)
    if own is None:
        assert all(3 < sum(right for _, right in kind) < len(kind) - 3 for kind in kinds)
    elif not any(own):
        assert not any(right for kind in kinds for _, right in kind)


@of_both_kinds
@torch.no_grad()
def test_the_loss_of_judgements_of_which_none_is_wrong(complementary):
    judges, (proposed, arrangements, solution) = (
        path_of(complementary=complementary).pair_scores,
        proposals(complementary),
    )
    first, second = arrangements.first.split([3, 1, 0, 6]), arrangements.second.split([3, 1, 0, 6])
    right = []
    for motions, here, there in zip(proposed, first, second, strict=True):
        true = (solution[there].inverse() @ solution[here]).reshape(-1, 1)
        right.append(replace(motions, T_second_first=true[:, [0] * motions.valid.shape[1]]))
    laid = replace(arrangements, poses=solution.reshape(-1, 1)[:, [0] * arrangements.valid.shape[1]])
    kinds = judgements_by_loop(judges, right, laid, solution, [True] * 10)
    assert all(right for kind in kinds for _, right in kind)
    expected = sum(np.mean([entropy(*one) for one in kind]) / 2 for kind in kinds)
    assert float(hypothesis_loss(judges, right, laid, solution)) == pytest.approx(expected, abs=1e-9)


@of_both_kinds
def test_the_loss_of_judgements_is_zero_where_there_is_nothing_to_judge(complementary):
    """No motion holds; or there are only puzzles of one piece."""
    path, (proposed, arrangements, solution) = path_of(complementary=complementary), proposals(complementary)
    nothing = [replace(motions, valid=torch.zeros_like(motions.valid)) for motions in proposed]
    unplaced = replace(
        arrangements, placed=torch.zeros_like(arrangements.placed), is_joint=arrangements.is_joint & False
    )
    alone = arrangements_of([1, 1], 1, complementary=complementary), [proposed[2], proposed[2]], solution[:2]
    for some, motions, poses in ((unplaced, nothing, solution), alone):
        loss = hypothesis_loss(path.pair_scores, motions, some, poses)
        assert loss == 0
        for slope in torch.autograd.grad(loss, [*path.judge.parameters(), *(path.beside or nn.Module()).parameters()]):
            assert not slope.any()


@of_both_kinds
def test_joints_teach_the_judge_and_what_lies_beside_teaches_its_own(complementary):
    """Nothing of it is learned from the other, nor by what is not judged; a step down the slope makes it better."""
    path, (proposed, arrangements, solution) = path_of(complementary=complementary), proposals(complementary)
    alone = [replace(motions, valid=torch.zeros_like(motions.valid)) for motions in proposed]
    together = replace(arrangements, is_joint=torch.ones_like(arrangements.is_joint))
    weighings = {"judge": path.judge, "beside": path.beside} if complementary else {"judge": path.judge}
    taught = {}
    for name, motions, some in (("joints", proposed, together), ("beside", alone, arrangements)):
        loss = hypothesis_loss(path.pair_scores, motions, some, solution)
        for part, weighing in weighings.items():
            slopes = torch.autograd.grad(loss, tuple(weighing.parameters()), retain_graph=True, allow_unused=True)
            taught[name, part] = [slope is not None and bool(slope.any()) for slope in slopes]
    assert all(taught["joints", "judge"])
    assert all(taught["beside", "beside" if complementary else "judge"])
    if complementary:
        assert not any(taught["joints", "beside"] + taught["beside", "judge"])
    before = hypothesis_loss(path.pair_scores, proposed, arrangements, solution)
    before.backward()
    assert path.none.grad is None
    with torch.no_grad():
        for weight in path.parameters():
            weight -= 1e-3 * (0 if weight.grad is None else weight.grad)
        assert hypothesis_loss(path.pair_scores, proposed, arrangements, solution) < before
