"""GLB files moved without being written anew."""

import io

import numpy as np
import trimesh
from support.results import VERTICES, textured_box
from support.rigid_motions import random_motion_in_box, transform_points

from eda.output.glb import glb_bytes, moved_glb


def test_every_part_is_moved_from_its_place_and_keeps_its_picture():
    rng = np.random.default_rng(0)
    places, pose = [random_motion_in_box(rng), np.eye(4)], random_motion_in_box(rng)
    pose[:3, 3] += [4e6, 0, 0]
    parts = list(zip([textured_box((250, 10, 10)), textured_box((10, 250, 10))], places, strict=True))
    moved = trimesh.load(io.BytesIO(moved_glb(glb_bytes(parts), pose)), file_type="glb")
    seen = set()
    for node in moved.graph.nodes_geometry:
        at, name = moved.graph[node]
        is_red = moved.geometry[name].visual.material.baseColorTexture.convert("RGB").getpixel((0, 0))[0] == 250
        expected = transform_points(pose @ places[0 if is_red else 1], VERTICES)
        np.testing.assert_allclose(transform_points(at, moved.geometry[name].vertices), expected, rtol=0, atol=1e-6)
        seen.add(is_red)
    assert seen == {True, False}
