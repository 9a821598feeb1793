"""The colours of a piece as its file has them: of points, of triangles, or from pictures."""

import numpy as np
import pytest
import trimesh
from PIL import Image
from support.results import FACES, OTHER, VERTICES, input_pieces, textured_box

from eda.output.own_colors import OwnColors
from eda.output.piece_source import PieceSource

MANY = 1e9  # pixels


def own_colors(path) -> OwnColors | None:
    return OwnColors.of(PieceSource.of(input_pieces(path)[0]), MANY)


def test_plain_pieces_have_none(tmp_path):
    trimesh.Trimesh(VERTICES, FACES, process=False).export(tmp_path / "a.ply")
    np.save(tmp_path / "b.npy", np.random.default_rng(0).normal(size=(50, 3)))
    assert own_colors(tmp_path / "a.ply") is None
    assert own_colors(tmp_path / "b.npy") is None
    assert OwnColors.of(PieceSource.of(OTHER), MANY) is None


def test_clouds_have_those_of_their_points(tmp_path):
    rng = np.random.default_rng(0)
    points, colors = rng.normal(size=(300, 3)), rng.integers(0, 256, (300, 3))
    np.savetxt(tmp_path / "a.xyz", np.column_stack([points, colors]))
    own = own_colors(tmp_path / "a.xyz")
    np.testing.assert_array_equal(own.colors, colors)
    few = own.scattered(40)
    assert len(few.points) == 40
    rows = np.abs(own.points[:, None] - few.points).sum(axis=2).argmin(axis=0)
    np.testing.assert_array_equal(few.colors, colors[rows])


def test_meshes_have_those_of_their_vertices(tmp_path):
    shades = np.column_stack([255 * VERTICES, np.full(8, 255)]).astype(np.uint8)  # red along x, green along y, ...
    trimesh.Trimesh(VERTICES, FACES, vertex_colors=shades, process=False).export(tmp_path / "a.ply")
    own = own_colors(tmp_path / "a.ply")
    np.testing.assert_array_equal(own.colors, np.rint(255 * own.points))
    scattered = own.scattered(400)
    np.testing.assert_allclose(scattered.colors, 255 * scattered.points, atol=1)
    assert scattered.normals is not None


def test_meshes_have_those_of_their_triangles(tmp_path):
    colors = np.random.default_rng(0).integers(0, 256, (len(FACES), 4), dtype=np.uint8)
    colors[:, 3] = 255
    mesh = trimesh.Trimesh(VERTICES, FACES, face_colors=colors, process=False)
    mesh.export(tmp_path / "a.ply")
    own = own_colors(tmp_path / "a.ply")
    np.testing.assert_array_equal(own.colors[own.faces], np.repeat(colors[:, None, :3], 3, axis=1))
    np.testing.assert_allclose(own.points[own.faces], VERTICES[FACES])


@pytest.mark.parametrize("suffix", [".obj", ".glb"])
def test_meshes_have_their_pictures(tmp_path, suffix):
    """Four quarters of different colours, the right way up; beyond its sides the picture repeats."""
    quarters = Image.fromarray(np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 0]]], dtype=np.uint8))
    places = VERTICES[:, :2] * 0.98 + 0.01 + [2, 0]
    mesh = trimesh.Trimesh(VERTICES, FACES, process=False)
    mesh.visual = trimesh.visual.TextureVisuals(uv=places, image=quarters)
    trimesh.Scene(mesh).export(tmp_path / f"a{suffix}")
    own = own_colors(tmp_path / f"a{suffix}")
    assert [skin.num_faces for skin in own.skins] == [len(FACES)]
    scattered = own.scattered(1000)
    left, low = scattered.points[:, 0] < 0.5, scattered.points[:, 1] < 0.5
    expected = np.where(low[:, None], np.where(left[:, None], [0, 0, 255], [255, 255, 0]),
                        np.where(left[:, None], [255, 0, 0], [0, 255, 0]))  # fmt: skip
    clear = (np.abs(scattered.points[:, :2] - 0.5) > 0.02).all(axis=1)
    np.testing.assert_array_equal(scattered.colors[clear], expected[clear])


def test_a_piece_of_several_parts_has_the_colours_of_each(tmp_path):
    scene = trimesh.Scene([textured_box((250, 10, 10)), textured_box((10, 250, 10)).apply_translation([3, 0, 0])])
    scene.export(tmp_path / "a.obj")
    own = own_colors(tmp_path / "a.obj")
    assert len(own.skins) == 2
    scattered = own.scattered(200)
    is_red = scattered.points[:, 0] < 2
    np.testing.assert_allclose(scattered.colors[is_red], [[250, 10, 10]] * is_red.sum(), atol=3)
    np.testing.assert_allclose(scattered.colors[~is_red], [[10, 250, 10]] * (~is_red).sum(), atol=3)


def test_pictures_share_the_room_that_there_is(tmp_path):
    scene = trimesh.Scene(
        [textured_box((250, 10, 10), 64), textured_box((10, 250, 10), 64).apply_translation([3, 0, 0])]
    )
    scene.export(tmp_path / "a.obj")
    own = OwnColors.of(PieceSource.of(input_pieces(tmp_path / "a.obj")[0]), 2 * 16 * 16)
    assert [skin.image.size for skin in own.skins] == [(16, 16)] * 2
    assert [skin.size for skin in own.skins] == [(64, 64)] * 2
