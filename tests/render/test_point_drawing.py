"""Points as pictures: what a pixel must show, whatever the style."""

import numpy as np
import pytest
from support.lumpy_shapes import lumpy_cloud
from support.picture_scenes import FRONT, GREEN, RED, facing, hue, is_background, square

from eda import InputError
from eda.render import Camera, confidence_colors, draw_points, look_from


def test_the_nearer_surface_hides_the_farther_one():
    near, far = square(0.3, 0.5), square(0.8, -0.5, 50)
    points = np.concatenate([near, far])
    colors = np.concatenate([np.tile(RED, (len(near), 1)), np.tile(GREEN, (len(far), 1))])
    for order in (np.arange(len(points)), np.arange(len(points))[::-1]):
        picture = draw_points(points[order], colors[order], facing(points), camera=FRONT, size=100)
        assert hue(picture[50, 50]) == 0
        assert hue(picture[50, 15]) == 1
        assert is_background(picture)[2, 2]


def test_a_surface_is_closed_and_ends_where_its_points_end():
    points = square(0.5, 0.0)
    picture = draw_points(points, np.tile(RED, (len(points), 1)), facing(points), camera=FRONT, size=200)
    empty = is_background(picture)
    assert not empty[52:148, 52:148].any()  # -0.5 .. 0.5 are the pixels 50 .. 150; the spacing is 5
    outside = np.ones_like(empty)
    outside[42:158, 42:158] = False
    assert empty[outside].all()


@pytest.mark.parametrize("eye", [np.inf, 6.0])
def test_a_point_is_drawn_where_the_camera_says(eye):
    camera = look_from(np.array([1.0, 2.0, 0.7]), np.array([0.0, 0.0, 1.0]), eye=eye).framing(square(1.0, 0.0))
    place = np.array([[0.4, -0.3, 0.2]])
    cluster = place + 0.01 * np.random.default_rng(0).normal(size=(60, 3))
    picture = draw_points(cluster, np.tile(RED, (60, 1)), camera=camera, size=200, radius=0.02)
    rows, columns = np.nonzero(~is_background(picture))
    x, y, _ = camera.project(place)[0]
    assert abs(columns.mean() + 0.5 - (x + 1) * 100) < 1.5
    assert abs(rows.mean() + 0.5 - (1 - y) * 100) < 1.5


def test_a_camera_that_turns_with_the_scene_sees_the_same():
    points, normals = lumpy_cloud(0, 800)
    colors = confidence_colors(points[:, 0])
    camera = look_from(np.array([1.0, 0.5, 0.3]), np.array([0.0, 0.0, 1.0])).framing(points)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    turned = Camera(camera.rotation @ turn.T, turn @ camera.center, camera.radius, camera.eye)
    first = draw_points(points, colors, normals, camera=camera, size=120).astype(int)
    second = draw_points(points @ turn.T, colors, normals @ turn.T, camera=turned, size=120).astype(int)
    assert (np.abs(first - second).max(axis=-1) > 8).mean() < 2e-3


def test_thin_walls_show_the_side_that_looks_at_the_viewer():
    front, back = square(0.5, 0.0), square(0.5, 0.001)  # the back sheet lies before the front one: a noisy scan
    colors = np.concatenate([np.tile(RED, (len(front), 1)), np.tile(GREEN, (len(back), 1))])
    normals = np.concatenate([facing(front), -facing(back)])
    picture = draw_points(np.concatenate([front, back]), colors, normals, camera=FRONT, size=80)
    assert (picture[24:56, 24:56].argmax(axis=-1) == 0).all()


def test_normals_are_estimated_where_there_are_none():
    points = square(0.5, 0.0) @ look_from(np.array([1.0, 0.4, 2.0]), np.array([0.0, 1.0, 0.0])).rotation
    colors = np.tile(RED, (len(points), 1))
    normal = look_from(np.array([1.0, 0.4, 2.0]), np.array([0.0, 1.0, 0.0])).rotation[2]
    known = draw_points(points, colors, np.tile(normal, (len(points), 1)), camera=FRONT, size=80).astype(int)
    estimated = draw_points(points, colors, camera=FRONT, size=80)
    assert np.abs(known - estimated).max() <= 10


def test_points_outside_the_picture_are_left_out():
    points = square(0.1, 0.0) + np.array([5.0, 0.0, 0.0])
    picture = draw_points(points, np.tile(RED, (len(points), 1)), facing(points), camera=FRONT, size=50)
    assert is_background(picture).all()


def test_what_is_no_cloud_is_refused():
    with pytest.raises(InputError, match="at least 2 points"):
        draw_points(np.zeros((1, 3)), np.zeros((1, 3)), camera=FRONT)
    with pytest.raises(InputError, match="as many colours"):
        draw_points(np.zeros((5, 3)), np.zeros(3), camera=FRONT)
