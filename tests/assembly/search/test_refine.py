"""Refinement: it finds the fit nearby, its equations are those of its residuals, and it knows no axes or order."""

import numpy as np
import pytest
from support.rigid_motions import random_motion_of_size
from support.sliced_block import disturbed, errors, slices, taken_apart

from eda import InputError
from eda.assembly import Evidence, Fragment, RefineConfig, ScanContact, refine, score_assemblies

DENSITY = 130.0


@pytest.mark.parametrize("seed", range(4))
def test_a_cut_block_goes_back_together(seed):
    evidence, true = taken_apart(slices(2, DENSITY), seed)
    start = disturbed(true, 12, 0.08, seed)
    assert errors(start, true)[0] > 8
    degrees, distance = errors(refine(evidence, start[None])[0], true)
    assert degrees < 1
    assert distance < 0.03


def test_the_solution_stays_where_it_is():
    evidence, true = taken_apart(slices(3, DENSITY))
    config = RefineConfig(first_radius=0.15, steps=6)
    degrees, distance = errors(refine(evidence, true[None], config=config)[0], true)
    assert degrees < 1.5
    assert distance < 0.03


def test_a_piece_that_is_not_placed_neither_moves_nor_pulls():
    evidence, true = taken_apart(slices(3, DENSITY))
    start = disturbed(true, 6, 0.03)[None]
    config = RefineConfig(first_radius=0.15, steps=6)
    placed = np.array([[True, True, False]])
    alone = refine(evidence.of_pair(0, 1), start[:, :2], config=config)
    together = refine(evidence, start, placed, config)
    np.testing.assert_array_equal(together[:, 2], start[:, 2])
    # the damping is relative to all pieces, so the paths differ a little on the way to the same place
    assert errors(together[0, :2], alone[0])[1] < 0.02


def test_samples_do_not_see_each_other():
    evidence, true = taken_apart(slices(2, DENSITY))
    start = np.stack([disturbed(true, 10, 0.05, seed) for seed in range(3)])
    each = np.concatenate([refine(evidence, one[None]) for one in start])
    np.testing.assert_allclose(refine(evidence, start), each, atol=1e-9)


def test_a_motion_of_the_whole_moves_the_result_with_it():
    evidence, true = taken_apart(slices(2, DENSITY))
    start = disturbed(true, 10, 0.05)[None]
    whole = random_motion_of_size(np.random.default_rng(5), 77, 2.0)
    np.testing.assert_allclose(refine(evidence, whole @ start), whole @ refine(evidence, start), atol=1e-6)


def test_the_order_of_the_pieces_does_not_matter():
    fragments = slices(2, DENSITY)
    start = disturbed(np.tile(np.eye(4), (2, 1, 1)), 10, 0.05)[None]
    forth = refine(Evidence.of(fragments), start)
    back = refine(Evidence.of(fragments[::-1]), start[:, ::-1])
    np.testing.assert_allclose(back[:, ::-1], forth, atol=1e-6)


def test_overlapping_scans_come_to_lie_on_each_other():
    """Two views of one hilly ground that share half of it."""
    rng = np.random.default_rng(0)

    def view(low: float, high: float) -> Fragment:
        x, y = rng.uniform([low, 0], [high, 1.5], size=(700, 2)).T
        z, (dx, dy) = 0.2 * np.sin(3 * x + y) + 0.1 * np.cos(5 * y), (0.6 * np.cos(3 * x + y), 0)
        dy = 0.2 * np.cos(3 * x + y) - 0.5 * np.sin(5 * y)
        normals = np.stack([-dx, -dy, np.ones_like(x)], axis=1)
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        return Fragment(np.stack([x, y, z], axis=1), normals, np.zeros(700))

    evidence = Evidence.of([view(0, 1.6), view(0.8, 2.4)], ScanContact())
    true = np.tile(np.eye(4), (2, 1, 1))
    start = disturbed(true, 5, 0.05)
    config = RefineConfig(first_radius=0.3)
    refined = refine(evidence, start[None], config=config)
    assert errors(start, true)[0] > 4
    assert errors(refined[0], true)[0] < 1
    scores = score_assemblies(evidence, np.stack([true, start, refined[0]])).score
    assert scores[1] < 0.7 * scores[0]
    assert scores[2] > 0.9 * scores[0]


def test_the_sign_of_the_normals_of_a_scan_does_not_matter():
    """Half of the normals turned around: the same motions, and the same score."""
    fragments, rng = slices(2, DENSITY), np.random.default_rng(0)
    true = np.tile(np.eye(4), (2, 1, 1))
    start = disturbed(true, 5, 0.03)[None]
    turned = [
        Fragment(f.points, f.normals * rng.choice([-1, 1], size=(len(f.points), 1)), f.break_probability)
        for f in fragments
    ]
    here, there = (Evidence.of(some, ScanContact()) for some in (fragments, turned))
    np.testing.assert_allclose(refine(there, start), refine(here, start), atol=1e-9)
    np.testing.assert_allclose(score_assemblies(there, start).score, score_assemblies(here, start).score)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"points": np.full((5, 3), np.nan)}, "points"),
        ({"normals": np.zeros((4, 3))}, "normals"),
        ({"break_probability": np.full(5, 1.5)}, "break_probability"),
        ({"points": np.zeros((1, 3)), "normals": np.zeros((1, 3)), "break_probability": np.zeros(1)}, "at least 2"),
    ],
)
def test_what_cannot_be_a_fragment_is_refused(changed, what):
    usual = {"points": np.eye(5)[:, :3], "normals": np.eye(5)[:, :3], "break_probability": np.zeros(5)}
    with pytest.raises(InputError, match=what):
        Fragment(**{**usual, **changed})


def test_one_piece_is_no_assembly():
    with pytest.raises(InputError, match="at least 2"):
        Evidence.of(slices(2, DENSITY)[:1])
