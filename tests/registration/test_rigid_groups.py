"""Pieces of a rigid group keep their relative poses, wherever the group goes; `laws/test_pins.py` has pinned pieces."""

import numpy as np
import pytest
import torch
from support.rigid_motions import random_se3

from eda import InputError
from eda.registration.rigid_groups import RigidGroups


def test_groups_of_several_pieces_come_first_in_the_given_order():
    groups = RigidGroups.of(random_se3(7, spread=0.7), [[6, 3], [2], [5, 0, 5]])
    assert groups.group.tolist() == [1, 2, 3, 0, 4, 1, 0]
    assert groups.first.tolist() == [3, 0, 1, 2, 4]
    assert not groups.is_trivial


def test_without_groups_every_piece_is_one_and_stays_as_it_is():
    groups, poses = (
        RigidGroups.of(random_se3(4, spread=0.7), [[], [2], [1, 1]]),
        random_se3(12, 1, spread=0.7).reshape(3, 4),
    )
    assert groups.is_trivial
    assert groups.group.tolist() == groups.first.tolist() == [0, 1, 2, 3]
    assert torch.equal(groups.expand(poses).matrix(), poses.matrix())


def test_members_lie_to_each_other_as_they_did_wherever_the_group_is():
    given, moved = random_se3(5, spread=0.7), random_se3(8, 2, spread=0.7).reshape(2, 4)
    groups = RigidGroups.of(given, [[4, 1]])
    before, after = given.matrix().numpy(), groups.expand(moved).matrix().numpy()
    wanted = np.linalg.inv(before[1]) @ before[4]
    for k in range(2):
        np.testing.assert_allclose(np.linalg.inv(after[k, 1]) @ after[k, 4], wanted, atol=1e-12)
        np.testing.assert_allclose(after[k, 1], moved[k, 0].matrix().numpy(), atol=1e-12)  # the frame of the first
        for piece, number in ((0, 1), (2, 2), (3, 3)):
            np.testing.assert_array_equal(after[k, piece], moved[k, number].matrix().numpy())


def test_relative_poses_of_pieces_become_those_of_their_groups():
    given = random_se3(4, spread=0.7)
    poses = given.matrix().numpy()
    pairs = {(i, j): np.linalg.inv(poses[j])[None] @ poses[i] for i, j in [(0, 1), (0, 3), (1, 2), (1, 3)]}
    found = RigidGroups.of(given, [[1, 3]]).merge_pair_poses(pairs)
    groups_at = [poses[1], poses[0], poses[2]]  # a group lies in the frame of its first piece
    assert {pair: len(several) for pair, several in found.items()} == {(0, 1): 2, (0, 2): 1}
    for (a, b), several in found.items():
        for relative in several:
            np.testing.assert_allclose(relative, np.linalg.inv(groups_at[b]) @ groups_at[a], atol=1e-12)


@pytest.mark.parametrize("groups", [[[0, 1], [1, 2]], [[0, 9]], [[-1, 2]]])
def test_groups_that_overlap_or_name_no_piece_are_refused(groups):
    with pytest.raises(InputError, match="disjoint sets of the pieces 0 to 3"):
        RigidGroups.of(random_se3(4, spread=0.7), groups)
