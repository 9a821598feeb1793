"""The 3DMatch pack: a tiny one of known content, and the real one against geometry."""

import json

import numpy as np
import pytest
from scipy.spatial import cKDTree
from support.dataset_files import real_data, share_near, write_fragment_pack
from support.rigid_motions import random_motion_in_box, transform_points

from eda.data.readers.threedmatch_pack import ThreeDMatchPack
from eda.errors import InputError

NAMES = ["a/cloud_bin_0", "a/cloud_bin_1", "a/cloud_bin_2", "b/cloud_bin_0"]


@pytest.fixture
def scene():
    """Clouds in the frame of their scene, a metre in size: the first two overlap, the third is 3 m away."""
    rng = np.random.default_rng(0)
    base = rng.uniform(0, 1, (300, 3))
    return [base, base[:200] + np.array([0.01, 0, 0]), base + np.array([3, 0, 0]), base]


@pytest.fixture
def fragments(tmp_path, scene):
    rng = np.random.default_rng(1)
    poses = [random_motion_in_box(rng) for _ in scene]
    clouds = [transform_points(np.linalg.inv(pose), cloud) for pose, cloud in zip(poses, scene, strict=True)]
    motion = np.linalg.inv(poses[0]) @ poses[1]
    rows = [{"src": 1, "tgt": 0, "T": motion[:3].ravel().tolist(), "overlap": 0.7}]
    write_fragment_pack(tmp_path, NAMES, clouds, poses, {"3DMatch": rows, "3DLoMatch": []})
    return tmp_path


def assert_assembled(example, clouds) -> None:
    whole = np.concatenate(clouds)
    distances = [np.linalg.norm(points[::7, None] - points[::7], axis=-1) for points in (whole, example.points)]
    np.testing.assert_allclose(distances[0], distances[1], atol=3e-3)


def test_listed_pairs(fragments, scene):
    source = ThreeDMatchPack(fragments)
    assert len(source) == 1
    assert source[0].name == "a/cloud_bin_1-cloud_bin_0"
    assert_assembled(source[0], [scene[1], scene[0]])


def test_pairs_without_overlap(fragments, scene):
    """Of scene a only: fragments of different scenes have nothing to do with each other."""
    source = ThreeDMatchPack(fragments, pairs="zero")
    assert [example.name for example in source] == ["a/cloud_bin_2-cloud_bin_0", "a/cloud_bin_2-cloud_bin_1"]
    assert_assembled(source[1], [scene[2], scene[1]])
    with pytest.raises(InputError, match="no pairs of 'zero'"):
        len(ThreeDMatchPack(fragments, pairs="zero", radius=5.0))


def test_several_lists_follow_each_other_and_are_thinned_evenly(fragments):
    both = ThreeDMatchPack(fragments, pairs="3DMatch+zero")
    names = [example.name for example in both]
    assert names == [example.name for kind in ("3DMatch", "zero") for example in ThreeDMatchPack(fragments, pairs=kind)]
    assert [example.name for example in ThreeDMatchPack(fragments, pairs="3DMatch+zero", most=1)] == names[:2]
    with pytest.raises(InputError, match="pairs"):
        ThreeDMatchPack(fragments, pairs="3DMatch+all")


def test_normals_are_estimated_before_fragments_are_thinned_and_turn_with_them(tmp_path):
    """Points of a plane have its normal, whatever the frame that the fragment was stored in."""
    rng = np.random.default_rng(3)
    plane = np.column_stack([rng.uniform(0, 1, (500, 2)), np.zeros(500)])
    poses = [random_motion_in_box(rng) for _ in range(2)]
    clouds = [transform_points(np.linalg.inv(pose), plane) for pose in poses]
    row = {"src": 1, "tgt": 0, "T": (np.linalg.inv(poses[0]) @ poses[1])[:3].ravel().tolist(), "overlap": 1.0}
    write_fragment_pack(tmp_path, NAMES[:2], clouds, poses, {"3DMatch": [row]})
    assert ThreeDMatchPack(tmp_path, neighbors=0)[0].normals is None
    example = ThreeDMatchPack(tmp_path, grid=0.2, neighbors=8)[0]
    assert (example.sizes < 60).all()
    in_scene = example.normals @ poses[0][:3, :3].T
    np.testing.assert_allclose(np.abs(in_scene[:, 2]), 1.0, atol=0.01)


def test_bands_and_scenes(fragments):
    with pytest.raises(InputError, match="no pairs"):
        len(ThreeDMatchPack(fragments, max_overlap=0.3))
    with pytest.raises(InputError, match="no pairs of '3DMatch' in b"):
        len(ThreeDMatchPack(fragments, scenes=("b",)))
    with pytest.raises(InputError, match="no scene c; it has a, b"):
        len(ThreeDMatchPack(fragments, scenes=("c",)))
    assert len(ThreeDMatchPack(fragments, scenes=("a",), min_overlap=0.6)) == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content.pop("pairs"),
        lambda content: content["pairs"].pop("3DMatch"),
        lambda content: content["fragments"].pop(),
        lambda content: content["fragments"][0].pop("cam_to_world"),
        lambda content: content["pairs"]["3DMatch"][0].pop("T"),
        lambda content: content["pairs"]["3DMatch"][0].update(T=[1.0] * 12),
        lambda content: content["pairs"]["3DMatch"][0].update(src=9),
        lambda content: content["pairs"]["3DMatch"][0].update(src="one"),
    ],
)
def test_a_damaged_index_is_named(fragments, spoil):
    content = json.loads((fragments / "index.json").read_text())
    spoil(content)
    (fragments / "index.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"index\.json"):
        len(ThreeDMatchPack(fragments))


def test_a_missing_index_is_named(fragments):
    (fragments / "index.json").unlink()
    with pytest.raises(InputError, match=r"index\.json"):
        len(ThreeDMatchPack(fragments))


def test_real_pairs_come_together():
    """What a list calls overlap is found between the clouds, and not without the motion that it gives."""
    folder = real_data("3dmatch")
    counts = {name: len(ThreeDMatchPack(folder, pairs=name)) for name in ("3DMatch", "3DLoMatch")}
    assert counts == {"3DMatch": 1284, "3DLoMatch": 1430}
    stated = json.loads((folder / "index.json").read_text())["pairs"]
    for name in counts:
        source = ThreeDMatchPack(folder, pairs=name)
        for index in range(0, counts[name], 200):
            moved, target = source[index].clouds()
            assert share_near(moved, target, 0.1) > 0.5 * stated[name][index]["overlap"]
    source = ThreeDMatchPack(folder, min_overlap=0.5)
    shares = [share_near(*source[index].clouds(), 0.1) for index in range(0, len(source), 20)]
    assert min(shares) > 0.6
    pairs = [source[index].clouds() for index in range(0, len(source), 20)]
    centred = [share_near(a - a.mean(axis=0), b - b.mean(axis=0), 0.1) for a, b in pairs]
    assert np.mean(centred) < 0.75 * np.mean(shares)


def test_real_pairs_without_overlap_are_apart():
    folder = real_data("3dmatch")
    names = [fragment["name"] for fragment in json.loads((folder / "index.json").read_text())["fragments"]]
    scenes = [name.rpartition("/")[0] for name in names]
    smallest = min(set(scenes), key=scenes.count)
    source = ThreeDMatchPack(folder, pairs="zero", scenes=(smallest,))
    for index in range(0, len(source), 50):
        moved, target = source[index].clouds()
        assert cKDTree(target).query(moved)[0].min() >= 0.0999
