"""A network that matches places keeps its laws, where pieces are small or sparse too, and is as bold as is set."""

import math
from dataclasses import replace
from functools import cache

import pytest
import torch
from places import MATCHED, assert_near, drawn, model_of, poses_of, puzzle_of, seeded
from reference import haar_rotations, twist_matrix
from shapes import TINY_NETWORK, lumpy_cloud, lumpy_puzzle
from torch import Tensor, nn

from eda import SE3, Eda, EdaConfig, InputError, Pieces, Puzzle, load
from eda.model import Labels
from eda.nn.matching import matching_loss


def ragged() -> list[Pieces]:
    """Puzzles of 3, 2 and 4 pieces of 12 to 22 places."""
    return [puzzle_of([60, 71, 48], 0), puzzle_of([88, 50], 1), puzzle_of([48, 80, 52, 64], 2)]


def small() -> list[Pieces]:
    """Pieces of few places beside those of many: a wide table, of which most is padding."""
    return [puzzle_of([24, 31, 9], 0), puzzle_of([90, 100], 1), puzzle_of([5, 30, 12, 18], 2)]


CASES = {
    "as it is": ({}, ragged),
    "no look": ({"match_layers": 0}, ragged),
    "coarse places": ({"match_level": 2}, ragged),
    "degree 1": ({"max_degree": 1}, ragged),
    "unoriented normals": ({"normals": "unoriented"}, ragged),
    "no normals": ({"normals": "absent"}, ragged),
    "all pairs across": ({"cross_neighbors": None}, ragged),
    "with a path of pairs and a break head": ({"pair_width": 8, "break_head": True}, ragged),
    "boldly": ({"boldness": 30.0}, ragged),
    "small pieces": ({}, small),
    "sparse pieces": ({"spacing": 0.05}, ragged),
    "pieces too sparse for any motion": ({"spacing": 0.02}, ragged),
}
in_all_cases = pytest.mark.parametrize("case", CASES)


def times_of(pieces: Pieces) -> Tensor:
    return torch.linspace(0.2, 0.9, pieces.num_puzzles).double()


@torch.no_grad()
def field_of(model: Eda, pieces: Pieces, poses: SE3, tau: Tensor | None = None) -> Tensor:
    """v_X(g) = f(gX) g as 4 x 4 matrices, as samples follow it."""
    field = model.field(pieces, boldness=model.config.boldness)
    return twist_matrix(field(poses, times_of(pieces) if tau is None else tau)) @ poses.matrix()


@cache
def known(case: str) -> tuple[Eda, Pieces, SE3, Tensor]:
    """A model, its pieces, their poses and the field there."""
    settings, batch = CASES[case]
    model, pieces, poses = model_of(**settings), Pieces.collate(batch()), poses_of(9)
    return model, pieces, poses, field_of(model, pieces, poses)


@in_all_cases
def test_the_field_of_moved_pieces_is_the_field_moved(case):
    """v_hX(g h^-1) = v_X(g) h^-1 for all h in SE(3)^N."""
    model, pieces, g, field = known(case)
    h = poses_of(9, seed=1)
    assert_near(field_of(model, pieces.moved(h), g @ h.inverse()), field @ h.inverse().matrix(), 1e-8)


@in_all_cases
def test_the_field_moves_with_the_whole(case):
    """v_X(r g) = r v_X(g), turns and translations."""
    model, pieces, g, field = known(case)
    r = SE3(haar_rotations(1, 4).expand(9, 3, 3), torch.tensor([0.5, -2.0, 1.0]).double().expand(9, 3))
    assert_near(field_of(model, pieces, r @ g), r.matrix() @ field, 1e-8)


@in_all_cases
def test_the_field_follows_the_order_of_pieces_and_does_not_see_that_of_points(case):
    model, pieces, poses, field = known(case)
    rows = torch.arange(len(pieces.points)).split(pieces.sizes.tolist())
    rows = torch.cat([row[torch.randperm(len(row), generator=seeded())] for row in rows])
    shuffled = replace(pieces, points=pieces.points[rows], normals=pieces.normals[rows])
    order = torch.tensor([1, 2, 0, 4, 3, 8, 5, 7, 6])
    assert_near(field_of(model, shuffled.permuted(order), poses[order]), field[order], 1e-8)


@in_all_cases
def test_a_puzzle_does_not_see_its_batch_companions(case):
    model, pieces, poses, field = known(case)
    each = zip(CASES[case][1](), (poses[:3], poses[3:5], poses[5:]), times_of(pieces).split(1), strict=True)
    assert_near(torch.cat([field_of(model, *one) for one in each]), field, 1e-8)


@pytest.mark.parametrize(
    ("case", "least", "most"),
    [
        ("as it is", 9, 320),
        ("small pieces", 100, 300),
        ("sparse pieces", 30, 50),
        ("pieces too sparse for any motion", 0, 0),
    ],
)
@torch.no_grad()
def test_the_cases_are_what_they_are_said_to_be(case, least, most):
    model, pieces, *_ = known(case)
    holds = model.network.encode(model.pyramid(pieces), None).motions.holds
    assert holds.shape == (10, 32)
    assert least <= int(holds.sum()) <= most
    assert (holds.sum(1) > 0).all() == (case not in ("sparse pieces", "pieces too sparse for any motion"))


def test_a_velocity_sees_where_pieces_are_and_the_time_of_its_own_puzzle_only():
    model, pieces, poses, before = known("as it is")
    tau = times_of(pieces)
    moved = SE3(poses.rotation, poses.translation + 0.2 * torch.eye(9, 3).double()[:, :1])
    later = tau + torch.tensor([0.3, 0.0, 0.0]).double()
    before = before @ poses.inverse().matrix()
    for there, when in ((moved, tau), (poses, later)):
        change = (field_of(model, pieces, there, when) @ there.inverse().matrix() - before).abs().amax((1, 2))
        assert (change[:3] > 1e-4).all()
        assert (change[3:] < 1e-12).all()


# -- the path in the network -------------------------------------------------------------------------------


@torch.no_grad()
def test_motions_have_a_say_in_every_velocity_unless_the_rest_outweighs_them():
    """Then all is what a network of the same weights without them says."""
    model, pieces, poses, field = known("as it is")
    plain, mute = Eda(EdaConfig(replace(model.config.network, match_width=0))).double(), model_of()
    own = plain.state_dict().keys()
    plain.load_state_dict({name: weight for name, weight in model.state_dict().items() if name in own})
    assert plain.network.matcher is plain.network.motions is None
    expected = field_of(plain, pieces, poses)
    assert (field - expected).abs().amax((1, 2)).min() > 1e-3
    nn.init.constant_(mute.network.motions.none, 200.0)
    assert_near(field_of(mute, pieces, poses), expected, 1e-12)


@torch.no_grad()
def bold(boldness: float, by_weight: bool = False, **settings: object) -> Eda:
    """By its setting or, which is the same, by the weights of what judges motions."""
    model = model_of(1.0 if by_weight else boldness, **settings)
    if by_weight:
        path = model.network.motions
        for weight in (path.judge[-1].weight, path.judge[-1].bias, path.none):
            weight *= boldness
        path.judge[-1].bias += (boldness - 1) * 3 * math.log(120)
    return model


@pytest.mark.parametrize("settings", [{}, {"free_network": True}])
@torch.no_grad()
def test_samples_are_drawn_as_boldly_as_is_set(settings):
    pieces, noise = puzzle_of([60, 71, 48]), poses_of(6).reshape(2, 3)
    found = [
        bold(*how, **settings).sample(pieces, 2, noise=noise, steps=2, solver="rk1").matrix()
        for how in ((0.9,), (1.2,), (1.2, True), (100.0,), (100.0, True))
    ]
    assert_near(found[1], found[2], 1e-8)
    assert_near(found[3], found[4], 1e-6)
    for one, other in ((0, 1), (1, 3)):
        assert (found[one] - found[other]).abs().amax((2, 3)).min() > 1e-3


@torch.no_grad()
def test_velocity_and_loss_are_not_bold():
    """They are what is learned; a field is, unless it is asked for more."""
    timid, brave = bold(1.0), bold(30.0)
    _, pieces, poses, _ = known("as it is")
    tau = times_of(pieces)
    velocity = brave.velocity(pieces, poses, tau)
    assert torch.equal(velocity, timid.velocity(pieces, poses, tau))
    assert torch.equal(velocity, brave.field(pieces)(poses, tau))
    assert torch.equal(velocity, timid.field(pieces, boldness=1.0)(poses, tau))
    assert (velocity - timid.field(pieces, boldness=30.0)(poses, tau)).abs().amax(1).min() > 1e-3
    losses = [model.loss(lumpy_puzzle(3, 48), generator=seeded()).total for model in (timid, brave)]
    assert torch.equal(*losses)


@torch.no_grad()
def test_motions_are_made_from_the_matching_with_the_centres_of_pieces_once_for_all_times():
    model, pieces = model_of(), Pieces.collate(ragged()).moved(poses_of(9, 7))
    early, late = (
        model.network.encode(model.pyramid(pieces), torch.full((3,), tau, dtype=torch.float64)) for tau in (0.1, 0.9)
    )
    assert torch.equal(early.motions.motion.matrix(), late.motions.motion.matrix())
    clouds = pieces.points.split(pieces.sizes.tolist())
    assert_near(early.motions.centers, torch.stack([cloud.mean(0) for cloud in clouds]))
    assert torch.equal(early.motions.first, early.matching.first)
    assert len(early.motions.first) == 3 + 1 + 6


def test_samples_at_any_times_are_those_of_one_at_a_time():
    """One field, called at equal times, at other equal ones, at different ones, and at the first again."""
    model, pieces = model_of(), Pieces.collate(ragged()[:2])
    field, N = model.field(pieces, samples=3), pieces.num_pieces
    poses, together = poses_of(3 * N), times_of(pieces).repeat(3, 1)
    apart = torch.rand(3, 2, generator=seeded(), dtype=torch.float64)
    for tau in (together, 1 - together, apart, together):
        with torch.no_grad():
            found = field(poses, tau.flatten()).reshape(3, N, 6)
            for k in range(3):
                assert_near(found[k], model.velocity(pieces, poses[k * N : (k + 1) * N], tau[k]), 1e-9)


def test_assemblies_of_one_call_are_those_of_one_at_a_time():
    model, pieces = model_of(5.0), puzzle_of([60, 71, 48])
    noise = poses_of(9).reshape(3, 3)
    together = model.sample(pieces, 3, noise=noise, steps=2).matrix()
    for k in range(3):
        assert_near(together[k], model.sample(pieces, noise=noise[k : k + 1], steps=2).matrix()[0], 1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("level", [1, 2])
def test_the_smallest_pieces_have_finite_velocities_and_gradients(dtype, level):
    model, puzzle = model_of(match_level=level).to(dtype), lumpy_puzzle(3, 4)
    sizes = [cloud[:4] for cloud in puzzle.pieces.points.split(puzzle.pieces.sizes.tolist())]
    normals = [n[:4] for n in puzzle.pieces.normals.split(puzzle.pieces.sizes.tolist())]
    pieces = Pieces.from_clouds([c.numpy() for c in sizes], [n.numpy() for n in normals], dtype=dtype)
    assert pieces.sizes.tolist() == [4, 4, 4]
    tokens = model.network.encode(model.pyramid(pieces), None)
    velocity = model.network.relate(tokens, poses_of(3).to(dtype), torch.tensor([0.4], dtype=dtype))
    assert velocity.isfinite().all()
    assert velocity.abs().amax(1).min() > 1e-3
    (velocity.square().sum() + matching_loss(tokens.matching, puzzle.solution.to(dtype))).backward()
    for name, parameter in model.network.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


def test_pins_may_leave_one_piece():
    model, pieces, pins = model_of(), puzzle_of([60, 50]), poses_of(2)
    found = model.sample(pieces, 2, pins={0: pins[0], 1: pins[1]}, steps=2, generator=seeded())
    assert_near(found[1].matrix(), pins.matrix())


@torch.no_grad()
def test_a_network_without_normals_takes_pieces_with_and_without_and_sees_no_difference():
    model, poses = model_of(normals="absent"), poses_of(2)
    bare, other = (puzzle_of([60, 50], normals=normals) for normals in (False, True))
    assert_near(field_of(model, other, poses), field_of(model, bare, poses), 1e-12)
    evidence = model.network.encode(model.pyramid(other), None).motions.evidence
    assert not evidence[..., 5:].any()
    assert evidence[..., 3].std() > 1e-3
    with pytest.raises(InputError, match="normals"):
        field_of(model_of(), bare, poses)


def test_autocast_changes_no_bit_of_the_field():
    model, pieces, poses = (
        model_of().float(),
        puzzle_of([60, 50]).to(dtype=torch.float32),
        poses_of(2).to(torch.float32),
    )
    expected = model.velocity(pieces, poses, 0.4)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model.velocity(pieces, poses, 0.4), expected)


# -- training and files ------------------------------------------------------------------------------------


def overlapping() -> Puzzle:
    """Three blobs at one place: scans that show the same."""
    clouds, normals = zip(*[lumpy_cloud(i, 48) for i in range(3)], strict=True)
    return Puzzle.from_assembled(clouds, normals, dtype=torch.float64)


def test_the_loss_of_matches_is_part_of_the_total_by_its_weight():
    puzzle, own, found = overlapping(), torch.tensor([True, True, False]), []
    model = model_of()
    heavy = Eda(replace(model.config, match_weight=2.5)).double()
    heavy.load_state_dict(model.state_dict())
    for labels, belongs in ((None, None), (Labels(own=own), own)):
        light, weighed = (m.loss(puzzle, draws=2, labels=labels, generator=seeded()) for m in (model, heavy))
        matching = model.network.encode(model.pyramid(puzzle.pieces), None).matching
        assert_near(light.matches, matching_loss(matching, puzzle.solution, belongs))
        assert_near(light.total, 2 * light.rotation + light.translation + light.matches)
        assert_near(weighed.total - light.total, 1.5 * light.matches)
        found.append(light.matches.item())
    assert abs(found[0] - found[1]) > 1e-3, "pieces that are not the puzzle's share nothing"


def test_breaks_and_matches_are_learned_from_one_pass_and_change_nothing_of_each_other():
    model, puzzle = model_of(pair_width=8, break_head=True), lumpy_puzzle(3, 48)
    on_break = torch.rand(len(puzzle.pieces.points), generator=seeded()) < 0.4
    plain, both = (model.loss(puzzle, labels=Labels(labels), generator=seeded()) for labels in (None, on_break))
    assert plain.breaks is None
    assert_near(both.matches, plain.matches)
    assert_near(both.rotation, plain.rotation)
    assert_near(both.total, plain.total + 0.3 * both.breaks)


@pytest.mark.parametrize("break_head", [False, True])
def test_without_a_matcher_there_is_no_loss_of_matches(break_head):
    puzzle = lumpy_puzzle(2, 24)
    model = Eda(EdaConfig(replace(TINY_NETWORK, break_head=break_head, time_in_encoder=False))).double()
    labels = Labels(torch.zeros(len(puzzle.pieces.points), dtype=torch.bool))
    loss = model.loss(puzzle, labels=labels, generator=seeded())
    assert loss.matches is None
    assert (loss.breaks is not None) == break_head


def test_the_velocity_teaches_every_part_of_the_judge():
    model, pieces = model_of(), Pieces.collate(ragged())
    out = model.network(model.pyramid(pieces), poses_of(9), times_of(pieces))
    names, parameters = zip(*model.network.motions.named_parameters(), strict=True)
    gradients = torch.autograd.grad((out * drawn(9, 6)).sum(), parameters)
    assert [n for n, g in zip(names, gradients, strict=True) if not g.abs().max() > 1e-8] == []


def test_a_model_that_matches_comes_back_from_its_file(tmp_path):
    model = model_of(7.0, match_level=2, match_layers=1).float()
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert again.config == model.config
    pieces, poses = puzzle_of([60, 50]).to(dtype=torch.float32), poses_of(2).to(torch.float32)
    assert torch.equal(again.velocity(pieces, poses, 0.4), model.velocity(pieces, poses, 0.4))


# -- settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"match_width": 6}, "match_width of 6 .*4 heads"),
        ({"match_width": -4}, "match_width .*multiple of 4.* from 0"),
        ({"match_width": 8.0}, "match_width .*whole number"),
        ({"match_level": 3}, "match_level is 3, but there are 2 levels"),
        ({"match_level": 0}, "match_level must be a whole number from 1"),
        ({"match_layers": -1}, "match_layers must be a whole number from 0"),
        ({"time_in_encoder": True}, "match_width needs time_in_encoder=False"),
    ],
)
def test_settings_that_cannot_be_are_an_input_error(settings, message):
    with pytest.raises(InputError, match=message):
        replace(TINY_NETWORK, **{**MATCHED, **settings})


def test_a_network_matches_no_places_unless_it_is_asked_to():
    network = Eda(EdaConfig(TINY_NETWORK)).network
    assert network.matcher is network.motions is None
    assert replace(TINY_NETWORK, match_level=9).match_level == 9, "of no matter where there is no matcher"


@pytest.mark.parametrize("name", ["match_weight", "boldness"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, "1"])
def test_what_must_be_a_positive_number_and_is_none_is_an_input_error(name, value):
    with pytest.raises(InputError, match=f"{name} must be a positive number"):
        EdaConfig(**{name: value})
