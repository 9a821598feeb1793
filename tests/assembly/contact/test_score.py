"""Judging: the solution beats what merely touches, and every count is what a plain test of geometry says it is."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.rigid_motions import random_motion_of_size
from support.sliced_block import SIZE, slices, taken_apart

from eda.assembly import Evidence, Fragment, score_assemblies
from eda.assembly.contact.fragment import USUAL_SHARE

DENSITY = 130.0


def shifted(*by: float) -> np.ndarray:
    g = np.eye(4)
    g[:3, 3] = by
    return g


def turned(axis: str, degrees: float) -> np.ndarray:
    """About the middle of the block."""
    g, middle = np.eye(4), SIZE / 2
    g[:3, :3] = Rotation.from_euler(axis, degrees, degrees=True).as_matrix()
    g[:3, 3] = middle - g[:3, :3] @ middle
    return g


WRONG = {
    "far apart": shifted(1.0, 0, 0),
    "end against end": turned("z", 180) @ shifted(-SIZE[0], 0, 0),
    "the right breaks, upside down": turned("x", 180),
    "side by side": shifted(-SIZE[0] / 2, SIZE[1], 0),
    "slid along the cut": shifted(0, 0.2, 0),
    "a gap between": shifted(0.1, 0, 0),
    "pushed in": shifted(-0.1, 0, 0),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_the_solution_beats(wrong):
    evidence = Evidence.of(slices(2, DENSITY))
    true = np.tile(np.eye(4), (2, 1, 1))
    other = np.stack([np.eye(4), wrong])
    scores = score_assemblies(evidence, np.stack([true, other])).score
    assert scores[0] > 0.6
    assert scores[1] < scores[0] / 3


def test_surfaces_that_go_on_without_a_contact_gain_nothing():
    """Two flat tiles side by side, level with each other, whose rims have no points: all seam and no contact."""
    rng = np.random.default_rng(0)
    tile = np.concatenate([rng.random((400, 2)), np.zeros((400, 1))], axis=1)
    up = np.tile([0.0, 0.0, 1.0], (400, 1))
    beside = np.eye(4)
    beside[0, 3] = 1.0
    scores = score_assemblies(Evidence.of([Fragment(tile, up, np.zeros(400))] * 2), np.stack([np.eye(4), beside])[None])
    assert scores.seam.sum() > 3
    assert scores.good.sum() == 0
    assert scores.score[0] <= 0


def test_a_piece_without_a_break_is_not_held_by_a_few_contacts():
    fragments = slices(2, DENSITY)
    smooth = Fragment(fragments[1].points, fragments[1].normals, np.zeros(len(fragments[1].points)))
    evidence = Evidence.of([fragments[0], smooth])
    assert evidence.masses[1] >= len(evidence.fragments[1].points) / 50


def test_a_weak_detector_of_breaks_still_tells_the_solution():
    """Probabilities that never exceed a half, as of a network that is seldom sure."""
    rng = np.random.default_rng(0)
    fragments = [
        Fragment(f.points, f.normals, np.where(f.break_probability, 0.35, 0.05) * rng.uniform(0.7, 1.3, len(f.points)))
        for f in slices(2, DENSITY)
    ]
    poses = np.stack([np.stack([np.eye(4), other]) for other in (np.eye(4), *WRONG.values())])
    scores = score_assemblies(Evidence.of(fragments), poses).score
    assert scores[0] > 2 * max(scores[1:].max(), 0.1)


def test_evidence_for_a_break_is_the_logarithm_of_odds():
    fragment = Fragment(np.eye(3), np.eye(3), np.array([USUAL_SHARE, 1.0, 0.0]))
    np.testing.assert_allclose(fragment.break_evidence, [0, 1, -1], atol=1e-12)


def box(low: np.ndarray, high: np.ndarray, step: float) -> Fragment:
    """Points on a grid on the faces of a box, each half a step from the next face."""
    axes = [np.arange(a + step / 2, b, step) for a, b in zip(low, high, strict=True)]
    points, normals = [], []
    for axis in range(3):
        grid = np.stack(np.meshgrid(*[axes[k] for k in range(3) if k != axis], indexing="ij"), axis=-1).reshape(-1, 2)
        for side, place in ((-1, low[axis]), (1, high[axis])):
            points.append(np.insert(grid, axis, place, axis=1))
            normals.append(np.tile(side * np.eye(3)[axis], (len(grid), 1)))
    points, normals = np.concatenate(points), np.concatenate(normals)
    return Fragment(points, normals, np.zeros(len(points)))


@pytest.mark.parametrize("offset", [(0.5, 0.23, 0.31), (0.27, 0.4, 0.65), (2.0, 0, 0)])
def test_points_inside_another_piece_are_counted(offset):
    """By comparing coordinates: all that lie a spacing deep are counted, and none that lies outside."""
    step, side = 0.08, np.ones(3)
    first, second = box(np.zeros(3), side, step), box(np.zeros(3), side, step)
    found = score_assemblies(Evidence.of([first, second]), np.stack([np.eye(4), shifted(*offset)])[None]).inside[0]
    for count, points in ((found[1, 0], second.points + offset), (found[0, 1], first.points - offset)):
        depth = np.minimum(points, 1 - points).min(axis=1)
        assert (depth > step).sum() <= count <= (depth > 0).sum()


def shell(low: float, high: float, thickness: float, count: int, seed: int) -> Fragment:
    """A strip of a thin plate between two x, in assembled position: points of its two sides, drawn by chance."""
    rng = np.random.default_rng(seed)
    points = rng.uniform([low, 0, 0], [high, 1, 0], size=(count, 3))
    normals = np.tile([0.0, 0.0, -1.0], (count, 1))
    points[::2, 2], normals[::2, 2] = thickness, 1.0
    return Fragment(points, normals, np.zeros(count))


@pytest.mark.parametrize("seed", range(3))
def test_beside_a_thin_wall_is_not_inside_it(seed):
    """Points are further apart than the wall is thick: the few nearest of a neighbour may all lie on its other side."""
    thickness = 0.006
    first, second = shell(0, 0.5, thickness, 1500, seed), shell(0.5, 1, thickness, 1500, seed + 10)
    assert first.spacing > thickness
    poses = np.tile(np.eye(4), (2, 2, 1, 1))
    poses[1, 1] = shifted(-0.2, 0, thickness / 2)  # two fifths of each strip are half in the other's wall
    beside, into = score_assemblies(Evidence.of([first, second]), poses).inside.sum(axis=(1, 2))
    assert beside == 0
    assert into > 500


def test_scores_add_up_over_joints():
    evidence, true = taken_apart(slices(4, DENSITY))
    scores = score_assemblies(evidence, true[None])
    assert scores.score[0] == pytest.approx(scores.joints[0].sum() / 2)
    assert scores.pieces[0] @ evidence.masses == pytest.approx(scores.score[0] * evidence.masses.sum())
    np.testing.assert_allclose(scores.joints, scores.joints.swapaxes(1, 2), atol=1e-12)
    neighbours = np.abs(np.subtract.outer(range(4), range(4))) == 1
    assert (scores.good[0][neighbours] > 30).all()
    assert scores.good[0][~neighbours].max() == 0


def test_joints_judged_alone_add_up_to_the_whole():
    evidence, true = taken_apart(slices(3, DENSITY))
    last = np.zeros((1, 3, 3), dtype=bool)
    last[:, 2] = last[:, :, 2] = True
    before, added = (
        score_assemblies(evidence, true[None], np.array([[True, True, False]])),
        score_assemblies(evidence, true[None], joints=last),
    )
    whole = score_assemblies(evidence, true[None])
    np.testing.assert_allclose(before.score + added.score, whole.score)
    np.testing.assert_allclose(before.pieces + added.pieces, whole.pieces)


def test_pieces_that_are_not_placed_do_not_count():
    evidence, true = taken_apart(slices(3, DENSITY))
    placed = np.array([[True, True, False]])
    scores = score_assemblies(evidence, true[None], placed)
    whole = score_assemblies(evidence, true[None])
    np.testing.assert_array_equal(scores.good[0, :2, :2], whole.good[0, :2, :2])
    assert scores.good[0, 2].sum() == scores.good[0, :, 2].sum() == 0


def test_a_motion_of_the_whole_changes_nothing():
    evidence, true = taken_apart(slices(3, DENSITY))
    moved = random_motion_of_size(np.random.default_rng(3), 100, 5.0) @ true
    scores = score_assemblies(evidence, np.stack([true, moved])).score
    assert scores[0] == pytest.approx(scores[1], abs=0.02)  # points at a threshold may fall on either side
