"""Packs: tiny ones of known content, and the real ones against geometry."""

import itertools
import json
import pickle

import numpy as np
import pytest
from data_files import acted, random_motion, real_data, write_fracture_pack, write_fragment_pack
from scipy.spatial import cKDTree

from eda.data.example import OUTER
from eda.data.packs import BreakingBadPack, KittiPack, ThreeDMatchPack
from eda.errors import InputError


def share_near(source: np.ndarray, target: np.ndarray, radius: float) -> float:
    return float((cKDTree(target).query(source)[0] < radius).mean())


# -- Breaking Bad ------------------------------------------------------------------------------------------


@pytest.fixture
def fractures():
    rng = np.random.default_rng(0)
    return [[rng.uniform(-0.5, 0.5, (n, 3)) for n in sizes] for sizes in ((5, 6), (4, 7, 8))]


CONTACT = np.array([1] * 2 + [255] * 9 + [2] * 4 + [255] * 7 + [0] * 8, dtype=np.uint8)


def test_a_fracture_pack_is_read(tmp_path, fractures):
    write_fracture_pack(tmp_path / "pack.npz", fractures, CONTACT)
    for path in (tmp_path / "pack.npz", tmp_path):
        source = BreakingBadPack(path)
        assert [example.name for example in source] == ["everyday/Cup/s0/mode_0", "everyday/Cup/s1/mode_0"]
        example = source[1]
        whole = np.concatenate(fractures[1])
        np.testing.assert_allclose(example.points, whole - whole.mean(axis=0), atol=2e-5)
        assert example.sizes.tolist() == [4, 7, 8]
        assert example.contact.tolist() == [2] * 4 + [OUTER] * 7 + [0] * 8
        np.testing.assert_allclose(example.normals, np.tile([0, 0, 1], (19, 1)))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(source))[0].points, source[0].points)


def test_categories(tmp_path, fractures):
    write_fracture_pack(tmp_path / "pack.npz", fractures, CONTACT)
    assert len(BreakingBadPack(tmp_path, categories=("Cup", "Vase"))) == 2
    with pytest.raises(InputError, match="no fractures of Vase"):
        len(BreakingBadPack(tmp_path, categories=("Vase",)))


@pytest.mark.parametrize(
    "changes",
    [
        {"contact": None},
        {"index": np.array("not json")},
        {"index": np.array("[{}, {}]")},
        {"index": np.array("[]")},
        {"piece_offset": np.array([0, 5, 11])},
        {"piece_offset": np.array([0, 11, 5, 22, 15, 30])},
        {"fracture_offset": np.array([0, 2, 9])},
        {"normals_i8": np.zeros((30, 3), np.int8)},
        {"contact": CONTACT[:-1]},
        {"points_u16": np.array([{}], dtype=object)},
    ],
)
def test_a_damaged_fracture_pack_is_named(tmp_path, fractures, changes):
    write_fracture_pack(tmp_path / "pack.npz", fractures, CONTACT, **changes)
    with pytest.raises(InputError, match=r"pack\.npz"):
        len(BreakingBadPack(tmp_path))


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04garbage"])
def test_what_is_no_npz_is_named(tmp_path, content):
    (tmp_path / "pack.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"pack\.npz"):
        len(BreakingBadPack(tmp_path))


def test_a_truncated_fracture_pack_is_named(tmp_path, fractures):
    write_fracture_pack(tmp_path / "pack.npz", fractures, CONTACT)
    content = (tmp_path / "pack.npz").read_bytes()
    (tmp_path / "pack.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"pack\.npz"):
        len(BreakingBadPack(tmp_path))


def test_an_empty_folder_is_named(tmp_path):
    with pytest.raises(InputError, match=r"expected one \*\.npz"):
        len(BreakingBadPack(tmp_path))


def test_real_contact_lies_where_the_pieces_meet():
    """Every point that is said to touch a piece has a point of it nearby, facing it."""
    source = BreakingBadPack(real_data("breaking_bad"))
    assert len(source) == 531
    faced = []
    for index in range(0, len(source), 100):
        example = source[index]
        assert 2 <= example.num_pieces <= 8
        clouds, normals, labels = (example.clouds(v) for v in (example.points, example.normals, example.contact))
        nearest = np.concatenate([cKDTree(cloud).query(cloud, k=2)[0][:, 1] for cloud in clouds])
        spacing = 2 * np.median(nearest)
        for i, label in enumerate(labels):
            assert (label != i).all()
            assert label.max() < example.num_pieces
            for j in np.unique(label[label >= 0]):
                rows = label == j
                distance, other = cKDTree(clouds[j]).query(clouds[i][rows], k=8)
                facing = (normals[i][rows][:, None] * normals[j][other]).sum(axis=-1)
                assert distance[:, 0].max() < 2.5 * spacing
                faced.append(facing.min(axis=1) < -0.8)
    assert np.concatenate(faced).mean() > 0.9


# -- 3DMatch -----------------------------------------------------------------------------------------------

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
    poses = [random_motion(rng) for _ in scene]
    clouds = [acted(np.linalg.inv(pose), cloud) for pose, cloud in zip(poses, scene, strict=True)]
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
    poses = [random_motion(rng) for _ in range(2)]
    clouds = [acted(np.linalg.inv(pose), plane) for pose in poses]
    row = {"src": 1, "tgt": 0, "T": (np.linalg.inv(poses[0]) @ poses[1])[:3].ravel().tolist(), "overlap": 1.0}
    write_fragment_pack(tmp_path, NAMES[:2], clouds, poses, {"3DMatch": [row]})
    assert ThreeDMatchPack(tmp_path)[0].normals is None
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


# -- KITTI -------------------------------------------------------------------------------------------------


@pytest.fixture
def case(tmp_path):
    rng = np.random.default_rng(2)
    cells = np.stack(np.meshgrid(*[np.arange(0, 9, 3.0)] * 3), axis=-1).reshape(-1, 3)
    world = cells + rng.uniform(0, 1, cells.shape)
    poses = {f"{k:06d}.npy": random_motion(rng, 20) for k in range(3)}
    folder = tmp_path / "case_a"
    folder.mkdir()
    for name, pose in poses.items():
        np.save(folder / name, acted(np.linalg.inv(pose), world).astype(np.float32))
    wrong = {name: np.eye(4).tolist() for name in poses}
    right = {name: pose.tolist() for name, pose in poses.items()}
    (folder / "poses.json").write_text(json.dumps({"unit": "metre", "poses": wrong, "poses_icp_refined": right}))
    return tmp_path


def test_clouds_come_together(case):
    for path in (case, case / "case_a"):
        (example,) = KittiPack(path)
        assert example.name == "case_a"
        first, second, third = example.clouds()
        np.testing.assert_allclose(first, second, atol=1e-4)
        np.testing.assert_allclose(first, third, atol=1e-4)


def test_the_official_poses_if_asked_for(case):
    first, second, _ = KittiPack(case, poses="poses")[0].clouds()
    assert np.abs(first - second).max() > 1


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"poses": {"000000.npy": [[1, 2]]}}', '{"poses": {"zz.npy": 3}}'])
def test_damaged_poses_are_named(case, content):
    (case / "case_a" / "poses.json").write_text(content)
    with pytest.raises(InputError, match=r"poses\.json"):
        KittiPack(case)[0]


@pytest.mark.parametrize("content", [None, b"", b"garbage"])
def test_a_damaged_cloud_is_named(case, content):
    path = case / "case_a" / "000001.npy"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"000001\.npy"):
        KittiPack(case)[0]


def test_a_folder_without_cases_is_named(tmp_path):
    with pytest.raises(InputError, match=r"expected poses\.json"):
        len(KittiPack(tmp_path))


def test_real_lidar_views_come_together():
    source = KittiPack(real_data("kitti"))
    assert len(source) == 3
    for example in source:
        clouds = example.clouds()
        for one, other in itertools.pairwise(clouds):
            aligned = share_near(one, other, 0.5)
            assert aligned > 0.5
            assert aligned > share_near(one @ np.diag([-1.0, -1.0, 1.0]), other, 0.5)
