"""Farthest points, the pyramid and the neighbours across pieces, against brute force."""

import math

import numpy as np
import pytest
import torch
from support.lumpy_shapes import lumpy_cloud, lumpy_pieces
from support.oracles import haar_rotations

from eda import Pieces
from eda.cloud import farthest_points, farthest_points_and_gaps, farthest_points_reference, spatial_order
from eda.graph import Across, Level, Pyramid, level_size
from eda.lie import SE3

# -- farthest points ---------------------------------------------------------------------------------------


def farthest_by_brute_force(points: np.ndarray, count: int) -> list[int]:
    """Each the farthest from all those before it; the first is the farthest from the mean."""
    chosen = [max(range(len(points)), key=lambda i: math.dist(points[i], points.mean(axis=0)))]
    while len(chosen) < count:
        rest = [i for i in range(len(points)) if i not in chosen]
        chosen.append(max(rest, key=lambda i: min(math.dist(points[i], points[j]) for j in chosen)))
    return chosen


@pytest.mark.parametrize(("size", "count"), [(4, 4), (30, 1), (30, 12), (30, 30)])
@pytest.mark.parametrize("seed", [0, 1])
def test_farthest_points_are_those_of_brute_force(size, count, seed):
    cloud = lumpy_cloud(seed, size)[0]
    assert farthest_points(cloud, count).tolist() == farthest_by_brute_force(cloud, count)


def test_a_prefix_of_farthest_points_is_the_shorter_run():
    cloud = lumpy_cloud(0, 100)[0]
    longest = farthest_points(cloud, 100)
    for count in (1, 7, 50):
        assert np.array_equal(farthest_points(cloud, count), longest[:count])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_farthest_points_do_not_depend_on_axes_or_place(seed):
    cloud, R = lumpy_cloud(seed, 100)[0], haar_rotations(1, seed)[0].numpy()
    assert np.array_equal(farthest_points(cloud @ R.T + [5.0, -3.0, 1.0], 40), farthest_points(cloud, 40))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_farthest_points_do_not_depend_on_the_order_of_points(seed):
    cloud, order = lumpy_cloud(seed, 100)[0], np.random.default_rng(seed).permutation(100)
    assert np.array_equal(order[farthest_points(cloud[order], 40)], farthest_points(cloud, 40))


def test_a_point_is_never_chosen_twice():
    """Even where all are coincident; and every place comes before any comes again."""
    places = lumpy_cloud(0, 5)[0]
    cloud = np.repeat(places, 6, axis=0)
    chosen = farthest_points(cloud, 30)
    assert sorted(chosen) == list(range(30))
    assert sorted(chosen[:5] // 6) == list(range(5))
    assert sorted(farthest_points(np.ones((8, 3)), 8)) == list(range(8))


def test_farthest_points_work_far_from_the_origin_in_float32():
    cloud = (np.round(lumpy_cloud(0, 60)[0] * 64) / 64 + 1000).astype(np.float32)  # exact in float32
    assert farthest_points(cloud, 20).tolist() == farthest_by_brute_force(cloud.astype(np.float64) - 1000, 20)


@pytest.mark.parametrize("function", [farthest_points_and_gaps, farthest_points_reference])
@pytest.mark.parametrize(("size", "count"), [(30, 1), (30, 12), (30, 30)])
def test_gaps_are_the_distances_to_those_before(function, size, count):
    cloud = lumpy_cloud(3, size)[0]
    chosen, gaps = function(cloud, count)
    assert chosen.tolist() == farthest_by_brute_force(cloud, count)
    assert gaps[0] == math.inf
    for i in range(1, count):
        assert gaps[i] == pytest.approx(min(math.dist(cloud[chosen[i]], cloud[j]) for j in chosen[:i]), rel=1e-14)


def test_gaps_of_coincident_points_are_zero():
    _, gaps = farthest_points_and_gaps(np.repeat(lumpy_cloud(0, 5)[0], 3, axis=0), 15)
    assert (gaps[:5] > 0).all()
    assert (gaps[5:] == 0).all()


# -- the pyramid -------------------------------------------------------------------------------------------

K = 10


def pieces_of(*sizes: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Pieces:
    return Pieces.from_clouds([lumpy_cloud(seed + i, n)[0] for i, n in enumerate(sizes)], dtype=dtype)


@pytest.mark.parametrize(
    ("size", "expected"), [(4, 4), (10, 10), (11, 11), (12, 11), (44, 11), (45, 12), (1000, 250), (1001, 251)]
)
def test_a_level_keeps_a_quarter_but_enough_for_a_neighbourhood(size, expected):
    assert level_size(size, 0.25, 10) == expected


@pytest.mark.parametrize(("ratio", "k"), [(0.5, 3), (0.25, 10), (0.9, 1)])
def test_kept_is_between_a_point_and_all(ratio, k):
    for size in range(1, 200):
        assert min(size, k + 1) <= level_size(size, ratio, k) <= size
        assert level_size(size, ratio, k) >= ratio * size


def test_level_sizes_follow_the_rule():
    pyramid = Pyramid.build(pieces_of(4, 60, 700), num_levels=3, num_neighbors=K)
    assert [level.sizes.tolist() for level in pyramid.levels] == [[4, 15, 175], [4, 11, 44], [4, 11, 11]]
    assert pyramid.coarse is pyramid.levels[-1]
    for level in pyramid.levels:
        assert len(level.points) == len(level.parent) == len(level.down) == len(level.within) == level.sizes.sum()


def checked_piece_of(sizes: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.full((int(n),), i) for i, n in enumerate(sizes)])


def levels_with_below(pyramid: Pyramid) -> list[tuple[Level, torch.Tensor, torch.Tensor]]:
    """Every level with the points and piece sizes of the one below."""
    points = [pyramid.pieces.points, *[level.points for level in pyramid.levels]]
    sizes = [pyramid.pieces.sizes, *[level.sizes for level in pyramid.levels]]
    return list(zip(pyramid.levels, points[:-1], sizes[:-1], strict=True))


def test_points_of_a_level_are_farthest_points_of_the_piece():
    pyramid = Pyramid.build(pieces_of(4, 60, 300), num_levels=3, num_neighbors=K)
    clouds = [c.numpy() for c in pyramid.pieces.points.split(pyramid.pieces.sizes.tolist())]
    for level, below, below_sizes in levels_with_below(pyramid):
        assert torch.equal(level.points, below[level.parent])
        assert torch.equal(checked_piece_of(below_sizes)[level.parent], checked_piece_of(level.sizes))
        for cloud, points in zip(clouds, level.points.split(level.sizes.tolist()), strict=True):
            assert np.array_equal(points.numpy(), cloud[np.sort(farthest_points(cloud, len(points)))])


def assert_nearest(
    queries: torch.Tensor, query_piece: torch.Tensor, own: torch.Tensor,
    cloud: torch.Tensor, piece: torch.Tensor, table: torch.Tensor,
) -> None:  # fmt: skip
    """Every row names the k nearest points of the query's piece but its own, nearest first, then -1."""
    distance = (queries[:, None] - cloud[None]).square().sum(-1).sqrt()
    distance[query_piece[:, None] != piece[None]] = torch.inf
    distance[torch.arange(len(queries)), own] = torch.inf
    expected = distance.sort(dim=1).values[:, : table.shape[1]]
    if expected.shape[1] < table.shape[1]:
        expected = torch.nn.functional.pad(expected, (0, table.shape[1] - expected.shape[1]), value=torch.inf)
    found = distance.gather(1, table.clamp(min=0)).masked_fill(table < 0, torch.inf)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    for row in table.tolist():
        named = [v for v in row if v >= 0]
        assert len(set(named)) == len(named)
    assert (table != own[:, None]).all()


@pytest.mark.parametrize(("sizes", "k"), [((4, 5, 11, 12, 3000), 10), ((50, 80), 1), ((4, 4), 3), ((30, 4), 40)])
def test_neighbours_are_the_nearest_of_the_same_piece(sizes, k):
    """Never the point itself; -1 where the piece is too small."""
    pyramid = Pyramid.build(pieces_of(*sizes), num_levels=2, num_neighbors=k)
    for level, below, below_sizes in levels_with_below(pyramid):
        piece, rows = checked_piece_of(level.sizes), torch.arange(len(level.points))
        assert level.down.shape == level.within.shape == (len(rows), k)
        assert_nearest(level.points, piece, level.parent, below, checked_piece_of(below_sizes), level.down)
        assert_nearest(level.points, piece, rows, level.points, piece, level.within)


def test_a_tiny_piece_has_as_many_neighbours_as_it_can():
    level = Pyramid.build(pieces_of(4, 200), num_levels=1, num_neighbors=K).levels[0]
    assert ((level.within[:4] >= 0).sum(1) == 3).all()
    assert (level.within[:4, 3:] == -1).all()
    assert (level.within[4:] >= 0).all()


def test_coincident_points_are_neighbours_of_each_other_but_never_of_themselves():
    cloud = np.repeat(lumpy_cloud(0, 4)[0], 20, axis=0)
    pyramid = Pyramid.build(Pieces.from_clouds([cloud, cloud], dtype=torch.float64), num_levels=2, num_neighbors=K)
    for level, below, below_sizes in levels_with_below(pyramid):
        piece, rows = checked_piece_of(level.sizes), torch.arange(len(level.points))
        assert_nearest(level.points, piece, level.parent, below, checked_piece_of(below_sizes), level.down)
        assert_nearest(level.points, piece, rows, level.points, piece, level.within)


def shifted(table: torch.Tensor, by: int) -> torch.Tensor:
    return torch.where(table < 0, -1, table + by)


def test_the_pyramid_of_a_piece_does_not_depend_on_its_batch():
    parts = [pieces_of(4, 60), pieces_of(500, 30, 12, seed=5)]
    both = Pyramid.build(Pieces.collate(parts), num_levels=3, num_neighbors=K)
    alone = [Pyramid.build(p, num_levels=3, num_neighbors=K) for p in parts]
    below = len(parts[0].points)
    for level, first, second in zip(both.levels, alone[0].levels, alone[1].levels, strict=True):
        here = len(first.points)
        assert torch.equal(level.sizes, torch.cat([first.sizes, second.sizes]))
        assert torch.equal(level.points, torch.cat([first.points, second.points]))
        assert torch.equal(level.parent, torch.cat([first.parent, second.parent + below]))
        assert torch.equal(level.down, torch.cat([first.down, shifted(second.down, below)]))
        assert torch.equal(level.within, torch.cat([first.within, shifted(second.within, here)]))
        below = here


@pytest.mark.parametrize("num_nearest", [0, 1, 3])
def test_collated_pyramids_are_those_built_together(num_nearest):
    parts = [pieces_of(4, 60), pieces_of(500, 30, 12, seed=5), pieces_of(7, 40, seed=9)]
    options = {"num_levels": 3, "num_neighbors": K, "num_nearest": num_nearest}
    alone = [Pyramid.build(part, **options) for part in parts]
    collated, together = Pyramid.collate(alone), Pyramid.build(Pieces.collate(parts), **options)
    assert torch.equal(collated.order, together.order)
    for name, value in vars(together.pieces).items():
        same = (
            value is None
            if getattr(collated.pieces, name) is None
            else torch.equal(getattr(collated.pieces, name), value)
        )
        assert same, name
    for depth, (one, other) in enumerate(zip(collated.levels, together.levels, strict=True)):
        assert (one.nearest is None) == (other.nearest is None) == (depth >= num_nearest)
        for name in ["sizes", "parent", "points", "down", "within", *["nearest"] * (depth < num_nearest)]:
            assert torch.equal(getattr(one, name), getattr(other, name)), (depth, name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_nearest_of_a_level_is_that_of_brute_force(dtype):
    """In the same piece, also where another lies in the same place."""
    pyramid = Pyramid.build(pieces_of(4, 60, 300, dtype=dtype), num_levels=3, num_neighbors=K, num_nearest=2)
    points, piece = pyramid.pieces.points.double(), checked_piece_of(pyramid.pieces.sizes)
    for level in pyramid.levels[:2]:
        distance = (points[:, None] - level.points.double()[None]).square().sum(-1).sqrt()
        distance[piece[:, None] != checked_piece_of(level.sizes)[None]] = torch.inf
        found = distance.gather(1, level.nearest[:, None]).squeeze(1)
        assert torch.equal(found, distance.min(1).values)
    assert pyramid.levels[2].nearest is None


def test_a_pyramid_in_another_precision_keeps_its_nearest():
    pyramid = Pyramid.build(pieces_of(40, 30), num_levels=2, num_nearest=1)
    assert torch.equal(pyramid.to(dtype=torch.float32).levels[0].nearest, pyramid.levels[0].nearest)


def named_graph(pyramid: Pyramid) -> list[dict[int, tuple[list[int], list[int]]]]:
    """Every level as {point: (neighbours below, neighbours at the level)}, points by their place in the input."""
    below, levels = pyramid.order, []
    for level in pyramid.levels:
        names = below[level.parent]
        down, within = ([[int(of[v]) for v in row if v >= 0] for row in table.tolist()] for of, table in
                        [(below, level.down), (names, level.within)])  # fmt: skip
        levels.append({int(name): edges for name, *edges in zip(names, down, within, strict=True)})
        below = names
    return levels


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_pyramid_does_not_depend_on_poses(dtype):
    pieces = lumpy_pieces(3, 80, dtype=dtype)
    poses = SE3(haar_rotations(3), haar_rotations(3, seed=1)[:, 0]).to(dtype)
    still, moved = (Pyramid.build(p, num_levels=2, num_neighbors=K) for p in (pieces, pieces.move(poses)))
    assert named_graph(still) == named_graph(moved)


def test_the_order_names_the_points_as_they_came():
    pieces = pieces_of(40, 30)
    pyramid = Pyramid.build(pieces, num_levels=1, num_neighbors=K)
    assert torch.equal(pyramid.pieces.points, pieces.points[pyramid.order])
    assert torch.equal(pyramid.order.sort().values, torch.arange(len(pieces.points)))
    assert torch.equal(checked_piece_of(pieces.sizes)[pyramid.order], checked_piece_of(pieces.sizes))


def test_spatial_order_keeps_near_points_near():
    cloud = np.random.default_rng(0).uniform(size=(4000, 3))
    order = spatial_order(cloud)
    assert sorted(order) == list(range(4000))
    step = np.linalg.norm(np.diff(cloud[order], axis=0), axis=1).mean()
    assert step < 0.2 * np.linalg.norm(np.diff(cloud, axis=0), axis=1).mean()


def test_another_precision_has_the_same_graph():
    pyramid = Pyramid.build(pieces_of(40, 30), num_levels=2)
    other = pyramid.to(dtype=torch.float32)
    assert other.pieces.points.dtype == other.coarse.points.dtype == torch.float32
    assert torch.equal(other.coarse.within, pyramid.coarse.within)


# -- across pieces -----------------------------------------------------------------------------------------


def across(points: torch.Tensor, piece: torch.Tensor, puzzle: torch.Tensor, k: int | None) -> torch.Tensor:
    return Across.between(piece, puzzle).neighbors(points, k)


COUNTS = [[5, 9, 3], [2, 2], [1, 12, 4, 6]]  # points of the pieces of three puzzles


def scattered(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Points, and the piece and the puzzle of each."""
    sizes = [n for puzzle in COUNTS for n in puzzle]
    piece = checked_piece_of(torch.tensor(sizes))
    puzzle = checked_piece_of(torch.tensor([sum(p) for p in COUNTS]))
    # Multiples of 1/64: exact in float32 even at 1000.
    points = torch.randint(-128, 128, (len(piece), 3), generator=torch.Generator().manual_seed(0)) / 64
    return points.to(dtype), piece, puzzle


def foreign_rows(row: int, piece: torch.Tensor, puzzle: torch.Tensor) -> list[int]:
    """The points of other pieces of the same puzzle."""
    return [v for v in range(len(piece)) if puzzle[v] == puzzle[row] and piece[v] != piece[row]]


@pytest.mark.parametrize("k", [1, 3, 10, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_neighbours_across_are_the_nearest_of_other_pieces_of_the_puzzle(k, dtype, shift):
    points, piece, puzzle = scattered(dtype)
    table = across(points + shift, piece, puzzle, k)
    for u, row in enumerate(table.tolist()):
        others = foreign_rows(u, piece, puzzle)
        named = [v for v in row if v >= 0]
        assert set(named) <= set(others)
        assert len(set(named)) == len(named) == min(k, len(others))
        distances = sorted(math.dist(points[u], points[v]) for v in others)
        assert [math.dist(points[u], points[v]) for v in named] == pytest.approx(distances[:k], abs=1e-12)


def test_without_a_number_all_points_of_other_pieces_are_neighbours():
    points, piece, puzzle = scattered()
    for u, row in enumerate(across(points, piece, puzzle, None).tolist()):
        assert sorted(v for v in row if v >= 0) == foreign_rows(u, piece, puzzle)


@pytest.mark.parametrize("k", [None, 4])
def test_neighbours_across_do_not_depend_on_the_batch(k):
    points, piece, puzzle = scattered()
    table = across(points, piece, puzzle, k)
    for b in range(len(COUNTS)):
        own = puzzle == b
        start = int(own.nonzero()[0])
        alone = across(points[own], piece[own] - piece[own].min(), torch.zeros(int(own.sum()), dtype=torch.long), k)
        for together, single in zip(table[own].tolist(), alone.tolist(), strict=True):
            assert [v for v in together if v >= 0] == [v + start for v in single if v >= 0]


def test_neighbours_across_follow_the_pieces_when_they_move():
    points, piece, puzzle = scattered()
    first = piece == 0
    moved = torch.where(first[:, None], points + torch.tensor([100.0, 0.0, 0.0]), points)
    before, after = across(points, piece, puzzle, 1), across(moved, piece, puzzle, 1)
    assert not torch.equal(before[first], after[first])
    others = puzzle != 0
    assert torch.equal(before[others], after[others])


def test_coincident_points_of_other_pieces_are_neighbours():
    points = torch.zeros(4, 3)
    table = across(points, torch.tensor([0, 0, 1, 1]), torch.zeros(4, dtype=torch.long), 10)
    assert [sorted(v for v in row if v >= 0) for row in table.tolist()] == [[2, 3], [2, 3], [0, 1], [0, 1]]
