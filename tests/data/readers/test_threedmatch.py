"""3DMatch, 3DLoMatch and 3DZeroMatch on a scene of four fragments with known poses."""

import itertools
import pickle

import numpy as np
import pytest
import torch
from support.dataset_files import write_blocks, write_fragment, write_info, write_pickle
from support.rigid_motions import random_motion_in_box, transform_points

from eda.data.readers.threedmatch import ThreeDMatch, ThreeDZeroMatch, overlap_share, read_gt_info, read_gt_log
from eda.data.source import LeftOut
from eda.errors import InputError

SCENE = "7-scenes-redkitchen"
# Where the fragments lie along x in the scene: 0 and 1 overlap by half, 1 and 2 by half, 3 is far away.
STARTS = (0.0, 0.5, 1.0, 5.0)
APART = {(0, 2), (0, 3), (1, 3), (2, 3)}


def in_scene(number: int) -> np.ndarray:
    """A wall of 1 x 1 m with a bump, 0.1 m between points, cut from one and the same plane."""
    y, x = np.meshgrid(np.arange(0.05, 1, 0.1), np.arange(0.05, 0.95, 0.1) + STARTS[number])
    x, y = x.ravel(), y.ravel()
    return np.column_stack([x, y, 0.2 * np.sin(3 * x + y)])


@pytest.fixture
def poses():
    rng = np.random.default_rng(3)
    return [random_motion_in_box(rng) for _ in STARTS]


@pytest.fixture
def root(tmp_path, poses):
    for k, pose in enumerate(poses):
        points = transform_points(np.linalg.inv(pose), in_scene(k))
        # Both of torch's formats, and an array or a tensor.
        write_fragment(tmp_path / f"test/{SCENE}/cloud_bin_{k}.pth", points, _use_new_zipfile_serialization=k % 2 == 0)
        write_info(tmp_path / f"test/{SCENE}/cloud_bin_{k}.info.txt", pose)
    return tmp_path


def relative(poses, target: int, source: int) -> np.ndarray:
    return np.linalg.inv(poses[target]) @ poses[source]


def predator(poses, pairs) -> dict:
    motions = [relative(poses, target, source) for source, target in pairs]
    return {
        "src": [f"test/{SCENE}/cloud_bin_{s}.pth" for s, _ in pairs],
        "tgt": [f"test/{SCENE}/cloud_bin_{t}.pth" for _, t in pairs],
        "rot": [motion[:3, :3] for motion in motions],
        "trans": [motion[:3, 3:] for motion in motions],
        "overlap": [0.5 - 0.4 * i for i in range(len(pairs))],
    }


def geotransformer(poses, pairs) -> list:
    lists = predator(poses, pairs)
    return [
        {
            "overlap": np.float64(overlap), "pcd0": target, "pcd1": source, "rotation": rot, "translation": trans[:, 0],
            "scene_name": SCENE, "frag_id0": 0, "frag_id1": 1,
        }
        for source, target, rot, trans, overlap in zip(*lists.values(), strict=True)
    ]  # fmt: skip


def assert_assembled(example, numbers) -> None:
    """Two fragments lie as they lie in the scene, up to one motion: all distances agree."""
    whole = np.concatenate([in_scene(k) for k in numbers])
    assert example.sizes.tolist() == [len(in_scene(k)) for k in numbers]
    distances = [np.linalg.norm(points[:, None] - points, axis=-1) for points in (whole, example.points)]
    np.testing.assert_allclose(distances[0], distances[1], atol=1e-4)
    assert example.normals is not None


@pytest.mark.parametrize("layout", [predator, geotransformer])
def test_both_lists_bring_the_source_to_the_target(root, poses, layout):
    write_pickle(root / "metadata" / "3DMatch.pkl", layout(poses, [(1, 0), (1, 2)]))
    source = ThreeDMatch(root)
    assert len(source) == 2
    assert_assembled(source[0], (1, 0))
    assert_assembled(source[1], (1, 2))
    assert source[0].name == f"test/{SCENE}/cloud_bin_1-cloud_bin_0"


def test_the_target_does_not_move(root, poses):
    write_pickle(root / "3DMatch.pkl", predator(poses, [(1, 0)]))
    target = ThreeDMatch(root)[0].clouds()[1]
    own = transform_points(np.linalg.inv(poses[0]), in_scene(0))
    np.testing.assert_allclose(target - target[0], own - own[0], atol=1e-5)


def test_bounds_on_the_overlap(root, poses):
    write_pickle(root / "3DLoMatch.pkl", predator(poses, [(1, 0), (1, 2)]))
    assert len(ThreeDMatch(root, split="3DLoMatch")) == 2
    assert len(ThreeDMatch(root, split="3DLoMatch", max_overlap=0.3)) == 1
    with pytest.raises(InputError, match="none of its 2 pairs"):
        len(ThreeDMatch(root, split="3DLoMatch", min_overlap=0.9))


@pytest.mark.parametrize(("split", "file"), [("train", "train_info.pkl"), ("val", "metadata/val.pkl")])
def test_lists_are_found_by_either_name(root, poses, split, file):
    write_pickle(root / file, predator(poses, [(1, 0)]))
    assert len(ThreeDMatch(root, split=split)) == 1


def test_a_list_elsewhere(root, poses, tmp_path):
    write_pickle(tmp_path / "elsewhere" / "mine.pkl", predator(poses, [(1, 0)]))
    assert len(ThreeDMatch(root, pairs=str(tmp_path / "elsewhere" / "mine.pkl"))) == 1


def test_the_benchmarks_own_files(root, poses, tmp_path):
    truth = tmp_path / "benchmarks"
    log = {(i, j): relative(poses, i, j) for i, j in ((0, 1), (1, 2))}
    write_blocks(truth / f"{SCENE}-evaluation" / "gt.log", log, len(poses))
    (truth / f"{SCENE}-evaluation" / "gt_overlap.log").write_text("0,1,0.5\n1,2,0.2\n0,2,0\n")
    source = ThreeDMatch(root, pairs=str(truth))
    assert [pair.overlap for pair in source.items] == [0.5, 0.2]
    assert_assembled(source[0], (1, 0))
    assert len(ThreeDMatch(root, pairs=str(truth), max_overlap=0.3)) == 1


def test_information_matrices(tmp_path):
    blocks = {(0, 1): np.arange(36.0).reshape(6, 6), (2, 7): np.eye(6)}
    write_blocks(tmp_path / "gt.info", blocks, 60)
    read = read_gt_info(tmp_path / "gt.info")
    assert list(read) == list(blocks)
    np.testing.assert_array_equal(read[0, 1], blocks[0, 1])


def test_fragments_are_thinned_on_the_grid(root, poses):
    write_pickle(root / "3DMatch.pkl", predator(poses, [(1, 0)]))
    coarse = ThreeDMatch(root, grid=0.35)[0]
    assert (coarse.sizes < 0.3 * len(in_scene(0))).all()
    assert coarse.sizes.min() >= 9


def test_a_tensor_is_a_fragment_too(root, poses):
    points = torch.from_numpy(transform_points(np.linalg.inv(poses[0]), in_scene(0)))
    torch.save(points, root / f"test/{SCENE}/cloud_bin_0.pth")
    write_pickle(root / "3DMatch.pkl", predator(poses, [(1, 0)]))
    assert_assembled(ThreeDMatch(root)[0], (1, 0))


# -- 3DZeroMatch -------------------------------------------------------------------------------------------


def numbers_of(pair) -> tuple[int, int]:
    target, source = (int(name.rsplit("_", 1)[1]) for name in (pair.target, pair.source))
    return target, source


def test_zero_overlap_by_measurement(root):
    """Without a table every pair is a candidate, and those that overlap are left out when they are read."""
    source = ThreeDZeroMatch(root, radius=0.06)
    assert len(source) == 6
    left = set()
    for index, pair in enumerate(source.items):
        try:
            assert_assembled(source[index], numbers_of(pair)[::-1])
        except LeftOut:
            left.add(numbers_of(pair))
    assert left == set(itertools.combinations(range(4), 2)) - APART
    assert len(list(source)) == 4


def test_the_radius_decides_what_overlap_is(root):
    """Fragments 0 and 2 are neighbours: 0.15 m apart."""
    near = [example.name for example in ThreeDZeroMatch(root, radius=0.3)]
    assert f"test/{SCENE}/cloud_bin_2-cloud_bin_0" not in near
    assert len(near) == 3


def test_zero_overlap_by_the_table(root):
    rows = [f"{i},{j},{0.0 if (i, j) in APART else 0.4}" for i, j in itertools.combinations(range(4), 2)]
    (root / "test" / SCENE / "gt_overlap.log").write_text("\n".join(rows) + "\n")
    source = ThreeDZeroMatch(root)
    assert {numbers_of(pair) for pair in source.items} == APART
    assert len(list(source)) == 4


def test_poses_along_the_pairs_of_a_log(root, poses, tmp_path):
    for k in range(4):
        (root / f"test/{SCENE}/cloud_bin_{k}.info.txt").unlink()
    log = {(0, 1): relative(poses, 0, 1), (1, 2): relative(poses, 1, 2)}
    write_blocks(tmp_path / "truth" / SCENE / "gt.log", log, 4)
    source = ThreeDZeroMatch(root, ground_truth=str(tmp_path / "truth"), radius=0.06)
    # Fragment 3 is connected with none, so nobody knows where it lies.
    assert {numbers_of(pair) for pair in source.items} == {(0, 1), (0, 2), (1, 2)}
    (example,) = source
    assert_assembled(example, (2, 0))


def test_a_scene_at_a_time(root, poses):
    for k in range(2):
        write_fragment(root / f"test/other/cloud_bin_{k}.pth", in_scene(3 * k))
        write_info(root / f"test/other/cloud_bin_{k}.info.txt", np.eye(4))
    assert len(ThreeDZeroMatch(root, scenes=("other",))) == 1
    assert len(ThreeDZeroMatch(root)) == 7


def test_share_of_overlap():
    source, target = np.zeros((10, 3)), np.zeros((1, 3))
    source[:, 0] = np.arange(10)
    assert overlap_share(source, target, 3.5) == 0.4
    assert overlap_share(source[5:], target, 3.5) == 0


# -- bad files ---------------------------------------------------------------------------------------------


def test_no_list(root):
    with pytest.raises(InputError, match=r"no 3DMatch\.pkl.*pairs="):
        len(ThreeDMatch(root))


def bent(content):
    content["rot"][0] = 2 * content["rot"][0]
    return content


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: {key: value for key, value in content.items() if key != "rot"},
        lambda content: {**content, "src": content["src"] * 2},
        lambda content: {**content, "src": ["/etc/passwd"]},
        lambda content: {**content, "src": ["../../secret.pth"]},
        lambda content: {**content, "trans": [np.full((3, 1), np.nan)]},
        lambda content: {**content, "rot": ["text"]},
        lambda content: [],
        lambda content: 3,
        bent,
    ],
)
def test_a_list_of_something_else_is_named(root, poses, spoil):
    write_pickle(root / "3DMatch.pkl", spoil(predator(poses, [(1, 0)])))
    with pytest.raises(InputError, match=r"3DMatch\.pkl"):
        len(ThreeDMatch(root))


@pytest.mark.parametrize("content", [np.zeros((5, 4)), np.full((5, 3), np.nan), np.zeros((0, 3)), {"a": 1}, ["x"]])
def test_a_fragment_that_is_no_cloud_is_named(root, poses, content):
    write_pickle(root / "3DMatch.pkl", predator(poses, [(1, 0)]))
    torch.save(content, root / f"test/{SCENE}/cloud_bin_1.pth")
    with pytest.raises(InputError, match=r"cloud_bin_1\.pth"):
        ThreeDMatch(root)[0]


def test_a_missing_or_truncated_fragment_is_named(root, poses):
    write_pickle(root / "3DMatch.pkl", predator(poses, [(1, 0), (1, 2)]))
    path = root / f"test/{SCENE}/cloud_bin_1.pth"
    path.write_bytes(path.read_bytes()[:300])
    for _ in range(2):
        with pytest.raises(InputError, match=r"cloud_bin_1\.pth"):
            ThreeDMatch(root)[0]
        path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    "text", ["0 1\n", "0 1 4\n1 0 0 0\n", "a b c\n" + "1 0 0 0\n" * 4, "0 1 4\n" + "2 0 0 0\n" * 4]
)
def test_a_damaged_log_is_named(tmp_path, text):
    (tmp_path / "gt.log").write_text(text)
    with pytest.raises(InputError, match=r"gt\.log"):
        read_gt_log(tmp_path / "gt.log")


def test_no_poses_and_no_fragments(root, tmp_path):
    (root / f"test/{SCENE}/cloud_bin_0.info.txt").unlink()
    with pytest.raises(InputError, match=r"no cloud_bin_<k>\.info\.txt.*gt\.log"):
        len(ThreeDZeroMatch(root))
    (tmp_path / "empty" / "test" / "scene").mkdir(parents=True)
    with pytest.raises(InputError, match=r"expected fragments cloud_bin_<k>\.pth, found 0"):
        len(ThreeDZeroMatch(tmp_path / "empty"))


def test_a_reader_can_be_sent_to_another_process(root, poses):
    write_pickle(root / "3DMatch.pkl", predator(poses, [(1, 0)]))
    source = ThreeDMatch(root)
    copy = pickle.loads(pickle.dumps(source))
    assert copy == source
    np.testing.assert_array_equal(copy[0].points, source[0].points)
