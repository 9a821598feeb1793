"""Pairs of pieces choose their contacts by one distribution, turn with their first piece, and see no padding (ours)."""

import itertools
from dataclasses import replace

import pytest
import torch
from paired import (
    assert_same_knowledge,
    in_all_variants,
    known,
    model_of,
    pairs_of,
    ragged,
    shifted,
    with_and_without_time,
)
from places import assert_near, puzzle_of, times_of
from reference import invariants, looked, stirred
from support.shapes import lumpy_pieces, poses_of, seeded
from torch import Tensor

from eda import SE3, Pieces
from eda.graph import Level
from eda.nn.pairs import CONTACTS, KEY_WIDTH, Attention, PairEncoder, Pairs, _ordered_pairs

# -- who is paired with whom -------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [[2], [1], [3, 2], [1, 4, 1, 2], [5, 1, 3], [1, 1]])
def test_pairs_are_the_permutations_of_two_pieces_of_a_puzzle(counts):
    first, second, mirror, partner = (rows.tolist() for rows in _ordered_pairs(torch.tensor(counts)))
    begins = [0, *itertools.accumulate(counts)]
    expected = [
        (begin + i, begin + j, j)
        for begin, count in zip(begins, counts, strict=False)
        for i, j in itertools.permutations(range(count), 2)
    ]
    assert list(zip(first, second, partner, strict=True)) == expected
    row = {pair: number for number, pair in enumerate(zip(first, second, strict=True))}
    assert mirror == [row[j, i] for i, j in row]


def test_a_network_pairs_all_pieces_of_a_puzzle_and_no_others():
    pairs = pairs_of(model_of(), Pieces.collate(ragged()))
    groups = [range(3), range(3, 4), range(4, 6), range(6, 10)]
    assert list(known(pairs)) == [pair for group in groups for pair in itertools.permutations(group, 2)]
    assert torch.equal(pairs.first[pairs.mirror], pairs.second)
    assert torch.equal(pairs.second[pairs.mirror], pairs.first)


def test_several_batches_of_pairs_are_those_of_one_batch():
    model, batch = model_of(), ragged()
    taus = times_of(Pieces.collate(batch)).split(1)
    joined = Pairs.cat([pairs_of(model, pieces, tau) for pieces, tau in zip(batch, taus, strict=True)])
    together = pairs_of(model, Pieces.collate(batch))
    for name in ("first", "second", "mirror"):
        assert torch.equal(getattr(joined, name), getattr(together, name)), name
    for name in ("vectors", "scalars"):
        assert_near(getattr(joined, name), getattr(together, name))
    assert torch.equal(joined.centers, together.centers)


# -- the choice of contacts, place by place ----------------------------------------------------------------


def described(encoder: PairEncoder, features: Tensor, offset: Tensor, owner: list[int]) -> Tensor:
    """The descriptors of all places of one puzzle."""
    places = encoder.embedding(invariants(features, offset, 4 * encoder.reach))
    everyone = range(len(owner))
    own = [[v for v in everyone if owner[v] == owner[u]] for u in everyone]
    others = [[v for v in everyone if owner[v] != owner[u]] for u in everyone]
    for inside, across in zip(encoder.inside, encoder.across, strict=True):
        places = looked(across, looked(inside, places, own), others)
    return places


def scores_between(encoder: PairEncoder, here: Tensor, there: Tensor) -> Tensor:
    """How well places of two pieces match: each asks and is asked. (U, width), (V, width) -> (K, U, V)."""
    (ask, answer), (asked, answered) = (
        encoder.match(places).reshape(-1, 2, CONTACTS, KEY_WIDTH).unbind(1) for places in (here, there)
    )
    return (torch.einsum("ukd,vkd->kuv", ask, answered) + torch.einsum("ukd,vkd->kuv", answer, asked)) / 4


def contacts(encoder: PairEncoder, scores: Tensor, places: Tensor, features: Tensor, offset: Tensor) -> tuple:
    """The means over one distribution over pairs of places (K, U, V), of what the first piece has there."""
    weight = torch.softmax(scores.flatten(1), dim=1).reshape(scores.shape)
    where = torch.einsum("kuv,ud->dk", weight, offset) / (4 * encoder.reach)
    looks = encoder.looks(features[:, 1:4]) * torch.tanh(encoder.gate(places))[:, None]
    vectors = torch.cat([where, torch.einsum("kuv,udk->dk", weight, looks)], dim=1)
    else_known = torch.einsum("kuv,uk->k", weight, encoder.scalars(places))
    matched = torch.einsum("kuv,ku->k", weight, scores.logsumexp(2))
    return vectors, torch.cat([else_known, matched])


def by_brute_force(encoder: PairEncoder, level: Level, features: Tensor, centers: Tensor) -> dict:
    """All that the pieces of one puzzle know of each other."""
    sizes = level.sizes.tolist()
    owner = [i for i, size in enumerate(sizes) for _ in range(size)]
    features, offset = encoder.norm(features), level.points - centers[owner]
    places = described(encoder, features, offset, owner)
    pieces = list(zip(places.split(sizes), features.split(sizes), offset.split(sizes), strict=True))
    expected = {}
    for i, j in itertools.combinations(range(len(sizes)), 2):
        scores = scores_between(encoder, pieces[i][0], pieces[j][0])
        expected[i, j] = contacts(encoder, scores, *pieces[i])
        expected[j, i] = contacts(encoder, scores.mT, *pieces[j])
    return expected


@in_all_variants
@torch.no_grad()
def test_contacts_are_means_over_one_distribution_over_the_pairs_of_places(variant):
    """Both ways: the marginals of the joint softmax over all places of the two pieces, in ragged puzzles."""
    model, batch, expected, start = model_of(variant), ragged(), {}, 0
    assert model.network.pairs.encoder.reach == pytest.approx(0.2 * 2**model.network.config.pair_level)
    taus = times_of(Pieces.collate(batch)).split(1)
    for pieces, tau in zip(batch, taus, strict=True):
        pyramid, depth = model.pyramid(pieces), model.network.config.pair_level - 1
        features = model.network.descend(pyramid, tau)[depth]
        found = by_brute_force(model.network.pairs.encoder, pyramid.levels[depth], features, pieces.centroids())
        expected |= shifted(found, start)
        start += pieces.num_pieces
    assert_same_knowledge(known(pairs_of(model, Pieces.collate(batch))), expected, 1e-7)


@torch.no_grad()
def test_contacts_with_a_partner_do_not_depend_on_how_much_better_others_match():
    model, pieces = model_of(), puzzle_of([20, 26, 31])
    model.network.pairs.encoder.match.weight *= 6  # scores hundreds apart: e^-100 of the best is nothing in a sum
    pyramid = model.pyramid(pieces)
    levels = model.network.descend(pyramid, times_of(pieces))
    level, centers = pyramid.levels[model.network.pairs.level], pieces.centroids()
    expected = by_brute_force(model.network.pairs.encoder, level, levels[model.network.pairs.level], centers)
    assert_same_knowledge(known(model.network.tokens(pyramid, levels).pairs), expected, 1e-8)


def test_a_layer_lets_places_look_where_they_may():
    """Place by place, where a mask is arbitrary; who sees nobody hears nothing, and harms no gradient."""
    layer, generator = stirred(Attention(8)), seeded()
    places = torch.randn(2, 7, 8, generator=generator, dtype=torch.float64, requires_grad=True)
    visible = torch.rand(2, 7, 7, generator=generator) < 0.4
    visible[0, 2] = visible[1, :] = False
    found = layer(places, visible)
    at = [[[v for v in range(7) if row[v]] for row in puzzle] for puzzle in visible.tolist()]
    assert_near(found, torch.stack([looked(layer, p, seen) for p, seen in zip(places, at, strict=True)]), 1e-12)
    gradients = torch.autograd.grad(found.square().sum(), [places, *layer.parameters()])
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_the_choice_is_a_choice():
    """Contacts differ from each other and from partner to partner: the law above is not one of plain means."""
    pairs = known(pairs_of(model_of(), lumpy_pieces(3, 24)))
    where = {name: vectors[:, :CONTACTS] for name, (vectors, _) in pairs.items()}
    assert where[0, 1].std(dim=1).max() > 0.02
    for i, j, k in itertools.permutations(range(3)):
        assert (where[i, j] - where[i, k]).abs().max() > 0.005


def test_the_gradient_of_the_encoder_is_that_of_finite_differences():
    model, pieces = model_of(), puzzle_of([12, 9, 10])
    pyramid, encoder = model.pyramid(pieces), model.network.pairs.encoder
    features = model.network.descend(pyramid, times_of(pieces))[0].detach().requires_grad_()

    def knowledge(features: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
        pairs = encoder(pyramid.levels[0], features, pieces.centroids(), pieces.counts)
        return pairs.vectors, pairs.scalars

    weights = [encoder.match.weight, encoder.gate.weight, encoder.embedding.weight, encoder.across[0].look.weight]
    assert torch.autograd.gradcheck(knowledge, (features, *weights), fast_mode=True)


# -- what a pair sees --------------------------------------------------------------------------------------


@in_all_variants
def test_what_a_pair_knows_turns_with_the_first_piece_and_does_not_see_the_second(variant):
    model, pieces, poses = model_of(variant), Pieces.collate(ragged()), poses_of(10)
    before, after = (known(pairs_of(model, p)) for p in (pieces, pieces.moved(poses)))
    turned = {(i, j): (poses.rotation[i] @ vectors, scalars) for (i, j), (vectors, scalars) in before.items()}
    assert_same_knowledge(after, turned)


@pytest.mark.parametrize("moved", [0, 1])
def test_to_move_one_piece_turns_its_own_contacts_only(moved):
    model, pieces = model_of(), lumpy_pieces(2, 24)
    mask = torch.arange(2) == moved
    poses = poses_of(2).where(mask, SE3.identity(2, dtype=torch.float64))
    before, after = pairs_of(model, pieces), pairs_of(model, pieces.moved(poses))
    change = (after.vectors - before.vectors).abs().flatten(1).amax(1)
    assert (change[mask] > 0.01).all()
    assert (change[~mask] < 1e-10).all()
    assert_near(after.scalars, before.scalars)


@in_all_variants
def test_a_pair_does_not_see_the_companions_of_its_puzzle(variant):
    model, batch = model_of(variant), ragged()
    tau = times_of(Pieces.collate(batch))
    alone, start = {}, 0
    for pieces, own in zip(batch, tau.split(1), strict=True):
        alone |= shifted(known(pairs_of(model, pieces, own)), start)
        start += pieces.num_pieces
    assert_same_knowledge(known(pairs_of(model, Pieces.collate(batch), tau)), alone)


def test_a_pair_sees_the_third_piece():
    """No symmetry too many: places look at all pieces of their puzzle before they choose."""
    model, three = model_of(), puzzle_of([24, 31, 20])
    other = replace(three, points=torch.cat([three.points[:55], 1.2 * three.points[55:]]))
    before, after = (known(pairs_of(model, pieces))[0, 1] for pieces in (three, other))
    assert (before[1] - after[1]).abs().max() > 1e-4


@with_and_without_time
def test_pairs_depend_on_the_time_where_the_encoder_does(variant):
    model, pieces = model_of(variant), lumpy_pieces(2, 24)
    early, late = (pairs_of(model, pieces, torch.tensor([tau]).double()) for tau in (0.1, 0.9))
    assert torch.equal(early.vectors, late.vectors) == (variant == "encoder without time")
