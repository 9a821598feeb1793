"""Chance in training: crops, joins, mirror images, noise, lost and foreign pieces, with labels that stay true."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import kstest, norm, rayleigh, uniform
from support.lumpy_shapes import lumpy_cloud
from support.small_datasets import lumpy_example

from eda import InputError
from eda.data import LOST, OUTER, Example
from eda.data.augment import (
    Augmentation,
    add_noise,
    crop,
    join_pieces,
    mirror_image,
    with_foreign_piece,
    without_piece,
)
from eda.data.fracture import FractureConfig, FractureSource


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def labelled(*contact: list[int], seed: int = 0) -> Example:
    """One piece for every list of labels, one point for every label."""
    clouds = [lumpy_cloud(seed + i, len(labels))[0] for i, labels in enumerate(contact)]
    return Example.from_clouds(
        "labelled", clouds, clouds, [np.array(labels) for labels in contact]
    ).sort_farthest_first()


def rows_of(part: np.ndarray, whole: np.ndarray) -> list[int]:
    """Which rows of the whole the part consists of."""
    places = {point.tobytes(): row for row, point in enumerate(whole)}
    return [places[point.tobytes()] for point in part]


def same(a: Example, b: Example) -> bool:
    names = ("points", "sizes", "normals", "contact", "foreign", "gaps")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


# -- crops -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [0.3, 0.7, 1.0])
def test_a_crop_keeps_its_share_of_every_piece(keep):
    example = lumpy_example(0, 4, 100)
    shares = np.concatenate([crop(example, keep, rng(seed)).sizes / example.sizes for seed in range(50)])
    assert shares.min() >= keep - 0.01
    assert shares.max() <= 1
    assert shares.mean() == pytest.approx((keep + 1) / 2, abs=0.03), "uniform in [keep, 1]"


def test_a_crop_is_a_cut_by_a_plane():
    """What is kept and what is cut away can be told apart by a plane: by a linear programme without a solution else."""
    from scipy.optimize import linprog

    example = lumpy_example(1, 3, 60)
    cut = crop(example, 0.4, rng(3))
    for whole, part in zip(example.clouds(), cut.clouds(), strict=True):
        kept = np.isin(np.arange(len(whole)), rows_of(part, whole))
        assert kept.sum() == len(part) < len(whole)
        side = np.where(kept, 1.0, -1.0)[:, None] * np.hstack([whole, np.ones((len(whole), 1))])
        assert linprog(np.zeros(4), A_ub=side, b_ub=-np.ones(len(whole)), bounds=(None, None)).status == 0


def test_pieces_are_cut_in_directions_of_their_own():
    """Of twins that are cut in the same direction, one is a part of the other."""
    cloud = lumpy_cloud(0, 80)[0]
    twins = Example.from_clouds("twins", [cloud, cloud])
    cuts = [crop(twins, 0.3, rng(seed)).clouds() for seed in range(10)]
    pairs = [[set(rows_of(part, twins.clouds()[0])) for part in cut] for cut in cuts]
    assert any(not first <= second and not second <= first for first, second in pairs)


def test_labels_follow_a_crop_and_its_order_is_forgotten():
    example = lumpy_example(0, 3, 60).sort_farthest_first()
    cut = crop(example, 0.5, rng(1))
    rows = rows_of(cut.points, example.points)
    assert np.array_equal(cut.contact, example.contact[rows])
    assert np.array_equal(cut.normals, example.normals[rows])
    assert cut.gaps is None, "the farthest-point order of a part is another one"
    assert sum(cut.sizes) == len(cut.points)


@pytest.mark.parametrize("size", [4, 5, 9])
def test_a_crop_leaves_enough_to_orient_a_piece(size):
    example = Example.from_clouds("small", [lumpy_cloud(i, size)[0] for i in range(2)])
    assert min(crop(example, 0.0, rng(seed)).sizes.min() for seed in range(20)) == 4


# -- joined pieces -----------------------------------------------------------------------------------------


def broken(item: int, pieces: int = 7) -> Example:
    """A real puzzle of the generator: who touches whom is known exactly."""
    config = FractureConfig(min_pieces=pieces, max_pieces=pieces, num_points=1200)
    return FractureSource(config, seed=5, shapes=("stone", "bowl", "figurine", "tablet"))[item]


def parts_of(joined: Example, example: Example) -> list[set[int]]:
    """The pieces of the example whose points every joined piece has; every point is looked up, with its normal."""
    owner = np.repeat(np.arange(example.num_pieces), example.sizes)
    found = []
    for points, normals in zip(joined.clouds(), joined.clouds(joined.normals), strict=True):
        rows = rows_of(points, example.points)
        assert len(set(rows)) == len(rows)
        assert np.array_equal(normals, example.normals[rows])
        found.append(set(owner[rows].tolist()))
    return found


def touching(example: Example) -> set[frozenset[int]]:
    """The pairs of pieces that touch, point after point."""
    owner = np.repeat(np.arange(example.num_pieces), example.sizes)
    return {frozenset((int(a), int(b))) for a, b in zip(owner, example.contact, strict=True) if b >= 0}


def is_connected(parts: set[int], pairs: set[frozenset[int]]) -> bool:
    """Whether one can walk from any part to any other over pairs within them."""
    reached = {min(parts)}
    while more := {b for pair in pairs if pair <= parts and pair & reached for b in pair} - reached:
        reached |= more
    return reached == parts


@pytest.mark.parametrize("item", range(6))
def test_a_joined_puzzle_is_a_puzzle_of_the_same_object(item):
    """The law of joining, by a walk over every point."""
    example = broken(item).sort_farthest_first()
    for seed in range(8):
        joined = join_pieces(example, rng(seed))
        joined.check()
        assert 2 <= joined.num_pieces < example.num_pieces
        parts = parts_of(joined, example)
        assert sorted(piece for each in parts for piece in each) == list(range(example.num_pieces))
        assert all(is_connected(each, touching(example)) for each in parts)
        group = {piece: number for number, each in enumerate(parts) for piece in each}
        owner = np.repeat(np.arange(example.num_pieces), example.sizes).tolist()
        kept = [
            (point.tobytes(), group[a], group.get(b, b))
            for point, a, b in zip(example.points, owner, example.contact.tolist(), strict=True)
            if b < 0 or group[a] != group[b]
        ]
        now = zip(
            joined.points, np.repeat(np.arange(len(parts)), joined.sizes).tolist(), joined.contact.tolist(), strict=True
        )
        assert sorted((point.tobytes(), a, b) for point, a, b in now) == sorted(kept)
        assert joined.contact.dtype == np.int16
        assert joined.gaps is None, "the farthest-point order of the joined piece is another one"


def test_what_lay_between_joined_pieces_is_gone_and_labels_are_renumbered():
    """A chain 0 - 1 - 2, which can be joined in two ways."""
    row = [OUTER, OUTER, OUTER, LOST]
    example = labelled([*row, 1, 1], [*row, 0, 2, 2], [*row, 1])
    points, contact = example.clouds(), example.clouds(example.contact)
    seen = set()
    for seed in range(20):
        joined = join_pieces(example, rng(seed))
        first = joined.sizes.tolist() == [10, 5]  # pieces 0 and 1 were joined, else 1 and 2
        pieces, names = (
            ((0, 1), {OUTER: OUTER, LOST: LOST, 2: 1}) if first else ((1, 2), {OUTER: OUTER, LOST: LOST, 0: 0})
        )
        keep = [~np.isin(contact[a], [b for b in pieces if a in pieces and b != a]) for a in range(3)]
        assert np.array_equal(joined.points, np.concatenate([points[a][keep[a]] for a in range(3)]))
        expected = [names.get(int(v), 0 if first else 1) for a in range(3) for v in contact[a][keep[a]]]
        assert joined.contact.tolist() == expected
        seen.add(first)
    assert seen == {True, False}


def test_every_smaller_number_of_pieces_is_as_likely():
    example = broken(0, pieces=6)
    counts = np.bincount([join_pieces(example, chance).num_pieces for chance in [rng(3)] for _ in range(400)])
    assert counts.tolist()[:2] == [0, 0]
    assert len(counts) == 6
    assert all(70 <= count <= 130 for count in counts[2:]), counts


def test_foreign_pieces_are_not_joined_and_stay_foreign():
    example = broken(1, pieces=4)
    mixed = with_foreign_piece(with_foreign_piece(example, lumpy_example(1, 2), rng()), lumpy_example(2, 2), rng())
    first = replace(mixed, foreign=None).rows(np.roll(np.arange(len(mixed.points)), 45), np.roll(mixed.sizes, 1))
    assert mixed.sizes[-1] == 45
    first = replace(
        first, foreign=np.roll(mixed.foreign, 1), contact=np.where(first.contact < 0, first.contact, first.contact + 1)
    )
    for seed in range(10):
        joined = join_pieces(first, rng(seed))
        assert joined.foreign.tolist() == [True] + [False] * (joined.num_pieces - 2) + [True]
        assert 2 <= joined.own.sum() < 4
        for piece in (0, -1):
            assert np.array_equal(joined.clouds()[piece], first.clouds()[piece])
            assert np.array_equal(joined.clouds(joined.contact)[piece], first.clouds(first.contact)[piece])


def test_a_foreign_piece_is_not_joined_even_if_labels_say_that_it_touches():
    example = replace(lumpy_example(0, 4), foreign=np.array([False, False, True, False]))  # 0 - 1 - 2 - 3 - 0
    for seed in range(10):
        joined = join_pieces(example, rng(seed))
        assert joined.own.sum() == 2
        assert any(np.array_equal(joined.clouds()[i], example.clouds()[2]) for i in np.flatnonzero(joined.foreign))


@pytest.mark.parametrize(
    "example",
    [
        replace(lumpy_example(0, 4), contact=None),
        lumpy_example(0, 2).sort_farthest_first(),
        replace(lumpy_example(0, 4), contact=np.full(190, OUTER, dtype=np.int16)),
        replace(lumpy_example(0, 3), foreign=np.array([False, False, True])),
    ],
    ids=["without labels", "two pieces", "pieces that do not touch", "two pieces and a foreign one"],
)
def test_what_cannot_be_joined_stays_as_it_is(example):
    assert join_pieces(example, rng()) is example


def test_joining_never_leaves_too_little_of_a_piece():
    """Pieces 0 and 1 joined would have three points. With a part of the others they have enough."""
    full = [OUTER] * 6
    example = labelled([OUTER, 1, 1, 1, 1], [OUTER, 0, 0, 0, 2], [*full, 1, 3], [*full, 2])
    joined = [join_pieces(example, rng(seed)) for seed in range(40)]
    assert min(each.sizes.min() for each in joined) >= 4
    assert {each.num_pieces for each in joined} == {2, 3}
    assert any(each.sizes.tolist() == [9, 7] for each in joined), "0 and 1 are joined in larger company"


def test_a_piece_without_normals_and_flags_can_be_joined():
    joined = join_pieces(replace(broken(2, pieces=3), normals=None, foreign=None), rng())
    assert joined.num_pieces == 2
    assert joined.normals is None
    assert joined.foreign is None


def test_who_asks_for_no_joining_draws_as_before_and_joining_comes_first():
    example, settings = broken(3, pieces=5).sort_farthest_first(), dict(keep=0.6, mirror=0.5, drop=0.5, foreign=0.5)
    for seed in range(10):
        for join in (0.0, 0.5):
            chance, found = rng(seed), rng(seed)
            expected = join_pieces(example, chance) if join and chance.random() < join else example
            expected = crop(expected, 0.6, chance)
            if chance.random() < 0.5:
                expected = mirror_image(expected)
            if chance.random() < 0.5 and expected.num_pieces > 2:
                expected = without_piece(expected, int(chance.integers(expected.num_pieces)))
            if chance.random() < 0.5:
                expected = with_foreign_piece(expected, another(), chance)
            assert same(Augmentation(join=join, **settings)(example, found, another()), expected)
            assert found.random() == chance.random()


# -- mirror images -----------------------------------------------------------------------------------------


def volumes(vectors: np.ndarray) -> np.ndarray:
    """Of the parallelepipeds that every three vectors in a row span: their signs are the handedness."""
    return np.linalg.det(np.stack([vectors[:-2], vectors[1:-1], vectors[2:]], axis=1).astype(np.float64))


def test_a_mirror_image_keeps_distances_and_changes_hands():
    example = lumpy_example(0, 3, 40).sort_farthest_first()
    image = mirror_image(example)
    np.testing.assert_allclose(pdist(image.points), pdist(example.points), rtol=1e-6)
    assert abs(volumes(example.points)).max() > 1e-3
    np.testing.assert_allclose(volumes(image.points), -volumes(example.points), rtol=1e-6)


def test_normals_follow_a_mirror_image_and_all_else_stays():
    example = replace(lumpy_example(0, 3, 40), foreign=np.array([False, True, False])).sort_farthest_first()
    image = mirror_image(example)
    np.testing.assert_allclose(volumes(image.normals), -volumes(example.normals), rtol=1e-6)
    lean = [np.einsum("pd,qd->pq", e.points, e.normals) for e in (example, image)]
    np.testing.assert_allclose(lean[1], lean[0], atol=1e-6, err_msg="normals lean to points as they did")
    np.testing.assert_allclose(
        np.linalg.norm(image.normals, axis=1), np.linalg.norm(example.normals, axis=1), rtol=1e-6
    )
    for name in ("sizes", "contact", "foreign", "gaps"):
        assert np.array_equal(getattr(image, name), getattr(example, name)), name
    assert image.name == example.name
    assert image.points.dtype == image.normals.dtype == np.float32
    assert same(mirror_image(image), example)


def test_the_order_of_a_mirror_image_is_that_of_the_example():
    """Farthest points are as far in a mirror: the gaps are true as they are."""
    example = lumpy_example(0, 2, 40)
    assert np.array_equal(
        mirror_image(example.sort_farthest_first()).gaps, mirror_image(example).sort_farthest_first().gaps
    )


def test_a_mirror_image_without_normals_has_none():
    assert mirror_image(lumpy_example(0, 2, normals=False)).normals is None


def test_who_asks_for_no_mirror_image_draws_as_before():
    """What a seed does is written down here: crop, drop and foreign draw as they did before there were mirrors."""
    example, settings = lumpy_example(0, 4, 50).sort_farthest_first(), dict(keep=0.6, drop=0.5, foreign=0.5)
    for seed in range(10):
        chance = rng(seed)
        expected = crop(example, 0.6, chance)
        if chance.random() < 0.5:
            expected = without_piece(expected, int(chance.integers(4)))
        if chance.random() < 0.5:
            expected = with_foreign_piece(expected, another(), chance)
        assert same(Augmentation(mirror=0.0, **settings)(example, rng(seed), another()), expected)


# -- noise -------------------------------------------------------------------------------------------------


def angles(a: Example, b: Example) -> np.ndarray:
    """Between the normals of two examples, in radians."""
    one, other = (e.normals.astype(np.float64) for e in (a, b))
    return np.arctan2(np.linalg.norm(np.cross(one, other), axis=1), (one * other).sum(axis=1))


def across(example: Example, changed: Example) -> np.ndarray:
    """(P,) in which direction across itself a normal was tilted, as an angle from any one."""
    normals, tilted = (e.normals.astype(np.float64) for e in (example, changed))
    one = np.cross(normals, np.eye(3)[np.abs(normals).argmin(axis=1)])
    return np.arctan2((tilted * np.cross(normals, one)).sum(axis=1), (tilted * one).sum(axis=1))


def many(seed: int = 0) -> Example:
    return lumpy_example(seed, 3, 3000)


def test_points_are_moved_by_a_normal_distribution_each_for_itself():
    example = many()
    moved = (add_noise(example, 0.05, 0.0, rng()).points - example.points).astype(np.float64)
    assert all(kstest(column, norm(0, 0.05).cdf).pvalue > 1e-3 for column in moved.T)
    shared = np.corrcoef(np.hstack([moved[:-1], moved[1:]]).T) - np.eye(6)
    assert abs(shared).max() < 0.05, "neither with another coordinate nor with the next point"
    assert moved.std() == pytest.approx(0.05, rel=0.02)
    twice = (add_noise(example, 0.1, 0.0, rng()).points - example.points).astype(np.float64)
    np.testing.assert_allclose(twice, 2 * moved, atol=2e-6, err_msg="the noise is a factor")


@pytest.mark.parametrize("tilt", [0.02, 0.1])
def test_normals_are_tilted_as_far_as_a_plane_normal_distribution_has_it_and_stay_units(tilt):
    """In both directions across a normal by the same standard deviation: how far is a Rayleigh distribution."""
    example = many()
    changed = add_noise(example, 0.0, tilt, rng(1))
    assert np.array_equal(changed.points, example.points)
    np.testing.assert_allclose(np.linalg.norm(changed.normals.astype(np.float64), axis=1), 1, atol=1e-6)
    assert kstest(angles(example, changed), rayleigh(scale=tilt).cdf).statistic < 0.03
    assert kstest(across(example, changed), uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3
    drawn = example.normals + tilt * rng(9).normal(size=example.normals.shape)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    expected = angles(example, replace(example, normals=drawn))
    for share in (0.1, 0.5, 0.9):
        quantiles = [np.quantile(of, share) for of in (angles(example, changed), expected)]
        assert quantiles[0] == pytest.approx(quantiles[1], rel=0.05)


def test_points_and_normals_are_changed_by_chance_of_their_own():
    example = many()
    changed = add_noise(example, 0.05, 0.1, rng())
    moved, tilted = (np.subtract(a, b, dtype=np.float64) for a, b in (
        (changed.points, example.points), (changed.normals, example.normals)
    ))  # fmt: skip
    assert abs(np.corrcoef(np.hstack([moved, tilted]).T)[:3, 3:]).max() < 0.05


def test_noise_changes_neither_labels_nor_the_order_of_points_but_that_is_no_longer_known():
    example = replace(lumpy_example(0, 3, 40), foreign=np.array([False, True, False])).sort_farthest_first()
    assert example.gaps is not None
    changed = add_noise(example, 0.01, 0.05, rng())
    for name in ("sizes", "contact", "foreign"):
        assert np.array_equal(getattr(changed, name), getattr(example, name)), name
    assert changed.name == example.name
    assert changed.gaps is None, "the farthest-point order of other points is another one"
    assert changed.points.dtype == changed.normals.dtype == np.float32
    assert 0 < abs(changed.points - example.points).max() < 0.1


def test_noise_of_none_leaves_all_but_the_gaps():
    example = lumpy_example(0, 3, 40).sort_farthest_first()
    still = add_noise(example, 0.0, 0.0, rng())
    assert np.array_equal(still.points, example.points)
    np.testing.assert_allclose(still.normals, example.normals, atol=1e-7)


def test_pieces_without_normals_are_moved_and_have_none():
    example = lumpy_example(0, 2, normals=False)
    changed = add_noise(example, 0.05, 0.3, rng(4))
    assert changed.normals is None
    assert not np.array_equal(changed.points, example.points)
    with_normals = add_noise(lumpy_example(0, 2), 0.05, 0.3, rng(4))
    assert np.array_equal(changed.points, with_normals.points), "normals are drawn after points"


def test_how_noisy_an_example_is_is_drawn_from_none_to_the_most():
    """Uniformly, and how far normals are tilted whatever the noise is."""
    augmentation, example = Augmentation(noise=0.08, tilt=0.1), lumpy_example(0, 2, 300)
    chance = rng()
    changed = [augmentation(example, chance, None) for _ in range(600)]
    noise = np.array([np.std(e.points.astype(np.float64) - example.points) for e in changed]) / 0.08
    tilt = np.array([np.sqrt(np.square(angles(example, e)).mean() / 2) for e in changed]) / 0.1
    for share in (noise, tilt):
        assert kstest(share, uniform.cdf).pvalue > 1e-3
        assert share.max() < 1.1
    assert abs(np.corrcoef(noise, tilt)[0, 1]) < 0.2


@pytest.mark.parametrize("setting", [dict(noise=0.05), dict(tilt=0.2)])
def test_who_asks_for_one_kind_of_noise_has_none_of_the_other(setting):
    example = lumpy_example(0, 3, 40)
    changed = Augmentation(**setting)(example, rng(2), None)
    moved, tilted = abs(changed.points - example.points).max(), angles(example, changed).max()
    assert (moved > 1e-3) == ("noise" in setting)
    assert (tilted > 1e-3) == ("tilt" in setting)
    assert moved == 0 or tilted < 1e-6


def test_noise_comes_after_crop_and_mirror_and_before_a_piece_is_lost_and_another_joins():
    """What a seed does is written down here; a piece of another example joins as it is."""
    example = lumpy_example(0, 4, 50).sort_farthest_first()
    settings = dict(keep=0.6, mirror=0.5, noise=0.02, tilt=0.1, drop=0.5, foreign=0.5)
    for seed in range(10):
        chance = rng(seed)
        expected = crop(example, 0.6, chance)
        if chance.random() < 0.5:
            expected = mirror_image(expected)
        noise = 0.02 * chance.random()
        expected = add_noise(expected, noise, 0.1 * chance.random(), chance)
        if chance.random() < 0.5:
            expected = without_piece(expected, int(chance.integers(4)))
        if chance.random() < 0.5:
            expected = with_foreign_piece(expected, another(), chance)
        assert same(Augmentation(**settings)(example, rng(seed), another()), expected)


def test_who_asks_for_no_noise_draws_as_before():
    example, settings = (
        lumpy_example(0, 4, 50).sort_farthest_first(),
        dict(keep=0.6, mirror=0.5, drop=0.5, foreign=0.5),
    )
    for seed in range(10):
        chance = rng(seed)
        expected = crop(example, 0.6, chance)
        if chance.random() < 0.5:
            expected = mirror_image(expected)
        if chance.random() < 0.5:
            expected = without_piece(expected, int(chance.integers(4)))
        if chance.random() < 0.5:
            expected = with_foreign_piece(expected, another(), chance)
        found = rng(seed)
        assert same(Augmentation(noise=0.0, tilt=0.0, **settings)(example, found, another()), expected)
        assert found.random() == chance.random()
    mirror = Augmentation(mirror=1.0)(example, rng(), None)
    assert np.array_equal(mirror.gaps, example.gaps), "gaps are dropped by noise alone"


# -- lost pieces -------------------------------------------------------------------------------------------


def test_what_touched_a_lost_piece_still_lies_on_a_break():
    example = labelled([OUTER, 1, 2, 3, LOST], [0, 2, OUTER, 3], [1, 1, 0, 3, 3], [2, OUTER, 0, 1])
    left = without_piece(example, 1)
    names = {OUTER: OUTER, LOST: LOST, 0: 0, 1: LOST, 2: 1, 3: 2}
    kept = [0, 2, 3]
    expected = np.concatenate([[names[int(v)] for v in example.clouds(example.contact)[piece]] for piece in kept])
    assert left.contact.tolist() == expected.tolist()
    assert left.contact.dtype == np.int16
    assert np.array_equal(left.points, np.concatenate([example.clouds()[piece] for piece in kept]))
    assert np.array_equal(left.normals, np.concatenate([example.clouds(example.normals)[piece] for piece in kept]))
    assert np.array_equal(left.gaps, np.concatenate([example.clouds(example.gaps)[piece] for piece in kept]))
    assert left.sizes.tolist() == [5, 5, 4]
    on_break = [example.clouds(example.on_break)[piece] for piece in kept]
    assert np.array_equal(left.on_break, np.concatenate(on_break)), "no point leaves its break"


@pytest.mark.parametrize("piece", [0, 3])
def test_the_first_and_the_last_piece_can_be_lost(piece):
    example = lumpy_example(0, 4)
    left = without_piece(example, piece)
    assert left.sizes.tolist() == np.delete(example.sizes, piece).tolist()
    assert left.contact.max() < 3


def test_foreign_pieces_stay_foreign_when_another_is_lost():
    example = replace(lumpy_example(0, 4), foreign=np.array([False, False, True, False]))
    assert without_piece(example, 0).own.tolist() == [True, False, True]
    assert without_piece(example, 2).own.tolist() == [True, True, True]


def test_pieces_without_labels_can_be_lost():
    assert without_piece(replace(lumpy_example(0, 3), contact=None), 0).contact is None


# -- foreign pieces ----------------------------------------------------------------------------------------


def test_a_foreign_piece_is_marked_and_keeps_its_breaks():
    mine, other = lumpy_example(0, 3).sort_farthest_first(), labelled([OUTER, 0, LOST, 2, 1], seed=50)
    mixed = with_foreign_piece(mine, other, rng())
    assert mixed.name == mine.name
    assert mixed.own.tolist() == [True, True, True, False]
    assert mixed.sizes.tolist() == [*mine.sizes, 5]
    for name in ("points", "normals", "gaps"):
        assert np.array_equal(getattr(mixed, name), np.concatenate([getattr(mine, name), getattr(other, name)])), name
    assert np.array_equal(mixed.contact[:-5], mine.contact)
    assert np.array_equal(mixed.contact[-5:], np.where(other.contact == OUTER, OUTER, LOST))
    assert mixed.contact.dtype == np.int16


def test_any_piece_of_the_other_may_come():
    mine, other = lumpy_example(0, 2), lumpy_example(1, 3)
    came = {int(with_foreign_piece(mine, other, rng(seed)).sizes[-1]) for seed in range(30)}
    assert came == set(other.sizes.tolist())
    for seed in range(3):
        piece = with_foreign_piece(mine, other, rng(seed)).clouds()[-1]
        assert any(np.array_equal(piece, cloud) for cloud in other.clouds())


def test_what_only_one_knows_is_not_known_of_the_mix():
    mine = lumpy_example(0, 2).sort_farthest_first()
    assert with_foreign_piece(mine, lumpy_example(1, 2, normals=False), rng()).normals is None
    assert with_foreign_piece(mine, replace(lumpy_example(1, 2), contact=None), rng()).contact is None
    assert with_foreign_piece(mine, lumpy_example(1, 2), rng()).gaps is None


# -- all of them -------------------------------------------------------------------------------------------


def another() -> Example:
    return lumpy_example(9, 2).sort_farthest_first()


def test_nothing_happens_by_default():
    example = lumpy_example().sort_farthest_first()
    assert Augmentation().changes_nothing
    assert Augmentation()(example, rng(), another()) is example


@pytest.mark.parametrize(
    "setting",
    [
        dict(keep=0.5),
        dict(drop=1.0),
        dict(foreign=1.0),
        dict(mirror=1.0),
        dict(noise=0.1),
        dict(tilt=0.1),
        dict(join=1.0),
    ],
)
def test_the_same_seed_changes_the_same(setting):
    augmentation, example = Augmentation(**setting), lumpy_example(0, 4, 50).sort_farthest_first()
    assert not augmentation.changes_nothing
    changed = [augmentation(example, rng(seed), another()) for seed in (1, 1, 2)]
    assert same(changed[0], changed[1])
    assert not same(changed[0], example)
    assert setting.keys() & {"foreign", "mirror"} or not same(changed[0], changed[2])


def test_chances_are_what_they_are_said_to_be():
    augmentation, example = Augmentation(drop=0.3, foreign=0.2), lumpy_example(0, 3, 10).sort_farthest_first()
    changed = [augmentation(example, rng(seed), another()) for seed in range(600)]
    assert np.mean([not e.own.all() for e in changed]) == pytest.approx(0.2, abs=0.05)
    assert np.mean([e.own.sum() == 2 for e in changed]) == pytest.approx(0.3, abs=0.06)


def test_the_chance_of_a_mirror_image_is_what_it_is_said_to_be():
    augmentation, example = Augmentation(mirror=0.3), lumpy_example(0, 3, 10).sort_farthest_first()
    changed = [augmentation(example, rng(seed), another()) for seed in range(600)]
    image = mirror_image(example)
    assert all(same(e, example) or same(e, image) for e in changed)
    assert np.mean([same(e, image) for e in changed]) == pytest.approx(0.3, abs=0.06)


def test_two_pieces_are_never_made_one():
    assert Augmentation(drop=1.0)(lumpy_example(0, 2), rng(), another()).num_pieces == 2


@pytest.mark.parametrize(
    "setting",
    [
        dict(keep=1.1),
        dict(keep=-0.1),
        dict(drop=2),
        dict(foreign=float("nan")),
        dict(mirror=-0.5),
        dict(join=1.5),
    ],
)
def test_shares_outside_of_zero_and_one_are_an_input_error(setting):
    with pytest.raises(InputError, match=f"{next(iter(setting))} must be a number from 0 to 1"):
        Augmentation(**setting)


@pytest.mark.parametrize(
    "setting", [dict(noise=-0.01), dict(noise="0.1"), dict(tilt=float("inf")), dict(tilt=-0.1), dict(tilt=True)]
)
def test_noise_that_is_no_positive_number_is_an_input_error(setting):
    with pytest.raises(InputError, match=f"{next(iter(setting))} must be"):
        Augmentation(**setting)


def test_noise_is_a_length_in_any_unit():
    assert Augmentation(noise=20.0).noise == 20
