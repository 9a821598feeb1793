"""The contents of a report: what is refused, and what is said about an assembly."""

from dataclasses import replace

import numpy as np
import pytest
import trimesh
from support.lumpy_shapes import lumpy_cloud
from support.reports import alternative_of, page_data, random_poses, report_of
from support.results import FACES, OTHER, VERTICES, assembly_of, input_pieces, textured_box

from eda import InputError
from eda.assembly import AssembleConfig, Assembly, RankConfig
from eda.output.own_colors import OwnColors
from eda.output.piece_source import PieceSource
from eda.output.report import Report, ReportPiece, render_report, shown_colors
from eda.output.seams import Seams
from eda.render.input_piece import InputPiece

POINTS = lumpy_cloud(0, 10)[0]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"points": POINTS[:3]}, "at least 4 finite points"),
        ({"points": POINTS[:, :2]}, "at least 4 finite points"),
        ({"points": np.where(POINTS > 0, POINTS, np.nan)}, "at least 4 finite points"),
        ({"normals": POINTS[:5]}, "normals must be finite"),
        ({"faces": np.array([[0, 1, 10]])}, "a face refers to a point that does not exist"),
        ({"faces": np.array([[0, 1, -1]])}, "a face refers to a point that does not exist"),
        ({"faces": np.array([[0.0, 1.0, 2.0]])}, "faces must be integers"),
    ],
)
def test_bad_pieces_are_refused_by_name(given, complaint):
    with pytest.raises(InputError, match=f"piece 'lid': .*{complaint}"):
        ReportPiece(**{"name": "lid", "points": POINTS, **given})


def test_a_report_needs_pieces_alternatives_and_a_pose_for_every_piece():
    for given in ({"pieces": []}, {"alternatives": []}):
        with pytest.raises(InputError, match="at least one piece and one alternative"):
            report_of(**given)
    with pytest.raises(InputError, match="alternative 1 has 2 poses for 3 pieces"):
        report_of(alternatives=[alternative_of(random_poses(3)), alternative_of(random_poses(2))])
    with pytest.raises(InputError, match=r"flow must have shape \(T, 3, 4, 4\)"):
        report_of(flow=random_poses(5, 2))


def data_of(pieces: list[InputPiece], assembly: Assembly) -> dict:
    """What the page of an assembly's report is given."""
    return page_data(render_report(report_on(pieces, assembly)))


def report_on(pieces: list[InputPiece], assembly: Assembly, own_colors: list[OwnColors | None] | None = None) -> Report:
    colors = [None] * len(pieces) if own_colors is None else own_colors
    return Report.of(assembly, pieces, "a test", "pot 7", colors, Seams.of(assembly, pieces))


def test_the_report_says_that_nothing_was_placed():
    pieces = [OTHER, replace(OTHER, name="b")]
    nothing, one, both = (assembly_of(pieces, list(p)) for p in ((False, False), (True, False), (True, True)))
    assert data_of(pieces, both)["note"].startswith("Verdict: ")
    assert "No piece could be placed:" in data_of(pieces, nothing)["note"]
    pinned = data_of(pieces, replace(one, pinned=(0,)))["note"]
    assert "No piece could be placed except those that were pinned" in pinned
    assert "time limit" in data_of(pieces, replace(both, stopped=True))["note"]


@pytest.mark.parametrize(
    ("config", "limit", "refinement"),
    [
        (AssembleConfig(), "none", "yes"),
        (AssembleConfig(time_limit=90, ranking=RankConfig(refine=False)), "90 s", "no, samples were ranked without it"),
    ],
)
def test_the_report_tells_settings_in_words(config, limit, refinement):
    pieces = [OTHER, replace(OTHER, name="b")]
    told = data_of(pieces, replace(assembly_of(pieces), settings=config.as_dict()))
    facts = dict(told["facts"])
    assert (facts["Time limit"], facts["Refinement"], facts["Samples"]) == (limit, refinement, "16")
    assert "about 1 if all breaks are closed" in facts["Score"]
    assert not {"None", "True", "False"} & set(facts.values())


def test_the_title_has_the_names_of_the_folders(tmp_path):
    for folder, name in (("sherds", "a"), ("sherds", "b"), ("more", "c")):
        (tmp_path / folder).mkdir(exist_ok=True)
        trimesh.Trimesh(VERTICES, FACES, process=False).export(tmp_path / folder / f"{name}.ply")
    scene = trimesh.Scene([textured_box((9, 9, 9)) for _ in range(2)])
    scene.export(tmp_path / "vase.glb")
    given = {
        "pot 7: 2 pieces from sherds": input_pieces(tmp_path / "sherds"),
        "pot 7: 3 pieces": input_pieces(tmp_path / "sherds", tmp_path / "more"),
        "pot 7: 2 pieces from vase.glb": input_pieces(tmp_path / "vase.glb"),
        "pot 7: 2 pieces": [OTHER, replace(OTHER, name="b")],
    }
    for title, pieces in given.items():
        assert report_on(pieces, assembly_of(pieces)).title == title


def shown(pieces: list[InputPiece]) -> list[OwnColors | None]:
    return [shown_colors(PieceSource.of(piece), pieces) for piece in pieces]


def test_pictures_are_reduced_to_what_the_page_has_room_for_and_that_is_said(tmp_path, monkeypatch):
    textured_box((250, 10, 10), 64).export(tmp_path / "a.glb")
    trimesh.Trimesh(VERTICES, FACES, process=False).export(tmp_path / "b.ply")
    pieces = input_pieces(tmp_path)
    assembly, whole = assembly_of(pieces), shown(pieces)
    assert whole[0].skins[0].image.size == (64, 64)
    assert whole[1] is None
    facts = report_on(pieces, assembly, whole).facts
    assert facts["Own colours"] == "of 1 pieces; the files in pieces have them whole"
    monkeypatch.setattr("eda.output.report.contents._MAX_PIXELS", 2 * 32 * 16)
    reduced = shown(pieces)
    assert np.prod(reduced[0].skins[0].image.size) <= 32 * 16
    said = report_on(pieces, assembly, reduced).facts["Own colours"]
    assert said.startswith("of 1 pieces, 1 of 1 pictures reduced, the largest from 64 x 64 to 22 x 22 pixels;")


def test_colours_of_pieces_drawn_as_discs_are_points(tmp_path, monkeypatch):
    textured_box((250, 10, 10)).export(tmp_path / "a.glb")
    pieces = [*input_pieces(tmp_path / "a.glb"), OTHER]
    monkeypatch.setattr("eda.output.report.contents._MAX_COLORED", 100)
    own = shown(pieces)
    report = report_on(pieces, assembly_of(pieces), own)
    assert own[0].faces is None
    assert len(own[0].points) == 50
    assert report.pieces[0].faces is None
    assert "at 50 points" in report.facts["Own colours"]
