"""What a file names lies in its folder, or is not read, whatever the format; nothing of it gets into a result."""

import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image
from support.dataset_files import write_fragment
from support.single_piece_files import FACES, POINTS, VERTICES

from eda.data import open_examples
from eda.data.piece_files import read_pieces
from eda.errors import InputError, InputWarning
from eda.output.piece_source import PieceSource
from eda.output.placed_pieces import write_piece
from eda.render.input_piece import InputPiece

PNG = b"\x89PNG"


@pytest.fixture
def places(tmp_path) -> tuple[Path, Path]:
    """A folder of pieces, and one that is not theirs."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    return inside, outside


def names_outside(inside: Path, secret: Path) -> dict[str, str]:
    """Names for a file outside the folder, one of them of a link that is inside."""
    (inside / f"link{secret.suffix}").symlink_to(secret)
    (inside / "linked").symlink_to(secret.parent)
    return {
        "relative": f"../outside/{secret.name}",
        "absolute": str(secret),
        "there and back": f"linked/../../outside/{secret.name}",
        "of Windows": f"..\\outside\\{secret.name}",
        "a drive": f"C:\\{secret.name}",
        "a link": f"link{secret.suffix}",
        "a linked folder": f"linked/{secret.name}",
    }


NAMES = ["relative", "absolute", "there and back", "of Windows", "a drive", "a link", "a linked folder"]


def write_gltf(folder: Path, uri: str | None = None, image: str | None = None) -> Path:
    mesh = trimesh.Trimesh(VERTICES, FACES, process=False)
    picture = trimesh.visual.material.PBRMaterial(baseColorTexture=Image.new("RGB", (4, 4)))
    mesh.visual = trimesh.visual.TextureVisuals(uv=np.zeros((len(VERTICES), 2)), material=picture)
    for name, content in trimesh.exchange.gltf.export_gltf(trimesh.Scene(mesh)).items():
        (folder / name).write_bytes(content)
    tree = json.loads((folder / "model.gltf").read_bytes())
    if uri is not None:
        tree["buffers"][0]["uri"] = uri
    if image is not None:
        tree["images"][0] = {"uri": image}
    (folder / "model.gltf").write_text(json.dumps(tree))
    return folder / "model.gltf"


@pytest.mark.parametrize("kind", [*NAMES, "with percents"])
def test_a_buffer_of_a_scene(places, kind):
    inside, outside = places
    write_gltf(inside)
    buffer = next(inside.glob("*.bin"))
    secret = buffer.rename(outside / "secret.bin")
    name = names_outside(inside, secret).get(kind, "%2e%2e/outside%2Fsecret.bin")
    write_gltf(inside, uri=name)
    buffer.unlink(missing_ok=True)
    with pytest.raises(InputError, match=r"model\.gltf: it names .*(secret|link)\.bin, which is (outside|not there)"):
        read_pieces([inside / "model.gltf"])


def test_a_pipe_is_no_buffer_and_no_piece(places):
    os.mkfifo(places[0] / "pipe.bin")
    with pytest.raises(InputError, match=r"model\.gltf: it names pipe\.bin, which is not a regular file"):
        read_pieces([write_gltf(places[0], uri="pipe.bin")])
    for suffix in ("ply", "xyz", "npy", "las"):
        os.mkfifo(places[1] / f"a.{suffix}")
        with pytest.raises(InputError, match=rf"a\.{suffix}: neither a file nor a folder"):
            read_pieces([places[1] / f"a.{suffix}"])


def test_a_pipe_is_no_part_of_a_dataset(places):
    os.mkfifo(places[0] / "poses.json")
    with pytest.raises(InputError, match="expected poses"):
        list(open_examples(f"kitti-pack:{places[0]}"))


# -- pictures ----------------------------------------------------------------------------------------------


def write_obj(folder: Path, materials: str, picture: str) -> Path:
    lines = [f"mtllib {materials}", *(f"v {x} {y} {z}" for x, y, z in VERTICES), "vt 0 0", "vt 1 0", "vt 0 1"]
    lines += ["usemtl paint", *(f"f {a + 1}/1 {b + 1}/2 {c + 1}/3" for a, b, c in FACES)]
    (folder / "piece.obj").write_text("\n".join(lines))
    (folder / "own.mtl").write_text(f"newmtl paint\nmap_Kd {picture}\n")
    return folder / "piece.obj"


def written(path: Path, out: Path) -> bytes:
    """All that `eda assemble` would write of a piece."""
    (file,) = read_pieces([path])
    out.mkdir(exist_ok=True)
    write_piece(PieceSource.of(InputPiece("piece", POINTS, None, file)), np.eye(4), out)
    return b"".join(path.read_bytes() for path in out.iterdir())


def test_a_picture_in_the_folder_is_kept(places):
    Image.new("RGB", (4, 4)).save(places[0] / "own.png")
    (places[0] / "sub").mkdir()
    Image.new("RGB", (4, 4)).save(places[0] / "sub/own.png")
    for name in ("own.png", "sub/own.png", "sub\\own.png", "./own.png"):
        assert PNG in written(write_obj(places[0], "own.mtl", name), places[1])
    assert PNG in written(write_gltf(places[0], image="own.png"), places[1])


@pytest.mark.parametrize("kind", NAMES)
def test_a_picture_outside_is_not_read(places, kind):
    inside, outside = places
    Image.new("RGB", (4, 4)).save(outside / "secret.png")
    name = names_outside(inside, outside / "secret.png")[kind]
    for path in (write_obj(inside, "own.mtl", name), write_gltf(inside, image=name)):
        with pytest.warns(InputWarning, match=rf"{path.name}: it names .*outside its folder.*colours are left out"):
            assert PNG not in written(path, inside / "out")


@pytest.mark.parametrize("kind", NAMES)
def test_materials_outside_are_not_read(places, kind):
    inside, outside = places
    Image.new("RGB", (4, 4)).save(inside / "own.png")
    (outside / "secret.mtl").write_text("newmtl paint\nKd 0.123 0 0\nmap_Kd own.png\n")
    without = written(write_obj(inside, "none.mtl", "own.png"), inside / "out")
    path = write_obj(inside, names_outside(inside, outside / "secret.mtl")[kind], "own.png")
    with pytest.warns(InputWarning, match=r"piece\.obj: it names .*outside its folder"):
        assert written(path, inside / "out") == without
    shutil.copy(outside / "secret.mtl", inside / "own.mtl")
    (inside / "piece.obj").write_text(path.read_text().replace(path.read_text().splitlines()[0], "mtllib own.mtl"))
    assert written(path, inside / "out") != without


def test_a_damaged_picture_is_left_out(places):
    Image.effect_noise((64, 64), 9).save(places[0] / "own.png")
    content = (places[0] / "own.png").read_bytes()
    (places[0] / "own.png").write_bytes(content[:400])
    with pytest.warns(InputWarning, match="a picture of it is damaged"):
        written(write_obj(places[0], "own.mtl", "own.png"), places[1])


def test_a_material_whose_faces_have_no_area_is_written(places):
    """Trimesh makes a mesh without bounds of them."""
    path = write_obj(places[0], "own.mtl", "own.png")
    path.write_text(path.read_text() + "\nusemtl other\nf 2/\n")
    assert written(path, places[1])


# -- datasets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", NAMES)
def test_a_scan_of_the_kitti_pack(places, kind):
    inside, outside = places
    np.save(outside / "secret.npy", POINTS)
    name = names_outside(inside, outside / "secret.npy")[kind]
    (inside / "poses.json").write_text(json.dumps({"poses": {name: np.eye(4).tolist()}}))
    with pytest.raises(InputError, match=r"poses\.json: it names .*outside its folder"):
        list(open_examples(f"kitti-pack:{inside}"))


@pytest.mark.parametrize("kind", NAMES)
def test_a_fragment_of_3dmatch(places, kind):
    inside, outside = places
    write_fragment(outside / "secret.pth", POINTS)
    name = names_outside(inside, outside / "secret.pth")[kind]
    row = {"src": [name], "tgt": [name], "rot": [np.eye(3)], "trans": [np.zeros(3)], "overlap": [0.5]}
    (inside / "3DMatch.pkl").write_bytes(pickle.dumps(row))
    with pytest.raises(InputError, match=r"it names .*outside its folder"):
        list(open_examples(f"3dmatch:{inside}"))


@pytest.mark.parametrize("name", ["/etc", "../outside", "a/../../outside", "C:\\outside", "..\\outside"])
@pytest.mark.parametrize("kind", ["folders", "breaking-bad"])
def test_a_folder_of_a_split(places, kind, name):
    folder = places[0] / "everyday/Cup/a/mode_0"
    folder.mkdir(parents=True)
    for i in range(2):
        trimesh.Trimesh(VERTICES, FACES, process=False).export(folder / f"piece_{i}.obj")
    (places[0] / "data_split").mkdir()
    for file in ("train.txt", "everyday.train.txt"):
        (places[0] / "data_split" / file).write_text(f"everyday/Cup/a\n{name}\n")
    with pytest.raises(InputError, match=r"train\.txt: it names .*outside its folder"):
        list(open_examples(f"{kind}:{places[0]},split=train"))


@pytest.mark.parametrize("kind", ["another file", "a path", "numbers elsewhere", "numbers put together"])
@pytest.mark.parametrize("layout", ["garf", "rpf"])
def test_an_hdf5_file_that_leads_elsewhere(places, kind, layout):
    h5py = pytest.importorskip("h5py")
    inside, outside = places
    with h5py.File(outside / "secret.hdf5", "w") as secret:
        secret["vertices"] = VERTICES
    VERTICES.astype("<f8").tofile(outside / "secret.raw")
    prefix = "a/pieces" if layout == "garf" else "a"
    with h5py.File(inside / "data.hdf5", "w") as file:
        file["data_split/everyday/train"] = np.array([b"a"])
        for k in range(2):
            piece = file.create_group(f"{prefix}/{k}")
            piece["faces"], piece["shared_faces"] = FACES, np.full(len(FACES), -1)
            if kind == "another file":
                piece["vertices"] = h5py.ExternalLink(str(outside / "secret.hdf5"), "vertices")
            elif kind == "a path":
                file[f"elsewhere/{k}"] = VERTICES
                piece["vertices"] = h5py.SoftLink(f"/elsewhere/{k}")
            elif kind == "numbers elsewhere":
                raw = [(str(outside / "secret.raw"), 0, VERTICES.nbytes)]
                piece.create_dataset("vertices", VERTICES.shape, "<f8", external=raw)
            else:
                virtual = h5py.VirtualLayout(VERTICES.shape, "<f8")
                virtual[:] = h5py.VirtualSource(str(outside / "secret.hdf5"), "vertices", VERTICES.shape)
                piece.create_virtual_dataset("vertices", virtual)
    with pytest.raises(InputError, match=r"links are not followed|lie in other files"):
        list(open_examples(f"{layout}:{inside / 'data.hdf5'}"))


def test_an_hdf5_file_that_promises_more_than_it_holds(places):
    h5py = pytest.importorskip("h5py")
    with h5py.File(places[0] / "rpf.hdf5", "w") as file:
        file["data_split/set/train"] = np.array([b"a"])
        for k in range(2):
            file.create_dataset(f"a/{k}/vertices", (10**9, 3), "f4", chunks=(10**6, 3))
    with pytest.raises(InputError, match=r"rpf\.hdf5: it would unpack to 12 GB"):
        list(open_examples(f"rpf:{places[0] / 'rpf.hdf5'},dataset=set"))
