"""The break head does not turn with the pieces; and pieces that do not belong have no say in the loss (ours)."""

from dataclasses import replace

import pytest
import torch
from support.closeness import assert_near
from support.lumpy_shapes import TINY_NETWORK, lumpy_cloud, lumpy_pieces, lumpy_puzzle, seeded, two_puzzles
from support.oracles import stirred
from support.rigid_motions import random_se3
from torch import Tensor

from eda import Eda, EdaConfig, InputError, Pieces, Puzzle
from eda.flow import Path
from eda.flow.path import rotation_correction
from eda.nn.protocol import Labels

VARIANTS = {
    "as it is": {},
    "degree 1": {"max_degree": 1},
    "degree 3": {"max_degree": 3},
    "unoriented normals": {"normals": "unoriented"},
    "no normals": {"normals": "absent"},
    "encoder without time": {"time_in_encoder": False},
    "one level": {"num_levels": 1},
    "three levels": {"num_levels": 3},
}
in_all_variants = pytest.mark.parametrize("variant", VARIANTS)


def model_of(variant: str = "as it is", **options: object) -> Eda:
    """In float64, every weight stirred."""
    return stirred(Eda(EdaConfig(replace(TINY_NETWORK, break_head=True, **VARIANTS[variant]), **options)))


# -- the head ----------------------------------------------------------------------------------------------


@in_all_variants
def test_the_answer_differs_from_point_to_point(variant):
    answer = model_of(variant).break_probability(two_puzzles())
    assert ((answer > 0) & (answer < 1)).all()
    assert answer.std() > 1e-3


@in_all_variants
@pytest.mark.parametrize("seed", [0, 1])
def test_the_answer_does_not_depend_on_poses(variant, seed):
    model, pieces = model_of(variant), two_puzzles()
    assert_near(model.break_probability(pieces.move(random_se3(5, seed))), model.break_probability(pieces))


@in_all_variants
def test_the_answer_follows_the_order_of_pieces(variant):
    model, pieces = model_of(variant), two_puzzles()
    order = [2, 0, 1, 4, 3]
    answers = model.break_probability(pieces).split(pieces.sizes.tolist())
    assert_near(model.break_probability(pieces.permute(torch.tensor(order))), torch.cat([answers[i] for i in order]))


def test_the_answer_follows_the_order_of_points():
    model, pieces = model_of(), two_puzzles()
    first = pieces.sizes.cumsum(0) - pieces.sizes
    order = torch.cat(
        [start + torch.randperm(int(n), generator=seeded(int(n))) for start, n in zip(first, pieces.sizes, strict=True)]
    )
    answer = model.break_probability(pieces)
    assert_near(model.break_probability(pieces.reorder(order)), answer[order])
    assert_near(model.break_probability(model.pyramid(pieces)), answer)


def test_the_answer_does_not_depend_on_other_pieces():
    model, pieces = model_of(), lumpy_pieces(3, 24)
    others = Pieces.collate([lumpy_pieces(2, 30, seed=1), pieces])
    assert_near(model.break_probability(others)[-len(pieces.points) :], model.break_probability(pieces))


def flipped(pieces: Pieces) -> Pieces:
    """Every second normal the other way round."""
    sign = 1 - 2 * (torch.arange(len(pieces.points)) % 2).double()
    return replace(pieces, normals=pieces.normals * sign[:, None])


def test_unoriented_normals_may_be_flipped():
    pieces = two_puzzles()
    for variant, matters in [("unoriented normals", False), ("no normals", False), ("as it is", True)]:
        model = model_of(variant)
        change = model.break_probability(flipped(pieces)) - model.break_probability(pieces)
        assert (change.abs().max() > 1e-3) == matters, variant
        assert matters or change.abs().max() < 1e-12, variant


def test_points_of_one_place_are_told_apart_by_their_normals():
    """What the head itself sees: the encoder's levels have one of the two points, or none."""
    points, normals = lumpy_cloud(0, 60)
    clouds, directions = [points, points.repeat(2, axis=0)], [normals, normals.repeat(2, axis=0)]
    directions[1] = directions[1].copy()
    directions[1][1::2] *= -1
    answer = model_of().break_probability(Pieces.from_clouds(clouds, directions, dtype=torch.float64))[60:]
    assert ((answer[::2] - answer[1::2]).abs() > 1e-4).float().mean() > 0.9


def test_a_network_without_the_head_says_so():
    with pytest.raises(InputError, match=r"no break head.*break_head=True"):
        Eda(EdaConfig(TINY_NETWORK)).break_probability(lumpy_pieces(2, 20, dtype=torch.float32))


# -- what it learns from -----------------------------------------------------------------------------------


def labels_for(pieces: Pieces) -> Tensor:
    return torch.rand(len(pieces.points), generator=seeded(7)) < 0.4


@pytest.mark.parametrize("time_in_encoder", [True, False])
def test_the_loss_of_the_head_is_its_cross_entropy(time_in_encoder):
    model = model_of("as it is" if time_in_encoder else "encoder without time", break_weight=0.7)
    puzzle = lumpy_puzzle(3, 24)
    on_break = labels_for(puzzle.pieces)
    loss = model.loss(puzzle, draws=2, labels=Labels(on_break), generator=seeded())
    answer = model.break_probability(puzzle.pieces)
    assert_near(loss.breaks.detach(), -torch.where(on_break, answer, 1 - answer).log().mean())
    assert_near(loss.total, 2 * loss.rotation + loss.translation + 0.7 * loss.breaks)


@pytest.mark.parametrize("variant", ["as it is", "encoder without time"])
def test_labels_do_not_change_the_other_terms(variant):
    """Also where one pass of the encoder serves both."""
    model, puzzle = model_of(variant), lumpy_puzzle(3, 24)
    plain = model.loss(puzzle, draws=2, generator=seeded())
    labelled = model.loss(puzzle, draws=2, labels=Labels(labels_for(puzzle.pieces)), generator=seeded())
    assert plain.breaks is None
    assert_near(plain.total, 2 * plain.rotation + plain.translation)
    assert_near(labelled.rotation, plain.rotation)
    assert_near(labelled.translation, plain.translation)


def test_a_network_without_the_head_takes_no_notice_of_labels():
    model, puzzle = stirred(Eda(EdaConfig(TINY_NETWORK))), lumpy_puzzle(3, 24)
    assert model.loss(puzzle, labels=Labels(labels_for(puzzle.pieces)), generator=seeded()).breaks is None


def test_the_head_teaches_the_encoder():
    model, puzzle = model_of(), lumpy_puzzle(3, 24)
    model.loss(puzzle, labels=Labels(labels_for(puzzle.pieces)), generator=seeded()).breaks.backward()
    for part in (model.network.breaks, model.network.embedding, model.network.down):
        assert all(p.grad is not None and p.grad.isfinite().all() for p in part.parameters())
        assert sum(float(p.grad.norm()) for p in part.parameters()) > 0
    assert all(p.grad is None for p in model.network.croco.parameters())


# -- pieces that do not belong -----------------------------------------------------------------------------


def test_where_chooses_motion_by_motion():
    a, b = random_se3(4, 0), random_se3(4, 1)
    chosen = a.where(torch.tensor([True, False, False, True]), b)
    for i, source in enumerate([a, b, b, a]):
        assert torch.equal(chosen.matrix()[i], source.matrix()[i])


OWN = torch.tensor([True, False, True, True, True, False])
PUZZLE = torch.tensor([0, 0, 0, 1, 1, 1])


def test_a_piece_that_does_not_belong_stays_where_it_is():
    path = Path.generated_by(random_se3(6, 0), random_se3(6, 1), PUZZLE, 2, OWN)
    assert_near(path.twist[~OWN], torch.zeros(2, 6, dtype=torch.float64))
    assert_near(path.at(torch.full((6,), 0.7).double())[~OWN].matrix(), random_se3(6, 0)[~OWN].matrix())


def test_the_others_go_as_if_it_were_not_there():
    noise, solution = random_se3(6, 0), random_se3(6, 1)
    mixed = Path.generated_by(noise, solution, PUZZLE, 2, OWN)
    alone = Path.generated_by(noise[OWN], solution[OWN], PUZZLE[OWN], 2)
    assert_near(mixed.target[OWN].matrix(), alone.target.matrix())
    assert_near(mixed.twist[OWN], alone.twist)
    correction = rotation_correction(noise, solution, PUZZLE, 2)
    assert (correction[PUZZLE[OWN]] @ solution[OWN].rotation - mixed.target[OWN].rotation).abs().max() > 0.1


def mixed_puzzle() -> tuple[Puzzle, Tensor]:
    """Two puzzles of three pieces, of which the last of the second does not belong."""
    return Puzzle.collate([lumpy_puzzle(3, 20), lumpy_puzzle(3, 24, seed=1)]), torch.tensor([True] * 5 + [False])


@pytest.mark.parametrize("variant", ["as it is", "encoder without time"])
def test_the_place_of_a_piece_that_does_not_belong_does_not_change_the_loss(variant):
    model, (puzzle, own) = model_of(variant), mixed_puzzle()
    elsewhere = Puzzle(puzzle.pieces, puzzle.solution.where(own, random_se3(6, 5)))
    losses = [
        model.loss(p, draws=3, labels=Labels(own=mask), generator=seeded())
        for p, mask in [(puzzle, own), (elsewhere, own), (puzzle, None), (elsewhere, None)]
    ]
    for name in ("rotation", "translation", "total"):
        marked, marked_elsewhere, plain, plain_elsewhere = (getattr(loss, name) for loss in losses)
        assert_near(marked, marked_elsewhere)
        assert abs(plain - plain_elsewhere) > 1e-3
        assert abs(plain - marked) > 1e-3


def test_the_loss_is_the_mean_over_the_pieces_that_belong():
    """Of a field of zero it is the size of the path's own velocities."""
    model, (puzzle, own) = model_of(), mixed_puzzle()
    torch.nn.init.zeros_(model.network.head.output.weight)
    from eda.flow import sample_noise

    noise = sample_noise(puzzle.pieces, model.config.noise_std, generator=seeded())[0]
    path = Path.generated_by(noise, puzzle.solution, puzzle.pieces.puzzle_of_piece, 2, own)
    turning = path.twist[:, :3].square().sum(-1)
    loss = model.loss(puzzle, labels=Labels(own=own), generator=seeded())
    assert_near(loss.rotation.detach(), (turning[:3].mean() + turning[3:5].mean()) / 2)


def test_marking_every_piece_as_belonging_changes_nothing():
    model, (puzzle, _) = model_of(), mixed_puzzle()
    plain, marked = (
        model.loss(puzzle, draws=2, labels=Labels(own=own), generator=seeded()) for own in (None, torch.ones(6).bool())
    )
    assert_near(plain.total, marked.total)


def test_breaks_of_pieces_that_do_not_belong_are_learned_too():
    model, (puzzle, own) = model_of(), mixed_puzzle()
    on_break = labels_for(puzzle.pieces)
    both, breaks_only = (model.loss(puzzle, labels=Labels(on_break, o), generator=seeded()) for o in (own, None))
    assert_near(both.breaks, breaks_only.breaks)
