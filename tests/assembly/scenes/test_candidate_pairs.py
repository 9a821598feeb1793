"""Which pairs of scans are tried."""

import numpy as np

from eda.assembly.scenes.candidate_pairs import bridging_pairs, nearest_pairs


def random_similarity(count: int, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).random((count, count))
    values = values + values.T
    np.fill_diagonal(values, -np.inf)
    return values


def test_pairs_are_those_of_nearest_neighbours():
    values = random_similarity(30)
    wanted = {tuple(sorted((i, j))) for i in range(30) for j in sorted(range(30), key=lambda k: -values[i, k])[:4]}
    found = nearest_pairs(values, 4)
    assert set(found) == wanted
    assert len(found) == len(wanted)
    assert [values[pair] for pair in found] == sorted((values[pair] for pair in found), reverse=True)


def test_their_number_grows_with_the_scans():
    for count in (10, 100, 300):
        assert len(nearest_pairs(random_similarity(count), 6)) <= 6 * count


def test_few_scans_have_all_pairs():
    assert len(nearest_pairs(random_similarity(5), 6)) == 10


def test_bridges_lead_from_small_groups_to_others_and_are_new():
    values, group = random_similarity(12), np.array([0] * 7 + [1] * 3 + [2, 3])
    tried = {(0, 7), (3, 11)}
    found = bridging_pairs(values, group, tried, 3)
    assert not set(found) & tried
    assert all(group[i] != group[j] for i, j in found)
    for scan in (7, 8, 9, 10, 11):
        others = [k for k in range(12) if group[k] != group[scan] and tuple(sorted((k, scan))) not in tried]
        for other in sorted(others, key=lambda k: -values[scan, k])[:3]:
            assert tuple(sorted((scan, other))) in found
