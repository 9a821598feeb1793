"""The seams of an assembly: the gap of a joint is the distance at which its surfaces were put."""

from dataclasses import replace

import numpy as np
import pytest
import trimesh
from support.results import FACES, VERTICES, assembly_of, input_pieces
from support.rigid_motions import random_motion_in_box, rigid_motions

from eda.assembly import Assembly
from eda.output.seams import Seams
from eda.render.input_piece import InputPiece

GAP = 0.003


def moved(*shifts: tuple[float, float, float]) -> np.ndarray:
    return rigid_motions(np.tile(np.eye(3), (len(shifts), 1, 1)), np.array(shifts, dtype=float))


def joined(pieces: list[InputPiece], poses: np.ndarray, *others: np.ndarray) -> Assembly:
    """An assembly in which all pieces touch, with as many alternatives as there are poses."""
    assembly = assembly_of(pieces)
    joints = 0.9 * (1 - np.eye(len(pieces)))
    alternatives = tuple(replace(assembly.best, poses=each, joints=joints) for each in (poses, *others))
    return replace(assembly, alternatives=alternatives)


@pytest.fixture
def boxes(tmp_path) -> list[InputPiece]:
    """Two unit cubes of a dozen triangles each."""
    for name in "ab":
        trimesh.Trimesh(VERTICES, FACES, process=False).export(tmp_path / f"{name}.ply")
    return input_pieces(tmp_path)


def test_the_gap_of_two_boxes_is_their_distance_wherever_they_are(boxes):
    side_by_side = moved((0, 0, 0), (1 + GAP, 0.25, 0))
    whole = random_motion_in_box(np.random.default_rng(0)) @ side_by_side
    for poses in (side_by_side, whole):
        ((joint,),) = Seams.of(joined(boxes, poses), boxes).joints
        assert (joint.first, joint.second, joint.confidence) == (0, 1, 0.9)
        assert joint.gap == pytest.approx(GAP, rel=1e-3)
        assert joint.area == pytest.approx(0.75, rel=0.05)
        assert joint.points == pytest.approx(2 * 20_000 * 0.75 / 6, rel=0.05)


def test_alternatives_have_gaps_of_their_own_and_none_where_nothing_touches(boxes):
    poses = [moved((0, 0, 0), (0, 0, 1 + gap)) for gap in (GAP, 2 * GAP, 0.5)]
    seams = Seams.of(joined(boxes, *poses), boxes)
    gaps = [joint.gap for (joint,) in seams.joints]
    assert gaps[:2] == [pytest.approx(GAP, rel=1e-3), pytest.approx(2 * GAP, rel=1e-3)]
    assert gaps[2] is None
    assert seams.joints[2][0].points == 0
    assert seams.paint[0].gaps.shape[0] == 3
    assert np.isnan(seams.paint[0].gaps[2]).all()


def test_seams_are_painted_where_the_pieces_meet_and_a_little_beyond(boxes):
    seams = Seams.of(joined(boxes, moved((0, 0, 0), (0, 0, 1 + GAP))), boxes)
    paint = seams.paint[0]
    painted = paint.points[np.isfinite(paint.gaps[0])]
    assert np.nanquantile(paint.gaps[0], [0, 0.99]) == pytest.approx([GAP, GAP], rel=1e-3)
    top = painted[:, 2] > 1 - 1e-9
    assert top.mean() > 0.8
    assert 0.9 < painted[~top, 2].min() < 1 - 2 * GAP, "on the sides, near the upper edge"
    assert seams.top > GAP
    assert seams.top / 10 ** np.floor(np.log10(seams.top)) == pytest.approx(1) or seams.top in (0.02, 0.05, 0.2)


def test_another_piece_is_not_met_through_a_thin_wall(tmp_path):
    """Two plates, thinner than what counts as near, lie on each other: only the sides that face each other touch."""
    thin = VERTICES * [1, 1, 0.01]
    for name in "ab":
        trimesh.Trimesh(thin, FACES, process=False).export(tmp_path / f"{name}.ply")
    plates = input_pieces(tmp_path)
    ((joint,),) = Seams.of(joined(plates, moved((0, 0, 0), (0, 0, 0.01 + GAP))), plates).joints
    assert joint.gap == pytest.approx(GAP, rel=1e-3)
    assert joint.area == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("known", [True, False])
def test_overlapping_scans_are_as_far_apart_as_their_surfaces(known):
    """Two views of one wavy surface: they look the same way, or nobody knows which way they look."""
    rng = np.random.default_rng(0)
    places = [rng.uniform((start, 0), (start + 1, 1), (6000, 2)) for start in (0.0, 0.5)]
    clouds = [np.column_stack([each, 0.1 * np.sin(4 * each[:, 0])]) for each in places]
    slopes = [np.column_stack([-0.4 * np.cos(4 * c[:, 0]), np.zeros(len(c)), np.ones(len(c))]) for c in clouds]
    normals = [each / np.linalg.norm(each, axis=1, keepdims=True) if known else None for each in slopes]
    pieces = [InputPiece(name, *each) for name, each in zip("ab", zip(clouds, normals, strict=True), strict=True)]
    known_pieces = [replace(p, normals=s) for p, s in zip(pieces, slopes, strict=True)]
    assembly = joined(known_pieces, moved((0, 0, 0), (0, 0, 0.01)))
    ((joint,),) = Seams.of(assembly, pieces).joints
    assert joint.gap == pytest.approx(0.0094, rel=0.15)  # 0.01, seen along normals that lean
    assert joint.area == pytest.approx(0.5, rel=0.3)


def test_the_points_of_all_seams_are_bounded(boxes, monkeypatch):
    monkeypatch.setattr("eda.output.seams._MAX_PAINTED", 500)
    seams = Seams.of(joined(boxes, moved((0, 0, 0), (0, 0, 1 + GAP))), boxes)
    assert sum(len(paint.points) for paint in seams.paint) == pytest.approx(500, rel=0.2)
