"""The placed pieces as files: every one complete and in its place, in its own format; and all of them merged."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh
from support.results import FACES, OTHER, SMALL, VERTICES, assembly_of, input_pieces, textured_box, write_some_result
from support.rigid_motions import random_motion_in_box, transform_points

from eda.data.piece_files import read_pieces
from eda.output.result_files import write_result


def texture_of(path: Path) -> tuple[int, int, int]:
    (loaded,) = trimesh.load(path).geometry.values()
    return loaded.visual.material.baseColorTexture.convert("RGB").getpixel((0, 0))


@pytest.mark.parametrize("suffix", [".ply", ".obj", ".stl", ".off", ".glb"])
def test_meshes_keep_their_format(tmp_path, suffix):
    for name in ("a", "b"):
        trimesh.Trimesh(VERTICES, FACES, process=False).export(tmp_path / f"{name}{suffix}")
    assembly, out = write_some_result(input_pieces(tmp_path), tmp_path)
    assert sorted(p.name for p in (out / "pieces").iterdir()) == [f"a{suffix}", f"b{suffix}"]
    moved = read_pieces([out / "pieces" / f"b{suffix}"])[0]
    corners = transform_points(assembly.best.poses[1], VERTICES)[FACES]
    np.testing.assert_allclose(
        np.sort(moved.points[moved.faces].reshape(-1, 3), axis=0), np.sort(corners.reshape(-1, 3), axis=0), atol=1e-6
    )


def test_clouds_stay_whole_with_normals_and_colours(tmp_path):
    rows = np.random.default_rng(0).normal(size=(5000, 6))
    rows[:, 3:] /= np.linalg.norm(rows[:, 3:], axis=1, keepdims=True)
    np.save(tmp_path / "normals.npy", rows)
    colors = np.random.default_rng(1).integers(0, 256, (400, 3))
    np.savetxt(tmp_path / "colors.xyz", np.column_stack([rows[:400, :3] + 1e6, colors]))
    assembly, out = write_some_result(input_pieces(tmp_path / "normals.npy", tmp_path / "colors.xyz"), tmp_path)
    first, second = read_pieces([out / "pieces" / "normals.ply", out / "pieces" / "colors.ply"])
    pose = assembly.best.poses[0]
    np.testing.assert_allclose(first.points, transform_points(pose, rows[:, :3]), atol=1e-9)
    np.testing.assert_allclose(first.normals, rows[:, 3:] @ pose[:3, :3].T, atol=1e-6)
    np.testing.assert_array_equal(second.colors, colors)
    np.testing.assert_allclose(second.points, transform_points(assembly.best.poses[1], rows[:400, :3] + 1e6), atol=1e-6)


def test_files_of_the_same_name_do_not_replace_each_other(tmp_path):
    for number, folder in enumerate(("one", "two")):
        (tmp_path / folder).mkdir()
        trimesh.Trimesh(VERTICES * (1 + number), FACES, process=False).export(tmp_path / folder / "sherd.ply")
    _, out = write_some_result(input_pieces(tmp_path / "one", tmp_path / "two"), tmp_path)
    first, second = read_pieces([out / "pieces" / "sherd.ply", out / "pieces" / "sherd_2.ply"])
    assert np.isclose(second.mesh.area, 4 * first.mesh.area)


COLORS = {"red": (250, 10, 10), "green": (10, 250, 10)}


@pytest.mark.parametrize("suffix", [".obj", ".glb", ".gltf"])
def test_every_texture_stays_with_its_piece(tmp_path, suffix):
    for name, color in COLORS.items():
        (tmp_path / name).mkdir()
        trimesh.Scene(textured_box(color)).export(tmp_path / name / f"{name}{suffix}")
    _, out = write_some_result(input_pieces(tmp_path / "red", tmp_path / "green"), tmp_path)
    for name, color in COLORS.items():
        assert texture_of(out / "pieces" / f"{name}.glb") == pytest.approx(color, abs=3)


def scene_of_two_textures() -> trimesh.Scene:
    """One above the other in the tree, turned, moved and scaled."""
    scene, rng = trimesh.Scene(), np.random.default_rng(0)
    scaled = random_motion_in_box(rng) @ np.diag([2.0, 2, 2, 1])
    scene.add_geometry(textured_box(COLORS["red"]), node_name="red", transform=scaled)
    scene.add_geometry(
        textured_box(COLORS["green"]), node_name="green", parent_node_name="red", transform=random_motion_in_box(rng)
    )
    return scene


def test_all_of_one_file_become_files_of_their_own(tmp_path):
    """Every one with its texture, and moved from where the scene had it."""
    scene_of_two_textures().export(tmp_path / "vase.glb")
    pieces = input_pieces(tmp_path / "vase.glb")
    assembly, out = write_some_result(pieces, tmp_path)
    assert sorted(piece.name for piece in pieces) == ["vase_green", "vase_red"]
    for i, piece in enumerate(pieces):
        (moved,) = read_pieces([out / "pieces" / f"{piece.name}.glb"])
        np.testing.assert_allclose(moved.points, transform_points(assembly.best.poses[i], piece.file.points), atol=1e-5)
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
    pieces = input_pieces(tmp_path / "model.gltf")
    _, out = write_some_result(pieces, tmp_path)
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
    pieces = input_pieces(tmp_path / "a.ply", tmp_path / "b.glb")
    assembly = assembly_of(pieces)
    poses = assembly.best.poses.copy()
    poses[0] = np.eye(4)
    poses[1, :3, 3] = away
    assembly = replace(assembly, alternatives=(replace(assembly.best, poses=poses),))
    write_result(assembly, pieces, tmp_path / "out", command="a test", sizes=SMALL)
    expected = [far, transform_points(poses[1], VERTICES)]
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
    assembly, out = write_some_result([*input_pieces(tmp_path / "a.ply"), OTHER], tmp_path)
    written = trimesh.load(out / "pieces" / "a.ply", process=False)
    np.testing.assert_array_equal(written.visual.vertex_colors, colors)
    (piece,) = read_pieces([out / "pieces" / "a.ply"])
    np.testing.assert_allclose(piece.normals, mesh.vertex_normals @ assembly.best.poses[0, :3, :3].T, atol=1e-6)


def test_polygons_of_any_size_are_written(tmp_path):
    """Triangles and squares in one file, which not every reader takes."""
    polygons = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7], [1, 7, 3]]
    write_double_ply(tmp_path / "a.ply", VERTICES, polygons, np.zeros((7, 3), dtype=int))
    assembly, out = write_some_result([*input_pieces(tmp_path / "a.ply"), OTHER], tmp_path)
    (piece,) = read_pieces([out / "pieces" / "a.ply"])
    np.testing.assert_allclose(piece.points, transform_points(assembly.best.poses[0], VERTICES), atol=1e-12)
    assert len(piece.faces) == 12


def test_all_as_one_is_a_mesh_of_what_is_placed(tmp_path):
    for name in ("a", "b", "c"):
        trimesh.Trimesh(VERTICES, FACES, process=False).export(tmp_path / f"{name}.ply")
    assembly, out = write_some_result(input_pieces(tmp_path), tmp_path, placed=[True, False, True])
    assert sorted(p.name for p in (out / "pieces").iterdir()) == ["a.ply", "c.ply"]
    corners = np.concatenate([transform_points(assembly.best.poses[i], VERTICES) for i in (0, 2)])
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
    pieces = input_pieces(tmp_path / "a.npy", tmp_path / "b.npy")
    assembly, out = write_some_result(pieces, tmp_path)
    for name in ("assembled.ply", "assembled.glb"):
        (whole,) = read_pieces([out / name])
        moved = [transform_points(assembly.best.poses[i], piece.file.points) for i, piece in enumerate(pieces)]
        np.testing.assert_allclose(whole.points, np.concatenate(moved), atol=1e-5)
    monkeypatch.setattr("eda.output.placed_pieces._MAX_POINTS", 4500)
    write_result(assembly, pieces, out, command="again", overwrite=True, sizes=SMALL)
    (whole,) = read_pieces([out / "assembled.ply"])
    pose = assembly.best.poses[0]
    assert len(whole.points) == 4500
    own = (whole.points[:3000] - pose[:3, 3]) @ pose[:3, :3]  # back to where the first piece was
    assert own.min() > -1e-9
    assert own.max() < 1 + 1e-9
    assert np.histogram(own[:, 0], 10, (0, 1))[0].min() > 200
