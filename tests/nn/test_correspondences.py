"""Places are matched as loops over all places do, whatever is padding, and learn from the solution alone (ours)."""

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.closeness import assert_near_and_nonzero
from support.lumpy_shapes import lumpy_cloud, lumpy_puzzle, seeded
from support.matching_networks import matched
from support.oracles import invariants, looked
from support.rigid_motions import random_se3
from support.soft_matches import REACH, at_random, by_hand, drawn, model_of, puzzle_of
from torch import Tensor

from eda import SE3, Eda, Pieces
from eda.nn.correspondences import HIDDEN, Matcher, MatchScores, matching_loss, pairs_of_pieces
from eda.registration.soft_correspondences import SAME_PLACE

VARIANTS = {
    "as it is": {},
    "coarse places": {"match_level": 2},
    "no look": {"match_layers": 0},
    "degree 1": {"max_degree": 1},
    "degree 3": {"max_degree": 3},
    "no normals": {"normals": "absent"},
    "complementary": {"matching": "complementary"},
    "coarse complementary": {"matching": "complementary", "match_level": 2},
}


def owners_of(matching: MatchScores) -> tuple[list[list[int]], list[int]]:
    """The places of every puzzle, and the piece of every place."""
    owner = [piece for piece, size in enumerate(matching.sizes.tolist()) for _ in range(size)]
    puzzle = [b for b, count in enumerate(matching.counts.tolist()) for _ in range(count)]
    return [[t for t, piece in enumerate(owner) if puzzle[piece] == b] for b in range(len(matching.counts))], owner


# -- places, place by place --------------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(1, 6))
def test_pairs_are_the_combinations_of_two_pieces(count):
    first, second = pairs_of_pieces(torch.arange(count) + 3)
    expected = [(i, j) for i in range(count) for j in range(i + 1, count)]
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


def scores_by_loop(matcher: Matcher, places: Tensor, owner: list[int]) -> Tensor:
    """How alike two places of different pieces look; or how well each looks like what would fit the other."""
    looks = matcher.looks(places)
    scores = torch.full((len(owner), len(owner)), HIDDEN, dtype=torch.float64)
    for i, j in itertools.product(range(len(owner)), repeat=2):
        if owner[i] != owner[j] and matcher.fits is None:
            scores[i, j] = looks[i] @ looks[j] / 8
        elif owner[i] != owner[j]:
            scores[i, j] = (looks[i] @ matcher.fits(places[j]) + looks[j] @ matcher.fits(places[i])) / 8
    return scores


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_a_matching_is_what_loops_over_the_places_of_every_puzzle_find(variant):
    model = model_of(**VARIANTS[variant])
    batch = [puzzle_of([24, 31, 9]), puzzle_of([40, 4], 1), puzzle_of([50, 30], 2)]
    batch = [pieces.move(random_se3(pieces.num_pieces, spread=0.7)) for pieces in batch]  # whose centres are no origins
    level, matcher = model.network.config.match_level, model.network.matcher
    found = matched(model, Pieces.collate(batch))
    assert found.reach == pytest.approx(0.2 * 2**level)
    assert found.counts.tolist() == [3, 2, 2]
    assert (found.normals is None) == (variant == "no normals"), "who does not see normals has none, though pieces do"
    sizes, points, shared = [], [], []
    for b, pieces in enumerate(batch):
        pyramid = model.pyramid(pieces)
        at, features = pyramid.levels[level - 1], model.network.descend(pyramid, None)[level - 1]
        owner = [i for i, size in enumerate(at.sizes.tolist()) for _ in range(size)]
        places = places_by_loop(matcher, pieces, at.points, at.sizes.tolist(), features)
        expected, count = scores_by_loop(matcher, places, owner), len(owner)
        across = expected != HIDDEN
        assert torch.equal(found.pairs[b, :count, :count], across)
        assert_near_and_nonzero(found.scores[b, :count, :count][across], expected[across], 1e-6)
        assert (found.scores[b, :count, :count][~across] == HIDDEN).all()
        assert (found.scores[b, :, count:] == HIDDEN).all()
        assert not found.pairs[b, count:].any()
        assert not found.pairs[b, :, count:].any()
        if found.normals is not None:
            rows = [int((pieces.points == point).all(1).nonzero()) for point in at.points]
            assert torch.equal(found.normals[len(points) : len(points) + count], pieces.normals[rows])
        sizes, points, shared = [*sizes, *at.sizes.tolist()], [*points, *at.points], [*shared, *matcher.shared(places)]
    assert found.sizes.tolist() == sizes
    assert torch.equal(found.points, torch.stack(points))
    assert_near_and_nonzero(found.shared, torch.cat(shared), 1e-7)


def same_places(here: Tensor, there: Tensor) -> Tensor:
    """The row of `here` of every place `there`: places of a piece lie in a spatial order, which turns with it."""
    gap, row = torch.cdist(there, here).min(1)
    assert gap.max() < 1e-6
    return row


def scores_of(matching: MatchScores) -> Tensor:
    """Of all places (T, T), whatever their puzzle; zero where they are no pair."""
    table = torch.zeros(len(matching.points), len(matching.points), dtype=torch.float64)
    for b, rows in enumerate(owners_of(matching)[0]):
        for (i, s), (j, t) in itertools.product(enumerate(rows), repeat=2):
            table[s, t] = matching.scores[b, i, j] if matching.pairs[b, i, j] else 0
    return table


@pytest.mark.parametrize("complementary", [False, True])
@torch.no_grad()
def test_scores_are_symmetric_and_see_neither_frames_nor_the_order_of_pieces(complementary):
    model, pieces = (
        model_of(complementary=complementary),
        Pieces.collate([puzzle_of([40, 52, 30]), puzzle_of([44, 30], 1)]),
    )
    poses, order = random_se3(5, seed=3, spread=2.0), torch.tensor([2, 0, 1, 4, 3])
    before = matched(model, pieces)
    scores = scores_of(before)
    assert_near_and_nonzero(scores.T, scores, 1e-12)
    for other, back in (
        (matched(model, pieces.move(poses)), poses.inverse()),
        (matched(model, pieces.permute(order)), SE3.identity(5, dtype=torch.float64)),
    ):
        row = same_places(back[torch.tensor(owners_of(other)[1])].act(other.points), before.points)
        assert_near_and_nonzero(other.shared[row], before.shared, 1e-8)
        assert_near_and_nonzero(scores_of(other)[row][:, row], scores, 1e-8)


@torch.no_grad()
def test_what_fits_may_match_better_than_twins_do_and_what_only_looks_alike_may_not():
    """Two copies of one piece, so that every place has a twin in the other: (l_i, l_j) <= max(l_i^2, l_j^2)."""
    points, normals = lumpy_cloud(0, 60)
    poses = random_se3(2, spread=0.7)
    pieces = Pieces.from_clouds([points] * 2, [normals] * 2, dtype=torch.float64).move(poses)

    def between(model: Eda) -> tuple[Tensor, Tensor]:
        """The scores of any place of the one and any of the other copy, and those of both with their twins."""
        found = matched(model, pieces)
        n = int(found.sizes[0])
        own = poses.inverse()[torch.tensor(owners_of(found)[1])].act(found.points)
        scores = found.scores[0, :n, n + same_places(own[n:], own[:n])]
        twins = torch.stack([scores.diagonal()[i] for i in torch.meshgrid([torch.arange(n)] * 2, indexing="ij")])
        others = ~torch.eye(n, dtype=torch.bool)
        return scores[others], twins[:, others]

    scores, twins = between(model_of())
    assert (scores < twins.amax(0) + 1e-9).all()
    model = model_of(matching="complementary")
    scores, twins = between(model)
    assert (scores > twins.amax(0) + 1e-3).any()
    for name, parameter in model.network.matcher.fits.named_parameters():  # what fits is the opposite of what it is
        parameter.copy_(-model.network.matcher.looks.get_parameter(name))
    scores, twins = between(model)
    assert (scores > twins.amin(0) - 1e-9).all()
    assert (scores > twins.amax(0) + 1e-3).any()


# -- how surely two places are the same --------------------------------------------------------------------

BATCHES = {
    "one puzzle": ([7, 5, 9], [3], 0),
    "a wide table": ([7, 5, 9], [3], 30),
    "two pieces": ([6, 8], [2], 0),
    "several puzzles": ([3, 14, 1, 5, 8, 9, 4, 1, 12], [3, 1, 2, 1, 2], 0),
    "only single pieces": ([3, 5], [1, 1], 0),
}
in_batches = pytest.mark.parametrize("batch", BATCHES)


def batch_of(batch: str) -> MatchScores:
    """Of what is padding, scores are anything, as they are where the first place stands for it."""
    sizes, counts, columns = BATCHES[batch]
    matching = at_random(sizes, counts, columns=columns)
    padding = ~matching.across.present[:, :, None] & matching.across.foreign
    return replace(matching, scores=torch.where(padding, 5 * drawn(*padding.shape, seed=77), matching.scores))


def likely_by_loop(matching: MatchScores, b: int, rows: list[int], owner: list[int]) -> np.ndarray:
    """How likely every place of a puzzle chooses every other, among those of all other pieces."""
    chosen = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        others = [j for j, other in enumerate(rows) if owner[other] != owner[row]]
        odds = [math.exp(matching.scores[b, i, j]) for j in others]
        chosen[i, others] = [odd / sum(odds) for odd in odds]
    return chosen


def weights_by_loop(matching: MatchScores, b: int, rows: list[int], owner: list[int]) -> np.ndarray:
    chosen = likely_by_loop(matching, b, rows, owner)
    likely = [1 / (1 + math.exp(-matching.shared[row])) for row in rows]
    weights = np.zeros_like(chosen)
    for i, j in itertools.product(range(len(rows)), repeat=2):
        weights[i, j] = chosen[i, j] * chosen[j, i] * likely[i] * likely[j]
    return weights


@in_batches
def test_a_place_chooses_among_those_of_all_other_pieces_and_is_the_same_as_what_chooses_it(batch):
    matching = batch_of(batch)
    choices, weights, (puzzles, owner) = matching.log_choices().exp(), matching.weights(), owners_of(matching)
    assert choices.shape == weights.shape == matching.scores.shape
    for b, rows in enumerate(puzzles):
        n = len(rows)
        expected = torch.from_numpy(weights_by_loop(matching, b, rows, owner))
        torch.testing.assert_close(weights[b, :n, :n], expected, rtol=1e-12, atol=1e-15)
        assert not weights[b, n:].any()
        assert not weights[b, :, n:].any()
        if matching.counts[b] > 1:
            chosen = torch.from_numpy(likely_by_loop(matching, b, rows, owner))
            assert_near_and_nonzero(choices[b, :n, :n], chosen, 1e-12)
            assert (choices[b, :n, n:] == 0).all()
            assert_near_and_nonzero(choices[b, :n].sum(1), torch.ones(n).double(), 1e-12)
        else:
            assert not weights[b].any()


def test_a_third_piece_takes_some_of_what_two_are_sure_of():
    """Two places that choose each other for want of others; then one of a third piece is as good."""
    here, score, sure = torch.zeros(1, 3).double(), torch.ones(1, 1).double(), torch.full((1,), 50.0).double()
    two, three = by_hand([here] * 2, [score], shared=[sure] * 2), by_hand([here] * 3, [score] * 3, shared=[sure] * 3)
    assert_near_and_nonzero(two.weights()[0, 0, 1], torch.tensor(1.0).double(), 1e-12)
    assert_near_and_nonzero(three.weights()[0, 0, 1], torch.tensor(0.25).double(), 1e-12)


# -- puzzle by puzzle --------------------------------------------------------------------------------------


@in_batches
@pytest.mark.parametrize("normals", [True, False])
def test_puzzles_are_the_slices_of_every_piece_and_pair(batch, normals):
    """Also where a piece has one place and another has many."""
    matching = batch_of(batch)
    matching = matching if normals else replace(matching, normals=None)
    puzzles, owner = owners_of(matching)
    found = list(matching.puzzles())
    assert len(found) == len(puzzles)
    begin = 0
    for b, (matches, rows) in enumerate(zip(found, puzzles, strict=True)):
        count = int(matching.counts[b])
        slots = [[t for t in rows if owner[t] == begin + i] for i in range(count)]
        width = max(map(len, slots))
        assert matches.places.shape == (count, width, 3)
        assert matches.reach == matching.reach
        assert (matches.normals is None) == (not normals)
        for i, slot in enumerate(slots):
            n = len(slot)
            assert matches.present[i].tolist() == [k < n for k in range(width)]
            assert torch.equal(matches.places[i, :n], matching.points[slot])
            assert_near_and_nonzero(matches.shared[i, :n], 1 / (1 + torch.exp(-matching.shared[slot])), 1e-12)
            assert not matches.shared[i, n:].any()
            if normals:
                assert torch.equal(matches.normals[i, :n], matching.normals[slot])
        pairs = list(itertools.combinations(range(count), 2))
        assert list(zip(matches.first.tolist(), matches.second.tolist(), strict=True)) == pairs
        assert matches.weights.shape == (len(pairs), width, width)
        whole = torch.from_numpy(weights_by_loop(matching, b, rows, owner))
        for (i, j), weights in zip(pairs, matches.weights, strict=True):
            expected = torch.zeros(width, width).double()
            for (k, s), (l, t) in itertools.product(enumerate(slots[i]), enumerate(slots[j])):
                expected[k, l] = whole[rows.index(s), rows.index(t)]
            assert expected.any()
            torch.testing.assert_close(weights, expected, rtol=1e-12, atol=1e-15)
        begin += count


# -- the loss ----------------------------------------------------------------------------------------------


def wanted_of(matching: MatchScores, solution: SE3, own: list[bool]) -> tuple[np.ndarray, np.ndarray]:
    """How much a place ought to choose another (T, T), and how far from it that comes to lie; infinite: never."""
    puzzles, owner = owners_of(matching)
    placed = [
        solution.rotation[i].numpy() @ x + solution.translation[i].numpy()
        for i, x in zip(owner, matching.points.numpy(), strict=True)
    ]
    distance = np.full((len(owner), len(owner)), np.inf)
    for rows in puzzles:
        for s, t in itertools.product(rows, repeat=2):
            if owner[s] != owner[t] and own[owner[s]] and own[owner[t]]:
                distance[s, t] = np.linalg.norm(placed[s] - placed[t])
    near = SAME_PLACE * matching.reach
    return np.where(distance < 2 * near, np.exp(-0.5 * (distance / near) ** 2), 0.0), distance


def loss_by_loop(matching: MatchScores, solution: SE3, own: list[bool]) -> float:
    wanted, distance = wanted_of(matching, solution, own)
    puzzles, owner = owners_of(matching)
    entropies, known = [], []
    for b, rows in enumerate(puzzles):
        likely = likely_by_loop(matching, b, rows, owner)
        for i, s in enumerate(rows):
            target = wanted[s, rows]
            if target.sum() > 0:
                terms = [-w / target.sum() * math.log(p) for w, p in zip(target, likely[i], strict=True) if w > 0]
                entropies.append(sum(terms))
            logit = float(matching.shared[s])
            met = (distance[s] < 1.5 * SAME_PLACE * matching.reach).any()
            known.append(math.log1p(math.exp(-logit if met else logit)))
    return sum(entropies) / max(len(entropies), 1) + sum(known) / len(known)


def own_of(number: int, count: int) -> list[bool]:
    """All; all but the second; every other one; none."""
    return [[True, i != 1, i % 2 == 0, False][number] for i in range(count)]


@in_batches
@pytest.mark.parametrize("number", range(4))
def test_the_loss_is_that_of_loops_over_places(batch, number):
    matching = batch_of(batch)
    count = len(matching.sizes)
    solution, own = random_se3(count, spread=0.2), own_of(number, count)
    found = matching_loss(matching, solution, torch.tensor(own))
    assert float(found) == pytest.approx(loss_by_loop(matching, solution, own), abs=1e-10)
    if all(own):
        assert float(matching_loss(matching, solution)) == float(found)


def test_the_batches_have_places_that_are_met_in_several_puzzles_and_some_that_are_not():
    for batch, in_puzzles in (("one puzzle", 1), ("several puzzles", 2)):
        matching = batch_of(batch)
        wanted, distance = wanted_of(matching, random_se3(len(matching.sizes), spread=0.2), [True] * 9)
        met = (distance < 1.5 * SAME_PLACE * REACH).any(1)
        assert sum(met[rows].any() for rows in owners_of(matching)[0]) == in_puzzles
        assert not met.all()
        assert (wanted.sum(1) > 0).sum() > met.sum(), "some lie near enough to be chosen, but not to be the same"
        assert (wanted > 0).sum(1).max() > 2


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


def test_a_place_that_meets_two_pieces_may_choose_either():
    """Three places in one point; the first scores 1 and 0 with the others, which score 2 with each other."""
    here = torch.zeros(1, 3).double()
    scores = [torch.full((1, 1), score).double() for score in (1.0, 0.0, 2.0)]
    matching = by_hand([here] * 3, scores, shared=[torch.zeros(1).double()] * 3)
    entropies = [math.log(math.exp(a) + math.exp(b)) - (a + b) / 2 for a, b in ((1, 0), (1, 2), (0, 2))]
    expected = sum(entropies) / 3 + math.log(2)
    assert float(matching_loss(matching, SE3.identity(3, dtype=torch.float64))) == pytest.approx(expected, abs=1e-12)


def test_the_loss_is_least_where_scores_are_right():
    """Places choose in proportion to how much they ought to: there the slope vanishes, and all else is worse."""
    matching, solution = at_random([9, 8, 5], columns=25), random_se3(3, spread=0.2)
    wanted, distance = wanted_of(matching, solution, [True] * 3)
    right = torch.full_like(matching.scores, HIDDEN)
    right[0, :22, :22] = torch.from_numpy(np.log(np.maximum(wanted, 1e-40)))
    right = right.masked_fill(~matching.pairs, HIDDEN)
    near = torch.from_numpy(distance < 1.5 * SAME_PLACE * REACH).any(1)
    assert 0 < int(near.sum()) < 22
    shared = 60.0 * near.double() - 30
    best = replace(matching, scores=right.requires_grad_(), shared=shared.requires_grad_())
    least = matching_loss(best, solution)
    slopes = torch.autograd.grad(least, [best.scores, best.shared])
    assert max(float(slope.abs().max()) for slope in slopes) < 1e-10
    for seed in range(5):
        worse = replace(best, scores=right + 0.3 * drawn(1, 25, 25, seed=seed) * matching.pairs)
        assert matching_loss(worse, solution) > least + 1e-3
        turned = replace(best, shared=shared * torch.sign(drawn(22, seed=seed)))
        assert matching_loss(turned, solution) > least + 0.1


@pytest.mark.parametrize(("sizes", "counts"), [([5, 4, 6], [3]), ([4, 3, 2, 4], [2, 1, 1])])
def test_the_gradient_of_the_loss_is_that_of_finite_differences(sizes, counts):
    matching, solution = at_random(sizes, counts), random_se3(len(sizes), spread=0.2)
    inputs = [x.clone().requires_grad_() for x in (matching.scores, matching.shared)]
    assert torch.autograd.gradcheck(
        lambda scores, shared: matching_loss(replace(matching, scores=scores, shared=shared), solution), inputs
    )


# -- what learns from what ---------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("levels", "level", "complementary"), [(2, 1, False), (2, 2, False), (3, 2, False), (2, 1, True)]
)
def test_what_is_matched_learns_from_matches_alone(levels, level, complementary):
    model = model_of(num_levels=levels, match_level=level, complementary=complementary)
    loss = model.loss(lumpy_puzzle(3, 60), generator=seeded())
    downs = [f"down.{depth}" for depth in range(levels)]
    assert reached(loss.matches, model.network) == {"embedding", "matcher", *downs[:level]}
    assert reached(loss.motions, model.network) == {"motions"}
    by_flow = reached(loss.rotation + loss.translation, model.network)
    assert by_flow == {"time", "croco", "head", "motions", *downs[level:]}


def test_without_matches_the_encoder_learns_from_the_flow():
    model = model_of(match_width=0)
    loss = model.loss(lumpy_puzzle(3, 60), generator=seeded())
    assert loss.matches is None
    assert reached(loss.total, model.network) == {"embedding", "down.0", "down.1", "time", "croco", "head"}
