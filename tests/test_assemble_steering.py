"""How a user steers `assemble` from Python: pins, limits, models, clouds without normals or of millions of points."""

import math
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from support.shapes import TINY_NETWORK, lumpy_cloud
from support.stones import motions, scattered, stone

from eda import AssembleConfig, Assembly, Eda, EdaConfig, InputError, assemble, prepare
from eda.assembly import Clouds, RankConfig, Scan
from eda.assembly.assemble import SAMPLES_AT_ONCE, _side_by_side
from eda.assembly.clouds import MOST_CHOSEN
from eda.flow import Trajectory
from eda.lie import SE3

SAMPLED = RankConfig(propose=None)  # nothing from geometry, which is what takes time
QUICK = AssembleConfig(samples=4, steps=4, solver="rk1", ranking=SAMPLED)
DOCS = Path(__file__).parents[1] / "docs" / "assemble.md"


@pytest.fixture(scope="module")
def model() -> Eda:
    return Eda.load("fracture-small")


@pytest.fixture(scope="module")
def puzzle() -> tuple[list, list, np.ndarray]:
    """Three pieces of a stone apart, and the motions that put them back, far from the origin."""
    clouds, normals, truth = scattered(stone(3, 2400), scale=80.0)
    return clouds, normals, motions(np.eye(3)[None], np.array([[5e5, -2e5, 300.0]])) @ truth


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
    assert max(held.compare(free)) < 1e-3


def test_where_nothing_fits_only_the_pins_have_a_place(puzzle, model):
    clouds, normals, truth = puzzle
    nowhere = replace(QUICK, ranking=replace(SAMPLED, pool=replace(SAMPLED.pool, least_gain=1e9)))
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
    samples = prepared.thinned.to_user(trajectory.final.to(torch.float64).matrix().numpy())
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


def test_samples_of_different_lengths_stay_at_their_end():
    def walk(steps: int, samples: int) -> Trajectory:
        places = torch.arange(steps * samples * 2.0).reshape(steps, samples, 2, 1).expand(-1, -1, -1, 3)
        turns = torch.eye(3).expand(steps, samples, 2, 3, 3)
        return Trajectory(torch.linspace(0, 1, steps)[:, None].expand(-1, samples), SE3(turns, places))

    short, long = walk(3, 2), walk(5, 1)
    both = _side_by_side([short, long])
    assert both.poses.shape == (5, 3, 2)
    torch.testing.assert_close(both.final.translation[:2], short.final.translation)
    torch.testing.assert_close(both.poses.translation[2:, :2], short.final.translation.expand(3, -1, -1, -1))
    torch.testing.assert_close(both.poses.translation[:, 2:], long.poses.translation)
    assert both.taus.tolist()[-1] == [1, 1, 1]


def test_an_adaptive_solver_may_take_other_steps_in_every_batch(puzzle):
    clouds, normals, _ = puzzle
    told: list[float] = []
    prepared = prepare(clouds, normals, model=Eda(EdaConfig(TINY_NETWORK, num_points=120)))
    config = AssembleConfig(samples=SAMPLES_AT_ONCE + 1, steps=4, solver="adaptive")
    trajectory = prepared.sample(config, progress=lambda what, done: told.append(done))
    assert trajectory.final.shape == (SAMPLES_AT_ONCE + 1, 3)
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1)


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


def test_normals_may_be_known_of_some_pieces():
    (first, normals), (second, _) = lumpy_cloud(0, 300), lumpy_cloud(1, 300)
    clouds = Clouds.of([first, torch.from_numpy(second)], [5 * normals, None])
    np.testing.assert_allclose(clouds.normals[0], normals)
    np.testing.assert_allclose(np.linalg.norm(clouds.normals[1], axis=1), 1)
    assert clouds.estimated.tolist() == [False, True]


def test_clouds_that_cannot_be_pieces_are_refused():
    good, normals = lumpy_cloud(0, 300)
    many = np.zeros((MOST_CHOSEN + 1, 3))
    many[:, 0] = np.arange(len(many))
    many[-1] = np.nan
    for clouds, directions, message in (
        ([good], None, "at least 2 pieces"),
        ([good, good[:3]], None, "at least 4"),
        ([good, many], None, "piece 1 has points with NaN"),
        ([good, good], [normals], "2 pieces but normals for 1"),
        ([good, good], [normals, normals[:5]], "points but"),
        ([good, [[1, 2, 3], [1]]], None, "not an array of numbers"),
        ([good, good], [normals, 0 * normals], "zero"),
    ):
        with pytest.raises(InputError, match=message):
            Clouds.of(clouds, directions)


def test_millions_of_points_take_little_memory():
    many = np.random.default_rng(0).standard_normal((2_000_000, 3))  # each its own normal, but for the length
    tracemalloc.start()
    few = Clouds.of([many, many], [many, many])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [len(cloud) for cloud in few.points] == [MOST_CHOSEN, MOST_CHOSEN]
    assert peak < many.nbytes
    assert np.abs(few.points[0].mean(axis=0)).max() < 0.05
    length = np.linalg.norm(few.points[0], axis=1, keepdims=True)
    np.testing.assert_allclose(few.normals[0] * length, few.points[0])


def test_what_is_left_out_does_not_depend_on_the_order_of_the_pieces():
    clouds = [lumpy_cloud(seed, MOST_CHOSEN + 500)[0] for seed in (0, 1)]
    here, there = Clouds.of(clouds, clouds, seed=3), Clouds.of(clouds[::-1], clouds[::-1], seed=3)
    np.testing.assert_array_equal(here.points[0], there.points[1])
    assert not np.array_equal(here.points[0], Clouds.of(clouds, clouds, seed=4).points[0])


def test_a_model_without_a_break_head_judges_by_overlap():
    network = replace(TINY_NETWORK, normals="absent")
    model = Eda(EdaConfig(network, num_points=120))
    points, _ = lumpy_cloud(2, 3000)
    clouds = [points[points[:, 0] < 0.4], points[points[:, 0] > -0.4]]
    prepared = prepare(clouds, model=model)
    evidence = prepared.thinned.evidence(model)
    assert isinstance(evidence.regime, Scan)
    assert prepared.choice.why == "given"
    config = AssembleConfig(samples=2, steps=1, solver="rk1", ranking=SAMPLED)
    in_place = Trajectory(torch.zeros(1, 2), SE3.from_matrix(_in_place(prepared).expand(1, 2, 2, 4, 4)))
    assembly = prepared.rank(in_place, config)
    assert assembly.best.placed.all()
    assert max(assembly.compare(np.tile(np.eye(4), (2, 1, 1)))) < 2
    assert np.isfinite(assemble(clouds, model=model, config=config).best.poses).all()


def _in_place(prepared) -> torch.Tensor:
    return torch.from_numpy(prepared.thinned.from_user(np.tile(np.eye(4), (2, 1, 1))))


# -- what comes out ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def assembly(puzzle, model) -> Assembly:
    clouds, normals, _ = puzzle
    patient = replace(QUICK, ranking=RankConfig(refine=False), time_limit=1e6)
    return assemble(clouds, normals, model=model, config=patient)


def test_a_motion_of_the_whole_makes_no_difference(assembly):
    whole = motions(Rotation.random(1, random_state=1).as_matrix(), np.array([[300.0, 0, -50]]))
    assert max(assembly.compare(whole @ assembly.best.poses)) < 1e-6
    assert assembly.compare(assembly) == assembly.compare(assembly.best) == assembly.compare(assembly.best.poses)


def test_a_turned_piece_makes_a_difference_that_is_known(assembly):
    """Turned about its own middle by ten degrees: the others are off by that angle as it sees them."""
    middles = np.stack([cloud.mean(axis=0) for cloud in assembly.clouds.points])
    places = np.einsum("nij,nj->ni", assembly.best.poses[:, :3, :3], middles) + assembly.best.poses[:, :3, 3]
    axis = np.cross(places[0] - places[1], places[0] - places[2])  # so both others move by the whole angle
    turn = Rotation.from_rotvec(math.radians(10) * axis / np.linalg.norm(axis)).as_matrix()
    other = assembly.best.poses.copy()
    other[0] = motions(turn[None], (places[0] - turn @ places[0])[None])[0] @ other[0]
    moved = 2 * math.sin(math.radians(5)) * np.linalg.norm(places[1:] - places[0], axis=1).sum()
    degrees, distance = assembly.compare(other)
    assert degrees == pytest.approx(10 * 4 / 6), "four of six ordered pairs"
    assert distance == pytest.approx(moved / 6 / assembly.size)


def test_only_what_is_placed_in_both_is_compared(assembly):
    best = assembly.best
    away = best.poses.copy()
    away[0, :3, 3] += 1000
    left_out = replace(best, poses=away, placed=np.array([False, True, True]))
    assert max(assembly.compare(left_out)) < 1e-9
    with pytest.raises(InputError, match="fewer than two"):
        assembly.compare(replace(best, placed=np.array([False, False, True])))
    with pytest.raises(InputError, match="expected motions"):
        assembly.compare(best.poses[:2])


def test_every_field_of_the_record_is_documented(assembly):
    """The schema's part of the documentation names the fields, each in a row of its own."""
    documented = set(re.findall(r"^\| `(\w+)` \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE))
    record = assembly.as_dict()
    alternative = record["alternatives"][0]
    fields = {*record, "command", *alternative, *alternative["pieces"][0]}
    assert fields <= documented
    assert set(record["settings"]) <= set(re.findall(r"`(\w+)`", DOCS.read_text(encoding="utf-8")))
