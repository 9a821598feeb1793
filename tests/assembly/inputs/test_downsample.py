"""The dense points: of a broken object equally far apart on all pieces, of scans equally many of each."""

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation
from support.surfaces import box, ellipsoid

from eda.assembly import Clouds, ModelInput
from eda.assembly.contact.fragment import MOST_POINTS
from eda.assembly.inputs.downsample import LEAST_POINTS, POINTS_PER_PIECE

BODY, CHIP, TINY = ellipsoid(9000), box(4000, (1.0, 0.7, 0.6)), box(3000, (0.06, 0.05, 0.02))


def clouds_of(*surfaces, turn: np.ndarray | None = None) -> Clouds:
    turn = np.eye(3) if turn is None else turn
    return Clouds.of([points @ turn.T for points, _ in surfaces], [normals @ turn.T for _, normals in surfaces])


def dense_clouds(clouds: Clouds, one_density: bool) -> list[np.ndarray]:
    dense = ModelInput.of(clouds, 400, one_density=one_density).dense
    return [cloud.numpy() for cloud in dense.points.split(dense.sizes.tolist())]


def spacings(clouds: list[np.ndarray]) -> np.ndarray:
    return np.array([np.median(cKDTree(cloud).query(cloud, k=2)[0][:, 1]) for cloud in clouds])


def test_one_density_is_the_same_on_large_and_small_pieces():
    large, small = spacings(dense_clouds(clouds_of(BODY, CHIP), one_density=True))
    assert small == pytest.approx(large, rel=0.15)
    large, small = spacings(dense_clouds(clouds_of(BODY, CHIP), one_density=False))
    assert small < large / 2


def test_as_many_points_as_pieces_of_their_own_would_have():
    sizes = [len(cloud) for cloud in dense_clouds(clouds_of(BODY, CHIP), one_density=True)]
    assert sum(sizes) == 2 * POINTS_PER_PIECE
    assert sizes[0] > POINTS_PER_PIECE > sizes[1] > LEAST_POINTS
    assert [len(cloud) for cloud in dense_clouds(clouds_of(BODY, CHIP), one_density=False)] == [POINTS_PER_PIECE] * 2


def test_a_tiny_piece_keeps_enough_points_to_have_a_form():
    *_, tiny = dense_clouds(clouds_of(BODY, CHIP, TINY), one_density=True)
    assert len(tiny) == LEAST_POINTS


def test_no_piece_has_more_points_than_can_be_judged():
    sizes = [len(cloud) for cloud in dense_clouds(clouds_of(BODY, *[TINY] * 5), one_density=True)]
    assert sizes[0] == MOST_POINTS


def test_few_points_are_all_kept():
    few = [(points[:300], normals[:300]) for points, normals in (BODY, CHIP)]
    assert [len(cloud) for cloud in dense_clouds(clouds_of(*few), one_density=True)] == [300, 300]


def test_the_choice_knows_no_axes():
    turn = Rotation.random(random_state=2).as_matrix()
    given = dense_clouds(clouds_of(BODY, CHIP, TINY), one_density=True)
    turned = dense_clouds(clouds_of(BODY, CHIP, TINY, turn=turn), one_density=True)
    for cloud, expected in zip(turned, given, strict=True):
        np.testing.assert_allclose(cloud, expected @ turn.T, atol=1e-5)
