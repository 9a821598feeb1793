"""Clips of drives through streets that never were: what their frames share, and `eda streets`."""

import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from scipy.spatial import cKDTree
from support.quiet_commands import quiet_command
from support.small_datasets import lumpy_example

from eda.data import Dataset, Plan, StreetSource, build, open_examples
from eda.data.streets.lidar import HEIGHT, LidarConfig
from eda.errors import InputError

COARSE = LidarConfig(azimuth=1.0)
SMALL = StreetSource(3, 7, (2, 3), (5.0, 8.0), COARSE)

# Of the first street of seed 2: the next random number once it stands, its bodies, their mean place, and the stops.
GOLDEN = {
    "draw": 0.35991478660872445,
    "bodies": 2891,
    "mean": (88.81505083, -4.08329802, 1.23896094),
    "stops": (100.0, 106.0),
    "heights": 1.40505022,
}


def same(first, second):
    """Whether two lists of examples are equal to the last bit, but for the order of the points."""
    return [e.name for e in first] == [e.name for e in second] and all(
        np.array_equal(a.sizes, b.sizes) and np.array_equal(np.sort(a.points, axis=0), np.sort(b.points, axis=0))
        for a, b in zip(first, second, strict=True)
    )


@pytest.fixture(scope="module")
def small():
    """Three clips."""
    return list(SMALL)


@pytest.fixture(scope="module")
def frames():
    """Those of a clip, at a finer azimuth."""
    return StreetSource(1, 3, (3, 3), (6.0, 6.0), LidarConfig(azimuth=0.5)).drive(0)


# -- chance ------------------------------------------------------------------------------------------------


def test_a_clip_depends_on_its_seed_and_number_alone(small):
    assert same([SMALL[2]], small[2:]), "whatever was made before it"
    assert not same([StreetSource(3, 8, (2, 3), (5.0, 8.0), COARSE)[0]], small[:1])
    assert len({len(example.points) for example in small}) == 3


def test_a_worker_makes_the_same_clip(small):
    """In a fresh interpreter, to which the source is sent."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert same([pool.submit(SMALL.__getitem__, 1).result()], small[1:2])


def test_the_streets_of_a_seed_stay_what_they_are():
    """Who changes the order of the draws gives everybody other streets, and resumed datasets of two kinds."""
    rng = np.random.default_rng([2, 0])
    street, stops = StreetSource(seed=2)._street(rng)
    assert rng.random() == pytest.approx(GOLDEN["draw"])
    assert len(street.bodies) == GOLDEN["bodies"]
    np.testing.assert_allclose(np.mean([body.middle for body in street.bodies], axis=0), GOLDEN["mean"], atol=1e-6)
    np.testing.assert_allclose(stops, GOLDEN["stops"], atol=1e-9)
    assert street.plan.ground.heights.std() == pytest.approx(GOLDEN["heights"], abs=1e-5)


# -- what frames share ---------------------------------------------------------------------------------------


def placed(frame):
    return frame.points @ frame.pose.turn.T + frame.pose.place


def apart(first, second):
    """The median distance of points of the first cloud from the plane through 8 points of the second, where near."""
    distance, rows = cKDTree(second).query(first, 8)
    near = distance[:, -1] < 0.5
    around = second[rows[near]]
    middle = around.mean(axis=1)
    spread, normal = np.linalg.svd(around - middle[:, None])[1:]
    flat = spread[:, 2] < 0.05  # where there is a plane at all: a facade, the road, the side of a car
    return np.median(np.abs(((first[near] - middle) * normal[:, 2]).sum(axis=1))[flat])


def test_frames_see_the_same_street_in_the_same_place(frames):
    """Two centimetres of noise; a frame that lies 10 cm or half a degree aside would show."""
    first, second = placed(frames[0]), placed(frames[1])
    assert apart(first, second) < 0.02
    assert apart(first + 0.1, second) > 0.04
    tilt, middle = 0.0087, frames[0].pose.place
    turn = np.array([[1, 0, tilt], [0, 1, tilt], [-tilt, -tilt, 1]])
    assert apart((first - middle) @ turn.T + middle, second) > 0.03


def test_frames_are_as_far_apart_as_asked():
    source = StreetSource(4, 5, (4, 4), (30.0, 40.0), COARSE)
    for item in range(4):
        _, stops = source._street(np.random.default_rng([5, item]))
        assert len(stops) == 4
        assert (np.diff(stops) >= 30).all()
    places = np.array([frame.pose.place for frame in source.drive(1)])
    steps = np.linalg.norm(np.diff(places, axis=0)[:, :2], axis=1)
    assert steps.min() >= 30
    assert steps.max() < 41
    number, count, metres = source[1].name.split("-")
    assert (number, count) == ("000001", "4")
    assert float(metres) == pytest.approx(steps.mean(), abs=0.5)


def test_the_sensor_is_on_the_roof_of_a_car_on_the_road(frames):
    for frame in frames:
        np.testing.assert_allclose(frame.pose.turn.T @ frame.pose.turn, np.eye(3), atol=1e-12)
        assert np.linalg.det(frame.pose.turn) == pytest.approx(1)
        assert frame.pose.turn[2, 2] > 0.95
        ahead = frame.points[(np.abs(frame.points[:, 1]) < 1) & (frame.points[:, 0] > 0) & (frame.points[:, 0] < 6)]
        assert np.median(ahead[:, 2]) == pytest.approx(-HEIGHT, abs=0.15)


def test_of_a_cell_there_is_one_point(frames):
    """Of every cell of half a metre in the frame of the sensor that has any."""
    (example,) = StreetSource(1, 3, (3, 3), (6.0, 6.0), LidarConfig(azimuth=0.5))
    for cloud, frame in zip(example.clouds(), frames, strict=True):
        cells = np.floor((frame.points - frame.points.min(axis=0)) / 0.5)
        assert len(cloud) == len(np.unique(cells, axis=0)) < 0.6 * len(frame.points)


def test_overlap_falls_with_distance(frames):
    clouds = [placed(frame)[::10] for frame in frames]
    near, far = ((cKDTree(clouds[k]).query(clouds[0])[0] < 1.0).mean() for k in (1, 2))
    assert 0.95 > near > far > 0.3


# -- as a source -------------------------------------------------------------------------------------------


def test_clips_are_a_source_of_puzzles(small):
    source = open_examples("streets:clips=3,seed=7,frames=2-3,spacing=5-8,azimuth=1")
    assert len(source) == 3
    assert same(list(source), small)
    for example in small:
        example.check()
        assert example.num_pieces == int(example.name.split("-")[1])
        assert example.contact is None
        assert example.foreign is None
        np.testing.assert_allclose(np.linalg.norm(example.normals, axis=1), 1, atol=1e-5)


def test_normals_are_left_out_if_nobody_wants_them(small):
    (example,) = open_examples("streets:clips=1,seed=7,frames=2-3,spacing=5-8,azimuth=1,neighbors=0")
    assert example.normals is None
    assert np.array_equal(example.points, small[0].points)


def test_thirty_two_beams_give_fewer_points(small):
    (example,) = open_examples("streets:clips=1,seed=7,frames=2-3,spacing=5-8,azimuth=1,beams=32")
    assert len(example.points) < 0.8 * len(small[0].points)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("clips=0", "clips must be a whole number"),
        ("clips=few", "clips must be a whole number, such as 100, got 'few'"),
        ("seed=-1", "seed must be a whole number"),
        ("frames=1", "frames must be a whole number from 2"),
        ("frames=4-2", "frames must be a whole number from 4 to 1000, got 2"),
        ("frames=two", "frames must be a whole number, such as 2, got 'two'"),
        ("spacing=0", "spacing must be a positive number"),
        ("spacing=0.5", "spacing must be from 1 to 1000 metres"),
        ("spacing=20-10", "the lower bound first"),
        ("spacing=nan", "spacing must be a positive number"),
        ("frames=40,spacing=100", "40 frames 100 m apart are more than 3000 m of road"),
        ("beams=16", "beams must be one of 64, 32"),
        ("range=1000", "range must be from 5 to 150"),
        ("azimuth=0", "azimuth must be a positive number"),
        ("distortion=maybe", "distortion must be true or false"),
        ("grid=0", "grid must be a positive number"),
        ("neighbors=-1", "neighbors must be a whole number"),
        ("neighbors=2", "a plane needs three points"),
        ("colour=blue", "streets has no setting 'colour'; it has clips=100, seed=0, frames=2, spacing=5-10"),
    ],
)
def test_settings_that_make_no_sense(words, message):
    with pytest.raises(InputError, match=message):
        open_examples(f"streets:{words}")


# -- the command -------------------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch, capsys):
    """`eda streets` in this process: its exit code, and what it printed."""
    return quiet_command("streets", monkeypatch, capsys)


FEW = ("--clips", 3, "--seed", 7, "--frames", "2-3", "--spacing", "5-8", "--azimuth", 1, "--workers", 1)


def test_a_dataset_of_streets(command, small, tmp_path):
    code, output = command(tmp_path / "set", *FEW)
    assert code == 0, output
    assert "set: 3 clips" in output.replace("\n", "")
    assert same(list(Dataset(tmp_path / "set")), small)
    manifest = json.loads((tmp_path / "set" / "dataset.json").read_text())
    assert (manifest["made_by"], manifest["seed"], manifest["shard_size"]) == ("eda streets", 7, 50)
    assert manifest["config"] == {"frames": [2, 3], "spacing": [5.0, 8.0], "grid": 0.5, "neighbors": 16}
    assert manifest["lidar"] == {"beams": "64", "azimuth": 1.0, "range": 80.0, "distortion": False}


def test_interrupted_work_goes_on(command, small, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["eda.cli.streets"], "SHARD_SIZE", 1)  # the package has a function of that name
    make = StreetSource.read

    def stopping(self: StreetSource, item: int):
        if item == 1:
            raise KeyboardInterrupt
        return make(self, item)

    with monkeypatch.context() as patched:
        patched.setattr(StreetSource, "read", stopping)
        assert command(tmp_path / "set", *FEW)[0] == 130
    first = tmp_path / "set" / "shard-00000.safetensors"
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == ["dataset.json", first.name]
    before = first.stat().st_mtime_ns
    assert command(tmp_path / "set", *FEW)[0] == 0
    assert first.stat().st_mtime_ns == before
    assert same(list(Dataset(tmp_path / "set")), small)


def test_a_folder_with_something_else_is_refused(command, tmp_path):
    build(Plan(lambda item: [lumpy_example(item, num_pieces=2)], 1, {"made": "lumps"}), tmp_path / "set")
    before = {path: path.read_bytes() for path in (tmp_path / "set").iterdir()}
    code, output = command(tmp_path / "set", *FEW)
    assert code == 2
    assert "holds another dataset" in output
    assert {path: path.read_bytes() for path in (tmp_path / "set").iterdir()} == before


REFUSED = {
    "no clips": (("--clips", 0), "--clips"),
    "a single frame": (("--frames", "1"), "frames must be a whole number from 2"),
    "frames in words": (("--frames", "many"), "frames must be a whole number, such as 2, got 'many'"),
    "no way between frames": (("--spacing", "0"), "spacing must be a positive number"),
    "another lidar": (("--beams", "16"), "beams must be one of 64, 32"),
    "a range of nothing": (("--range", 1), "range must be from 5 to 150"),
    "a negative seed": (("--seed", -1), "--seed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_options_are_refused_before_anything_is_made(command, tmp_path, name):
    words, message = REFUSED[name]
    code, output = command(tmp_path / "set", *words)
    assert code == 2
    assert message in output
    assert not (tmp_path / "set").exists()
