"""Rooms that never were: what two scans of one share, what a camera can see, and `eda rooms`."""

import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from support.closed_meshes import BOX, BOX_FACES, box_mesh, stl
from support.quiet_commands import quiet_command
from support.small_datasets import lumpy_example

from eda.data import Dataset, Plan, RoomSource, build, open_examples, open_meshes
from eda.data.meshes import Mesh
from eda.data.rooms.building import _object, room
from eda.data.rooms.depth_camera import camera_frame, visible
from eda.data.rooms.room_surface import SurfacePoints
from eda.data.rooms.scan_fusion import scan_surface
from eda.data.rooms.walk import paths
from eda.data.source import LeftOut
from eda.errors import InputError

SMALL = RoomSource(7, scans=4, pairs=3)

# Of the first room of seed 2: the next random number once it is furnished, its sample, and where ten scans end (mean).
GOLDEN = {
    "draw": 0.09052036010584485,
    "points": 358517,
    "mean": (2.36861, 2.16713, 1.14615),
    "place": (2.92609667, 1.75412268, 1.50674681),
}


def same(first, second):
    """Whether two lists of examples are equal to the last bit, but for the order of the points."""
    return [e.name for e in first] == [e.name for e in second] and all(
        len(a.points) == len(b.points) and np.array_equal(np.sort(a.points, axis=0), np.sort(b.points, axis=0))
        for a, b in zip(first, second, strict=True)
    )


@pytest.fixture(scope="module")
def small():
    """The pairs of two rooms."""
    return [SMALL.pairs_of_room(0), SMALL.pairs_of_room(1)]


@pytest.fixture(scope="module")
def pairs():
    """Pairs as training gets them, of two rooms."""
    source = RoomSource(7)
    return source.pairs_of_room(0) + source.pairs_of_room(1)


@pytest.fixture(scope="module")
def walked():
    """A furnished room, paths through it, and what was scanned on them."""
    rng = np.random.default_rng([7, 0])
    ground, surface = room(rng, None)
    ways = paths(rng, ground, 5)
    return surface, ways, [scan_surface(surface, way, rng) for way in ways]


# -- chance ------------------------------------------------------------------------------------------------


def test_a_room_depends_on_its_seed_and_number_alone(small):
    assert same(SMALL.pairs_of_room(1), small[1]), "whatever was made before it"
    assert not any(np.array_equal(a.points, b.points) for a in small[0] for b in small[1])
    other = RoomSource(8, scans=4, pairs=3).pairs_of_room(1)
    assert not any(np.array_equal(a.points, b.points) for a in other for b in small[1])


def test_a_worker_makes_the_same_room(small):
    """In a fresh interpreter, to which the source is sent."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert same(pool.submit(SMALL.pairs_of_room, 1).result(), small[1])


def test_the_rooms_of_a_seed_stay_what_they_are():
    """Who changes the order of the draws gives everybody other rooms, and resumed datasets of two kinds."""
    rng = np.random.default_rng([2, 0])
    ground, surface = room(rng, None)
    assert rng.random() == pytest.approx(GOLDEN["draw"], abs=1e-12)
    assert len(surface.points) == pytest.approx(GOLDEN["points"], abs=2)
    np.testing.assert_allclose(surface.points.mean(axis=0, dtype=float), GOLDEN["mean"], atol=1e-3)
    ends = [way[-1].place for way in paths(rng, ground, 10)]
    np.testing.assert_allclose(np.mean(ends, axis=0), GOLDEN["place"], atol=1e-6)


# -- what pairs share --------------------------------------------------------------------------------------


def overlap_of(example):
    """As its name claims it."""
    return float(example.name.split("-")[-1])


def test_pairs_share_what_their_name_says(pairs):
    """A little beyond the 7.5 cm at which it is defined, since the clouds were thinned to just that."""
    for pair in pairs:
        first, second = pair.clouds()
        measured = (cdist(first, second).min(axis=1) < 0.09).mean()
        assert measured == pytest.approx(overlap_of(pair), abs=0.06), pair.name


def test_overlaps_are_of_all_kinds_but_hardly_any(pairs):
    overlaps = np.array([overlap_of(pair) for pair in pairs])
    assert len(pairs) == 20
    assert not ((overlaps > 0) & (overlaps < 0.1)).any()
    for low, high in ((0.1, 0.3), (0.3, 0.6), (0.6, 1)):
        assert ((overlaps >= low) & (overlaps < high)).sum() >= 2


def apart(first, second):
    """The median distance of points of the first cloud from the plane through 8 points of the second, where near."""
    distance = cdist(first, second)
    shared = np.flatnonzero(distance.min(axis=1) < 0.09)
    around = second[np.argsort(distance[shared], axis=1)[:, :8]].astype(float)
    middle = around.mean(axis=1)
    normal = np.linalg.svd(around - middle[:, None])[2][:, 2]
    return np.median(np.abs(((first[shared] - middle) * normal).sum(axis=1)))


def test_scans_of_the_same_place_agree(pairs):
    """To about a centimetre and a half, with two errors of pose and of depth; a wrong place would show."""
    found, wrong = [], []
    for pair in pairs:
        if overlap_of(pair) >= 0.2:
            first, second = pair.clouds()
            assert np.median(np.sort(cdist(first, second).min(axis=1))[: len(first) // 6]) < 0.06
            found.append(apart(first, second))
            wrong.append(apart(first + np.float32(0.08), second))
    assert max(found) < 0.03
    assert np.median(found) < 0.016
    assert np.median(wrong) > 1.5 * np.median(found)


def test_normals_are_unit_and_stand_on_the_surface(pairs):
    for pair in pairs[::4]:
        for cloud, normals in zip(pair.clouds(), pair.clouds(pair.normals), strict=True):
            np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, atol=1e-5)
            around = cloud[np.argsort(cdist(cloud, cloud), axis=1)[:, :8]].astype(float)
            flat = np.linalg.svd(around - around.mean(axis=1, keepdims=True))[2][:, 2]
            assert np.median(np.abs((flat * normals).sum(axis=1))) > 0.95


def test_scans_have_the_size_of_real_ones(pairs):
    """Fused in a cube of 3 m, whose diagonal is 5.2 m, and on average as 62 fragments of 3DMatch, to a third."""
    extents = []
    for pair in pairs:
        assert (pair.sizes > 300).all()
        assert (pair.sizes < 4500).all()
        for cloud in pair.clouds():
            axes = np.linalg.svd(cloud - cloud.mean(axis=0), full_matrices=False)[2]
            extents.append(np.ptp(cloud @ axes.T, axis=0))
    assert np.max(extents) < 5.3
    np.testing.assert_allclose(np.mean(extents, axis=0), (2.93, 2.26, 1.33), rtol=0.33)


def test_of_a_cell_there_is_one_point(walked):
    """At 5 cm where it is fused, at 7.5 cm where it is given out; in the frame of the camera."""
    exact = RoomSource(misfit=(0, 0))
    for scan in walked[2]:
        assert len(np.unique(np.floor(scan.points / 0.05), axis=0)) == len(scan.points)
        given, _ = exact._placed_scan(scan, np.random.default_rng(0))
        local = (given - scan.frame.place) @ scan.frame.turn
        cells = np.floor((local - scan.points.min(axis=0)) / 0.075 + 1e-9)
        assert len(np.unique(cells, axis=0)) == len(given) < 0.8 * len(scan.points)


# -- what a camera sees ------------------------------------------------------------------------------------

HALF_WIDTH = np.tan(np.radians(29))  # of a picture, at a depth of one
HALF_HEIGHT = 0.75 * HALF_WIDTH


def inside_a_picture(points, frame, slack):
    """(n,) which points lie between 0.4 and 4.2 m ahead and in the field of view, or nearly."""
    x, y, z = np.linalg.solve(frame.turn, (points - frame.place).T)
    wide, high = HALF_WIDTH * z + slack, HALF_HEIGHT * z + slack
    return (z > 0.4 - slack) & (z < 4.2 + slack) & (np.abs(x) < wide) & (np.abs(y) < high)


def test_a_scan_holds_what_one_of_its_frames_could_see(walked):
    """To half the 5 cm of a cell, in which points of several frames are joined."""
    for way, scan in zip(walked[1], walked[2], strict=True):
        assert len(scan.true) > 300
        pictures = np.array([inside_a_picture(scan.true, frame, 0.025) for frame in way])
        assert pictures.any(axis=0).all()
        assert not pictures[0].all(), "no more than its first frame"
        x, y, z = np.linalg.solve(way[0].turn, (scan.true - way[0].place).T)
        assert max(np.abs(x).max(), np.abs(y).max()) < 1.51
        assert 0.49 < z.min() < z.max() < 3.51


def test_a_scan_lies_on_the_surface_and_is_measured_nearly_right(walked):
    surface, _, scans = walked
    tree = cKDTree(surface.points)
    for scan in scans:
        some = np.random.default_rng(0).choice(len(scan.true), 200, replace=False)
        assert np.median(tree.query(scan.true[some])[0]) < 0.02
        off = np.linalg.norm(scan.points @ scan.frame.turn.T + scan.frame.place - scan.true, axis=1)
        assert 0.001 < np.median(off) < 0.03
        assert off.max() < 0.15


def wall(x, y=(-1.0, 1.0), *, facing=-1.0, reach=9.0):
    """A wall across the x axis around eye height, as points 2 cm apart that can be seen from one side."""
    across, up = (v.ravel() for v in np.meshgrid(np.arange(*y, 0.02), np.arange(0.4, 1.6, 0.02)))
    points = np.stack([np.full(len(across), x), across, up], axis=1)
    normals = np.tile([facing, 0, 0], (len(points), 1))
    return SurfacePoints(points.astype("f4"), normals.astype("f4"), np.full(len(points), reach, dtype="f4"))


def both(first, second):
    return SurfacePoints(*(np.concatenate(arrays) for arrays in zip(first, second, strict=True)))


AHEAD = camera_frame(np.array([0.0, 0.0, 1.0]), yaw=0.0, pitch=0.0, roll=0.0)


def test_a_wall_hides_what_is_behind_it():
    near, far = wall(1.5), wall(2.0)
    rows = visible(both(near, far), AHEAD)
    expected = inside_a_picture(near.points, AHEAD, 0)
    assert len(rows) > 1000
    assert set(rows) == set(np.flatnonzero(expected)), "all of the nearer one that is in the picture, and no more"
    assert len(visible(far, AHEAD)) > 1000, "alone, it is seen"


def test_half_a_wall_hides_half_of_what_is_behind_it():
    """But for a rim of two pixels, since a depth image does not know where in a pixel an edge is."""
    near, far = wall(1.0, (0.0, 1.0)), wall(2.0)
    rows = visible(both(near, far), AHEAD)
    behind = np.zeros(len(far.points), dtype=bool)
    behind[rows[rows >= len(near.points)] - len(near.points)] = True
    inside, across, rim = inside_a_picture(far.points, AHEAD, 0), far.points[:, 1], 2 * 2.0 * HALF_WIDTH / 48
    assert not behind[across > 0.01].any()
    assert behind[inside & (across < -rim)].all()


@pytest.mark.parametrize(
    ("surface", "why"),
    [
        (wall(2.0, facing=1.0), "its back"),
        (wall(2.0, reach=1.9), "dark"),
        (wall(4.5), "too far"),
        (wall(0.3), "too near"),
        (wall(-2.0, facing=1.0), "behind the camera"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_measured(surface, why):
    assert len(visible(surface, AHEAD)) == 0, why


def test_a_camera_looks_where_it_is_told():
    frame = camera_frame(np.array([1.0, 2.0, 1.5]), yaw=np.pi / 2, pitch=-0.3, roll=0.0)
    np.testing.assert_allclose(frame.turn @ frame.turn.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(frame.turn) == pytest.approx(1)
    np.testing.assert_allclose(frame.turn[:, 2], [0, np.cos(0.3), -np.sin(0.3)], atol=1e-12)
    np.testing.assert_allclose(frame.turn[:, 0], [1, 0, 0], atol=1e-12)


# -- objects -----------------------------------------------------------------------------------------------


@pytest.fixture
def crates(tmp_path):
    """A mesh in some other unit, far from its origin."""
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "crate.stl").write_bytes(stl(box_mesh((20, 10, 5), (300, 100, -50))))
    return tmp_path / "objects"


def test_objects_of_any_unit_are_put_about(crates):
    objects = open_meshes(crates)
    mesh = _object(objects, 0, 0.4, np.random.default_rng(0))
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    assert sorted(high - low) == pytest.approx([0.1, 0.2, 0.4])
    assert low[2] == pytest.approx(0)
    np.testing.assert_allclose((low + high)[:2], 0, atol=1e-9)
    _, surface = room(np.random.default_rng(1), objects)
    assert np.ptp(surface.points, axis=0).max() < 12
    with_crates, without = RoomSource(7, objects, scans=3, pairs=2), RoomSource(7, scans=3, pairs=2)
    assert not same(with_crates.pairs_of_room(0), without.pairs_of_room(0))
    assert with_crates.description()["objects"] == ["crate"]


# -- as a source -------------------------------------------------------------------------------------------


def test_rooms_are_a_source_of_puzzles(small, monkeypatch):
    made, make = [], RoomSource.pairs_of_room
    monkeypatch.setattr(RoomSource, "pairs_of_room", lambda self, item: made.append(item) or make(self, item))
    source = open_examples("rooms:rooms=2,seed=7,scans=4,pairs=3")
    assert len(source) == 6
    assert made == []
    assert same(list(source), small[0] + small[1])
    assert made == [0, 1], "each room once"


def test_a_room_may_give_fewer_pairs_than_wanted():
    source = open_examples("rooms:rooms=1,seed=7,scans=3,pairs=50")
    names = {pair.name for pair in source}
    assert len(source) == 50
    assert 1 <= len(names) <= 6, "three scans make no more ordered pairs"
    with pytest.raises(LeftOut, match=f"room 0 has {len(names)} pairs"):
        source[len(names)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("rooms=0", "rooms must be a whole number"),
        ("rooms=few", "rooms must be a whole number, such as 10, got 'few'"),
        ("seed=-1", "seed must be a whole number"),
        ("colour=blue", "rooms has no setting 'colour'; it has rooms=10, seed=0, scans=14, pairs=10, objects="),
        ("objects=nowhere", "nowhere: no such file"),
    ],
)
def test_settings_that_make_no_sense(words, message):
    with pytest.raises(InputError, match=message):
        open_examples(f"rooms:{words}")


@pytest.mark.parametrize(
    "settings", [{"scans": 1}, {"pairs": 0}, {"grid": 0}, {"near": -1.0}, {"neighbors": 2}, {"misfit": (0.0, -1.0)}]
)
def test_a_source_checks_its_settings(settings):
    (name,) = settings
    with pytest.raises(InputError, match=name):
        RoomSource(**settings)


# -- the command -------------------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch, capsys):
    """`eda rooms` in this process: its exit code, and what it printed."""
    return quiet_command("rooms", monkeypatch, capsys)


FEW = ("--rooms", 2, "--scans", 4, "--pairs", 3, "--seed", 7, "--workers", 1)


def test_a_dataset_of_rooms(command, small, tmp_path):
    code, output = command(tmp_path / "set", *FEW)
    assert code == 0, output
    assert "set: 6 pairs of scans of 2 rooms" in output.replace("\n", "")
    assert same(list(Dataset(tmp_path / "set")), small[0] + small[1])
    manifest = json.loads((tmp_path / "set" / "dataset.json").read_text())
    assert (manifest["seed"], manifest["config"]["scans"], manifest["config"]["pairs"]) == (7, 4, 3)
    assert (manifest["shard_size"], manifest["objects"]) == (25, [])


def test_interrupted_work_goes_on(command, small, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["eda.cli.rooms"], "SHARD_SIZE", 1)  # the package has a function of that name
    make = RoomSource.pairs_of_room

    def stopping(self: RoomSource, item: int):
        if item == 1:
            raise KeyboardInterrupt
        return make(self, item)

    with monkeypatch.context() as patched:
        patched.setattr(RoomSource, "pairs_of_room", stopping)
        assert command(tmp_path / "set", *FEW)[0] == 130
    first = tmp_path / "set" / "shard-00000.safetensors"
    assert files(tmp_path / "set") == ["dataset.json", first.name]
    before = first.stat().st_mtime_ns
    assert command(tmp_path / "set", *FEW)[0] == 0
    assert first.stat().st_mtime_ns == before
    assert same(list(Dataset(tmp_path / "set")), small[0] + small[1])


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_with_something_else_is_refused(command, tmp_path):
    build(Plan(lambda item: [lumpy_example(item, num_pieces=2)], 1, {"made": "lumps"}), tmp_path / "set")
    before = {path: path.read_bytes() for path in (tmp_path / "set").iterdir()}
    code, output = command(tmp_path / "set", *FEW)
    assert code == 2
    assert "holds another dataset" in output
    assert {path: path.read_bytes() for path in (tmp_path / "set").iterdir()} == before
    (tmp_path / "letter.txt").write_text("dear")
    code, output = command(tmp_path, *FEW)
    assert code == 2
    assert "not empty, and not a dataset" in output


REFUSED = {
    "no rooms": (("--rooms", 0), "--rooms"),
    "a single scan": (("--scans", 1), "scans must be a whole number from 2 to 1000, got 1"),
    "no pairs": (("--pairs", 0), "pairs must be a whole number from 1"),
    "a negative seed": (("--seed", -1), "--seed"),
    "a number in words": (("--rooms", "many"), "--rooms"),
    "licences of nothing": (("--licences", "CC BY"), "--licences chooses among the meshes of a pack"),
    "no objects": (("--objects", "nowhere"), "nowhere: no such file or folder"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_options_that_make_no_sense(command, tmp_path, name):
    options, message = REFUSED[name]
    code, output = command(tmp_path / "set", *FEW, *options)
    assert code == 2
    assert message in " ".join(output.split())
    assert not (tmp_path / "set").exists()


def test_an_object_that_is_not_closed_is_named_before_the_work(command, crates, tmp_path):
    (crates / "open.stl").write_bytes(stl(Mesh(BOX, BOX_FACES[2:])))
    code, output = command(tmp_path / "set", *FEW, "--objects", crates)
    assert code == 2
    assert "open.stl: not a closed surface" in output
    assert not (tmp_path / "set").exists()
