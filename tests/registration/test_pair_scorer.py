"""What speaks for a motion is what loops over matches and places tell, and for one of scans what their surfaces do;
frames, order and padding do not matter.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from support.closeness import assert_near_and_nonzero
from support.oracles import haar_rotations
from support.rigid_motions import random_se3
from support.soft_matches import (
    REACH,
    drawn,
    matches_at_random,
    matches_by_hand,
    moved,
    reordered,
    swapped,
    unit,
    with_garbage,
)
from support.surface_pairs import moved as moved_surface
from support.surface_pairs import overlap
from torch import Tensor

from eda import SE3
from eda.registration.contact import (
    CLOSE,
    DEEP,
    FACING,
    MIN_LOG_WEIGHT,
    MIN_SHARE,
    TEMPERATURE,
    contact_features,
)
from eda.registration.icp import Surface
from eda.registration.overlap import MEANS, SCALES
from eda.registration.pair_scorer import ContactScorer, OverlapScorer, PairScorer, num_features
from eda.registration.soft_correspondences import SAME_PLACE, SoftCorrespondences

PAIR = torch.tensor([2, 0, 0, 1, 2])


def pieces_at_random(columns: int = 17) -> SoftCorrespondences:
    """Three pieces; some of their places match none of another piece."""
    matches = matches_at_random([9, 14, 6], columns=columns)
    return replace(matches, weights=matches.weights * (drawn(*matches.weights.shape, seed=5) > -0.8))


def motions_at_random(seed: int = 0) -> SE3:
    """(5, 6) motions; the last of each brings nothing near."""
    spread = torch.tensor([0.1, 0.3, 0.3, 0.5, 1.0, 99.0]).double()[:, None]
    return SE3(haar_rotations(30, seed).reshape(5, 6, 3, 3), spread * drawn(5, 6, 3, seed=seed))


# -- how places touch, one by one --------------------------------------------------------------------------


@dataclass(frozen=True)
class Meeting:
    """A place, and the nearest of the other piece."""

    gap: float
    facing: float
    height: float
    shared: float
    shared_there: float
    weight: float


def meetings(matches: SoftCorrespondences, pair: int, motion: SE3) -> list[Meeting]:
    """Of every place of both pieces, where one motion brings them."""
    R, t = motion.rotation.numpy(), motion.translation.numpy()
    sides = []
    for piece, first in ((int(matches.first[pair]), True), (int(matches.second[pair]), False)):
        rows = [k for k, present in enumerate(matches.present[piece].tolist()) if present]
        normals = np.zeros((len(rows), 3)) if matches.normals is None else matches.normals[piece][rows].numpy()
        points, shared = matches.places[piece][rows].numpy(), matches.shared[piece][rows].numpy()
        sides.append(
            [(R @ p + t, R @ n, s) if first else (p, n, s) for p, n, s in zip(points, normals, shared, strict=True)]
        )
    found = []
    for here, there, weights in ((sides[0], sides[1], matches.weights[pair]), (*sides[::-1], matches.weights[pair].T)):
        for i, (p, n, s) in enumerate(here):
            j = min(range(len(there)), key=lambda k: math.dist(p, there[k][0]))
            q, m, u = there[j]
            found.append(Meeting(math.dist(p, q), float(n @ m), float((p - q) @ m), s, u, float(weights[i, j])))
    return found


def log_share(amounts: list[float], count: int) -> float:
    return math.log(sum(amounts) / count + MIN_SHARE)


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def contact_by_loop(matches: SoftCorrespondences, pair: int, motion: SE3) -> list[float]:
    every, reach = meetings(matches, pair, motion), matches.reach
    near = [one for one in every if one.gap < 2 * SAME_PLACE * reach]
    faces = [one for one in near if one.facing < -FACING]
    likely = [
        max(math.log(one.weight), MIN_LOG_WEIGHT) / TEMPERATURE if one.weight > 0 else MIN_LOG_WEIGHT / TEMPERATURE
        for one in faces
    ]
    shares = [
        [1.0 for _ in near],
        [1.0 for _ in faces],
        [1.0 for one in faces if one.gap < CLOSE * 2 * SAME_PLACE * reach],
        [1.0 for one in near if one.facing > FACING],
        [1.0 for one in every if one.height < -DEEP * reach and one.gap < 3 * reach],
        [1 - one.shared for one in faces],
        [one.shared * one.shared_there for one in faces],
        [math.exp(log) for log in likely],
    ]
    return [
        *(log_share(amounts, len(every)) for amounts in shares),
        sum(one.shared for one in faces) / (sum(one.shared for one in every) + MIN_SHARE),
        mean([abs(one.height) / reach for one in faces]),
        mean(likely),
        -mean([one.facing for one in near]),
    ]


@pytest.mark.parametrize("normals", [True, False])
def test_places_touch_as_in_a_loop_over_them(normals):
    matches, motion = with_garbage(pieces_at_random()), motions_at_random()
    matches = matches if normals else replace(matches, normals=None)
    found = contact_features(matches, PAIR, motion)
    expected = [[contact_by_loop(matches, int(q), motion[r, k]) for k in range(6)] for r, q in enumerate(PAIR)]
    assert_near_and_nonzero(found, torch.tensor(expected, dtype=torch.float64), 1e-12)
    assert found[:, -1].std(0).max() < 1e-12, "where nothing touches, there is nothing to tell apart"
    varied = (found[:, :-1].flatten(0, 1).std(0) > 1e-3).tolist()
    assert varied == [normals or not column for column in range(12)]


def test_contact_does_not_see_what_is_padding():
    motion = motions_at_random()
    expected = contact_features(matches_at_random([9, 14, 6]), PAIR, motion)
    wide = with_garbage(matches_at_random([9, 14, 6], columns=19))
    assert wide.places.shape[1] == 19
    assert_near_and_nonzero(contact_features(wide, PAIR, motion), expected, 1e-12)


def test_contact_sees_the_signs_of_normals():
    matches, motion = pieces_at_random(), motions_at_random()
    signs = torch.sign(drawn(3, 17, 1, seed=8))
    flipped = replace(matches, normals=matches.normals * signs)
    assert (contact_features(flipped, PAIR, motion) - contact_features(matches, PAIR, motion)).abs().amax() > 0.1
    inside_out = contact_features(replace(matches, normals=-matches.normals), PAIR, motion)
    changes = (inside_out - contact_features(matches, PAIR, motion)).abs().amax((0, 1)) > 1e-12
    assert changes.nonzero().flatten().tolist() == [4], "of all normals at once: only which side is the inside"


# -- contact by hand ---------------------------------------------------------------------------------------


def ball(count: int = 300) -> Tensor:
    """Places about evenly on the unit sphere, along a spiral: their own normals."""
    k = torch.arange(count).double()
    height, angle = 1 - (2 * k + 1) / count, k * math.pi * (3 - math.sqrt(5))
    radius = torch.sqrt(1 - height**2)
    return torch.stack([radius * torch.cos(angle), radius * torch.sin(angle), height], dim=1)


def along_x(distances: list[float]) -> SE3:
    """(1, K) shifts."""
    shift = torch.tensor(distances, dtype=torch.float64)[:, None] * torch.tensor([1.0, 0.0, 0.0]).double()
    return SE3(torch.eye(3).double().expand(1, len(distances), 3, 3), shift[None])


def test_the_further_a_ball_is_pushed_into_another_the_more_of_it_is_inside():
    """A quarter deep in a unit ball at a distance D: the cap of p with |p - D e|^2 < (3/4)^2."""
    places = ball()
    matches = matches_by_hand([places] * 2, [torch.eye(300).double()], normals=[places] * 2)
    assert DEEP * matches.reach == 0.25
    distances = [3.0, 2.0, 1.7, 1.6, 1.5, 1.3, 1.0, 0.7]
    share = contact_features(matches, torch.tensor([0]), along_x(distances))[0, :, 4].exp() - 1e-3
    expected = [max(1 - (0.4375 + D**2) / (2 * D), 0) / 2 for D in distances]
    assert_near_and_nonzero(share, torch.tensor(expected, dtype=torch.float64), 0.015)
    assert (share[:2].abs() < 1e-12).all(), "balls that touch are not inside each other"
    assert (share[2:] > share[1:-1] + 1e-3).all()


def test_contact_of_a_ball_in_its_mould_by_hand():
    """All faces the other, at no distance. One half is shared with probability 1, and matches with 1; the other half
    with 1/4, and does not match at all.
    """
    places, upper = ball(200), torch.arange(200) < 100
    shared, sure = torch.where(upper, 1.0, 0.25).double(), torch.diag(upper.double())
    matches = matches_by_hand([places] * 2, [sure], normals=[places, -places], shared=[shared] * 2)
    still = along_x([0.0])
    unlikely = 0.5 * math.exp(MIN_LOG_WEIGHT / TEMPERATURE)
    shares = [1.0, 1.0, 1.0, 0.0, 0.0, 0.375, (1 + 0.0625) / 2, 0.5 + unlikely]
    logs = [math.log(share + 1e-3) for share in shares]
    others = [250 / (250 + 1e-3), 0.0, 0.5 * MIN_LOG_WEIGHT / TEMPERATURE, 1.0]
    found = contact_features(matches, torch.tensor([0]), still)[0, 0]
    assert_near_and_nonzero(found, torch.tensor([*logs, *others], dtype=torch.float64), 1e-9)
    alike = replace(matches, normals=torch.stack([places, places]))
    found = contact_features(alike, torch.tensor([0]), still)[0, 0]
    logs = [math.log(share + 1e-3) for share in [1.0, 0, 0, 1.0, 0, 0, 0, 0]]
    assert_near_and_nonzero(found, torch.tensor([*logs, 0, 0, 0, -1.0], dtype=torch.float64), 1e-9)


# -- of any motions of any pairs of sherds -------------------------------------------------------------------


def contacts_of(matches: SoftCorrespondences, count: int = 11) -> ContactScorer:
    """With any matches as the surest, of any places."""
    pairs = len(matches.first)
    here, there = (0.5 * drawn(pairs, count, 3, seed=seed) for seed in (70, 71))
    weight = drawn(pairs, count, seed=72).exp()
    return ContactScorer(matches, weight, here, there, 0.3, torch.tensor([2.0, 0.5, 3.0]).double())


def support_by_loop(known: ContactScorer, pair: int, motion: SE3) -> list[float]:
    support, total = 0.0, 0.0
    R, t = motion.rotation.numpy(), motion.translation.numpy()
    for w, p, q in zip(
        known.weights[pair].tolist(), known.source[pair].numpy(), known.target[pair].numpy(), strict=True
    ):
        support += w * math.exp(-(math.dist(R @ p + t, q) ** 2) / (2 * known.radius**2))
        total += w
    behind = math.log(support + 1e-6) - math.log(float(known.best_support[pair]) + 1e-6)
    return [math.log(support + 1e-6), support / (total + 1e-6), behind]


def test_evidence_of_sherds_is_the_support_of_matches_and_how_places_touch():
    matches, motion = pieces_at_random(), motions_at_random()
    known = contacts_of(matches)
    found = known.features(PAIR, motion)
    assert found.shape == (5, 6, num_features(complementary=True)) == (5, 6, 15)
    expected = [
        [
            [*support_by_loop(known, int(q), motion[r, k]), *contact_by_loop(matches, int(q), motion[r, k])]
            for k in range(6)
        ]
        for r, q in enumerate(PAIR)
    ]
    assert_near_and_nonzero(found, torch.tensor(expected, dtype=torch.float64), 1e-11)


def test_support_by_hand():
    """Of two matches, of 2 and of 1, motions satisfy both, one and none; those of the second pair weigh nothing."""
    matches = replace(pieces_at_random(), first=torch.tensor([0, 0]), second=torch.tensor([1, 2]))
    points = torch.tensor([[0.0, 0, 0], [50, 0, 0]]).double().expand(2, 2, 3)
    weight = torch.tensor([[2.0, 1.0], [0.0, 0.0]]).double()
    known = ContactScorer(matches, weight, points, points, 0.3, torch.tensor([3.0, 0.0]).double())
    turned = torch.from_numpy(np.diag([-1.0, -1.0, 1.0]))  # about the first point
    rotation = torch.stack([torch.eye(3).double(), turned, torch.eye(3).double()]).expand(2, 3, 3, 3)
    motion = SE3(rotation, torch.tensor([[0.0, 0, 0], [0, 0, 0], [0, 9, 0]]).double().expand(2, 3, 3))
    none = math.log(1e-6)
    expected = [
        [[math.log(3), 1.0, 0.0], [math.log(2), 2 / 3, math.log(2 / 3)], [none, 0.0, none - math.log(3)]],
        [[none, 0.0, 0.0]] * 3,
    ]
    found = known.features(torch.tensor([0, 1]), motion)[..., :3]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=2e-6)


def test_the_reach_is_the_unit_of_all_lengths_of_contact():
    """Pieces twice as large, at twice the reach."""
    matches, motion = pieces_at_random(), motions_at_random()
    assert matches.reach == REACH
    large = replace(matches, places=2 * matches.places, reach=2 * REACH)
    wide = SE3(motion.rotation, 2 * motion.translation)
    assert_near_and_nonzero(contact_features(large, PAIR, wide), contact_features(matches, PAIR, motion), 1e-10)


# -- of any motions of any pairs of scans --------------------------------------------------------------------


def scans(sizes: tuple[int, ...] = (40, 31, 52)) -> tuple[Surface, ...]:
    """Of the same pieces, with points of their own, which are not their places."""
    return tuple(
        Surface(0.3 * drawn(size, 3, seed=30 + k).numpy(), unit(drawn(size, 3, seed=40 + k)).numpy(), 0.1)
        for k, size in enumerate(sizes)
    )


def overlaps_of(matches: SoftCorrespondences) -> OverlapScorer:
    return OverlapScorer(matches, scans())


def test_the_surfaces_of_a_pair_are_those_of_its_first_and_second_piece():
    matches, surfaces = pieces_at_random(), scans()
    for some in (matches, swapped(matches)):
        known = OverlapScorer(some, surfaces)
        for q, (i, j) in enumerate(zip(some.first.tolist(), some.second.tolist(), strict=True)):
            here, there = known.of_pair(q)
            assert here is surfaces[i]
            assert there is surfaces[j]


def test_evidence_of_scans_is_the_agreement_of_their_surfaces_motion_by_motion():
    """However often, and in whatever order, pairs are asked for; by how many spreads it is more than usual."""
    known, motion = overlaps_of(pieces_at_random()), motions_at_random()
    pieces = {0: (0, 1), 1: (0, 2), 2: (1, 2)}
    for rows in ([2, 0, 0, 1, 2], [0, 1, 2, 1, 0], [1] * 5, [2, 2, 2, 0, 0]):
        found = known.features(torch.tensor(rows), motion)
        assert found.shape == (5, 6, num_features(complementary=False)) == (5, 6, 12)
        for r, q in enumerate(rows):
            here, there = (known.surfaces[piece] for piece in pieces[q])
            each = [overlap(here, there, motion[r, k : k + 1])[0] for k in range(6)]
            expected = [[(x - u) / s for x, u, s in zip(one.tolist(), MEANS, SCALES, strict=True)] for one in each]
            assert_near_and_nonzero(found[r], torch.tensor(expected, dtype=torch.float64), 1e-10)
    assert found[:, :-1].flatten(0, 1).std(0).min() > 1e-3
    assert found[:, -1].std(0).max() < 1e-9, "where nothing is near, there is nothing to tell apart"


def test_evidence_of_scans_does_not_see_what_was_matched():
    known, motion = overlaps_of(pieces_at_random()), motions_at_random()
    other = replace(known, matches=replace(known.matches, weights=drawn(3, 17, 17).exp(), places=drawn(3, 17, 3)))
    assert torch.equal(other.features(PAIR, motion), known.features(PAIR, motion))


def test_evidence_of_scans_does_not_see_the_signs_of_normals_and_is_finite_without_any():
    known, motion = overlaps_of(pieces_at_random()), motions_at_random()
    for sign in (np.sign, np.zeros_like):
        surfaces = tuple(
            replace(of, normals=of.normals * sign(drawn(len(of.points), 1, seed=k).numpy()))
            for k, of in enumerate(known.surfaces)
        )
        found = replace(known, surfaces=surfaces).features(PAIR, motion)
        assert found.isfinite().all()
        if sign is np.sign:
            assert_near_and_nonzero(found, known.features(PAIR, motion), 1e-11)


# -- of both -------------------------------------------------------------------------------------------------

KINDS = {"contacts": contacts_of, "overlaps": overlaps_of}
of_both_kinds = pytest.mark.parametrize("kind", KINDS)


def with_matches(known: PairScorer, matches: SoftCorrespondences, poses: SE3 | None = None) -> PairScorer:
    """The same, of places that were moved (N,) or whose pairs were turned round; all that belongs to these as well."""
    if isinstance(known, OverlapScorer):
        if poses is None:
            return replace(known, matches=matches)
        each = [moved_surface(of, poses[k]) for k, of in enumerate(known.surfaces)]
        return OverlapScorer(matches, tuple(each))
    if poses is None:
        return replace(known, matches=matches, source=known.target, target=known.source)
    here, there = poses[matches.first].reshape(-1, 1), poses[matches.second].reshape(-1, 1)
    return replace(known, matches=matches, source=here.act(known.source), target=there.act(known.target))


@of_both_kinds
def test_evidence_does_not_see_the_frames_of_pieces(kind):
    matches, motion, poses = pieces_at_random(), motions_at_random(), random_se3(3, seed=4, spread=3.0)
    known = KINDS[kind](matches)
    other = with_matches(known, moved(matches, poses), poses)
    here, there = poses[matches.first].reshape(-1, 1), poses[matches.second].reshape(-1, 1)
    conjugate = there[PAIR] @ motion @ here[PAIR].inverse()
    assert_near_and_nonzero(other.features(PAIR, conjugate), known.features(PAIR, motion), 1e-9)


@of_both_kinds
def test_evidence_does_not_see_which_piece_comes_first(kind):
    matches, motion = pieces_at_random(), motions_at_random()
    known = KINDS[kind](matches)
    other = with_matches(known, swapped(matches))
    assert_near_and_nonzero(other.features(PAIR, motion.inverse()), known.features(PAIR, motion), 1e-10)


@of_both_kinds
@pytest.mark.parametrize("order", [[1, 0, 2], [2, 0, 1], [2, 1, 0]])
def test_evidence_does_not_see_the_order_of_pieces(kind, order):
    """Of sherds, how their places touch."""
    matches, motion = pieces_at_random(), motions_at_random()[:3]
    other, rows, turned = reordered(matches, order)
    ways = motion[rows].inverse().where(torch.tensor(turned)[:, None], motion[rows])
    every = torch.arange(3)
    if kind == "contacts":
        found, expected = contact_features(other, every, ways), contact_features(matches, every, motion)
    else:
        surfaces = tuple(scans()[piece] for piece in order)
        found, expected = (
            OverlapScorer(other, surfaces).features(every, ways),
            overlaps_of(matches).features(every, motion),
        )
    assert_near_and_nonzero(found, expected[rows], 1e-10)


@of_both_kinds
def test_evidence_of_no_motion_is_none_and_that_of_others_has_their_precision(kind):
    """Surfaces are compared in float64, whatever the motions are in."""
    matches, motion = pieces_at_random(), motions_at_random()
    known = KINDS[kind](matches)
    expected = known.features(PAIR, motion)
    assert expected.dtype == torch.float64
    assert known.features(PAIR[:0], motion[:0]).shape == (0, 6, expected.shape[-1])
    names = ("places", "normals", "shared", "weights")
    single = replace(known, matches=replace(matches, **{name: getattr(matches, name).float() for name in names}))
    if kind == "contacts":
        single = replace(
            single, **{name: getattr(known, name).float() for name in ("weights", "source", "target", "best_support")}
        )
    rough = motion.to(torch.float32)
    found = single.features(PAIR, rough)
    assert found.dtype == torch.float32
    if kind == "overlaps":
        expected = known.features(PAIR, rough.to(torch.float64))
    assert_near_and_nonzero(found.double(), expected, 1e-3 if kind == "contacts" else 2e-5)
