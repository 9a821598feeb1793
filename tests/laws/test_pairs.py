"""Pairs of pieces choose their contacts by one distribution, turn with their first piece, and see no padding (ours)."""

import itertools
from dataclasses import replace

import pytest
import torch
from reference import haar_rotations, invariants, looked, stirred
from shapes import TINY_NETWORK, lumpy_cloud, lumpy_pieces, lumpy_puzzle
from torch import Tensor, nn

from eda import SE3, Eda, EdaConfig, InputError, NetworkConfig, Pieces
from eda.graph import Level
from eda.model import Labels
from eda.nn.pairs import (
    CONTACTS,
    FAR,
    GRAM,
    KEY_WIDTH,
    PAIR_SCALARS,
    PAIR_VECTORS,
    PRODUCTS,
    STATE_SCALARS,
    STATE_VECTORS,
    Attention,
    PairBlock,
    PairEncoder,
    Pairs,
    PairState,
    _ordered_pairs,
)

VARIANTS = {
    "as it is": {},
    "coarse places": {"pair_level": 2},
    "encoder without time": {"time_in_encoder": False},
    "one look": {"pair_layers": 1},
    "no look": {"pair_layers": 0},
    "degree 1": {"max_degree": 1},
    "degree 3": {"max_degree": 3},
    "no normals": {"normals": "absent"},
}
in_all_variants = pytest.mark.parametrize("variant", VARIANTS)
with_and_without_time = pytest.mark.parametrize("variant", ["as it is", "encoder without time"])


def model_of(variant: str = "as it is", **options: object) -> Eda:
    """In float64, every weight stirred."""
    return stirred(Eda(EdaConfig(replace(TINY_NETWORK, pair_width=8, **{**VARIANTS[variant], **options}))))


def puzzle_of(sizes: list[int], seed: int = 0) -> Pieces:
    clouds, normals = zip(*[lumpy_cloud(50 * seed + i, size) for i, size in enumerate(sizes)], strict=True)
    return Pieces.from_clouds(clouds, normals, dtype=torch.float64)


def piece_alone(size: int = 20) -> Pieces:
    """A puzzle of one piece, as pins leave it: nobody can ask for one directly."""
    two = puzzle_of([size, size], seed=9)
    rows = {"points": two.points[:size], "normals": two.normals[:size]}
    return replace(two, **rows, sizes=two.sizes[:1], counts=torch.tensor([1]), centers=two.centers[:1])


def ragged() -> list[Pieces]:
    """Puzzles of 3, 1, 2 and 4 pieces."""
    return [puzzle_of([24, 31, 9], 0), piece_alone(), puzzle_of([40, 6], 1), puzzle_of([5, 30, 12, 18], 2)]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def poses_of(count: int, seed: int = 0) -> SE3:
    return SE3(haar_rotations(count, seed), torch.randn(count, 3, generator=seeded(seed), dtype=torch.float64))


def times_of(pieces: Pieces) -> Tensor:
    return torch.linspace(0.2, 0.9, pieces.num_puzzles).double()


@torch.no_grad()
def pairs_of(model: Eda, pieces: Pieces, tau: Tensor | None = None) -> Pairs:
    return model.network.encode(model.pyramid(pieces), times_of(pieces) if tau is None else tau).pairs


@torch.no_grad()
def velocity_of(model: Eda, pieces: Pieces, poses: SE3, tau: Tensor | None = None) -> Tensor:
    return model.velocity(pieces, poses, times_of(pieces) if tau is None else tau)


def known(pairs: Pairs) -> dict[tuple[int, int], tuple[Tensor, Tensor]]:
    """What every first piece knows of every second: vectors and scalars."""
    names = zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)
    return dict(zip(names, zip(pairs.vectors, pairs.scalars, strict=True), strict=True))


def assert_near(a: Tensor, b: Tensor, atol: float = 1e-10) -> None:
    assert b.abs().max() > 1e-3  # zero would satisfy every law
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


def assert_same_knowledge(a: dict, b: dict, atol: float = 1e-10) -> None:
    assert a.keys() == b.keys()
    for name in b:
        assert_near(a[name][0], b[name][0], atol)
        assert_near(a[name][1], b[name][1], atol)


# -- who is paired with whom -------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [[2], [1], [3, 2], [1, 4, 1, 2], [5, 1, 3], [1, 1]])
def test_pairs_are_the_permutations_of_two_pieces_of_a_puzzle(counts):
    first, second, mirror, partner = (rows.tolist() for rows in _ordered_pairs(torch.tensor(counts)))
    begins = [0, *itertools.accumulate(counts)]
    expected = [
        (begin + i, begin + j, j)
        for begin, count in zip(begins, counts, strict=False)
        for i, j in itertools.permutations(range(count), 2)
    ]
    assert list(zip(first, second, partner, strict=True)) == expected
    row = {pair: number for number, pair in enumerate(zip(first, second, strict=True))}
    assert mirror == [row[j, i] for i, j in row]


def test_a_network_pairs_all_pieces_of_a_puzzle_and_no_others():
    pairs = pairs_of(model_of(), Pieces.collate(ragged()))
    groups = [range(3), range(3, 4), range(4, 6), range(6, 10)]
    assert list(known(pairs)) == [pair for group in groups for pair in itertools.permutations(group, 2)]
    assert torch.equal(pairs.first[pairs.mirror], pairs.second)
    assert torch.equal(pairs.second[pairs.mirror], pairs.first)


def test_several_batches_of_pairs_are_those_of_one_batch():
    model, batch = model_of(), ragged()
    taus = times_of(Pieces.collate(batch)).split(1)
    joined = Pairs.cat([pairs_of(model, pieces, tau) for pieces, tau in zip(batch, taus, strict=True)])
    together = pairs_of(model, Pieces.collate(batch))
    for name in ("first", "second", "mirror"):
        assert torch.equal(getattr(joined, name), getattr(together, name)), name
    for name in ("vectors", "scalars"):
        assert_near(getattr(joined, name), getattr(together, name))
    assert torch.equal(joined.centers, together.centers)


# -- the choice of contacts, place by place ----------------------------------------------------------------


def described(encoder: PairEncoder, features: Tensor, offset: Tensor, owner: list[int]) -> Tensor:
    """The descriptors of all places of one puzzle."""
    places = encoder.embedding(invariants(features, offset, 4 * encoder.reach))
    everyone = range(len(owner))
    own = [[v for v in everyone if owner[v] == owner[u]] for u in everyone]
    others = [[v for v in everyone if owner[v] != owner[u]] for u in everyone]
    for inside, across in zip(encoder.inside, encoder.across, strict=True):
        places = looked(across, looked(inside, places, own), others)
    return places


def scores_between(encoder: PairEncoder, here: Tensor, there: Tensor) -> Tensor:
    """How well places of two pieces match: each asks and is asked. (U, width), (V, width) -> (K, U, V)."""
    (ask, answer), (asked, answered) = (
        encoder.match(places).reshape(-1, 2, CONTACTS, KEY_WIDTH).unbind(1) for places in (here, there)
    )
    return (torch.einsum("ukd,vkd->kuv", ask, answered) + torch.einsum("ukd,vkd->kuv", answer, asked)) / 4


def contacts(encoder: PairEncoder, scores: Tensor, places: Tensor, features: Tensor, offset: Tensor) -> tuple:
    """The means over one distribution over pairs of places (K, U, V), of what the first piece has there."""
    weight = torch.softmax(scores.flatten(1), dim=1).reshape(scores.shape)
    where = torch.einsum("kuv,ud->dk", weight, offset) / (4 * encoder.reach)
    looks = encoder.looks(features[:, 1:4]) * torch.tanh(encoder.gate(places))[:, None]
    vectors = torch.cat([where, torch.einsum("kuv,udk->dk", weight, looks)], dim=1)
    else_known = torch.einsum("kuv,uk->k", weight, encoder.scalars(places))
    matched = torch.einsum("kuv,ku->k", weight, scores.logsumexp(2))
    return vectors, torch.cat([else_known, matched])


def by_brute_force(encoder: PairEncoder, level: Level, features: Tensor, centers: Tensor) -> dict:
    """All that the pieces of one puzzle know of each other."""
    sizes = level.sizes.tolist()
    owner = [i for i, size in enumerate(sizes) for _ in range(size)]
    features, offset = encoder.norm(features), level.points - centers[owner]
    places = described(encoder, features, offset, owner)
    pieces = list(zip(places.split(sizes), features.split(sizes), offset.split(sizes), strict=True))
    expected = {}
    for i, j in itertools.combinations(range(len(sizes)), 2):
        scores = scores_between(encoder, pieces[i][0], pieces[j][0])
        expected[i, j] = contacts(encoder, scores, *pieces[i])
        expected[j, i] = contacts(encoder, scores.mT, *pieces[j])
    return expected


def shifted(expected: dict, start: int) -> dict:
    return {(i + start, j + start): knowledge for (i, j), knowledge in expected.items()}


@in_all_variants
@torch.no_grad()
def test_contacts_are_means_over_one_distribution_over_the_pairs_of_places(variant):
    """Both ways: the marginals of the joint softmax over all places of the two pieces, in ragged puzzles."""
    model, batch, expected, start = model_of(variant), ragged(), {}, 0
    assert model.network.pairs.encoder.reach == pytest.approx(0.2 * 2**model.network.config.pair_level)
    taus = times_of(Pieces.collate(batch)).split(1)
    for pieces, tau in zip(batch, taus, strict=True):
        pyramid, depth = model.pyramid(pieces), model.network.config.pair_level - 1
        features = model.network.descend(pyramid, tau)[depth]
        found = by_brute_force(model.network.pairs.encoder, pyramid.levels[depth], features, pieces.centroids())
        expected |= shifted(found, start)
        start += pieces.num_pieces
    assert_same_knowledge(known(pairs_of(model, Pieces.collate(batch))), expected, 1e-7)


@torch.no_grad()
def test_contacts_with_a_partner_do_not_depend_on_how_much_better_others_match():
    model, pieces = model_of(), puzzle_of([20, 26, 31])
    model.network.pairs.encoder.match.weight *= 6  # scores hundreds apart: e^-100 of the best is nothing in a sum
    pyramid = model.pyramid(pieces)
    levels = model.network.descend(pyramid, times_of(pieces))
    level, centers = pyramid.levels[model.network.pairs.level], pieces.centroids()
    expected = by_brute_force(model.network.pairs.encoder, level, levels[model.network.pairs.level], centers)
    assert_same_knowledge(known(model.network.tokens(pyramid, levels).pairs), expected, 1e-8)


def test_a_layer_lets_places_look_where_they_may():
    """Place by place, where a mask is arbitrary; who sees nobody hears nothing, and harms no gradient."""
    layer, generator = stirred(Attention(8)), seeded()
    places = torch.randn(2, 7, 8, generator=generator, dtype=torch.float64, requires_grad=True)
    visible = torch.rand(2, 7, 7, generator=generator) < 0.4
    visible[0, 2] = visible[1, :] = False
    found = layer(places, visible)
    at = [[[v for v in range(7) if row[v]] for row in puzzle] for puzzle in visible.tolist()]
    assert_near(found, torch.stack([looked(layer, p, seen) for p, seen in zip(places, at, strict=True)]), 1e-12)
    gradients = torch.autograd.grad(found.square().sum(), [places, *layer.parameters()])
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_the_choice_is_a_choice():
    """Contacts differ from each other and from partner to partner: the law above is not one of plain means."""
    pairs = known(pairs_of(model_of(), lumpy_pieces(3, 24)))
    where = {name: vectors[:, :CONTACTS] for name, (vectors, _) in pairs.items()}
    assert where[0, 1].std(dim=1).max() > 0.02
    for i, j, k in itertools.permutations(range(3)):
        assert (where[i, j] - where[i, k]).abs().max() > 0.005


# -- frames ------------------------------------------------------------------------------------------------


@in_all_variants
def test_what_a_pair_knows_turns_with_the_first_piece_and_does_not_see_the_second(variant):
    model, pieces, poses = model_of(variant), Pieces.collate(ragged()), poses_of(10)
    before, after = (known(pairs_of(model, p)) for p in (pieces, pieces.moved(poses)))
    turned = {(i, j): (poses.rotation[i] @ vectors, scalars) for (i, j), (vectors, scalars) in before.items()}
    assert_same_knowledge(after, turned)


@pytest.mark.parametrize("moved", [0, 1])
def test_to_move_one_piece_turns_its_own_contacts_only(moved):
    model, pieces = model_of(), lumpy_pieces(2, 24)
    mask = torch.arange(2) == moved
    poses = poses_of(2).where(mask, SE3.identity(2, dtype=torch.float64))
    before, after = pairs_of(model, pieces), pairs_of(model, pieces.moved(poses))
    change = (after.vectors - before.vectors).abs().flatten(1).amax(1)
    assert (change[mask] > 0.01).all()
    assert (change[~mask] < 1e-10).all()
    assert_near(after.scalars, before.scalars)


# -- what pieces conclude, pair by pair --------------------------------------------------------------------


def pairs_at_random(counts: list[int], seed: int = 0) -> Pairs:
    first, second, mirror, _ = _ordered_pairs(torch.tensor(counts))
    draw = [(len(first), 3, PAIR_VECTORS), (len(first), PAIR_SCALARS), (sum(counts), 3)]
    generator = seeded(seed)
    vectors, scalars, centers = (0.5 * torch.randn(s, generator=generator, dtype=torch.float64) for s in draw)
    return Pairs(first, second, mirror, vectors, scalars, centers)


def time_at_random(count: int, channels: int = TINY_NETWORK.channels) -> Tensor:
    return torch.randn(count, channels, generator=seeded(5), dtype=torch.float64)


def judged_pair(block: PairBlock, mine: list, theirs: list, scalars: list) -> tuple[Tensor, Tensor]:
    """The logit of a pair and all it would say, from the columns of both sides in one space."""
    split = [GRAM, PRODUCTS, PRODUCTS]
    (a, left, own), (b, right, other) = (
        (torch.cat(columns, dim=1) @ weight.T).split(split, dim=1)
        for columns, weight in ((mine, block.mine.weight), (theirs, block.theirs.weight))
    )
    grams = [torch.einsum("dx,dy->xy", x, y).flatten() for x, y in ((a, b), (a, a), (b, b))]
    gates, said, logit = block.judge(torch.cat([*grams, *scalars])).split([3 * PRODUCTS, STATE_SCALARS, 1])
    crosses = torch.stack([torch.linalg.cross(left[:, p], right[:, p]) for p in range(PRODUCTS)], dim=1)
    vectors = torch.cat([crosses, own, other], dim=1) * gates @ block.output.weight.T
    return logit, torch.cat([vectors.flatten(), said])


def concluded(block: PairBlock, pairs: Pairs, poses: SE3, state: PairState | None, time: Tensor) -> PairState:
    """Piece by piece: a softmax over its partners."""
    told, answers = known(pairs), []
    places = torch.stack([R @ c + t for R, c, t in zip(poses.rotation, pairs.centers, poses.translation, strict=True)])
    for i in range(len(places)):
        found = []
        for j in [second for first, second in told if first == i]:
            way = (places[j] - places[i])[:, None]
            way = way / torch.sqrt(1 + way.square().sum() / FAR**2)
            mine, theirs = [poses.rotation[i] @ told[i, j][0], way], [poses.rotation[j] @ told[j, i][0], way]
            scalars = [told[i, j][1], told[j, i][1], time[i]]
            if state is not None:
                mine, theirs = [*mine, state.vectors[i]], [*theirs, state.vectors[j]]
                scalars += [state.scalars[i], state.scalars[j]]
            found.append(judged_pair(block, mine, theirs, scalars))
        answers.append(_mean_by_logits(found, 3 * STATE_VECTORS + STATE_SCALARS))
    vectors, said = torch.stack(answers).split([3 * STATE_VECTORS, STATE_SCALARS], dim=1)
    return PairState(vectors.reshape(-1, 3, STATE_VECTORS), said)


def _mean_by_logits(found: list[tuple[Tensor, Tensor]], width: int) -> Tensor:
    if not found:
        return torch.zeros(width, dtype=torch.float64)
    logits, values = zip(*found, strict=True)
    return torch.softmax(torch.cat(logits), 0) @ torch.stack(values)


@torch.no_grad()
def test_pieces_conclude_what_a_loop_over_their_partners_does():
    path, counts = model_of().network.pairs, [3, 1, 2]
    pairs, poses, time = pairs_at_random(counts), poses_of(6), time_at_random(6)
    expected = None
    for block in path.blocks:
        expected = concluded(block, pairs, poses, expected, time)
    found = path(pairs, poses, time)
    assert_near(found.vectors, expected.vectors)
    assert_near(found.scalars, expected.scalars)
    assert not found.vectors[3].any(), "a piece alone has nothing to conclude from"


@torch.no_grad()
def test_conclusions_turn_with_the_whole_and_do_not_see_where_it_is():
    path, pairs, time, poses = model_of().network.pairs, pairs_at_random([3, 2]), time_at_random(5), poses_of(5)
    R, t = haar_rotations(1, 9)[0], torch.tensor([2.0, -5.0, 1.0], dtype=torch.float64)
    before, after = path(pairs, poses, time), path(pairs, SE3(R.expand(5, 3, 3), t.expand(5, 3)) @ poses, time)
    assert_near(after.vectors, R @ before.vectors)
    assert_near(after.scalars, before.scalars)
    w, u = path.velocity(before).split(3, dim=1)
    assert_near(path.velocity(after), torch.cat([w @ R.T, u @ R.T], dim=1))


def test_the_field_does_not_grow_without_bound_as_pieces_lie_farther_apart():
    model, pieces, g = model_of(), puzzle_of([20, 26, 31]), poses_of(3)
    places = [SE3(g.rotation, scale * g.translation) for scale in (1e4, 1e8)]
    far, farther = (model.network(model.pyramid(pieces), poses, times_of(pieces)).detach() for poses in places)
    torch.testing.assert_close(farther, far, rtol=1e-2, atol=1e-2 * float(far.abs().max()))


@torch.no_grad()
def test_what_is_told_are_scalars_and_vectors_and_nothing_of_higher_degree():
    path = model_of().network.pairs
    state = path(pairs_at_random([3]), poses_of(3), time_at_random(3))
    told = path.told(state, 9)
    assert_near(told[:, 0], state.scalars @ path.scalars.weight.T)
    assert_near(told[:, 1:4], state.vectors @ path.vectors.weight.T)
    assert told.shape == (3, 9, TINY_NETWORK.channels)
    assert not told[:, 4:].any()


# -- the path in the network -------------------------------------------------------------------------------


def silenced(model: Eda, *parts: str) -> Eda:
    for part in parts:
        nn.init.zeros_(getattr(model.network.pairs, part).weight)
    return model


def without_pairs(model: Eda) -> Eda:
    """The same weights in a network without the path."""
    plain = Eda(replace(model.config, network=model.config.network.without_pairs)).double()
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("network.pairs.")})
    return plain


@with_and_without_time
def test_a_path_that_says_nothing_leaves_the_network_as_it_was(variant):
    pieces, poses = Pieces.collate(ragged()), poses_of(10)
    model = model_of(variant)
    plain = velocity_of(without_pairs(model), pieces, poses)
    assert (velocity_of(model, pieces, poses) - plain).abs().amax(1)[torch.arange(10) != 3].min() > 1e-3
    assert_near(velocity_of(silenced(model, "scalars", "vectors", "output"), pieces, poses), plain, 1e-14)


@torch.no_grad()
def test_the_velocity_of_pairs_is_added_to_that_of_the_tokens():
    model, pieces, poses = model_of(), Pieces.collate(ragged()), poses_of(10)
    tau = times_of(pieces)
    network, pyramid = model.network, model.pyramid(pieces)
    time = network.time(tau)[pieces.puzzle_of_piece]
    by_pairs = network.pairs.velocity(network.pairs(pairs_of(model, pieces), poses, time))
    both = network(pyramid, poses, tau)
    assert_near(both - silenced(model, "output").network(pyramid, poses, tau), by_pairs)


@pytest.mark.parametrize("part", ["scalars", "vectors", "output"])
def test_every_way_out_of_the_path_is_heard_by_all_pieces_with_partners(part):
    pieces, poses = Pieces.collate(ragged()), poses_of(10)
    parts = {"scalars", "vectors", "output"} - {part}
    only, none = (velocity_of(silenced(model_of(), *p), pieces, poses) for p in (parts, {*parts, part}))
    change = (only - none).abs().amax(1)
    assert change[torch.arange(10) != 3].min() > 1e-3
    assert change[3] == 0


# -- batches and orders ------------------------------------------------------------------------------------


@in_all_variants
def test_a_pair_does_not_see_the_companions_of_its_puzzle(variant):
    model, batch = model_of(variant), ragged()
    tau = times_of(Pieces.collate(batch))
    alone, start = {}, 0
    for pieces, own in zip(batch, tau.split(1), strict=True):
        alone |= shifted(known(pairs_of(model, pieces, own)), start)
        start += pieces.num_pieces
    assert_same_knowledge(known(pairs_of(model, Pieces.collate(batch), tau)), alone)


@in_all_variants
def test_a_velocity_does_not_see_the_companions_of_its_puzzle(variant):
    model, batch = model_of(variant), ragged()
    poses = [poses_of(pieces.num_pieces, seed) for seed, pieces in enumerate(batch)]
    tau = times_of(Pieces.collate(batch))
    together = velocity_of(model, Pieces.collate(batch), SE3.cat(poses), tau)
    alone = [velocity_of(model, *each) for each in zip(batch, poses, tau.split(1), strict=True)]
    assert_near(together, torch.cat(alone))


@in_all_variants
def test_pairs_follow_the_order_of_pieces(variant):
    model, pieces = model_of(variant), Pieces.collate(ragged())
    order = [1, 2, 0, 3, 5, 4, 9, 6, 8, 7]
    before, after = known(pairs_of(model, pieces)), known(pairs_of(model, pieces.permuted(torch.tensor(order))))
    assert_same_knowledge({(order[i], order[j]): knowledge for (i, j), knowledge in after.items()}, before)
    poses = poses_of(10)
    permuted = velocity_of(model, pieces.permuted(torch.tensor(order)), poses[torch.tensor(order)])
    assert_near(permuted, velocity_of(model, pieces, poses)[order])


def test_a_pair_sees_the_third_piece():
    """No symmetry too many: places look at all pieces of their puzzle before they choose."""
    model, three = model_of(), puzzle_of([24, 31, 20])
    other = replace(three, points=torch.cat([three.points[:55], 1.2 * three.points[55:]]))
    before, after = (known(pairs_of(model, pieces))[0, 1] for pieces in (three, other))
    assert (before[1] - after[1]).abs().max() > 1e-4


# -- a piece alone -----------------------------------------------------------------------------------------


@in_all_variants
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_puzzle_of_one_piece_has_a_finite_velocity_and_gradient(variant, dtype):
    model, pieces, poses = model_of(variant).to(dtype), piece_alone().to(dtype=dtype), poses_of(1).to(dtype)
    velocity = model.velocity(pieces, poses, 0.4)
    assert velocity.isfinite().all()
    velocity.square().sum().backward()
    for name, parameter in model.network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_pieces_alone_among_others_have_finite_gradients():
    model = model_of()
    model.velocity(Pieces.collate(ragged()), poses_of(10), 0.4).square().sum().backward()
    for name, parameter in model.network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_a_piece_alone_moves_as_if_there_were_no_pairs():
    model, pieces, poses = model_of(), piece_alone(), poses_of(1)
    assert_near(velocity_of(model, pieces, poses), velocity_of(without_pairs(model), pieces, poses), 1e-14)


def test_pins_may_leave_one_piece():
    model, pieces, pins = model_of(), lumpy_pieces(2, 24), poses_of(2)
    found = model.sample(pieces, 2, pins={0: pins[0], 1: pins[1]}, steps=2, generator=seeded())
    for k in range(2):
        assert_near(found[k].matrix(), pins.matrix())


# -- several samples and times -----------------------------------------------------------------------------


@with_and_without_time
def test_samples_at_any_times_are_those_of_one_at_a_time(variant):
    """One field, called at equal times, at other equal ones, at different ones, and at the first again."""
    model, pieces = model_of(variant), Pieces.collate(ragged()[1:])
    field, N = model.field(pieces, samples=3), pieces.num_pieces
    poses, together = poses_of(3 * N), times_of(pieces).repeat(3, 1)
    apart = torch.rand(3, 3, generator=seeded(), dtype=torch.float64)
    for tau in (together, 1 - together, apart, together):
        with torch.no_grad():
            found = field(poses, tau.flatten()).reshape(3, N, 6)
        for k in range(3):
            assert_near(found[k], velocity_of(model, pieces, poses[k * N : (k + 1) * N], tau[k]))


@with_and_without_time
def test_assemblies_of_one_call_are_those_of_one_at_a_time(variant):
    model, pieces = model_of(variant), Pieces.collate(ragged()[1:3])
    silenced(model, "output")  # a stirred path is too fast for a few steps
    noise = poses_of(9).reshape(3, 3)
    together = model.sample(pieces, 3, noise=noise, steps=2).matrix()
    for k in range(3):
        assert_near(together[k], model.sample(pieces, noise=noise[k : k + 1], steps=2).matrix()[0], 1e-9)


@with_and_without_time
def test_pairs_depend_on_the_time_where_the_encoder_does(variant):
    model, pieces = model_of(variant), lumpy_pieces(2, 24)
    early, late = (pairs_of(model, pieces, torch.tensor([tau]).double()) for tau in (0.1, 0.9))
    assert torch.equal(early.vectors, late.vectors) == (variant == "encoder without time")


@with_and_without_time
def test_labels_of_breaks_do_not_change_what_pairs_learn(variant):
    """Where one pass of a time-free encoder serves both."""
    model, puzzle = model_of(variant, break_head=True), lumpy_puzzle(3, 24)
    on_break = torch.rand(len(puzzle.pieces.points), generator=seeded()) < 0.4
    plain, labelled = (
        model.loss(puzzle, draws=2, labels=Labels(labels), generator=seeded()) for labels in (None, on_break)
    )
    assert_near(labelled.rotation, plain.rotation)
    assert_near(labelled.translation, plain.translation)


# -- gradients ---------------------------------------------------------------------------------------------


def dead_parts(model: Eda) -> list[str]:
    """Rows of the path's parameters that no gradient reaches."""
    pieces = Pieces.collate([lumpy_pieces(3, 40, seed=s) for s in range(3)])
    out = model.network(model.pyramid(pieces), poses_of(9), times_of(pieces))
    names, parameters = zip(*model.network.pairs.named_parameters(), strict=True)
    pull = torch.randn(out.shape, generator=seeded(), dtype=torch.float64)
    found = torch.autograd.grad((out * pull).sum(), parameters, allow_unused=True)
    assert [name for name, gradient in zip(names, found, strict=True) if gradient is None] == []
    return [
        f"{name} {row}"
        for name, gradient in zip(names, found, strict=True)
        for row, part in enumerate(gradient)
        if not part.abs().max() > 1e-10
    ]


@pytest.mark.parametrize("variant", ["as it is", "coarse places", "encoder without time", "degree 1"])
def test_gradients_reach_every_parameter_of_the_path(variant):
    """But for what a softmax does not see: the bias of a key, and that of a logit."""
    keys = [
        f"encoder.{kind}.{i}.look.bias {row}" for kind in ("inside", "across") for i in (0, 1) for row in range(8, 16)
    ]
    logits = [f"blocks.{i}.judge.4.bias {3 * PRODUCTS + STATE_SCALARS}" for i in (0, 1)]
    assert sorted(dead_parts(model_of(variant))) == sorted(keys + logits)


def test_the_gradient_of_the_encoder_is_that_of_finite_differences():
    model, pieces = model_of(), puzzle_of([12, 9, 10])
    pyramid, encoder = model.pyramid(pieces), model.network.pairs.encoder
    features = model.network.descend(pyramid, times_of(pieces))[0].detach().requires_grad_()

    def knowledge(features: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
        pairs = encoder(pyramid.levels[0], features, pieces.centroids(), pieces.counts)
        return pairs.vectors, pairs.scalars

    weights = [encoder.match.weight, encoder.gate.weight, encoder.embedding.weight, encoder.across[0].look.weight]
    assert torch.autograd.gradcheck(knowledge, (features, *weights), fast_mode=True)


def test_the_gradient_of_conclusions_is_that_of_finite_differences():
    path, pairs, poses, time = model_of().network.pairs, pairs_at_random([3, 1]), poses_of(4), time_at_random(4)

    def conclusions(vectors: Tensor, scalars: Tensor, translation: Tensor, time: Tensor) -> PairState:
        moved = SE3(poses.rotation, translation)
        return tuple(path(replace(pairs, vectors=vectors, scalars=scalars), moved, time))

    inputs = [x.clone().requires_grad_() for x in (pairs.vectors, pairs.scalars, poses.translation, time)]
    assert torch.autograd.gradcheck(conclusions, inputs, fast_mode=True)


# -- precision ---------------------------------------------------------------------------------------------


@with_and_without_time
def test_autocast_changes_no_bit_of_the_field(variant):
    model, pieces = model_of(variant).float(), Pieces.collate(ragged()).to(dtype=torch.float32)
    poses = poses_of(10).to(torch.float32)
    expected = velocity_of(model, pieces, poses, torch.tensor(0.4))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(velocity_of(model, pieces, poses, torch.tensor(0.4)), expected)


# -- settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pair_width": 6}, "pair_width of 6 .*4 heads"),
        ({"pair_width": -4}, "pair_width .*multiple of 4"),
        ({"pair_width": 8.0}, "pair_width .*whole number"),
        ({"pair_width": 8, "pair_level": 3}, "pair_level is 3, but there are 2 levels"),
        ({"pair_width": 8, "pair_level": 0}, "pair_level"),
        ({"pair_width": 8, "pair_layers": -1}, "pair_layers"),
    ],
)
def test_settings_that_cannot_be_are_an_input_error(settings, message):
    with pytest.raises(InputError, match=message):
        replace(TINY_NETWORK, **settings)


def test_a_network_is_without_pairs_unless_it_is_asked_for_them():
    assert Eda(EdaConfig(TINY_NETWORK)).network.pairs is None
    asked = replace(TINY_NETWORK, max_degree=1, pair_width=8, pair_level=2, pair_layers=1)
    assert asked.without_pairs == replace(TINY_NETWORK, max_degree=1) == asked.without_pairs.without_pairs
    assert NetworkConfig().without_pairs == NetworkConfig()
