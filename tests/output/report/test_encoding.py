"""The data of a report: geometry, time, alternatives and colours can be read back."""

import base64
import io
from dataclasses import replace

import numpy as np
from PIL import Image
from support.reports import alternative_of, decoded_array, page_data, random_poses, report_of

from eda.output.own_colors import OwnColors, Skin
from eda.output.report import ReportPiece, render_report
from eda.output.seams import Joint, Paint, Seams
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
    found_nowhere = "no place was found where it holds"
    assert told["alternatives"][0]["whyUnplaced"] == [None, found_nowhere, None, found_nowhere]


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
    assert told[0]["joints"] == [{"pieces": [0, 2], "confidence": 0.25, "gap": None, "points": 0, "area": 0.0}]
    assert told[0]["poses"] == best.poses.tolist()
    assert (told[1]["score"], told[1]["probability"], told[1]["joints"]) == (0.5, 0.125, [])


def test_pieces_have_the_colours_of_the_palette():
    told = page_data(render_report(report_of()))
    for piece, color in zip(told["pieces"], PIECES[:3], strict=True):
        assert [int(piece["color"][k : k + 2], 16) for k in (1, 3, 5)] == np.rint(color * 255).tolist()


SQUARE, HALVES = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0.0]]), np.array([[0, 1, 2], [2, 3, 0]])


def told_piece(piece: ReportPiece, **given) -> dict:
    """What the page is told about the only piece of a report."""
    report = report_of(pieces=[piece], alternatives=[alternative_of(random_poses(1))], **given)
    return page_data(render_report(report))["pieces"][0]


def test_own_colours_of_a_mesh_are_those_of_its_vertices_and_pictures():
    colors = np.arange(12, dtype=np.uint8).reshape(4, 3)
    picture = Image.new("RGB", (8, 4), (200, 30, 30))
    own = OwnColors(SQUARE, colors, None, HALVES, SQUARE[:, :2], (Skin(1, picture, (80, 40)), Skin(1, None)))
    told = told_piece(ReportPiece("square", SQUARE, faces=HALVES, own=own))["own"]
    np.testing.assert_array_equal(decoded_array(told["colors"], "u1", -1, 3), colors)
    np.testing.assert_array_equal(decoded_array(told["imagePlaces"], "<f4", -1, 2), SQUARE[:, :2])
    assert [(skin["faces"], skin["image"] is None) for skin in told["skins"]] == [(1, False), (1, True)]
    start, _, text = told["skins"][0]["image"].partition(",")
    assert start == "data:image/jpeg;base64"
    read = Image.open(io.BytesIO(base64.b64decode(text)))
    assert read.size == (8, 4)
    np.testing.assert_allclose(read.getpixel((3, 2)), (200, 30, 30), atol=4)
    assert told_piece(ReportPiece("square", SQUARE, faces=HALVES))["own"] is None


def places_of(discs: dict, piece: ReportPiece, scale: float) -> np.ndarray:
    """The points of discs on a piece, in its own frame."""
    share = decoded_array(discs["places"], "<u2", -1, 3) / 65535
    return (np.array(discs["low"]) + np.array(discs["extent"]) * share) * scale + piece.center


def test_own_colours_of_discs_lie_on_the_piece():
    rng = np.random.default_rng(0)
    points, colors = rng.uniform(size=(200, 3)) + 5, rng.integers(0, 256, (200, 3)).astype(np.uint8)
    piece = ReportPiece("cloud", points[:60], own=OwnColors(points, colors))
    report = report_of(pieces=[piece], alternatives=[alternative_of(random_poses(1))])
    data = page_data(render_report(report))
    told = data["pieces"][0]["own"]
    np.testing.assert_array_equal(decoded_array(told["colors"], "u1", -1, 3), colors)
    np.testing.assert_allclose(places_of(told, piece, data["scale"]), points, atol=1e-4)
    assert not told["oriented"]


def test_gaps_are_told_in_steps_for_every_alternative():
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(4, 3))
    gaps = np.array([[0.0, 0.05, 0.1, 7], [np.nan, np.nan, 0.025, np.nan]])
    piece = ReportPiece("cloud", rng.uniform(size=(60, 3)))
    nothing = Paint(np.empty((0, 3)), None, 0.1, np.empty((2, 0)))
    joints = ((Joint(0, 1, 0.75, 0.05, 12, 0.5),), ())
    seams = Seams(joints, (Paint(points, points, 0.1, gaps), nothing), 0.1)
    alternatives = [alternative_of(random_poses(2)), alternative_of(random_poses(2))]
    report = report_of(pieces=[piece, replace(piece, name="b")], alternatives=alternatives, seams=seams)
    data = page_data(render_report(report))
    told = data["pieces"][0]["seam"]
    assert [decoded_array(each, "u1", 4).tolist() for each in told["gaps"]] == [[0, 127, 254, 254], [255, 255, 64, 255]]
    np.testing.assert_allclose(places_of(told, piece, data["scale"]), points, atol=1e-4)
    np.testing.assert_allclose(told["disc"] * data["scale"], 0.1)
    assert data["pieces"][1]["seam"] is None
    assert data["topGap"] == 0.1
    assert data["alternatives"][0]["joints"] == [
        {"pieces": [0, 1], "confidence": 0.75, "gap": 0.05, "points": 12, "area": 0.5}
    ]
    assert data["alternatives"][1]["joints"] == []


def test_a_page_with_everything_on_it_is_bounded():
    """As many coloured points and pictures as there may be: noise, which no format makes smaller."""
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 256, (200, 400, 3)).astype(np.uint8))  # a hundredth of all that may be
    own = OwnColors(SQUARE, np.zeros((4, 3), np.uint8), None, HALVES, SQUARE[:, :2], (Skin(2, noise, noise.size),))
    report = report_of(
        pieces=[ReportPiece("square", SQUARE, faces=HALVES, own=own)], alternatives=[alternative_of(random_poses(1))]
    )
    plain = replace(report, pieces=[replace(report.pieces[0], own=None)])
    assert len(render_report(report)) - len(render_report(plain)) < 120_000
