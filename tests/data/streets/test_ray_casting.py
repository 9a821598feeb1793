"""Rays against bodies and ground: beside triangles, quadratics in space, planes, and walking along the ray."""

import numpy as np
import pytest
import trimesh
from scipy.interpolate import RegularGridInterpolator

from eda.data.streets.bodies import BOX, CYLINDER, ELLIPSOID, Bodies, Body, box, move_bodies
from eda.data.streets.height_field import HeightField
from eda.data.streets.ray_casting import GROUND_REFLECTANCE, RayPlanes, cast_on_bodies, cast_on_ground, cast_rays

ABYSS = HeightField(np.array([-500.0, -500.0]), 500.0, np.full((3, 3), -1000.0))


def planes_from(origin, columns=60, slopes=(-0.6, 0.6), beams=15):
    """Rays all around from one place."""
    angle = np.linspace(-np.pi, np.pi, columns, endpoint=False) + 0.01
    return RayPlanes(
        np.tile(np.asarray(origin, dtype=float), (columns, 1)),
        np.stack([np.cos(angle), np.sin(angle)], axis=1),
        np.tile(np.linspace(*slopes, beams), (columns, 1)),
    )


def directions(planes):
    """(C * B, 3) of the rays, one metre ahead each."""
    ahead = np.broadcast_to(planes.ahead[:, None], (*planes.slopes.shape, 2))
    return np.concatenate([ahead, planes.slopes[..., None]], axis=2).reshape(-1, 3)


def random_bodies(form, count=25, seed=0):
    rng = np.random.default_rng(seed)
    middles = rng.uniform((-25, -25, -3), (25, 25, 5), (count, 3))
    middles = middles[np.hypot(middles[:, 0], middles[:, 1]) > 6]
    return [Body(form, tuple(m), tuple(rng.uniform(0.3, 3, 3)), rng.uniform(0, 6)) for m in middles]


def mesh_of(body, round_mesh):
    mesh = trimesh.creation.box((2, 2, 2)) if body.form == BOX else round_mesh.copy()
    mesh.apply_scale(body.half)
    mesh.apply_transform(trimesh.transformations.rotation_matrix(body.yaw, [0, 0, 1]))
    mesh.apply_translation(body.middle)
    return mesh


def first_triangles(origin, rays, triangles):
    """(n,) how many times its direction every ray runs to the first of the triangles (Moeller and Trumbore)."""
    a, u, v = triangles[:, 0], triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
    found = []
    for ray in rays:
        across, start = np.cross(ray, v), origin - a
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = 1 / (u * across).sum(axis=1)
            first, aside = scale * (start * across).sum(axis=1), np.cross(start, u)
            second, length = scale * (aside @ ray), scale * (aside * v).sum(axis=1)
            inside = (first >= 0) & (second >= 0) & (first + second <= 1) & (length > 0)
        found.append(length[inside].min(initial=np.inf))
    return np.array(found)


def first_ellipsoids(origin, rays, bodies):
    """(n,) the same for ellipsoids, by the quadratic equation in space."""
    best = np.full(len(rays), np.inf)
    for body in bodies:
        c, s = np.cos(body.yaw), np.sin(body.yaw)
        to_ball = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]]) / np.array(body.half)[:, None]
        start, ray = to_ball @ (origin - body.middle), rays @ to_ball.T
        a, b, c = (ray**2).sum(axis=1), ray @ start, start @ start - 1
        with np.errstate(invalid="ignore"):
            length = (-b - np.sqrt(b**2 - a * c)) / a
        best = np.fmin(best, np.where(length > 0, length, np.inf))
    return best


# -- bodies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("form", "allowed"), [(BOX, 1e-9), (CYLINDER, 0.03)])
def test_boxes_and_cylinders_are_met_where_their_triangles_are(form, allowed):
    bodies = random_bodies(form)
    round_mesh = trimesh.creation.cylinder(1, 2, sections=64)
    triangles = np.concatenate([mesh_of(body, round_mesh).triangles for body in bodies])
    origin = np.array([0.3, -0.2, 1.1])
    planes = planes_from(origin)
    distance, row = cast_on_bodies(planes, Bodies.of(bodies), 200.0, np.random.default_rng(0))
    expected = first_triangles(origin, directions(planes), triangles)
    met = np.isfinite(expected)
    assert 80 < met.sum() < 700
    assert (np.isfinite(distance).ravel() != met).sum() <= (0 if form == BOX else 2), "but at the rim of the mesh"
    both = met & np.isfinite(distance.ravel())
    assert np.quantile(np.abs(distance.ravel()[both] - expected[both]), 0.98) < allowed
    assert len(np.unique(row[np.isfinite(distance)])) > 8


def test_ellipsoids_are_met_where_their_equation_says():
    bodies, origin = random_bodies(ELLIPSOID), np.array([0.3, -0.2, 1.1])
    planes = planes_from(origin)
    distance, _ = cast_on_bodies(planes, Bodies.of(bodies), 200.0, np.random.default_rng(0))
    expected = first_ellipsoids(origin, directions(planes), bodies)
    assert 50 < np.isfinite(expected).sum() < 700
    np.testing.assert_allclose(distance.ravel(), expected, atol=1e-8)


def test_nothing_is_met_beyond_the_reach_or_behind():
    wall = Bodies.of([box((10, -5, -5), (11, 5, 5))])
    planes = planes_from((0, 0, 0))
    rng = np.random.default_rng(0)
    assert np.isfinite(cast_on_bodies(planes, wall, 50.0, rng)[0]).any()
    assert not np.isfinite(cast_on_bodies(planes, wall, 9.0, rng)[0]).any()
    behind = planes.ahead[:, 0] < 0
    assert not np.isfinite(cast_on_bodies(planes, wall, 50.0, rng)[0][behind]).any()


def test_light_goes_into_foliage_and_through_thin_foliage():
    """Through a hedge of thickness t at a right angle with probability exp(-t / depth)."""
    hedge = Bodies.of([box((10, -30, -30), (10.5, 30, 30), depth=0.4)])
    planes = RayPlanes(np.zeros((40, 3)), np.tile([1.0, 0.0], (40, 1)), np.linspace(-0.01, 0.01, 4000).reshape(40, 100))
    distance, _ = cast_on_bodies(planes, hedge, 50.0, np.random.default_rng(0))
    met = distance[np.isfinite(distance)]
    assert len(met) / 4000 == pytest.approx(1 - np.exp(-0.5 / 0.4), abs=0.03)
    assert met.min() >= 10
    assert met.max() < 10.5
    assert np.ptp(met) > 0.45


def test_a_moved_body_is_met_where_it_was_moved():
    moved = move_bodies([box((1, -1, 0), (3, 1, 2))], (10, 4, 1), np.pi / 2)
    (body,) = moved
    np.testing.assert_allclose(body.middle, (10, 6, 2), atol=1e-12)
    planes = RayPlanes(np.array([[10.0, 0, 2]]), np.array([[0.0, 1.0]]), np.zeros((1, 1)))
    assert cast_on_bodies(planes, Bodies.of(moved), 50.0, np.random.default_rng(0))[0] == pytest.approx(5.0)


# -- ground --------------------------------------------------------------------------------------------------


def test_level_and_sloping_ground_are_met_where_the_plane_is():
    place = np.arange(-100, 101, 0.5)
    for slope in (0.0, 0.05):
        ground = HeightField(np.array([-100.0, -100.0]), 0.5, np.tile(slope * place[:, None], (1, len(place))))
        planes = planes_from((3.0, 2.0, 1.7), slopes=(-0.5, 0.2), beams=50)
        height, rise = 1.7 - slope * 3.0, slope * planes.ahead[:, :1] - planes.slopes
        with np.errstate(divide="ignore"):
            expected = np.where(rise > 0, height / rise, np.inf)
        distance = cast_on_ground(planes, ground, 60.0)
        near = expected < 55
        np.testing.assert_allclose(distance[near], expected[near], rtol=1e-6)
        assert not np.isfinite(distance[expected > 65]).any()


def hills():
    x, y = np.meshgrid(np.arange(-60, 60.5, 0.5), np.arange(-60, 60.5, 0.5), indexing="ij")
    return HeightField(np.array([-60.0, -60.0]), 0.5, np.sin(x / 6) + 0.8 * np.cos(y / 5) + 0.05 * np.sin(3 * x))


def test_hills_are_met_first_by_walking_along_the_ray():
    ground = hills()
    axis = -60 + 0.5 * np.arange(len(ground.heights))
    surface = RegularGridInterpolator((axis, axis), ground.heights)
    planes = planes_from((0.2, 0.1, 3.4), columns=24, slopes=(-0.6, 0.05), beams=20)
    distance = cast_on_ground(planes, ground, 40.0).ravel()
    steps = np.arange(0.5, 40, 0.01)
    for ray, found in zip(directions(planes), distance, strict=True):
        track = np.array([0.2, 0.1, 3.4]) + steps[:, None] * ray
        below = np.flatnonzero(track[:, 2] <= surface(track[:, :2]))
        first = steps[below[0]] if len(below) else np.inf
        # A crest that a ray only just grazes may be passed.
        assert first == found or abs(first - found) < 0.05 or grazed(track, surface, found, first)
    assert 200 < np.isfinite(distance).sum() < 470


def grazed(track, surface, found, first):
    """Whether up to where a ray was found to hit it lies under the ground by less than 3 cm."""
    until = slice(int(first / 0.01) - 50, None if np.isinf(found) else int(found / 0.01) - 50)
    return (surface(track[until, :2]) - track[until, 2]).max() < 0.03


def test_heights_are_bilinear_and_slopes_are_theirs():
    ground = hills()
    axis = -60 + 0.5 * np.arange(len(ground.heights))
    places = np.random.default_rng(0).uniform(-59, 59, (200, 2))
    expected = RegularGridInterpolator((axis, axis), ground.heights)(places)
    np.testing.assert_allclose(ground.height(*places.T), expected, atol=1e-9)
    x, y = ground.slopes(*places.T)
    np.testing.assert_allclose(y, -0.16 * np.sin(places[:, 1] / 5), atol=0.01)
    assert np.abs(x - np.cos(places[:, 0] / 6) / 6).max() < 0.2
    assert ground.at((1000.0, 0.0)) == pytest.approx(ground.at((59.9999, 0.0)), abs=1e-2), "the rim goes on"


# -- both ----------------------------------------------------------------------------------------------------


def test_what_is_nearer_hides_what_is_farther():
    level = HeightField(np.array([-100.0, -100.0]), 100.0, np.zeros((3, 3)))
    planes = RayPlanes(np.array([[0, 0, 2.0]]), np.array([[1.0, 0.0]]), np.array([[-0.5, -0.1, 0.0, 0.5]]))
    walls = [box((10, -1, -1), (11, 1, 3), reflectance=0.7), box((20, -1, -1), (21, 1, 30), reflectance=0.6)]
    hits = cast_rays(planes, level, Bodies.of(walls), 80.0, np.random.default_rng(0))
    np.testing.assert_allclose(hits.distance, [[4, 10, 10, 20]], rtol=1e-6)
    np.testing.assert_allclose(hits.reflectance, [[GROUND_REFLECTANCE, 0.7, 0.7, 0.6]])
    np.testing.assert_allclose(hits.cosine[0], [0.5 / np.hypot(1, 0.5), 1 / np.hypot(1, 0.1), 1, 1 / np.hypot(1, 0.5)])


@pytest.mark.parametrize("form", [BOX, CYLINDER, ELLIPSOID])
def test_the_angle_at_which_a_ray_meets_a_body_is_that_of_its_surface(form):
    """Beside the change of the distance from one ray to two that lie close by."""
    bodies = Bodies.of(random_bodies(form, seed=3))
    planes, step = planes_from((0.0, 0.0, 1.0), columns=90), 1e-6
    turned = planes.ahead + step * np.stack([-planes.ahead[:, 1], planes.ahead[:, 0]], axis=1)
    rng = np.random.default_rng(0)
    hits = cast_rays(planes, ABYSS, bodies, 90.0, rng)
    near = [hits, *(cast_rays(p, ABYSS, bodies, 90.0, rng) for p in (
        planes._replace(ahead=turned / np.linalg.norm(turned, axis=1, keepdims=True)),
        planes._replace(slopes=planes.slopes + step),
    ))]  # fmt: skip
    aside = planes._replace(ahead=turned / np.linalg.norm(turned, axis=1, keepdims=True))
    above = planes._replace(slopes=planes.slopes + step)
    met = np.isfinite([each.distance for each in near]).all(axis=0)
    a, b, c = (p.points(np.where(met, h.distance, 0))[met] for p, h in zip((planes, aside, above), near, strict=True))
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    rays = directions(planes).reshape(*met.shape, 3)[met]
    expected = np.abs((normal * rays).sum(axis=1)) / np.linalg.norm(rays, axis=1)
    assert met.sum() > 60
    assert (np.abs(expected - hits.cosine[met]) < 1e-3).mean() > 0.97, "but at edges"
