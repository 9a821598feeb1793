"""How a user steers `assemble` from Python: pins, limits, models, clouds without normals or of millions of points."""

import math
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from support.broken_stone import scattered, stone
from support.lumpy_shapes import TINY_NETWORK, lumpy_cloud
from support.rigid_motions import rigid_motions

from eda import AssembleConfig, Assembly, Eda, EdaConfig, InputError, assemble, prepare
from eda.assembly import ModelChoice, RankConfig
from eda.assembly.proposals.flow_samples import SAMPLES_AT_ONCE
from eda.budget import Stage
from eda.flow import Trajectory
from eda.lie import SE3

SAMPLED = RankConfig(docking=None)  # nothing from geometry, which is what takes time
QUICK = AssembleConfig(samples=4, steps=4, solver="rk1", ranking=SAMPLED)
DOCS = Path(__file__).parents[2] / "docs" / "formats.md"


@pytest.fixture(scope="module")
def model() -> Eda:
    return Eda.load("fracture-small")


@pytest.fixture(scope="module")
def puzzle() -> tuple[list, list, np.ndarray]:
    """Three pieces of a stone apart, and the motions that put them back, far from the origin."""
    clouds, normals, truth = scattered(stone(3, 2400), scale=80.0)
    return clouds, normals, rigid_motions(np.eye(3)[None], np.array([[5e5, -2e5, 300.0]])) @ truth


# -- pins --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pinned", [(0, 2), (1,), (0, 1, 2)])
def test_pinned_pieces_are_where_they_were_put(puzzle, model, pinned):
    clouds, normals, truth = puzzle
    assembly = assemble(clouds, normals, pins={i: truth[i] for i in pinned}, model=model, config=QUICK)
    assert assembly.pinned == pinned
    for alternative in assembly.alternatives:
        assert alternative.placed[list(pinned)].all()
        np.testing.assert_allclose(alternative.poses[list(pinned)], truth[list(pinned)], rtol=1e-14, atol=1e-14)
        np.testing.assert_array_equal(alternative.confidence[list(pinned)], 1)
    np.testing.assert_allclose(assembly.flow[:, list(pinned)] - truth[list(pinned)], 0, atol=1e-9)


def test_two_pins_help_to_find_the_third_piece(puzzle, model):
    clouds, normals, truth = puzzle
    config = replace(QUICK, ranking=RankConfig())
    assembly = assemble(clouds, normals, pins={"b": truth[0], "a": truth[2]}, names="bca", model=model, config=config)
    assert assembly.best.placed.all()
    degrees, distance = assembly.compare(truth)
    assert degrees < 5
    assert distance < 0.05
    assert assembly.as_dict()["pinned"] == ["b", "a"]
    assert not assembly.is_empty


def test_one_pin_moves_the_whole_and_changes_nothing_else(puzzle, model):
    clouds, normals, truth = puzzle
    unsteered = replace(QUICK, ranking=RankConfig(refine=False))
    free = assemble(clouds, normals, model=model, config=unsteered)
    held = assemble(clouds, normals, pins={1: truth[1]}, model=model, config=unsteered)
    assert max(held.compare(free)) < 0.2  # the pinned pieces are encoded anew, in float32


def test_where_nothing_fits_only_the_pins_have_a_place(puzzle, model):
    clouds, normals, truth = puzzle
    nowhere = replace(QUICK, ranking=replace(SAMPLED, joints=replace(SAMPLED.joints, least_gain=1e9)))
    free = assemble(clouds, normals, model=model, config=nowhere)
    assert free.is_empty
    assert free.best.unplaced == [0, 1, 2]
    held = assemble(clouds, normals, pins={1: truth[1]}, model=model, config=nowhere)
    assert held.is_empty
    assert held.best.unplaced == [0, 2]
    all_known = assemble(clouds, normals, pins=dict(enumerate(truth)), model=model, config=nowhere)
    assert not all_known.is_empty
    assert max(all_known.compare(truth)) < 1e-6


def test_pins_that_cannot_be_are_refused(puzzle, model):
    clouds, normals, truth = puzzle
    for pins, message in (
        ({"lid": truth[0]}, "no one piece 'lid' to pin; the pieces are a, b, c"),
        ({3: truth[0]}, "no one piece 3"),
        ({"a": 2 * truth[0]}, "not rigid"),
        ({"a": np.diag([1.01, 1, 1, 1])}, "not rigid|scales"),
        ({"a": np.diag([-1.0, 1, 1, 1])}, "not rigid"),
        ({"a": np.eye(3)}, "4x4"),
        ({"a": np.full((4, 4), np.nan)}, "not rigid"),
    ):
        with pytest.raises(InputError, match=message):
            prepare(clouds, normals, names="abc", pins=pins, model=model)


# -- how hard to try ---------------------------------------------------------------------------------------------------


def test_without_refinement_samples_are_judged_as_they_are(puzzle, model):
    clouds, normals, _ = puzzle
    config = replace(QUICK, ranking=RankConfig(refine=False))
    prepared = prepare(clouds, normals, model=model)
    trajectory = prepared.sample(config)
    assembly = prepared.rank(trajectory, config)
    samples = prepared.model_input.to_user(trajectory.final.to(torch.float64).matrix().numpy())
    assert min(max(assembly.compare(sample)) for sample in samples) < 1e-4
    assert assembly.settings["refine"] is False


def test_at_the_time_limit_the_best_so_far_is_what_there_is(puzzle, model, assembly):
    clouds, normals, _ = puzzle
    hurried = AssembleConfig(samples=3 * SAMPLES_AT_ONCE, steps=1, solver="rk1", time_limit=1e-6)
    hasty = assemble(clouds, normals, model=model, config=hurried)
    assert hasty.stopped
    assert hasty.as_dict()["stopped"] is True
    assert hasty.best.placed.all(), "samples as they are"
    assert not assembly.stopped
    drawn = prepare(clouds, normals, model=model).sample(hurried)
    assert drawn.final.shape == (SAMPLES_AT_ONCE, 3), "what was begun is finished, and no more"


@pytest.fixture
def undecided(monkeypatch) -> None:
    """Whatever the pieces are, they may be sherds or scans."""
    both = tuple(ModelChoice(name, "fractured pieces or scans") for name in ("scan-small", "fracture-small"))
    module = import_module("eda.assembly.assemble")  # the package has a function of the same name
    monkeypatch.setattr(module, "suitable_models", lambda clouds: both)


def test_of_two_models_the_surer_one_is_believed(puzzle, model, undecided):
    clouds, normals, _ = puzzle
    told: list[Stage] = []
    both = assemble(clouds, normals, config=QUICK, progress=lambda stage, share: told.append(stage))
    said = re.search(r"both models were tried.*\(scan-small (\d+)%, fracture-small (\d+)%\)", both.why)
    assert said is not None
    assert both.model == ("scan-small" if int(said[1]) > int(said[2]) else "fracture-small")
    alone = assemble(clouds, normals, model=both.model, config=QUICK)
    np.testing.assert_array_equal(both.best.poses, alone.best.poses)
    assert alone.why.startswith("given"), "what is named is not doubted"
    assert "tried" not in alone.why
    assert told.index(Stage.RANK) < len(told) - told[::-1].index(Stage.SAMPLE), "every stage, once for each model"


def test_two_models_share_the_time(puzzle, undecided):
    clouds, normals, _ = puzzle
    hurried = AssembleConfig(samples=3 * SAMPLES_AT_ONCE, steps=1, solver="rk1", time_limit=1e-6)
    hasty = assemble(clouds, normals, config=hurried)
    assert hasty.stopped
    assert hasty.best.placed.all(), "samples as they are"
    assert hasty.seconds > 1e-6


@pytest.mark.parametrize(
    "wrong",
    [
        {"solver": "rk9"},
        {"samples": 0},
        {"steps": 0},
        {"rounds": 0},
        {"seed": -1},
        {"time_limit": 0},
        {"time_limit": math.nan},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        AssembleConfig(**wrong)


def test_a_device_that_is_not_there_is_an_input_error(puzzle):
    clouds, normals, _ = puzzle
    for device in ("toaster", "cuda:99"):
        with pytest.raises(InputError, match=f"device '{device}' cannot be used"):
            prepare(clouds, normals, device=device)


# -- what goes in ------------------------------------------------------------------------------------------------------


def test_clouds_without_normals_are_put_together(model):
    clouds, _, truth = scattered(stone(2, 4000), scale=80.0)
    config = AssembleConfig(samples=8, steps=10, solver="rk1")
    assembly = assemble(clouds, model=model, config=config)
    assert assembly.best.placed.all()
    degrees, distance = assembly.compare(truth)
    assert degrees < 10
    assert distance < 0.05


def test_a_model_for_scans_judges_by_overlap():
    network = replace(TINY_NETWORK, normals="absent")
    model = Eda(EdaConfig(network, num_points=120, regime="scan"))
    points, _ = lumpy_cloud(2, 3000)
    clouds = [points[points[:, 0] < 0.4], points[points[:, 0] > -0.4]]
    prepared = prepare(clouds, model=model)
    assert prepared.evidence.rules.name == "scan"
    assert prepared.choice.why == "given"
    config = AssembleConfig(samples=2, steps=1, solver="rk1", ranking=SAMPLED)
    in_place = Trajectory(torch.zeros(1, 2), SE3.from_matrix(_in_place(prepared).expand(1, 2, 2, 4, 4)))
    assembly = prepared.rank(in_place, config)
    assert assembly.best.placed.all()
    assert max(assembly.compare(np.tile(np.eye(4), (2, 1, 1)))) < 2
    assert np.isfinite(assemble(clouds, model=model, config=config).best.poses).all()


def test_a_model_for_fractures_without_a_break_head_takes_any_point_for_a_break(puzzle):
    clouds, normals, _ = puzzle
    prepared = prepare(clouds, normals, model=Eda(EdaConfig(TINY_NETWORK, num_points=120, regime="fracture")))
    assert prepared.evidence.rules.name == "fracture"
    assert all((fragment.break_evidence > 0).all() for fragment in prepared.evidence.fragments)


def test_a_model_without_a_calibration_says_so(puzzle, model):
    clouds, normals, _ = puzzle
    config = replace(QUICK, ranking=RankConfig(refine=False))
    own = Eda(model.config)
    own.load_state_dict(model.state_dict())
    found, calibrated = (assemble(clouds, normals, model=one, config=config) for one in (own, model))
    assert not found.calibrated
    assert found.as_dict()["calibrated"] is False
    assert "not calibrated" in found.why
    assert any("not calibrated" in note for note in found.notes)
    assert found.best.probability == calibrated.best.probability, "those of the model that ships stand in"
    assert calibrated.calibrated
    assert calibrated.notes == []
    assert "calibrated" not in calibrated.why


def test_the_calibration_of_the_model_is_used(puzzle, model):
    clouds, normals, _ = puzzle
    own = Eda(model.config)
    own.load_state_dict(model.state_dict())
    own.calibrations = {kind: replace(one, bias=-50.0) for kind, one in model.calibrations.items()}
    found = assemble(clouds, normals, model=own, config=replace(QUICK, ranking=RankConfig(refine=False)))
    assert found.calibrated
    assert found.best.probability < 1e-6
    own.calibrations = {"joint": model.calibrations["joint"]}
    with pytest.raises(InputError, match="no calibration of 'piece' for the regime fracture"):
        assemble(clouds, normals, model=own, config=QUICK)


def test_the_encoder_runs_once_for_the_break_head_and_once_for_all_samples(puzzle, model, monkeypatch):
    """On an even choice of points, and on one with a focus; with pins, the pieces that they merge are encoded."""
    clouds, normals, truth = puzzle
    calls, descend, match = [], model.network.descend, model.network.match
    monkeypatch.setattr(model.network, "descend", lambda *given: calls.append("encoder") or descend(*given))
    monkeypatch.setattr(model.network, "match", lambda *given: calls.append("correspondences") or match(*given))
    config = replace(QUICK, samples=2 * SAMPLES_AT_ONCE, ranking=RankConfig(refine=False))
    assemble(clouds, normals, model=model, config=config)
    assert sorted(calls) == ["correspondences", "encoder", "encoder"]
    calls.clear()
    assemble(clouds, normals, pins={0: truth[0], 1: truth[1]}, model=model, config=config)
    assert sorted(calls) == ["correspondences", "encoder", "encoder"]


def test_every_stage_is_reported_as_a_stage(puzzle, model):
    clouds, normals, _ = puzzle
    told: list[Stage] = []
    config = replace(QUICK, samples=2, ranking=RankConfig())
    assemble(clouds, normals, model=model, config=config, progress=lambda stage, share: told.append(stage))
    assert all(isinstance(stage, Stage) for stage in told)
    of_scans = {Stage.MATCH, Stage.COMPARE, Stage.REGISTER, Stage.JOIN}
    assert set(told) == set(Stage) - {Stage.READ, Stage.WRITE} - of_scans
    first = [told.index(stage) for stage in Stage if stage in told]
    assert first == sorted(first), "stages begin in the order in which they are declared"


def _in_place(prepared) -> torch.Tensor:
    return torch.from_numpy(prepared.model_input.from_user(np.tile(np.eye(4), (2, 1, 1))))


# -- what comes out ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def assembly(puzzle, model) -> Assembly:
    clouds, normals, _ = puzzle
    patient = replace(QUICK, ranking=RankConfig(refine=False), time_limit=1e6)
    return assemble(clouds, normals, model=model, config=patient)


def test_every_field_of_the_record_is_documented(assembly):
    """The schema's part of the documentation names the fields, each in a row of its own."""
    documented = set(re.findall(r"^\| `(\w+)` \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE))
    record = assembly.as_dict()
    alternative = record["alternatives"][0]
    fields = {*record, "command", *alternative, *alternative["pieces"][0]}
    assert fields <= documented
    assert set(record["settings"]) <= set(re.findall(r"`(\w+)`", DOCS.read_text(encoding="utf-8")))
