"""Matching of scans: what KISS-Matcher finds is right, turns with the clouds, and never brings the process down."""

import os
import sys
import types
from dataclasses import replace

import numpy as np
import pytest
from support.rigid_motions import random_motion, transform_points
from support.room_scans import degrees, room, two_views

from eda import AssembleConfig, assemble, prepare
from eda.assembly import Proposals, RankConfig, rank
from eda.assembly.contact.evidence import Evidence
from eda.assembly.contact.fragment import Fragment
from eda.assembly.proposals import match
from eda.assembly.proposals.kiss_matcher import is_installed
from eda.assembly.regimes import regime_of
from eda.cloud import estimate_normals
from eda.errors import InputError
from eda.registration.rigid import inverse

needs_matcher = pytest.mark.skipif(not is_installed(), reason="pip install '.[scan]' adds kiss-matcher")


@pytest.fixture(scope="module")
def views() -> list[np.ndarray]:
    return two_views()


@needs_matcher
def test_a_match_brings_one_scan_to_the_other(views):
    there = random_motion(1, 3.0)
    found = match([transform_points(there, views[0]), views[1]])[0, 1]
    assert len(found)
    assert degrees(found @ there) < 8


@needs_matcher
def test_matches_turn_with_the_scans_and_do_not_depend_on_the_unit(views):
    there = random_motion(2, 0.5)
    views = [view[::2] for view in views]
    plain = match(views)[0, 1]
    np.testing.assert_array_equal(plain, match(views)[0, 1])
    turned = match([transform_points(there, views[0]), views[1]])[0, 1] @ there
    larger = match([1000 * cloud for cloud in views])[0, 1]
    larger[:, :3, 3] /= 1000
    # KISS-Matcher rounds to float32 and sorts features into bins, so equal up to what a few of these do.
    for other in (turned, larger):
        assert degrees(other @ inverse(plain[:1])) < 3


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no masks of cores")
def test_the_matcher_sees_one_core_and_the_thread_gets_its_cores_back(monkeypatch):
    """Else its threads race, and the same scans get another pose once in some hundred times."""
    cores, seen = os.sched_getaffinity(0), []

    class Matcher:
        def __init__(self, config): ...

        def estimate(self, mine, theirs):
            seen.append(os.sched_getaffinity(0))
            raise RuntimeError("as it may")

    fake = types.SimpleNamespace(KISSMatcher=Matcher, KISSMatcherConfig=lambda **config: config)
    monkeypatch.setitem(sys.modules, "kiss_matcher", fake)
    with pytest.raises(RuntimeError, match="as it may"):
        match([room(0, 900), room(0, 900)])
    assert [len(mask) for mask in seen] == [1]
    assert seen[0] <= cores
    assert os.sched_getaffinity(0) == cores


@needs_matcher
@pytest.mark.parametrize("count", [3, 12, 40])
def test_too_few_points_match_nothing_or_something_rigid_but_never_crash(count):
    rng = np.random.default_rng(count)
    found = match([rng.normal(size=(count, 3)), rng.normal(size=(4000, 3))])[0, 1]
    np.testing.assert_allclose(
        found[:, :3, :3] @ found[:, :3, :3].swapaxes(1, 2), np.tile(np.eye(3), (len(found), 1, 1)), atol=1e-5
    )


@needs_matcher
def test_scans_that_repeat_their_points_bring_nothing_down(views):
    """Whether or not anything matches then."""
    best = assemble([np.repeat(view[::4], 3, axis=0) for view in views], model="none").best
    assert np.isfinite(best.poses).all()
    assert 0 <= best.probability <= 1


@needs_matcher
def test_points_that_coincide_match_nothing():
    same = np.tile([[1.0, 2.0, 3.0]], (500, 1))
    assert match([same, same])[0, 1].shape == (0, 4, 4)


@needs_matcher
def test_scans_are_put_together_without_a_model(views):
    given = [transform_points(random_motion(k + 5, 3.0), view) for k, view in enumerate(views)]
    assembly = assemble(given, model="none")
    assert assembly.model == "none"
    assert "measured" not in assembly.why
    first, second = (pose @ random_motion(k + 5, 3.0) for k, pose in enumerate(assembly.best.poses))
    assert degrees(inverse(second) @ first) < 3
    assert assembly.best.placed.all()
    assert len(assembly.flow) == 1  # the pieces as they lay scattered


@needs_matcher
def test_three_scans_of_which_two_are_pinned_keep_their_places():
    whole = room(3, 12_000)
    part = np.arange(len(whole)) % 3
    bounds = [(0.0, 2.4), (0.9, 3.3), (1.8, 4.0)]
    views = [whole[(part == k) & (whole[:, 0] > low) & (whole[:, 0] < high)] for k, (low, high) in enumerate(bounds)]
    given = [transform_points(random_motion(k, 3.0), view) for k, view in enumerate(views)]
    pins = {k: inverse(random_motion(k, 3.0)) for k in (0, 1)}
    assembly = assemble(given, model="none", pins=pins)
    assert "probabilities were measured on pairs of scans only" in assembly.why
    best = assembly.best
    np.testing.assert_allclose(best.poses[0], pins[0], atol=1e-9)
    np.testing.assert_allclose(best.poses[1], pins[1], atol=1e-9)
    assert best.placed.all()
    assert degrees(best.poses[2] @ random_motion(2, 3.0)) < 3


@needs_matcher
def test_out_of_time_nothing_but_what_is_pinned_has_a_place(views):
    three, pins = [*views, views[0][::2]], {0: np.eye(4), 1: np.eye(4)}
    assembly = assemble(three, model="none", pins=pins, config=AssembleConfig(time_limit=1e-6))
    assert assembly.stopped
    assert assembly.best.placed.tolist() == [True, True, False]


@needs_matcher
def test_without_a_model_there_is_nothing_to_judge_unrefined(views):
    with pytest.raises(InputError, match="without a model"):
        assemble(views, model="none", config=AssembleConfig(ranking=RankConfig(refine=False)))


def test_what_is_missing_for_matching_is_said(views, monkeypatch):
    monkeypatch.setattr("eda.assembly.proposals.kiss_matcher.is_installed", lambda: False)
    with pytest.raises(InputError, match=r"pip install '\.\[scan\]'"):
        prepare(views, model="none")


def test_without_a_model_scans_are_judged_as_scans(views, monkeypatch):
    monkeypatch.setattr("eda.assembly.proposals.kiss_matcher.is_installed", lambda: True)
    prepared = prepare(views, model="none")
    assert prepared.model is None
    assert prepared.evidence.rules.name == "scan"


class Matches:
    """Stands for KISS-Matcher: what matches is nearly right, and may be a rough guess."""

    def propose(self, problem, budget):
        return lambda pair: Proposals(rough=np.eye(4)[None], close=np.eye(4)[None])


def test_samples_of_scans_are_refined_closely_alone(views, monkeypatch):
    """A wide look pulls scans of little overlap off their place; samples of fractures are rough, and need it."""
    candidates, seen = sys.modules["eda.assembly.search.candidates"], []
    monkeypatch.setattr(
        candidates, "find_joints", lambda evidence, pair, proposals, config: seen.append(proposals) or []
    )
    pieces = [Fragment(view, estimate_normals(view), np.zeros(len(view))) for view in (views[0][::9], views[1][::9])]
    samples = np.tile(np.eye(4), (3, 2, 1, 1))
    samples[:, 0, 0, 3] = [0.1, 0.2, 0.3]
    scan, fracture, config = regime_of("scan"), regime_of("fracture"), RankConfig(docking=None)
    with_matches = replace(config, proposers=(Matches(), *scan.proposers(None)[1:]))
    for regime, some in ((scan, with_matches), (scan, config), (fracture, config)):
        rank(Evidence.of(pieces, regime.contact), samples, some, regime=regime)
    matched, alone, fractures = ([poses[:, 0, 3].tolist() for poses in both] for both in seen)
    assert matched == [[0], [0, 0.1, 0.2, 0.3]]
    assert alone == [[], [0.1, 0.2, 0.3]]
    assert fractures == [[0.1, 0.2, 0.3], []]
