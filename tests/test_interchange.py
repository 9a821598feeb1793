"""The peers' files on boxes in a row."""

import builtins
import pickle
import sys

import numpy as np
import pytest
from data_files import box, real_data, row_of_boxes, write_ply

from eda.data.example import OUTER
from eda.data.interchange import Garf, PlyFolders, RectifiedPointFlow, read_ply
from eda.errors import InputError

h5py = pytest.importorskip("h5py")

# Of the faces of a box, the two at its low and its high end along x.
LOW, HIGH = slice(0, 2), slice(2, 4)


def put(group, **arrays) -> None:
    for key, value in arrays.items():
        if value is not None:
            group.create_dataset(key, data=value)


@pytest.fixture
def garf(tmp_path):
    """12 boxes in a row, so that the names of the pieces sort differently as text and as numbers."""
    path = tmp_path / "breaking_bad.hdf5"
    with h5py.File(path, "w") as file:
        names = [b"everyday/Cup/a/mode_0", b"everyday/Cup/b/mode_1", b"everyday/Cup/gone/mode_2"]
        put(file, **{"data_split/everyday/train": names[:1] + names[2:], "data_split/everyday/val": names[1:2]})
        for name, count in ((names[0], 12), (names[1], 2)):
            for k in range(count):
                vertices, faces = box(k, 1)
                shared = np.full(12, -1)
                shared[LOW] = k - 1
                shared[HIGH] = k + 1 if k + 1 < count else -1
                group = file.create_group(f"{name.decode()}/pieces/{k}")
                put(group, vertices=vertices, faces=faces, shared_faces=shared)
    return path


@pytest.fixture
def rpf(tmp_path):
    path = tmp_path / "rpf.hdf5"
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        put(file, **{"data_split/ikea/train": [b"ikea/chair/original", b"ikea/cloud/original", b"ikea/gone/original"]})
        for k in (0, 1, 10):
            vertices, faces = box(k, 1)
            put(file.create_group(f"ikea/chair/original/{k}"), vertices=vertices, faces=faces)
        for k in range(2):
            points, normals = rng.normal(size=(2, 50, 3))
            put(file.create_group(f"ikea/cloud/original/{k}"), vertices=points + 10 * k, normals=normals)
    return path


def lowest(example) -> list[float]:
    """Where the pieces begin along x, relative to the first of them."""
    starts = [cloud[:, 0].min() for cloud in example.clouds()]
    return [start - min(starts) for start in starts]


# -- GARF --------------------------------------------------------------------------------------------------


def test_garf_contact_comes_from_the_file(garf):
    example = Garf(garf, max_pieces=20)[0]
    assert example.name == "everyday/Cup/a/mode_0"
    assert lowest(example) == pytest.approx(range(12), abs=0.05)
    labels = example.clouds(example.contact)
    for k, (normals, label) in enumerate(zip(example.clouds(example.normals), labels, strict=True)):
        expected = np.full(len(label), OUTER)
        if k > 0:
            expected[normals[:, 0] < -0.5] = k - 1
        if k < 11:
            expected[normals[:, 0] > 0.5] = k + 1
        np.testing.assert_array_equal(label, expected)


def test_garf_split_and_number_of_pieces(garf):
    assert Garf(garf, split="val").items == ("everyday/Cup/b/mode_1",)
    source = Garf(garf, max_pieces=20)
    assert (len(source), source.num_missing) == (1, 1)
    with pytest.raises(InputError, match="none has 2 to 8"):
        len(Garf(garf))
    with pytest.raises(InputError, match=r"no split everyday/test.*everyday/train, everyday/val"):
        len(Garf(garf, split="test"))


@pytest.mark.parametrize("change", ["no shared_faces", "another number", "too few", "NaN", "no such vertex"])
def test_garf_damage_is_named(garf, change):
    with h5py.File(garf, "a") as file:
        piece = file["everyday/Cup/b/mode_1/pieces/0"]
        if change == "no shared_faces":
            del piece["shared_faces"]
        elif change == "another number":
            piece["shared_faces"][0] = 7
        elif change == "too few":
            del piece["shared_faces"]
            piece["shared_faces"] = np.full(3, -1)
        elif change == "NaN":
            piece["vertices"][0, 0] = np.nan
        else:
            piece["faces"][0, 0] = 99
    with pytest.raises(InputError, match=r"breaking_bad\.hdf5"):
        Garf(garf, split="val")[0]


# -- Rectified Point Flow ----------------------------------------------------------------------------------


def test_rpf_parts_come_in_the_order_of_their_names_as_text(rpf):
    source = RectifiedPointFlow(rpf)
    assert (len(source), source.num_missing) == (2, 1)
    assert lowest(source[0]) == pytest.approx([0, 1, 10], abs=0.05)
    assert source[0].normals is not None
    assert source[0].contact is None


def test_rpf_contact_if_asked_for(rpf):
    example = RectifiedPointFlow(rpf, contact=True)[0]
    ends = [set(np.unique(label)) for label in example.clouds(example.contact)]
    assert ends == [{OUTER, 1}, {OUTER, 0}, {OUTER}]


def test_rpf_clouds_stay_as_they_are(rpf):
    example = RectifiedPointFlow(rpf)[1]
    assert example.sizes.tolist() == [50, 50]
    np.testing.assert_allclose(np.linalg.norm(example.normals, axis=1), 1, atol=1e-6)
    few = RectifiedPointFlow(rpf, num_points=60)[1]
    assert few.sizes.tolist() == [30, 30]


def test_rpf_asks_for_a_dataset_where_there_are_several(rpf):
    with h5py.File(rpf, "a") as file:
        put(file, **{"data_split/partnet/train": [b"ikea/chair/original"]})
    with pytest.raises(InputError, match=r"ikea/train, partnet/train"):
        len(RectifiedPointFlow(rpf))
    assert len(RectifiedPointFlow(rpf, dataset="partnet")) == 1


@pytest.mark.parametrize("reader", [Garf, RectifiedPointFlow])
@pytest.mark.parametrize("content", [b"", b"garbage", None])
def test_what_is_no_hdf5_is_named(tmp_path, reader, content):
    path = tmp_path / "file.hdf5"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"file\.hdf5"):
        len(reader(path))


def test_an_hdf5_of_something_else_is_named(tmp_path):
    path = tmp_path / "file.hdf5"
    with h5py.File(path, "w") as file:
        put(file, numbers=np.arange(3))
    with pytest.raises(InputError, match="data_split"):
        len(RectifiedPointFlow(path))


def test_a_truncated_hdf5_is_named(garf):
    garf.write_bytes(garf.read_bytes()[:-3000])
    with pytest.raises(InputError, match=r"breaking_bad\.hdf5"):
        _ = Garf(garf, split="val")[0]


def test_without_h5py_it_says_what_to_install(garf, monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest):
        if name == "h5py":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.delitem(sys.modules, "h5py")
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InputError, match=r"pip install '\.\[hdf5\]'"):
        len(Garf(garf))


# -- folders of PLY ----------------------------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path):
    """A dataset of two puzzles, of which one is in no list."""
    root = tmp_path / "data"
    for name, starts in (("toy/x/original", (0, 1)), ("toy/y/original", (0, 1, 2))):
        for part, start in enumerate(starts):
            write_ply(root / "toy" / name / f"part_{part:03d}.ply", *box(start, 1))
    (root / "toy" / "data_split").mkdir()
    (root / "toy" / "data_split" / "train.txt").write_text("toy/y/original\ntoy/gone/original\n")
    return root


def test_ply_folders_with_and_without_a_split(folders):
    assert PlyFolders(folders).items == ("toy/toy/x/original", "toy/toy/y/original")
    for root in (folders, folders / "toy"):
        source = PlyFolders(root, split="train")
        assert [item.endswith("toy/y/original") for item in source.items] == [True]
        assert source.num_missing == 1
        assert lowest(source[0]) == pytest.approx([0, 1, 2], abs=0.05)
    with pytest.raises(InputError, match=r"data_split/val\.txt"):
        len(PlyFolders(folders, split="val"))


def test_one_folder_of_parts_is_one_puzzle(folders):
    source = PlyFolders(folders / "toy/toy/x/original")
    assert len(source) == 1
    assert source[0].name == "original"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(source))[0].points, source[0].points)


def test_clouds_as_ply(tmp_path):
    rng = np.random.default_rng(0)
    clouds, normals = rng.normal(size=(2, 2, 30, 3))
    for part in range(2):
        write_ply(tmp_path / "known" / f"part_{part}.ply", clouds[part], None, normals[part])
        write_ply(tmp_path / "zero" / f"part_{part}.ply", clouds[part], None, normals[part] * part)
        write_ply(tmp_path / "none" / f"part_{part}.ply", clouds[part])
    known, without, zero = PlyFolders(tmp_path)
    assert (known.name, without.name, zero.name) == ("known", "none", "zero")
    whole = np.concatenate(clouds)
    np.testing.assert_allclose(known.points, whole - whole.mean(axis=0), atol=1e-6)
    length = np.linalg.norm(np.concatenate(normals), axis=1, keepdims=True)
    np.testing.assert_allclose(known.normals, np.concatenate(normals) / length, atol=1e-6)
    assert without.normals is None
    assert zero.normals is None


def test_furniture_seen_from_both_sides_looks_outward(tmp_path):
    for part in range(2):
        vertices, faces = row_of_boxes([1, 1], [part])
        write_ply(tmp_path / f"part_{part}.ply", vertices, np.concatenate([faces, faces[:, ::-1]]))
    example = PlyFolders(tmp_path)[0]
    for cloud, normals in zip(example.clouds(), example.clouds(example.normals), strict=True):
        centre = (cloud.max(axis=0) + cloud.min(axis=0)) / 2
        assert ((cloud - centre) * normals).sum(axis=1).min() > 0


@pytest.mark.parametrize(
    "content",
    [b"", b"ply\n", b"garbage", b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nend_header\n1\n"],
)
def test_damaged_ply_is_named(folders, content):
    path = folders / "toy/toy/x/original/part_001.ply"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"part_001\.ply|part 1"):
        PlyFolders(folders)[0]


def test_nan_in_a_ply_is_named(folders):
    vertices, faces = box(0, 1)
    write_ply(folders / "toy/toy/x/original/part_001.ply", vertices * np.nan, faces)
    with pytest.raises(InputError, match=r"original, part 1.*NaN"):
        PlyFolders(folders)[0]


def test_a_folder_without_parts_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no folder with parts"):
        len(PlyFolders(tmp_path))
    with pytest.raises(InputError, match="not a folder"):
        len(PlyFolders(tmp_path / "nowhere"))


# -- the real ones -----------------------------------------------------------------------------------------


def test_the_real_parts_are_read():
    folder = real_data("rpf_demo")
    source = PlyFolders(folder, num_points=1000)
    assert len(source) == len(list(folder.glob("*/part_000.ply")))
    for item, example in zip(source.items, source, strict=True):
        files = sorted((folder / item).glob("*.ply"))
        assert example.num_pieces == len(files)
        # Sampled points lie within the boxes of what was read, relative to the first part.
        boxes = [read_ply(file).vertices for file in files]
        shift = boxes[0].min(axis=0) - example.clouds()[0].min(axis=0)
        extent = float(np.ptp(np.concatenate(boxes), axis=0).max())
        for vertices, cloud in zip(boxes, example.clouds(), strict=True):
            assert (cloud + shift).min(axis=0) == pytest.approx(vertices.min(axis=0), abs=0.15 * extent)


def test_real_fractures_touch_where_the_file_has_broken_faces():
    folder = real_data("rpf_demo") / "everyday_BeerBottle_6da7fa9722b2a12d195232a03d04563a_fractured_37"
    example = PlyFolders(folder, contact=True)[0]
    touching = [set(np.unique(label)) - {OUTER} for label in example.clouds(example.contact)]
    assert all(touching)
    for i, others in enumerate(touching):
        for j in others:
            assert i in touching[j]
