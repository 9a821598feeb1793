"""Meshes as pictures: coverage, visibility and normals."""

import numpy as np
import trimesh
from support.picture_scenes import FRONT, GREEN, RED, hue, is_background

from eda.render import draw_mesh
from eda.render.mesh_drawing import corner_normals


def test_a_mesh_covers_the_pixels_of_its_triangles():
    vertices = np.array([[-0.5, -0.5, 0.0], [0.5, -0.5, 0.0], [0.5, 0.5, 0.0], [-0.5, 0.5, 0.0]])
    picture = draw_mesh(vertices, np.array([[0, 1, 2], [0, 2, 3]]), RED, camera=FRONT, size=80)
    inside = np.zeros((80, 80), dtype=bool)
    inside[20:60, 20:60] = True
    assert np.array_equal(~is_background(picture), inside)
    assert np.ptp(picture[22:58, 22:58].reshape(-1, 3), axis=0).max() <= 1  # flat, so evenly lit, without a seam


def test_the_nearer_triangle_hides_the_farther_one():
    vertices = np.array(
        [[-1, -1, -0.5], [1, -1, -0.5], [0, 1, -0.5], [-0.3, -0.3, 0.5], [0.3, -0.3, 0.5], [0, 0.3, 0.5]]
    )
    for faces, colors in (([[0, 1, 2], [3, 4, 5]], [GREEN, RED]), ([[3, 4, 5], [0, 1, 2]], [RED, GREEN])):
        picture = draw_mesh(vertices * 0.9, np.array(faces), np.array(colors), camera=FRONT, size=60)
        assert hue(picture[30, 30]) == 0
        assert hue(picture[50, 30]) == 1


def test_round_surfaces_are_smoothed_and_edges_are_not():

    box = trimesh.creation.box()
    assert np.allclose(corner_normals(box.vertices, box.faces), box.face_normals[:, None], atol=1e-12)
    ball = trimesh.creation.icosphere(3)
    assert np.allclose(corner_normals(ball.vertices, ball.faces), ball.vertices[ball.faces], atol=0.02)
