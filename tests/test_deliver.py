"""What a result folder holds: every piece whole and in its place, in its own format; all of it or nothing."""

import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image
from support.data_files import acted, box, random_motion
from support.shapes import lumpy_cloud
from test_report import contents

from eda import InputError
from eda.assembly import Alternative, AssembleConfig, Assembly, Clouds, RankConfig
from eda.data.piece_files import read_pieces, sample_piece
from eda.view.deliver import Given, Pictures, deliver
from eda.view.figures import MOST_TRIANGLES, are_meshes, between
from eda.view.result_folder import check_free

SMALL = Pictures(preview=64, frame=32, frames=2, last_frames=2)
VERTICES, FACES = box(0, 1)
POINTS, NORMALS = lumpy_cloud(0, 300)
OTHER = Given("other", POINTS, NORMALS)


def given(*paths: Path) -> list[Given]:
    """The pieces of some files, with points for pictures."""
    rng = np.random.default_rng
    return [Given(file.name, *sample_piece(file, 20, rng(0))[:2], file) for file in read_pieces(paths)]


def assembly_of(pieces: list[Given], placed: list[bool] | None = None, seed: int = 0) -> Assembly:
    """Any poses: what is found is not the matter here."""
    rng, count = np.random.default_rng(seed), len(pieces)
    flow = np.stack([[random_motion(rng) for _ in pieces] for _ in range(4)])
    is_placed = np.array([True] * count if placed is None else placed)
    best = Alternative(flow[-1], is_placed, 0.5, 0.5, 0.9 * is_placed, np.zeros((count, count)), 1)
    clouds = Clouds.of([piece.points for piece in pieces], [piece.normals for piece in pieces])
    names = tuple(piece.name for piece in pieces)
    return Assembly(names, clouds, (best,), flow, (), "a model", "given", {}, 1.0, False)


def delivered(pieces: list[Given], folder: Path, placed: list[bool] | None = None) -> tuple[Assembly, Path]:
    assembly = assembly_of(pieces, placed)
    deliver(assembly, pieces, folder / "out", command="a test", pictures=SMALL)
    return assembly, folder / "out"


def textured_box(color: tuple[int, int, int]) -> trimesh.Trimesh:
    mesh = trimesh.Trimesh(VERTICES, FACES, process=False)
    mesh.visual = trimesh.visual.TextureVisuals(uv=VERTICES[:, :2], image=Image.new("RGB", (4, 4), color))
    return mesh


def texture_of(path: Path) -> tuple[int, int, int]:
    (loaded,) = trimesh.load(path).geometry.values()
    return loaded.visual.material.baseColorTexture.convert("RGB").getpixel((0, 0))


# -- the pieces --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".ply", ".obj", ".stl", ".off", ".glb"])
def test_meshes_keep_their_format(tmp_path, suffix):
    for name in ("a", "b"):
        trimesh.Trimesh(VERTICES, FACES, process=False).export(tmp_path / f"{name}{suffix}")
    assembly, out = delivered(given(tmp_path), tmp_path)
    assert sorted(p.name for p in (out / "pieces").iterdir()) == [f"a{suffix}", f"b{suffix}"]
    moved = read_pieces([out / "pieces" / f"b{suffix}"])[0]
    corners = acted(assembly.best.poses[1], VERTICES)[FACES]
    np.testing.assert_allclose(
        np.sort(moved.points[moved.faces].reshape(-1, 3), axis=0), np.sort(corners.reshape(-1, 3), axis=0), atol=1e-6
    )


def test_clouds_stay_whole_with_normals_and_colours(tmp_path):
    rows = np.random.default_rng(0).normal(size=(5000, 6))
    rows[:, 3:] /= np.linalg.norm(rows[:, 3:], axis=1, keepdims=True)
    np.save(tmp_path / "normals.npy", rows)
    colors = np.random.default_rng(1).integers(0, 256, (400, 3))
    np.savetxt(tmp_path / "colors.xyz", np.column_stack([rows[:400, :3] + 1e6, colors]))
    assembly, out = delivered(given(tmp_path / "normals.npy", tmp_path / "colors.xyz"), tmp_path)
    first, second = read_pieces([out / "pieces" / "normals.ply", out / "pieces" / "colors.ply"])
    pose = assembly.best.poses[0]
    np.testing.assert_allclose(first.points, acted(pose, rows[:, :3]), atol=1e-9)
    np.testing.assert_allclose(first.normals, rows[:, 3:] @ pose[:3, :3].T, atol=1e-6)
    np.testing.assert_array_equal(second.colors, colors)
    np.testing.assert_allclose(second.points, acted(assembly.best.poses[1], rows[:400, :3] + 1e6), atol=1e-6)


def test_files_of_the_same_name_do_not_replace_each_other(tmp_path):
    for number, folder in enumerate(("one", "two")):
        (tmp_path / folder).mkdir()
        trimesh.Trimesh(VERTICES * (1 + number), FACES, process=False).export(tmp_path / folder / "sherd.ply")
    _, out = delivered(given(tmp_path / "one", tmp_path / "two"), tmp_path)
    first, second = read_pieces([out / "pieces" / "sherd.ply", out / "pieces" / "sherd_2.ply"])
    assert np.isclose(second.mesh.area, 4 * first.mesh.area)


COLORS = {"red": (250, 10, 10), "green": (10, 250, 10)}


@pytest.mark.parametrize("suffix", [".obj", ".glb", ".gltf"])
def test_every_texture_stays_with_its_piece(tmp_path, suffix):
    for name, color in COLORS.items():
        (tmp_path / name).mkdir()
        trimesh.Scene(textured_box(color)).export(tmp_path / name / f"{name}{suffix}")
    _, out = delivered(given(tmp_path / "red", tmp_path / "green"), tmp_path)
    for name, color in COLORS.items():
        assert texture_of(out / "pieces" / f"{name}.glb") == pytest.approx(color, abs=3)


def scene_of_two_textures() -> trimesh.Scene:
    """One above the other in the tree, turned, moved and scaled."""
    scene, rng = trimesh.Scene(), np.random.default_rng(0)
    scaled = random_motion(rng) @ np.diag([2.0, 2, 2, 1])
    scene.add_geometry(textured_box(COLORS["red"]), node_name="red", transform=scaled)
    scene.add_geometry(
        textured_box(COLORS["green"]), node_name="green", parent_node_name="red", transform=random_motion(rng)
    )
    return scene


def test_all_of_one_file_become_files_of_their_own(tmp_path):
    """Every one with its texture, and moved from where the scene had it."""
    scene_of_two_textures().export(tmp_path / "vase.glb")
    pieces = given(tmp_path / "vase.glb")
    assembly, out = delivered(pieces, tmp_path)
    assert sorted(piece.name for piece in pieces) == ["vase_green", "vase_red"]
    for i, piece in enumerate(pieces):
        (moved,) = read_pieces([out / "pieces" / f"{piece.name}.glb"])
        np.testing.assert_allclose(moved.points, acted(assembly.best.poses[i], piece.file.points), atol=1e-5)
        assert len(moved.faces) == len(FACES)
        wanted = COLORS[piece.name.removeprefix("vase_")]
        assert texture_of(out / "pieces" / f"{piece.name}.glb") == pytest.approx(wanted, abs=3)


def test_a_piece_of_several_materials_keeps_them_all(tmp_path):
    """As exporters write it: one mesh with a primitive for every material, beside another mesh."""
    tree = trimesh.exchange.gltf.export_gltf(scene_of_two_textures())
    header = json.loads(tree["model.gltf"])
    first, second = (mesh["primitives"][0] for mesh in header["meshes"])
    header["meshes"][0]["primitives"] = [first, second]
    for name, content in (tree | {"model.gltf": json.dumps(header).encode()}).items():
        (tmp_path / name).write_bytes(content)
    pieces = given(tmp_path / "model.gltf")
    _, out = delivered(pieces, tmp_path)
    counts = [len(trimesh.load(out / "pieces" / f"{piece.name}.glb").geometry) for piece in pieces]
    assert sorted(counts) == [1, 2]


# What a writer of double precision leaves: trimesh has none.
DOUBLE_PLY = """ply
format binary_little_endian 1.0
element vertex {count}
property double x
property double y
property double z
element face {num_faces}
property list uchar int vertex_indices
property uchar red
property uchar green
property uchar blue
end_header
"""


def write_double_ply(path: Path, points: np.ndarray, polygons: list[list[int]], colors: np.ndarray) -> None:
    header = DOUBLE_PLY.format(count=len(points), num_faces=len(polygons))
    faces = [struct.pack(f"<B{len(p)}i3B", len(p), *p, *c) for p, c in zip(polygons, colors, strict=True)]
    path.write_bytes(header.encode() + points.astype("<f8").tobytes() + b"".join(faces))


def test_coordinates_far_from_the_origin_keep_their_digits(tmp_path):
    """Georeferenced meshes, in metres: float32 knows them to a quarter of a metre."""
    away = np.array([4e6, 5e6, 300])
    far = VERTICES + away
    colors = np.random.default_rng(0).integers(0, 256, (len(FACES), 3))
    write_double_ply(tmp_path / "a.ply", far, FACES.tolist(), colors)
    trimesh.Scene([trimesh.Trimesh(VERTICES, FACES, process=False)]).export(tmp_path / "b.glb")
    pieces = given(tmp_path / "a.ply", tmp_path / "b.glb")
    assembly = assembly_of(pieces)
    poses = assembly.best.poses.copy()
    poses[0] = np.eye(4)
    poses[1, :3, 3] = away
    assembly = replace(assembly, alternatives=(replace(assembly.best, poses=poses),))
    deliver(assembly, pieces, tmp_path / "out", command="a test", pictures=SMALL)
    expected = [far, acted(poses[1], VERTICES)]
    for name, points in zip(("a.ply", "b.glb"), expected, strict=True):
        (piece,) = read_pieces([tmp_path / "out" / "pieces" / name])
        np.testing.assert_allclose(piece.points, points, rtol=0, atol=1e-6)
    for name in ("assembled.ply", "assembled.glb"):
        (whole,) = read_pieces([tmp_path / "out" / name])
        np.testing.assert_allclose(whole.points, np.concatenate(expected), rtol=0, atol=1e-6)
    written = trimesh.load(tmp_path / "out" / "pieces" / "a.ply", process=False)
    np.testing.assert_array_equal(written.visual.face_colors[:, :3], colors)


def test_colours_and_normals_of_vertices_stay_in_a_ply_mesh(tmp_path):
    colors = np.random.default_rng(0).integers(0, 256, (len(VERTICES), 4), dtype=np.uint8)
    mesh = trimesh.Trimesh(VERTICES, FACES, vertex_colors=colors, process=False)
    (tmp_path / "a.ply").write_bytes(trimesh.exchange.ply.export_ply(mesh, vertex_normal=True))
    assembly, out = delivered([*given(tmp_path / "a.ply"), OTHER], tmp_path)
    written = trimesh.load(out / "pieces" / "a.ply", process=False)
    np.testing.assert_array_equal(written.visual.vertex_colors, colors)
    (piece,) = read_pieces([out / "pieces" / "a.ply"])
    np.testing.assert_allclose(piece.normals, mesh.vertex_normals @ assembly.best.poses[0, :3, :3].T, atol=1e-6)


def test_polygons_of_any_size_are_written(tmp_path):
    """Triangles and squares in one file, which not every reader takes."""
    polygons = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7], [1, 7, 3]]
    write_double_ply(tmp_path / "a.ply", VERTICES, polygons, np.zeros((7, 3), dtype=int))
    assembly, out = delivered([*given(tmp_path / "a.ply"), OTHER], tmp_path)
    (piece,) = read_pieces([out / "pieces" / "a.ply"])
    np.testing.assert_allclose(piece.points, acted(assembly.best.poses[0], VERTICES), atol=1e-12)
    assert len(piece.faces) == 12


# -- what has no place, and all as one -----------------------------------------------------------------------------


def test_all_as_one_is_a_mesh_of_what_is_placed(tmp_path):
    for name in ("a", "b", "c"):
        trimesh.Trimesh(VERTICES, FACES, process=False).export(tmp_path / f"{name}.ply")
    assembly, out = delivered(given(tmp_path), tmp_path, placed=[True, False, True])
    assert sorted(p.name for p in (out / "pieces").iterdir()) == ["a.ply", "c.ply"]
    corners = np.concatenate([acted(assembly.best.poses[i], VERTICES) for i in (0, 2)])
    for name in ("assembled.ply", "assembled.glb"):
        whole = trimesh.load(out / name, force="mesh", process=False)
        np.testing.assert_allclose(whole.vertices, corners, atol=1e-5)
        assert len(whole.faces) == 2 * len(FACES)
    assert json.loads((out / "assembly.json").read_text())["alternatives"][0]["unplaced"] == ["b"]


def test_all_as_one_has_every_point_of_clouds(tmp_path, monkeypatch):
    """Up to a bound, and then the same share of every piece, from all over it."""
    sizes = (30_000, 15_000)
    clouds = [np.random.default_rng(i).uniform(size=(size, 3)) for i, size in enumerate(sizes)]
    for cloud, name in zip(clouds, "ab", strict=True):
        np.save(tmp_path / f"{name}.npy", cloud[np.argsort(cloud[:, 0])])
    pieces = given(tmp_path / "a.npy", tmp_path / "b.npy")
    assembly, out = delivered(pieces, tmp_path)
    for name in ("assembled.ply", "assembled.glb"):
        (whole,) = read_pieces([out / name])
        moved = [acted(assembly.best.poses[i], piece.file.points) for i, piece in enumerate(pieces)]
        np.testing.assert_allclose(whole.points, np.concatenate(moved), atol=1e-5)
    monkeypatch.setattr("eda.view.moved_pieces._MOST_POINTS", 4500)
    deliver(assembly, pieces, out, command="again", overwrite=True, pictures=SMALL)
    (whole,) = read_pieces([out / "assembled.ply"])
    pose = assembly.best.poses[0]
    assert len(whole.points) == 4500
    own = (whole.points[:3000] - pose[:3, 3]) @ pose[:3, :3]  # back to where the first piece was
    assert own.min() > -1e-9
    assert own.max() < 1 + 1e-9
    assert np.histogram(own[:, 0], 10, (0, 1))[0].min() > 200


def test_nothing_placed_is_still_a_result(tmp_path):
    pieces = [Given(name, POINTS, NORMALS) for name in "ab"]
    _, out = delivered(pieces, tmp_path, placed=[False, False])
    assert list((out / "pieces").iterdir()) == []
    assert list(out.glob("assembled.*")) == [], "there is no whole"
    with Image.open(out / "preview.png") as picture:
        shades = np.asarray(picture).astype(int)
    assert shades.min() < 200, "the pieces are shown"
    assert np.ptp(shades[shades.min(axis=2) < 120], axis=1).max() < 40, "in grey"


def test_clouds_and_meshes_together_are_drawn_as_discs(tmp_path):
    trimesh.Trimesh(VERTICES, FACES, process=False).export(tmp_path / "a.ply")
    mixed = [*given(tmp_path / "a.ply"), Given("b", POINTS, NORMALS)]
    assert are_meshes(mixed[:1])
    assert not are_meshes(mixed)
    _, out = delivered(mixed, tmp_path)
    assert isinstance(trimesh.load(out / "assembled.ply"), trimesh.PointCloud)


def test_heavy_meshes_are_drawn_as_discs(tmp_path):
    trimesh.Trimesh(VERTICES, np.tile(FACES, (MOST_TRIANGLES // 24 + 1, 1)), process=False).export(tmp_path / "a.ply")
    (piece,) = given(tmp_path / "a.ply")
    assert are_meshes([piece])
    assert not are_meshes([piece, piece])


def test_the_way_between_poses_ends_at_the_second_and_turns_about_the_middles():
    rng = np.random.default_rng(3)
    start, end = (np.stack([random_motion(rng) for _ in range(3)]) for _ in range(2))
    middles = rng.normal(size=(3, 3))
    way = between(start, end, middles, 4)
    np.testing.assert_allclose(way[-1], end, atol=1e-12)
    for i in range(3):
        places = np.array([acted(pose[i], middles[i : i + 1])[0] for pose in (start, *way)])
        np.testing.assert_allclose(places, np.linspace(places[0], places[-1], 5), atol=1e-12)
        turns = [a[i, :3, :3].T @ b[i, :3, :3] for a, b in zip((start, *way), way, strict=False)]
        np.testing.assert_allclose([np.trace(turn) for turn in turns], np.trace(turns[0]), atol=1e-9)


def told_by_report(pieces: list[Given], assembly: Assembly, folder: Path) -> dict:
    deliver(assembly, pieces, folder / "out", command="a test", overwrite=True, pictures=SMALL)
    return contents((folder / "out" / "report.html").read_text(encoding="utf-8"))


def test_the_report_says_that_nothing_was_placed(tmp_path):
    pieces = [OTHER, replace(OTHER, name="b")]
    nothing, one, both = (assembly_of(pieces, list(p)) for p in ((False, False), (True, False), (True, True)))
    assert told_by_report(pieces, both, tmp_path)["note"] == ""
    assert "No piece could be placed:" in told_by_report(pieces, nothing, tmp_path)["note"]
    pinned = told_by_report(pieces, replace(one, pinned=(0,)), tmp_path)["note"]
    assert "No piece could be placed but those that were pinned" in pinned
    assert "time limit" in told_by_report(pieces, replace(both, stopped=True), tmp_path)["note"]


@pytest.mark.parametrize(
    ("config", "limit", "refinement"),
    [
        (AssembleConfig(), "none", "yes"),
        (AssembleConfig(time_limit=90, ranking=RankConfig(refine=False)), "90 s", "no, samples are judged as they are"),
    ],
)
def test_the_report_tells_settings_in_words(tmp_path, config, limit, refinement):
    pieces = [OTHER, replace(OTHER, name="b")]
    told = told_by_report(pieces, replace(assembly_of(pieces), settings=config.as_dict()), tmp_path)
    facts = dict(told["facts"])
    assert (facts["time limit"], facts["refinement"], facts["samples"]) == (limit, refinement, "16")
    assert "about 1 if all breaks are closed" in facts["score"]
    assert not {"None", "True", "False"} & set(facts.values())


# -- all of it or nothing ----------------------------------------------------------------------------------------------


def test_a_result_is_replaced_only_if_that_is_wanted(tmp_path):
    pieces = [Given(name, POINTS, NORMALS) for name in "ab"]
    assembly, out = delivered(pieces, tmp_path)
    with pytest.raises(InputError, match=r"not empty.*--overwrite"):
        deliver(assembly, pieces, out, command="again", pictures=SMALL)
    assert json.loads((out / "assembly.json").read_text())["command"] == "a test"
    left = replace(assembly, alternatives=(replace(assembly.best, placed=np.array([True, False])),))
    deliver(left, pieces, out, command="again", overwrite=True, pictures=SMALL)
    assert [p.name for p in (out / "pieces").iterdir()] == ["a.ply"], "nothing of the first time is left"
    assert json.loads((out / "assembly.json").read_text())["command"] == "again"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_what_is_no_result_is_never_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("five years")
    with pytest.raises(InputError, match="something else than a result"):
        check_free(tmp_path, overwrite=True)
    with pytest.raises(InputError, match=r"thesis\.txt: a file, not a folder"):
        check_free(tmp_path / "thesis.txt", overwrite=True)
    with pytest.raises(InputError, match=r"thesis\.txt cannot be written to"):
        check_free(tmp_path / "thesis.txt" / "out", overwrite=False)
    check_free(tmp_path / "new" / "out", overwrite=False)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "pieces/mine.ply", "pieces/a/x", "more/x", "assembled"])
def test_a_result_with_something_of_the_users_is_never_replaced(tmp_path, name):
    pieces = [Given(each, POINTS, NORMALS) for each in "ab"]
    assembly, out = delivered(pieces, tmp_path)
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_text("mine")
    with pytest.raises(InputError, match=r"something else than a result \(.*move that away, or choose another"):
        deliver(assembly, pieces, out, command="again", overwrite=True, pictures=SMALL)
    assert (out / name).read_text() == "mine"
    assert json.loads((out / "assembly.json").read_text())["command"] == "a test"


def test_a_folder_with_what_is_to_be_assembled_is_never_replaced(tmp_path):
    for name in ("a", "b"):
        trimesh.Trimesh(VERTICES, FACES, process=False).export(tmp_path / f"{name}.ply")
    _, out = delivered(given(tmp_path), tmp_path)
    again = given(out / "pieces")
    with pytest.raises(InputError, match=r"out: holds .*pieces.a\.ply, which is to be assembled"):
        deliver(assembly_of(again), again, out, command="again", overwrite=True, pictures=SMALL)
    for inputs in ([out], [out / "pieces"], [out / ".." / "out" / "pieces" / "b.ply"]):
        with pytest.raises(InputError, match="which is to be assembled"):
            check_free(out, overwrite=True, inputs=inputs)
    check_free(out, overwrite=True, inputs=[tmp_path / "a.ply"])


def test_a_link_to_a_result_stays_a_link(tmp_path):
    pieces = [Given(each, POINTS, NORMALS) for each in "ab"]
    assembly, out = delivered(pieces, tmp_path)
    (tmp_path / "link").symlink_to(out)
    deliver(assembly, pieces, tmp_path / "link", command="again", overwrite=True, pictures=SMALL)
    assert (tmp_path / "link").is_symlink()
    assert json.loads((out / "assembly.json").read_text())["command"] == "again"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "out"]


def test_the_folder_one_is_in_can_be_written(tmp_path, monkeypatch):
    """And one still is in it afterwards."""
    pieces = [Given(each, POINTS, NORMALS) for each in "ab"]
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for overwrite in (False, True):
        deliver(assembly_of(pieces), pieces, Path(), command="here", overwrite=overwrite, pictures=SMALL)
        assert Path("report.html").is_file()
    assert [p.name for p in tmp_path.iterdir()] == ["here"]
    assert [name for name in os.listdir() if name.startswith(".")] == []


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="a file system that takes nothing is needed")
def test_a_folder_that_cannot_be_made_is_refused_at_once():
    with pytest.raises(InputError, match=r"/proc/out: cannot be made, because /proc cannot be written to"):
        check_free(Path("/proc/out"), overwrite=False)


def test_a_failure_half_way_leaves_nothing(tmp_path, monkeypatch):
    pieces = [Given(name, POINTS, NORMALS) for name in "ab"]

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("eda.view.report.write_report", full_disk)
    with pytest.raises(InputError, match=r"out: cannot be written .*No space left"):
        delivered(pieces, tmp_path)
    assert list(tmp_path.iterdir()) == []
