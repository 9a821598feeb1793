"""GLB files: parts of trimesh, each at its place, as bytes; and the same bytes with all of it moved.

Pictures are encoded once, however often a piece is written.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

Part = tuple[Any, np.ndarray]  # a geometry of trimesh, and the transform (4, 4) that places it in its scene

_HEADER = struct.Struct("<4sIIII")  # magic, version, length of all, and length and kind of the first chunk


def glb_bytes(parts: Sequence[Part]) -> bytes:
    """A GLB. Its vertices have single precision and its nodes double, so vertices are centred on their nodes."""
    import trimesh

    scene = trimesh.Scene()
    for shape, place in parts:
        to_middle = np.eye(4)
        to_middle[:3, 3] = shape.bounds.mean(axis=0)
        near = shape.copy()
        near.apply_translation(-to_middle[:3, 3])
        scene.add_geometry(near, transform=place @ to_middle)
    return bytes(scene.export(file_type="glb"))


def moved_glb(content: bytes, pose: np.ndarray) -> bytes:
    """What `glb_bytes` gave, with every part moved by a pose (4, 4)."""
    magic, version, _, length, kind = _HEADER.unpack_from(content)
    tree, rest = json.loads(content[_HEADER.size : _HEADER.size + length]), content[_HEADER.size + length :]
    for node in tree["nodes"]:
        if "mesh" in node:
            place = np.reshape(node.get("matrix", np.eye(4)), (4, 4)).T  # by columns
            node["matrix"] = (pose @ place).T.ravel().tolist()
    text = json.dumps(tree, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    return _HEADER.pack(magic, version, _HEADER.size + len(text) + len(rest), len(text), kind) + text + rest
