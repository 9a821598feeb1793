"""Prop. D.3: with the second piece fixed, the distribution of the first piece's pose is bi-equivariant.

P~(A | X_1, X_2) = P(A x {e} | X_1, X_2) is the distribution of the poses of X_1 where X_2 stays where it is. Def. D.1
asks for P~(A | X_1, X_2) = P~(g_2 A g_1^-1 | g_1 X_1, g_2 X_2). P_0 is invariant (`test_noise.py`), so it is enough
that transported noise leads to the transported pose, sample by sample.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pytest
import torch
from support.lumpy_shapes import lumpy_cloud, lumpy_pieces
from support.oracles import haar_rotations, stirred
from torch import Tensor

from eda import SE3, Eda, EdaConfig, NetworkConfig, Pieces
from eda.flow import sample_noise

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-9}
in_both_precisions = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)

PAPER = NetworkConfig(
    num_levels=1, num_blocks=1, num_neighbors=4, cross_neighbors=4, channels=8, num_heads=2, num_knots=5, spacing=0.2
)
OURS = replace(PAPER, cross_neighbors=None, time_in_encoder=False)
with_both_networks = pytest.mark.parametrize("network", [PAPER, OURS], ids=["paper", "ours"])
SAMPLES = 3


@dataclass(frozen=True)
class Sampler:
    """A model and a solver: from pieces and noise to poses."""

    config: EdaConfig
    dtype: torch.dtype

    def sample(self, pieces: Pieces, noise: SE3) -> SE3:
        model = _model(self.config, self.dtype)
        return model.sample(pieces, len(noise), noise=noise, solver="rk4", steps=2)

    def noise(self, pieces: Pieces) -> SE3:
        return sample_noise(pieces, 0.4, samples=SAMPLES, generator=torch.Generator().manual_seed(0))


@lru_cache(maxsize=8)
def _model(config: EdaConfig, dtype: torch.dtype) -> Eda:
    model = stirred(Eda(config))
    with torch.no_grad():
        model.network.head.output.weight.mul_(10)  # so that the flow has somewhere to go
    return model.to(dtype)


def rotations(rotation: Tensor, dtype: torch.dtype) -> SE3:
    return SE3(rotation, torch.zeros(*rotation.shape[:-1], dtype=torch.float64)).to(dtype)


def two_rotations(dtype: torch.dtype) -> SE3:
    """(g_1, g_2)."""
    return rotations(haar_rotations(2, seed=4), dtype)


def first_to_second(poses: SE3) -> SE3:
    """g_2^-1 g_1, the pose of X_1 where X_2 is fixed. (K, 2) -> (K,)."""
    return poses[:, 1].inverse() @ poses[:, 0]


def distance(a: SE3, b: SE3) -> float:
    return float((a.matrix() - b.matrix()).abs().max())


def violation(sampler: Sampler) -> float:
    """How far samples of P(g_2 A g_1^-1 x g_2 B g_2^-1 | g_1 X_1, g_2 X_2) are from those of P(A x B | X_1, X_2).

    With B = {e} this is Def. D.1, since g_2 e g_2^-1 = e.
    """
    pieces, g = lumpy_pieces(2, 20, dtype=sampler.dtype), two_rotations(sampler.dtype)
    noise = sampler.noise(pieces)
    found = sampler.sample(pieces.move(g), g[1:] @ noise @ g.inverse())
    return distance(found, g[1:] @ sampler.sample(pieces, noise) @ g.inverse())


@in_both_precisions
@with_both_networks
def test_both_pieces_turned_and_the_second_held_still_turn_the_pose_from_both_sides(network, dtype):
    assert violation(Sampler(EdaConfig(network), dtype)) < TOLERANCE[dtype]


BROKEN = {
    "not SO(3)^2-equivariant": EdaConfig(OURS, body_twist=True),
    "not SO(3)-invariant": EdaConfig(replace(OURS, free_network=True)),
}


@in_both_precisions
@pytest.mark.parametrize("premise", BROKEN)
def test_without_a_premise_there_is_no_conclusion(premise, dtype):
    """The negative control: two parts of the ablation break one premise each."""
    assert violation(Sampler(BROKEN[premise], dtype)) > 0.05


@in_both_precisions
@with_both_networks
def test_the_pose_of_the_first_piece_in_the_frame_of_the_second_is_bi_equivariant(network, dtype):
    """The same in SE(3), without reference to the frame of the whole."""
    sampler, pieces, g = Sampler(EdaConfig(network), dtype), lumpy_pieces(2, 20, dtype=dtype), two_rotations(dtype)
    noise = sampler.noise(pieces)
    found = first_to_second(sampler.sample(pieces.move(g), noise @ g.inverse()))
    expected = g[1:] @ first_to_second(sampler.sample(pieces, noise)) @ g[:1].inverse()
    assert distance(found, expected) < TOLERANCE[dtype]


@in_both_precisions
@with_both_networks
def test_the_second_piece_can_be_fixed_by_turning_the_noise(network, dtype):
    """P(A x {e}): by SO(3)-invariance there is a sample with g_2 = e, and its g_1 is the relative rotation."""
    sampler, pieces = Sampler(EdaConfig(network), dtype), lumpy_pieces(2, 20, dtype=dtype)
    noise = sampler.noise(pieces)
    poses = sampler.sample(pieces, noise)
    back = SE3(poses.rotation[:, 1:].mT, torch.zeros_like(poses.translation[:, 1:]))
    turned = sampler.sample(pieces, back @ noise)
    one = torch.eye(3, dtype=dtype).expand(SAMPLES, 3, 3)
    torch.testing.assert_close(turned.rotation[:, 1], one, rtol=0, atol=TOLERANCE[dtype])
    relative = first_to_second(poses).rotation
    torch.testing.assert_close(turned.rotation[:, 0], relative, rtol=0, atol=TOLERANCE[dtype])


@in_both_precisions
@with_both_networks
def test_pieces_that_change_places_have_the_inverse_pose(network, dtype):
    """The swap-equivariance of pairs is permutation-equivariance."""
    sampler, pieces, swap = Sampler(EdaConfig(network), dtype), lumpy_pieces(2, 20, dtype=dtype), torch.tensor([1, 0])
    noise = sampler.noise(pieces)
    found = first_to_second(sampler.sample(pieces.permute(swap), noise[:, swap]))
    assert distance(found, first_to_second(sampler.sample(pieces, noise)).inverse()) < TOLERANCE[dtype]


def pieces_with_a_symmetric_one(dtype: torch.dtype) -> Pieces:
    """X_1 equals itself after half a turn about the z axis; X_2 has no symmetry."""
    half, normals = lumpy_cloud(7, 6)
    turn = np.array([-1.0, -1.0, 1.0])
    second, second_normals = lumpy_cloud(8, 12)
    clouds = [np.concatenate([half, half * turn]), second]
    return Pieces.from_clouds(clouds, [np.concatenate([normals, normals * turn]), second_normals], dtype=dtype)


@in_both_precisions
def test_a_symmetric_piece_has_two_poses_and_no_contradiction(dtype):
    """With g_1 X_1 = X_1 the distribution is R_g1-invariant: a pose A and A g_1^-1 are equally likely."""
    # Every point is kept and sees every other one: equal distances then need no choice.
    everything = replace(OURS, num_neighbors=11)
    sampler, pieces = Sampler(EdaConfig(everything), dtype), pieces_with_a_symmetric_one(dtype)
    half_turn = rotations(torch.diag(torch.tensor([-1.0, -1.0, 1.0])).double()[None], dtype)
    noise = sampler.noise(pieces)
    symmetry = SE3.cat([half_turn, SE3.identity(1, dtype=dtype)])
    pose = first_to_second(sampler.sample(pieces, noise))
    other = first_to_second(sampler.sample(pieces, noise @ symmetry.inverse()))
    assert distance(other, pose @ half_turn.inverse()) < TOLERANCE[dtype]
    assert distance(other, pose) > 0.1
