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
from eda.nn.arrangements import Arrangements, arrange
from eda.nn.matching import Matching, matching_loss
from eda.nn.motions import judging_loss
from eda.nn.proposals import Motions, propose
from eda.nn.surfaces import Surface


def ragged() -> list[Pieces]:
    """Puzzles of 3, 2 and 5 pieces of 10 to 22 places."""
    return [puzzle_of([60, 71, 48], 0), puzzle_of([88, 50], 1), puzzle_of([48, 80, 52, 64, 40], 2)]


def small() -> list[Pieces]:
    """Pieces of few places beside those of many: a wide table, of which most is padding."""
    return [puzzle_of([24, 31, 9], 0), puzzle_of([90, 100], 1), puzzle_of([5, 30, 12, 18, 11], 2)]


COUNTS = [3, 2, 5]
MATES = {"match_mates": True, "spacing": 0.15}
CASES = {
    "as it is": ({}, ragged),
    "mates": (MATES, ragged),
    "coarse places": ({"match_level": 2}, ragged),
    "degree 1, mates": ({"max_degree": 1, **MATES}, ragged),
    "unoriented normals, no look": ({"normals": "unoriented", "match_layers": 0}, ragged),
    "no normals": ({"normals": "absent"}, ragged),
    "no normals, mates": ({"normals": "absent", **MATES}, ragged),
    "all pairs across": ({"cross_neighbors": None}, ragged),
    "with a path of pairs and a break head": ({"pair_width": 8, "break_head": True}, ragged),
    "boldly, mates": ({"boldness": 30.0, **MATES}, ragged),
    "small pieces": ({}, small),
    "small pieces, mates": (MATES, small),
    "sparse pieces": ({"spacing": 0.046}, ragged),
    "sparse pieces, mates": ({**MATES, "spacing": 0.054}, ragged),
    "pieces too sparse for any motion": ({"spacing": 0.02}, ragged),
}
# Where some pieces are not arranged, or what stirs the weights of judges leaves them little to say.
SILENT = {
    "no normals",
    "no normals, mates",
    "with a path of pairs and a break head",
    "sparse pieces",
    "sparse pieces, mates",
    "pieces too sparse for any motion",
}
in_all_cases = pytest.mark.parametrize("case", CASES)
with_and_without_mates = pytest.mark.parametrize("mates", [False, True])


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
    model, pieces, poses = model_of(**settings), Pieces.collate(batch()), poses_of(10)
    return model, pieces, poses, field_of(model, pieces, poses)


@in_all_cases
def test_the_field_of_moved_pieces_is_the_field_moved(case):
    """v_hX(g h^-1) = v_X(g) h^-1 for all h in SE(3)^N."""
    model, pieces, g, field = known(case)
    h = poses_of(10, seed=1, spread=3.0)
    assert_near(field_of(model, pieces.moved(h), g @ h.inverse()), field @ h.inverse().matrix(), 1e-7)


@in_all_cases
def test_the_field_moves_with_the_whole(case):
    """v_X(r g) = r v_X(g), turns and translations."""
    model, pieces, g, field = known(case)
    r = SE3(haar_rotations(1, 4).expand(10, 3, 3), torch.tensor([0.5, -2.0, 1.0]).double().expand(10, 3))
    assert_near(field_of(model, pieces, r @ g), r.matrix() @ field, 1e-8)


@in_all_cases
def test_the_field_follows_the_order_of_pieces_and_does_not_see_that_of_points(case):
    model, pieces, poses, field = known(case)
    rows = torch.arange(len(pieces.points)).split(pieces.sizes.tolist())
    rows = torch.cat([row[torch.randperm(len(row), generator=seeded())] for row in rows])
    shuffled = replace(pieces, points=pieces.points[rows], normals=pieces.normals[rows])
    order = torch.tensor([1, 2, 0, 4, 3, 8, 5, 9, 7, 6])
    assert_near(field_of(model, shuffled.permuted(order), poses[order]), field[order], 1e-8)


@in_all_cases
def test_a_puzzle_does_not_see_its_batch_companions(case):
    model, pieces, poses, field = known(case)
    each = zip(CASES[case][1](), (poses[:3], poses[3:5], poses[5:]), times_of(pieces).split(1), strict=True)
    assert_near(torch.cat([field_of(model, *one) for one in each]), field, 1e-8)


@pytest.mark.parametrize(
    ("case", "arrangements", "placed"),
    [
        ("as it is", [12, 18, 12], [3, 2, 5]),
        ("mates", [12, 32, 12], [3, 2, 5]),
        ("small pieces", [12, 25, 12], [3, 2, 5]),
        ("small pieces, mates", [12, 32, 12], [3, 2, 5]),
        ("sparse pieces", [0, 0, 8], [0, 0, 4]),
        ("sparse pieces, mates", [0, 0, 7], [0, 0, 4]),
        ("pieces too sparse for any motion", [0, 0, 0], [0, 0, 0]),
    ],
)
@torch.no_grad()
def test_the_cases_are_what_they_are_said_to_be(case, arrangements, placed):
    """How many arrangements the puzzles have, and how many pieces these place."""
    model, pieces, *_ = known(case)
    found = model.network.encode(model.pyramid(pieces), None).arrangements
    each = [of[holds].sum(1) for of, holds in zip(found.placed.T.split(COUNTS, dim=1), found.holds, strict=True)]
    assert found.holds.sum(1).tolist() == arrangements
    assert [set(counts.tolist()) for counts in each] == [{count} if count else set() for count in placed]


def test_a_velocity_sees_where_pieces_are_and_the_time_of_its_own_puzzle_only():
    model, pieces, poses, before = known("as it is")
    tau = times_of(pieces)
    moved = SE3(poses.rotation, poses.translation + 0.2 * torch.eye(10, 3).double()[:, :1])
    later = tau + torch.tensor([0.3, 0.0, 0.0]).double()
    before = before @ poses.inverse().matrix()
    for there, when in ((moved, tau), (poses, later)):
        change = (field_of(model, pieces, there, when) @ there.inverse().matrix() - before).abs().amax((1, 2))
        assert (change[:3] > 1e-4).all()
        assert (change[3:] < 1e-12).all()


# -- the path in the network -------------------------------------------------------------------------------


def matched(model: Eda, pieces: Pieces) -> Matching:
    pyramid = model.pyramid(pieces)
    return model.network.match(pyramid, model.network.descend(pyramid, None))


def proposed(model: Eda, pieces: Pieces) -> list[Motions]:
    """Puzzle by puzzle, with the centres of its pieces."""
    centers = torch.stack([cloud.mean(0) for cloud in pieces.points.split(pieces.sizes.tolist())])
    each = zip(
        matched(model, pieces).puzzles(), centers.split(pieces.counts.tolist()), surfaces(model, pieces), strict=True
    )
    return [propose(matches, at, lying) for matches, at, lying in each]


def surfaces(model: Eda, pieces: Pieces) -> list[tuple[Surface, ...] | None]:
    """Of every puzzle; of mates there are none. Without normals, all are zero."""
    config, begin, found = model.config.network, 0, []
    sides = [pieces.points, torch.zeros_like(pieces.points) if config.normals == "absent" else pieces.normals]
    clouds = list(zip(*(of.double().split(pieces.sizes.tolist()) for of in sides), strict=True))
    for count in pieces.counts.tolist():
        own = clouds[begin : begin + count]
        found.append(None if config.match_mates else tuple(Surface(*one, config.spacing) for one in own))
        begin += count
    return found


@with_and_without_mates
@torch.no_grad()
def test_arrangements_are_made_from_the_matching_with_the_centres_of_pieces_once_for_all_times(mates):
    model, pieces = model_of(match_mates=mates), Pieces.collate(ragged()).moved(poses_of(10, 7))
    early, late = (
        model.network.encode(model.pyramid(pieces), torch.full((3,), tau, dtype=torch.float64)).arrangements
        for tau in (0.1, 0.9)
    )
    assert torch.equal(early.poses.matrix(), late.poses.matrix())
    clouds = pieces.points.split(pieces.sizes.tolist())
    assert_near(early.centers, torch.stack([cloud.mean(0) for cloud in clouds]))
    centers = early.centers.split(COUNTS)
    judges = model.network.motions.judges
    alone = [arrange(of, at, judges) for of, at in zip(proposed(model, pieces), centers, strict=True)]
    expected = Arrangements.cat(alone)
    lying = expected.both[..., None, None]  # as pieces see each other: frames mean nothing beyond one arrangement
    assert_near(early.motion.matrix() * lying, expected.motion.matrix() * lying, 1e-8)
    assert_near(early.evidence, expected.evidence, 1e-8)
    for name in ("placed", "holds", "joined", "first", "second", "counts"):
        assert torch.equal(getattr(early, name), getattr(expected, name)), name


@pytest.mark.parametrize("case", sorted(CASES.keys() - SILENT))
@torch.no_grad()
def test_arrangements_have_a_say_in_every_velocity_unless_the_rest_outweighs_them(case):
    """Then all is what a network of the same weights without them says."""
    model, pieces, poses, field = known(case)
    plain = Eda(EdaConfig(replace(model.config.network, match_width=0, match_mates=False))).double()
    mute = model_of(**CASES[case][0])
    own = plain.state_dict().keys()
    plain.load_state_dict({name: weight for name, weight in model.state_dict().items() if name in own})
    assert plain.network.matcher is plain.network.motions is None
    expected = field_of(plain, pieces, poses)
    assert (field - expected).abs().amax((1, 2)).min() > 1e-3
    nn.init.constant_(mute.network.motions.none, 400.0)
    assert_near(field_of(mute, pieces, poses), expected, 1e-12)


@torch.no_grad()
def bold(boldness: float, by_weight: bool = False, **settings: object) -> Eda:
    """By its setting or, which is the same, by the weights of what judges joints and what lies beside them."""
    model = model_of(1.0 if by_weight else boldness, **settings)
    if by_weight:
        path = model.network.motions
        beside = path.beside[-1].parameters() if path.beside else ()
        for weight in (*path.judge[-1].parameters(), *beside, path.none):
            weight *= boldness
        path.judge[-1].bias += (boldness - 1) * 3 * math.log(120)
    return model


@pytest.mark.parametrize(
    ("sizes", "settings"), [([60, 71], {}), ([60, 71], {"free_network": True}), ([60, 71, 48, 40], MATES)]
)
@torch.no_grad()
def test_samples_are_drawn_as_boldly_as_is_set(sizes, settings):
    pieces, noise = puzzle_of(sizes), poses_of(2 * len(sizes)).reshape(2, -1)
    found = [
        bold(*how, **settings).sample(pieces, 2, noise=noise, steps=2, solver="rk1").matrix()
        for how in ((0.8,), (1.2,), (1.2, True), (100.0,), (100.0, True))
    ]
    assert_near(found[1], found[2], 1e-8)
    assert_near(found[3], found[4], 1e-6)
    for one, other in ((0, 1), (0, 3)):
        assert (found[one] - found[other]).abs().amax((2, 3)).min() > 1e-5


@torch.no_grad()
def test_velocity_and_loss_are_not_bold():
    """They are what is learned; a field is, unless it is asked for more."""
    timid, brave = bold(1.0, **MATES), bold(30.0, **MATES)
    _, pieces, poses, _ = known("mates")
    tau = times_of(pieces)
    velocity = brave.velocity(pieces, poses, tau)
    assert torch.equal(velocity, timid.velocity(pieces, poses, tau))
    assert torch.equal(velocity, brave.field(pieces)(poses, tau))
    assert torch.equal(velocity, timid.field(pieces, boldness=1.0)(poses, tau))
    assert (velocity - timid.field(pieces, boldness=30.0)(poses, tau)).abs().amax(1).min() > 1e-5
    losses = [model.loss(lumpy_puzzle(3, 48), generator=seeded()).total for model in (timid, brave)]
    assert torch.equal(*losses)


def test_samples_at_any_times_are_those_of_one_at_a_time():
    """One field, called at equal times, at other equal ones, at different ones, and at the first again."""
    model, pieces = model_of(**MATES), Pieces.collate(ragged()[:2])
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


@with_and_without_mates
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_three_pieces_are_sampled_to_finite_poses(mates, dtype):
    model, pieces = model_of(8.0, match_mates=mates).to(dtype), puzzle_of([60, 71, 48]).to(dtype=dtype)
    found = model.sample(pieces, 2, steps=3, generator=seeded())
    assert found.shape == (2, 3)
    assert found.rotation.dtype == dtype
    assert found.isfinite()
    turns = found.rotation @ found.rotation.mT
    torch.testing.assert_close(turns, torch.eye(3, dtype=dtype).expand_as(turns), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("level", "mates"), [(1, False), (2, False), (1, True)])
def test_the_smallest_pieces_have_finite_velocities_and_gradients(mates, dtype, level):
    model, puzzle = model_of(match_level=level, match_mates=mates).to(dtype), lumpy_puzzle(3, 4)
    sizes = [cloud[:4] for cloud in puzzle.pieces.points.split(puzzle.pieces.sizes.tolist())]
    normals = [n[:4] for n in puzzle.pieces.normals.split(puzzle.pieces.sizes.tolist())]
    pieces = Pieces.from_clouds([c.numpy() for c in sizes], [n.numpy() for n in normals], dtype=dtype)
    assert pieces.sizes.tolist() == [4, 4, 4]
    tokens = model.network.encode(model.pyramid(pieces), None)
    velocity = model.network.relate(tokens, poses_of(3).to(dtype), torch.tensor([0.4], dtype=dtype))
    assert velocity.isfinite().all()
    assert velocity.abs().amax(1).min() > 1e-3
    loss = model.loss(Puzzle(pieces, puzzle.solution.to(dtype)), generator=seeded())
    (velocity.square().sum() + loss.total).backward()
    for name, parameter in model.network.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


# -- a piece alone -----------------------------------------------------------------------------------------


def piece_alone(size: int = 40) -> Pieces:
    """A puzzle of one piece, as pins leave it: nobody can ask for one directly."""
    two = puzzle_of([size, size], seed=9)
    rows = {"points": two.points[:size], "normals": two.normals[:size]}
    return replace(two, **rows, sizes=two.sizes[:1], counts=torch.tensor([1]), centers=two.centers[:1])


@with_and_without_mates
def test_a_piece_alone_goes_as_the_rest_says_and_its_companions_do_not_mind(mates):
    model, alone, pair = model_of(match_mates=mates), piece_alone(), puzzle_of([60, 50, 44])
    both, poses = Pieces.collate([alone, pair]), poses_of(4)
    field = field_of(model, both, poses)
    assert_near(field[1:], field_of(model, pair, poses[1:], times_of(both)[1:]), 1e-9)
    assert_near(field[:1], field_of(model, alone, poses[:1], times_of(both)[:1]), 1e-9)
    mute = model_of(match_mates=mates)
    nn.init.constant_(mute.network.motions.none, 400.0)
    assert_near(field[:1], field_of(mute, alone, poses[:1], times_of(both)[:1]), 1e-9)
    for pieces, count in ((alone, 1), (both, 4)):
        loss = model.loss(Puzzle(pieces, poses_of(count, 3)), draws=2, generator=seeded())
        assert torch.stack([loss.total, loss.rotation, loss.matches, loss.motions]).isfinite().all()
        loss.total.backward()
    lonely = model.loss(Puzzle(alone, poses_of(1, 3)), generator=seeded())
    assert lonely.motions == 0


@pytest.mark.parametrize("count", [2, 3])
def test_pins_may_leave_one_piece_or_two(count):
    model, pieces, pins = model_of(), puzzle_of([60, 50, 55][:count]), poses_of(2)
    found = model.sample(pieces, 2, pins={0: pins[0], 1: pins[1]}, steps=2, generator=seeded())
    assert_near(found[1, :2].matrix(), pins.matrix())
    assert found.isfinite()


# -- normals and precision ---------------------------------------------------------------------------------


@with_and_without_mates
@torch.no_grad()
def test_a_network_without_normals_takes_pieces_with_and_without_and_sees_no_difference(mates):
    model, poses = model_of(normals="absent", match_mates=mates), poses_of(3)
    bare, other = (puzzle_of([60, 50, 41], normals=normals) for normals in (False, True))
    assert_near(field_of(model, other, poses), field_of(model, bare, poses), 1e-12)
    with pytest.raises(InputError, match="normals"):
        field_of(model_of(match_mates=mates), bare, poses)


def single(mates: bool = True) -> tuple[Eda, Pieces, SE3]:
    model, pieces = model_of(match_mates=mates).float(), puzzle_of([60, 50, 44]).to(dtype=torch.float32)
    return model, pieces, poses_of(3).to(torch.float32)


@with_and_without_mates
def test_autocast_changes_no_bit_of_the_field(mates):
    model, pieces, poses = single(mates)
    expected = model.velocity(pieces, poses, 0.4)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model.velocity(pieces, poses, 0.4), expected)


@with_and_without_mates
def test_autocast_changes_no_bit_of_what_is_learned_beside_the_flow(mates):
    model, pieces, poses = single(mates)
    expected = model.loss(Puzzle(pieces, poses), generator=seeded())
    with torch.autocast("cpu", torch.bfloat16):
        found = model.loss(Puzzle(pieces, poses), generator=seeded())
    assert torch.equal(found.matches, expected.matches)
    assert torch.equal(found.motions, expected.motions)


# -- training ----------------------------------------------------------------------------------------------


def overlapping(count: int = 3) -> Puzzle:
    """Blobs at one place: scans that show the same."""
    clouds, normals = zip(*[lumpy_cloud(i, 48) for i in range(count)], strict=True)
    return Puzzle.from_assembled(clouds, normals, dtype=torch.float64)


def solvable(model: Eda) -> Puzzle:
    """Blobs whose solution is an arrangement that the network finds, so that some of its motions are right."""
    pieces = overlapping().pieces
    return Puzzle(pieces, model.network.encode(model.pyramid(pieces), None).arrangements.poses[:, 0])


@with_and_without_mates
def test_the_losses_of_matches_and_motions_are_part_of_the_total_by_their_weights(mates):
    model, own, found = model_of(match_mates=mates), torch.tensor([True, True, False]), []
    puzzle = solvable(model)
    heavy = Eda(replace(model.config, match_weight=2.5, judge_weight=3.5)).double()
    heavy.load_state_dict(model.state_dict())
    network = model.network
    for labels, belongs in ((None, None), (Labels(own=own), own)):
        light, weighed = (m.loss(puzzle, draws=2, labels=labels, generator=seeded()) for m in (model, heavy))
        assert_near(light.matches, matching_loss(matched(model, puzzle.pieces), puzzle.solution, belongs))
        arrangements = network.encode(model.pyramid(puzzle.pieces), None).arrangements
        motions = proposed(model, puzzle.pieces)
        judged = judging_loss(network.motions.judges, motions, arrangements, puzzle.solution, belongs)
        assert_near(light.motions, judged)
        assert_near(light.total, 2 * light.rotation + light.translation + light.matches + light.motions)
        assert_near(weighed.total - light.total, 1.5 * light.matches + 2.5 * light.motions)
        found.append([light.matches.item(), light.motions.item()])
    for one, other in zip(*found, strict=True):
        assert abs(one - other) > 1e-3, "pieces that are not the puzzle's share nothing and have no right place"


def test_breaks_and_matches_are_learned_from_one_pass_and_change_nothing_of_each_other():
    model, puzzle = model_of(pair_width=8, break_head=True, match_mates=True), lumpy_puzzle(3, 48)
    on_break = torch.rand(len(puzzle.pieces.points), generator=seeded()) < 0.4
    plain, both = (model.loss(puzzle, labels=Labels(labels), generator=seeded()) for labels in (None, on_break))
    assert plain.breaks is None
    for name in ("matches", "motions", "rotation"):
        assert_near(getattr(both, name), getattr(plain, name))
    assert_near(both.total, plain.total + 0.3 * both.breaks)


@pytest.mark.parametrize("break_head", [False, True])
def test_without_a_matcher_there_is_no_loss_of_matches_or_motions(break_head):
    puzzle = lumpy_puzzle(2, 24)
    model = Eda(EdaConfig(replace(TINY_NETWORK, break_head=break_head, time_in_encoder=False))).double()
    labels = Labels(torch.zeros(len(puzzle.pieces.points), dtype=torch.bool))
    loss = model.loss(puzzle, labels=labels, generator=seeded())
    assert loss.matches is loss.motions is None
    assert (loss.breaks is not None) == break_head


def taught(model: Eda, what: Tensor) -> set[str]:
    """The parts of the network whose weights something depends on; the levels of the encoder one by one."""
    names, weights = zip(*model.network.named_parameters(), strict=True)
    slopes = torch.autograd.grad(what, weights, allow_unused=True, retain_graph=True)
    learned = [name for name, slope in zip(names, slopes, strict=True) if slope is not None and slope.any()]
    return {".".join(name.split(".")[: 2 if name.startswith(("down", "motions")) else 1]) for name in learned}


@with_and_without_mates
def test_places_are_learned_from_matches_alone_and_arrangements_from_judgements_and_the_flow(mates):
    model, puzzle = model_of(match_mates=mates), overlapping()
    loss = model.loss(puzzle, draws=2, generator=seeded())
    before = {"embedding", "down.0", "matcher"}
    weighing = {"motions.judge", "motions.beside"} if mates else {"motions.judge"}
    assert taught(model, loss.matches) == before
    assert taught(model, loss.motions) == weighing
    flow = taught(model, loss.rotation + loss.translation)
    assert flow == {"down.1", "time", "croco", "head", "motions.none"} | weighing
    assert taught(model, loss.total) == before | flow


@with_and_without_mates
def test_the_velocity_teaches_every_part_of_what_weighs(mates):
    model, pieces = model_of(match_mates=mates), Pieces.collate(ragged())
    out = model.network(model.pyramid(pieces), poses_of(10), times_of(pieces))
    names, parameters = zip(*model.network.motions.named_parameters(), strict=True)
    gradients = torch.autograd.grad((out * drawn(10, 6)).sum(), parameters)
    assert [n for n, g in zip(names, gradients, strict=True) if not g.abs().max() > 1e-10] == []


# -- training without the flow -----------------------------------------------------------------------------


@pytest.mark.parametrize("break_head", [False, True])
@with_and_without_mates
def test_without_draws_only_breaks_and_matches_are_learned(mates, break_head):
    """And as with draws; nothing is arranged, and nobody draws a number."""
    model, puzzle = model_of(match_mates=mates, break_head=break_head, pair_width=8), overlapping()
    on_break = torch.rand(len(puzzle.pieces.points), generator=seeded()) < 0.4
    labels = Labels(on_break, torch.tensor([True, True, False]))
    model.network.propose = model.network.arrange = model.network.tokens = None  # whoever asks for them is wrong
    generator = seeded()
    found = model.loss(puzzle, draws=0, labels=labels, generator=generator)
    assert torch.equal(generator.get_state(), seeded().get_state())
    assert found.motions is None
    assert found.rotation == found.translation == 0
    other = model_of(match_mates=mates, break_head=break_head, pair_width=8)
    expected = other.loss(puzzle, draws=1, labels=labels, generator=seeded())
    assert_near(found.matches, expected.matches, 1e-12)
    assert (found.breaks is None) == (not break_head)
    if break_head:
        assert_near(found.breaks, expected.breaks, 1e-12)
    assert_near(found.total, found.matches + (0.3 * found.breaks if break_head else 0), 1e-12)
    breaks = {"breaks", "down.1"} if break_head else set()
    assert taught(model, found.total) == {"embedding", "down.0", "matcher"} | breaks


@pytest.mark.parametrize("time_in_encoder", [False, True])
def test_without_draws_a_network_that_matches_nothing_learns_breaks_or_nothing(time_in_encoder):
    puzzle = lumpy_puzzle(2, 24)
    labels = Labels(torch.rand(len(puzzle.pieces.points), generator=seeded()) < 0.4)
    for break_head in (True, False):
        model = Eda(EdaConfig(replace(TINY_NETWORK, break_head=break_head, time_in_encoder=time_in_encoder))).double()
        found = model.loss(puzzle, draws=0, labels=labels)
        assert found.rotation == found.translation == 0
        assert found.matches is found.motions is None
        assert_near(found.total, 0.3 * found.breaks) if break_head else None
        assert (found.total == 0) == (not break_head)


@pytest.mark.parametrize("draws", [-1, 0.5, "1"])
def test_a_number_of_draws_that_is_none_is_an_input_error(draws):
    with pytest.raises(InputError, match="draws must be a whole number from 0"):
        model_of().loss(overlapping(), draws=draws)


# -- files and settings ------------------------------------------------------------------------------------


@with_and_without_mates
def test_a_model_that_matches_comes_back_from_its_file(tmp_path, mates):
    model = model_of(7.0, match_level=2, match_layers=1, match_mates=mates).float()
    model = Eda(replace(model.config, judge_weight=0.4))
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert again.config == model.config
    pieces, poses = puzzle_of([60, 50, 40]).to(dtype=torch.float32), poses_of(3).to(torch.float32)
    assert torch.equal(again.velocity(pieces, poses, 0.4), model.velocity(pieces, poses, 0.4))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"match_width": 6}, "match_width of 6 .*4 heads"),
        ({"match_width": -4}, "match_width .*multiple of 4.* from 0"),
        ({"match_width": 8.0}, "match_width .*whole number"),
        ({"match_level": 3}, "match_level is 3, but there are 2 levels"),
        ({"match_level": 0}, "match_level must be a whole number from 1"),
        ({"match_layers": -1}, "match_layers must be a whole number from 0"),
        ({"match_mates": 1}, "match_mates must be"),
        ({"match_mates": True, "normals": "unoriented"}, "match_mates needs normals that point outward"),
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


@pytest.mark.parametrize("name", ["match_weight", "judge_weight", "boldness"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, "1"])
def test_what_must_be_a_positive_number_and_is_none_is_an_input_error(name, value):
    with pytest.raises(InputError, match=f"{name} must be a positive number"):
        EdaConfig(**{name: value})
