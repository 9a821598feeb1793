"""What the assembler shows a model: more points near breaks if it asks for them, in the frames of the even choice."""

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree
from support.broken_stone import scattered, stone
from support.focused_models import focused_model
from support.rigid_motions import random_motions, random_se3, transform_points
from support.tiny_models import model_of

from eda import Eda, prepare
from eda.assembly import AssembleConfig, Clouds, ModelInput, PreparedPieces
from eda.focus import thin

BUDGET = 150
QUICK = AssembleConfig(samples=2, steps=2, solver="rk1")


@pytest.fixture(scope="module")
def clouds() -> list[np.ndarray]:
    """Three pieces of a stone, far apart, in millimetres, say."""
    return scattered(stone(3, 1500), scale=80.0)[0]


@pytest.fixture(scope="module")
def model(clouds) -> Eda:
    given = Clouds.of(clouds)
    return focused_model(ModelInput.of(given, BUDGET).all_points(given), BUDGET)


@pytest.fixture(scope="module")
def prepared(clouds, model) -> PreparedPieces:
    return prepare(clouds, model=model)


def test_all_points_are_in_the_frames_of_the_few(clouds):
    """A pose takes both to the same place in the user's frame."""
    given = Clouds.of(clouds)
    few = ModelInput.of(given, BUDGET)
    dense, poses = few.all_points(given), random_se3(3)
    assert dense.sizes.tolist() == [len(cloud) for cloud in clouds]
    assert dense.points.dtype == few.pieces.points.dtype
    motions = few.to_user(poses.matrix().numpy())
    moved = dense.move(poses.to(torch.float32)).points.double().split(dense.sizes.tolist())
    for motion, cloud, there in zip(motions, clouds, moved, strict=True):
        np.testing.assert_allclose(there.numpy() * float(dense.scales), transform_points(motion, cloud), atol=1e-3)
    np.testing.assert_allclose(np.concatenate(few.detail(given).points), dense.points.numpy(), atol=1e-6)
    np.testing.assert_array_equal(dense.normals.numpy(), np.concatenate(given.normals).astype(np.float32))


def test_a_model_without_a_focus_is_shown_the_even_choice(clouds):
    prepared = prepare(clouds, model=model_of(torch.float32, break_head=True))
    assert prepared.shown is prepared.model_input.pieces
    assert prepared.encoding is prepared.even_encoding
    assert prepared.shown.focus is None


def test_what_is_shown_is_the_focus_of_the_model_on_all_points(prepared, model):
    dense = prepared.model_input.all_points(prepared.clouds)
    shown = prepared.shown
    expected = model.focus(dense, BUDGET, even=model.encode(prepared.model_input.pieces))
    assert torch.equal(shown.points, expected.points)
    assert torch.equal(shown.focus, expected.focus)
    assert 0.4 < shown.focus.double().mean() < 0.6
    assert BUDGET <= len(shown.points) <= BUDGET + 3 * 4
    assert not torch.equal(shown.points, thin(dense, BUDGET).points)


def test_a_pose_means_the_same_for_shown_and_for_even_pieces(prepared):
    shown, even, poses = prepared.shown, prepared.model_input.pieces, random_se3(3)
    assert torch.equal(shown.to_user(poses).matrix(), even.to_user(poses).matrix())
    assert torch.equal(shown.counts, even.counts)
    assert (shown.centroids() - even.centroids()).norm(dim=1).max() > 0.01, "although their middles differ"


def test_every_point_that_is_shown_is_one_of_the_users(prepared, clouds):
    shown = prepared.shown
    users = shown.points.double() * shown.scales + shown.centers[shown.piece_of_point]
    for cloud, points in zip(clouds, users.split(shown.sizes.tolist()), strict=True):
        assert cKDTree(cloud).query(points.numpy())[0].max() < 1e-3


def test_samples_are_drawn_of_what_is_shown(prepared):
    """And breaks are judged from the even choice, which is looked at anyway."""
    assert torch.equal(prepared.encoding.pieces.points, prepared.shown.points)
    assert torch.equal(prepared.even_encoding.pieces.points, prepared.model_input.pieces.points)
    drawn = prepared.model.sample(prepared.shown, 2, steps=2, solver="rk1", generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(prepared.sample(QUICK).final.matrix(), drawn.matrix(), rtol=0, atol=1e-5)


def test_pinned_pieces_stay_where_they_are_in_the_users_frame(clouds, model):
    """Their points are those that are shown, and their pins are motions of the user's clouds."""
    pins = {i: motion for i, motion in enumerate(random_motions(2, seed=1, spread=100.0).numpy())}
    prepared = prepare(clouds, model=model, pins=pins)
    sampled = prepared.model_input.to_user(prepared.sample(QUICK).final.matrix().double().numpy())
    for poses in sampled:
        found, wanted = (np.linalg.inv(g[0]) @ g[1] for g in (poses, pins))
        np.testing.assert_allclose(found[:3, :3], wanted[:3, :3], atol=1e-5)
        np.testing.assert_allclose(found[:3, 3], wanted[:3, 3], atol=1e-2)
