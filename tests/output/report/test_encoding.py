"""The data of a report: geometry, time, alternatives and colours can be read back."""

from dataclasses import replace

import numpy as np
from support.reports import alternative_of, decoded_array, page_data, random_poses, report_of

from eda.output.report import ReportPiece, render_report
from eda.render.colors import PIECES


def drawn_points(told: dict, piece: int, alternative: int = 0, frame: int = -1) -> np.ndarray:
    """The points of a piece where the page draws them, by the rule of its vertex shader; in radii."""
    given, chosen = told["pieces"][piece], told["alternatives"][alternative]
    x, y, z, w, *center = decoded_array(chosen["track"], "<f4", chosen["frames"], len(told["pieces"]), 7)[frame, piece]
    places = np.array(given["low"]) + np.array(given["extent"]) * decoded_array(given["places"], "<u2", -1, 3) / 65535
    axis = np.array([x, y, z], dtype=np.float64)
    turned = places + 2 * np.cross(axis, np.cross(axis, places) + w * places)
    return turned + center


def test_points_are_drawn_where_the_poses_put_them():
    report = report_of()
    told = page_data(render_report(report))
    expected = [
        p.points @ g[:3, :3].T + g[:3, 3] for p, g in zip(report.pieces, report.alternatives[0].poses, strict=True)
    ]
    middle = (np.concatenate(expected).min(axis=0) + np.concatenate(expected).max(axis=0)) / 2
    for i, points in enumerate(expected):
        np.testing.assert_allclose(drawn_points(told, i) * told["scale"] + middle, points, atol=2e-4)


def test_normals_and_disc_sizes_fit_in_bytes():
    report = report_of()
    given = page_data(render_report(report))["pieces"][0]
    shapes = decoded_array(given["shapes"], "i1", -1, 4) / 127
    np.testing.assert_allclose(shapes[:, :3], report.pieces[0].normals, atol=0.005)
    assert shapes[:, 3].min() > 0
    assert shapes[:, 3].max() == 1
    assert given["oriented"]


def test_normals_that_are_missing_are_estimated():
    """On a plane they are those of the plane."""
    plane = np.random.default_rng(0).uniform(size=(60, 3)) * [1, 1, 0]
    report = report_of(pieces=[ReportPiece("plane", plane)], alternatives=[alternative_of(random_poses(1))])
    given = page_data(render_report(report))["pieces"][0]
    np.testing.assert_allclose(np.abs(decoded_array(given["shapes"], "i1", -1, 4)[:, :3]), [[0, 0, 127]] * 60, atol=1)
    assert not given["oriented"]


def test_meshes_keep_their_faces():
    faces = np.array([[0, 1, 2], [2, 3, 0]])
    square = ReportPiece("square", np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0.0]]), faces=faces)
    given = page_data(render_report(report_of(pieces=[square], alternatives=[alternative_of(random_poses(1))])))[
        "pieces"
    ][0]
    assert decoded_array(given["faces"], "<u4", -1, 3).tolist() == faces.tolist()


def test_georeferenced_coordinates_keep_their_digits():
    far = np.array([4e6, 5e6, 300.0])
    near = report_of(1, alternatives=[alternative_of(np.eye(4)[None])])
    moved = replace(near, pieces=[replace(near.pieces[0], points=near.pieces[0].points + far)])
    here, there = (drawn_points(page_data(render_report(report)), 0) for report in (near, moved))
    np.testing.assert_allclose(there, here, atol=2e-5)


def test_the_last_frame_is_the_assembly_whether_the_flow_reaches_it_or_not():
    report = report_of()
    poses, way = report.alternatives[0].poses, random_poses(5, 3, seed=1)
    arriving = np.concatenate([way, poses[None]])
    still, refined, reached = (page_data(render_report(replace(report, flow=flow))) for flow in (None, way, arriving))
    assert [told["alternatives"][0]["frames"] for told in (still, refined, reached)] == [1, 6, 6]
    for i in range(3):
        for told in (refined, reached):
            np.testing.assert_allclose(drawn_points(told, i), drawn_points(still, i), atol=1e-6)
        start = page_data(render_report(replace(report, alternatives=[alternative_of(poses), alternative_of(way[0])])))
        np.testing.assert_allclose(drawn_points(refined, i, frame=0), drawn_points(start, i, 1), atol=1e-6)


def test_unplaced_pieces_lie_below_the_others_and_side_by_side():
    best = alternative_of(random_poses(4), placed=[True, False, True, False])
    told = page_data(render_report(report_of(4, alternatives=[best], flow=random_poses(6, 4, seed=1))))
    view = np.reshape(told["view"], (3, 3))  # right, up, towards the viewer
    seen = [drawn_points(told, i) @ view.T for i in range(4)]
    lowest = min(seen[0][:, 1].min(), seen[2][:, 1].min())
    assert max(seen[1][:, 1].max(), seen[3][:, 1].max()) < lowest
    assert seen[1][:, 0].max() < seen[3][:, 0].min()
    assert told["alternatives"][0]["placed"] == [True, False, True, False]


def test_unplaced_pieces_start_where_their_flow_does():
    poses, way = random_poses(2), random_poses(6, 2, seed=1)
    report = report_of(2)
    for placed in ([True, True], [True, False]):
        told = page_data(render_report(replace(report, alternatives=[alternative_of(poses, placed=placed)], flow=way)))
        first, second = (drawn_points(told, i, frame=0) * told["scale"] for i in range(2))
        expected = [p.points @ g[:3, :3].T + g[:3, 3] for p, g in zip(report.pieces, way[0], strict=True)]
        np.testing.assert_allclose(second - first[0], expected[1] - expected[0][0], atol=1e-3)


def test_what_is_known_of_an_alternative_is_told():
    joints = [(0, 2, 0.25)]
    best = alternative_of(random_poses(3), 1.5, 0.75, np.array([0.1, 0.2, 0.3]), joints=joints)
    other = alternative_of(random_poses(3, seed=1), 0.5, 0.125)
    told = page_data(render_report(report_of(alternatives=[best, other])))["alternatives"]
    assert (told[0]["score"], told[0]["probability"], told[0]["confidence"]) == (1.5, 0.75, [0.1, 0.2, 0.3])
    assert told[0]["joints"] == [[0, 2, 0.25]]
    assert told[0]["poses"] == best.poses.tolist()
    assert (told[1]["score"], told[1]["probability"], told[1]["joints"]) == (0.5, 0.125, [])


def test_pieces_have_the_colours_of_the_palette():
    told = page_data(render_report(report_of()))
    for piece, color in zip(told["pieces"], PIECES[:3], strict=True):
        assert [int(piece["color"][k : k + 2], 16) for k in (1, 3, 5)] == np.rint(color * 255).tolist()
