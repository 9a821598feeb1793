"""Pieces follow the arrangements that may be right, as weighed by a loop over all of them (ours)."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from arranged import FAR, arrangements_of, leaving, moved_on, pair_matrix, pairwise, planted
from arranged import moved as brought
from places import assert_near, drawn, model_of, pairs_of, poses_of, seeded
from reference import haar_rotations
from scipy.spatial.transform import Rotation
from torch import Tensor, nn

from eda import SE3
from eda.flow import Path
from eda.nn.arrangements import Arrangements, Judges, arrange
from eda.nn.evidence import evidence_width
from eda.nn.motions import MotionPath, distances, is_right, judging_loss, ways
from eda.nn.proposals import Motions

LEAST_TIME = 0.02  # that is always left
ALL_OTHERS = 3 * math.log(12 * 10)  # a motion fills (12 x 10)^-3 of what all others do

with_and_without_mates = pytest.mark.parametrize("mates", [False, True])


def pieces_of(arrangements: Arrangements) -> list[range]:
    """The pieces of every puzzle."""
    begins = [0, *itertools.accumulate(arrangements.counts.tolist())]
    return [range(a, b) for a, b in itertools.pairwise(begins)]


# -- the way of an arrangement -----------------------------------------------------------------------------


def way_of(arrangements: Arrangements, poses: SE3, pieces: range, h: int) -> dict[int, np.ndarray]:
    """(w, u) of all pieces that are placed: scipy turns the whole into the mean of what they would turn it into."""
    here, there = poses.matrix().numpy(), arrangements.poses.matrix().numpy()[:, h]
    placed = [i for i in pieces if arrangements.placed[i, h]]
    turn = Rotation.from_matrix(np.stack([here[i, :3, :3] @ there[i, :3, :3].T for i in placed])).mean().as_matrix()
    now = {i: brought(here[i], arrangements.centers[i].numpy()) for i in placed}
    then = {i: turn @ brought(there[i], arrangements.centers[i].numpy()) for i in placed}
    middle = {name: np.mean(list(of.values()), axis=0) for name, of in (("now", now), ("then", then))}
    way = {}
    for i in placed:
        w = Rotation.from_matrix(turn @ there[i, :3, :3] @ here[i, :3, :3].T).as_rotvec()
        way[i] = np.concatenate([w, then[i] - middle["then"] - now[i] + middle["now"]])
    return way


def test_the_ways_are_those_of_the_pieces_that_are_placed_one_by_one():
    """Puzzles of 2, 5, 1 and 3 pieces; some arrangements leave some of them."""
    arrangements, poses = arrangements_of([2, 5, 1, 3], 4), poses_of(11, 7)
    arrangements = leaving(arrangements, (3, 0), (3, 1), (6, 1), (7, 2), (8, 0), (10, 3))
    found = ways(arrangements, poses)
    assert found.shape == (11, 4, 6)
    for pieces, h in itertools.product(pieces_of(arrangements), range(4)):
        for i, way in way_of(arrangements, poses, pieces, h).items() if len(pieces) > 1 else ():
            assert_near(found[i, h], torch.from_numpy(way), 1e-9)


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("left", [False, True])
def test_the_ways_lead_to_the_arrangement_at_once_and_step_by_step(count, left):
    """Up to a motion of the whole; the middle of the pieces that are placed stays. With one more that is left out."""
    arrangements, poses = arrangements_of([count + left], 1, seed=count), poses_of(count + left, 4, spread=2.0)
    arrangements = leaving(arrangements, (1, 0)) if left else arrangements
    placed, centers = arrangements.placed[:, 0], arrangements.centers
    at_once = moved_on(poses, ways(arrangements, poses)[:, 0], centers, 1.0)
    steps, walked = 20, poses
    for step in range(steps):  # v(g, tau) = way(g) / (1 - tau)
        velocity = ways(arrangements, walked)[:, 0] / (1 - step / steps)
        walked = moved_on(walked, velocity, centers, 1 / steps)
    for end in (at_once, walked):
        whole = end[placed] @ arrangements.poses[placed, 0].inverse()
        assert_near(whole.matrix(), whole.matrix()[:1].expand(count, 4, 4), 1e-8)
        assert_near(end.act(centers)[placed].mean(0), poses.act(centers)[placed].mean(0), 1e-9)


def test_pieces_that_are_arranged_already_stay():
    arrangements, whole = arrangements_of([2, 4], 1), poses_of(2, 5)
    poses = whole[torch.tensor([0, 0, 1, 1, 1, 1])] @ arrangements.poses[:, 0]
    assert ways(arrangements, poses).abs().max() < 1e-7
    assert max(float(of.max()) for of in distances(arrangements, poses)) < 1e-7


@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_ways_are_the_twists_of_the_training_path_where_translations_vanish(count):
    """Of the path that begins where the pieces are; that of two pieces is the same all along."""
    nowhere = torch.zeros(count, 3).double()
    noise, solution = SE3(haar_rotations(count, 3), nowhere), SE3(haar_rotations(count, 4), nowhere)
    puzzle = torch.zeros(count, dtype=torch.int64)
    arrangements = replace(arrangements_of([count], 1), poses=solution.reshape(-1, 1), centers=nowhere)
    path = Path.generated_by(noise, solution, puzzle, 1)
    for tau in (0.0, 0.3, 0.8):
        poses = path.at(torch.full((count,), tau).double())
        begun = Path.generated_by(poses, solution, puzzle, 1)
        assert_near(ways(arrangements, poses)[:, 0], begun.twist, 1e-9)
        if count == 2 or not tau:
            assert_near(ways(arrangements, poses)[:, 0] / (1 - tau), path.twist, 1e-6)


def test_the_ways_turn_with_the_whole_and_do_not_see_the_frames():
    """Neither the own ones of the pieces, nor the one that an arrangement is in."""
    arrangements, poses = leaving(arrangements_of([4, 2], 3), (1, 1)), poses_of(6, 3)
    expected = ways(arrangements, poses)
    whole, frames, other = poses_of(1, 5), poses_of(6, 6, spread=3.0), poses_of(6, 7).reshape(2, 3)
    turned = ways(arrangements, SE3(whole.rotation.expand(6, 3, 3), whole.translation.expand(6, 3)) @ poses)
    seen = arrangements.placed[..., None]
    assert_near(turned * seen, (expected.unflatten(-1, (2, 3)) @ whole.rotation[0].T).flatten(-2) * seen, 1e-9)
    puzzle = torch.tensor([0, 0, 0, 0, 1, 1])
    moved = replace(
        arrangements,
        poses=other[puzzle] @ arrangements.poses @ frames.inverse().reshape(-1, 1),
        centers=frames.act(arrangements.centers),
    )
    assert_near(ways(moved, poses @ frames.inverse()) * seen, expected * seen, 1e-9)


# -- how far it is -----------------------------------------------------------------------------------------


def far_of(arrangements: Arrangements, poses: SE3, q: int, h: int) -> tuple[float, float]:
    """Of two pieces alone, each of which would go half of the way."""
    i, j = int(arrangements.first[q]), int(arrangements.second[q])
    here, there = poses.matrix().numpy()[[i, j]]
    *_, turned, moved = pairwise(pair_matrix(arrangements, q, h), here, there, arrangements.centers[[i, j]].numpy())
    return float(turned), float(moved)


def test_distances_are_those_of_two_pieces_alone():
    arrangements, poses = arrangements_of([3, 1, 2, 4], 3), poses_of(10, 2, spread=2.0)
    turned, moved = distances(arrangements, poses)
    assert turned.shape == moved.shape == (10, 3)
    for q, h in itertools.product(range(10), range(3)):
        expected = far_of(arrangements, poses, q, h)
        assert (float(turned[q, h]), float(moved[q, h])) == pytest.approx(expected, abs=1e-9)
    assert turned.max() <= 1
    assert turned.std() > 0.05
    assert moved.std() > 0.05


def test_distances_do_not_depend_on_which_piece_comes_first_or_on_any_frame():
    arrangements, poses = arrangements_of([4], 3), poses_of(4, 2)
    expected = distances(arrangements, poses)
    back = replace(arrangements, first=arrangements.second, second=arrangements.first)
    whole, frames = poses_of(1, 5), poses_of(4, 6)
    moved = replace(
        arrangements,
        poses=poses_of(3, 9).reshape(1, 3) @ arrangements.poses @ frames.inverse().reshape(-1, 1),
        centers=frames.act(arrangements.centers),
    )
    everywhere = SE3(whole.rotation.expand(4, 3, 3), whole.translation.expand(4, 3))
    for found in (distances(back, poses), distances(moved, everywhere @ poses @ frames.inverse())):
        for one, other in zip(found, expected, strict=True):
            assert_near(one, other, 1e-9)


# -- the weights of arrangements, puzzle by puzzle ---------------------------------------------------------


@torch.no_grad()
def path_of(none: float | None = None, mates: bool = False) -> MotionPath:
    """With `none`, all arrangements weigh the same, and the rest that."""
    path = model_of(match_mates=mates).network.motions
    if none is not None:
        for weighing in (path.judge, path.beside) if mates else (path.judge,):
            nn.init.zeros_(weighing[-1].weight)
            nn.init.zeros_(weighing[-1].bias)
        nn.init.constant_(path.none, none)
    return path


def judged(path: MotionPath, evidence: Tensor, far: tuple[float, float] = (0.0, 0.0)) -> float:
    return float(path.judge(torch.cat([evidence, torch.tensor(far, dtype=evidence.dtype)])))


def value_of(path: MotionPath, arrangements: Arrangements, poses: SE3, pairs: list[int], h: int) -> float:
    """Of joints by what speaks for them and how far they are, of all other placed pairs by what speaks for them."""
    total = 0.0
    for q in pairs:
        evidence = arrangements.evidence[q, h]
        if arrangements.joined[q, h]:
            total += judged(path, evidence, far_of(arrangements, poses, q, h))
        elif arrangements.placed[arrangements.first[q], h] and arrangements.placed[arrangements.second[q], h]:
            total += judged(path, evidence) if path.beside is None else float(path.beside(evidence))
    return total


def mixed_by_loop(
    path: MotionPath, arrangements: Arrangements, poses: SE3, tau: Tensor, rest: Tensor, boldness: float = 1.0
) -> Tensor:
    """Of the density to the power `boldness`; an arrangement of n pieces has n - 1 motions."""
    velocity = []
    for b, pieces in enumerate(pieces_of(arrangements)):
        pairs = [q for q, i in enumerate(arrangements.first.tolist()) if i in pieces]
        logs, going = [boldness * float(path.none)], [rest[pieces.start : pieces.stop].numpy()]
        for h in arrangements.holds[b].nonzero()[:, 0].tolist():
            value = value_of(path, arrangements, poses, pairs, h)
            logs.append(boldness * value + (boldness - 1) * (len(pieces) - 1) * ALL_OTHERS)
            way = way_of(arrangements, poses, pieces, h)
            placed = [q for q in pairs if int(arrangements.first[q]) in way and int(arrangements.second[q]) in way]
            far = [distance for q in placed for distance in far_of(arrangements, poses, q, h)]
            time = max(1 - float(tau[b]), LEAST_TIME, *far)
            going.append(np.stack([way[i] / time if i in way else rest[i].numpy() for i in pieces]))
        odds = np.exp(np.array(logs) - max(logs))
        velocity.append(np.einsum("h,hnd->nd", odds / odds.sum(), np.stack(going)))
    return torch.from_numpy(np.concatenate(velocity))


def several(mates: bool) -> tuple[Arrangements, SE3, Tensor, Tensor]:
    """Puzzles of 3, 1, 2, 4 and 2 pieces; one is late, so that the least time counts, one is far off; some arrangements
    do not hold, and of the last puzzle none does.
    """
    arrangements = arrangements_of([3, 1, 2, 4, 2], 3, mates=mates)
    holds = torch.tensor([[True, False, True], [False] * 3, [False, False, True], [True] * 3, [False] * 3])
    spread = torch.tensor([0.5, 0.5, 30, 1, 0.5, 0.5, 1, 1, 0.2, 0.3, 1, 1]).double()[:, None]
    poses = SE3(haar_rotations(12), spread * drawn(12, 3))
    tau = torch.tensor([0.3, 0.6, 0.995, 0.2, 0.5]).double()
    return replace(arrangements, holds=holds), poses, tau, drawn(12, 6, seed=3)


@with_and_without_mates
@pytest.mark.parametrize("left", [(), ((1, 0), (7, 0), (7, 1), (9, 1), (6, 2))])
@torch.no_grad()
def test_a_velocity_is_the_mean_by_a_loop_over_all_arrangements_and_the_rest(mates, left):
    """Where all pieces are placed, and where some are not."""
    path, (arrangements, poses, tau, rest) = path_of(mates=mates), several(mates)
    arrangements = leaving(arrangements, *left)
    for boldness in (1.0, 0.9, 1.5, 16.0, 1e6):
        found = path(arrangements, poses, tau, rest, boldness)
        assert_near(found, mixed_by_loop(path, arrangements, poses, tau, rest, boldness), 1e-8)
        assert_near(found[[3, 10, 11]], rest[[3, 10, 11]], 1e-12)  # a piece alone; and no arrangement holds
        assert (found - rest)[[0, 2, 4, 5, 8]].abs().amax(1).min() > 1e-3
    assert torch.equal(path(arrangements, poses, tau, rest), path(arrangements, poses, tau, rest, 1.0))


@with_and_without_mates
@torch.no_grad()
def test_a_puzzle_does_not_see_its_batch_companions(mates):
    """Of 2, 5, 1 and 3 pieces in 5, 2, 1 and 3 arrangements, some of which leave pieces."""
    path, counts = path_of(mates=mates), [2, 5, 1, 3]
    each = [arrangements_of([n], h, mates=mates, seed=n) for n, h in zip(counts, (5, 2, 1, 3), strict=True)]
    each[1] = leaving(each[1], (3, 0))
    each[2] = replace(leaving(each[2], (0, 0)), holds=torch.tensor([[False]]))
    poses, tau, rest = poses_of(11, 3), torch.tensor([0.1, 0.5, 0.3, 0.99]).double(), drawn(11, 6, seed=3)
    for boldness in (1.0, 3.0):
        together = path(Arrangements.cat(each), poses, tau, rest, boldness)
        parts = zip(each, [slice(0, 2), slice(2, 7), slice(7, 8), slice(8, 11)], tau.split(1), strict=True)
        alone = [path(one, poses[rows], at, rest[rows], boldness) for one, rows, at in parts]
        assert_near(together, torch.cat(alone), 1e-12)


@with_and_without_mates
def test_what_does_not_hold_has_no_weight_at_all(mates):
    """Neither where it is all that a puzzle has, nor does it teach anything."""
    path, (arrangements, poses, tau, rest) = path_of(mates=mates), several(mates)
    other = arrangements_of([3, 1, 2, 4, 2], 3, mates=mates, seed=9)
    puzzle = torch.tensor([0, 0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 4])
    of_pieces, of_pairs = arrangements.holds[puzzle], arrangements.holds[puzzle[arrangements.first]]
    changed = replace(
        arrangements,
        poses=arrangements.poses.where(of_pieces, SE3(other.poses.rotation, 1e3 * other.poses.translation)),
        evidence=torch.where(of_pairs[..., None], arrangements.evidence, 1e3 * other.evidence),
        joined=torch.where(of_pairs, arrangements.joined, ~arrangements.joined),
        placed=torch.where(of_pieces, arrangements.placed, drawn(12, 3) > 0),
    )
    for boldness in (1.0, 1.01):
        found, expected = (path(one, poses, tau, rest, boldness) for one in (changed, arrangements))
        assert_near(found, expected, 1e-12)
        slopes = [
            torch.autograd.grad((v * drawn(12, 6, seed=1)).sum(), tuple(path.parameters())) for v in (found, expected)
        ]
        for one, expected_one in zip(*slopes, strict=True):
            assert_near(one, expected_one, 1e-11)


@with_and_without_mates
@torch.no_grad()
def test_pieces_that_are_not_placed_go_with_the_rest_and_where_they_would_be_does_not_matter(mates):
    path, poses, tau, rest = path_of(mates=mates), poses_of(7), torch.tensor([0.3, 0.6]).double(), drawn(7, 6)
    arrangements = leaving(arrangements_of([4, 3], 2, mates=mates), (1, 0), (1, 1), (6, 1))
    expected = path(arrangements, poses, tau, rest)
    assert_near(expected[1], rest[1], 1e-12)
    assert (expected - rest)[[0, 2, 3, 4, 5, 6]].abs().amax(1).min() > 1e-3
    anywhere = poses_of(14, 8, spread=50.0).reshape(7, 2)
    together = arrangements.both[..., None]
    moved = replace(
        arrangements,
        poses=arrangements.poses.where(arrangements.placed, anywhere),
        evidence=torch.where(together, arrangements.evidence, 30.0),
    )
    assert_near(path(moved, poses, tau, rest), expected, 1e-12)


@with_and_without_mates
@torch.no_grad()
def test_two_pieces_go_as_they_did_when_there_were_only_pairs(mates):
    """Half of the way each; the weight of a motion is that of what speaks for it and of how far it is."""
    puzzle, path = planted(2, 6), path_of(mates=mates)
    evidence = drawn(1, 6, evidence_width(mates))
    holds = torch.tensor([[True, True, False, True, True, False]])
    motions = replace(puzzle.motions, evidence=evidence, holds=holds)
    arrangements = arrange(motions, puzzle.centers, path.judges)
    for seed, tau, boldness in ((0, 0.2, 1.0), (1, 0.7, 1.0), (2, 0.99, 2.5), (3, 0.0, 0.8)):
        poses, rest = poses_of(2, 20 + seed, spread=3.0), drawn(2, 6, seed=seed)
        here, there = poses.matrix().numpy()
        logs, going = [boldness * float(path.none)], [rest.numpy()]
        for k in holds[0].nonzero()[:, 0].tolist():
            motion = motions.motion[0, k].matrix().numpy()
            turn, move, *far = pairwise(motion, here, there, puzzle.centers.numpy())
            logs.append(boldness * judged(path, evidence[0, k], tuple(far)) + (boldness - 1) * ALL_OTHERS)
            way = np.concatenate([turn, move]) / max(1 - tau, LEAST_TIME, *far)
            going.append(np.stack([way, -way]))
        odds = np.exp(np.array(logs) - max(logs))
        expected = np.einsum("k,knd->nd", odds / odds.sum(), np.stack(going))
        found = path(arrangements, poses, torch.tensor([tau], dtype=torch.float64), rest, boldness)
        assert_near(found, torch.from_numpy(expected), 1e-9)


@with_and_without_mates
@torch.no_grad()
def test_pieces_are_judged_as_if_they_were_where_they_are_wanted(mates):
    """And those beside each other by a judge of their own, where places fit; else by the same one."""
    path, evidence = path_of(mates=mates), drawn(5, 2, evidence_width(mates))
    for q, h in itertools.product(range(5), range(2)):
        joined = judged(path, evidence[q, h])
        beside = float(path.beside(evidence[q, h])) if mates else joined
        assert float(path.judges.joined(evidence)[q, h]) == pytest.approx(joined)
        assert float(path.judges.beside(evidence)[q, h]) == pytest.approx(beside)
    assert (path.beside is not None) == mates


# -- how fast ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 4])
@torch.no_grad()
def test_a_field_of_one_arrangement_leads_to_it(count):
    """In 200 steps of Euler, from noise as it comes; what is left is what the least time leaves."""
    path, arrangements, poses = path_of(-50.0), arrangements_of([count], 1), poses_of(count, 4)
    rest, steps = drawn(count, 6), 200
    for step in range(steps):
        velocity = path(arrangements, poses, torch.tensor([step / steps]).double(), rest)
        poses = moved_on(poses, velocity, arrangements.centers, 1 / steps)
    found = (poses[1:] @ arrangements.poses[1:, 0].inverse()).matrix()
    expected = (poses[:1] @ arrangements.poses[:1, 0].inverse()).matrix().expand_as(found)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.03)


@pytest.mark.parametrize("tau", [0.0, 0.99, 1.0])
@pytest.mark.parametrize("spread", [1.0, 1e3, 1e7])
@torch.no_grad()
def test_no_two_pieces_are_asked_to_be_faster_than_half_a_turn_and_the_far(tau, spread):
    """50 puzzles of two pieces, each of which goes half of the way."""
    path, arrangements = path_of(-50.0), arrangements_of([2] * 50, 1)
    poses, rest = poses_of(100, 3, spread=spread), torch.zeros(100, 6).double()
    w, u = path(arrangements, poses, torch.full((50,), tau, dtype=torch.float64), rest).split(3, dim=1)
    assert float(w.norm(dim=1).max()) <= math.pi / 2 + 1e-9
    assert float(u.norm(dim=1).max()) <= FAR + 1e-9
    if spread > 1:
        assert float(u.norm(dim=1).min()) == pytest.approx(FAR, rel=1e-6)


@pytest.mark.parametrize("tau", [0.0, 1.0])
@pytest.mark.parametrize("spread", [1.0, 1e7])
@torch.no_grad()
def test_pieces_that_are_far_off_are_not_asked_to_be_much_faster_where_there_are_more(tau, spread):
    """Two of them come nearer by 2 `FAR` at most, so none leaves the middle of all by more than that."""
    path, arrangements = path_of(-50.0), arrangements_of([5] * 20, 1)
    poses, rest = poses_of(100, 3, spread=spread), torch.zeros(100, 6).double()
    w, u = path(arrangements, poses, torch.full((20,), tau, dtype=torch.float64), rest).split(3, dim=1)
    assert float(u.norm(dim=1).max()) <= 2 * FAR
    assert float(w.norm(dim=1).max()) <= 1.5 * math.pi


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(("tau", "left"), [(0.4, 0.6), (0.99, LEAST_TIME), (1.0, LEAST_TIME)])
@torch.no_grad()
def test_pieces_that_nearly_fit_take_the_time_that_is_left(count, tau, left):
    path, arrangements = path_of(-50.0), arrangements_of([count], 1)
    poses = arrangements.poses[:, 0] @ SE3.exp(0.003 * drawn(count, 6))
    found = path(arrangements, poses, torch.tensor([tau], dtype=torch.float64), torch.zeros(count, 6).double())
    assert_near(found, ways(arrangements, poses)[:, 0] / left, 1e-12)


# -- what the solution says of motions ---------------------------------------------------------------------


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
    true, center = poses_of(3, 2, spread=4.0), 3 * drawn(3, 3)
    middle, push = true.act(center), drawn(3, 3, seed=5)
    push = moved * push / push.norm(dim=-1, keepdim=True)
    turn = torch.stack([turned_by(degrees, seed) for seed in range(3)])
    about = SE3(turn, middle - (turn @ middle[..., None]).squeeze(-1) + push)
    found = is_right((about @ true).reshape(3, 1), true, center)
    assert found.tolist() == [[right]] * 3


def proposals(mates: bool) -> tuple[list[Motions], Arrangements, SE3]:
    """For puzzles of 3, 2, 1 and 4 pieces: many motions are nearly right or just not, and most hold. Arrangements."""
    counts, ways = [3, 2, 1, 4], [5, 6, 4, 3]
    solution, arrangements, proposed = poses_of(10, 6), [], []
    for b, (count, num) in enumerate(zip(counts, ways, strict=True)):
        begin = sum(counts[:b])
        own, some = solution[begin : begin + count], arrangements_of([count], num, mates=mates, seed=b)
        near = SE3.exp(0.07 * drawn(count, num, 6, seed=b))
        right = torch.rand(count, num, generator=seeded(b)) < 0.75
        lies = (own.reshape(-1, 1) @ near).where(right, some.poses)
        some = replace(some, poses=lies, holds=torch.rand(1, num, generator=seeded(b)) < 0.8)
        arrangements.append(leaving(some, (0, 0)))
        pairs = torch.tensor(pairs_of([count]), dtype=torch.int64).reshape(-1, 2)
        true = (own[pairs[:, 1]].inverse() @ own[pairs[:, 0]]).reshape(-1, 1)
        motion = true @ SE3.exp(0.12 * drawn(len(pairs), num, 6, seed=b + 7))
        chosen = torch.rand(len(pairs), num, generator=seeded(b + 1)) < 0.5
        motion = motion.where(chosen, poses_of(len(pairs) * num, b + 9).reshape(len(pairs), num))
        holds = torch.rand(len(pairs), num, generator=seeded(b + 2)) < 0.7
        evidence = drawn(len(pairs), num, evidence_width(mates), seed=b + 30)
        proposed.append(Motions(motion, holds, evidence, None))
    return proposed, Arrangements.cat(arrangements), solution


def entropy(value: float, right: bool) -> float:
    return math.log1p(math.exp(-value if right else value))


def is_near(motion: np.ndarray, true: np.ndarray, center: np.ndarray) -> bool:
    turned = Rotation.from_matrix(motion[:3, :3] @ true[:3, :3].T).magnitude()
    return turned < math.radians(20) and np.linalg.norm(brought(motion, center) - brought(true, center)) < 0.25


def balanced(judgements: list[tuple[float, bool]]) -> float:
    """Half of the mean of those that are right, and half of that of those that are wrong."""
    kinds = [[entropy(value, right) for value, right in judgements if right == kind] for kind in (True, False)]
    return sum(sum(kind) / len(kind) for kind in kinds if kind) / 2


def judgements_by_loop(
    judges: Judges, proposed: list[Motions], arrangements: Arrangements, solution: SE3, own: list[bool]
) -> tuple[list[tuple[float, bool]], list[tuple[float, bool]]]:
    """The values of all proposed motions, and of all pairs that came to lie somehow, and whether they are right."""
    truth, pairs = solution.matrix().numpy(), pairs_of(arrangements.counts.tolist())
    true = {(i, j): np.linalg.inv(truth[j]) @ truth[i] for i, j in pairs}
    center = arrangements.centers.numpy()
    joined, lying, names = [], [], iter(pairs)
    for motions in proposed:
        for q, (i, j) in zip(range(len(motions.holds)), names, strict=False):
            for k in motions.holds[q].nonzero()[:, 0].tolist():
                right = is_near(motions.motion[q, k].matrix().numpy(), true[i, j], center[i]) and own[i] and own[j]
                joined.append((float(judges.joined(motions.evidence[q, k][None])[0]), right))
    puzzle = {i: b for b, pieces in enumerate(pieces_of(arrangements)) for i in pieces}
    for (q, (i, j)), h in itertools.product(enumerate(pairs), range(arrangements.holds.shape[1])):
        placed = arrangements.placed[i, h] and arrangements.placed[j, h] and arrangements.holds[puzzle[i], h]
        if placed and not arrangements.joined[q, h]:
            right = is_near(pair_matrix(arrangements, q, h), true[i, j], center[i]) and own[i] and own[j]
            lying.append((float(judges.beside(arrangements.evidence[q, h][None])[0]), right))
    return joined, lying


@with_and_without_mates
@pytest.mark.parametrize("own", [None, [True, True, False, True, True, True, True, False, True, True], [False] * 10])
@torch.no_grad()
def test_the_loss_of_judgements_is_that_by_a_loop_in_which_right_and_wrong_ones_count_alike(mates, own):
    """Also where no piece is the puzzle's own, so that nothing is right."""
    judges, (proposed, arrangements, solution) = path_of(mates=mates).judges, proposals(mates)
    kinds = judgements_by_loop(judges, proposed, arrangements, solution, own or [True] * 10)
    found = judging_loss(judges, proposed, arrangements, solution, None if own is None else torch.tensor(own))
    assert float(found) == pytest.approx(balanced(kinds[0]) + balanced(kinds[1]), abs=1e-9)
    if own is None:
        assert all(3 < sum(right for _, right in kind) < len(kind) - 3 for kind in kinds)
    elif not any(own):
        assert not any(right for kind in kinds for _, right in kind)


@with_and_without_mates
@torch.no_grad()
def test_the_loss_of_judgements_of_which_none_is_wrong(mates):
    judges, (proposed, arrangements, solution) = path_of(mates=mates).judges, proposals(mates)
    first, second = arrangements.first.split([3, 1, 0, 6]), arrangements.second.split([3, 1, 0, 6])
    right = []
    for motions, here, there in zip(proposed, first, second, strict=True):
        true = (solution[there].inverse() @ solution[here]).reshape(-1, 1)
        right.append(replace(motions, motion=true[:, [0] * motions.holds.shape[1]]))
    laid = replace(arrangements, poses=solution.reshape(-1, 1)[:, [0] * arrangements.holds.shape[1]])
    kinds = judgements_by_loop(judges, right, laid, solution, [True] * 10)
    assert all(right for kind in kinds for _, right in kind)
    expected = sum(np.mean([entropy(*one) for one in kind]) / 2 for kind in kinds)
    assert float(judging_loss(judges, right, laid, solution)) == pytest.approx(expected, abs=1e-9)


@with_and_without_mates
def test_the_loss_of_judgements_is_zero_where_there_is_nothing_to_judge(mates):
    """No motion holds; or there are only puzzles of one piece."""
    path, (proposed, arrangements, solution) = path_of(mates=mates), proposals(mates)
    nothing = [replace(motions, holds=torch.zeros_like(motions.holds)) for motions in proposed]
    unplaced = replace(arrangements, placed=torch.zeros_like(arrangements.placed), joined=arrangements.joined & False)
    alone = arrangements_of([1, 1], 1, mates=mates), [proposed[2], proposed[2]], solution[:2]
    for some, motions, poses in ((unplaced, nothing, solution), alone):
        loss = judging_loss(path.judges, motions, some, poses)
        assert loss == 0
        for slope in torch.autograd.grad(loss, [*path.judge.parameters(), *(path.beside or nn.Module()).parameters()]):
            assert not slope.any()


@with_and_without_mates
def test_joints_teach_the_judge_and_what_lies_beside_teaches_its_own(mates):
    """Nothing of it is learned from the other, nor by what is not judged; a step down the slope makes it better."""
    path, (proposed, arrangements, solution) = path_of(mates=mates), proposals(mates)
    alone = [replace(motions, holds=torch.zeros_like(motions.holds)) for motions in proposed]
    together = replace(arrangements, joined=torch.ones_like(arrangements.joined))
    weighings = {"judge": path.judge, "beside": path.beside} if mates else {"judge": path.judge}
    taught = {}
    for name, motions, some in (("joints", proposed, together), ("beside", alone, arrangements)):
        loss = judging_loss(path.judges, motions, some, solution)
        for part, weighing in weighings.items():
            slopes = torch.autograd.grad(loss, tuple(weighing.parameters()), retain_graph=True, allow_unused=True)
            taught[name, part] = [slope is not None and bool(slope.any()) for slope in slopes]
    assert all(taught["joints", "judge"])
    assert all(taught["beside", "beside" if mates else "judge"])
    if mates:
        assert not any(taught["joints", "beside"] + taught["beside", "judge"])
    before = judging_loss(path.judges, proposed, arrangements, solution)
    before.backward()
    assert path.none.grad is None
    with torch.no_grad():
        for weight in path.parameters():
            weight -= 1e-3 * (0 if weight.grad is None else weight.grad)
        assert judging_loss(path.judges, proposed, arrangements, solution) < before


@with_and_without_mates
def test_the_velocity_teaches_all_that_weighs_but_not_through_what_was_proposed(mates):
    path, (arrangements, poses, tau, rest) = path_of(mates=mates), several(mates)
    rest = rest.requires_grad_()
    wanted = arrangements.poses.translation.requires_grad_()
    out = path(arrangements, poses, tau, rest)
    slopes = torch.autograd.grad((out * drawn(12, 6)).sum(), [*path.parameters(), rest], retain_graph=True)
    assert all(slope.abs().max() > 1e-8 for slope in slopes)
    (through,) = torch.autograd.grad(out.sum(), wanted, allow_unused=True)
    assert through is None
