"""Meshes of the user's own: what is read, what is refused and how, and what licences let through."""

import json
import pickle

import numpy as np
import pytest
from support.closed_meshes import BOX, BOX_FACES, both, box_mesh, inside_out, obj, stl
from support.dataset_files import real_data

from eda.data import Plan, build
from eda.data.fracture.fracture_source import FractureSource
from eda.data.fracture.generator import FractureConfig
from eda.data.fracture.mesh_collections import is_allowed, open_meshes
from eda.data.meshes import Mesh
from eda.errors import InputError


def pack_of(folder, meshes, licences):
    """A pack as `open_meshes` reads it, of meshes within the unit cube about the origin."""
    corners = [np.round((mesh.vertices + 0.5) * 65535).astype(np.uint16) for mesh in meshes]
    faces = [mesh.faces.astype(np.uint16) for mesh in meshes]
    folder.mkdir()
    np.savez(
        folder / "meshes.npz",
        verts_u16=np.concatenate(corners),
        faces_u16=np.concatenate(faces),
        vert_offset=np.cumsum([0, *map(len, corners)]),
        face_offset=np.cumsum([0, *map(len, faces)]),
    )
    entries = [{"name": f"box {i}", "licence": licence} for i, licence in enumerate(licences)]
    (folder / "index.json").write_text(json.dumps(entries))
    return folder


@pytest.fixture
def pack(tmp_path):
    meshes = [box_mesh((size, 0.8, 0.5), (-0.5, -0.4, -0.25)) for size in (0.4, 0.6, 1.0)]
    return pack_of(tmp_path / "pack", meshes, ["CC BY 4.0", "CC BY-NC 4.0", "CC0"])


# -- read --------------------------------------------------------------------------------------------------


def test_files_of_a_folder_in_order(tmp_path):
    (tmp_path / "deeper").mkdir()
    (tmp_path / "b.stl").write_bytes(stl(box_mesh((1, 1, 2))))
    (tmp_path / "a.OBJ").write_text(obj(box_mesh((1, 1, 3))))
    (tmp_path / "deeper" / "c.obj").write_text(obj(box_mesh()))
    (tmp_path / "notes.txt").write_text("not a mesh")
    source = open_meshes(tmp_path)
    assert [source.name(i) for i in range(len(source))] == ["a", "b", "c"]
    assert [source.solid(i).volume() for i in range(3)] == pytest.approx([3, 2, 1])
    assert source.licence(0) is None


def test_a_single_file(tmp_path):
    (tmp_path / "pot.stl").write_bytes(stl(box_mesh()))
    source = open_meshes(tmp_path / "pot.stl")
    assert len(source) == 1
    assert source.solid(0).volume() == pytest.approx(1)


def test_a_pack(pack):
    source = open_meshes(pack)
    assert [source.name(i) for i in range(len(source))] == ["box 0", "box 1", "box 2"]
    assert [source.licence(i) for i in range(3)] == ["CC BY 4.0", "CC BY-NC 4.0", "CC0"]
    assert [source.solid(i).volume() for i in range(3)] == pytest.approx([0.16, 0.24, 0.4], rel=1e-3)
    assert len(open_meshes(pack / "meshes.npz")) == 3


def test_some_licences_of_a_pack(pack):
    source = open_meshes(pack, licences=["cc by", "CC0"])
    assert [source.name(i) for i in range(len(source))] == ["box 0", "box 2"]
    assert source.solid(1).volume() == pytest.approx(0.4, rel=1e-3)
    assert pickle.loads(pickle.dumps(source)) == source


@pytest.mark.parametrize(
    ("licence", "wish", "verdict"),
    [
        ("CC BY 4.0", "CC BY", True),
        ("YCB CC BY 4.0", "CC BY", True),
        ("CC BY-NC 4.0", "CC BY", False),
        ("CC BY NC 4.0", "CC BY", False),
        ("CC BY-SA 4.0", "CC BY", False),
        ("CC BY-ND 4.0", "CC BY", False),
        ("CC BY-NC 4.0", "CC BY-NC", True),
        ("CC BY-NC-SA 4.0", "CC BY-NC", False),
        ("per-object, see repo", "CC BY", False),
        ("", "CC BY", False),
        (None, "CC BY", False),
    ],
)
def test_licences(licence, wish, verdict):
    assert is_allowed(licence, [wish]) is verdict


def test_meshes_are_broken_in_turn(pack):
    source = FractureSource(FractureConfig(max_pieces=3, num_points=500), meshes=open_meshes(pack))
    assert [source.fracture(item)[0] for item in (0, 1, 5)] == ["000000-box 0", "000001-box 1", "000005-box 2"]
    assert source.description()["meshes"] == ["box 0", "box 1", "box 2"]


def test_foreign_pieces_come_from_another_mesh(pack):
    config = FractureConfig(min_pieces=2, max_pieces=2, foreign=1.0)
    source = FractureSource(config, meshes=open_meshes(pack, licences=["CC BY", "CC BY-NC"]))
    for item in range(4):
        _, broken = source.fracture(item)
        # The volumes of the two boxes, scaled to the same diagonal, are not the same.
        volumes = [sum(piece.mesh.volume for piece in pieces) for pieces in (broken.pieces, broken.foreign)]
        assert len(broken.foreign) == 2
        assert abs(volumes[0] / volumes[1] - 1) > 0.1
    with pytest.raises(InputError, match="cannot come from a single mesh"):
        FractureSource(config, meshes=open_meshes(pack, licences=["CC0"]))


def test_real_scans_break():
    source = FractureSource(FractureConfig(), seed=2, meshes=open_meshes(real_data("meshes"), licences=["CC BY"]))
    for item in (11, 40):
        name, broken = source.fracture(item)
        assert sum(p.mesh.volume for p in broken.pieces) == pytest.approx(broken.volume, rel=1e-6), name
    assert len(source.meshes) == 224


# -- refused -----------------------------------------------------------------------------------------------

NAN = BOX.copy()
NAN[0, 0] = np.nan
FILES = {
    "truncated": ("a.stl", stl(box_mesh())[:-60], "a.stl"),
    "empty": ("a.obj", b"", "a.obj"),
    "garbage": ("a.ply", b"\x00\x01garbage" * 30, "a.ply"),
    "NaN": ("a.stl", stl(Mesh(NAN, BOX_FACES)), "a.stl.*NaN"),
    "open": ("a.stl", stl(Mesh(BOX, BOX_FACES[2:])), "a.stl: not a closed surface"),
    "inside out": ("a.stl", stl(inside_out(box_mesh())), "a.stl: .*inside out"),
    "two solids": ("a.stl", stl(both(box_mesh(), box_mesh((1, 1, 1), (4, 0, 0)))), "a.stl: 2 separate solids"),
    "a cloud": ("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n", "a.obj"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_is_named(tmp_path, name):
    file, content, message = FILES[name]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError, match=message):
        open_meshes(tmp_path).solid(0)


def test_no_meshes(tmp_path, pack):
    (tmp_path / "empty").mkdir()
    for path, message in (("empty", "empty: no meshes in this folder"), ("nowhere", "nowhere: no such file or folder")):
        with pytest.raises(InputError, match=message):
            open_meshes(tmp_path / path)
    with pytest.raises(InputError, match="none of its 3 meshes has a licence like GPL"):
        open_meshes(pack, licences=["GPL"])
    with pytest.raises(InputError, match="do not tell their licence"):
        open_meshes(tmp_path / "empty", licences=["CC BY"])


DAMAGED = {
    "index.json": (b"[", "index.json: expected a JSON file"),
    "an index of something else": (b"{}", "index.json: expected a list with an entry for every mesh"),
    "a short index": (b"[{}]", "1 meshes in index.json but 3 in meshes.npz"),
    "meshes.npz": (b"PK\x03\x04 not really", "meshes.npz: expected an .npz file"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_pack(pack, name):
    content, message = DAMAGED[name]
    (pack / ("meshes.npz" if name == "meshes.npz" else "index.json")).write_bytes(content)
    with pytest.raises(InputError, match=message):
        open_meshes(pack)


def test_a_pack_whose_tables_do_not_fit(pack):
    with np.load(pack / "meshes.npz") as file:
        arrays = dict(file)
    np.savez(pack / "meshes.npz", **{**arrays, "face_offset": arrays["face_offset"] + 1})
    with pytest.raises(InputError, match="face_offset must rise from 0 to"):
        open_meshes(pack)


def test_faces_of_vertices_that_are_not_there(tmp_path):
    far = Mesh(box_mesh((1, 1, 1), (-0.5,) * 3).vertices, BOX_FACES + 3)
    with pytest.raises(InputError, match=r"meshes.npz: box 0: its faces name vertices 3 to 10 of 8"):
        open_meshes(pack_of(tmp_path / "bad", [far], ["CC0"])).solid(0)


def test_bad_meshes_are_skipped_and_counted(tmp_path):
    folder = tmp_path / "meshes"
    folder.mkdir()
    (folder / "good.stl").write_bytes(stl(box_mesh()))
    (folder / "open.stl").write_bytes(stl(Mesh(BOX, BOX_FACES[2:])))
    source = FractureSource(FractureConfig(max_pieces=2, num_points=200), meshes=open_meshes(folder), num_puzzles=4)
    with pytest.raises(InputError, match=r"open\.stl: not a closed surface"):
        build(Plan.from_source(source, source.description()), tmp_path / "strict")
    built = build(Plan.from_source(source, source.description(), skip_bad=True), tmp_path / "lenient")
    assert (built.num_examples, built.num_skipped) == (2, 2)
    assert [example.name for example in built.dataset] == ["000000-good", "000002-good"]
