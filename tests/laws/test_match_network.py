"""A network that matches places keeps its laws, where pieces are small, sparse or alone too (ours)."""

import math
from dataclasses import replace

import pytest
import torch
from support.closeness import assert_near_and_nonzero
from support.lumpy_shapes import TINY_NETWORK, lumpy_puzzle, seeded
from support.matching_networks import CASES, field_of, known, proposed, ragged
from support.oracles import haar_rotations
from support.rigid_motions import random_se3
from support.soft_matches import MATCHED, model_of, of_both_kinds, piece_alone, puzzle_of, times_of
from torch import nn

from eda import SE3, Eda, EdaConfig, InputError, Pieces, Puzzle, load
from eda.registration.arrangements import Arrangements, arrange

COUNTS = [3, 2, 5]
# Where some pieces are not arranged, or what stirs the weights of judges leaves them little to say.
SILENT = {
    "no normals",
    "no normals, complementary",
    "with a path of pairs and a break head",
    "sparse pieces",
    "sparse pieces, complementary",
    "pieces too sparse for any motion",
}
SYNCHRONISED = {case for case, (settings, _) in CASES.items() if "pose_field" in settings}
in_all_cases = pytest.mark.parametrize("case", CASES)

# -- the field ---------------------------------------------------------------------------------------------


@in_all_cases
def test_the_field_of_moved_pieces_is_the_field_moved(case):
    """v_hX(g h^-1) = v_X(g) h^-1 for all h in SE(3)^N."""
    model, pieces, g, field = known(case)
    h = random_se3(10, seed=1, spread=3.0)
    assert_near_and_nonzero(field_of(model, pieces.move(h), g @ h.inverse()), field @ h.inverse().matrix(), 1e-7)


@in_all_cases
def test_the_field_moves_with_the_whole(case):
    """v_X(r g) = r v_X(g), turns and translations."""
    model, pieces, g, field = known(case)
    r = SE3(haar_rotations(1, 4).expand(10, 3, 3), torch.tensor([0.5, -2.0, 1.0]).double().expand(10, 3))
    assert_near_and_nonzero(field_of(model, pieces, r @ g), r.matrix() @ field, 1e-8)


@in_all_cases
def test_the_field_follows_the_order_of_pieces_and_does_not_see_that_of_points(case):
    model, pieces, poses, field = known(case)
    rows = torch.arange(len(pieces.points)).split(pieces.sizes.tolist())
    rows = torch.cat([row[torch.randperm(len(row), generator=seeded())] for row in rows])
    shuffled = replace(pieces, points=pieces.points[rows], normals=pieces.normals[rows])
    order = torch.tensor([1, 2, 0, 4, 3, 8, 5, 9, 7, 6])
    assert_near_and_nonzero(field_of(model, shuffled.permute(order), poses[order]), field[order], 1e-8)


@in_all_cases
def test_a_puzzle_does_not_see_its_batch_companions(case):
    model, pieces, poses, field = known(case)
    each = zip(CASES[case][1](), (poses[:3], poses[3:5], poses[5:]), times_of(pieces).split(1), strict=True)
    assert_near_and_nonzero(torch.cat([field_of(model, *one) for one in each]), field, 1e-8)


@pytest.mark.parametrize(
    ("case", "arrangements", "placed"),
    [
        ("as it is", [12, 18, 12], [3, 2, 5]),
        ("complementary", [12, 32, 12], [3, 2, 5]),
        ("small pieces", [12, 25, 12], [3, 2, 5]),
        ("small pieces, complementary", [12, 32, 12], [3, 2, 5]),
        ("sparse pieces", [0, 0, 8], [0, 0, 4]),
        ("sparse pieces, complementary", [0, 0, 7], [0, 0, 4]),
        ("pieces too sparse for any motion", [0, 0, 0], [0, 0, 0]),
    ],
)
@torch.no_grad()
def test_the_cases_are_what_they_are_said_to_be(case, arrangements, placed):
    """How many arrangements the puzzles have, and how many pieces these place."""
    model, pieces, *_ = known(case)
    found = model.network.encode(model.pyramid(pieces), None).arrangements
    each = [of[holds].sum(1) for of, holds in zip(found.placed.T.split(COUNTS, dim=1), found.valid, strict=True)]
    assert found.valid.sum(1).tolist() == arrangements
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


@of_both_kinds
@torch.no_grad()
def test_arrangements_are_made_from_the_matching_with_the_centres_of_pieces_once_for_all_times(complementary):
    model, pieces = model_of(complementary=complementary), Pieces.collate(ragged()).move(random_se3(10, 7, spread=0.7))
    early, late = (
        model.network.encode(model.pyramid(pieces), torch.full((3,), tau, dtype=torch.float64)).arrangements
        for tau in (0.1, 0.9)
    )
    assert torch.equal(early.poses.matrix(), late.poses.matrix())
    clouds = pieces.points.split(pieces.sizes.tolist())
    assert_near_and_nonzero(early.centers, torch.stack([cloud.mean(0) for cloud in clouds]))
    centers = early.centers.split(COUNTS)
    judges = model.network.motions.pair_scores
    alone = [arrange(of, at, judges) for of, at in zip(proposed(model, pieces), centers, strict=True)]
    expected = Arrangements.cat(alone)
    lying = expected.both_placed[
        ..., None, None
    ]  # as pieces see each other: frames mean nothing beyond one arrangement
    assert_near_and_nonzero(early.T_second_first.matrix() * lying, expected.T_second_first.matrix() * lying, 1e-8)
    assert_near_and_nonzero(early.features, expected.features, 1e-8)
    for name in ("placed", "valid", "is_joint", "first", "second", "counts"):
        assert torch.equal(getattr(early, name), getattr(expected, name)), name


@pytest.mark.parametrize("case", sorted(CASES.keys() - SILENT - SYNCHRONISED))
@torch.no_grad()
def test_arrangements_have_a_say_in_every_velocity_unless_the_rest_outweighs_them(case):
    """Then all is what a network of the same weights without them says."""
    model, pieces, poses, field = known(case)
    plain = Eda(EdaConfig(replace(model.config.network, match_width=0, matching="overlap"))).double()
    mute = model_of(**CASES[case][0])
    own = plain.state_dict().keys()
    plain.load_state_dict({name: weight for name, weight in model.state_dict().items() if name in own})
    assert plain.network.matcher is plain.network.motions is None
    expected = field_of(plain, pieces, poses)
    assert (field - expected).abs().amax((1, 2)).min() > 1e-3
    nn.init.constant_(mute.network.motions.none, 400.0)
    assert_near_and_nonzero(field_of(mute, pieces, poses), expected, 1e-12)


# -- the smallest pieces, and a piece alone ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("level", "complementary"), [(1, False), (2, False), (1, True)])
def test_the_smallest_pieces_have_finite_velocities_and_gradients(complementary, dtype, level):
    model, puzzle = model_of(match_level=level, complementary=complementary).to(dtype), lumpy_puzzle(3, 4)
    sizes = [cloud[:4] for cloud in puzzle.pieces.points.split(puzzle.pieces.sizes.tolist())]
    normals = [n[:4] for n in puzzle.pieces.normals.split(puzzle.pieces.sizes.tolist())]
    pieces = Pieces.from_clouds([c.numpy() for c in sizes], [n.numpy() for n in normals], dtype=dtype)
    assert pieces.sizes.tolist() == [4, 4, 4]
    tokens = model.network.encode(model.pyramid(pieces), None)
    velocity = model.network.relate(tokens, random_se3(3, spread=0.7).to(dtype), torch.tensor([0.4], dtype=dtype))
    assert velocity.isfinite().all()
    assert velocity.abs().amax(1).min() > 1e-3
    loss = model.loss(Puzzle(pieces, puzzle.solution.to(dtype)), generator=seeded())
    (velocity.square().sum() + loss.total).backward()
    for name, parameter in model.network.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


@of_both_kinds
def test_a_piece_alone_goes_as_the_rest_says_and_its_companions_do_not_mind(complementary):
    model, alone, pair = model_of(complementary=complementary), piece_alone(40), puzzle_of([60, 50, 44])
    both, poses = Pieces.collate([alone, pair]), random_se3(4, spread=0.7)
    field = field_of(model, both, poses)
    assert_near_and_nonzero(field[1:], field_of(model, pair, poses[1:], times_of(both)[1:]), 1e-9)
    assert_near_and_nonzero(field[:1], field_of(model, alone, poses[:1], times_of(both)[:1]), 1e-9)
    mute = model_of(complementary=complementary)
    nn.init.constant_(mute.network.motions.none, 400.0)
    assert_near_and_nonzero(field[:1], field_of(mute, alone, poses[:1], times_of(both)[:1]), 1e-9)
    for pieces, count in ((alone, 1), (both, 4)):
        loss = model.loss(Puzzle(pieces, random_se3(count, 3, spread=0.7)), draws=2, generator=seeded())
        assert torch.stack([loss.total, loss.rotation, loss.matches, loss.motions]).isfinite().all()
        loss.total.backward()
    lonely = model.loss(Puzzle(alone, random_se3(1, 3, spread=0.7)), generator=seeded())
    assert lonely.motions == 0


# -- normals and precision ---------------------------------------------------------------------------------


@of_both_kinds
@torch.no_grad()
def test_a_network_without_normals_takes_pieces_with_and_without_and_sees_no_difference(complementary):
    model, poses = model_of(normals="absent", complementary=complementary), random_se3(3, spread=0.7)
    bare, other = (puzzle_of([60, 50, 41], normals=normals) for normals in (False, True))
    assert_near_and_nonzero(field_of(model, other, poses), field_of(model, bare, poses), 1e-12)
    with pytest.raises(InputError, match="normals"):
        field_of(model_of(complementary=complementary), bare, poses)


def single(complementary: bool = True) -> tuple[Eda, Pieces, SE3]:
    model, pieces = model_of(complementary=complementary).float(), puzzle_of([60, 50, 44]).to(dtype=torch.float32)
    return model, pieces, random_se3(3, spread=0.7).to(torch.float32)


@of_both_kinds
def test_autocast_changes_no_bit_of_the_field(complementary):
    model, pieces, poses = single(complementary)
    expected = model.velocity(pieces, poses, 0.4)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model.velocity(pieces, poses, 0.4), expected)


@of_both_kinds
def test_autocast_changes_no_bit_of_what_is_learned_beside_the_flow(complementary):
    model, pieces, poses = single(complementary)
    expected = model.loss(Puzzle(pieces, poses), generator=seeded())
    with torch.autocast("cpu", torch.bfloat16):
        found = model.loss(Puzzle(pieces, poses), generator=seeded())
    assert torch.equal(found.matches, expected.matches)
    assert torch.equal(found.motions, expected.motions)


# -- files and settings ------------------------------------------------------------------------------------


@of_both_kinds
def test_a_model_that_matches_comes_back_from_its_file(tmp_path, complementary):
    model = model_of(7.0, match_level=2, match_layers=1, complementary=complementary).float()
    model = Eda(replace(model.config, judge_weight=0.4))
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert again.config == model.config
    pieces, poses = puzzle_of([60, 50, 40]).to(dtype=torch.float32), random_se3(3, spread=0.7).to(torch.float32)
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
        ({"matching": "mates"}, "matching must be one of overlap, complementary"),
        ({"matching": "complementary", "normals": "unoriented"}, "matching=.complementary. needs outward normals"),
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
