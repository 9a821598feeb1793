"""Farthest points, grids and normals of one cloud, against definitions written out by hand."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from eda.cloud import (
    estimate_normals,
    farthest_points,
    farthest_points_and_gaps,
    farthest_points_reference,
    focused_order,
    voxel_grid,
)
from eda.errors import InputError


def voxel_grid_by_hand(points: np.ndarray, spacing: float) -> list[int]:
    low = points.min(axis=0)
    cells: dict[tuple[int, ...], list[int]] = {}
    for i, point in enumerate(points):
        cells.setdefault(tuple(math.floor(step) for step in (point - low) / spacing), []).append(i)
    kept = []
    for members in cells.values():
        gap = np.square((points[members] - points[members].mean(axis=0)) / spacing).sum(axis=1)
        kept.append(next(i for i, distance in zip(members, gap, strict=True) if distance <= gap.min() + 1e-9))
    return sorted(kept)


def cloud_of(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 3))


@pytest.mark.parametrize("spacing", [0.01, 0.3, 1.0, 100.0])
@pytest.mark.parametrize("count", [1, 2, 500])
def test_the_grid_keeps_what_a_loop_over_cells_keeps(count, spacing):
    points = cloud_of(count)
    kept = voxel_grid(points, spacing)
    assert kept.dtype == np.int64
    assert kept.tolist() == voxel_grid_by_hand(points, spacing)


def test_of_equally_near_points_the_first_is_kept():
    corners = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    assert voxel_grid(corners, 2.0).tolist() == [0]
    assert voxel_grid(np.repeat(corners, 3, axis=0), 1.0).tolist() == [0, 3, 6, 9]


def test_a_cell_contains_its_lower_face_and_not_its_upper():
    points = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.5, 0.0, 0.0], [2.0, 0.0, 0.0]])
    assert voxel_grid(points, 1.0).tolist() == [0, 1, 3]


def test_a_cloud_far_from_the_origin_is_thinned_like_one_at_it():
    near = np.random.default_rng(0).integers(0, 2**10, size=(2000, 3)) / 2**10
    far = near + np.array([2.0**22, -(2.0**21), 2.0**20])  # exact in float64, not in float32
    assert voxel_grid(far, 0.125).tolist() == voxel_grid(near, 0.125).tolist()


def test_every_cell_is_within_reach_of_a_point_that_is_kept():
    points, spacing = cloud_of(400), 0.5
    kept = points[voxel_grid(points, spacing)]
    gap = np.sqrt(np.square(points[:, None] - kept[None]).sum(-1)).min(axis=1)
    assert len(kept) < len(points)
    assert gap.max() <= math.sqrt(3) * spacing


@pytest.mark.parametrize("exponent", [-30, -10, 0, 30])
def test_a_change_of_unit_changes_nothing(exponent):
    points, scale = cloud_of(500), 2.0**exponent
    assert np.array_equal(voxel_grid(points * scale, 0.25 * scale), voxel_grid(points, 0.25))


def test_more_cells_than_an_integer_can_count_are_told_apart():
    points = np.concatenate([cloud_of(300), cloud_of(300)])
    assert voxel_grid(points, 1e-9).tolist() == list(range(300))


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_coordinates_may_be_of_any_type(dtype):
    points = (8 * cloud_of(200)).astype(dtype)
    assert voxel_grid(points, 2.0).tolist() == voxel_grid_by_hand(points.astype(np.float64), 2.0)


def test_an_empty_cloud_has_no_cells():
    assert voxel_grid(np.empty((0, 3)), 1.0).tolist() == []


@pytest.mark.parametrize("spacing", [0.0, -1.0, math.nan, math.inf, "1", None])
def test_a_spacing_that_is_no_length_is_refused(spacing):
    with pytest.raises(InputError, match="spacing must be a positive number"):
        voxel_grid(cloud_of(5), spacing)


@pytest.mark.parametrize("spacing", [1e-20, 5e-324])
def test_a_spacing_finer_than_rounding_is_refused(spacing):
    with pytest.raises(InputError, match="too fine"):
        voxel_grid(cloud_of(5), spacing)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_points_that_are_not_finite_are_refused(value):
    points = cloud_of(5)
    points[2, 1] = value
    with pytest.raises(InputError, match="finite"):
        voxel_grid(points, 1.0)


# -- normals -------------------------------------------------------------------------------------------------


def on_sphere(count: int) -> np.ndarray:
    directions = cloud_of(count)
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


def test_normals_of_a_sphere_point_along_its_radii():
    points = on_sphere(2000)
    normals = estimate_normals(5 * points + [1e6, -2e6, 3e6])
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, atol=1e-12)
    assert np.einsum("ni,ni->n", normals, points).min() > 0.98


def test_normals_of_a_plane_are_its_own():
    across = Rotation.from_rotvec([0.3, -1, 0.5]).as_matrix()
    normals = estimate_normals((cloud_of(300) * [1, 1, 0]) @ across.T)
    np.testing.assert_allclose(np.abs(normals @ across[:, 2]), 1, atol=1e-9)


def test_normals_turn_with_the_cloud():
    points, turn = on_sphere(500) * [1, 0.7, 0.4], Rotation.from_rotvec([1, 2, 3]).as_matrix()
    np.testing.assert_allclose(estimate_normals(points @ turn.T), estimate_normals(points) @ turn.T, atol=1e-8)


@pytest.mark.parametrize("count", [1, 2, 4, 20])
def test_few_or_coincident_points_have_unit_normals_too(count):
    for points in (cloud_of(count), np.ones((count, 3))):
        np.testing.assert_allclose(np.linalg.norm(estimate_normals(points), axis=1), 1, atol=1e-12)


def test_normals_do_not_depend_on_how_many_rows_are_done_at_once(monkeypatch):
    points = on_sphere(500)
    expected = estimate_normals(points)
    monkeypatch.setattr("eda.cloud._ROWS_AT_ONCE", 7)
    np.testing.assert_array_equal(estimate_normals(points), expected)


# -- farthest points: the compiled ones are those of the definition ----------------------------------------


def random_cloud(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.normal(size=(size, 3))


def doubled_cloud(rng: np.random.Generator, size: int) -> np.ndarray:
    few = 1 + size // 4
    return rng.normal(size=(few, 3))[rng.integers(few, size=size)]


def lattice_cloud(rng: np.random.Generator, size: int) -> np.ndarray:
    """With one point that is farther from the centroid than all others."""
    return np.concatenate([[[90.0, 70.0, 50.0]], rng.integers(4, size=(size, 3))])[:size]


def flat_cloud(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.normal(size=(size, 3)) * [1.0, 0.0, 1.0]


def one_place(rng: np.random.Generator, size: int) -> np.ndarray:
    return np.full((size, 3), 0.3)


def tied_cloud(rng: np.random.Generator, size: int) -> np.ndarray:
    """Of which several points may be the farthest from the centroid."""
    return rng.integers(3, size=(size, 3)).astype(np.float64)


def even_line(rng: np.random.Generator, size: int) -> np.ndarray:
    return np.arange(size)[:, None] * np.array([1.0, 0.0, 0.0])


CLOUDS = [
    random_cloud,
    doubled_cloud,
    lattice_cloud,
    flat_cloud,
    one_place,
    tied_cloud,
    even_line,
]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_farthest_points_are_exactly_those_of_the_definition(cloud):
    rng = np.random.default_rng(0)
    for size in range(1, 201):
        points = cloud(rng, size)
        assert np.array_equal(farthest_points(points, size), farthest_points_reference(points, size)[0]), size


@pytest.mark.parametrize("cloud", CLOUDS)
def test_gaps_are_exactly_those_of_the_definition(cloud):
    for size in (1, 2, 7, 120):
        points = cloud(np.random.default_rng(size), size)
        gaps = farthest_points_and_gaps(points, size)[1]
        assert np.array_equal(gaps, farthest_points_reference(points, size)[1])
        assert (np.diff(gaps) <= 0).all()


@pytest.mark.parametrize("cloud", [random_cloud, doubled_cloud, lattice_cloud])
def test_farthest_points_of_a_large_cloud_are_exactly_those_of_the_definition(cloud):
    points = cloud(np.random.default_rng(0), 5000)
    assert np.array_equal(farthest_points(points, 1000), farthest_points_reference(points, 1000)[0])


@pytest.mark.parametrize("way", ["compiled", "definition"])
@pytest.mark.parametrize("count", [0, -1, 6, 10**12])
def test_more_points_than_there_are_or_none_are_refused(count, way, monkeypatch):
    if way == "definition":
        monkeypatch.setattr("eda.cloud.library", lambda: None)
    with pytest.raises(InputError, match=f"from 1 to n, got .* and {count}"):
        farthest_points(cloud_of(5), count)


@pytest.mark.parametrize("way", ["compiled", "definition"])
@pytest.mark.parametrize("points", [np.ones((5, 2)), np.ones((5, 4)), np.ones(6), np.ones((2, 5, 3)), np.ones((0, 3))])
def test_farthest_points_of_other_shapes_are_refused(points, way, monkeypatch):
    if way == "definition":
        monkeypatch.setattr("eda.cloud.library", lambda: None)
    with pytest.raises(InputError, match="expected \\(n, 3\\)"):
        farthest_points(points, 1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_farthest_points_must_be_finite(value):
    points = cloud_of(200)
    points[77, 1] = value
    with pytest.raises(InputError, match="NaN or infinite"):
        farthest_points(points, 10)


# -- an order with a focus ---------------------------------------------------------------------------------


def gaps_and_focus(share: float, count: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Distinct gaps in any order, and about this share of points with focus, whose gaps are smaller."""
    rng = np.random.default_rng(seed)
    focus = rng.random(count) < share
    return rng.random(count) * np.where(focus, 0.5, 1.0), focus


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.45, 0.8, 1.0])
def test_both_regions_are_kept_in_the_order_of_their_gaps(share):
    gaps, focus = gaps_and_focus(share)
    order = focused_order(gaps, focus)
    assert sorted(order) == list(range(200))
    for region in (focus, ~focus):
        assert order[region[order]].tolist() == sorted(np.flatnonzero(region), key=lambda i: -gaps[i])


def assert_half_in_focus(gaps: np.ndarray, focus: np.ndarray) -> None:
    """Of every prefix, as far as there are enough, and no more than that or than the gaps alone would choose."""
    inside, total = np.cumsum(focus[focused_order(gaps, focus)]), focus.sum()
    by_gaps = np.cumsum(focus[np.argsort(-gaps)])
    for count in range(1, len(gaps) + 1):
        half = math.ceil(count / 2)
        assert inside[count - 1] >= min(half, total)
        assert inside[count - 1] <= max(half, by_gaps[count - 1])


@pytest.mark.parametrize("share", [0.01, 0.2, 0.4])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_other_point_of_a_prefix_has_focus(share, seed):
    assert_half_in_focus(*gaps_and_focus(share, seed=seed))


@pytest.mark.parametrize("share", [0.6, 0.8])
def test_every_other_point_of_a_prefix_has_focus_where_most_points_have(share):
    """Points with focus lie nearer to each other, so the gaps alone would choose those without first."""
    gaps, focus = gaps_and_focus(share)
    assert 2 * focus.sum() > len(focus)
    assert_half_in_focus(gaps, focus)


@pytest.mark.parametrize("value", [True, False])
def test_with_focus_everywhere_or_nowhere_the_order_is_that_of_the_gaps(value):
    gaps, _ = gaps_and_focus(0.5)
    assert focused_order(gaps, np.full(200, value)).tolist() == sorted(range(200), key=lambda i: -gaps[i])


@pytest.mark.parametrize("share", [0.2, 0.8])
def test_the_order_with_focus_does_not_depend_on_the_order_of_points(share):
    gaps, focus = gaps_and_focus(share)
    other = np.random.default_rng(1).permutation(200)
    assert np.array_equal(other[focused_order(gaps[other], focus[other])], focused_order(gaps, focus))
