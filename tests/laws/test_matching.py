"""Places are matched as loops over places do, whatever is padding, and learn from the solution alone (ours)."""

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from places import REACH, assert_near, at_random, by_hand, drawn, model_of, poses_of, puzzle_of, seeded
from reference import invariants, looked
from shapes import lumpy_puzzle
from torch import Tensor

from eda import SE3, Pieces
from eda.nn.matching import HIDDEN, LEAST_PLACES, SAME, Matcher, Matching, matching_loss, pairs_of_pieces

VARIANTS = {
    "as it is": {},
    "coarse places": {"match_level": 2},
    "no look": {"match_layers": 0},
    "degree 1": {"max_degree": 1},
    "degree 3": {"max_degree": 3},
    "no normals": {"normals": "absent"},
}


# -- places, place by place --------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [[2], [3, 2], [1, 4, 1, 2], [5, 1, 3], [1], [1, 1]])
def test_pairs_are_the_combinations_of_two_pieces_of_a_puzzle(counts):
    first, second = pairs_of_pieces(torch.tensor(counts))
    owner = [puzzle for puzzle, count in enumerate(counts) for _ in range(count)]
    expected = [(i, j) for i in range(len(owner)) for j in range(i + 1, len(owner)) if owner[i] == owner[j]]
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == expected
    assert first.dtype == second.dtype == torch.int64


def places_by_loop(matcher: Matcher, pieces: Pieces, points: Tensor, sizes: list[int], features: Tensor) -> Tensor:
    """The descriptors of all places of one puzzle."""
    owner = [i for i, size in enumerate(sizes) for _ in range(size)]
    clouds = pieces.points.split(pieces.sizes.tolist())
    offset = points - torch.stack([clouds[i].mean(0) for i in owner])
    places = matcher.embedding(invariants(matcher.norm(features), offset, 4 * matcher.reach))
    own, others = ([[v for v, o in enumerate(owner) if (o == i) == same] for i in owner] for same in (True, False))
    for inside, across in zip(matcher.inside, matcher.across, strict=True):
        places = looked(across, looked(inside, places, own), others)
    return places


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_a_matching_is_what_loops_over_the_places_of_every_puzzle_find(variant):
    model, batch = (
        model_of(**VARIANTS[variant]),
        [puzzle_of([24, 31, 9]), puzzle_of([40, 4], 1), puzzle_of([50, 30], 2)],
    )
    batch = [pieces.moved(poses_of(pieces.num_pieces)) for pieces in batch]  # whose centres are no origins
    level, together = model.network.config.match_level, Pieces.collate(batch)
    found = model.network.encode(model.pyramid(together), None).matching
    assert found.reach == pytest.approx(0.2 * 2**level)
    pair, start = 0, 0
    for pieces in batch:
        pyramid = model.pyramid(pieces)
        at, features = pyramid.levels[level - 1], model.network.descend(pyramid, None)[level - 1]
        sizes = at.sizes.tolist()
        places = places_by_loop(model.network.matcher, pieces, at.points, sizes, features)
        looks, logits = (
            part(places).split(sizes) for part in (model.network.matcher.looks, model.network.matcher.shared)
        )
        for i, points in enumerate(at.points.split(sizes)):
            assert found.present[start + i].tolist() == [k < sizes[i] for k in range(found.present.shape[1])]
            assert torch.equal(found.places[start + i][: sizes[i]], points)
            if found.normals is not None:
                rows = [int((pieces.points == point).all(1).nonzero()) for point in points]
                assert torch.equal(found.normals[start + i][: sizes[i]], pieces.normals[rows])
            assert_near(found.shared[start + i][: sizes[i]], logits[i].squeeze(1), 1e-7)
        for i, j in itertools.combinations(range(len(sizes)), 2):
            assert (int(found.first[pair]), int(found.second[pair])) == (start + i, start + j)
            assert_near(found.scores[pair][: sizes[i], : sizes[j]], looks[i] @ looks[j].T / 8, 1e-6)
            assert not found.both[pair][sizes[i] :].any()
            assert int(found.both[pair].sum()) == sizes[i] * sizes[j]
            pair += 1
        start += pieces.num_pieces
    assert pair == len(found.first) == 5
    assert (found.scores[~found.both] == HIDDEN).all()
    assert found.present.shape[1] >= LEAST_PLACES
    assert (found.normals is None) == (variant == "no normals"), "who does not see normals has none, though pieces do"


# -- how surely two places are the same --------------------------------------------------------------------


@pytest.mark.parametrize("columns", [0, 13])
def test_two_places_are_the_same_if_each_chooses_the_other_and_both_are_shared(columns):
    matching = at_random([7, 5, 9], columns=columns)
    weights = matching.weights()
    assert weights.shape[1] == max(9, columns)
    for pair, (a, b) in enumerate([(0, 1), (0, 2), (1, 2)]):
        n, m = (int(matching.present[i].sum()) for i in (a, b))
        score = matching.scores[pair][:n, :m].exp().numpy()
        expected = score / score.sum(0, keepdims=True) * score / score.sum(1, keepdims=True)
        for i, j in itertools.product(range(n), range(m)):
            expected[i, j] /= (1 + math.exp(-matching.shared[a, i])) * (1 + math.exp(-matching.shared[b, j]))
        assert_near(weights[pair][:n, :m], torch.from_numpy(expected), 1e-12)
        assert not weights[pair][n:].any()
        assert not weights[pair][:, m:].any()


# -- the loss ----------------------------------------------------------------------------------------------


def wanted_of(matching: Matching, solution: SE3, own: list[bool], pair: int) -> tuple[np.ndarray, np.ndarray]:
    """How much a place ought to choose one of the other piece (n, m), and how far from it that comes to lie."""
    a, b = int(matching.first[pair]), int(matching.second[pair])
    x, y = (
        matching.places[i][matching.present[i]].numpy() @ solution.rotation[i].numpy().T
        + solution.translation[i].numpy()
        for i in (a, b)
    )
    distance = np.array([[np.linalg.norm(p - q) if own[a] and own[b] else np.inf for q in y] for p in x])
    near = SAME * matching.reach
    return np.where(distance < 2 * near, np.exp(-0.5 * (distance / near) ** 2), 0.0), distance


def loss_by_loop(matching: Matching, solution: SE3, own: list[bool]) -> float:
    entropies, known, seen = [], [], [set() for _ in matching.places]
    for pair, (a, b) in enumerate(zip(matching.first.tolist(), matching.second.tolist(), strict=True)):
        wanted, distance = wanted_of(matching, solution, own, pair)
        scores = matching.scores[pair].numpy()[: wanted.shape[0], : wanted.shape[1]]
        for rows, choices in ((wanted, scores), (wanted.T, scores.T)):
            for target, score in zip(rows, choices, strict=True):
                if target.sum() > 0:
                    entropies.append(-(target / target.sum() * (score - np.log(np.exp(score).sum()))).sum())
        for i, j in np.argwhere(distance < 1.5 * SAME * matching.reach):
            seen[a].add(i)
            seen[b].add(j)
    for piece, shared in enumerate(seen):
        for i, logit in enumerate(matching.shared[piece][matching.present[piece]].tolist()):
            known.append(math.log1p(math.exp(-logit if i in shared else logit)))
    return sum(entropies) / max(len(entropies), 1) + sum(known) / len(known)


OWN = [[True] * 5, [True, True, False, True, True], [True, False, False, True, False]]


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("columns", [0, 14])
def test_the_loss_is_that_of_loops_over_places(own, columns):
    matching, solution = at_random([8, 6, 11, 7, 9], [3, 2], columns=columns), poses_of(5, spread=0.2)
    found = matching_loss(matching, solution, torch.tensor(own))
    assert float(found) == pytest.approx(loss_by_loop(matching, solution, own), abs=1e-10)
    if all(own):
        assert float(matching_loss(matching, solution)) == float(found)


def test_the_loss_of_two_places_by_hand():
    """One pair at a distance of 0, the other 10 apart: the first of both is shared and chosen with e / (e + 1)."""
    near, far = torch.zeros(1, 3).double(), torch.full((1, 3), 10.0).double()
    places, scores = (
        [torch.cat([near, far]), torch.cat([near, -far])],
        [torch.tensor([[1.0, 0.0], [0.0, 0.0]]).double()],
    )
    matching = by_hand(places, scores, shared=[torch.tensor([2.0, 0.0]).double(), torch.tensor([0.0, -1.0]).double()])
    still = SE3.identity(2, dtype=torch.float64)
    choice = math.log(1 + math.exp(-1))
    known = (math.log(1 + math.exp(-2)) + math.log(2) + math.log(2) + math.log(1 + math.exp(-1))) / 4
    assert float(matching_loss(matching, still)) == pytest.approx(choice + known, abs=1e-12)
    foreign = (math.log(1 + math.exp(2)) + math.log(2) + math.log(2) + math.log(1 + math.exp(-1))) / 4
    assert float(matching_loss(matching, still, torch.tensor([True, False]))) == pytest.approx(foreign, abs=1e-12)


def test_the_loss_is_least_where_scores_are_right():
    """Places choose in proportion to how much they ought to: there the slope vanishes, and all else is worse."""
    matching, solution = at_random([9, 8], columns=11), poses_of(2, spread=0.2)
    wanted, distance = wanted_of(matching, solution, [True, True], 0)
    right = torch.full_like(matching.scores, HIDDEN)
    right[0, :9, :8] = torch.from_numpy(np.log(np.maximum(wanted, 1e-40)))
    near = torch.from_numpy(distance < 1.5 * SAME * REACH)
    shared = matching.shared.clone()
    shared[0, :9], shared[1, :8] = (60.0 * near.any(axis).double() - 30 for axis in (1, 0))
    best = replace(matching, scores=right.requires_grad_(), shared=shared.requires_grad_())
    least = matching_loss(best, solution)
    slopes = torch.autograd.grad(least, [best.scores, best.shared])
    assert max(float(slope.abs().max()) for slope in slopes) < 1e-10
    for seed in range(5):
        worse = replace(best, scores=right + 0.3 * drawn(1, 11, 11, seed=seed) * matching.both)
        assert matching_loss(worse, solution) > least + 1e-3
        turned = replace(best, shared=shared * torch.sign(drawn(2, 11, seed=seed)))
        assert matching_loss(turned, solution) > least + 0.1


def test_the_gradient_of_the_loss_is_that_of_finite_differences():
    matching, solution = at_random([5, 4, 6]), poses_of(3, spread=0.2)
    inputs = [x.clone().requires_grad_() for x in (matching.scores, matching.shared)]
    assert torch.autograd.gradcheck(
        lambda scores, shared: matching_loss(replace(matching, scores=scores, shared=shared), solution), inputs
    )


def reached(loss: Tensor, network: torch.nn.Module) -> set[str]:
    """The parts of a network, blocks of the encoder each for itself, that learn from a loss; wholly or not at all."""
    names, parameters = zip(*network.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    slopes = {n: 0.0 if g is None else float(g.abs().max()) for n, g in zip(names, gradients, strict=True)}
    parts = {name: re.match(r"(down\.\d+|\w+)", name)[0] for name in names}
    taught = {parts[name] for name, slope in slopes.items() if slope > 0}
    encoder = [name for name in names if name.startswith(("embedding", "down", "matcher")) and "bias" not in name]
    assert [name for name in encoder if parts[name] in taught and slopes[name] < 1e-9] == []
    return taught


@pytest.mark.parametrize(("levels", "level", "pairs"), [(2, 1, ()), (2, 2, ()), (3, 2, ()), (2, 1, ("pairs",))])
def test_what_is_matched_learns_from_matches_alone(levels, level, pairs):
    model = model_of(num_levels=levels, match_level=level, pair_width=8 * len(pairs))
    loss = model.loss(lumpy_puzzle(3, 60), generator=seeded())
    downs = [f"down.{depth}" for depth in range(levels)]
    assert reached(loss.matches, model.network) == {"embedding", "matcher", *downs[:level]}
    by_flow = reached(loss.rotation + loss.translation, model.network)
    assert by_flow == {"time", "croco", "head", "motions", *downs[level:], *pairs}


def test_without_matches_the_encoder_learns_from_the_flow():
    model = model_of(match_width=0)
    loss = model.loss(lumpy_puzzle(3, 60), generator=seeded())
    assert reached(loss.total, model.network) == {"embedding", "down.0", "down.1", "time", "croco", "head"}
