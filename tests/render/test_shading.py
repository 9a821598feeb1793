"""Shading: light from above, and shade in hollows."""

import numpy as np
from support.lumpy_shapes import lumpy_cloud
from support.picture_scenes import is_background

from eda.render import draw_points, look_from
from eda.render.shading import Relief


def test_light_falls_from_above():
    points, normals = lumpy_cloud(1, 2000)
    camera = look_from(np.array([0.0, -1.0, 0.0]), np.array([0.0, 0.0, 1.0])).framing(points)
    picture = draw_points(points, np.full((len(points), 3), 0.5), normals, camera=camera, size=90)
    drawn, light = ~is_background(picture), picture.astype(float).mean(axis=2)
    upper = np.cumsum(drawn.sum(axis=1)) < drawn.sum() / 2
    assert light[upper][drawn[upper]].mean() > light[~upper][drawn[~upper]].mean() + 20


def test_a_hollow_is_darker_than_a_plain():
    depth = np.zeros((100, 100), dtype=np.float32)
    depth[40:60, 40:60] = -30
    left = Relief.of(depth).light(0, 100)
    assert left[50, 41] < 0.8 * left[10, 10]
    slope = np.tile(np.arange(100, dtype=np.float32), (100, 1))
    assert np.allclose(Relief.of(slope).light(0, 100)[20:80, 20:80], 1)
