"""The report as text: what is embedded can be read back, foreign text stays text, and bad input is refused."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from reference import haar_rotations
from support.shapes import lumpy_cloud

from eda import InputError
from eda.view.colors import PIECES
from eda.view.report import Alternative, Piece, Scene, render_report, write_report

HOSTILE = "</script><script>alert('1')</script><img src=x onerror=alert(2)> &amp; \" ' {{scripts}} \u2028 Gefäß \udc80"


def rigid(rotations: np.ndarray, translations: np.ndarray) -> np.ndarray:
    poses = np.zeros((*rotations.shape[:-2], 4, 4))
    poses[..., :3, :3], poses[..., :3, 3], poses[..., 3, 3] = rotations, translations, 1
    return poses


def random_poses(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rotations = haar_rotations(int(np.prod(shape)), seed).numpy().reshape(*shape, 3, 3)
    return rigid(rotations, 2 * rng.normal(size=(*shape, 3)))


def scene_of(num_pieces: int = 3, size: int = 80, **given) -> Scene:
    clouds = [lumpy_cloud(i, size + i) for i in range(num_pieces)]
    pieces = [Piece(f"piece {i}", points, normals) for i, (points, normals) in enumerate(clouds)]
    return Scene(**{"title": "Pot", "pieces": pieces, "alternatives": [Alternative(random_poses(num_pieces))], **given})


def contents(page: str) -> dict:
    """What the page is told, read as a browser would: up to the first end of a script."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script', page, re.DOTALL)[1])


def array(text: str, dtype: str, *shape: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype).reshape(*shape)


def drawn_points(told: dict, piece: int, alternative: int = 0, frame: int = -1) -> np.ndarray:
    """The points of a piece where the page draws them, by the rule of its vertex shader; in radii."""
    given, chosen = told["pieces"][piece], told["alternatives"][alternative]
    x, y, z, w, *center = array(chosen["track"], "<f4", chosen["frames"], len(told["pieces"]), 7)[frame, piece]
    places = np.array(given["low"]) + np.array(given["extent"]) * array(given["places"], "<u2", -1, 3) / 65535
    axis = np.array([x, y, z], dtype=np.float64)
    turned = places + 2 * np.cross(axis, np.cross(axis, places) + w * places)
    return turned + center


# -- geometry --------------------------------------------------------------------------------------------------------


def test_points_are_drawn_where_the_poses_put_them():
    scene = scene_of()
    told = contents(render_report(scene))
    expected = [
        p.points @ g[:3, :3].T + g[:3, 3] for p, g in zip(scene.pieces, scene.alternatives[0].poses, strict=True)
    ]
    middle = (np.concatenate(expected).min(axis=0) + np.concatenate(expected).max(axis=0)) / 2
    for i, points in enumerate(expected):
        np.testing.assert_allclose(drawn_points(told, i) * told["scale"] + middle, points, atol=2e-4)


def test_normals_and_disc_sizes_fit_in_bytes():
    scene = scene_of()
    given = contents(render_report(scene))["pieces"][0]
    shapes = array(given["shapes"], "i1", -1, 4) / 127
    np.testing.assert_allclose(shapes[:, :3], scene.pieces[0].normals, atol=0.005)
    assert shapes[:, 3].min() > 0
    assert shapes[:, 3].max() == 1
    assert given["oriented"]


def test_normals_that_are_missing_are_estimated():
    """On a plane they are those of the plane."""
    plane = np.random.default_rng(0).uniform(size=(60, 3)) * [1, 1, 0]
    scene = scene_of(pieces=[Piece("plane", plane)], alternatives=[Alternative(random_poses(1))])
    given = contents(render_report(scene))["pieces"][0]
    np.testing.assert_allclose(np.abs(array(given["shapes"], "i1", -1, 4)[:, :3]), [[0, 0, 127]] * 60, atol=1)
    assert not given["oriented"]


def test_meshes_keep_their_faces():
    faces = np.array([[0, 1, 2], [2, 3, 0]])
    square = Piece("square", np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0.0]]), faces=faces)
    given = contents(render_report(scene_of(pieces=[square], alternatives=[Alternative(random_poses(1))])))["pieces"][0]
    assert array(given["faces"], "<u4", -1, 3).tolist() == faces.tolist()


def test_georeferenced_coordinates_keep_their_digits():
    far = np.array([4e6, 5e6, 300.0])
    near = scene_of(1, alternatives=[Alternative(np.eye(4)[None])])
    moved = replace(near, pieces=[replace(near.pieces[0], points=near.pieces[0].points + far)])
    here, there = (drawn_points(contents(render_report(scene)), 0) for scene in (near, moved))
    np.testing.assert_allclose(there, here, atol=2e-5)


# -- time and alternatives -------------------------------------------------------------------------------------------


def test_the_last_frame_is_the_assembly_whether_the_trajectory_reaches_it_or_not():
    scene = scene_of()
    poses, way = scene.alternatives[0].poses, random_poses(5, 3, seed=1)
    arriving = np.concatenate([way, poses[None]])
    still, refined, reached = (
        contents(render_report(replace(scene, alternatives=[Alternative(poses, trajectory=t)])))
        for t in (None, way, arriving)
    )
    assert [told["alternatives"][0]["frames"] for told in (still, refined, reached)] == [1, 6, 6]
    for i in range(3):
        for told in (refined, reached):
            np.testing.assert_allclose(drawn_points(told, i), drawn_points(still, i), atol=1e-6)
        start = contents(render_report(replace(scene, alternatives=[Alternative(poses), Alternative(way[0])])))
        np.testing.assert_allclose(drawn_points(refined, i, frame=0), drawn_points(start, i, 1), atol=1e-6)


def test_pieces_without_a_place_lie_below_the_others_and_side_by_side():
    unplaced = np.array([False, True, False, True])
    poses, way = random_poses(4), random_poses(6, 4, seed=1)
    told = contents(render_report(scene_of(4, alternatives=[Alternative(poses, unplaced=unplaced, trajectory=way)])))
    view = np.reshape(told["view"], (3, 3))  # right, up, towards the viewer
    seen = [drawn_points(told, i) @ view.T for i in range(4)]
    lowest = min(seen[0][:, 1].min(), seen[2][:, 1].min())
    assert max(seen[1][:, 1].max(), seen[3][:, 1].max()) < lowest
    assert seen[1][:, 0].max() < seen[3][:, 0].min()
    assert told["alternatives"][0]["placed"] == [True, False, True, False]


def test_pieces_without_a_place_start_where_their_trajectory_does():
    poses, way = random_poses(2), random_poses(6, 2, seed=1)
    scene = scene_of(2)
    for unplaced in (np.array([False, False]), np.array([False, True])):
        alternative = Alternative(poses, unplaced=unplaced, trajectory=way)
        told = contents(render_report(replace(scene, alternatives=[alternative])))
        first, second = (drawn_points(told, i, frame=0) * told["scale"] for i in range(2))
        expected = [p.points @ g[:3, :3].T + g[:3, 3] for p, g in zip(scene.pieces, way[0], strict=True)]
        np.testing.assert_allclose(second - first[0], expected[1] - expected[0][0], atol=1e-3)


def test_what_is_known_of_an_alternative_is_told():
    joints = [(0, 2, 0.25)]
    best = Alternative(random_poses(3), 1.5, 0.75, np.array([0.1, 0.2, 0.3]), joints=joints)
    told = contents(render_report(scene_of(alternatives=[best, Alternative(random_poses(3, seed=1))])))["alternatives"]
    assert (told[0]["score"], told[0]["probability"], told[0]["confidence"]) == (1.5, 0.75, [0.1, 0.2, 0.3])
    assert told[0]["joints"] == [[0, 2, 0.25]]
    assert told[0]["poses"] == best.poses.tolist()
    assert (told[1]["score"], told[1]["probability"], told[1]["confidence"]) == (None, None, None)


def test_pieces_have_the_colours_of_the_palette():
    scene = scene_of()
    told = contents(render_report(replace(scene, pieces=[replace(scene.pieces[0], color=7), *scene.pieces[1:]])))
    for piece, number in zip(told["pieces"], (7, 1, 2), strict=True):
        assert [int(piece["color"][k : k + 2], 16) for k in (1, 3, 5)] == np.rint(PIECES[number] * 255).tolist()


# -- the page --------------------------------------------------------------------------------------------------------


class Outside(HTMLParser):
    """Finds the scripts of a page, every address in it, and its title."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts, self.addresses, self.policy, self.title, self.open = [], [], "", "", ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.open = tag if tag in ("script", "title") and given.get("type") is None else ""
        self.addresses += [given[name] for name in ("src", "href") if name in given]
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]

    def handle_endtag(self, tag):
        self.open = ""

    def handle_data(self, data):
        if self.open == "script":
            self.scripts.append(data)
        if self.open == "title":
            self.title += data


def test_hostile_text_adds_no_markup_and_is_told_unchanged():
    plain = scene_of(command="eda", facts={"a": "b"}, unit="mm")
    hostile = replace(
        plain,
        title=HOSTILE,
        unit=HOSTILE,
        command=HOSTILE,
        facts={HOSTILE: HOSTILE},
        pieces=[replace(piece, name=HOSTILE) for piece in plain.pieces],
    )
    page = render_report(hostile)
    seen, told = Outside(page), contents(page)
    assert seen.scripts == Outside(render_report(plain)).scripts
    assert seen.addresses == ["data:,"]
    assert seen.title == HOSTILE.replace("\udc80", "\ufffd")
    assert told["title"] == told["command"] == told["unit"] == told["pieces"][0]["name"] == HOSTILE
    assert told["facts"] == [[HOSTILE, HOSTILE]]


def test_only_the_scripts_of_the_page_may_run_and_nothing_may_be_fetched():
    seen = Outside(render_report(scene_of()))
    rules = dict(rule.split(" ", 1) for rule in seen.policy.split("; "))
    allowed = {base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in seen.scripts}
    assert {word[len("'sha256-") : -1] for word in rules["script-src"].split()} == allowed
    assert len(allowed) == len(seen.scripts) > 0
    assert rules["default-src"] == "'none'"
    assert set(rules) == {"default-src", "img-src", "style-src", "script-src"}


def test_ten_pieces_of_5000_points_stay_below_1_5_megabytes():
    """The clouds need no shape for that."""
    rng = np.random.default_rng(0)
    pieces = [Piece(f"{i}", rng.normal(size=(5000, 3)), rng.normal(size=(5000, 3))) for i in range(10)]
    alternatives = [
        Alternative(random_poses(10, seed=k), trajectory=random_poses(20, 10, seed=9 + k)) for k in range(4)
    ]
    assert len(render_report(scene_of(pieces=pieces, alternatives=alternatives)).encode()) < 1_500_000


def test_a_report_is_written_whole(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    scene = scene_of(title="Gefäß 7")
    write_report(path, scene)
    assert path.read_bytes().decode() == render_report(scene)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


# -- bad input -------------------------------------------------------------------------------------------------------

POINTS = lumpy_cloud(0, 10)[0]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"points": POINTS[:3]}, "at least 4 finite points"),
        ({"points": POINTS[:, :2]}, "at least 4 finite points"),
        ({"points": np.where(POINTS > 0, POINTS, np.nan)}, "at least 4 finite points"),
        ({"normals": POINTS[:5]}, "normals must be finite"),
        ({"faces": np.array([[0, 1, 10]])}, "a face names a point that is not there"),
        ({"faces": np.array([[0, 1, -1]])}, "a face names a point that is not there"),
        ({"faces": np.array([[0.0, 1.0, 2.0]])}, "faces must be integers"),
    ],
)
def test_bad_pieces_are_refused_by_name(given, complaint):
    with pytest.raises(InputError, match=f"piece 'lid': .*{complaint}"):
        Piece(**{"name": "lid", "points": POINTS, **given})


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"poses": np.eye(4)}, "poses must have shape"),
        ({"poses": 2 * random_poses(2)}, "poses must be rigid"),
        ({"poses": random_poses(2) * np.array([-1, 1, 1, 1])}, "poses must be rigid"),
        ({"poses": random_poses(2) * np.nan}, "poses must be rigid"),
        ({"trajectory": random_poses(5, 3)}, "trajectory must have shape"),
        ({"score": np.nan}, "score of an alternative must be a finite number"),
        ({"probability": 1.5}, "every probability of an alternative must lie in 0 .. 1"),
        ({"confidence": np.array([0.5, np.nan])}, "every confidence of an alternative must lie in 0 .. 1"),
        ({"confidence": np.ones(3)}, "confidence must have shape"),
        ({"unplaced": np.ones(1, dtype=bool)}, "unplaced must have shape"),
        ({"joints": [(0, 2, 0.5)]}, "a joint names a piece that is not among the 2 pieces"),
        ({"joints": [(0, 1, -0.5)]}, "confidence of a joint"),
    ],
)
def test_bad_alternatives_are_refused(given, complaint):
    with pytest.raises(InputError, match=complaint):
        Alternative(**{"poses": random_poses(2), **given})


def test_a_scene_needs_pieces_alternatives_and_a_pose_for_every_piece():
    for given in ({"pieces": []}, {"alternatives": []}):
        with pytest.raises(InputError, match="at least one piece and one alternative"):
            scene_of(**given)
    with pytest.raises(InputError, match="alternative 1 has 2 poses for 3 pieces"):
        scene_of(alternatives=[Alternative(random_poses(3)), Alternative(random_poses(2))])
