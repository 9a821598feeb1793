"""What one rotation of a lidar measures: along its beams, within its range, with noise, and less of what is far."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from eda.data.streets.bodies import Bodies, box
from eda.data.streets.height_field import HeightField
from eda.data.streets.lidar import ELEVATIONS, HEIGHT, LidarConfig, SensorPose, draw_biases, sweep
from eda.errors import InputError

LEVEL = HeightField(np.array([-300.0, -300.0]), 300.0, np.zeros((3, 3)))
NOTHING = Bodies.of([])
COURT = Bodies.of(
    [box((20, -30, -1), (21, 30, 20)), box((-21, -30, -1), (-20, 30, 20)), box((-30, 15, -1), (30, 16, 20)),
     box((-30, -16, -1), (30, -15, 20))]
)  # fmt: skip


def pose_of(yaw=0.0, pitch=0.0, roll=0.0, place=(0.0, 0.0, HEIGHT), advance=0.0, bend=0.0):
    turn = Rotation.from_euler("ZYX", [yaw, pitch, roll]).as_matrix()
    return SensorPose(turn, np.array(place), advance, bend)


def measured(pose, bodies=COURT, **settings):
    config = LidarConfig(**settings)
    rng = np.random.default_rng(0)
    return sweep(pose, LEVEL, bodies, config, draw_biases(config, rng), rng)


@pytest.mark.parametrize("beams", ["64", "32"])
@pytest.mark.parametrize("pose", [pose_of(), pose_of(0.7, 0.06, -0.04)], ids=["upright", "leaning"])
def test_points_lie_on_the_beams_within_the_range(beams, pose):
    points = measured(pose, beams=beams, range=25.0, azimuth=1.0)
    distance = np.linalg.norm(points, axis=1)
    elevation = np.degrees(np.arcsin(points[:, 2] / distance))
    off = np.abs(elevation[:, None] - ELEVATIONS[beams]).min(axis=1)
    assert off.max() < 1e-6
    assert 24 < distance.max() < 25
    assert len(np.unique(np.round(elevation, 3))) > 0.9 * int(beams)
    assert len(points) < 360 * int(beams)


def test_the_beams_are_those_of_the_real_ones():
    for beams, low, high in (("64", -24.8, 2.0), ("32", -30.67, 10.67)):
        assert len(ELEVATIONS[beams]) == int(beams)
        assert (ELEVATIONS[beams].min(), ELEVATIONS[beams].max()) == (low, high)


def test_points_lie_on_what_there_is_but_for_noise():
    """Of ranges the spread is two centimetres: of a beam, and of each point."""
    pose = pose_of(0.3, 0.03, 0.02)
    points = measured(pose, azimuth=0.5) @ pose.turn.T + pose.place
    x, y, z = points.T
    off = np.min([np.abs(np.abs(x) - 20), np.abs(np.abs(y) - 15), np.abs(z)], axis=0)
    assert np.quantile(off, 0.99) < 0.06
    walls = (np.abs(np.abs(x) - 20) < 0.2) & (np.abs(y) < 5) & (z > 0.5)
    assert 0.008 < np.std(np.abs(x[walls]) - 20) < 0.03


def test_a_turned_sensor_measures_in_its_own_frame():
    """The court is 40 m long and 30 m wide."""
    for yaw, expected in ((0.0, (20, 15)), (np.pi / 2, (15, 20))):
        points = measured(pose_of(yaw), azimuth=1.0)
        walls = np.abs(points[points[:, 2] > 0.1])[:, :2]
        np.testing.assert_allclose(walls.max(axis=0), expected, atol=0.1)


def share_seen(wall, pose=None):
    """Of the rays at a wall."""
    pose = pose or pose_of(place=(0.0, 0.0, 500.0))  # no ground in sight
    config = LidarConfig(azimuth=0.25, range=120.0)
    points = sweep(pose, LEVEL, Bodies.of([wall]), config, np.zeros(64), np.random.default_rng(0))
    (x0, x1), (y0, y1) = (wall.middle[k] + np.array([-1, 1]) * wall.half[k] for k in (0, 1))
    corners = np.arctan2([y0, y0, y1, y1], [x0, x1, x0, x1])
    return len(points) / (64 * np.degrees(np.ptp(corners)) / 0.25)


def test_fewer_echoes_come_back_from_afar_from_dark_things_and_from_flat_angles():
    def facing(x, reflectance=0.3):
        return box((x, -x, 400), (x + 0.1, x, 600), reflectance)

    by_range = [share_seen(facing(x)) for x in (10, 40, 70)]
    assert by_range[0] > by_range[1] > by_range[2] > 0.1
    assert by_range[0] > 0.9
    assert share_seen(facing(40, 0.05)) < by_range[1] - 0.1
    slanting = box((20, 6, 400), (60, 6.1, 600))
    assert share_seen(slanting) < by_range[1] - 0.05, "as far away, at ten degrees"


def test_distortion_is_what_the_car_moves_meanwhile():
    """A rotation begins and ends behind: the wall there is seen from half a metre behind, and from half before."""
    pose = pose_of(advance=1.0)
    for distortion, spread in ((False, 0.0), (True, 1.0)):
        points = measured(pose, azimuth=0.5, distortion=distortion)
        back = points[(np.abs(points[:, 0] + 20) < 1) & (np.abs(points[:, 1]) < 2) & (points[:, 2] > -1)]
        begun, ended = back[back[:, 1] > 0.1], back[back[:, 1] < -0.1]
        gap = np.median(begun[:, 0]) - np.median(ended[:, 0])
        assert abs(gap) == pytest.approx(spread, abs=0.06)
        front = points[(np.abs(points[:, 0] - 20) < 1) & (np.abs(points[:, 1]) < 1) & (points[:, 2] > -1)]
        assert np.median(front[:, 0]) == pytest.approx(20, abs=0.03), "in the middle of a rotation it is ahead"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beams": "16"}, "beams must be one of 64, 32"),
        ({"azimuth": 0.0}, "azimuth must be a positive number"),
        ({"azimuth": 0.001}, "azimuth must be from 0.05 to 10"),
        ({"range": 1000.0}, "range must be from 5 to 150"),
        ({"distortion": 1}, "distortion must be true or false"),
    ],
)
def test_a_lidar_checks_its_settings(settings, message):
    with pytest.raises(InputError, match=message):
        LidarConfig(**settings)
