"""What a system is given: pieces about the origin, turned by the seed and the puzzle's place alone."""

import numpy as np
import pytest
import torch
from support.measured_puzzles import EXAMPLES, example
from support.rigid_motions import random_se3

from eda import InputError
from eda.evaluate import ScatteredPuzzle


def test_the_solution_brings_the_given_pieces_back():
    puzzle = ScatteredPuzzle.of(EXAMPLES[1], 0, 1)
    for i, (given, true) in enumerate(zip(puzzle.clouds(), EXAMPLES[1].clouds(), strict=True)):
        assert np.abs(given.mean(axis=0)).max() < 1e-6
        np.testing.assert_allclose(puzzle.solution[i].act(torch.from_numpy(given)).numpy(), true, atol=1e-6)
    turned = puzzle.normals()[0] @ puzzle.solution.rotation[0].numpy().T
    np.testing.assert_allclose(turned, EXAMPLES[1].clouds(EXAMPLES[1].normals)[0], atol=1e-6)


def test_the_turns_follow_seed_and_place_only():
    first = ScatteredPuzzle.of(EXAMPLES[0], 3, 7).solution.rotation
    assert torch.equal(first, ScatteredPuzzle.of(EXAMPLES[0], 3, 7).solution.rotation)
    for seed, index in [(4, 7), (3, 8)]:
        assert not torch.allclose(first, ScatteredPuzzle.of(EXAMPLES[0], seed, index).solution.rotation, atol=0.1)


def test_a_network_is_given_about_as_many_points_as_asked_for():
    puzzle = ScatteredPuzzle.of(EXAMPLES[0], 0, 0)
    pieces = puzzle.pieces(50)
    assert len(pieces.points) == 50
    assert pieces.normals is not None
    assert puzzle.pieces(50, normals=False).normals is None
    identity = pieces.to_user(pieces.from_user(puzzle.solution))
    torch.testing.assert_close(identity.matrix(), puzzle.solution.matrix())


def test_dense_pieces_are_all_points_in_the_frames_of_the_few():
    """A pose means the same for both."""
    puzzle = ScatteredPuzzle.of(EXAMPLES[1], 0, 1)
    few, dense = puzzle.pieces(50), puzzle.dense_pieces(50)
    assert len(few.points) < len(dense.points) == len(EXAMPLES[1].points)
    for name in ("counts", "centers", "scales"):
        assert torch.equal(getattr(few, name), getattr(dense, name))
    poses = random_se3(3)
    users, moved = few.to_user(poses), dense.move(poses.to(torch.float32)).points.double()
    for motion, given, there in zip(users, puzzle.clouds(), moved.split(dense.sizes.tolist()), strict=True):
        expected = motion.act(torch.from_numpy(given))
        torch.testing.assert_close(few.scales * there, expected, rtol=0, atol=1e-5)
    turned = puzzle.normals()[2]
    np.testing.assert_allclose(dense.normals.split(dense.sizes.tolist())[2].numpy(), turned, atol=1e-6)
    assert puzzle.dense_pieces(50, normals=False).normals is None


def test_a_puzzle_of_one_own_piece_cannot_be_scored():
    with pytest.raises(InputError, match="lonely: fewer than two"):
        ScatteredPuzzle.of(example(3, 0, foreign=2, name="lonely"), 0, 0)
