"""The results of pairs on disk: exact, and files of any other kind count as missing."""

import json
import os

import numpy as np
import pytest
import torch
from support.pose_graphs import random_poses
from support.tiny_models import model_of

from eda.assembly.scenes import PairCache, PairJoint, model_digest
from eda.assembly.scenes.pair_cache import VERSION, digest

POSE = np.eye(4).tolist()


def test_what_is_kept_is_read_to_the_last_bit(tmp_path):
    cache = PairCache(tmp_path / "new" / "pairs")
    joints = tuple(
        PairJoint(pose, p) for pose, p in zip(random_poses(3, np.random.default_rng(0)), (0.1, 1 / 3, 1.0), strict=True)
    )
    cache.write("key", joints)
    cache.write("none", ())
    found = cache.read("key")
    assert found is not None
    for one, other in zip(found, joints, strict=True):
        np.testing.assert_array_equal(one.T_second_first, other.T_second_first)
        assert one.probability == other.probability
    assert cache.read("none") == ()
    assert cache.read("other") is None
    assert {path.name for path in cache.folder.iterdir()} == {"key.json", "none.json"}


def test_without_a_folder_nothing_is_kept():
    PairCache(None).write("key", ())
    assert PairCache(None).read("key") is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04cos\nsystem\n(S'touch hacked'\ntR.",  # a pickle
        b"[" * 100_000,
        b"null",
        json.dumps({"version": VERSION + 1, "joints": []}).encode(),
        json.dumps({"version": VERSION}).encode(),
        json.dumps({"version": VERSION, "joints": [{"pose": POSE, "probability": 2}]}).encode(),
        json.dumps({"version": VERSION, "joints": [{"pose": POSE, "probability": float("nan")}]}).encode(),
        json.dumps({"version": VERSION, "joints": [{"pose": (2 * np.eye(4)).tolist(), "probability": 1}]}).encode(),
        json.dumps({"version": VERSION, "joints": [{"pose": POSE[:3], "probability": 1}]}).encode(),
        json.dumps({"version": VERSION, "joints": [{"pose": [[1], [2, 3]], "probability": 1}]}).encode(),
        json.dumps({"version": VERSION, "joints": {"pose": 1}}).encode(),
        json.dumps({"version": VERSION, "joints": [{"pose": [[10**400] * 4] * 4, "probability": 1}]}).encode(),
        json.dumps({"version": VERSION, "joints": [{"pose": POSE, "probability": 1}] * 5000}).encode(),
    ],
    ids=lambda content: repr(content[:20]),
)
def test_damaged_and_hostile_files_count_as_missing(tmp_path, content):
    (tmp_path / "key.json").write_bytes(content)
    assert PairCache(tmp_path).read("key") is None
    assert [path.name for path in tmp_path.iterdir()] == ["key.json"]


def test_what_is_no_file_counts_as_missing(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    assert PairCache(tmp_path).read("pipe") is None
    assert PairCache(tmp_path).read("folder") is None


def test_digests_tell_parts_apart():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("ab") == digest(b"ab")


def test_a_model_is_named_by_all_its_weights():
    model = model_of()
    before = model_digest(model)
    assert model_digest(model_of()) == before
    with torch.no_grad():
        next(reversed(list(model.parameters()))).add_(1e-3)
    assert model_digest(model) != before
