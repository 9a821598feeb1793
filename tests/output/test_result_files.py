"""The files of a result: pictures also of clouds beside meshes, and of pieces without a place."""

import numpy as np
import trimesh
from PIL import Image
from support.results import FACES, NORMALS, POINTS, VERTICES, input_pieces, write_some_result

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
