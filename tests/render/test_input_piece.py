"""Pieces as they were given: which are drawn as meshes."""

import numpy as np
import trimesh
from support.results import FACES, VERTICES, input_pieces

from eda.render.input_piece import MAX_TRIANGLES, can_draw_as_meshes


def test_heavy_meshes_are_drawn_as_discs(tmp_path):
    trimesh.Trimesh(VERTICES, np.tile(FACES, (MAX_TRIANGLES // 24 + 1, 1)), process=False).export(tmp_path / "a.ply")
    (piece,) = input_pieces(tmp_path / "a.ply")
    assert can_draw_as_meshes([piece])
    assert not can_draw_as_meshes([piece, piece])
