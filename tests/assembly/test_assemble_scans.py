"""Nine views of one room, from clouds to a folder: the same result in any order, and from the results of pairs."""

import json

import numpy as np
import pytest
from support.synthetic_scenes import moved_anywhere, off, views

from eda import InputError, assemble, load
from eda.assembly import AssembleConfig, Clouds, PreparedPieces, SceneConfig
from eda.assembly.scenes.places import place_features, similarity
from eda.cloud import estimate_normals

FAST = AssembleConfig(samples=2, steps=3, scene=SceneConfig(neighbors=2, bridges=0))


@pytest.fixture(scope="module")
def given():
    clouds, truth = moved_anywhere(views(9, 1.15, 9000))
    return clouds, [estimate_normals(cloud) for cloud in clouds], truth


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("scans") / "pairs"


@pytest.fixture(scope="module")
def assembled(given, cache):
    clouds, normals, _ = given
    return assemble(clouds, normals, model="scan-small", config=FAST, cache=cache)


def test_most_views_are_put_together_from_few_pairs(given, assembled):
    clouds, _, truth = given
    rows = np.flatnonzero(assembled.best.placed)
    assert len(rows) >= 6
    degrees, shift = off(assembled.best.poses[rows], truth[rows], [clouds[i] for i in rows])
    assert degrees < 5
    assert shift < 0.2
    assert 8 <= assembled.pairs <= 18
    assert assembled.flow.shape == (2, 9, 4, 4)


def test_another_order_needs_no_pair_again_and_gives_the_same(given, assembled, cache, monkeypatch):
    def never(*args):
        raise AssertionError("a pair was registered again")

    monkeypatch.setattr(PreparedPieces, "_register", never)
    clouds, normals, _ = given
    order = np.random.default_rng(2).permutation(9)
    again = assemble(
        [clouds[i] for i in order], [normals[i] for i in order], model="scan-small", config=FAST, cache=cache
    )
    np.testing.assert_array_equal(again.best.poses, assembled.best.poses[order])
    np.testing.assert_array_equal(again.best.confidence, assembled.best.confidence[order])
    assert again.pairs == assembled.pairs


def test_views_that_overlap_are_alike(given):
    """Neighbours on the zigzag share most. Chosen by chance, less than half of the nearest two would be that near."""
    clouds, normals, _ = given
    alike = similarity(place_features(load("scan-small"), Clouds.of(clouds, normals)))
    np.testing.assert_array_equal(alike, alike.T)
    apart = np.abs(np.subtract.outer(np.arange(9), np.arange(9)))
    assert alike[(apart > 0) & (apart <= 2)].mean() > alike[apart > 4].mean()
    nearest = np.argsort(-alike, axis=1)[:, :2]
    assert (apart[np.arange(9)[:, None], nearest] <= 2).mean() > 0.6


def test_the_result_tells_of_groups(assembled):
    record = json.loads(json.dumps(assembled.as_dict()))
    assert record["pairs"] == assembled.pairs
    placed = zip(assembled.names, assembled.best.placed, strict=True)
    assert record["alternatives"][0]["groups"][0]["pieces"] == [name for name, is_placed in placed if is_placed]


def test_too_many_pieces_of_other_kinds_are_refused(given):
    cloud = given[0][0][:50]
    with pytest.raises(InputError, match="at most 64"):
        assemble([cloud] * 65, [cloud / 9] * 65, model="fracture-small")
