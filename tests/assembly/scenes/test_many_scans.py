"""Many scans with known relative poses: groups, resumed runs, the order of the input, pins and time."""

import json

import numpy as np
import pytest
from support.synthetic_scenes import KnownPairs, off, scene_of, small_scans

from eda import InputError
from eda.assembly.scenes import PairCache
from eda.budget import Budget, Stage

NOTHING = PairCache(None)


def two_parts(i: int, j: int) -> bool:
    """Scans 0 to 5 connect, and 6 to 8; 9 connects to nothing."""
    return max(i, j) < 9 and (i < 6) == (j < 6)


def test_all_scans_come_to_where_they_belong():
    clouds, truth = small_scans(10)
    best, pairs = scene_of(clouds, KnownPairs(truth), NOTHING).assemble(Budget())
    assert best.placed.all()
    assert max(off(best.poses, truth, list(clouds.points))) < 1e-4
    assert best.probability > 0.9
    assert pairs == 45


def test_parts_that_do_not_connect_are_groups():
    clouds, truth = small_scans(10)
    best, _ = scene_of(clouds, KnownPairs(truth, two_parts), NOTHING).assemble(Budget())
    assert np.flatnonzero(best.placed).tolist() == [0, 1, 2, 3, 4, 5]
    (other,) = best.groups
    assert other.pieces == (6, 7, 8)
    assert max(off(other.poses, truth[6:9], list(clouds.points[6:9]))) < 1e-4
    assert best.why_unplaced(7) == "in group 2, which does not connect to those that are placed"
    assert best.why_unplaced(9) == "no place was found where it holds"
    names = tuple("abcdefghij")
    written = json.loads(json.dumps(best.as_dict(names)))["groups"]
    assert [group["pieces"] for group in written] == [list("abcdef"), list("ghi")]
    np.testing.assert_allclose(written[1]["poses"], other.poses)


def test_where_nothing_connects_nothing_is_placed():
    clouds, truth = small_scans(9)
    best, _ = scene_of(clouds, KnownPairs(truth, lambda i, j: False), NOTHING).assemble(Budget())
    assert not best.placed.any()
    assert best.probability == 0
    assert best.groups == ()


def test_a_run_that_was_stopped_goes_on(tmp_path):
    clouds, truth = small_scans(9)
    whole, _ = scene_of(clouds, KnownPairs(truth, two_parts), NOTHING).assemble(Budget())
    cache, first = PairCache(tmp_path / "pairs"), KnownPairs(truth, two_parts)
    first.stop_at = 20
    with pytest.raises(KeyboardInterrupt):
        scene_of(clouds, first, cache).assemble(Budget())
    second = KnownPairs(truth, two_parts)
    again, _ = scene_of(clouds, second, cache).assemble(Budget())
    assert len(first.calls) == 20
    assert len(second.calls) == 36 - 20
    assert not set(first.calls) & set(second.calls)
    np.testing.assert_array_equal(again.poses, whole.poses)
    np.testing.assert_array_equal(again.joints, whole.joints)


def test_other_settings_or_other_points_are_registered_anew(tmp_path):
    clouds, truth = small_scans(9)
    cache = PairCache(tmp_path)
    scene_of(clouds, KnownPairs(truth), cache).assemble(Budget())
    points = (clouds.points[0] + 1e-9, *clouds.points[1:])
    changed = type(clouds)(points, clouds.normals, clouds.has_estimated_normals)
    register = KnownPairs(truth)
    scene_of(changed, register, cache).assemble(Budget())
    assert len(register.calls) == 8
    assert all(0 in pair for pair in register.calls)


def test_the_order_of_the_scans_does_not_matter():
    clouds, truth = small_scans(10)
    order = np.random.default_rng(5).permutation(10)
    first, _ = scene_of(clouds, KnownPairs(truth, two_parts), NOTHING).assemble(Budget())
    back = {int(old): new for new, old in enumerate(order)}
    known = KnownPairs(truth[order], lambda i, j: two_parts(int(order[i]), int(order[j])))
    second, _ = scene_of(clouds.choose(order.tolist()), known, NOTHING).assemble(Budget())
    np.testing.assert_array_equal(second.poses, first.poses[order])
    np.testing.assert_array_equal(second.joints, first.joints[np.ix_(order, order)])
    assert second.groups[0].pieces == tuple(sorted(back[i] for i in first.groups[0].pieces))
    assert second.probability == first.probability


def test_pinned_scans_stay_and_are_not_registered_with_each_other():
    clouds, truth = small_scans(9)
    far = np.eye(4)
    far[:3, 3] = 4e6, -3e5, 20  # as coordinates of maps
    pins = {2: far @ truth[2], 7: far @ truth[7]}
    register = KnownPairs(truth, lambda i, j: i < 3 and j < 3)
    best, _ = scene_of(clouds, register, NOTHING, pins).assemble(Budget())
    assert (2, 7) not in register.calls
    assert (7, 2) not in register.calls
    assert np.flatnonzero(best.placed).tolist() == [0, 1, 2, 7]
    rows = [0, 1, 2, 7]
    assert max(off(best.poses[rows], truth[rows], [clouds.points[i] for i in rows])) < 1e-4


@pytest.mark.parametrize("pins", [[4], [2, 7]])
def test_pins_alone_say_nothing(pins):
    clouds, truth = small_scans(9)
    register = KnownPairs(truth, lambda i, j: False)
    best, _ = scene_of(clouds, register, NOTHING, {i: truth[i] for i in pins}).assemble(Budget())
    assert np.flatnonzero(best.placed).tolist() == pins
    assert best.probability == 0


def test_without_time_nothing_is_registered():
    clouds, truth = small_scans(9)
    register = KnownPairs(truth)
    best, pairs = scene_of(clouds, register, NOTHING).assemble(Budget(seconds=1e-9))
    assert register.calls == []
    assert pairs == 0
    assert not best.placed.any()


def test_every_pair_is_told():
    clouds, truth = small_scans(9)
    told: list[tuple[Stage, float]] = []
    scene_of(clouds, KnownPairs(truth), NOTHING).assemble(Budget(progress=lambda *what: told.append(what)))
    shares = [share for stage, share in told if stage is Stage.REGISTER]
    np.testing.assert_allclose(shares, np.arange(36) / 36)


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    clouds, truth = small_scans(9)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file"):
        scene_of(clouds, KnownPairs(truth), PairCache(tmp_path / "file")).assemble(Budget())
