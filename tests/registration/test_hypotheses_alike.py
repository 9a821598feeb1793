"""What is proposed follows frames and order and does not see padding; where nothing matches, it is nothing (ours)."""

from dataclasses import replace

import pytest
import torch
from support.closeness import assert_near_and_nonzero
from support.rigid_motions import random_se3
from support.soft_matches import (
    centers_of,
    drawn,
    hypotheses_of,
    matches_at_random,
    matches_by_hand,
    moved,
    of_both_kinds,
    pairs_of,
    reordered,
    surfaces_of,
    swapped,
    with_garbage,
)

from eda.registration.hypotheses import PairHypotheses, find_hypotheses

# -- where nothing is to be proposed -----------------------------------------------------------------------


@of_both_kinds
def test_where_places_lie_on_a_line_or_are_one_or_two_no_motion_holds(complementary):
    line = torch.linspace(-1, 1, 8).double()[:, None] * torch.tensor([1.0, 2.0, -1.0]).double()
    on_a_line = matches_by_hand([line, drawn(8, 3)], [drawn(8, 8).exp()], normals=[drawn(8, 3)] * 2)
    for matches in (on_a_line, matches_at_random([1, 2, 6]), matches_at_random([1, 1]), matches_at_random([2, 50])):
        motions = hypotheses_of(matches, complementary)
        assert not motions.valid.any()
        assert motions.features.isfinite().all()
        assert motions.T_second_first.isfinite()


@of_both_kinds
def test_where_nothing_matches_no_motion_holds(complementary):
    """Neither of any pair, nor of one pair beside another."""
    plain = matches_at_random([9, 8, 7])
    for some in ([0.0, 0.0, 0.0], [1.0, 0.0, 1.0]):
        motions = hypotheses_of(
            replace(plain, weights=plain.weights * torch.tensor(some).double()[:, None, None]), complementary
        )
        assert motions.valid.any(1).tolist() == [bool(one) for one in some]
        assert motions.features.isfinite().all()
        assert motions.T_second_first.isfinite()


def test_nothing_is_proposed_but_by_matches():
    """Five of one pair and one more of another, in tables of 400 pairs of places, of which most are no match at all."""
    weights = [torch.zeros(20, 20).double() for _ in range(3)]
    for k in range(5):
        weights[0][3 * k, 19 - 2 * k] = 1.0
    weights[1][4, 4] = 1.0
    places = [0.5 * drawn(20, 3, seed=k) for k in range(3)]
    places[1][[19 - 2 * k for k in range(5)]] = random_se3(1, spread=0.7).act(places[0][[3 * k for k in range(5)]])
    motions = find_hypotheses(matches_by_hand(places, weights), torch.zeros(3, 3).double(), None)
    assert 1 <= int(motions.valid[0].sum()) <= 5
    assert not motions.valid[1:].any(), "one match does not fix a motion"
    assert_near_and_nonzero(motions.T_second_first[0, 0].matrix(), random_se3(1, spread=0.7)[0].matrix(), 1e-9)


@of_both_kinds
def test_a_piece_alone_has_no_motions(complementary):
    matches = matches_at_random([9])
    motions = hypotheses_of(matches, complementary)
    assert motions.valid.shape == (0, 32)
    assert motions.T_second_first.shape == (0, 32)
    assert motions.features.shape == (0, 32, 15 if complementary else 12)


# -- frames, order, padding --------------------------------------------------------------------------------


def assert_same_motions(a: PairHypotheses, b: PairHypotheses, atol: float = 1e-9) -> None:
    """What does not hold may be anything."""
    assert torch.equal(a.valid, b.valid)
    assert b.valid.any(1).all()
    assert_near_and_nonzero(a.T_second_first.matrix()[b.valid], b.T_second_first.matrix()[b.valid], atol)
    assert_near_and_nonzero(a.features[b.valid], b.features[b.valid], atol)


@of_both_kinds
def test_motions_follow_the_frames_of_pieces(complementary):
    matches, poses = matches_at_random([12, 14, 13, 5]), random_se3(4, seed=4, spread=3.0)
    before, after = (hypotheses_of(m, complementary) for m in (matches, moved(matches, poses)))
    back = poses[matches.second].inverse().reshape(-1, 1) @ after.T_second_first @ poses[matches.first].reshape(-1, 1)
    assert_same_motions(replace(after, T_second_first=back), before, 1e-8)


@of_both_kinds
def test_the_way_back_is_the_inverse_motion_and_has_the_same_evidence(complementary):
    matches = matches_at_random([12, 14, 13])
    forth, back = (hypotheses_of(m, complementary) for m in (matches, swapped(matches)))
    assert_same_motions(replace(back, T_second_first=back.T_second_first.inverse()), forth, 1e-8)


@of_both_kinds
@pytest.mark.parametrize("order", [[3, 1, 0, 2], [2, 3, 1, 0], [1, 0, 3, 2]])
def test_motions_follow_the_order_of_pieces(order, complementary):
    matches = matches_at_random([12, 14, 5, 13])
    other, rows, turned = reordered(matches, order)
    before, after = (hypotheses_of(m, complementary) for m in (matches, other))
    forth = after.T_second_first.inverse().where(torch.tensor(turned)[:, None], after.T_second_first)
    expected = replace(
        before, T_second_first=before.T_second_first[rows], valid=before.valid[rows], features=before.features[rows]
    )
    assert any(turned)
    assert_same_motions(replace(after, T_second_first=forth), expected, 1e-8)


@of_both_kinds
def test_a_motion_is_not_the_better_for_other_pairs(complementary):
    """The pairs of a puzzle each for themselves, with as many as pairs of three pieces have."""
    matches = matches_at_random([12, 14, 13])
    together = hypotheses_of(matches, complementary)
    for q in range(3):
        alone = {name: getattr(matches, name)[q : q + 1] for name in ("first", "second", "weights")}
        motions = hypotheses_of(replace(matches, **alone), complementary)
        one = {"T_second_first": together.T_second_first[q : q + 1], "valid": together.valid[q : q + 1]}
        assert_same_motions(motions, replace(together, **one, features=together.features[q : q + 1]), 1e-9)


@of_both_kinds
@pytest.mark.parametrize("sizes", [[12, 14, 13], [4, 6, 5], [4, 40, 5]])
def test_padding_neither_proposes_anything_nor_changes_what_is_proposed(sizes, complementary):
    plain, wide = matches_at_random(sizes), with_garbage(matches_at_random(sizes, columns=max(sizes) + 5))
    tight, loose = (hypotheses_of(matches, complementary, centers_of(plain)) for matches in (plain, wide))
    kept = tight.valid.shape[1]
    assert not loose.valid[:, kept:].any()
    loose = replace(
        loose,
        T_second_first=loose.T_second_first[:, :kept],
        valid=loose.valid[:, :kept],
        features=loose.features[:, :kept],
    )
    assert_same_motions(loose, tight)
    for pair, (i, j) in enumerate(pairs_of([3])):
        assert int(loose.valid[pair].sum()) <= sizes[i] * sizes[j]


# -- gradients and precision -------------------------------------------------------------------------------


@of_both_kinds
def test_no_gradient_passes_through_proposals(complementary):
    matches = matches_at_random([6, 7])
    matches = replace(matches, weights=matches.weights.clone().requires_grad_())
    motions = hypotheses_of(matches, complementary)
    assert not motions.features.requires_grad
    assert not motions.T_second_first.rotation.requires_grad


@of_both_kinds
def test_fits_are_made_in_double_precision(complementary):
    matches = matches_at_random([12, 12])
    names = ("places", "normals", "shared", "weights")
    single = replace(matches, **{name: getattr(matches, name).float() for name in names})
    surfaces = None if complementary else surfaces_of(matches)
    exact, rough = (find_hypotheses(m, centers_of(matches).to(m.places.dtype), surfaces) for m in (matches, single))
    assert rough.T_second_first.rotation.dtype == rough.features.dtype == torch.float32
    if complementary:
        assert all(
            of.dtype == torch.float32 for of in (rough.scorer.weights, rough.scorer.source, rough.scorer.best_support)
        )
    assert_near_and_nonzero(rough.T_second_first[:, :4].matrix().double(), exact.T_second_first[:, :4].matrix(), 1e-4)
