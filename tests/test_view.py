"""Pictures: what a pixel must show, whatever the style."""

import io
import itertools

import numpy as np
import pytest
import torch
from PIL import Image
from support.shapes import lumpy_cloud, lumpy_puzzle

from eda import SE3, InputError
from eda.data import OUTER, Example
from eda.view import (
    Camera,
    SheetStyle,
    animate,
    colors_by_break,
    colors_by_piece,
    confidence_colors,
    contact_sheet,
    draw_mesh,
    exploded,
    good_view,
    looking,
    piece_colors,
    posed,
    scalar_colors,
    splat,
)
from eda.view.colors import BACKGROUND, BREAK, FOREIGN, PIECES, as_bytes
from eda.view.light import shade
from eda.view.mesh import corner_normals
from eda.view.scene import laid_out, own_points, piece_of_point
from eda.view.sheet import caption, tile

RED, GREEN = np.array([0.9, 0.1, 0.1]), np.array([0.1, 0.8, 0.1])
FRONT = Camera(np.eye(3), np.zeros(3), 1.0, np.inf)  # looks along -z, no perspective


def square(half: float, z: float, count: int = 20) -> np.ndarray:
    """A grid of points that faces the camera."""
    side = np.linspace(-half, half, count)
    x, y = np.meshgrid(side, side)
    return np.stack([x.ravel(), y.ravel(), np.full(count * count, z)], axis=1)


def facing(points: np.ndarray) -> np.ndarray:
    return np.broadcast_to([0.0, 0.0, 1.0], points.shape)


def hue(pixel: np.ndarray) -> int:
    """The strongest channel."""
    return int(pixel.argmax())


def is_background(picture: np.ndarray) -> np.ndarray:
    return (picture == as_bytes(BACKGROUND)).all(axis=-1)


def blob(contact: bool = True, foreign: bool = False, count: int = 250) -> Example:
    """A lumpy body cut by two planes into four pieces, or three and one foreign."""
    points, normals = lumpy_cloud(3, 4 * count)
    piece = 2 * (points[:, 0] > 0) + (points[:, 2] > 0.1)
    rows = [piece == i for i in range(4)]
    labels = [np.where(np.abs(points[r, 0]) < 0.1, 0, OUTER) for r in rows]
    return Example.from_clouds(
        "blob",
        [points[r] for r in rows],
        [normals[r] for r in rows],
        labels if contact else None,
        [False, False, False, True] if foreign else None,
    )


# -- points ------------------------------------------------------------------------------------------------------------


def test_the_nearer_surface_hides_the_farther_one():
    near, far = square(0.3, 0.5), square(0.8, -0.5, 50)
    points = np.concatenate([near, far])
    colors = np.concatenate([np.tile(RED, (len(near), 1)), np.tile(GREEN, (len(far), 1))])
    for order in (np.arange(len(points)), np.arange(len(points))[::-1]):
        picture = splat(points[order], colors[order], facing(points), camera=FRONT, size=100)
        assert hue(picture[50, 50]) == 0
        assert hue(picture[50, 15]) == 1
        assert is_background(picture)[2, 2]


def test_a_surface_is_closed_and_ends_where_its_points_end():
    points = square(0.5, 0.0)
    picture = splat(points, np.tile(RED, (len(points), 1)), facing(points), camera=FRONT, size=200)
    empty = is_background(picture)
    assert not empty[52:148, 52:148].any()  # -0.5 .. 0.5 are the pixels 50 .. 150; the spacing is 5
    outside = np.ones_like(empty)
    outside[42:158, 42:158] = False
    assert empty[outside].all()


@pytest.mark.parametrize("eye", [np.inf, 6.0])
def test_a_point_is_drawn_where_the_camera_says(eye):
    camera = looking(np.array([1.0, 2.0, 0.7]), np.array([0.0, 0.0, 1.0]), eye=eye).framing(square(1.0, 0.0))
    place = np.array([[0.4, -0.3, 0.2]])
    cluster = place + 0.01 * np.random.default_rng(0).normal(size=(60, 3))
    picture = splat(cluster, np.tile(RED, (60, 1)), camera=camera, size=200, radius=0.02)
    rows, columns = np.nonzero(~is_background(picture))
    x, y, _ = camera.project(place)[0]
    assert abs(columns.mean() + 0.5 - (x + 1) * 100) < 1.5
    assert abs(rows.mean() + 0.5 - (1 - y) * 100) < 1.5


def test_the_middle_of_perspective_is_that_of_a_pinhole():
    camera = Camera(np.eye(3), np.array([1.0, 0.0, 0.0]), 2.0, 3.0)  # the eye stands 6 before the centre
    point = np.array([[2.0, 1.0, 3.0]])
    assert np.allclose(camera.project(point)[0, :2], [1.0 * 6 / (6 - 3) / 2, 1.0 * 6 / (6 - 3) / 2])
    assert np.allclose(camera.magnification(point), 6 / (6 - 3) / 2)


def test_a_camera_that_turns_with_the_scene_sees_the_same():
    points, normals = lumpy_cloud(0, 800)
    colors = scalar_colors(points[:, 0])
    camera = looking(np.array([1.0, 0.5, 0.3]), np.array([0.0, 0.0, 1.0])).framing(points)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    turned = Camera(camera.rotation @ turn.T, turn @ camera.center, camera.radius, camera.eye)
    first = splat(points, colors, normals, camera=camera, size=120).astype(int)
    second = splat(points @ turn.T, colors, normals @ turn.T, camera=turned, size=120).astype(int)
    assert (np.abs(first - second).max(axis=-1) > 8).mean() < 2e-3


def test_light_falls_from_above():
    points, normals = lumpy_cloud(1, 2000)
    camera = looking(np.array([0.0, -1.0, 0.0]), np.array([0.0, 0.0, 1.0])).framing(points)
    picture = splat(points, np.full((len(points), 3), 0.5), normals, camera=camera, size=90)
    drawn, light = ~is_background(picture), picture.astype(float).mean(axis=2)
    upper = np.cumsum(drawn.sum(axis=1)) < drawn.sum() / 2
    assert light[upper][drawn[upper]].mean() > light[~upper][drawn[~upper]].mean() + 20


def test_a_hollow_is_darker_than_a_plain():
    depth = np.zeros((100, 100), dtype=np.float32)
    depth[40:60, 40:60] = -30
    left = shade(depth)
    assert left[50, 41] < 0.8 * left[10, 10]
    slope = np.tile(np.arange(100, dtype=np.float32), (100, 1))
    assert np.allclose(shade(slope)[20:80, 20:80], 1)


def test_thin_walls_show_the_side_that_looks_at_the_viewer():
    front, back = square(0.5, 0.0), square(0.5, 0.001)  # the back sheet lies before the front one: a noisy scan
    colors = np.concatenate([np.tile(RED, (len(front), 1)), np.tile(GREEN, (len(back), 1))])
    normals = np.concatenate([facing(front), -facing(back)])
    picture = splat(np.concatenate([front, back]), colors, normals, camera=FRONT, size=80)
    assert (picture[24:56, 24:56].argmax(axis=-1) == 0).all()


def test_normals_are_estimated_where_there_are_none():
    points = square(0.5, 0.0) @ looking(np.array([1.0, 0.4, 2.0]), np.array([0.0, 1.0, 0.0])).rotation
    colors = np.tile(RED, (len(points), 1))
    normal = looking(np.array([1.0, 0.4, 2.0]), np.array([0.0, 1.0, 0.0])).rotation[2]
    known = splat(points, colors, np.tile(normal, (len(points), 1)), camera=FRONT, size=80).astype(int)
    estimated = splat(points, colors, camera=FRONT, size=80)
    assert np.abs(known - estimated).max() <= 10


def test_points_outside_the_picture_are_left_out():
    points = square(0.1, 0.0) + np.array([5.0, 0.0, 0.0])
    picture = splat(points, np.tile(RED, (len(points), 1)), facing(points), camera=FRONT, size=50)
    assert is_background(picture).all()


def test_what_is_no_cloud_is_refused():
    with pytest.raises(InputError, match="at least 2 points"):
        splat(np.zeros((1, 3)), np.zeros((1, 3)), camera=FRONT)
    with pytest.raises(InputError, match="as many colours"):
        splat(np.zeros((5, 3)), np.zeros(3), camera=FRONT)


# -- cameras and meshes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("towards", [[1, 0, 0], [0, 0, 1], [0.3, -2, 0.1]])
def test_framing_fits_and_fills_the_picture(towards):
    points = lumpy_cloud(2, 400)[0] * [2, 1, 0.8] + [100, -20, 7]
    camera = looking(np.array(towards, dtype=float), np.array([0.0, 0.0, 1.0])).framing(points, margin=1.0)
    place = camera.project(points)[:, :2]
    assert np.allclose(camera.rotation @ camera.rotation.T, np.eye(3))
    assert np.isclose(np.linalg.det(camera.rotation), 1)
    assert 0.98 < np.abs(place).max() < 1.02


def test_a_mesh_covers_the_pixels_of_its_triangles():
    vertices = np.array([[-0.5, -0.5, 0.0], [0.5, -0.5, 0.0], [0.5, 0.5, 0.0], [-0.5, 0.5, 0.0]])
    picture = draw_mesh(vertices, np.array([[0, 1, 2], [0, 2, 3]]), RED, camera=FRONT, size=80)
    inside = np.zeros((80, 80), dtype=bool)
    inside[20:60, 20:60] = True
    assert np.array_equal(~is_background(picture), inside)
    assert np.ptp(picture[22:58, 22:58].reshape(-1, 3), axis=0).max() <= 1  # flat, so evenly lit, without a seam


def test_the_nearer_triangle_hides_the_farther_one():
    vertices = np.array(
        [[-1, -1, -0.5], [1, -1, -0.5], [0, 1, -0.5], [-0.3, -0.3, 0.5], [0.3, -0.3, 0.5], [0, 0.3, 0.5]]
    )
    for faces, colors in (([[0, 1, 2], [3, 4, 5]], [GREEN, RED]), ([[3, 4, 5], [0, 1, 2]], [RED, GREEN])):
        picture = draw_mesh(vertices * 0.9, np.array(faces), np.array(colors), camera=FRONT, size=60)
        assert hue(picture[30, 30]) == 0
        assert hue(picture[50, 30]) == 1


def test_round_surfaces_are_smoothed_and_edges_are_not():
    import trimesh

    box = trimesh.creation.box()
    assert np.allclose(corner_normals(box.vertices, box.faces), box.face_normals[:, None], atol=1e-12)
    ball = trimesh.creation.icosphere(3)
    assert np.allclose(corner_normals(ball.vertices, ball.faces), ball.vertices[ball.faces], atol=0.02)


# -- colours -----------------------------------------------------------------------------------------------------------

# Machado, Oliveira, Fernandes 2009, severity 1, for linear RGB.
EYES = {
    "all cones": np.eye(3),
    "no M cones": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no L cones": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
}


def lab(colors: np.ndarray, eye: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of sRGB colours as an eye sees them."""
    linear = np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)
    linear = np.clip(linear @ np.asarray(eye).T, 0, 1)
    xyz = linear @ np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]).T
    xyz /= [0.95047, 1.0, 1.08883]
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


@pytest.mark.parametrize(("count", "apart"), [(8, 18), (14, 13), (24, 10)])
def test_pieces_can_be_told_apart_by_every_eye(count, apart):
    for eye in EYES.values():
        seen = lab(piece_colors(count), eye)
        assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > apart


def test_a_piece_keeps_its_colour():
    assert np.array_equal(piece_colors(30)[:5], piece_colors(5))
    assert len(PIECES) >= 20


@pytest.mark.parametrize("eye", EYES)
def test_doubt_and_certainty_differ_for_every_eye(eye):
    seen = lab(confidence_colors(np.array([0.0, 0.5, 1.0])), EYES[eye])
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 25


def test_scales_run_from_end_to_end():
    assert np.array_equal(confidence_colors(np.array([-1.0, 2.0])), confidence_colors(np.array([0.0, 1.0])))
    brightness = lab(scalar_colors(np.linspace(3, 9, 20)), np.eye(3))[:, 0]
    assert (np.diff(brightness) > 0).all()
    assert np.array_equal(scalar_colors(np.full(3, 7.0)), scalar_colors(np.zeros(3)))


# -- scenes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1.0, 1.7, 3.0])
def test_exploding_moves_pieces_away_from_the_middle(factor):
    example = blob()
    before = np.stack([c.mean(axis=0) for c in example.clouds()])
    after = np.stack([c.mean(axis=0) for c in example.clouds(exploded(example, factor))])
    middle = before.mean(axis=0)
    assert np.allclose(after - middle, factor * (before - middle), atol=1e-5)
    shape = [c - c.mean(axis=0) for c in example.clouds()]
    moved = [c - c.mean(axis=0) for c in example.clouds(exploded(example, factor))]
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(shape, moved, strict=True))


def test_foreign_pieces_are_grey_and_lie_below_the_others():
    example = blob(foreign=True)
    camera = good_view(example)
    seen = camera.turn(laid_out(example, camera))
    own = own_points(example)
    assert seen[~own, 1].max() < seen[own, 1].min()
    grey = {tuple(c) for c in colors_by_piece(example)[~own]}
    assert grey == {tuple(c) for c in FOREIGN}
    assert np.array_equal(colors_by_piece(example)[own], piece_colors(4)[piece_of_point(example)[own]])
    assert caption(example) == "3 pieces + 1 foreign"


def test_breaks_are_red_where_they_are_known():
    example = blob()
    red = (colors_by_break(example) == BREAK).all(axis=1)
    assert np.array_equal(red, example.contact != OUTER)
    assert colors_by_break(blob(contact=False)) is None


def test_a_long_thing_is_drawn_upright():
    points = lumpy_cloud(0, 400)[0] * [0.2, 3.0, 0.2]
    camera = good_view(Example.from_clouds("rod", [points[:200], points[200:]]))
    place = camera.framing(points).project(points)
    assert np.ptp(place[:, 1]) > 3 * np.ptp(place[:, 0])


def test_the_view_shows_the_piece_that_lies_at_the_side():
    """A small piece on one side of a pillar is on the side that is looked at."""
    rng = np.random.default_rng(0)
    pillar = rng.uniform(-1, 1, size=(1500, 3)) * [0.6, 0.8, 2]
    for side in (-1, 1):
        small = rng.uniform(-0.3, 0.3, size=(200, 3)) + np.array([0.8 * side, 0, 0])
        camera = good_view(Example.from_clouds("pillar", [pillar, small]))
        assert camera.rotation[2, 0] * side > 0


def test_a_solution_is_drawn_where_its_poses_put_it():
    puzzle = lumpy_puzzle(3)
    example = posed(puzzle.pieces, puzzle.solution, "solved")
    assert np.allclose(example.points, puzzle.pieces.moved(puzzle.solution).points.numpy())
    with pytest.raises(InputError, match="one puzzle"):
        posed(type(puzzle).collate([puzzle, puzzle]).pieces, SE3.cat([puzzle.solution, puzzle.solution]))


# -- sheets and animations ---------------------------------------------------------------------------------------------

SMALL = SheetStyle(columns=2, view=48)


def test_a_sheet_has_a_tile_for_every_example():
    examples = [blob(), blob(foreign=True), blob(contact=False)]
    told = []
    page = contact_sheet(examples, SMALL, progress=lambda done, total: told.append((done, total)))
    width, height = SMALL.tile
    assert page.size == (2 * width, 2 * height)
    assert told == [(1, 3), (2, 3), (3, 3)]
    drawn = ~is_background(np.asarray(page))
    tiles = [drawn[r * height : (r + 1) * height, c * width : (c + 1) * width].any() for r in (0, 1) for c in (0, 1)]
    assert tiles == [True, True, True, False]


def test_the_third_view_is_for_those_that_know_their_breaks():
    third = (slice(54, None), slice(14 + 2 * 48, None))
    assert not is_background(np.asarray(tile(blob(), SMALL)))[third].all()
    assert is_background(np.asarray(tile(blob(contact=False), SMALL)))[third].all()
    assert SheetStyle(breaks=False).tile[0] < SheetStyle().tile[0]


def test_an_empty_sheet_is_refused():
    with pytest.raises(InputError, match="no examples"):
        contact_sheet([])


def test_an_animation_has_its_frames_and_one_camera():
    puzzle = lumpy_puzzle(2, size=200)
    twist = torch.zeros(2, 6, dtype=torch.float64)
    twist[0, 3] = 2.0
    times = (1.0, 0.6, 0.3, 0.0)
    poses = SE3.stack([SE3.exp(t * twist) @ puzzle.solution for t in times])
    content = animate(puzzle.pieces, poses, size=96, milliseconds=50)
    with Image.open(io.BytesIO(content)) as film:
        assert (film.n_frames, film.size, film.info["loop"]) == (4, (96, 96), 0)
        pictures = []
        for number in range(4):
            film.seek(number)
            pictures.append(np.asarray(film.convert("RGB")).astype(int))
        assert film.info["duration"] > 50  # it rests at the end
    # The first piece, blue, is on its way; the other, orange, is where it was.
    blue = [p[..., 2] - p[..., 0] > 20 for p in pictures]
    orange = [p[..., 0] - p[..., 2] > 20 for p in pictures]
    assert (blue[0] & blue[3]).sum() < 0.7 * blue[3].sum()
    hidden = blue[0] | blue[3]
    assert (orange[0] ^ orange[3])[~hidden].sum() < 0.05 * orange[3].sum()
    assert orange[3].sum() > 100


def test_an_animation_needs_a_time_axis():
    puzzle = lumpy_puzzle(2)
    with pytest.raises(InputError, match=r"\(T, N\)"):
        animate(puzzle.pieces, puzzle.solution)
