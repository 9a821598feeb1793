"""Archives are checked before they are unpacked, in every reader that has one."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from support.dataset_files import write_compressed

from eda.data import archives, open_examples
from eda.data.archives import read_npy, read_npz
from eda.data.piece_files import read_pieces
from eda.errors import InputError

KEYS = ("points_mm", "offset")


def pack(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(array: np.ndarray) -> bytes:
    np.save(file := io.BytesIO(), array)
    return file.getvalue()


def header(shape: str, descr: str = "<f8") -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text.encode()


def test_a_sound_archive_is_read(tmp_path):
    arrays = {"points_mm": np.arange(6).reshape(2, 3), "offset": np.array("text")}
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays)
        for key, array in read_npz(tmp_path / "a.npz", KEYS).items():
            np.testing.assert_array_equal(array, arrays[key])


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing_are_refused(tmp_path, method):
    path = pack(tmp_path / "a.npz", {key: npy(np.zeros(3)) for key in KEYS}, method)
    with pytest.raises(InputError, match="packed in another way"):
        read_npz(path, KEYS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header("(1000000000000, 3)") + bytes(99), "promises 3000000000000 numbers of 8 bytes, and 99 bytes follow"),
        (header("(1000000000000, 3)", "|S0"), "promises 3000000000000 numbers of 0 bytes"),
        (header("(-4, 3)") + bytes(99), "promises"),
    ],
)
def test_an_array_is_as_large_as_its_header_says(tmp_path, content, message):
    pack(tmp_path / "a.npz", {"points_mm": content, "offset": npy(np.zeros(2))})
    with pytest.raises(InputError, match=rf"a\.npz.*{message}"):
        read_npz(tmp_path / "a.npz", KEYS)
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(InputError, match=rf"a\.npy.*{message}"):
        read_npy(tmp_path / "a.npy")


def packed_zeros(folder: Path, kind: str) -> str:
    """A dataset whose archive unpacks to a thousand times its size, and the text that names it."""
    zeros = np.zeros((10**6, 3))
    if kind == "3dmatch-pack":
        np.savez_compressed(folder / "fragments_5cm.npz", points_mm=zeros, offset=np.array([0, 10**6]))
        (folder / "index.json").write_text(json.dumps({"fragments": [], "pairs": {}}))
    elif kind == "breaking-bad-pack":
        np.savez_compressed(folder / "pack.npz", points_u16=zeros)
    else:
        write_compressed(folder / "everyday_compressed/Cup/a", (1.0, 1.0), {"mode_0": (0, 1)})
        data = folder / "everyday_compressed/Cup/a/compressed_data.npz"
        row_of_zeros = (zeros[:, 0], np.zeros(10**6, int), [0] + [10**6] * 16)
        scipy.sparse.save_npz(data, scipy.sparse.csr_matrix(row_of_zeros, shape=(16, 2)))
    return f"{kind}:{folder}" + (",split=all" if kind == "breaking-bad" else "")


@pytest.mark.parametrize("kind", ["3dmatch-pack", "breaking-bad-pack", "breaking-bad"])
def test_every_reader_refuses_what_unpacks_to_far_more_than_it_holds(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(archives, "ALWAYS_UNPACKED", 10**6)
    with pytest.raises(InputError, match=r"\.npz: it would unpack to \d+ MB, and a file of its size may unpack to"):
        list(open_examples(packed_zeros(tmp_path, kind)))


def test_a_piece_that_unpacks_to_far_more_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "ALWAYS_UNPACKED", 10**6)
    np.savez_compressed(tmp_path / "a.npz", points=np.zeros((10**6, 3)))
    with pytest.raises(InputError, match="would unpack to 24 MB"):
        read_pieces([tmp_path])
