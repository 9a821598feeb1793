"""Cameras: perspective and framing."""

import numpy as np
import pytest
from support.lumpy_shapes import lumpy_cloud

from eda.render import Camera, look_from


def test_the_middle_of_perspective_is_that_of_a_pinhole():
    camera = Camera(np.eye(3), np.array([1.0, 0.0, 0.0]), 2.0, 3.0)  # the eye stands 6 before the centre
    point = np.array([[2.0, 1.0, 3.0]])
    assert np.allclose(camera.project(point)[0, :2], [1.0 * 6 / (6 - 3) / 2, 1.0 * 6 / (6 - 3) / 2])
    assert np.allclose(camera.magnification(point), 6 / (6 - 3) / 2)


@pytest.mark.parametrize("towards", [[1, 0, 0], [0, 0, 1], [0.3, -2, 0.1]])
def test_framing_fits_and_fills_the_picture(towards):
    points = lumpy_cloud(2, 400)[0] * [2, 1, 0.8] + [100, -20, 7]
    camera = look_from(np.array(towards, dtype=float), np.array([0.0, 0.0, 1.0])).framing(points, margin=1.0)
    place = camera.project(points)[:, :2]
    assert np.allclose(camera.rotation @ camera.rotation.T, np.eye(3))
    assert np.isclose(np.linalg.det(camera.rotation), 1)
    assert 0.98 < np.abs(place).max() < 1.02
