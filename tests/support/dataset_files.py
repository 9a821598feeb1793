"""For tests: tiny datasets in the exact formats that the readers know, and the place of the real ones."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from scipy.spatial import cKDTree

from eda.data import Example

REAL_DATA = Path(os.environ.get("EDA_REAL_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")


def real_data(name: str) -> Path:
    """A folder of real data, beside the repository or in EDA_REAL_DATA; without it the test is skipped."""
    folder = REAL_DATA / name
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}: set EDA_REAL_DATA")
    return folder


def share_near(source: np.ndarray, target: np.ndarray, radius: float) -> float:
    return float((cKDTree(target).query(source)[0] < radius).mean())


def lowest(example: Example) -> list[float]:
    """Where the pieces begin along x, relative to the first of them."""
    starts = [cloud[:, 0].min() for cloud in example.clouds()]
    return [start - min(starts) for start in starts]


# -- meshes ------------------------------------------------------------------------------------------------

# A box as 12 triangles seen from outside; the two x-faces have the same diagonal, so that boxes in a row match.
_CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
_FACES = np.array(
    [[0, 1, 3], [0, 3, 2], [4, 7, 5], [4, 6, 7], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4],
     [1, 5, 7], [1, 7, 3]]
)  # fmt: skip


def box(start: float, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and faces of [start, start + width] x [0, 1] x [0, 1]."""
    return _CORNERS * [width, 1, 1] + [start, 0, 0], _FACES


def row_of_boxes(widths: Sequence[float], numbers: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Some boxes of a row along x as one mesh, each with all of its own walls."""
    starts = np.cumsum([0, *widths])
    boxes = [box(starts[number], widths[number]) for number in numbers]
    return np.concatenate([v for v, _ in boxes]), np.concatenate([f + 8 * i for i, (_, f) in enumerate(boxes)])


def write_obj(path: Path, vertices: np.ndarray, faces: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in vertices.tolist()]
    path.write_text("\n".join([*lines, *(f"f {a} {b} {c}" for a, b, c in (faces + 1).tolist())]) + "\n")


def write_compressed(folder: Path, widths: Sequence[float], fractures: dict[str, Sequence[int]]) -> None:
    """An object of Breaking Bad's compressed release: cells in a row; a fracture is the piece of every cell."""
    vertices, faces = row_of_boxes(widths, range(len(widths)))
    write_obj(folder / "compressed_mesh.obj", vertices, faces)
    spread = np.repeat(np.eye(len(widths)), 8, axis=0)
    scipy.sparse.save_npz(folder / "compressed_data.npz", scipy.sparse.csr_matrix(spread))
    for name, labels in fractures.items():
        (folder / name).mkdir()
        np.save(folder / name / "compressed_fracture.npy", np.asarray(labels))


def write_decompressed(folder: Path, widths: Sequence[float], fractures: dict[str, Sequence[int]]) -> None:
    """The same object as folders of pieces."""
    for name, labels in fractures.items():
        for piece in sorted(set(labels)):
            cells = [cell for cell, label in enumerate(labels) if label == piece]
            write_obj(folder / name / f"piece_{piece}.obj", *row_of_boxes(widths, cells))


def write_split(root: Path, subset: str, split: str, names: Sequence[str]) -> None:
    (root / "data_split").mkdir(exist_ok=True)
    (root / "data_split" / f"{subset}.{split}.txt").write_text("\n".join(names) + "\n")


def write_ply(
    path: Path, vertices: np.ndarray, faces: np.ndarray | None = None, normals: np.ndarray | None = None
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = vertices if normals is None else np.hstack([vertices, normals])
    names = ["x", "y", "z", "nx", "ny", "nz"][: columns.shape[1]]
    header = ["ply", "format ascii 1.0", f"element vertex {len(vertices)}", *(f"property float {n}" for n in names)]
    if faces is not None:
        header += [f"element face {len(faces)}", "property list uchar int vertex_indices"]
    rows = [" ".join(map(repr, row)) for row in columns.tolist()]
    rows += [] if faces is None else [f"3 {a} {b} {c}" for a, b, c in faces.tolist()]
    path.write_text("\n".join([*header, "end_header", *rows]) + "\n")


# -- HDF5 -------------------------------------------------------------------------------------------------


def put_arrays(group: object, **arrays: object) -> None:
    """Datasets of a group of an HDF5 file; None is left out."""
    for key, value in arrays.items():
        if value is not None:
            group.create_dataset(key, data=value)  # type: ignore[attr-defined]


# -- 3DMatch -----------------------------------------------------------------------------------------------


def write_fragment(path: Path, points: np.ndarray, **options: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(points.astype(np.float32), path, **options)


def write_pickle(path: Path, content: object, protocol: int = 4) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, protocol=protocol))


def write_blocks(path: Path, blocks: dict[tuple[int, int], np.ndarray], count: int) -> None:
    """gt.log or gt.info."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for (i, j), matrix in blocks.items():
        lines += [f"{i}\t {j}\t {count}", *(" ".join(f"{x: .10e}" for x in row) for row in matrix)]
    path.write_text("\n".join(lines) + "\n")


def write_info(path: Path, pose: np.ndarray) -> None:
    """cloud_bin_<k>.info.txt"""
    rows = ["\t".join(f"{x:.10f}" for x in row) for row in pose]
    path.write_text("\n".join(["scene\tseq-01\t0\t49", *rows]) + "\n")


# -- KITTI -------------------------------------------------------------------------------------------------


def write_sequence(root: Path, name: str, poses: list[np.ndarray], scans: list[np.ndarray], tr: np.ndarray) -> None:
    """poses: camera in the world; scans (n, 3) as the lidar saw them; tr: lidar -> camera."""
    folder = root / "sequences" / name
    (folder / "velodyne").mkdir(parents=True)
    (root / "poses").mkdir(exist_ok=True)
    for number, scan in enumerate(scans):
        numbers = np.column_stack([scan, np.full(len(scan), 0.5)]).astype("<f4")
        (folder / "velodyne" / f"{number:06d}.bin").write_bytes(numbers.tobytes())
    projection = " ".join(["0"] * 12)
    rows = [" ".join(f"{x:.12e}" for x in pose[:3].reshape(-1)) for pose in [tr, *poses]]
    (folder / "calib.txt").write_text(f"P0: {projection}\nP1: {projection}\nTr: {rows[0]}\n")
    (root / "poses" / f"{name}.txt").write_text("\n".join(rows[1:]) + "\n")


# -- packs -------------------------------------------------------------------------------------------------


def write_fracture_pack(path: Path, fractures: list[list[np.ndarray]], labels: np.ndarray, **changes: object) -> None:
    """fractures: clouds within [-0.5, 0.5], whose normals all point along z; labels (P,) uint8."""
    sizes = [len(cloud) for clouds in fractures for cloud in clouds]
    points = np.concatenate([cloud for clouds in fractures for cloud in clouds])
    step, origin = 1.2 / 65535, -0.6
    entries = [
        {"subset": "everyday", "category": "Cup", "shape": f"s{i}", "fracture": "mode_0"} for i in range(len(fractures))
    ]
    arrays = {
        "points_u16": np.rint((points - origin) / step).astype(np.uint16),
        "normals_i8": np.tile(np.array([0, 0, 127], dtype=np.int8), (len(points), 1)),
        "contact": labels,
        "piece_offset": np.cumsum([0, *sizes]),
        "fracture_offset": np.cumsum([0, *map(len, fractures)]),
        "origin": np.float64(origin),
        "step": np.float64(step),
        "index": np.array(json.dumps(entries)),
        **changes,
    }
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})


def write_fragment_pack(
    folder: Path, names: list[str], clouds: list[np.ndarray], poses: list[np.ndarray], pairs: dict
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    points = np.rint(np.concatenate(clouds) * 1000).astype(np.int16)
    np.savez(folder / "fragments_5cm.npz", points_mm=points, offset=np.cumsum([0, *map(len, clouds)]))
    fragments = [{"name": n, "cam_to_world": p.tolist()} for n, p in zip(names, poses, strict=True)]
    (folder / "index.json").write_text(json.dumps({"note": "", "fragments": fragments, "pairs": pairs}))
