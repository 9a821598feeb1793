"""Pieces conclude from pairs what a loop over their partners does, and it turns with the whole (ours)."""

from dataclasses import replace

import torch
from paired import known, model_of
from places import assert_near, puzzle_of, times_of
from reference import haar_rotations
from support.shapes import TINY_NETWORK, poses_of, seeded
from torch import Tensor

from eda import SE3
from eda.nn.pairs import (
    FAR,
    GRAM,
    PAIR_SCALARS,
    PAIR_VECTORS,
    PRODUCTS,
    STATE_SCALARS,
    STATE_VECTORS,
    PairBlock,
    Pairs,
    PairState,
    _ordered_pairs,
)


def pairs_at_random(counts: list[int], seed: int = 0) -> Pairs:
    first, second, mirror, _ = _ordered_pairs(torch.tensor(counts))
    draw = [(len(first), 3, PAIR_VECTORS), (len(first), PAIR_SCALARS), (sum(counts), 3)]
    generator = seeded(seed)
    vectors, scalars, centers = (0.5 * torch.randn(s, generator=generator, dtype=torch.float64) for s in draw)
    return Pairs(first, second, mirror, vectors, scalars, centers)


def time_at_random(count: int, channels: int = TINY_NETWORK.channels) -> Tensor:
    return torch.randn(count, channels, generator=seeded(5), dtype=torch.float64)


def judged_pair(block: PairBlock, mine: list, theirs: list, scalars: list) -> tuple[Tensor, Tensor]:
    """The logit of a pair and all it would say, from the columns of both sides in one space."""
    split = [GRAM, PRODUCTS, PRODUCTS]
    (a, left, own), (b, right, other) = (
        (torch.cat(columns, dim=1) @ weight.T).split(split, dim=1)
        for columns, weight in ((mine, block.mine.weight), (theirs, block.theirs.weight))
    )
    grams = [torch.einsum("dx,dy->xy", x, y).flatten() for x, y in ((a, b), (a, a), (b, b))]
    gates, said, logit = block.judge(torch.cat([*grams, *scalars])).split([3 * PRODUCTS, STATE_SCALARS, 1])
    crosses = torch.stack([torch.linalg.cross(left[:, p], right[:, p]) for p in range(PRODUCTS)], dim=1)
    vectors = torch.cat([crosses, own, other], dim=1) * gates @ block.output.weight.T
    return logit, torch.cat([vectors.flatten(), said])


def concluded(block: PairBlock, pairs: Pairs, poses: SE3, state: PairState | None, time: Tensor) -> PairState:
    """Piece by piece: a softmax over its partners."""
    told, answers = known(pairs), []
    places = torch.stack([R @ c + t for R, c, t in zip(poses.rotation, pairs.centers, poses.translation, strict=True)])
    for i in range(len(places)):
        found = []
        for j in [second for first, second in told if first == i]:
            way = (places[j] - places[i])[:, None]
            way = way / torch.sqrt(1 + way.square().sum() / FAR**2)
            mine, theirs = [poses.rotation[i] @ told[i, j][0], way], [poses.rotation[j] @ told[j, i][0], way]
            scalars = [told[i, j][1], told[j, i][1], time[i]]
            if state is not None:
                mine, theirs = [*mine, state.vectors[i]], [*theirs, state.vectors[j]]
                scalars += [state.scalars[i], state.scalars[j]]
            found.append(judged_pair(block, mine, theirs, scalars))
        answers.append(_mean_by_logits(found, 3 * STATE_VECTORS + STATE_SCALARS))
    vectors, said = torch.stack(answers).split([3 * STATE_VECTORS, STATE_SCALARS], dim=1)
    return PairState(vectors.reshape(-1, 3, STATE_VECTORS), said)


def _mean_by_logits(found: list[tuple[Tensor, Tensor]], width: int) -> Tensor:
    if not found:
        return torch.zeros(width, dtype=torch.float64)
    logits, values = zip(*found, strict=True)
    return torch.softmax(torch.cat(logits), 0) @ torch.stack(values)


@torch.no_grad()
def test_pieces_conclude_what_a_loop_over_their_partners_does():
    path, counts = model_of().network.pairs, [3, 1, 2]
    pairs, poses, time = pairs_at_random(counts), poses_of(6), time_at_random(6)
    expected = None
    for block in path.blocks:
        expected = concluded(block, pairs, poses, expected, time)
    found = path(pairs, poses, time)
    assert_near(found.vectors, expected.vectors)
    assert_near(found.scalars, expected.scalars)
    assert not found.vectors[3].any(), "a piece alone has nothing to conclude from"


@torch.no_grad()
def test_conclusions_turn_with_the_whole_and_do_not_see_where_it_is():
    path, pairs, time, poses = model_of().network.pairs, pairs_at_random([3, 2]), time_at_random(5), poses_of(5)
    R, t = haar_rotations(1, 9)[0], torch.tensor([2.0, -5.0, 1.0], dtype=torch.float64)
    before, after = path(pairs, poses, time), path(pairs, SE3(R.expand(5, 3, 3), t.expand(5, 3)) @ poses, time)
    assert_near(after.vectors, R @ before.vectors)
    assert_near(after.scalars, before.scalars)
    w, u = path.velocity(before).split(3, dim=1)
    assert_near(path.velocity(after), torch.cat([w @ R.T, u @ R.T], dim=1))


def test_the_field_does_not_grow_without_bound_as_pieces_lie_farther_apart():
    model, pieces, g = model_of(), puzzle_of([20, 26, 31]), poses_of(3)
    places = [SE3(g.rotation, scale * g.translation) for scale in (1e4, 1e8)]
    far, farther = (model.network(model.pyramid(pieces), poses, times_of(pieces)).detach() for poses in places)
    torch.testing.assert_close(farther, far, rtol=1e-2, atol=1e-2 * float(far.abs().max()))


@torch.no_grad()
def test_what_is_told_are_scalars_and_vectors_and_nothing_of_higher_degree():
    path = model_of().network.pairs
    state = path(pairs_at_random([3]), poses_of(3), time_at_random(3))
    told = path.told(state, 9)
    assert_near(told[:, 0], state.scalars @ path.scalars.weight.T)
    assert_near(told[:, 1:4], state.vectors @ path.vectors.weight.T)
    assert told.shape == (3, 9, TINY_NETWORK.channels)
    assert not told[:, 4:].any()


def test_the_gradient_of_conclusions_is_that_of_finite_differences():
    path, pairs, poses, time = model_of().network.pairs, pairs_at_random([3, 1]), poses_of(4), time_at_random(4)

    def conclusions(vectors: Tensor, scalars: Tensor, translation: Tensor, time: Tensor) -> PairState:
        moved = SE3(poses.rotation, translation)
        return tuple(path(replace(pairs, vectors=vectors, scalars=scalars), moved, time))

    inputs = [x.clone().requires_grad_() for x in (pairs.vectors, pairs.scalars, poses.translation, time)]
    assert torch.autograd.gradcheck(conclusions, inputs, fast_mode=True)
