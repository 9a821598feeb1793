"""What is proposed follows frames and order and does not see padding; where nothing matches, it is nothing (ours)."""

from dataclasses import replace

import pytest
import torch
from places import (
    assert_near,
    centers_of,
    drawn,
    matches_at_random,
    matches_by_hand,
    motions_of,
    moved,
    of_both_kinds,
    pairs_of,
    poses_of,
    reordered,
    surfaces_of,
    swapped,
    with_garbage,
)

from eda.nn.proposals import Motions, propose

# -- where nothing is to be proposed -----------------------------------------------------------------------


@of_both_kinds
def test_where_places_lie_on_a_line_or_are_one_or_two_no_motion_holds(complementary):
    line = torch.linspace(-1, 1, 8).double()[:, None] * torch.tensor([1.0, 2.0, -1.0]).double()
    on_a_line = matches_by_hand([line, drawn(8, 3)], [drawn(8, 8).exp()], normals=[drawn(8, 3)] * 2)
    for matches in (on_a_line, matches_at_random([1, 2, 6]), matches_at_random([1, 1]), matches_at_random([2, 50])):
        motions = motions_of(matches, complementary)
        assert not motions.holds.any()
        assert motions.evidence.isfinite().all()
        assert motions.motion.isfinite()


@of_both_kinds
def test_where_nothing_matches_no_motion_holds(complementary):
    """Neither of any pair, nor of one pair beside another."""
    plain = matches_at_random([9, 8, 7])
    for some in ([0.0, 0.0, 0.0], [1.0, 0.0, 1.0]):
        motions = motions_of(
            replace(plain, weights=plain.weights * torch.tensor(some).double()[:, None, None]), complementary
        )
        assert motions.holds.any(1).tolist() == [bool(one) for one in some]
        assert motions.evidence.isfinite().all()
        assert motions.motion.isfinite()


def test_nothing_is_proposed_but_by_matches():
    """Five of one pair and one more of another, in tables of 400 pairs of places, of which most are no match at all."""
    weights = [torch.zeros(20, 20).double() for _ in range(3)]
    for k in range(5):
        weights[0][3 * k, 19 - 2 * k] = 1.0
    weights[1][4, 4] = 1.0
    places = [0.5 * drawn(20, 3, seed=k) for k in range(3)]
    places[1][[19 - 2 * k for k in range(5)]] = poses_of(1).act(places[0][[3 * k for k in range(5)]])
    motions = propose(matches_by_hand(places, weights), torch.zeros(3, 3).double(), None)
    assert 1 <= int(motions.holds[0].sum()) <= 5
    assert not motions.holds[1:].any(), "one match does not fix a motion"
    assert_near(motions.motion[0, 0].matrix(), poses_of(1)[0].matrix(), 1e-9)


@of_both_kinds
def test_a_piece_alone_has_no_motions(complementary):
    matches = matches_at_random([9])
    motions = motions_of(matches, complementary)
    assert motions.holds.shape == (0, 32)
    assert motions.motion.shape == (0, 32)
    assert motions.evidence.shape == (0, 32, 15 if complementary else 12)


# -- frames, order, padding --------------------------------------------------------------------------------


def assert_same_motions(a: Motions, b: Motions, atol: float = 1e-9) -> None:
    """What does not hold may be anything."""
    assert torch.equal(a.holds, b.holds)
    assert b.holds.any(1).all()
    assert_near(a.motion.matrix()[b.holds], b.motion.matrix()[b.holds], atol)
    assert_near(a.evidence[b.holds], b.evidence[b.holds], atol)


@of_both_kinds
def test_motions_follow_the_frames_of_pieces(complementary):
    matches, poses = matches_at_random([12, 14, 13, 5]), poses_of(4, seed=4, spread=3.0)
    before, after = (motions_of(m, complementary) for m in (matches, moved(matches, poses)))
    back = poses[matches.second].inverse().reshape(-1, 1) @ after.motion @ poses[matches.first].reshape(-1, 1)
    assert_same_motions(replace(after, motion=back), before, 1e-8)


@of_both_kinds
def test_the_way_back_is_the_inverse_motion_and_has_the_same_evidence(complementary):
    matches = matches_at_random([12, 14, 13])
    forth, back = (motions_of(m, complementary) for m in (matches, swapped(matches)))
    assert_same_motions(replace(back, motion=back.motion.inverse()), forth, 1e-8)


@of_both_kinds
@pytest.mark.parametrize("order", [[3, 1, 0, 2], [2, 3, 1, 0], [1, 0, 3, 2]])
def test_motions_follow_the_order_of_pieces(order, complementary):
    matches = matches_at_random([12, 14, 5, 13])
    other, rows, turned = reordered(matches, order)
    before, after = (motions_of(m, complementary) for m in (matches, other))
    forth = after.motion.inverse().where(torch.tensor(turned)[:, None], after.motion)
    expected = replace(before, motion=before.motion[rows], holds=before.holds[rows], evidence=before.evidence[rows])
    assert any(turned)
    assert_same_motions(replace(after, motion=forth), expected, 1e-8)


@of_both_kinds
def test_a_motion_is_not_the_better_for_other_pairs(complementary):
    """The pairs of a puzzle each for themselves, with what budget pairs of three pieces have."""
    matches = matches_at_random([12, 14, 13])
    together = motions_of(matches, complementary)
    for q in range(3):
        alone = {name: getattr(matches, name)[q : q + 1] for name in ("first", "second", "weights")}
        motions = motions_of(replace(matches, **alone), complementary)
        one = {"motion": together.motion[q : q + 1], "holds": together.holds[q : q + 1]}
        assert_same_motions(motions, replace(together, **one, evidence=together.evidence[q : q + 1]), 1e-9)


@of_both_kinds
@pytest.mark.parametrize("sizes", [[12, 14, 13], [4, 6, 5], [4, 40, 5]])
def test_padding_neither_proposes_anything_nor_changes_what_is_proposed(sizes, complementary):
    plain, wide = matches_at_random(sizes), with_garbage(matches_at_random(sizes, columns=max(sizes) + 5))
    tight, loose = (motions_of(matches, complementary, centers_of(plain)) for matches in (plain, wide))
    kept = tight.holds.shape[1]
    assert not loose.holds[:, kept:].any()
    loose = replace(
        loose, motion=loose.motion[:, :kept], holds=loose.holds[:, :kept], evidence=loose.evidence[:, :kept]
    )
    assert_same_motions(loose, tight)
    for pair, (i, j) in enumerate(pairs_of([3])):
        assert int(loose.holds[pair].sum()) <= sizes[i] * sizes[j]


# -- gradients and precision -------------------------------------------------------------------------------


@of_both_kinds
def test_no_gradient_passes_through_proposals(complementary):
    matches = matches_at_random([6, 7])
    matches = replace(matches, weights=matches.weights.clone().requires_grad_())
    motions = motions_of(matches, complementary)
    assert not motions.evidence.requires_grad
    assert not motions.motion.rotation.requires_grad


@of_both_kinds
def test_fits_are_made_in_double_precision(complementary):
    matches = matches_at_random([12, 12])
    names = ("places", "normals", "shared", "weights")
    single = replace(matches, **{name: getattr(matches, name).float() for name in names})
    surfaces = None if complementary else surfaces_of(matches)
    exact, rough = (propose(m, centers_of(matches).to(m.places.dtype), surfaces) for m in (matches, single))
    assert rough.motion.rotation.dtype == rough.evidence.dtype == torch.float32
    if complementary:
        assert all(of.dtype == torch.float32 for of in (rough.known.weight, rough.known.here, rough.known.best))
    assert_near(rough.motion[:, :4].matrix().double(), exact.motion[:, :4].matrix(), 1e-4)
