"""Pieces too small beside the others: no place is looked for, and the others lie as if they were not there."""

import numpy as np
import pytest
from support.alternatives import alternative_of
from support.broken_stone import scattered, stone
from support.surfaces import box, ellipsoid

from eda import Eda, assemble, prepare
from eda.assembly import AssembleConfig, Clouds, RankConfig
from eda.assembly.small_pieces import SmallPieces

QUICK = AssembleConfig(samples=4, steps=4, ranking=RankConfig(looks=0, docking=None))
NAMES = ("a", "chip", "c", "d")


@pytest.fixture(scope="module")
def model() -> Eda:
    return Eda.load("fracture-small")


def small_among(scales, pinned=()) -> SmallPieces:
    cloud, normals = ellipsoid(200)
    clouds = Clouds.of([scale * cloud + 5 for scale in scales], [normals] * len(scales))
    return SmallPieces.among(tuple("abcdefgh"[: len(scales)]), clouds, pinned)


@pytest.mark.parametrize(
    ("scales", "pinned", "large"),
    [
        ((1, 0.5, 0.11), (), [0, 1, 2]),
        ((0.09, 1, 0.5), (), [1, 2]),
        ((1, 0.5, 0.01, 0.02), (), [0, 1]),
        ((1, 0.05, 0.04), (), [0, 1, 2]),  # of a body and chips, nothing could be sampled without a chip
        ((1, 0.5, 0.05), (2,), [0, 1, 2]),
    ],
)
def test_pieces_below_a_tenth_of_the_largest_are_small(scales, pinned, large):
    assert small_among(scales, pinned).large.tolist() == large


def test_no_unit_and_no_frame_matters():
    cloud, normals = box(400, (1.0, 2.0, 0.3))
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    for size, move in ((1e-3, 0.0), (1e3, 7e5)):
        clouds = [size * cloud, size * 0.05 * cloud @ turn.T + move, size * 0.7 * cloud @ turn.T + move]
        found = SmallPieces.among(("a", "b", "c"), Clouds.of(clouds, [normals] * 3), ())
        assert found.large.tolist() == [0, 2]


def with_chip(seed: int = 0) -> tuple[list, list]:
    """The stone in three pieces, turned and moved, and after the first of them a tiny box."""
    clouds, normals, _ = scattered(stone(3, 1500), seed=seed)
    chip, facing = box(300, (0.02, 0.03, 0.02))
    return [clouds[0], chip, *clouds[1:]], [normals[0], facing, *normals[1:]]


def test_others_lie_as_if_the_chip_were_not_there(model):
    clouds, normals = with_chip()
    whole = assemble(clouds, normals, names=NAMES, model=model, config=QUICK)
    without = assemble(
        clouds[:1] + clouds[2:], normals[:1] + normals[2:], names=("a", "c", "d"), model=model, config=QUICK
    )
    large = [0, 2, 3]
    assert whole.names == NAMES
    assert len(whole.clouds) == 4
    assert len(whole.alternatives) == len(without.alternatives)
    for found, expected in zip(whole.alternatives, without.alternatives, strict=True):
        np.testing.assert_array_equal(found.poses[large], expected.poses)
        np.testing.assert_array_equal(found.placed[large], expected.placed)
        np.testing.assert_array_equal(found.confidence[large], expected.confidence)
        np.testing.assert_array_equal(found.joints[np.ix_(large, large)], expected.joints)
        assert found.probability == expected.probability
    np.testing.assert_array_equal(whole.flow[:, large], without.flow)


def test_the_chip_is_unplaced_with_the_reason(model):
    clouds, normals = with_chip()
    found = assemble(clouds, normals, names=NAMES, model=model, config=QUICK)
    for alternative in found.alternatives:
        assert not alternative.placed[1]
        assert alternative.confidence[1] == 0
        assert not alternative.joints[1].any()
        assert "too small" in alternative.why_unplaced(1)
    written = found.as_dict()["alternatives"][0]
    assert "chip" in written["unplaced"]
    assert "too small" in written["pieces"][1]["why_unplaced"]
    assert written["pieces"][1]["pose"] is None


def test_pins_keep_their_pieces_beside_a_chip(model):
    clouds, normals = with_chip()
    pin = np.eye(4)
    pin[:3, 3] = 3
    found = assemble(clouds, normals, names=NAMES, model=model, config=QUICK, pins={"d": pin})
    assert found.pinned == (3,)
    np.testing.assert_allclose(found.best.poses[3], pin, atol=1e-9)
    assert found.best.confidence[3] == 1
    assert not found.best.placed[1]


def test_a_pinned_chip_is_placed(model):
    clouds, normals = with_chip()
    pins = {"chip": np.eye(4), "a": np.eye(4)}
    found = assemble(clouds, normals, names=NAMES, model=model, config=QUICK, pins=pins)
    assert sorted(found.pinned) == [0, 1]
    assert found.best.placed[:2].all()
    np.testing.assert_allclose(found.best.poses[1], np.eye(4), atol=1e-9)


def test_beside_pins_a_chip_alone_is_no_failure(model):
    clouds, normals = with_chip()
    pins = {name: np.eye(4) for name in ("a", "c", "d")}
    found = assemble(clouds, normals, names=NAMES, model=model, config=QUICK, pins=pins)
    assert found.best.placed.tolist() == [True, False, True, True]
    assert not found.is_empty, "no place was looked for, so none was missed"


def test_small_scans_are_scans_like_any_other():
    clouds, normals = with_chip()
    assert prepare(clouds, normals, names=NAMES, model="scan-small").names == NAMES


def test_what_was_rejected_stays_known():
    small = SmallPieces(("a", "b", "c"), Clouds.of([ellipsoid(50)[0]] * 3), np.array([0, 2]))
    one = alternative_of(np.tile(np.eye(4), (2, 1, 1)), placed=np.array([True, False]), rejected=np.array([0.0, 0.07]))
    restored = small._with_unplaced(one)
    assert restored.why_unplaced(0) is None
    assert "too small" in restored.why_unplaced(1)
    assert "7%" in restored.why_unplaced(2)


def test_a_note_names_what_is_too_small(model):
    clouds, normals = with_chip()
    found = assemble(clouds, normals, names=NAMES, model=model, config=QUICK)
    assert any("no place was looked for: chip." in note for note in found.notes)
    large = assemble(*[[of[i] for i in (0, 2, 3)] for of in (clouds, normals)], model=model, config=QUICK)
    assert not any("no place was looked for" in note for note in large.notes)
