"""Registration without learning: features that know no frame, and motions that are found among wrong matches."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.lumpy_shapes import lumpy_cloud
from support.measured_puzzles import example
from support.rigid_motions import random_motion, transform_points

from eda.assembly.proposals.kiss_matcher import is_installed
from eda.errors import InputError
from eda.evaluate import evaluate, scatter
from eda.reproduce.baselines import METHODS, PairAnswers, WithIcp
from eda.reproduce.baselines.fast_global import EVERY, FastGlobalRegistration, scales
from eda.reproduce.baselines.feature_ransac import FeatureRansac, fit_motions
from eda.reproduce.baselines.fpfh import BINS, fpfh, mutual_matches, pair_angles
from eda.reproduce.baselines.spacing import thinned

FITS = [FeatureRansac(draws=5000), FastGlobalRegistration()]


def motion_of(seed: int) -> np.ndarray:
    return random_motion(seed, 1.0)


# -- features ----------------------------------------------------------------------------------------------


def by_hand(p, n, q, m) -> np.ndarray:
    """The three angles of one pair, word for word as the paper of the features defines them."""
    line = (q - p) / np.linalg.norm(q - p)
    if np.arccos(min(1, abs(n @ line))) > np.arccos(min(1, abs(m @ line))):
        n, m, line = m, n, -line
    v = np.cross(line, n)
    v /= np.linalg.norm(v)
    w = np.cross(n, v)
    return np.array([v @ m, n @ line, np.arctan2(w @ m, n @ m)])


def test_the_angles_of_a_pair():
    rng = np.random.default_rng(0)
    points, normals = rng.normal(size=(2, 20, 3)), rng.normal(size=(2, 20, 3))
    normals /= np.linalg.norm(normals, axis=2, keepdims=True)
    found = pair_angles(points[0], normals[0], points[1], normals[1])
    expected = [by_hand(points[0, i], normals[0, i], points[1, i], normals[1, i]) for i in range(20)]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_features_by_brute_force():
    points, normals = lumpy_cloud(3, 40)
    radius, low = 0.8, np.array([-1, -1, -np.pi])
    distance = np.linalg.norm(points[:, None] - points, axis=2)
    simple = np.zeros((len(points), 3 * BINS))
    for i in range(len(points)):
        near = [j for j in range(len(points)) if 0 < distance[i, j] < radius]
        for j in near:
            place = (by_hand(points[i], normals[i], points[j], normals[j]) - low) / (-2 * low) * BINS
            for angle in range(3):
                simple[i, angle * BINS + min(int(place[angle]), BINS - 1)] += 1 / len(near)
    expected = simple.copy()
    for i in range(len(points)):
        near = [j for j in range(len(points)) if 0 < distance[i, j] < radius]
        if near:
            weight = np.array([1 / distance[i, j] for j in near])
            expected[i] += (weight[:, None] * simple[near]).sum(axis=0) / weight.sum()
    found = fpfh(points, normals, radius)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert found.max() > 0.2


def test_features_do_not_know_the_frame():
    points, normals = lumpy_cloud(1, 200)
    turn = Rotation.random(random_state=2).as_matrix()
    before, after = fpfh(points, normals, 0.6), fpfh(points @ turn.T + 5, normals @ turn.T, 0.6)
    assert np.mean(np.abs(before - after) < 1e-9) > 0.999  # but for a pair on the edge of a bin


def test_matches_are_mutual():
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(30, 5)), rng.normal(size=(25, 5))
    distance = np.linalg.norm(a[:, None] - b, axis=2)
    expected = [
        (i, j) for i in range(30) for j in range(25) if distance[i].argmin() == j and distance[:, j].argmin() == i
    ]
    assert list(map(tuple, mutual_matches(a, b).tolist())) == expected


# -- motions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", FITS, ids=lambda method: type(method).__name__)
def test_a_motion_is_found_among_wrong_matches(method):
    rng, motion = np.random.default_rng(5), motion_of(6)
    x = rng.normal(size=(120, 3))
    y = transform_points(motion, x) + rng.normal(scale=0.002, size=x.shape)
    y[50:] = rng.normal(size=(70, 3))  # more than half are wrong
    found = method.fit(x, y, 0.02)
    np.testing.assert_allclose(found, motion, atol=0.01)
    np.testing.assert_array_equal(method.fit(x, y, 0.02), found)


@pytest.mark.parametrize(("first", "last"), [(50.0, 1e-4), (50.0, 1e-12), (2.0, 1.9), (1.0, 3.0), (1.0, 1.0)])
def test_the_scale_shrinks_to_that_of_an_inlier(first, last):
    mu = scales(first, last)
    assert set(mu[-EVERY:]) == {last}
    assert (np.diff(mu) <= 0).all()
    assert (mu[:-1] / mu[1:] < 1.4 + 1e-9).all()
    assert mu[0] == (first if first > last else last)
    assert np.isfinite(scales(first, 0.0)).all()


def test_the_scale_that_is_left_is_the_inliers(monkeypatch):
    """From clouds a thousand inliers wide; the weight of a match that is off by one inlier is 1/4 at the end."""
    seen = []

    def recorded(x, y, weights):
        seen.append(weights)
        return fit_motions(x, y, weights)

    monkeypatch.setattr("eda.reproduce.baselines.fast_global.fit_motions", recorded)
    monkeypatch.setattr("eda.reproduce.baselines.fast_global.TUPLES", 1000)
    x = np.random.default_rng(7).uniform(-500, 500, size=(200, 3))
    y = x.copy()
    y[0, 2] += 1
    FastGlobalRegistration().fit(x, y, 1.0)
    assert seen[-1].min() == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("method", FITS, ids=lambda method: type(method).__name__)
def test_too_few_matches_move_nothing(method):
    np.testing.assert_array_equal(method.fit(np.zeros((2, 3)), np.ones((2, 3)), 0.1), np.eye(4))
    x = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_array_equal(method.fit(x, 40 * x, 0.1), np.eye(4))  # no triple keeps its shape


@pytest.mark.parametrize("name", METHODS)
def test_two_halves_of_a_view_are_registered(name):
    if name == "KISS-Matcher" and not is_installed():
        pytest.skip("pip install '.[scan]' adds kiss-matcher")
    cloud, _ = lumpy_cloud(8, 1500)
    motion, rng = motion_of(9), np.random.default_rng(10)
    source, target = cloud[cloud[:, 0] > -0.4], cloud[cloud[:, 0] < 0.4]
    source = transform_points(np.linalg.inv(motion), source + rng.normal(scale=0.002, size=source.shape))
    rough = METHODS[name]().register(source, target)
    fine = WithIcp(METHODS[name]()).register(source, target)
    errors = [
        np.linalg.norm(transform_points(T, source) - transform_points(motion, source), axis=1).mean()
        for T in (rough, fine)
    ]
    assert errors[0] < 0.2
    assert errors[1] < 0.03
    assert errors[1] <= errors[0] + 1e-3


class Exact:
    """Knows the answer of the only puzzle."""

    def __init__(self, motion: np.ndarray) -> None:
        self.motion = motion

    def register(self, source, target) -> np.ndarray:
        return self.motion


def test_the_motion_of_the_source_into_the_target_is_what_is_scored():
    (puzzle,) = scatter([example(2, 3)], 0)
    truth = (puzzle.solution[1].inverse() @ puzzle.solution[0]).matrix().numpy()
    assert evaluate(PairAnswers(Exact(truth)).answers([puzzle])).values["rotation"].max() < 1e-4
    assert evaluate(PairAnswers(Exact(np.linalg.inv(truth))).answers([puzzle])).values["rotation"].max() > 1


def test_a_puzzle_of_three_is_refused():
    with pytest.raises(InputError, match="3 pieces, but these baselines register pairs"):
        list(PairAnswers(Exact(np.eye(4))).answers(scatter([example(3, 1)], 0)))


def test_a_thinned_cloud_covers_it_and_tells_its_spacing():
    grid = np.stack(np.meshgrid(*[np.arange(6.0)] * 3), axis=-1).reshape(-1, 3)
    points, spacing = thinned(grid)
    assert len(points) == 216
    assert spacing == 1
    assert len(thinned(grid, 50)[0]) == 50
