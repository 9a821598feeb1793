"""Old pickles: what they may say is read, and what they must not say is never run."""

import os
import pickle
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import torch

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
