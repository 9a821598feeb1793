"""The files of a result: all alternatives and all pieces; pictures also of clouds, and of pieces without a place."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image
from support.reports import random_poses
from support.results import (
    FACES,
    NORMALS,
    POINTS,
    SMALL,
    VERTICES,
    assembly_of,
    input_pieces,
    textured_box,
    write_some_result,
)
from support.rigid_motions import transform_points

from eda.assembly import Assembly
from eda.data.piece_files import read_pieces
from eda.output.result_files import write_result
from eda.render.input_piece import InputPiece, can_draw_as_meshes


def test_nothing_placed_is_still_a_result(tmp_path):
    pieces = [InputPiece(name, POINTS, NORMALS) for name in "ab"]
    _, out = write_some_result(pieces, tmp_path, placed=[False, False])
    assert list((out / "pieces").iterdir()) == []
    assert list(out.glob("assembled.*")) == [], "there is no whole"
    with Image.open(out / "preview.png") as picture:
        shades = np.asarray(picture).astype(int)
    assert shades.min() < 200, "the pieces are shown"
    assert np.ptp(shades[shades.min(axis=2) < 120], axis=1).max() < 40, "in grey"


def test_clouds_and_meshes_together_are_drawn_as_discs(tmp_path):
    trimesh.Trimesh(VERTICES, FACES, process=False).export(tmp_path / "a.ply")
    mixed = [*input_pieces(tmp_path / "a.ply"), InputPiece("b", POINTS, NORMALS)]
    assert can_draw_as_meshes(mixed[:1])
    assert not can_draw_as_meshes(mixed)
    _, out = write_some_result(mixed, tmp_path)
    assert isinstance(trimesh.load(out / "assembled.ply"), trimesh.PointCloud)


@pytest.fixture
def boxes(tmp_path) -> list[InputPiece]:
    """A mesh, a mesh with a picture, and a cloud."""
    folder = tmp_path / "sherds"
    folder.mkdir()
    trimesh.Trimesh(VERTICES, FACES, process=False).export(folder / "a.ply")
    textured_box((250, 10, 10)).export(folder / "b.glb")
    np.savetxt(folder / "c.xyz", POINTS)
    return input_pieces(folder)


def with_alternatives(pieces: list[InputPiece], *placed: list[bool]) -> Assembly:
    """An assembly with an alternative for each list of placed pieces, in different poses, with joints of the placed."""
    assembly = assembly_of(pieces)
    joints = [0.5 * np.outer(each, each) * (1 - np.eye(len(pieces))) for each in placed]
    alternatives = tuple(
        replace(assembly.best, poses=random_poses(len(pieces), seed=k), placed=np.array(each), joints=joints[k])
        for k, each in enumerate(placed)
    )
    return replace(assembly, alternatives=alternatives)


def written_points(path: Path) -> np.ndarray:
    return read_pieces([path])[0].points


def test_all_alternatives_are_written_with_all_pieces_and_the_record_names_them(tmp_path, boxes):
    """Placed ones moved, the others as they were."""
    assembly = with_alternatives(boxes, [True, True, False], [False, True, True], [True, True, True])
    returned = write_result(assembly, boxes, tmp_path / "out", command="a test", sizes=SMALL)
    record = json.loads((tmp_path / "out" / "assembly.json").read_text())
    assert record == returned
    for number, (told, known) in enumerate(zip(record["alternatives"], assembly.alternatives, strict=True), 1):
        start = "" if number == 1 else f"alternatives/{number}/"
        for i, piece in enumerate(told["pieces"]):
            folder, pose = ("pieces", known.poses[i]) if known.placed[i] else ("unplaced", np.eye(4))
            assert Path(piece["file"]).parent.as_posix() == start + folder
            points = written_points(tmp_path / "out" / piece["file"])
            np.testing.assert_allclose(points, transform_points(pose, boxes[i].file.points), atol=1e-5)
        assert (tmp_path / "out" / start / "assembled.ply").is_file()
        assert (tmp_path / "out" / start / "assembled.glb").is_file()
    assert not (tmp_path / "out" / "alternatives" / "3" / "unplaced").exists()
    named = {piece["file"] for each in record["alternatives"] for piece in each["pieces"]}
    found = {p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*") if p.parent.name in
             ("pieces", "unplaced")}  # fmt: skip
    assert named == found


def test_a_piece_with_its_picture_is_whole_in_every_alternative(tmp_path, boxes):
    assembly = with_alternatives(boxes, [True, True, True], [True, False, True])
    write_result(assembly, boxes, tmp_path / "out", command="a test", sizes=SMALL)
    for place in ("pieces", "alternatives/2/unplaced"):
        (box,) = trimesh.load(tmp_path / "out" / place / "b.glb").geometry.values()
        assert box.visual.material.baseColorTexture.convert("RGB").getpixel((0, 0)) == (250, 10, 10)


@pytest.mark.parametrize(("of_size", "count"), [(0.0, 0), (0.9, 0), (1.1, 1), (2.5, 2), (9.0, 2)])
def test_files_of_alternatives_are_limited_and_poses_are_not(tmp_path, boxes, of_size, count):
    """By how many times the size of the best one's files they may take."""
    assembly = with_alternatives(boxes, *[[True, True, True]] * 3)
    out = tmp_path / "out"
    write_result(replace(assembly, alternatives=assembly.alternatives[:1]), boxes, out, command="", sizes=SMALL)
    files = [*(out / "pieces").iterdir(), *out.glob("assembled.*")]
    size = sum(path.stat().st_size for path in files)
    record = write_result(assembly, boxes, out, command="", overwrite=True, sizes=SMALL, megabytes=of_size * size / 1e6)
    names = sorted(path.name for path in (out / "alternatives").iterdir()) if count else []
    assert names == ["2", "3"][:count]
    assert (out / "alternatives").exists() == bool(count)
    told = [[piece["file"] is not None for piece in each["pieces"]] for each in record["alternatives"]]
    assert told == [[True] * 3] * (1 + count) + [[False] * 3] * (2 - count)
    assert all(piece["pose"] for each in record["alternatives"] for piece in each["pieces"])


def test_the_record_has_what_was_measured_of_joints(tmp_path, boxes):
    """Two boxes a thousandth apart, and a pair that is far away."""
    assembly = with_alternatives(boxes[:2], [True, True], [True, True])
    near, far = np.tile(np.eye(4), (2, 2, 1, 1))
    near[1, 0, 3], far[1, 0, 3] = 1.001, 5
    first, second = (replace(a, poses=p) for a, p in zip(assembly.alternatives, (near, far), strict=True))
    assembly = replace(assembly, alternatives=(first, second))
    record = write_result(assembly, boxes[:2], tmp_path / "out", command="", sizes=SMALL)
    (joint,), (none,) = (alternative["joints"] for alternative in record["alternatives"])
    assert (joint["pieces"], joint["confidence"]) == (["a", "b"], 0.5)
    assert joint["gap"] == pytest.approx(0.001, rel=1e-3)
    assert joint["contact_area"] == pytest.approx(1, rel=0.1)
    assert joint["contact_points"] > 1000
    assert (none["gap"], none["contact_points"], none["contact_area"]) == (None, 0, 0)
