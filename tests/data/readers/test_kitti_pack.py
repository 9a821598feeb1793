"""The KITTI pack: a tiny one of known content, and the real one against geometry."""

import itertools
import json

import numpy as np
import pytest
from support.dataset_files import real_data, share_near
from support.rigid_motions import random_motion_in_box, transform_points

from eda.data.readers.kitti_pack import KittiPack
from eda.errors import InputError


@pytest.fixture
def case(tmp_path):
    rng = np.random.default_rng(2)
    cells = np.stack(np.meshgrid(*[np.arange(0, 9, 3.0)] * 3), axis=-1).reshape(-1, 3)
    world = cells + rng.uniform(0, 1, cells.shape)
    poses = {f"{k:06d}.npy": random_motion_in_box(rng, 20) for k in range(3)}
    folder = tmp_path / "case_a"
    folder.mkdir()
    for name, pose in poses.items():
        np.save(folder / name, transform_points(np.linalg.inv(pose), world).astype(np.float32))
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
