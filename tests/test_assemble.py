"""From clouds to ranked assemblies in the user's units, and from files to a folder of results."""

import json
import math
import os

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from typer.testing import CliRunner

from eda import Eda, InputError, assemble
from eda.assembly import AssembleConfig, Evidence, Fragment, judge, refine
from eda.assembly.assemble import Thinned
from eda.cli import app
from eda.data import Example, FractureConfig, FractureSource
from eda.lie import SE3
from eda.view.deliver import Given, deliver

QUICK = AssembleConfig(samples=8, steps=10)


@pytest.fixture(scope="module")
def model() -> Eda:
    return Eda.load("fracture-small")


@pytest.fixture(scope="module")
def example() -> Example:
    """A solid stone in two pieces."""
    config = FractureConfig(min_pieces=2, max_pieces=2, num_points=4000, kinds=("rough",))
    return FractureSource(config, seed=3, shapes=("stone",))(0)[0]


def scattered(example: Example, scale: float = 1.0, seed: int = 0) -> tuple[list, list, np.ndarray]:
    """Clouds and normals turned and moved at random, and the motions that put them back."""
    rotations = Rotation.random(example.num_pieces, random_state=seed).as_matrix()
    places = np.random.default_rng(seed).normal(size=(example.num_pieces, 3)) * 5 * scale
    back = np.tile(np.eye(4), (example.num_pieces, 1, 1))
    back[:, :3, :3] = rotations.transpose(0, 2, 1)
    back[:, :3, 3] = -np.einsum("nji,nj->ni", rotations, places)
    clouds = [scale * c.astype(float) @ r.T + p for c, r, p in zip(example.clouds(), rotations, places, strict=True)]
    return clouds, [n @ r.T for n, r in zip(example.clouds(example.normals), rotations, strict=True)], back


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
    assert judge(evidence, true).score[0] > 0.3
    assert judge(evidence, wrong).score.max() < 0.5 * judge(evidence, true).score[0]


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
    np.testing.assert_allclose(judge(evidence, moved @ poses).score, judge(evidence, poses).score, atol=1e-6)


# -- the whole of it ---------------------------------------------------------------------------------------------------


def test_motions_of_thinned_pieces_are_motions_of_the_users_clouds(example):
    clouds, normals, back = scattered(example, scale=250.0)
    thinned = Thinned.of(clouds, normals, 300)
    poses = thinned.pieces.from_user(SE3.from_matrix(torch.from_numpy(back))).matrix().numpy()
    # What `from_user` took for the user's frame has its origins elsewhere: undone, the motions must come back.
    motions = thinned.to_user(poses)
    motions[:, :3, 3] += np.einsum("nij,nj->ni", motions[:, :3, :3], thinned.origins)
    np.testing.assert_allclose(motions, back, atol=1e-6 * 250)


def test_the_judge_sees_the_frames_of_the_network(example):
    clouds, normals, _ = scattered(example, scale=40.0)
    thinned = Thinned.of(clouds, normals, 300)
    few, many = (torch.split(p.points, p.sizes.tolist()) for p in (thinned.pieces, thinned.dense))
    for a, b in zip(few, many, strict=True):
        assert torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").min(dim=1).values.max() < 1e-5, (
            "every thinned point is one of the dense ones"
        )


def test_two_pieces_are_put_together(example, model):
    clouds, normals, truth = scattered(example, scale=80.0)
    assembly = assemble(clouds, normals, model=model, config=QUICK)
    assert assembly.best.placed.all()
    assert degrees_between(assembly.best.poses, truth) < 5
    meeting = (np.linalg.inv(truth[0]) @ truth[1])[:3, 3] - (
        np.linalg.inv(assembly.best.poses[0]) @ assembly.best.poses[1]
    )[:3, 3]
    assert np.linalg.norm(meeting) < 0.05 * 80
    assert 0.3 < assembly.best.probability <= 1
    scores = [alternative.score for alternative in assembly.alternatives]
    assert scores[0] == max(scores)


def test_the_same_seed_gives_the_same_assembly(example, model):
    clouds, normals, _ = scattered(example)
    first, second = (assemble(clouds, normals, model=model, config=QUICK) for _ in range(2))
    np.testing.assert_array_equal(first.best.poses, second.best.poses)


def test_what_cannot_be_assembled_is_an_input_error(example, model):
    clouds, normals, _ = scattered(example)
    with pytest.raises(InputError, match="at least 2 pieces"):
        assemble(clouds[:1], normals[:1], model=model)
    with pytest.raises(InputError, match="2 pieces but 1 names"):
        assemble(clouds, normals, names=["alone"], model=model)
    with pytest.raises(InputError, match="neither a model file nor the name"):
        assemble(clouds, normals, model="fracture-huge")


# -- the folder --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def delivered(tmp_path_factory, example, model):
    clouds, normals, _ = scattered(example, scale=80.0)
    given = [Given(f"sherd ä {i}", c, n) for i, (c, n) in enumerate(zip(clouds, normals, strict=True))]
    assembly = assemble(clouds, normals, names=[g.name for g in given], model=model, config=QUICK)
    folder = tmp_path_factory.mktemp("delivered") / "out"
    deliver(assembly, given, folder, command="eda assemble <sherds>")
    return assembly, given, folder


def test_everything_is_delivered(delivered):
    import trimesh
    from PIL import Image

    assembly, given, folder = delivered
    assert sorted(p.name for p in folder.iterdir()) == [
        "assembled.glb", "assembled.ply", "assembly.gif", "assembly.json", "pieces", "preview.png", "report.html",
    ]  # fmt: skip
    record = json.loads((folder / "assembly.json").read_text())
    assert record["schema"] == 1
    assert record["pieces"] == [g.name for g in given]
    np.testing.assert_allclose(record["alternatives"][0]["pieces"][1]["pose"], assembly.best.poses[1])
    moved = trimesh.load(folder / "pieces" / f"{given[1].name}.ply").vertices
    pose = assembly.best.poses[1]
    np.testing.assert_allclose(moved, given[1].points[: len(moved)] @ pose[:3, :3].T + pose[:3, 3], atol=1e-3)
    with Image.open(folder / "preview.png") as picture, Image.open(folder / "assembly.gif") as animation:
        assert picture.size == (900, 900)
        assert animation.n_frames > 5
    assert json.dumps("sherd ä 0") in (folder / "report.html").read_text(encoding="utf-8")


def test_a_folder_that_is_not_empty_is_not_touched(delivered, tmp_path):
    assembly, given, _ = delivered
    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(InputError, match="not empty"):
        deliver(assembly, given, tmp_path, command="")
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_made_is_an_input_error(delivered, tmp_path):
    assembly, given, _ = delivered
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be written"):
        deliver(assembly, given, tmp_path / "out", command="")


# -- the command -------------------------------------------------------------------------------------------------------


def run(*words: str):
    return CliRunner().invoke(app, ["assemble", *words])


@pytest.fixture
def files(tmp_path):
    """The pieces of a broken box as meshes, as `eda fracture` writes them."""
    folder = tmp_path / "broken"
    words = ["fracture", str(folder), "--puzzles", "1", "--shapes", "stone", "--pieces", "2-2", "--as", "meshes"]
    assert CliRunner().invoke(app, [*words, "--seed", "3", "--workers", "1", "--quiet"]).exit_code == 0
    return next(p for p in folder.iterdir() if p.is_dir())


def test_the_command_puts_files_together(files, tmp_path):
    done = run(str(files), "-o", str(tmp_path / "out"), "--samples", "8", "--steps", "10", "--in-place")
    assert done.exit_code == 0, done.output
    assert "2 of 2 pieces placed" in done.output
    assert "against the truth" in done.output
    assert (tmp_path / "out" / "report.html").is_file()


def test_bad_input_writes_nothing(files, tmp_path):
    out = tmp_path / "out"
    for words in ([str(files / "piece_000.ply")], [str(tmp_path / "nowhere")], [str(files), "--model", "no such"]):
        assert isinstance(run(*words, "-o", str(out)).exception, InputError), words
        assert not out.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["broken"], "not even a hidden folder is left"


def test_models_are_listed():
    listed = CliRunner().invoke(app, ["models"])
    assert listed.exit_code == 0
    assert "fracture-small" in listed.output
