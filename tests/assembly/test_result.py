"""The answer: how alternatives are checked and compared, and what a reader of a result is told."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.alternatives import alternative_of
from support.lumpy_shapes import lumpy_cloud
from support.rigid_motions import rigid_motions

from eda import Assembly, InputError
from eda.assembly import Clouds


@pytest.fixture(scope="module")
def assembly() -> Assembly:
    """Three pieces in any poses."""
    rng = np.random.default_rng(3)
    poses = rigid_motions(Rotation.random(3, random_state=3).as_matrix(), 2 * rng.normal(size=(3, 3)))
    clouds, normals = zip(*(lumpy_cloud(i, 100) for i in range(3)), strict=True)
    best = alternative_of(poses)
    return Assembly(tuple("abc"), Clouds.of(clouds, normals), (best,), poses[None], (), "m", "given", {}, 1.0, False)


def test_a_motion_of_the_whole_makes_no_difference(assembly):
    whole = rigid_motions(Rotation.random(1, random_state=1).as_matrix(), np.array([[300.0, 0, -50]]))
    assert max(assembly.compare(whole @ assembly.best.poses)) < 1e-6
    assert assembly.compare(assembly) == assembly.compare(assembly.best) == assembly.compare(assembly.best.poses)


def test_a_turned_piece_makes_a_difference_that_is_known(assembly):
    """Turned about its own middle by ten degrees: the others are off by that angle as it sees them."""
    middles = np.stack([cloud.mean(axis=0) for cloud in assembly.clouds.points])
    places = np.einsum("nij,nj->ni", assembly.best.poses[:, :3, :3], middles) + assembly.best.poses[:, :3, 3]
    axis = np.cross(places[0] - places[1], places[0] - places[2])  # so both others move by the whole angle
    turn = Rotation.from_rotvec(math.radians(10) * axis / np.linalg.norm(axis)).as_matrix()
    other = assembly.best.poses.copy()
    other[0] = rigid_motions(turn[None], (places[0] - turn @ places[0])[None])[0] @ other[0]
    moved = 2 * math.sin(math.radians(5)) * np.linalg.norm(places[1:] - places[0], axis=1).sum()
    degrees, distance = assembly.compare(other)
    assert degrees == pytest.approx(10 * 4 / 6), "four of six ordered pairs"
    assert distance == pytest.approx(moved / 6 / assembly.size)


def test_only_what_is_placed_in_both_is_compared(assembly):
    best = assembly.best
    away = best.poses.copy()
    away[0, :3, 3] += 1000
    left_out = replace(best, poses=away, placed=np.array([False, True, True]))
    assert max(assembly.compare(left_out)) < 1e-9
    with pytest.raises(InputError, match="fewer than two"):
        assembly.compare(replace(best, placed=np.array([False, False, True])))
    with pytest.raises(InputError, match="expected motions"):
        assembly.compare(best.poses[:2])


# -- what is told ----------------------------------------------------------------------------------------------------


def test_what_a_reader_must_not_miss_is_said_in_sentences(assembly):
    assert assembly.notes == []
    nowhere = replace(assembly.best, placed=np.zeros(3, dtype=bool))
    assert "No piece could be placed:" in replace(assembly, alternatives=(nowhere,)).notes[0]
    pinned = replace(nowhere, placed=np.array([True, False, False]))
    assert "except those that were pinned" in replace(assembly, alternatives=(pinned,), pinned=(0,)).notes[0]
    assert "time limit" in replace(assembly, stopped=True).notes[0]
    uncalibrated = replace(assembly, calibrated=False)
    assert "not calibrated" in uncalibrated.notes[0]
    assert uncalibrated.as_dict()["calibrated"] is False


def test_contacts_are_the_pairs_that_touch():
    joints = np.zeros((3, 3))
    joints[0, 2] = joints[2, 0] = 0.25
    one = alternative_of(np.tile(np.eye(4), (3, 1, 1)), joints=joints)
    assert one.contacts == [(0, 2, 0.25)]
    assert one.as_dict(tuple("abc"))["joints"] == [{"pieces": ["a", "c"], "confidence": 0.25}]


POSES = np.tile(np.eye(4), (2, 1, 1))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"poses": np.eye(4)}, "poses must have shape"),
        ({"poses": 2 * POSES}, "poses must be rigid"),
        ({"poses": POSES * np.array([-1, 1, 1, 1])}, "poses must be rigid"),
        ({"poses": POSES * np.nan}, "poses must be rigid"),
        ({"score": np.nan}, "score of an alternative must be a finite number"),
        ({"probability": 1.5}, "every probability of an alternative must lie in 0 .. 1"),
        ({"confidence": np.array([0.5, np.nan])}, "every confidence of an alternative must lie in 0 .. 1"),
        ({"confidence": np.ones(3)}, "confidence of an alternative must have shape"),
        ({"placed": np.ones(1, dtype=bool)}, "placed of an alternative must have shape"),
        ({"joints": np.zeros((3, 3))}, "joints of an alternative must have shape"),
        ({"joints": np.full((2, 2), -0.5)}, "every joint of an alternative must lie in 0 .. 1"),
    ],
)
def test_bad_alternatives_are_refused(given, complaint):
    with pytest.raises(InputError, match=complaint):
        replace(alternative_of(POSES), **given)
