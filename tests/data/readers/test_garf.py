"""GARF's file on boxes in a row."""

import builtins
import sys

import numpy as np
import pytest
from support.dataset_files import box, lowest, put_arrays

from eda.data.example import OUTER
from eda.data.readers.garf import Garf
from eda.errors import InputError

h5py = pytest.importorskip("h5py")

# Of the faces of a box, the two at its low and its high end along x.
LOW, HIGH = slice(0, 2), slice(2, 4)


@pytest.fixture
def garf(tmp_path):
    """12 boxes in a row, so that the names of the pieces sort differently as text and as numbers."""
    path = tmp_path / "breaking_bad.hdf5"
    with h5py.File(path, "w") as file:
        names = [b"everyday/Cup/a/mode_0", b"everyday/Cup/b/mode_1", b"everyday/Cup/gone/mode_2"]
        put_arrays(file, **{"data_split/everyday/train": names[:1] + names[2:], "data_split/everyday/val": names[1:2]})
        for name, count in ((names[0], 12), (names[1], 2)):
            for k in range(count):
                vertices, faces = box(k, 1)
                shared = np.full(12, -1)
                shared[LOW] = k - 1
                shared[HIGH] = k + 1 if k + 1 < count else -1
                group = file.create_group(f"{name.decode()}/pieces/{k}")
                put_arrays(group, vertices=vertices, faces=faces, shared_faces=shared)
    return path


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


@pytest.mark.parametrize("content", [b"", b"garbage", None])
def test_what_is_no_hdf5_is_named(tmp_path, content):
    path = tmp_path / "file.hdf5"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"file\.hdf5"):
        len(Garf(path))


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
