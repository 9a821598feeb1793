"""Pieces are arranged by the motions of pairs, as a search through all trees of motions arranges them (ours)."""

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from support.arrangements import (
    SCORES,
    Laid,
    Plain,
    Planted,
    arrangements_of,
    assert_laid_alike,
    laid_out,
    leaving,
    planted,
    reframed,
    reordered,
)
from support.closeness import assert_near_and_nonzero
from support.rigid_motions import random_se3
from support.soft_matches import drawn, matches_by_hand, pairs_of
from torch import Tensor, nn

from eda import SE3
from eda.nn.correspondences import SoftCorrespondences
from eda.registration import arrangements as search
from eda.registration.arrangements import Arrangements, PairScores, arrange
from eda.registration.hypotheses import find_hypotheses


def arranged(puzzle: Planted) -> Arrangements:
    return arrange(puzzle.motions, puzzle.centers, SCORES)


def holding(puzzle: Planted, *ways: tuple[int, int, int]) -> Planted:
    """Of the pairs (i, j) only the motions k hold."""
    holds, pairs = torch.zeros_like(puzzle.motions.valid), pairs_of([len(puzzle.centers)])
    for i, j, k in ways:
        holds[pairs.index((i, j)), k] = True
    return puzzle.but(holds)


@pytest.fixture
def exhaustive(monkeypatch) -> None:
    monkeypatch.setattr(search, "BEAM", 140)
    monkeypatch.setattr(search, "JOINTS", 1000)


# -- two pieces --------------------------------------------------------------------------------------------


def nobody(evidence: Tensor) -> Tensor:
    raise AssertionError("two pieces are not judged")


def test_two_pieces_are_arranged_by_every_motion_that_was_proposed_as_it_was():
    puzzle = planted(2, 7).but(torch.tensor([[True, False, True, True, False, True, True]]))
    found, motions = arrange(puzzle.motions, puzzle.centers, PairScores(nobody, nobody)), puzzle.motions
    assert torch.equal(found.valid, motions.valid)
    assert_near_and_nonzero(
        (found.poses[1].inverse() @ found.poses[0]).matrix(), motions.T_second_first[0].matrix(), 1e-12
    )
    assert torch.equal(found.features, motions.features)
    assert found.is_joint.shape == (1, 7)
    assert found.is_joint.all()
    assert found.placed.shape == (2, 7)
    assert found.placed.all()
    assert torch.equal(found.both_placed, motions.valid)
    assert (found.first.tolist(), found.second.tolist(), found.counts.tolist()) == ([0], [1], [2])
    assert torch.equal(found.centers, puzzle.centers)


def test_two_pieces_for_which_nothing_holds_have_no_arrangement():
    puzzle = planted(2, 3)
    found = arranged(puzzle.but(torch.zeros(1, 3, dtype=torch.bool)))
    assert not found.valid.any()
    assert not found.both_placed.any()


# -- more pieces: by exhaustion ----------------------------------------------------------------------------

FIVE = [(0, 1, 0), (0, 1, 2), (1, 2, 0), (1, 2, 1), (2, 3, 0), (3, 4, 0), (3, 4, 1), (1, 4, 0), (0, 3, 1), (0, 3, 0)]


def cases() -> dict[str, Planted]:
    return {
        "three pieces, motions by chance": planted(3, 4, worlds=0),
        "three pieces, one solution": planted(3, 4, seed=1),
        "three pieces, two solutions": planted(3, 4, worlds=2, seed=2),
        "four pieces, motions by chance": planted(4, 2, worlds=0, seed=3),
        "four pieces, one solution": planted(4, 2, seed=4),
        "four pieces, two solutions": planted(4, 2, worlds=2, seed=5),
        "four pieces in a ring": holding(planted(4, 3, seed=6), *((i, j, k) for i, j in
            ((0, 1), (1, 2), (2, 3), (0, 3)) for k in range(3))),
        "five pieces, few motions": holding(planted(5, 3, worlds=2, seed=7), *FIVE),
    }  # fmt: skip


@pytest.mark.parametrize("case", cases())
def test_a_search_that_leaves_nothing_out_finds_all_there_is_the_best_first(case, exhaustive):
    puzzle = cases()[case]
    expected = Plain(puzzle).exhausted()
    assert 20 < len(expected) < 140
    assert_laid_alike(laid_out(arranged(puzzle)), expected)


@pytest.mark.parametrize("count", [3, 4, 5])
@pytest.mark.parametrize("seed", range(3))
def test_the_solution_is_found_among_motions_that_look_better_alone(count, seed):
    """One of four motions of a pair is right, and not the one that is liked most; a piece beside others decides."""
    puzzle = planted(count, 4, seed=seed)
    evidence = puzzle.motions.features.clone()
    evidence[..., 0] = evidence[..., 1] = 0  # alone, a motion is only liked or not
    evidence[:, 0, 2] = evidence[:, 1:, 2].amax(1) - 0.05
    judges = PairScores(lambda e: e[..., 2], lambda e: (e[..., 1] < 1e-6).to(e.dtype))
    found = arrange(replace(puzzle.motions, features=evidence), puzzle.centers, judges)
    best = laid_out(found)[0].poses
    truth = puzzle.truth.matrix().numpy()
    for i, j in itertools.combinations(range(count), 2):
        np.testing.assert_allclose(np.linalg.inv(best[j]) @ best[i], np.linalg.inv(truth[j]) @ truth[i], atol=1e-9)


# -- more pieces: as the search is described ---------------------------------------------------------------


def nearly_alike(count: int, ways: int, seed: int) -> Planted:
    """Some motions are others, turned by 3 to 17 degrees and moved by up to 0.7: what is the same is not always so."""
    puzzle = planted(count, ways, worlds=2, seed=seed)
    rng, motion = np.random.default_rng(seed), puzzle.motions.T_second_first
    little = drawn(len(motion), ways, 6, seed=seed)
    turn = torch.from_numpy(rng.uniform(0.05, 0.3, size=(len(motion), ways, 1)))
    far = torch.from_numpy(rng.uniform(0, 0.7, size=(len(motion), ways, 1)))
    w, u = (v / v.norm(dim=-1, keepdim=True) for v in little.split(3, dim=-1))
    other = SE3.exp(torch.cat([turn * w, torch.zeros_like(u)], dim=-1)) @ motion[:, [0] * ways]
    other = SE3(other.rotation, other.translation + far * u)
    last = (torch.arange(ways) >= ways - 2).expand(len(motion), -1)
    motion = other.where(last, motion)
    evidence = puzzle.motions.scorer.features(torch.arange(len(motion)), motion)
    evidence[..., 2] = puzzle.motions.features[..., 2]
    return replace(puzzle, motions=replace(puzzle.motions, T_second_first=motion, features=evidence))


@pytest.mark.parametrize(
    ("count", "ways", "beam", "joints", "examined"),
    [(3, 8, 12, 6, 3), (4, 6, 12, 6, 3), (5, 4, 12, 6, 3), (6, 3, 12, 6, 3), (4, 6, 3, 2, 2), (5, 4, 5, 3, 1),
     (4, 5, 1, 1, 1), (5, 4, 1, 4, 3), (4, 4, 4, 20, 8)],
)  # fmt: skip
def test_the_search_is_the_one_that_is_described(monkeypatch, count, ways, beam, joints, examined):
    for name, value in (("BEAM", beam), ("JOINTS", joints), ("EXAMINED", examined)):
        monkeypatch.setattr(search, name, value)
    for seed in range(3):
        puzzle = nearly_alike(count, ways, seed)
        holds = torch.rand(puzzle.motions.valid.shape, generator=torch.Generator().manual_seed(seed)) < 0.8
        puzzle = puzzle.but(holds)
        assert_laid_alike(laid_out(arranged(puzzle)), Plain(puzzle).beam(beam, joints, examined))


def test_the_search_keeps_twelve_tries_six_joints_and_looks_at_three_times_as_many():
    assert (search.BEAM, search.JOINTS, search.EXAMINED) == (12, 6, 3)


@pytest.mark.parametrize("count", [3, 4, 6])
def test_no_two_arrangements_are_repeats(count):
    puzzle = nearly_alike(count, 5, seed=count)
    found = laid_out(arranged(puzzle))
    assert len(found) > 4
    plain = Plain(puzzle)
    assert not any(plain.same(a, b) for a, b in itertools.combinations(found, 2))


def test_motions_that_are_the_same_make_one_arrangement():
    """Every motion of three pieces is there four times, some liked more; of two pieces, all are kept."""
    puzzle = planted(3, 4, worlds=1)
    motion = puzzle.motions.T_second_first[:, [0] * 4]
    puzzle = replace(puzzle, motions=replace(puzzle.motions, T_second_first=motion))
    found = laid_out(arranged(puzzle))
    assert len(found) == 1
    values = SCORES.joint(puzzle.motions.features).amax(1)
    assert found[0].joints == frozenset(pairs_of([3])[q] for q in values.topk(2).indices)
    pair = planted(2, 2)
    pair = replace(pair, motions=replace(pair.motions, T_second_first=pair.motions.T_second_first[:, [0, 0]]))
    assert arranged(pair).valid.sum() == 2


# -- what is known of every arrangement --------------------------------------------------------------------


@pytest.mark.parametrize(("count", "ways"), [(3, 8), (4, 6), (6, 4)])
def test_the_value_is_that_of_all_pairs_of_placed_pieces_and_falls(count, ways):
    """Summed anew from where pieces are: by the motion where two were joined, else by how they lie."""
    holds = torch.rand(len(pairs_of([count])), ways, generator=torch.Generator().manual_seed(1)) < 0.7
    puzzle = planted(count, ways, worlds=2, seed=1).but(holds)
    grown = search._BeamSearch(puzzle.motions, puzzle.centers, SCORES, greedy=False).run()
    laid, plain = laid_out(arranged(puzzle), grown.score.tolist()), Plain(puzzle)
    for one in laid:
        joints = {}
        for i, j in one.joints:
            motion = np.linalg.inv(one.poses[j]) @ one.poses[i]
            (joints[i, j],) = [value for way, value in plain.ways[i, j] if np.allclose(way, motion, atol=1e-9)]
        assert plain.worth(one.poses, joints) == pytest.approx(one.value, abs=1e-9)
    assert len(laid) == len(grown.score) == 12
    assert (grown.score.diff() < 0).all()


@pytest.mark.parametrize("count", [3, 5])
def test_arrangements_are_joined_along_a_tree_by_motions_that_hold_and_know_how_all_pairs_lie(count):
    puzzle = planted(count, 5, worlds=2)
    holds = puzzle.motions.valid.clone()
    holds[::2, 0] = holds[1::2, 3] = False
    puzzle = puzzle.but(holds)
    found = arranged(puzzle)
    assert found.placed.all()
    relative = found.poses[found.second].inverse() @ found.poses[found.first]
    assert_near_and_nonzero(found.features, puzzle.motions.scorer.features(torch.arange(len(holds)), relative))
    for h, laid in enumerate(laid_out(found)):
        assert len(laid.joints) == count - 1
        assert Plain(puzzle).laid(dict.fromkeys(laid.joints, np.eye(4))).keys() == set(range(count))
        for q, pair in enumerate(pairs_of([count])):
            ways = puzzle.motions.T_second_first[q][holds[q]].matrix()
            near = (ways - relative[q, h].matrix()).abs().amax((1, 2)).min() < 1e-9
            assert near or pair not in laid.joints
    lying = found.features[~found.is_joint][:, 1]
    assert (lying > 0.1).any(), "some come to lie as no motion has it"


@pytest.mark.parametrize("count", [2, 4])
def test_no_gradient_passes_the_search(count):
    puzzle, judge = planted(count, 4), nn.Linear(3, 1).double()
    judges = PairScores(lambda e: judge(e).squeeze(-1), lambda e: judge(e).squeeze(-1))
    found = arrange(puzzle.motions, puzzle.centers, judges)
    assert judges.joint(puzzle.motions.features).requires_grad
    assert not any(x.requires_grad for x in (found.poses.rotation, found.poses.translation, found.features))


# -- where motions are missing -----------------------------------------------------------------------------


def test_a_piece_without_any_motion_stays_unplaced_and_the_rest_is_arranged_without_it(exhaustive):
    puzzle = planted(4, 3, worlds=1, seed=2)
    holds = puzzle.motions.valid.clone()
    holds[[2 in pair for pair in pairs_of([4])]] = False
    found = arranged(puzzle.but(holds))
    assert found.placed[[0, 1, 3]].all()
    assert not found.placed[2].any()
    assert found.valid.all()
    kept, others = [q for q, pair in enumerate(pairs_of([4])) if 2 not in pair], [0, 1, 3]
    centers, truth = puzzle.centers[others], puzzle.truth[others]
    motions = replace(
        puzzle.motions,
        T_second_first=puzzle.motions.T_second_first[kept],
        valid=puzzle.motions.valid[kept],
        features=puzzle.motions.features[kept],
        scorer=replace(planted(3, 3).motions.scorer, truth=truth, centers=centers),
    )
    three = Planted(motions, centers, truth)
    expected, name = laid_out(arranged(three)), {0: 0, 1: 1, 2: 3}
    renamed = [
        Laid(
            {name[i]: pose for i, pose in laid.poses.items()},
            frozenset((name[i], name[j]) for i, j in laid.joints),
            laid.value,
        )
        for laid in expected
    ]
    assert_laid_alike(laid_out(found), renamed)
    assert found.both_placed.sum(0).tolist() == [3] * len(expected)


def test_pieces_of_which_only_two_have_motions_are_arranged_two_by_two():
    puzzle = holding(planted(5, 4), (1, 3, 0), (1, 3, 2), (2, 4, 1))
    found = laid_out(arranged(puzzle))
    assert [set(laid.poses) for laid in found].count({1, 3}) == 2
    assert [set(laid.poses) for laid in found].count({2, 4}) == 1
    values = SCORES.joint(puzzle.motions.features)[puzzle.motions.valid].sort(descending=True).values
    ordered = []
    for laid in found:
        i, j = sorted(laid.poses)
        motion = np.linalg.inv(laid.poses[j]) @ laid.poses[i]
        ordered += [value for way, value in Plain(puzzle).ways[i, j] if np.allclose(way, motion)]
    assert ordered == pytest.approx(values.tolist())


def test_arrangements_of_other_pieces_are_no_repeats_wherever_those_lie():
    """Two times three pieces that are to stay as they are, and one that nobody knows."""
    triples = itertools.chain(itertools.combinations(range(3), 2), itertools.combinations(range(3, 6), 2))
    puzzle = holding(planted(7, 1), *((i, j, 0) for i, j in triples))
    still = SE3.identity(21, 1, dtype=torch.float64)
    found = laid_out(arranged(replace(puzzle, motions=replace(puzzle.motions, T_second_first=still))))
    assert sorted(sorted(laid.poses) for laid in found) == [[0, 1, 2], [3, 4, 5]]


def test_only_the_arrangements_to_which_a_piece_can_join_go_on():
    """Two and three pieces hang together: of the former nothing is left when the third piece joins."""
    puzzle = holding(planted(5, 2, liked=0.0), (0, 1, 0), (2, 3, 1), (3, 4, 1))
    assert [set(laid.poses) for laid in laid_out(arranged(puzzle))] == [{2, 3, 4}]


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_puzzle_without_any_motion_has_one_arrangement_that_places_nothing_and_does_not_hold(count):
    puzzle = planted(count, 3)
    found = arranged(puzzle.but(torch.zeros_like(puzzle.motions.valid)))
    assert found.poses.shape == found.placed.shape == (count, 1)
    assert found.is_joint.shape == (len(pairs_of([count])), 1)
    assert found.features.shape == (len(pairs_of([count])), 1, 3)
    assert not found.placed.any()
    assert not found.valid.any()
    assert not found.is_joint.any()
    assert not found.both_placed.any()
    assert found.poses.isfinite()


# -- frames and names do not matter ------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 5])
def test_own_frames_of_pieces_do_not_matter(count):
    puzzle, frames = planted(count, 6, worlds=2, seed=3), random_se3(count, 8, spread=5.0)
    before, after = arranged(puzzle), arranged(reframed(puzzle, frames))
    back = [
        replace(laid, poses={i: pose @ frames[i].matrix().numpy() for i, pose in laid.poses.items()})
        for laid in laid_out(after)
    ]
    assert_laid_alike(back, laid_out(before))
    assert_near_and_nonzero(after.features, before.features, 1e-9)


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_names_of_pieces_do_not_matter(count):
    order = [[1, 0], [2, 0, 1], [3, 1, 0, 2], [4, 2, 0, 1, 3]][count - 2]
    puzzle = planted(count, 5, worlds=2, seed=4)
    before, after = laid_out(arranged(puzzle)), laid_out(arranged(reordered(puzzle, order)))
    renamed = [
        Laid(
            {order[i]: pose for i, pose in laid.poses.items()},
            frozenset((min(order[i], order[j]), max(order[i], order[j])) for i, j in laid.joints),
            laid.value,
        )
        for laid in after
    ]
    assert_laid_alike(renamed, before)


# -- with the places of pieces -----------------------------------------------------------------------------


def chain(count: int, truth: SE3) -> SoftCorrespondences:
    """Every piece shows 12 places: six that the piece before shows too, and six of the next."""
    known, rows = 0.5 * drawn(6 * count + 6, 3, seed=3), [range(6 * i, 6 * i + 12) for i in range(count)]
    parts = [truth[i].inverse().act(known[list(row)]) for i, row in enumerate(rows)]
    weights = []
    for i, j in pairs_of([count]):
        same = torch.tensor([[float(a == b) for b in rows[j]] for a in rows[i]]).double()
        weights.append(0.9 * same + 0.01 * drawn(12, 12, seed=i + 7 * j).abs())
    return matches_by_hand(parts, weights, reach=0.4)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_pieces_that_share_places_with_the_next_are_arranged_as_they_were(count):
    """Correspondences, hypotheses and arrangements one after the other; what agrees with most matches is best."""
    truth = random_se3(count, 2, spread=0.7)
    matches = chain(count, truth)
    centers = matches.places.mean(1)
    motions = find_hypotheses(matches, centers, None)
    judges = PairScores(lambda e: e[..., 0], lambda e: 0 * e[..., 0])
    found = arrange(motions, centers, judges)
    expected = truth[found.second].inverse() @ truth[found.first]
    relative = found.poses[found.second].inverse() @ found.poses[found.first]
    assert found.placed.all()
    assert_near_and_nonzero(relative[:, 0].matrix(), expected.matrix(), 0.02)
    assert [pair for q, pair in enumerate(pairs_of([count])) if found.is_joint[q, 0]] == list(
        itertools.pairwise(range(count))
    )
    joined = found.is_joint[:, 0]
    best = motions.features[..., 0].masked_fill(~motions.valid, -torch.inf).argmax(1)
    assert_near_and_nonzero(found.features[joined, 0], motions.features[torch.arange(len(best)), best][joined], 1e-9)


# -- several puzzles ---------------------------------------------------------------------------------------


def test_several_batches_as_one_are_padded_with_what_does_not_hold():
    """Of 3 and 1 pieces in two arrangements, of 2 in five, of 4 in three, some of which leave pieces."""
    batch = [arrangements_of([3, 1], 2, seed=1), arrangements_of([2], 5, seed=2), arrangements_of([4], 3, seed=3)]
    batch[2] = leaving(batch[2], (1, 0), (3, 2))
    batch[0] = replace(batch[0], valid=torch.tensor([[True, False], [False, False]]))
    found = Arrangements.cat(batch)
    assert found.counts.tolist() == [3, 1, 2, 4]
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == pairs_of([3, 1, 2, 4])
    assert torch.equal(found.centers, torch.cat([one.centers for one in batch]))
    pieces = pairs = puzzles = 0
    for one in batch:
        wide, (num_pieces, num_ways), num_pairs = 5, one.placed.shape, len(one.first)
        of_pieces, of_pairs = slice(pieces, pieces + num_pieces), slice(pairs, pairs + num_pairs)
        of_puzzles = slice(puzzles, puzzles + len(one.counts))
        assert torch.equal(found.poses[of_pieces, :num_ways].matrix(), one.poses.matrix())
        assert torch.equal(found.placed[of_pieces, :num_ways], one.placed)
        assert torch.equal(found.valid[of_puzzles, :num_ways], one.valid)
        assert not found.valid[of_puzzles, num_ways:].any()
        assert torch.equal(found.is_joint[of_pairs, :num_ways], one.is_joint)
        assert torch.equal(found.features[of_pairs, :num_ways], one.features)
        assert torch.equal(found.both_placed[of_pairs, :num_ways], one.both_placed)
        assert not found.both_placed[of_pairs, num_ways:].any()
        for of in (found.poses[of_pieces].rotation, found.placed[of_pieces], found.features[of_pairs]):
            assert of.shape[1] == wide
        pieces, pairs, puzzles = pieces + num_pieces, pairs + num_pairs, puzzles + len(one.counts)


def test_batches_of_batches_are_one_batch_and_one_alone_is_itself():
    a, b, c = arrangements_of([3], 2, seed=1), arrangements_of([2, 4], 4, seed=2), arrangements_of([1], 1, seed=3)
    for nested in (
        [Arrangements.cat([a, b]), c],
        [a, Arrangements.cat([b, c])],
        [Arrangements.cat([a]), Arrangements.cat([b]), Arrangements.cat([c])],
    ):
        found, expected = Arrangements.cat(nested), Arrangements.cat([a, b, c])
        for field in fields(Arrangements):
            one, other = getattr(found, field.name), getattr(expected, field.name)
            if isinstance(one, SE3):
                one, other = one.matrix(), other.matrix()
            assert torch.equal(one, other), field.name


def test_pairs_lie_together_where_both_are_placed_by_an_arrangement_that_holds():
    some = leaving(arrangements_of([3, 2], 3), (0, 0), (2, 1), (3, 2))
    some = replace(some, valid=torch.tensor([[True, True, False], [True, True, True]]))
    pairs = [(0, 1), (0, 2), (1, 2), (3, 4)]
    expected = [[i != 0, i != 2 and j != 2, False] for i, j in pairs[:3]] + [[True, True, False]]
    assert some.both_placed.tolist() == expected
