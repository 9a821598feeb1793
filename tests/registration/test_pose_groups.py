"""Groups of a pose graph against known poses: wrong edges, parts that do not connect, and scans that are held."""

import itertools

import numpy as np
import pytest
from support.pose_graphs import between, random_poses, relative, shaken

from eda.budget import Budget
from eda.registration import pose_groups
from eda.registration.pose_graph import Edges
from eda.registration.pose_groups import LEAST, join_groups


def chain(poses: np.ndarray, rng: np.random.Generator, reach: int, probability: float = 0.95):
    """Right edges between scans whose numbers are at most `reach` apart."""
    pairs = [(i, j) for i, j in itertools.combinations(range(len(poses)), 2) if j - i <= reach]
    return [(i, j, shaken(relative(poses, i, j), rng, 0.02), probability) for i, j in pairs]


@pytest.mark.parametrize("seed", range(3))
def test_a_fifth_of_wrong_edges_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    true = random_poses(20, rng)
    edges = chain(true, rng, 3)
    for _ in range(len(edges) // 4):
        i, j = sorted(rng.choice(20, 2, replace=False).tolist())
        edges.append((i, j, random_poses(1, rng)[0], rng.uniform(0.3, 0.9)))
    (group,) = join_groups(20, Edges.of(edges, 1.0))
    assert group.members.tolist() == list(range(20))
    assert between(group.poses, true) < 0.15


def test_a_sure_wrong_edge_loses_against_a_loop():
    """It is surer than any other edge, so a spanning tree of the most probable edges alone would have it."""
    rng = np.random.default_rng(7)
    true = random_poses(8, rng)
    edges = [edge for edge in chain(true, rng, 2) if (edge[0], edge[1]) != (0, 1)]
    edges.append((0, 1, random_poses(1, rng)[0], 0.97))
    edges.append((0, 3, relative(true, 0, 3), 0.95))
    edges.append((0, 4, relative(true, 0, 4), 0.95))
    (group,) = join_groups(8, Edges.of(edges, 1.0))
    assert between(group.poses, true) < 0.15


def test_parts_that_do_not_connect_are_groups_of_their_own():
    rng = np.random.default_rng(8)
    true = random_poses(9, rng)
    three, five = [0, 4, 8], [1, 2, 3, 5, 7]
    edges = [(i, j, relative(true, i, j), 0.95) for part in (three, five) for i, j in itertools.combinations(part, 2)]
    edges.append((0, 1, random_poses(1, rng)[0], LEAST - 0.05))  # not sure enough
    groups = join_groups(9, Edges.of(edges, 1.0))
    assert [group.members.tolist() for group in groups] == [five, three, [6]]
    for group in groups[:2]:
        assert between(group.poses, true[group.members]) < 1e-5


def test_of_several_ways_for_one_pair_the_loop_chooses():
    """The better one of the first pair is wrong, and the third scan tells."""
    rng = np.random.default_rng(9)
    true = random_poses(3, rng)
    wrong = (0, 1, random_poses(1, rng)[0], 0.6)
    edges = [wrong, (0, 1, relative(true, 0, 1), 0.35), (1, 2, relative(true, 1, 2), 0.95)]
    edges.append((0, 2, relative(true, 0, 2), 0.9))
    (group,) = join_groups(3, Edges.of(edges, 1.0))
    assert between(group.poses, true) < 0.05


def test_what_is_held_stays_and_comes_first():
    rng = np.random.default_rng(10)
    true = random_poses(7, rng)
    edges = [(5, 6, relative(true, 5, 6), 0.95), (0, 6, relative(true, 0, 6), 0.95)]
    edges += [(i, j, relative(true, i, j), 0.99) for i, j in itertools.combinations([1, 2, 3, 4], 2)]
    groups = join_groups(7, Edges.of(edges, 1.0), {0: true[0], 5: true[5]})
    assert [group.members.tolist() for group in groups] == [[0, 5, 6], [1, 2, 3, 4]]
    np.testing.assert_array_equal(groups[0].poses[:2], true[[0, 5]])
    np.testing.assert_allclose(groups[0].poses[2], true[6], atol=1e-6)


def test_more_edges_that_agree_make_a_group_surer():
    rng = np.random.default_rng(11)
    true = random_poses(4, rng)
    few, many = (join_groups(4, Edges.of(chain(true, rng, reach, 0.9), 1.0))[0] for reach in (1, 3))
    assert 0.6 < few.probability < many.probability < 1


def test_scans_without_edges_are_alone():
    assert [group.members.tolist() for group in join_groups(2, Edges.of([], 1.0))] == [[0], [1]]


def test_rounding_errors_do_not_grow_with_the_number_of_joinings():
    rng = np.random.default_rng(0)
    true = random_poses(80, rng)
    (group,) = join_groups(80, Edges.of(chain(true, rng, 3), 1.0))
    rotation = group.poses[:, :3, :3]
    np.testing.assert_allclose(rotation @ rotation.swapaxes(1, 2), np.tile(np.eye(3), (80, 1, 1)), atol=1e-12)
    assert between(group.poses, true) < 0.5


@pytest.mark.parametrize(("reach", "seconds", "fewest", "most"), [(1, None, 1, 1), (2, 0.0, 1, 1), (2, None, 2, 30)])
def test_poses_are_optimized_where_loops_close_and_while_there_is_time(monkeypatch, reach, seconds, fewest, most):
    """And at the end, once for every group."""
    calls, optimize = [], pose_groups.optimize

    def count(poses, *rest):
        calls.append(len(poses))
        return optimize(poses, *rest)

    monkeypatch.setattr(pose_groups, "optimize", count)
    rng = np.random.default_rng(12)
    true = random_poses(30, rng)
    (group,) = join_groups(30, Edges.of(chain(true, rng, reach), 1.0), budget=Budget(seconds))
    assert between(group.poses, true) < 0.5
    assert fewest <= len(calls) <= most
    assert calls[-1] == 30
