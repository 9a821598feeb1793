"""All points near the joints: where they appear, what stays as it was, and that frames do not matter."""

import sys
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from support.rigid_motions import random_motion, random_motion_of_size, transform_points
from support.sliced_block import finely_taken_apart, slices

from eda.assembly import Evidence, Fragment
from eda.assembly.contact.detail import NEAR, Detail

FEW, DENSITY = 600, 1200.0  # points of a piece in the evidence, and per unit area in the detail


@dataclass(frozen=True)
class Scene:
    """Pieces at two densities, some assemblies of them, and what these say about them in detail."""

    evidence: Evidence
    detail: Detail
    poses: np.ndarray
    placed: np.ndarray

    @property
    def looked_at(self) -> Evidence:
        return self.detail.near_joints(self.evidence, self.poses, self.placed)

    def is_near(self, piece: int) -> np.ndarray:
        """Which points of the evidence come near another piece in any assembly, by all distances there are."""
        near = np.zeros(len(self.evidence.fragments[piece].points), dtype=bool)
        for poses, placed in zip(self.poses, self.placed, strict=True):
            clouds = [transform_points(g, f.points) for g, f in zip(poses, self.evidence.fragments, strict=True)]
            for other in np.flatnonzero(placed):
                if placed[piece] and other != piece:
                    near |= cdist(clouds[piece], clouds[other]).min(axis=1) < NEAR * self.evidence.spacing
        return near

    def around(self, piece: int, points: np.ndarray) -> np.ndarray:
        """The points of the evidence that are nearest to some points of a piece."""
        return cdist(points, self.evidence.fragments[piece].points).argmin(axis=1)


def scene(num_pieces: int = 3, placed: list[list[bool]] | None = None, seed: int = 0) -> Scene:
    """The solution, or as many copies of it as there are sets of pieces."""
    evidence, detail, true = finely_taken_apart(slices(num_pieces, DENSITY, seed), FEW, seed)
    some = np.array(placed or [[True] * num_pieces])
    return Scene(evidence, detail, np.tile(true, (len(some), 1, 1, 1)), some)


def rows_of(fragment: Fragment) -> set[tuple[float, ...]]:
    """Points with normals and probabilities, whatever their order."""
    columns = [fragment.points, fragment.normals, fragment.break_probability[:, None]]
    return set(map(tuple, np.concatenate(columns, axis=1).tolist()))


def some_of(fragment: Fragment, rows: np.ndarray) -> Fragment:
    return Fragment(fragment.points[rows], fragment.normals[rows], fragment.break_probability[rows])


@pytest.mark.parametrize(
    "placed",
    [[[True, True, True]], [[True, True, False], [False, True, True]], [[True, True, False]]],
    ids=["one assembly", "two assemblies", "a piece left out"],
)
def test_all_points_near_joints_and_those_of_the_evidence_elsewhere(placed):
    """Every point as expected by brute force, each with its own normal and with the probability around it."""
    of = scene(placed=placed)
    for piece, (before, after) in enumerate(zip(of.evidence.fragments, of.looked_at.fragments, strict=True)):
        near, points, normals = of.is_near(piece), of.detail.points[piece], of.detail.normals[piece]
        around = of.around(piece, points)
        fine = Fragment(points, normals, before.break_probability[around])
        expected = rows_of(before)
        if near.any():
            assert near.mean() < 0.8
            expected = rows_of(some_of(before, ~near)) | rows_of(some_of(fine, near[around]))
            assert len(after.points) > 1.5 * len(before.points)
        assert rows_of(after) == expected
        assert len(after.points) == len(expected)


def test_pieces_that_are_not_placed_or_meet_nothing_stay_as_they_were():
    of = scene(placed=[[True, True, False]])
    apart = of.poses.copy()
    apart[0, 1, :3, 3] += 9
    for now, same in ((of, [2]), (Scene(of.evidence, of.detail, apart, of.placed), [0, 1, 2])):
        after = now.looked_at.fragments
        for piece in same:
            assert rows_of(after[piece]) == rows_of(of.evidence.fragments[piece])


def test_an_assembly_in_one_place_says_the_same_in_another():
    of = scene()
    whole = random_motion_of_size(np.random.default_rng(1), 100, 3.0)
    moved = Scene(of.evidence, of.detail, whole @ of.poses, of.placed)
    for here, there in zip(of.looked_at.fragments, moved.looked_at.fragments, strict=True):
        assert rows_of(here) == rows_of(there)


@pytest.mark.parametrize("most", [4000, 500])
def test_the_frame_of_a_piece_does_not_matter(most, monkeypatch):
    """A piece is moved, and its pose with it; also where points have to be chosen."""
    monkeypatch.setattr(sys.modules["eda.assembly.contact.detail"], "MOST_POINTS", most)
    of, motion = scene(), random_motion(7, 2.0)
    fragments, points, normals = list(of.evidence.fragments), list(of.detail.points), list(of.detail.normals)
    one = fragments[1]
    fragments[1] = Fragment(transform_points(motion, one.points), one.normals @ motion[:3, :3].T, one.break_probability)
    points[1], normals[1] = transform_points(motion, points[1]), normals[1] @ motion[:3, :3].T
    poses = of.poses.copy()
    poses[:, 1] = poses[:, 1] @ np.linalg.inv(motion)
    moved = Scene(Evidence.of(fragments), Detail(tuple(points), tuple(normals)), poses, of.placed).looked_at
    for piece, (here, there) in enumerate(zip(of.looked_at.fragments, moved.fragments, strict=True)):
        g = motion if piece == 1 else np.eye(4)
        np.testing.assert_allclose(there.points, transform_points(g, here.points), atol=1e-9)
        np.testing.assert_allclose(there.normals, here.normals @ g[:3, :3].T, atol=1e-9)
        np.testing.assert_array_equal(there.break_probability, here.break_probability)


def test_no_more_points_near_joints_than_are_wanted_and_these_spread_out(monkeypatch):
    most = 500
    monkeypatch.setattr(sys.modules["eda.assembly.contact.detail"], "MOST_POINTS", most)
    of = scene()
    for piece, (before, after) in enumerate(zip(of.evidence.fragments, of.looked_at.fragments, strict=True)):
        near, known = of.is_near(piece), rows_of(before)
        assert near.sum() < most
        new = [row[:3] for row in rows_of(after) - known]
        assert len(new) <= most
        assert len(after.points) == most + (~near).sum()
        every = of.detail.points[piece][near[of.around(piece, of.detail.points[piece])]]
        gaps, usual = (np.sort(cdist(some, some), axis=1)[:, 1].min() for some in (np.array(new), every))
        assert gaps > 3 * usual  # points drawn by chance come as near to each other as any


@pytest.mark.parametrize("step", [1, 3])
def test_a_piece_without_more_points_keeps_those_it_has(step):
    of = scene()
    few = [(f.points[::step], f.normals[::step]) for f in of.evidence.fragments]
    poor = Scene(of.evidence, Detail(*map(tuple, zip(*few, strict=True))), of.poses, of.placed)
    for before, after in zip(of.evidence.fragments, poor.looked_at.fragments, strict=True):
        assert rows_of(before) == rows_of(after)
