"""The contents of a report: what is refused, and what is said about an assembly."""

from dataclasses import replace

import numpy as np
import pytest
from support.lumpy_shapes import lumpy_cloud
from support.reports import alternative_of, page_data, random_poses, report_of
from support.results import OTHER, assembly_of

from eda import InputError
from eda.assembly import AssembleConfig, Assembly, RankConfig
from eda.output.report import Report, ReportPiece, render_report
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
    return page_data(render_report(Report.of(assembly, pieces, "a test")))


def test_the_report_says_that_nothing_was_placed():
    pieces = [OTHER, replace(OTHER, name="b")]
    nothing, one, both = (assembly_of(pieces, list(p)) for p in ((False, False), (True, False), (True, True)))
    assert data_of(pieces, both)["note"] == ""
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
