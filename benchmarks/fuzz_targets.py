"""What `fuzz.py` mutates: for every format and every reader a small valid file, and the call that reads it.

A target is a folder with files. One of them, `victim`, is mutated; `read` then does what a command would do with it.
The files are written by other libraries where there are any, so that a valid file is what the world calls valid.
"""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_structure import Structure, inside_e57, inside_glb, inside_json, inside_zip

Write = Callable[[Path], None]


@dataclass(frozen=True)
class Target:
    """A valid file and how it is read."""

    name: str
    victim: str  # the file that is mutated, relative to the folder
    write: Write  # writes the folder
    read: Callable[[Path], object]  # of the folder
    structure: Structure | None = None  # mutates inside of the format; half of the files then are made by it


# -- the object that all of them hold ------------------------------------------------------------------------------

_RNG = np.random.default_rng(0)
POINTS = _RNG.normal(size=(60, 3)) * [1.0, 0.7, 0.5]
NORMALS = POINTS / np.linalg.norm(POINTS, axis=1, keepdims=True)


def _box(shift: float = 0.0) -> Any:
    import trimesh

    box = trimesh.creation.box()
    box.apply_translation([shift, 0, 0])
    return box


# -- pieces --------------------------------------------------------------------------------------------------------


def _read_piece(folder: Path) -> object:
    """As `eda assemble` reads and samples a piece, and writes it again, with colours and pictures."""
    from eda.data.piece_files import read_pieces, sample_piece
    from eda.output.piece_source import PieceSource
    from eda.output.placed_pieces import write_piece
    from eda.render.input_piece import InputPiece

    files = read_pieces([folder])
    samples = [sample_piece(file, 500, np.random.default_rng(0)) for file in files]
    pieces = [
        InputPiece(str(i), sample.points, sample.normals, file)
        for i, (sample, file) in enumerate(zip(samples, files, strict=True))
    ]
    with tempfile.TemporaryDirectory() as out:
        for piece in pieces:
            write_piece(PieceSource.of(piece), np.eye(4), Path(out))
    return pieces


def _mesh(ending: str, **options: Any) -> Write:
    def write(folder: Path) -> None:
        content = _box().export(file_type=ending, **options)
        data = content.encode() if isinstance(content, str) else content
        (folder / f"piece.{ending}").write_bytes(data)

    return write


def _textured_obj(folder: Path) -> None:
    from PIL import Image

    lines = ["mtllib piece.mtl", *(f"v {x} {y} {z}" for x, y, z in _box().vertices), "vt 0 0", "vt 1 0", "vt 0 1"]
    lines += ["usemtl paint", *(f"f {a + 1}/1 {b + 1}/2 {c + 1}/3" for a, b, c in _box().faces)]
    (folder / "piece.obj").write_text("\n".join(lines))
    (folder / "piece.mtl").write_text("newmtl paint\nKd 1 0 0\nmap_Kd paint.png\n")
    Image.new("RGB", (4, 4), (200, 30, 30)).save(folder / "paint.png")


def _gltf(folder: Path) -> None:
    import trimesh

    for name, data in trimesh.exchange.gltf.export_gltf(trimesh.Scene([_box()])).items():
        (folder / name.replace("model", "piece")).write_bytes(data)


def _textured_glb(folder: Path) -> None:
    import trimesh
    from PIL import Image

    box = _box()
    material = trimesh.visual.material.PBRMaterial(baseColorTexture=Image.new("RGB", (4, 4), (9, 99, 9)))
    box.visual = trimesh.visual.TextureVisuals(uv=np.zeros((len(box.vertices), 2)), material=material)
    (folder / "piece.glb").write_bytes(trimesh.Scene([box]).export(file_type="glb"))


def _ply_cloud(folder: Path) -> None:
    head = ["ply", "format binary_little_endian 1.0", f"element vertex {len(POINTS)}"]
    head += [f"property float {name}" for name in ("x", "y", "z", "nx", "ny", "nz")]
    body = np.hstack([POINTS, NORMALS]).astype("<f4").tobytes()
    (folder / "piece.ply").write_bytes(("\n".join([*head, "end_header"]) + "\n").encode() + body)


def _pcd(kind: str) -> Write:
    def write(folder: Path) -> None:
        head = ["VERSION 0.7", "FIELDS x y z", "SIZE 4 4 4", "TYPE F F F", "COUNT 1 1 1", f"WIDTH {len(POINTS)}"]
        head += ["HEIGHT 1", "VIEWPOINT 0 0 0 1 0 0 0", f"POINTS {len(POINTS)}", f"DATA {kind}"]
        table = POINTS.astype("<f4")
        columns = np.ascontiguousarray(table.T).tobytes()
        # LZF: runs of up to 32 bytes as they are.
        runs = [columns[at : at + 32] for at in range(0, len(columns), 32)]
        packed = b"".join(bytes([len(run) - 1]) + run for run in runs)
        body = {
            "ascii": "\n".join(" ".join(map(str, row)) for row in table).encode(),
            "binary": table.tobytes(),
            "binary_compressed": np.array([len(packed), len(columns)], "<u4").tobytes() + packed,
        }[kind]
        (folder / "piece.pcd").write_bytes(("\n".join(head) + "\n").encode() + body)

    return write


def _text(ending: str, separator: str) -> Write:
    return lambda folder: np.savetxt(folder / f"piece.{ending}", POINTS, delimiter=separator, fmt="%.6f")


def _npz(folder: Path) -> None:
    np.savez(folder / "piece.npz", points=POINTS, normals=NORMALS)


def _npy(folder: Path) -> None:
    np.save(folder / "piece.npy", POINTS)


def _las(ending: str) -> Write:
    def write(folder: Path) -> None:
        import laspy

        header = laspy.LasHeader(point_format=2, version="1.2")
        header.offsets, header.scales = POINTS.min(axis=0), np.full(3, 1e-4)
        las = laspy.LasData(header)
        las.x, las.y, las.z = POINTS.T
        las.red = las.green = las.blue = np.arange(len(POINTS), dtype=np.uint16)
        las.write(folder / f"piece.{ending}")

    return write


def _e57(folder: Path) -> None:
    import pye57

    file = pye57.E57(str(folder / "piece.e57"), mode="w")
    file.write_scan_raw({f"cartesian{axis}": column.copy() for axis, column in zip("XYZ", POINTS.T, strict=True)})
    file.close()


def _pieces() -> Iterator[Target]:
    files: dict[str, tuple[str, Write]] = {
        "ply, binary mesh": ("piece.ply", _mesh("ply")),
        "ply, text mesh": ("piece.ply", _mesh("ply", encoding="ascii")),
        "ply, binary cloud": ("piece.ply", _ply_cloud),
        "obj": ("piece.obj", _textured_obj),
        "obj, its materials": ("piece.mtl", _textured_obj),
        "obj, its picture": ("paint.png", _textured_obj),
        "stl": ("piece.stl", _mesh("stl")),
        "stl, text": ("piece.stl", _mesh("stl_ascii")),
        "off": ("piece.off", _mesh("off")),
        "glb": ("piece.glb", _mesh("glb")),
        "glb, textured": ("piece.glb", _textured_glb),
        "gltf": ("piece.gltf", _gltf),
        "pcd, text": ("piece.pcd", _pcd("ascii")),
        "pcd, binary": ("piece.pcd", _pcd("binary")),
        "pcd, compressed": ("piece.pcd", _pcd("binary_compressed")),
        "xyz": ("piece.xyz", _text("xyz", " ")),
        "csv": ("piece.csv", _text("csv", ",")),
        "npy": ("piece.npy", _npy),
        "npz": ("piece.npz", _npz),
        "las": ("piece.las", _las("las")),
        "laz": ("piece.laz", _las("laz")),
        "e57": ("piece.e57", _e57),
    }
    structures = {"piece.glb": inside_glb, "piece.gltf": inside_json, "piece.npz": inside_zip, "piece.e57": inside_e57}
    for name, (victim, write) in files.items():
        yield Target(f"piece: {name}", victim, _renamed_stl(write), _read_piece, structures.get(victim))


def _renamed_stl(write: Write) -> Write:
    """trimesh calls text STL `stl_ascii`; the file is called .stl all the same."""

    def written(folder: Path) -> None:
        write(folder)
        if (folder / "piece.stl_ascii").exists():
            (folder / "piece.stl_ascii").rename(folder / "piece.stl")

    return written


# -- datasets ------------------------------------------------------------------------------------------------------


def _read_examples(spec: str) -> Callable[[Path], object]:
    """As `eda evaluate` and `eda prepare` read puzzles; `spec` names the folder as {}."""

    def read(folder: Path) -> object:
        from eda.data import open_examples

        return list(open_examples(spec.format(folder, folder)))

    return read


def _fracture_pack(folder: Path) -> None:
    clouds = (POINTS.clip(-1, 1) / 2.5, NORMALS / 2.5)
    points, step, origin = np.concatenate(clouds), 1.2 / 65535, -0.6
    np.savez(
        folder / "pack.npz",
        points_u16=np.rint((points - origin) / step).astype(np.uint16),
        normals_i8=np.tile(np.array([0, 0, 127], np.int8), (len(points), 1)),
        contact=np.full(len(points), 255, np.uint8),
        piece_offset=np.array([0, len(clouds[0]), len(points)]),
        fracture_offset=np.array([0, 2]),
        origin=np.float64(origin),
        step=np.float64(step),
        index=np.array(json.dumps([{"subset": "everyday", "category": "Cup", "shape": "s", "fracture": "mode_0"}])),
    )


def _fragment_pack(folder: Path) -> None:
    points = np.rint(np.concatenate([POINTS, POINTS]) * 1000).astype(np.int16)
    np.savez(folder / "fragments_5cm.npz", points_mm=points, offset=np.array([0, len(POINTS), 2 * len(POINTS)]))
    names = [f"7-scenes-redkitchen/cloud_bin_{i}" for i in range(2)]
    fragments = [{"name": name, "cam_to_world": np.eye(4).tolist()} for name in names]
    pair = {"src": 1, "tgt": 0, "T": np.eye(4)[:3].ravel().tolist(), "overlap": 0.9}
    pairs = {"3DMatch": [pair], "3DLoMatch": []}
    (folder / "index.json").write_text(json.dumps({"note": "", "fragments": fragments, "pairs": pairs}))


def _kitti_pack(folder: Path) -> None:
    clip = folder / "clip"
    clip.mkdir()
    for i in range(2):
        np.save(clip / f"{i:06d}.npy", (POINTS * 20).astype(np.float32))
    poses = {f"{i:06d}.npy": np.eye(4).tolist() for i in range(2)}
    (clip / "poses.json").write_text(json.dumps({"poses": poses}))


def _garf(folder: Path) -> None:
    import h5py

    with h5py.File(folder / "garf.hdf5", "w") as file:
        file.create_dataset("data_split/everyday/train", data=np.array([b"a/Cup/1/mode_0"]))
        for k in range(2):
            piece = file.create_group(f"a/Cup/1/mode_0/pieces/{k}")
            piece["vertices"], piece["faces"] = _box(k).vertices, _box(k).faces
            piece["shared_faces"] = np.full(12, -1)


def _rpf(folder: Path) -> None:
    import h5py

    with h5py.File(folder / "rpf.hdf5", "w") as file:
        file.create_dataset("data_split/set/train", data=np.array([b"object/one"]))
        for k in range(2):
            part = file.create_group(f"object/one/{k}")
            part["vertices"], part["normals"] = POINTS, NORMALS


def _shards(folder: Path) -> None:
    from typer.testing import CliRunner

    from eda.cli import app

    words = ["fracture", str(folder / "set"), "--puzzles", "1", "--pieces", "2-2", "--points", "200", "--quiet"]
    CliRunner().invoke(app, [*words, "--workers", "1"])


def _mesh_pack(folder: Path) -> None:
    box = _box()
    np.savez(
        folder / "meshes.npz",
        verts_u16=np.rint((box.vertices + 0.5) * 65535).astype(np.uint16),
        faces_u16=box.faces.astype(np.uint16),
        vert_offset=np.array([0, len(box.vertices)]),
        face_offset=np.array([0, len(box.faces)]),
    )
    (folder / "index.json").write_text(json.dumps([{"name": "box", "licence": "CC BY"}]))


def _read_mesh_pack(folder: Path) -> object:
    """As `eda fracture --meshes` reads objects to break."""
    from eda.data import open_meshes

    return open_meshes(folder).solid(0)


def _datasets() -> Iterator[Target]:
    yield Target(
        "breaking-bad-pack", "pack.npz", _fracture_pack, _read_examples("breaking-bad-pack:{}/pack.npz"), inside_zip
    )
    spec = "3dmatch-pack:{}"
    yield Target("3dmatch-pack, points", "fragments_5cm.npz", _fragment_pack, _read_examples(spec), inside_zip)
    yield Target("3dmatch-pack, index", "index.json", _fragment_pack, _read_examples(spec), inside_json)
    yield Target("kitti-pack, poses", "clip/poses.json", _kitti_pack, _read_examples("kitti-pack:{}/clip"), inside_json)
    yield Target("kitti-pack, scan", "clip/000000.npy", _kitti_pack, _read_examples("kitti-pack:{}/clip"))
    yield Target("garf", "garf.hdf5", _garf, _read_examples("garf:{}/garf.hdf5"))
    yield Target("rpf", "rpf.hdf5", _rpf, _read_examples("rpf:{}/rpf.hdf5,dataset=set"))
    yield Target("dataset, manifest", "set/dataset.json", _shards, _read_examples("{}/set"), inside_json)
    yield Target("dataset, shard", "set/shard-00000.safetensors", _shards, _read_examples("{}/set"))


# -- datasets as they are published --------------------------------------------------------------------------------

_SCENE = "test/7-scenes-redkitchen"


def _threedmatch(folder: Path) -> None:
    import torch

    scene = folder / _SCENE
    scene.mkdir(parents=True)
    torch.save(POINTS.astype(np.float32), scene / "cloud_bin_0.pth")
    torch.save(torch.from_numpy(POINTS), scene / "cloud_bin_1.pth", _use_new_zipfile_serialization=False)
    block = "\n".join(" ".join(map(str, row)) for row in np.eye(4))
    for k in range(2):
        (scene / f"cloud_bin_{k}.info.txt").write_text(f"7-scenes 1 1\n{block}\n")
    (scene / "gt.log").write_text(f"0 1 2\n{block}\n")
    (scene / "gt_overlap.log").write_text("0,1,0.0\n")
    names = [f"{_SCENE}/cloud_bin_{k}.pth" for k in range(2)]
    pair = {"src": names[:1], "tgt": names[1:], "rot": [np.eye(3)], "trans": [np.zeros((3, 1))], "overlap": [0.5]}
    (folder / "3DMatch.pkl").write_bytes(pickle.dumps(pair, protocol=4))


def _kitti(folder: Path) -> None:
    sequence = folder / "sequences/00"
    (sequence / "velodyne").mkdir(parents=True)
    (folder / "poses").mkdir()
    rows = [" ".join(map(str, np.hstack([np.eye(3), [[200.0 * k], [0], [0]]]).ravel())) for k in range(2)]
    (folder / "poses/00.txt").write_text("\n".join(rows) + "\n")
    (sequence / "calib.txt").write_text(f"P0: {rows[0]}\nTr: {rows[0]}\n")
    for k in range(2):
        scan = np.hstack([POINTS * 20, np.ones((len(POINTS), 1))]).astype("<f4")
        (sequence / f"velodyne/{k:06d}.bin").write_bytes(scan.tobytes())


def _breaking_bad(folder: Path) -> None:
    """Two boxes side by side, as labels of the vertices of both, and as folders of pieces."""
    import scipy.sparse

    compressed = folder / "everyday_compressed/Cup/a"
    (compressed / "mode_0").mkdir(parents=True)
    vertices = np.concatenate([_box(k).vertices for k in range(2)])
    faces = np.concatenate([_box().faces + 8 * k for k in range(2)])
    _write_obj(compressed / "compressed_mesh.obj", vertices, faces)
    scipy.sparse.save_npz(compressed / "compressed_data.npz", scipy.sparse.csr_matrix(np.repeat(np.eye(2), 8, axis=0)))
    np.save(compressed / "mode_0/compressed_fracture.npy", np.arange(2.0))
    for k in range(2):
        _write_obj(folder / f"everyday/Cup/b/mode_0/piece_{k}.obj", _box(k).vertices, _box(k).faces)
    (folder / "data_split").mkdir()
    (folder / "data_split/everyday.train.txt").write_text("everyday/Cup/a\neveryday/Cup/b\n")


def _write_obj(path: Path, vertices: np.ndarray, faces: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"v {x} {y} {z}" for x, y, z in vertices]
    path.write_text("\n".join([*lines, *(f"f {a} {b} {c}" for a, b, c in faces + 1)]))


def _published() -> Iterator[Target]:
    matches, zero = _read_examples("3dmatch:{}"), _read_examples("3dzeromatch:{}")
    yield Target("3dmatch, list", "3DMatch.pkl", _threedmatch, matches)
    yield Target("3dmatch, array", f"{_SCENE}/cloud_bin_0.pth", _threedmatch, matches, inside_zip)
    yield Target("3dmatch, tensor", f"{_SCENE}/cloud_bin_1.pth", _threedmatch, matches)
    yield Target("3dmatch, log", f"{_SCENE}/gt.log", _threedmatch, _read_examples("3dmatch:{},pairs={}/test"))
    yield Target("3dzeromatch, poses", f"{_SCENE}/cloud_bin_0.info.txt", _threedmatch, zero)
    yield Target("3dzeromatch, overlaps", f"{_SCENE}/gt_overlap.log", _threedmatch, zero)
    kitti = _read_examples("kitti:{}")
    yield Target("kitti, scan", "sequences/00/velodyne/000000.bin", _kitti, kitti)
    yield Target("kitti, poses", "poses/00.txt", _kitti, kitti)
    yield Target("kitti, calibration", "sequences/00/calib.txt", _kitti, kitti)
    fractures, cup = _read_examples("breaking-bad:{},num_points=200"), "everyday_compressed/Cup/a"
    yield Target("breaking-bad, mesh", f"{cup}/compressed_mesh.obj", _breaking_bad, fractures)
    yield Target("breaking-bad, matrix", f"{cup}/compressed_data.npz", _breaking_bad, fractures, inside_zip)
    yield Target("breaking-bad, labels", f"{cup}/mode_0/compressed_fracture.npy", _breaking_bad, fractures)
    yield Target("breaking-bad, piece", "everyday/Cup/b/mode_0/piece_0.obj", _breaking_bad, fractures)
    yield Target("breaking-bad, split", "data_split/everyday.train.txt", _breaking_bad, fractures)
    yield Target("meshes to break, pack", "meshes.npz", _mesh_pack, _read_mesh_pack, inside_zip)
    yield Target("meshes to break, index", "index.json", _mesh_pack, _read_mesh_pack, inside_json)


# -- pickles, models, pins, predictions ----------------------------------------------------------------------------


def _pickle(folder: Path) -> None:
    content = {"rot": [np.eye(3)], "trans": [np.zeros((3, 1))], "src": ["a.pth"], "overlap": np.float64(0.5)}
    (folder / "info.pkl").write_bytes(pickle.dumps(content, protocol=4))


def _torch_array(folder: Path) -> None:
    import torch

    torch.save(POINTS.astype(np.float32), folder / "cloud.pth")


def _model(folder: Path) -> None:
    from eda import Eda, EdaConfig, NetworkConfig

    network = NetworkConfig(num_levels=1, num_blocks=1, channels=4, num_heads=1, max_degree=1, num_knots=4)
    Eda(EdaConfig(network)).save(folder / "model.safetensors")


def _pin(folder: Path) -> None:
    (folder / "pin.json").write_text(json.dumps(np.eye(4).tolist()))


def _predictions(folder: Path) -> None:
    import torch

    from eda.evaluate import Predictions, write_predictions
    from eda.lie import SE3

    poses = SE3.identity(1, 1, 2, dtype=torch.float64)
    write_predictions(folder / "predictions.json", Predictions.of(0, ["puzzle"], [poses]))


def _read_pickle(folder: Path) -> object:
    from eda.data.readers.pickles import read_pickle

    return read_pickle(folder / "info.pkl")


def _read_torch(folder: Path) -> object:
    from eda.data.readers.torch_files import read_torch

    return read_torch(folder / "cloud.pth")


def _read_model(folder: Path) -> object:
    from eda import Eda

    return Eda.load(folder / "model.safetensors")


def _read_pin(folder: Path) -> object:
    from eda.assembly import read_pin

    return read_pin(folder / "pin.json", "piece")


def _read_predictions(folder: Path) -> object:
    from eda.evaluate import read_predictions

    return read_predictions(folder / "predictions.json")


def _others() -> Iterator[Target]:
    yield Target("pickle", "info.pkl", _pickle, _read_pickle)
    yield Target("torch's array", "cloud.pth", _torch_array, _read_torch, inside_zip)
    yield Target("model", "model.safetensors", _model, _read_model)
    yield Target("pin", "pin.json", _pin, _read_pin, inside_json)
    yield Target("predictions", "predictions.json", _predictions, _read_predictions, inside_json)


TARGETS: tuple[Target, ...] = (*_pieces(), *_datasets(), *_published(), *_others())
