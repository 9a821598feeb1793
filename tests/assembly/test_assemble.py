"""From clouds to ranked assemblies in the user's units, and from files to a folder of results."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation
from support.broken_stone import scattered, stone
from support.rigid_motions import transform_points

from eda import Assembly, Eda, InputError, assemble, prepare, save_assembly, show_assembly
from eda.assembly import AssembleConfig, Clouds, Evidence, Fragment, ModelInput, refine, score_assemblies
from eda.data import Example
from eda.output.result_files import PictureSizes

QUICK = AssembleConfig(samples=8, steps=10, solver="rk1")


@pytest.fixture(scope="module")
def model() -> Eda:
    return Eda.load("fracture-small")


@pytest.fixture(scope="module")
def example() -> Example:
    return stone()


def degrees_between(poses: np.ndarray, truth: np.ndarray) -> float:
    """The angle between the two relative poses of piece 1 in the frame of piece 0."""
    found, wanted = (np.linalg.inv(p[0]) @ p[1] for p in (poses, truth))
    return math.degrees(Rotation.from_matrix(found[:3, :3] @ wanted[:3, :3].T).magnitude())


# -- the engine, with true labels --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evidence(example) -> Evidence:
    clouds = [c.astype(float) / 0.5 for c in example.clouds()]
    labels = [b.astype(float) for b in example.clouds(example.on_break)]
    normals = [n.astype(float) for n in example.clouds(example.normals)]
    return Evidence.of([Fragment(*parts) for parts in zip(clouds, normals, labels, strict=True)])


def test_the_truth_scores_above_anything_else(evidence):
    true = np.tile(np.eye(4), (1, 2, 1, 1))
    wrong = np.tile(np.eye(4), (20, 2, 1, 1))
    wrong[:, 1, :3, :3] = Rotation.random(20, random_state=0).as_matrix()
    assert score_assemblies(evidence, true).score[0] > 0.3
    assert score_assemblies(evidence, wrong).score.max() < 0.5 * score_assemblies(evidence, true).score[0]


def test_refinement_comes_back_from_ten_degrees(evidence):
    poses = np.tile(np.eye(4), (6, 2, 1, 1))
    axes = np.random.default_rng(1).normal(size=(6, 3))
    axes *= math.radians(10) / np.linalg.norm(axes, axis=1, keepdims=True)
    poses[:, 1, :3, :3] = Rotation.from_rotvec(axes).as_matrix()
    poses[:, 1, :3, 3] = 0.03
    after = [degrees_between(p, np.tile(np.eye(4), (2, 1, 1))) for p in refine(evidence, poses)]
    assert max(after) < 2


def test_a_motion_of_the_whole_changes_no_score(evidence):
    poses = np.tile(np.eye(4), (1, 2, 1, 1))
    moved = np.eye(4)
    moved[:3, :3] = Rotation.random(random_state=5).as_matrix()
    moved[:3, 3] = (1, -2, 3)
    np.testing.assert_allclose(
        score_assemblies(evidence, moved @ poses).score, score_assemblies(evidence, poses).score, atol=1e-6
    )


# -- the whole of it ---------------------------------------------------------------------------------------------------


def test_motions_of_downsampled_pieces_are_motions_of_the_users_clouds(example):
    clouds, normals, truth = scattered(example, scale=250.0)
    few = ModelInput.of(Clouds.of(clouds, normals), 300)
    rng = np.random.default_rng(0)
    poses = np.tile(np.eye(4), (2, 1, 1))
    poses[:, :3, :3] = Rotation.random(2, random_state=1).as_matrix()
    poses[:, :3, 3] = rng.normal(size=(2, 3))
    motions, sizes = few.to_user(poses), few.pieces.sizes.tolist()
    for cloud, pose, motion, own in zip(
        clouds, poses, motions, torch.split(few.pieces.points.double(), sizes), strict=True
    ):
        seen = 250 * 2 * np.abs(own.numpy()).max()  # no point of the piece is further from its middle than this
        there = transform_points(pose, own.numpy()) * float(few.pieces.scales)
        distance, _ = cKDTree(transform_points(motion, cloud)).query(there)
        assert distance.max() < 1e-5 * seen, "a point and the user's point that it is come to the same place"
    np.testing.assert_allclose(few.from_user(motions), poses, atol=1e-9)
    np.testing.assert_allclose(few.to_user(few.from_user(truth)), truth, atol=1e-9)


def test_the_judge_sees_the_frames_of_the_network(example):
    clouds, normals, _ = scattered(example, scale=40.0)
    few = ModelInput.of(Clouds.of(clouds, normals), 300)
    sparse, dense = (torch.split(p.points, p.sizes.tolist()) for p in (few.pieces, few.dense))
    for a, b in zip(sparse, dense, strict=True):
        assert torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").min(dim=1).values.max() < 1e-5, (
            "every point of the network is one of the dense ones"
        )


@pytest.fixture(scope="module")
def assembled(example, model) -> Assembly:
    """In millimetres, say, with names that no file system likes."""
    clouds, normals, _ = scattered(example, scale=80.0)
    return assemble(clouds, normals, names=["sherd ä 0", "sherd ä 1"], model=model, config=QUICK)


def test_two_pieces_are_put_together(example, assembled):
    _, _, truth = scattered(example, scale=80.0)
    assert assembled.best.placed.all()
    assert degrees_between(assembled.best.poses, truth) < 5
    meeting = (np.linalg.inv(truth[0]) @ truth[1])[:3, 3] - (
        np.linalg.inv(assembled.best.poses[0]) @ assembled.best.poses[1]
    )[:3, 3]
    assert np.linalg.norm(meeting) < 0.05 * 80
    assert 0.3 < assembled.best.probability <= 1
    scores = [alternative.score for alternative in assembled.alternatives]
    assert scores[0] == max(scores)


def test_the_same_seed_gives_the_same_assembly(example, model, assembled):
    clouds, normals, _ = scattered(example, scale=80.0)
    again = assemble(clouds, normals, model=model, config=QUICK)
    np.testing.assert_array_equal(again.best.poses, assembled.best.poses)


def test_what_cannot_be_assembled_is_an_input_error(example, model):
    clouds, normals, _ = scattered(example)
    with pytest.raises(InputError, match="at least 2 pieces"):
        assemble(clouds[:1], normals[:1], model=model)
    with pytest.raises(InputError, match="2 pieces but 1 names"):
        assemble(clouds, normals, names=["alone"], model=model)
    with pytest.raises(InputError, match="neither a model file nor the name"):
        assemble(clouds, normals, model="fracture-huge")


@pytest.mark.parametrize("name", ["../lid", "a/b", "/lid", "..", ".", "", "a\0b", 7, "x" * 300])
def test_names_that_cannot_be_files_are_refused(example, model, name):
    clouds, normals, _ = scattered(example)
    with pytest.raises(InputError, match=r"the name .* of a piece"):
        prepare(clouds, normals, names=["rim", name], model=model)


def test_names_that_pieces_share_are_refused(example, model):
    clouds, normals, _ = scattered(example)
    with pytest.raises(InputError, match=r"2 pieces have the name 'lid'"):
        prepare(clouds, normals, names=["lid", "lid"], model=model)
    assert prepare(clouds, normals, names=["a..b", "..."], model=model).names == ("a..b", "...")


# -- the folder --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def delivered(tmp_path_factory, assembled) -> Path:
    small = PictureSizes(preview=90, frame=60, frames=4, last_frames=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eda.output.result_files.PictureSizes", lambda: small)
        return save_assembly(assembled, tmp_path_factory.mktemp("delivered") / "out")


def test_everything_is_delivered(assembled, delivered):
    import trimesh
    from PIL import Image

    assert sorted(p.name for p in delivered.iterdir()) == [
        "alternatives", "assembled.glb", "assembled.ply", "assembly.gif", "assembly.json", "pieces", "preview.png",
        "report.html",
    ]  # fmt: skip
    record = json.loads((delivered / "assembly.json").read_text())
    assert record["schema"] == 1
    assert record["pieces"] == ["sherd ä 0", "sherd ä 1"]
    pose = assembled.best.poses[1]
    np.testing.assert_allclose(record["alternatives"][0]["pieces"][1]["pose"], pose)
    written = trimesh.load(delivered / "pieces" / "sherd ä 1.ply").vertices
    np.testing.assert_allclose(written, transform_points(pose, assembled.clouds.points[1])[: len(written)], atol=1e-3)
    with Image.open(delivered / "preview.png") as picture, Image.open(delivered / "assembly.gif") as animation:
        assert picture.size == (90, 90)
        assert animation.n_frames > 3
    assert json.dumps("sherd ä 0") in (delivered / "report.html").read_text(encoding="utf-8")


def test_a_folder_that_is_not_empty_is_not_touched(assembled, tmp_path):
    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(InputError, match="not empty"):
        save_assembly(assembled, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_made_is_an_input_error(assembled, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be written"):
        save_assembly(assembled, tmp_path / "out")


def test_the_report_is_shown_in_the_browser(assembled, delivered, monkeypatch):
    opened = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("eda.output.save.open_report", opened.append)
    monkeypatch.setattr("eda.output.save.save_assembly", lambda assembly, folder: delivered)
    assert show_assembly(assembled) == delivered
    assert opened == [delivered / "report.html"]
