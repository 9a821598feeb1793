"""Turned, moved and shuffled pieces make the same assembled shape: the whole of `assemble`, with the shipped model."""

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from support.broken_stone import stone
from support.rigid_motions import rigid_motions, transform_points

from eda import SE3, AssembleConfig, Eda, prepare
from eda.assembly import Assembly, PreparedPieces, RankConfig
from eda.flow import sample_noise

SEEDS, NOISES = 50, 5
NUM_PIECES = 3
CONFIG = AssembleConfig(samples=1, steps=4, solver="rk1", ranking=RankConfig(refine=False))


@pytest.fixture(scope="module")
def model() -> Eda:
    return Eda.load("fracture-small")


@pytest.fixture(scope="module")
def pieces() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """In millimetres, and more points than the network takes, so that they are downsampled."""
    example = stone(NUM_PIECES, 2000)
    return [60.0 * cloud.astype(float) for cloud in example.clouds()], example.clouds(example.normals)


def noise_of(prepared: PreparedPieces, seed: int) -> SE3:
    return sample_noise(prepared.model_input.pieces, 0.5, generator=torch.Generator().manual_seed(seed))


def assembled(prepared: PreparedPieces, noise: SE3) -> Assembly:
    return prepared.rank(prepared.sample(CONFIG, noise=noise), CONFIG)


def disturbed(clouds, normals, model: Eda, noise: SE3, seed: int) -> np.ndarray:
    """The motions of the pieces that an assembly amounts to for which they were turned, moved and shuffled first."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(NUM_PIECES)
    away = rigid_motions(
        Rotation.random(NUM_PIECES, random_state=seed).as_matrix(), 200 * rng.normal(size=(NUM_PIECES, 3))
    )
    turned = None if normals is None else [normals[i] @ away[i, :3, :3].T for i in order]
    there = prepare([transform_points(away[i], clouds[i]) for i in order], turned, model=model)
    turns = SE3(torch.from_numpy(away[:, :3, :3]).float(), torch.zeros(NUM_PIECES, 3))
    found = assembled(there, (noise @ turns.inverse())[:, order])
    back = np.empty((NUM_PIECES, 4, 4))
    back[order] = found.best.poses @ away[order]
    return back


def largest_difference(assembly: Assembly, other: np.ndarray) -> float:
    """How far apart any point of the two shapes is, one being moved onto the other as a whole, relative to the size."""
    ours, theirs = (
        np.concatenate(
            [transform_points(motion, cloud) for cloud, motion in zip(assembly.clouds.points, poses, strict=True)]
        )
        for poses in (assembly.best.poses, other)
    )
    ours, theirs = ours - ours.mean(axis=0), theirs - theirs.mean(axis=0)
    turn, _ = Rotation.align_vectors(ours, theirs)
    return float(np.linalg.norm(ours - turn.apply(theirs), axis=1).max() / np.ptp(ours, axis=0).max())


def test_disturbed_pieces_make_the_same_shape(pieces, model):
    """From the same noise, transported, and without refinement: to a thousandth of the size for 95 % of seeds."""
    here = prepare(*pieces, model=model)
    noises = [noise_of(here, seed) for seed in range(NOISES)]
    wholes = [assembled(here, noise) for noise in noises]
    assert largest_difference(wholes[0], wholes[1].best.poses) > 1e-2, "the noise matters"
    off = [
        largest_difference(wholes[seed % NOISES], disturbed(*pieces, model, noises[seed % NOISES], seed))
        for seed in range(SEEDS)
    ]
    assert np.quantile(off, 0.95) < 1e-3
    assert np.median(off) < 1e-4


def test_disturbed_pieces_without_normals_make_the_same_shape(pieces, model):
    """What is estimated turns with the pieces too."""
    here = prepare(pieces[0], model=model)
    noise = noise_of(here, 0)
    whole = assembled(here, noise)
    off = [largest_difference(whole, disturbed(pieces[0], None, model, noise, seed)) for seed in range(3)]
    assert np.median(off) < 5e-3
