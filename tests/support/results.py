"""For tests of result folders: pieces, an assembly of them in any poses, and its result folder."""

from pathlib import Path

import numpy as np
import trimesh
from PIL import Image
from support.dataset_files import box
from support.lumpy_shapes import lumpy_cloud
from support.rigid_motions import random_motion_in_box

from eda.assembly import Alternative, Assembly, Clouds
from eda.data.piece_files import read_pieces, sample_piece
from eda.output.result_files import PictureSizes, write_result
from eda.render.input_piece import InputPiece

SMALL = PictureSizes(preview=64, frame=32, frames=2, last_frames=2)

VERTICES, FACES = box(0, 1)

POINTS, NORMALS = lumpy_cloud(0, 300)

OTHER = InputPiece("other", POINTS, NORMALS)


def textured_box(color: tuple[int, int, int], side: int = 4) -> trimesh.Trimesh:
    """A box with a picture of one colour on it, `side` pixels wide."""
    mesh = trimesh.Trimesh(VERTICES, FACES, process=False)
    image = Image.new("RGB", (side, side), color)
    mesh.visual = trimesh.visual.TextureVisuals(uv=VERTICES[:, :2], image=image)
    return mesh


def input_pieces(*paths: Path) -> list[InputPiece]:
    """The pieces of some files, with points for pictures."""
    return [
        InputPiece(file.name, *sample_piece(file, 20, np.random.default_rng(0))[:2], file)
        for file in read_pieces(paths)
    ]


def assembly_of(pieces: list[InputPiece], placed: list[bool] | None = None, seed: int = 0) -> Assembly:
    """Any poses: what is found is not the matter here."""
    rng, count = np.random.default_rng(seed), len(pieces)
    flow = np.stack([[random_motion_in_box(rng) for _ in pieces] for _ in range(4)])
    is_placed = np.array([True] * count if placed is None else placed)
    best = Alternative(flow[-1], is_placed, 0.5, 0.5, 0.9 * is_placed, np.zeros((count, count)), 1)
    clouds = Clouds.of([piece.points for piece in pieces], [piece.normals for piece in pieces])
    names = tuple(piece.name for piece in pieces)
    return Assembly(names, clouds, (best,), flow, (), "a model", "given", {}, 1.0, False)


def write_some_result(
    pieces: list[InputPiece], folder: Path, placed: list[bool] | None = None
) -> tuple[Assembly, Path]:
    assembly = assembly_of(pieces, placed)
    write_result(assembly, pieces, folder / "out", command="a test", sizes=SMALL)
    return assembly, folder / "out"
