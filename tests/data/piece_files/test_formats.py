"""The one table of file endings, as every command uses it."""

import importlib.util

import numpy as np
import pytest
import trimesh
from support.closed_meshes import box_mesh
from support.dataset_files import box
from support.lumpy_shapes import lumpy_cloud

from eda.data import open_examples, open_meshes
from eda.data.piece_files import Geometry, ply_bytes, read_as_one, read_pieces, write_ply
from eda.data.piece_files.formats import FORMATS, MESH_ENDINGS, list_endings
from eda.errors import InputError

LIBRARIES = {".las": "laspy", ".laz": "laspy", ".e57": "pye57"}


def test_messages_name_every_ending(tmp_path):
    (tmp_path / "a.step").write_text("solid")
    (tmp_path / "empty").mkdir()
    for ending in FORMATS:
        for read in (lambda: read_pieces([tmp_path / "a.step"]), lambda: list(open_examples(str(tmp_path / "empty")))):
            with pytest.raises(InputError) as caught:
                read()
            assert ending in str(caught.value)
    with pytest.raises(InputError) as caught:
        open_meshes(tmp_path / "empty")
    assert {word.strip("(),") for word in str(caught.value).split() if "." in word} >= set(MESH_ENDINGS)
    assert ".pcd" not in str(caught.value)


def test_what_needs_an_extra_says_so():
    plain, _, extra = list_endings().partition("; with the extra scan: ")
    assert extra.split(", ") == [ending for ending, known in FORMATS.items() if known.extra == "scan"]
    assert plain.split(", ") == [ending for ending, known in FORMATS.items() if known.extra is None]


@pytest.mark.parametrize("ending", LIBRARIES)
def test_a_missing_library_is_named_with_the_extra_that_has_it(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (tmp_path / f"scan{ending}").write_bytes(b"LASF")
    with pytest.raises(InputError, match=rf"{LIBRARIES[ending]}; in the clone of Eda, run: pip install '\.\[scan\]'"):
        read_pieces([tmp_path / f"scan{ending}"])


@pytest.mark.parametrize("ending", MESH_ENDINGS)
def test_meshes_of_every_such_ending_are_pieces_and_can_be_broken(tmp_path, ending):
    mesh = box_mesh()
    content = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False).export(file_type=ending[1:])
    if ending == ".gltf":
        for name, part in content.items():
            (tmp_path / ("a.gltf" if name.endswith(".gltf") else name)).write_bytes(part)
    else:
        (tmp_path / f"a{ending}").write_bytes(content if isinstance(content, bytes) else content.encode())
    (piece,) = read_pieces([tmp_path])
    assert piece.faces is not None
    assert open_meshes(tmp_path).solid(0).volume() == pytest.approx(1, abs=1e-5)


def test_a_folder_of_puzzles_reads_what_assemble_reads(tmp_path):
    """Texts and archives, too; a readme and a hidden file are no pieces."""
    clouds = [lumpy_cloud(i, 40)[0] for i in range(4)]
    for ending, cloud in zip((".txt", ".csv", ".xyz"), clouds, strict=False):
        np.savetxt(tmp_path / f"piece{ending}", cloud, delimiter="," if ending == ".csv" else " ")
    np.savez(tmp_path / "piece.npz", points=clouds[3])
    (tmp_path / "readme.txt").write_text("Four pieces of a stone.")
    (tmp_path / ".hidden.xyz").write_text("1 2 3\n")
    (example,) = open_examples(str(tmp_path))
    assert example.num_pieces == len(read_pieces([tmp_path])) == 4
    assert example.sizes.tolist() == [40] * 4


def test_ply_is_read_as_it_was_written(tmp_path):
    points, normals = lumpy_cloud(0, 50)
    vertices, faces = box(0, 1)
    colors = np.random.default_rng(0).integers(0, 256, (50, 3)).astype(np.uint8)
    write_ply(tmp_path / "cloud.ply", Geometry(points, normals, colors=colors))
    (tmp_path / "mesh.ply").write_bytes(ply_bytes(Geometry(vertices, faces=faces)))
    (cloud,) = read_pieces([tmp_path / "cloud.ply"])
    np.testing.assert_array_equal(cloud.points, points)
    np.testing.assert_allclose(cloud.normals, normals, atol=1e-6)
    np.testing.assert_array_equal(cloud.colors, colors)
    mesh = read_as_one(tmp_path / "mesh.ply")
    np.testing.assert_array_equal(mesh.points, vertices)
    np.testing.assert_array_equal(mesh.faces, faces)
    loaded = trimesh.load(tmp_path / "mesh.ply", process=False)
    np.testing.assert_array_equal(loaded.faces, faces)
