"""Pieces merged to one fragment, with all their points and with few."""

import numpy as np
from scipy.spatial.distance import cdist
from support.quick_search import DENSITY
from support.rigid_motions import transform_points
from support.sliced_block import finely_taken_apart, slices

from eda.assembly import Evidence, Fragment
from eda.assembly.contact.detail import Detail
from eda.assembly.contact.fracture_contact import OPPOSED, REACH
from eda.assembly.search.merged_pieces import groups_of, merge_detail, merge_evidence, merge_fragments


def test_what_is_closed_is_no_longer_a_break():
    """Two of three slices together: closed is the cut between them, up to gaps in the random points, not the other."""
    fragments = slices(3, DENSITY)
    evidence = Evidence.of(fragments)
    whole = merge_fragments(evidence, np.tile(np.eye(4), (3, 1, 1)), np.array([True, True, False]))
    assert len(whole.points) == sum(len(f.points) for f in evidence.fragments[:2])
    still_open = whole.points[whole.break_probability > 0][:, 0]
    on_a_cut = sum(f.break_probability.sum() for f in fragments[:2]) / 3  # there are three sides of cuts in all
    assert (still_open < 0.9).sum() < 0.25 * 2 * on_a_cut
    assert (still_open > 0.9).sum() > 0.95 * on_a_cut


def closed_by_distances(evidence: Evidence, poses: np.ndarray, piece: int, others: list[int]) -> np.ndarray:
    """Which points of a piece have a point that faces them as the nearest one of another piece, and within reach."""
    fragments, closed = evidence.fragments, np.zeros(len(evidence.fragments[piece].points), dtype=bool)
    points, normals = (transform_points(poses[piece], fragments[piece].points), fragments[piece].normals)
    for other in others:
        apart = cdist(points, transform_points(poses[other], fragments[other].points))
        facing = normals @ poses[piece, :3, :3].T @ poses[other, :3, :3] @ fragments[other].normals.T
        nearest, rows = apart.argmin(axis=1), np.arange(len(points))
        closed |= (apart[rows, nearest] < REACH * evidence.spacing) & (facing[rows, nearest] < OPPOSED)
    return closed


def test_of_all_points_those_on_closed_breaks_go_and_all_others_stay():
    """Four slices, of which three are one group: by brute force, in the frame of the first piece of the group."""
    evidence, detail, true = finely_taken_apart(slices(4, 700.0), 400)
    merged = merge_detail(groups_of(true[None], [[2, 0, 1]]), evidence, detail)
    assert len(merged.points) == 2
    points, normals = [], []
    for piece in range(3):
        closed = closed_by_distances(evidence, true, piece, [other for other in range(3) if other != piece])
        assert 0.05 < closed.mean() < 0.8
        kept = ~closed[cdist(detail.points[piece], evidence.fragments[piece].points).argmin(axis=1)]
        g = np.linalg.inv(true[0]) @ true[piece]
        points.append(transform_points(g, detail.points[piece][kept]))
        normals.append(detail.normals[piece][kept] @ g[:3, :3].T)
    np.testing.assert_allclose(merged.points[0], np.concatenate(points), atol=1e-12)
    np.testing.assert_allclose(merged.normals[0], np.concatenate(normals), atol=1e-12)
    np.testing.assert_array_equal(merged.points[1], detail.points[3])
    np.testing.assert_array_equal(merged.normals[1], detail.normals[3])


def test_merged_evidence_and_merged_detail_share_their_frames():
    evidence, detail, true = finely_taken_apart(slices(3, 500.0), 300)
    groups = groups_of(true[None], [[1, 2]])
    few, many = merge_evidence(groups, evidence), merge_detail(groups, evidence, detail)
    for fragment, points in zip(few.fragments, many.points, strict=True):
        known = fragment.points[fragment.break_probability > 0]  # what is closed is gone from the detail
        assert cdist(known, points).min(axis=1).max() < 1e-9


def test_a_piece_that_would_lose_all_its_points_keeps_them():
    """Two plates, face to face: every point of both is closed."""
    grid = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0), [0.0]), axis=-1).reshape(-1, 3) / 20
    up = np.tile([0.0, 0.0, 1.0], (400, 1))
    plates = [Fragment(grid, side * up, np.ones(400)) for side in (1, -1)]
    beside = Fragment(grid + 5.0 * up, up, np.ones(400))
    evidence = Evidence.of([*plates, beside])
    detail = Detail((grid, grid, beside.points), (up, -up, up))
    merged = merge_detail(groups_of(np.tile(np.eye(4), (1, 3, 1, 1)), [[0, 1]]), evidence, detail)
    assert [len(points) for points in merged.points] == [800, 400]


def test_pieces_that_are_not_merged_keep_all_points():
    evidence, detail, true = finely_taken_apart(slices(2, 300.0), 200)
    merged = merge_detail(groups_of(true[None], []), evidence, detail)
    for before, after in zip(detail.points, merged.points, strict=True):
        np.testing.assert_array_equal(before, after)
