"""Nine views of one room, from clouds to a folder: the same result in any order, and from the results of pairs."""

import importlib
import json

import numpy as np
import pytest
from support.synthetic_scenes import moved_anywhere, off, views

from eda import InputError, assemble, load, prepare
from eda.assembly import AssembleConfig, Clouds, PreparedPieces
from eda.assembly.inputs import clouds as clouds_module
from eda.assembly.inputs.model_choice import ModelChoice
from eda.assembly.scenes import many_scans
from eda.assembly.scenes.places import place_features, similarity
from eda.cloud import estimate_normals

FAST = AssembleConfig(samples=2, steps=3)
assemble_module = importlib.import_module("eda.assembly.assemble")  # the package has a function of this name


@pytest.fixture(scope="module", autouse=True)
def few_pairs():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many_scans, "NEIGHBORS", 2)
        patch.setattr(many_scans, "BRIDGES", 0)
        yield


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
    with pytest.raises(InputError, match=r"at most 64.*--model scan-small"):
        assemble([cloud] * 65, [cloud / 9] * 65, model="fracture-small")
    with pytest.raises(InputError, match="at most 200") as error:
        assemble([cloud] * 201, [cloud / 9] * 201, model="scan-small")
    assert "--model" not in str(error.value)


@pytest.mark.parametrize("model", ["fracture-small", "none"])
def test_too_many_pieces_are_refused_before_work_is_put_into_them(given, model, monkeypatch):
    def never(*args):
        raise AssertionError("normals were estimated")

    monkeypatch.setattr(clouds_module, "outward_normals", never)
    monkeypatch.setattr(assemble_module.kiss_matcher, "is_installed", lambda: True)
    for call in (assemble, prepare):
        with pytest.raises(InputError, match="at most 64"):
            call([given[0][0][:50]] * 65, model=model)


def test_of_two_models_many_pieces_are_for_that_of_scans(given, monkeypatch):
    both = tuple(ModelChoice(name, "") for name in ("fracture-small", "scan-small"))
    monkeypatch.setattr(assemble_module, "suitable_models", lambda clouds: both)
    cloud = given[0][0][:50]
    small = Clouds.of([cloud] * 2, [cloud / 9] * 2)
    assert assemble_module._choices(None, small) == both
    assert assemble_module._choices(None, small.choose([0] * 65)) == both[1:]
    monkeypatch.setattr(assemble_module, "suitable_models", lambda clouds: both[:1])
    assert assemble_module._choices(None, small.choose([0] * 65)) == both[:1]


@pytest.fixture(scope="module")
def prepared(given):
    return prepare(given[0], given[1], model="scan-small")


def test_many_scans_are_not_sampled_and_ranked_at_once(prepared):
    assert prepared.is_scene
    with pytest.raises(InputError, match="use assemble"):
        prepared.sample(FAST)
    with pytest.raises(InputError, match="use assemble"):
        prepared.rank(prepared._scatter(0), FAST)


def test_another_version_registers_pairs_anew(prepared, monkeypatch):
    before = prepared._pair_settings(FAST)
    assert prepared._pair_settings(FAST) == before
    monkeypatch.setattr(assemble_module, "__version__", "another")
    assert prepared._pair_settings(FAST) != before
