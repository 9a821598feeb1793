"""Every reader of scans gives the normals that a model asks for, from files in the published layout."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.dataset_files import write_fragment, write_fragment_pack, write_info, write_pickle, write_sequence
from support.rigid_motions import random_motion_in_box, transform_points
from typer.testing import CliRunner

import eda.cli
from eda.data import open_examples


def corner_of_a_room(seed: int, size: float) -> np.ndarray:
    """(n, 3) points of a floor and two walls."""
    flat = np.random.default_rng(seed).uniform(0, size, (3, 900, 2))
    return np.concatenate([np.insert(plane, axis, 0.0, axis=1) for axis, plane in enumerate(flat)])


def two_views(size: float, apart: float = 0.0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Two clouds, each in a frame of its own, and the motions (4, 4) that bring them into one."""
    rng = np.random.default_rng(0)
    poses = [random_motion_in_box(rng) for _ in range(2)]
    scene = [corner_of_a_room(seed, size) + np.array([apart * seed, 0, 0]) for seed in range(2)]
    return [transform_points(np.linalg.inv(pose), cloud) for pose, cloud in zip(poses, scene, strict=True)], poses


def threedmatch(root: Path) -> str:
    clouds, poses = two_views(2.0)
    for number, cloud in enumerate(clouds):
        write_fragment(root / f"test/kitchen/cloud_bin_{number}.pth", cloud)
    motion = np.linalg.inv(poses[0]) @ poses[1]
    row = {"src": ["test/kitchen/cloud_bin_1.pth"], "tgt": ["test/kitchen/cloud_bin_0.pth"], "overlap": [1.0]}
    write_pickle(root / "3DMatch.pkl", {**row, "rot": [motion[:3, :3]], "trans": [motion[:3, 3:]]})
    return f"3dmatch:{root}"


def threedzeromatch(root: Path) -> str:
    clouds, poses = two_views(2.0, apart=5.0)
    for number, (cloud, pose) in enumerate(zip(clouds, poses, strict=True)):
        write_fragment(root / f"test/kitchen/cloud_bin_{number}.pth", cloud)
        write_info(root / f"test/kitchen/cloud_bin_{number}.info.txt", pose)
    return f"3dzeromatch:{root}"


def kitti(root: Path) -> str:
    clouds, _ = two_views(40.0)
    poses = [np.eye(4), np.eye(4)]
    poses[1][0, 3] = 120.0
    write_sequence(root, "09", poses, clouds, np.eye(4))
    return f"kitti:{root},split=test"


def threedmatch_pack(root: Path) -> str:
    clouds, poses = two_views(2.0)
    motion = (np.linalg.inv(poses[0]) @ poses[1])[:3].ravel().tolist()
    pairs = {"3DMatch": [{"src": 1, "tgt": 0, "T": motion, "overlap": 1.0}]}
    write_fragment_pack(root, ["kitchen/cloud_bin_0", "kitchen/cloud_bin_1"], clouds, poses, pairs)
    return f"3dmatch-pack:{root}"


def kitti_pack(root: Path) -> str:
    clouds, poses = two_views(40.0)
    root.mkdir()
    for number, cloud in enumerate(clouds):
        np.save(root / f"{number}.npy", cloud)
    (root / "poses.json").write_text(json.dumps({"poses": {f"{i}.npy": pose.tolist() for i, pose in enumerate(poses)}}))
    return f"kitti-pack:{root}"


def clouds_in_a_folder(root: Path) -> str:
    root.mkdir()
    for number in range(2):
        np.save(root / f"{number}.npy", corner_of_a_room(number, 2.0))
    return str(root)


LAYOUTS: list[Callable[[Path], str]] = [
    threedmatch, threedzeromatch, kitti, threedmatch_pack, kitti_pack, clouds_in_a_folder,
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS[:-1])
def test_normals_stand_on_the_surface(layout, tmp_path):
    """Of a floor and two walls of one size: three directions at right angles, each of a third of the points."""
    example = open_examples(layout(tmp_path / "raw"))[0]
    np.testing.assert_allclose(np.linalg.norm(example.normals, axis=1), 1, atol=1e-5)
    for normals in example.clouds(example.normals):
        axes = np.linalg.svd(normals, full_matrices=False)[1] ** 2 / len(normals)
        assert axes == pytest.approx([1 / 3] * 3, abs=0.08)
        others = np.abs(normals @ normals.T)
        assert (np.minimum(others, np.abs(1 - others)) < 0.05).mean() > 0.8


@pytest.mark.parametrize("layout", LAYOUTS[:-1])
def test_normals_can_be_left_out(layout, tmp_path):
    assert open_examples(f"{layout(tmp_path / 'raw')},neighbors=0")[0].normals is None


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_model_that_wants_normals_is_evaluated_on_it(layout, tmp_path):
    words = ["--model", "scan-small", "--repeats", "1", "--solver", "rk1", "--steps", "1", "--device", "cpu"]
    report = tmp_path / "report.json"
    result = CliRunner().invoke(
        eda.cli.app, ["evaluate", *words, "--json", str(report), "--data", layout(tmp_path / "raw")]
    )
    assert result.exit_code == 0, result.exception
    assert json.loads(report.read_text())["data"].endswith("raw,split=test" if layout is kitti else "raw")
