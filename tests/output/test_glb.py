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
    found = [transform_points(moved.graph[node][0], moved.geometry[moved.graph[node][1]].vertices)
             for node in moved.graph.nodes_geometry]  # fmt: skip
    for vertices, place in zip(found, places, strict=True):
        np.testing.assert_allclose(vertices, transform_points(pose @ place, VERTICES), rtol=0, atol=1e-6)
    reds = [g.visual.material.baseColorTexture.convert("RGB").getpixel((0, 0))[0] for g in moved.geometry.values()]
    assert reds == [250, 10]
