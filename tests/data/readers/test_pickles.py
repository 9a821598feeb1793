"""Old pickles: what they may say is read, and what they must not say is never run."""

import os
import pickle
import tracemalloc
import zipfile
from collections import OrderedDict
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from eda.data import archives
from eda.data.readers import pickles
from eda.data.readers.pickles import read_pickle
from eda.data.readers.torch_files import read_torch
from eda.errors import InputError

CONTENT = {
    "src": ["train/scene/cloud_bin_0.pth", "test/ä/1"],
    "rot": [np.arange(9.0).reshape(3, 3), np.asfortranarray(np.arange(9.0).reshape(3, 3))],
    "overlap": np.array([0.1, 0.9], dtype=np.float32),
    "one": np.float64(0.25),
    "big": np.arange(3, dtype=">i4"),
    "flags": np.array([True, False]),
    "words": np.array(["a", "bcd"]),
    "nested": [(1, None), {"x": {2, 3}}, OrderedDict(a=1)],
}


@pytest.mark.parametrize("protocol", range(6))
def test_plain_content_is_read(tmp_path, protocol):
    path = tmp_path / "list.pkl"
    path.write_bytes(pickle.dumps(CONTENT, protocol=protocol))
    read = read_pickle(path)
    assert read.keys() == CONTENT.keys()
    assert read["src"] == CONTENT["src"]
    assert read["nested"] == CONTENT["nested"]
    assert float(read["one"]) == 0.25
    for one, other in zip(read["rot"], CONTENT["rot"], strict=True):
        np.testing.assert_array_equal(one, other)
    for key in ("overlap", "big", "flags", "words"):
        np.testing.assert_array_equal(read[key], CONTENT[key])


def test_a_pickle_of_an_older_numpy_is_read(tmp_path):
    """The module was called numpy.core before it was numpy._core; names have their length before them."""
    text = pickle.dumps(np.arange(4.0), protocol=2)
    older = text.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    (tmp_path / "old.pkl").write_bytes(older)
    np.testing.assert_array_equal(read_pickle(tmp_path / "old.pkl"), np.arange(4.0))


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("content", [np.arange(12, dtype=np.float32).reshape(4, 3), torch.arange(12.0).reshape(4, 3)])
def test_what_torch_saved_is_read(tmp_path, content, zipped):
    path = tmp_path / "cloud.pth"
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    np.testing.assert_array_equal(np.asarray(read_torch(path)), np.arange(12.0).reshape(4, 3))


# -- refused -----------------------------------------------------------------------------------------------


class Calls:
    """A pickle that calls a function as it is read."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def evil(marker) -> dict[str, object]:
    command = f"open({str(marker)!r}, 'w').close()"
    return {
        "system": Calls(os.system, f"touch {marker}"),
        "exec": Calls(exec, command),
        "eval": Calls(eval, command),
        "inside a list": [1, {"rot": [Calls(exec, command)]}],
        "an array of objects": np.array([Calls(exec, command), None], dtype=object),
        "getattr": Calls(getattr, "text", "upper"),
        "numpy's own reader": Calls(np.load, str(marker)),
        "a path": marker,
    }


KINDS = list(evil(""))


@pytest.mark.parametrize("protocol", [0, 2, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_a_malicious_pickle_is_refused_and_does_not_run(tmp_path, kind, protocol):
    marker, path = tmp_path / "ran", tmp_path / "list.pkl"
    path.write_bytes(pickle.dumps(evil(marker)[kind], protocol=protocol))
    with pytest.raises(InputError, match=r"list\.pkl"):
        read_pickle(path)
    assert not marker.exists()


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_malicious_torch_file_is_refused_and_does_not_run(tmp_path, kind, zipped):
    marker, path = tmp_path / "ran", tmp_path / "cloud.pth"
    torch.save(evil(marker)[kind], path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(InputError, match=r"cloud\.pth"):
        read_torch(path)
    assert not marker.exists()


def test_the_evil_ones_are_evil(tmp_path):
    """Otherwise the tests above would prove nothing."""
    marker = tmp_path / "ran"
    pickle.loads(pickle.dumps(evil(marker)["exec"]))
    assert marker.exists()


@pytest.mark.parametrize("codec", ["rot13", "bz2", "zlib", "utf-8"])
def test_only_the_codec_of_bytes_is_allowed(tmp_path, codec):
    path = tmp_path / "list.pkl"
    path.write_bytes(b"c_codecs\nencode\n(Vtext\nV" + codec.encode() + b"\ntR.")
    with pytest.raises(InputError, match="text as"):
        read_pickle(path)


def test_an_array_cannot_claim_more_than_its_bytes(tmp_path):
    path = tmp_path / "list.pkl"
    text = pickle.dumps(np.zeros((2, 2)), protocol=2)
    path.write_bytes(text.replace(b"K\x02K\x02\x86", b"K\xffK\xff\x86"))
    with pytest.raises(InputError):
        read_pickle(path)


@pytest.mark.parametrize("content", [b"", b"garbage", pickle.dumps(CONTENT)[:-40], b"\x80\x04."])
def test_damage_is_named(tmp_path, content):
    for read in (read_pickle, read_torch):
        path = tmp_path / "file"
        path.write_bytes(content)
        with pytest.raises(InputError, match="file"):
            read(path)


def test_a_missing_file_is_named(tmp_path):
    for read in (read_pickle, read_torch):
        with pytest.raises(InputError, match=r"nowhere.*not there"):
            read(tmp_path / "nowhere")


def test_a_zip_without_a_pickle_is_refused(tmp_path):
    path = tmp_path / "cloud.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme", "nothing")
    with pytest.raises(InputError, match=r"cloud\.pth"):
        read_torch(path)


# -- hostile -----------------------------------------------------------------------------------------------


def word(name: str) -> bytes:
    module, _, function = name.rpartition(".")
    return f"c{module}\n{function}\n".encode()


DTYPE = word("numpy.dtype") + b"(X\x02\0\0\0f8\x89\x88tR"  # dtype("f8", False, True)
BUFFER, SCALAR = word("numpy._core.numeric._frombuffer"), word("numpy._core.multiarray.scalar")
OBJECTS = word("numpy.dtype") + b"(X\x02\0\0\0O8\x89\x88tR"
RECONSTRUCT = word("numpy._core.multiarray._reconstruct")
NDARRAY = word("numpy.ndarray")
POINTERS = b"C\x08AAAAAAAA"
HOSTILE = {
    "pointers from bytes": NDARRAY + b"(K\x01\x85X\x01\0\0\0O" + POINTERS + b"tR.",
    "pointers from a plain buffer": BUFFER + b"(" + POINTERS + OBJECTS + b"K\x01\x85NtR.",
    "an array that nobody filled": NDARRAY + b"(J\xff\xff\xff\x0f\x85X\x02\0\0\0f8tR.",
    "an array without content": RECONSTRUCT + b"(" + NDARRAY + b"K\0\x85C\x01btR.",
    "an array of another class": RECONSTRUCT + b"(" + word("numpy.dtype") + b"K\0\x85C\x01btR.",
    "a function is changed": word("numpy.dtype") + b"}X\x08\0\0\0__code__K\x01sb.",
    "a class is changed": NDARRAY + b"}X\x08\0\0\0__init__K\x01sb.",
    "a list is changed": b"]}X\x01\0\0\0aK\x01sb.",
    "text of 4 GB": SCALAR + b"(" + DTYPE.replace(b"\x02\0\0\0f8", b"\x0b\0\0\0S4294967295")
    + b"C\x01atR.",
    "fewer bytes than numbers": BUFFER + b"(C\x08AAAAAAAA" + DTYPE + b"J\0\0\0\x7f\x85NtR.",
    "numbers without size": BUFFER + b"(C\0" + DTYPE.replace(b"f8", b"S0")
    + b"J\0\0\0\x7f\x85NtR.",
    "bytes that are not there": b"\x8e" + (2**40).to_bytes(8, "little") + b"a.",
    "a bytearray that is not there": b"\x96" + (2**33).to_bytes(8, "little") + b"a.",
    "a number that is not there": b"\x8b\xff\xff\xff\x7fa.",
    "keys on one place": b"}(" + b"".join(
        b"\x8a\x09" + (i * (2**61 - 1)).to_bytes(9, "little") + b"N" for i in range(50, 2000)
    ) + b"u.",
    "keys made of tuples": b"}(K\x01K\x02\x86Nu.",
    "copies of copies": b"](" + b"N" * 10_000 + b"eq\0" + (word("builtins.list") + b"h\0\x85R") * 400 + b".",
    "a new object": b"ccollections\nOrderedDict\n)\x81.",
    "a persistent name": b"K\x01Q.",
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_pickle_is_refused_before_it_costs_anything(tmp_path, kind):
    path = tmp_path / "list.pkl"
    path.write_bytes(HOSTILE[kind])
    with bounded_memory(), pytest.raises(InputError, match=r"list\.pkl"):
        read_pickle(path)


@contextmanager
def bounded_memory():
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("content", [b"Nr\xff\xff\xff\x7f.", b"\x80\x04\x95" + (2**40).to_bytes(8, "little") + b"N."])
def test_a_large_place_in_the_memo_and_a_long_frame_cost_nothing(tmp_path, content):
    (tmp_path / "list.pkl").write_bytes(content)
    with bounded_memory():
        assert read_pickle(tmp_path / "list.pkl") is None


def test_steps_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(pickles, "MAX_STEPS", 1000)
    (tmp_path / "list.pkl").write_bytes(b"N0" * 501 + b"N.")
    with pytest.raises(InputError, match="more than 1000 steps"):
        read_pickle(tmp_path / "list.pkl")


def test_an_array_that_comes_twice_is_the_same(tmp_path):
    """Its second appearance is taken from the memo, into which it went before it had content."""
    array = np.arange(3.0)
    (tmp_path / "list.pkl").write_bytes(pickle.dumps([array, array]))
    first, second = read_pickle(tmp_path / "list.pkl")
    assert first is second
    np.testing.assert_array_equal(first, array)


@pytest.mark.parametrize("zipped", [True, False])
def test_views_of_tensors_are_read_and_those_that_grow_are_not(tmp_path, zipped):
    path, options = tmp_path / "cloud.pth", {"_use_new_zipfile_serialization": zipped}
    tensor = torch.arange(24.0).reshape(4, 6)
    torch.save({"part": tensor[1:, 2:5].T, "all": tensor}, path, **options)
    read = read_torch(path)
    np.testing.assert_array_equal(read["part"], tensor[1:, 2:5].T.numpy())
    np.testing.assert_array_equal(read["all"], tensor.numpy())
    torch.save(torch.zeros(1).expand(10**9, 3), path, **options)
    with bounded_memory(), pytest.raises(InputError, match=r"cloud\.pth"):
        read_torch(path)


def test_a_tensor_cannot_reach_beyond_its_numbers(tmp_path):
    path = tmp_path / "cloud.pth"
    torch.save(torch.zeros(4, 3), path, _use_new_zipfile_serialization=False)
    path.write_bytes(path.read_bytes().replace(b"K\x04K\x03\x86", b"K\x04K\xff\x86"))
    with pytest.raises(InputError, match=r"cloud\.pth"):
        read_torch(path)
    torch.save(torch.zeros(4, 3), path, _use_new_zipfile_serialization=False)
    path.write_bytes(path.read_bytes().replace(b"K\x03K\x01\x86", b"K\x63K\x01\x86"))  # strides
    with pytest.raises(InputError, match=r"cloud\.pth"):
        read_torch(path)


def test_a_packed_torch_file_is_not_unpacked_beyond_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "ALWAYS_UNPACKED", 10**6)
    torch.save(torch.zeros(10**6), tmp_path / "plain.pth")
    with zipfile.ZipFile(tmp_path / "plain.pth") as plain, zipfile.ZipFile(tmp_path / "a.pth", "w") as packed:
        for name in plain.namelist():
            packed.writestr(name, plain.read(name), zipfile.ZIP_DEFLATED)
    assert len(read_torch(tmp_path / "plain.pth")) == 10**6
    with pytest.raises(InputError, match="would unpack to 4 MB"):
        read_torch(tmp_path / "a.pth")
