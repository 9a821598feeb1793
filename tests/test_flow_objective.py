"""A network that synchronises has a loss for each of its two paths, and learns from states of its samples (ours)."""

from dataclasses import replace

import pytest
import torch
from support.closeness import assert_near, assert_near_and_nonzero
from support.lumpy_shapes import lumpy_puzzle, seeded
from support.matching_networks import COMPLEMENTARY, SYNCHRONISING
from support.rigid_motions import random_se3
from support.soft_matches import model_of, of_both_kinds, piece_alone, puzzle_of
from torch import Tensor, nn

from eda import SE3, Eda, Pieces, Puzzle
from eda import flow_objective as module
from eda.field import VelocityField
from eda.flow_objective import follow
from eda.nn.protocol import Labels

PUZZLE = lumpy_puzzle(3, 48)


def synchronising(complementary: bool = True, **settings: object) -> Eda:
    kind = {"spacing": COMPLEMENTARY["spacing"]} if complementary else {}
    return model_of(complementary=complementary, **SYNCHRONISING, **kind, **settings)


def loss_of(model: Eda, draws: int = 2, seed: int = 0, labels: Labels | None = None) -> dict[str, Tensor]:
    loss = model.loss(PUZZLE, draws=draws, labels=labels, generator=seeded(seed))
    return {name: value for name, value in vars(loss).items() if value is not None}


# -- what the loss is --------------------------------------------------------------------------------------


@pytest.mark.parametrize("draws", [1, 2, 3])
@of_both_kinds
def test_synchronisation_is_a_part_of_the_loss_where_there_is_a_flow(complementary, draws):
    model = synchronising(complementary)
    found = loss_of(model, draws)
    assert found.keys() == {"rotation", "translation", "total", "matches", "synchronisation"}
    parts = 2 * found["rotation"] + found["translation"] + found["matches"] + found["synchronisation"]
    assert_near_and_nonzero(found["total"], parts, 1e-10)
    assert found["synchronisation"] > 1e-3
    assert "synchronisation" not in loss_of(model, 0)
    assert "synchronisation" not in loss_of(model_of(complementary=complementary))


def test_the_loss_depends_on_nothing_but_its_generator():
    model, again = synchronising(), synchronising()
    first, other = loss_of(model), loss_of(model, seed=1)
    torch.manual_seed(5)
    for same in (loss_of(model), loss_of(again)):
        assert all(torch.equal(same[name], value) for name, value in first.items())
    for name in ("rotation", "translation", "synchronisation"):
        assert abs(first[name] - other[name]) > 1e-6, name


def test_pieces_that_do_not_belong_change_the_loss_only_by_being_there():
    """Where a solution has them does not count."""
    labels, model = Labels(own=torch.tensor([True, True, False])), synchronising()
    anywhere = PUZZLE.solution.where(labels.own, random_se3(3, 8))
    found = [
        model.loss(Puzzle(PUZZLE.pieces, solution), draws=1, labels=labels, generator=seeded())
        for solution in (PUZZLE.solution, anywhere)
    ]
    assert found[0].synchronisation > 1e-3
    assert abs(found[0].synchronisation - loss_of(model, 1)["synchronisation"]) > 1e-3
    assert_near(found[0].rotation, found[1].rotation, 1e-10)


# -- states of the model's own samples ---------------------------------------------------------------------


def seen_by(model: Eda, monkeypatch: pytest.MonkeyPatch, draws: int, seed: int = 0) -> tuple[SE3, dict[str, Tensor]]:
    """The poses at which the parts of f are asked for, and the loss."""
    asked, relation = [], module.EncodedEda.relation
    monkeypatch.setattr(
        module.EncodedEda, "relation", lambda self, poses, tau: asked.append(poses) or relation(self, poses, tau)
    )
    found = loss_of(model, draws, seed)
    monkeypatch.undo()
    (poses,) = asked
    return poses.reshape(draws, 3), found


def detoured(monkeypatch: pytest.MonkeyPatch) -> None:
    """What samples reach is anywhere else."""
    reached = module.follow

    def elsewhere(*arguments: object) -> SE3:
        poses = reached(*arguments)
        return SE3.exp(0.5 * torch.randn(len(poses), 6, generator=seeded(3)).double()) @ poses

    monkeypatch.setattr(module, "follow", elsewhere)


@pytest.mark.parametrize("draws", [2, 3, 4])
def test_the_loss_of_the_flow_is_that_of_the_first_half_of_the_draws(monkeypatch, draws):
    """What the others begin at changes synchronisation alone."""
    model = synchronising()
    first, expected = seen_by(model, monkeypatch, draws)
    assert not first.rotation.requires_grad, "nothing is taught how it got where it is"
    detoured(monkeypatch)
    found = loss_of(model, draws)
    assert_near_and_nonzero(found["rotation"], expected["rotation"], 1e-12)
    assert_near_and_nonzero(found["translation"], expected["translation"], 1e-12)
    assert abs(found["synchronisation"] - expected["synchronisation"]) > 1e-6
    monkeypatch.undo()
    mute = synchronising()
    nn.init.constant_(mute.network.synchronising.pair[-1].bias, -1e4)
    poses, silent = seen_by(mute, monkeypatch, draws)
    half = (draws + 1) // 2
    assert_near_and_nonzero(poses.matrix()[:half], first.matrix()[:half], 1e-12)
    assert (poses.matrix() - first.matrix())[half:].abs().amax((1, 2, 3)).min() > 1e-4
    assert_near_and_nonzero(silent["rotation"], expected["rotation"], 1e-12)
    assert_near_and_nonzero(silent["translation"], expected["translation"], 1e-12)


def test_a_single_draw_is_a_state_of_the_path(monkeypatch):
    monkeypatch.setattr(module, "follow", None)  # whoever asks for it is wrong
    assert loss_of(synchronising(), 1)["synchronisation"] > 1e-3


@torch.no_grad()
def test_states_that_samples_reach_are_those_of_the_solver_of_so_many_steps(monkeypatch):
    """From their noise to their time, for two puzzles of one time each."""
    model, pieces = synchronising(), Pieces.collate([puzzle_of([60, 50, 41]), puzzle_of([50, 44], 1)])
    noise, asked = random_se3(5, 3, spread=0.7), []
    field = model.field(pieces)
    call = VelocityField.__call__
    monkeypatch.setattr(
        VelocityField, "__call__", lambda self, g, tau: asked.append(tau.tolist()) or call(self, g, tau)
    )
    found = follow(field, noise, torch.tensor([0.6, 0.9]).double(), 3)
    monkeypatch.undo()
    poses, (early, late) = noise, (torch.tensor([0.6, 0.9]) / 3).double()
    expected_times = [[0.0, 0.0], [0.2, 0.3], [0.4, 0.6]]
    assert_near(torch.tensor(asked), torch.tensor(expected_times), 1e-6)
    for number in range(3):
        twist = field(poses, number * torch.stack([early, late]))
        turned = [torch.linalg.matrix_exp(matrix_of(of)) for of in torch.cat([early * twist[:3], late * twist[3:]])]
        poses = SE3.from_matrix(torch.stack(turned) @ poses.matrix())
    assert_near_and_nonzero(found.matrix(), poses.matrix(), 1e-6)
    assert (found.matrix() - noise.matrix()).abs().amax((1, 2)).min() > 1e-2


def matrix_of(twist: Tensor) -> Tensor:
    (a, b, c), shift = twist[:3].tolist(), twist[3:].tolist()
    rows = [[0, -c, b, shift[0]], [c, 0, -a, shift[1]], [-b, a, 0, shift[2]], [0, 0, 0, 0]]
    return torch.tensor(rows, dtype=torch.float64)


# -- what is learned from what -----------------------------------------------------------------------------


def taught(model: Eda, what: Tensor) -> set[str]:
    """The parts of the network whose weights something depends on; the levels of the encoder one by one."""
    names, weights = zip(*model.network.named_parameters(), strict=True)
    slopes = torch.autograd.grad(what, weights, allow_unused=True, retain_graph=True)
    learned = [name for name, slope in zip(names, slopes, strict=True) if slope is not None and slope.any()]
    return {".".join(name.split(".")[: 2 if name.startswith("down") else 1]) for name in learned}


@of_both_kinds
@pytest.mark.parametrize("draws", [1, 2])
def test_neither_path_learns_from_the_loss_of_the_other(complementary, draws):
    model = synchronising(complementary)
    found = loss_of(model, draws)
    croco = {"down.1", "time", "croco", "head"}
    for part in ("rotation", "translation"):
        assert taught(model, found[part]) == croco
    synchronised = taught(model, found["synchronisation"])
    assert "synchronising" in synchronised
    assert not synchronised & croco
    assert taught(model, found["total"]) == croco | synchronised | taught(model, found["matches"])


def test_every_weight_of_the_synchronising_field_is_taught():
    model = synchronising()
    model.loss(PUZZLE, draws=2, generator=seeded()).total.backward()
    weights = dict(model.network.synchronising.named_parameters())
    assert [name for name, weight in weights.items() if not weight.grad.abs().max() > 1e-9] == []
    assert (weights["hold"].grad.abs() > 1e-9).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@of_both_kinds
def test_the_smallest_pieces_and_a_piece_alone_have_finite_losses_and_gradients(complementary, dtype):
    clouds = [cloud[:4].numpy() for cloud in PUZZLE.pieces.points.split(PUZZLE.pieces.sizes.tolist())]
    normals = [facing[:4].numpy() for facing in PUZZLE.pieces.normals.split(PUZZLE.pieces.sizes.tolist())]
    least = Pieces.from_clouds(clouds, normals, dtype=torch.float64)
    for pieces in (least, piece_alone(40), Pieces.collate([piece_alone(40), least])):
        model, solution = synchronising(complementary).to(dtype), random_se3(pieces.num_pieces, 3, spread=0.7)
        puzzle = Puzzle(pieces.to(dtype=dtype), solution.to(dtype))
        loss = model.loss(puzzle, draws=2, generator=seeded())
        loss.total.backward()
        assert loss.total.isfinite()
        for name, weight in model.network.named_parameters():
            assert weight.grad is None or weight.grad.isfinite().all(), name
        velocity = model.velocity(puzzle.pieces, solution.to(dtype), 0.4)
        assert velocity.isfinite().all()
        assert (velocity[pieces.num_pieces - 3 :].abs().amax(1) > 1e-3).all() or pieces.num_pieces == 1
        assert pieces.num_pieces == 3 or velocity[0].abs().max() < 1e-5, "what is alone has nowhere to go"


@torch.no_grad()
def test_a_network_with_a_synchronising_field_says_with_the_croco_path_what_one_without_says():
    model = synchronising()
    plain = Eda(
        replace(model.config, network=replace(model.config.network, match_width=0, matching="overlap"))
    ).double()
    own = plain.state_dict().keys()
    plain.load_state_dict({name: weight for name, weight in model.state_dict().items() if name in own})
    poses = random_se3(3, 2, spread=0.7)
    expected = plain.velocity(PUZZLE.pieces, poses, 0.4)
    tau = torch.tensor([0.4], dtype=torch.float64)
    assert_near_and_nonzero(model.field(PUZZLE.pieces, paths="croco")(poses, tau), expected, 1e-12)
    assert (model.velocity(PUZZLE.pieces, poses, 0.4) - expected).abs().amax(1).min() > 1e-3
