"""KITTI on a road of landmarks, seen by a lidar that is mounted askew."""

import pickle

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.dataset_files import write_sequence
from support.rigid_motions import random_motion_in_box, transform_points

from eda.data.readers.kitti import Kitti, read_frames
from eda.errors import InputError

NUM_FRAMES = 21
STEP = 30.0  # metres from frame to frame: of frames 0, 4, 8, ... each is 120 m from the one before


def road(rng: np.random.Generator) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Poses of the camera along a gentle curve, landmarks around every one of them, lidar -> camera."""
    turns = np.arange(NUM_FRAMES) * 0.02
    poses = [np.eye(4) for _ in turns]
    for number, (pose, turn) in enumerate(zip(poses, turns, strict=True)):
        pose[:3, :3] = Rotation.from_euler("y", turn).as_matrix()
        pose[:3, 3] = [number * number * 0.05, 0, STEP * number]
    # Half a metre apart at least, so that the grid keeps every one.
    cells = np.stack(np.meshgrid(*[np.arange(0, 12, 3.0)] * 3), axis=-1).reshape(-1, 3)
    landmarks = [cells + pose[:3, 3] + rng.uniform(0, 1, (len(cells), 3)) for pose in poses]
    return poses, landmarks, random_motion_in_box(rng)


@pytest.fixture
def world():
    return road(np.random.default_rng(1))


@pytest.fixture
def root(tmp_path, world):
    poses, landmarks, tr = world
    scans = [transform_points(np.linalg.inv(pose @ tr), seen) for pose, seen in zip(poses, landmarks, strict=True)]
    write_sequence(tmp_path, "00", poses, scans, tr)
    write_sequence(tmp_path, "09", poses[:6], scans[:6], tr)
    return tmp_path


def test_scans_come_together_in_the_world(root, world):
    example = Kitti(root, max_pieces=2)[0]
    assert example.name == "00/000000-000004"
    expected = np.concatenate([world[1][0], world[1][4]])
    np.testing.assert_allclose(example.points, expected - expected.mean(axis=0), atol=1e-3)
    assert example.normals is not None


def test_runs_of_consecutive_kept_frames(root):
    source = Kitti(root, max_pieces=3)
    # Kept: 0, 4, 8, 12, 16, 20.
    assert [run.name for run in source.items] == [
        "00/000000-000004", "00/000004-000008", "00/000008-000012", "00/000012-000016", "00/000016-000020",
        "00/000000-000004-000008", "00/000004-000008-000012", "00/000008-000012-000016", "00/000012-000016-000020",
    ]  # fmt: skip
    assert source[5].num_pieces == 3
    assert len(Kitti(root, min_pieces=4, max_pieces=4)) == 3
    assert source.num_missing == 8


def test_kept_frames_are_far_enough_apart(root):
    for distance in (40.0, 100.0, 200.0):
        frames = [run.frames for run in Kitti(root, distance=distance, max_pieces=2).items]
        gaps = [np.linalg.norm(a.pose[:3, 3] - b.pose[:3, 3]) for a, b in frames]
        assert min(gaps) >= distance
        assert max(gaps) < distance + 2 * STEP


def test_splits_are_by_sequence(root):
    assert {run.name[:2] for run in Kitti(root, split="test").items} == {"09"}
    assert {run.name[:2] for run in Kitti(root, split="train").items} == {"00"}


def test_a_coarser_grid_keeps_fewer_points(root):
    fine, coarse = Kitti(root)[0], Kitti(root, grid=6.0)[0]
    assert fine.sizes.tolist() == [64, 64]
    assert (coarse.sizes <= 27).all()


def test_the_lidar_is_not_the_camera(root, world):
    poses, _, tr = world
    frame = read_frames(root, "00")[3]
    np.testing.assert_allclose(frame.pose, poses[3] @ tr, atol=1e-8)


def test_a_reader_can_be_sent_to_another_process(root):
    source = Kitti(root)
    _ = len(source)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(source))[1].points, source[1].points)


# -- bad files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("poses/00.txt", None),
        ("poses/00.txt", b"1 0 0 0 0 1 0 0 0 0 1\n"),
        ("poses/00.txt", b"9 0 0 0 0 1 0 0 0 0 1 0\n" * NUM_FRAMES),
        ("poses/00.txt", b"1 0 0 0 0 1 0 0 0 0 1 0\n"),
        ("sequences/00/calib.txt", None),
        ("sequences/00/calib.txt", b"P0: 1 0 0 0 0 1 0 0 0 0 1 0\n"),
        ("sequences/00/calib.txt", b"Tr: 1 0 0 0\n"),
    ],
)
def test_damaged_poses_and_calibration_are_named(root, file, content):
    (root / file).unlink()
    if content is not None:
        (root / file).write_bytes(content)
    with pytest.raises(InputError, match=file):
        len(Kitti(root))


@pytest.mark.parametrize("content", [b"", b"123", np.full(8, np.nan, "<f4").tobytes()])
def test_a_damaged_scan_is_named(root, content):
    (root / "sequences/00/velodyne/000004.bin").write_bytes(content)
    with pytest.raises(InputError, match=r"000004\.bin"):
        Kitti(root)[0]


def test_nothing_there(tmp_path):
    with pytest.raises(InputError, match=r"sequences/<SS>/velodyne.*0 of these"):
        len(Kitti(tmp_path))


@pytest.mark.parametrize("options", [{"split": "val"}, {"grid": 0.0}, {"min_pieces": 1}, {"max_pieces": 1}])
def test_options_that_make_no_sense(tmp_path, options):
    with pytest.raises(InputError):
        Kitti(tmp_path, **options)
