"""Assemblies: which are the same, which contradict each other, and polishing."""

import sys

import numpy as np
from support.quick_search import DENSITY
from support.rigid_motions import random_motion_of_size
from support.sliced_block import disturbed, slices, taken_apart

from eda.assembly import (
    Evidence,
)
from eda.assembly.search.assemblies import Assemblies, contradict, same_shape


def test_polishing_never_makes_an_assembly_worse(monkeypatch):
    evidence, true = taken_apart(slices(3, DENSITY))
    before = Assemblies.of(evidence, np.stack([true, disturbed(true, 5, 0.05)]), np.ones((2, 3), dtype=bool))
    module = sys.modules["eda.assembly.search.assemblies"]
    swapped = before.poses[::-1].copy()
    monkeypatch.setattr(module, "refine", lambda *given: swapped)  # one gets better, the other worse
    found = before.polish(evidence)
    np.testing.assert_array_equal(found.poses, np.stack([true, true]))
    np.testing.assert_allclose(found.score, before.score[0])


def test_an_assembly_and_a_part_of_it_do_not_contradict_each_other():
    evidence, true = taken_apart(slices(3, DENSITY))
    moved = random_motion_of_size(np.random.default_rng(0), 70, 2.0) @ true
    other = disturbed(true, 60, 0.4)
    placed = np.array([[True] * 3, [True, True, False], [True, True, False], [False, False, True]])
    every = Assemblies.of(evidence, np.stack([true, moved, other, other]), placed)
    assert [contradict(evidence, every, 0, k) for k in range(4)] == [False, False, True, False]


def test_an_assembly_whose_equal_pieces_changed_places_has_the_same_shape():
    fragments = slices(2, DENSITY)
    twins = Evidence.of([fragments[0], fragments[1], fragments[1]])
    here, away, further = np.eye(4), np.eye(4), np.eye(4)
    away[2, 3], further[2, 3] = 3.0, 4.0
    poses = np.stack([[here, here, away], [here, away, here], [here, here, further], [away, away, here]])
    every = Assemblies.of(twins, poses, np.ones((4, 3), dtype=bool))
    assert [same_shape(twins, every, 0, k) for k in range(4)] == [True, True, False, False]
