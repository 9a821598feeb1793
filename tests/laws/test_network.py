"""f is rotation- and permutation-equivariant, blind to translations, and v_X(g) = f(gX) g (Sec. 4.2, 5)."""

import dataclasses

import pytest
import torch
from support.closeness import assert_near
from support.lumpy_shapes import lumpy_cloud, lumpy_pieces, two_puzzles
from support.oracles import haar_rotations, stirred, twist_matrix
from support.rigid_motions import random_se3
from torch import Tensor

from eda import SE3, Eda, EdaConfig, InputError, NetworkConfig, Pieces
from eda.graph import Pyramid
from eda.lie.wigner import harmonics
from eda.nn.chunks import CHUNK

DEGREES = [1, 2, 3, 4]
SMALL = {
    "num_levels": 2, "num_blocks": 2, "num_neighbors": 4, "cross_neighbors": 3, "channels": 4, "num_heads": 2,
    "num_knots": 5, "spacing": 0.2,
}  # fmt: skip
VARIANTS = {
    **{f"degree {L}": {"max_degree": L} for L in DEGREES},
    "unoriented normals": {"normals": "unoriented"},
    "unoriented normals, degree 3": {"normals": "unoriented", "max_degree": 3},
    "no normals": {"normals": "absent"},
    "encoder without time": {"time_in_encoder": False},
    "all pairs across": {"cross_neighbors": None},
    "one block, one level": {"num_blocks": 1, "num_levels": 1},
}
in_all_variants = pytest.mark.parametrize("variant", VARIANTS)


def model_of(variant: str = "degree 2", **options: object) -> Eda:
    return stirred(Eda(EdaConfig(NetworkConfig(**{**SMALL, **VARIANTS[variant], **options}))))


def real(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def times_of(pieces: Pieces) -> Tensor:
    return torch.linspace(0.3, 0.8, pieces.num_puzzles).double()


def evaluated(model: Eda, pieces: Pieces, poses: SE3, tau: Tensor | None = None) -> Tensor:
    """(w, u) of every piece. -> (N, 6)."""
    with torch.no_grad():
        return model.network(model.pyramid(pieces), poses, times_of(pieces) if tau is None else tau)


def directly(model: Eda, pieces: Pieces) -> Tensor:
    """f(X): the pieces as they lie."""
    return evaluated(model, pieces, SE3.identity(pieces.num_pieces, dtype=torch.float64))


def whole(rotation: Tensor, translation: Tensor, count: int) -> SE3:
    """One motion for all pieces."""
    return SE3(rotation.expand(count, 3, 3), translation.expand(count, 3))


def turned_twists(velocity: Tensor, rotation: Tensor) -> Tensor:
    return torch.cat([velocity[:, :3] @ rotation.T, velocity[:, 3:] @ rotation.T], dim=1)


def assert_near_in_nonzero_rows(a: Tensor, b: Tensor, tolerance: float = 1e-10) -> None:
    assert b.abs().amax(1).min() > 1e-3  # zero would satisfy every law
    assert_near(a, b, tolerance)


ZERO = real(0, 0, 0)
EYE = torch.eye(3, dtype=torch.float64)


# -- Prop. "sigma and L_r related": the symmetries of f -----------------------------------------------------


@in_all_variants
def test_f_turns_with_the_whole(variant):
    model, pieces, R = model_of(variant), two_puzzles(), haar_rotations(1, 9)[0]
    placed = pieces.move(random_se3(5, spread=0.7))
    expected = turned_twists(directly(model, placed), R)
    assert_near_in_nonzero_rows(directly(model, placed.move(whole(R, ZERO, 5))), expected)


@in_all_variants
def test_f_does_not_see_translations_of_the_whole(variant):
    model, pieces = model_of(variant), two_puzzles()
    placed = pieces.move(random_se3(5, spread=0.7))
    far = placed.move(whole(EYE, real(3.0, -7.0, 2.0), 5))
    assert_near_in_nonzero_rows(directly(model, far), directly(model, placed))


@in_all_variants
def test_f_follows_the_order_of_pieces(variant):
    model, placed = model_of(variant), two_puzzles().move(random_se3(5, spread=0.7))
    order = torch.tensor([2, 0, 1, 4, 3])
    assert_near_in_nonzero_rows(directly(model, placed.permute(order)), directly(model, placed)[order])


@in_all_variants
def test_f_does_not_see_the_order_of_points(variant):
    model, placed = model_of(variant), two_puzzles().move(random_se3(5, spread=0.7))
    generator = torch.Generator().manual_seed(0)
    rows = torch.arange(len(placed.points)).split(placed.sizes.tolist())
    order = torch.cat([row[torch.randperm(len(row), generator=generator)] for row in rows])
    shuffled = dataclasses.replace(placed, points=placed.points[order], normals=placed.normals[order])
    assert_near_in_nonzero_rows(directly(model, shuffled), directly(model, placed))


def test_f_sees_where_pieces_are_relative_to_each_other():
    """No symmetry too many: moving one piece changes every piece of its puzzle and no other."""
    model, pieces, poses = model_of(), two_puzzles(), random_se3(5, spread=0.7)
    first = torch.eye(5, 1, dtype=torch.float64)
    moved = SE3(poses.rotation, poses.translation + 0.2 * first)
    turned = SE3(torch.cat([haar_rotations(1, 5), poses.rotation[1:]]), poses.translation)
    before = evaluated(model, pieces, poses)
    for other in (moved, turned):
        change = (evaluated(model, pieces, other) - before).abs().amax(1)
        assert (change[:3] > 1e-4).all()
        assert (change[3:] < 1e-12).all()


@pytest.mark.parametrize("time_in_encoder", [True, False])
def test_f_sees_the_time_of_its_own_puzzle(time_in_encoder):
    model, pieces, poses = model_of(time_in_encoder=time_in_encoder), two_puzzles(), random_se3(5, spread=0.7)
    before = evaluated(model, pieces, poses, real(0.2, 0.5))
    change = (evaluated(model, pieces, poses, real(0.9, 0.5)) - before).abs().amax(1)
    assert (change[:3] > 1e-4).all()
    assert (change[3:] < 1e-12).all()


@pytest.mark.parametrize("law", ["rotation", "permutation", "encode once"])
def test_the_default_network_obeys_the_laws(law):
    """The paper's configuration, at its initial weights, on small clouds."""
    model, pieces, poses = Eda().double(), lumpy_pieces(3, 40), random_se3(3, spread=0.7)
    placed, R, order = pieces.move(poses), haar_rotations(1, 9)[0], torch.tensor([2, 0, 1])
    expected = directly(model, placed)
    if law == "rotation":
        turn = whole(R, ZERO, 3)
        assert_near_in_nonzero_rows(directly(model, placed.move(turn)), turned_twists(expected, R))
    elif law == "permutation":
        assert_near_in_nonzero_rows(directly(model, placed.permute(order)), expected[order])
    else:
        assert_near_in_nonzero_rows(evaluated(model, pieces, poses), expected)


# -- the encoder runs once ---------------------------------------------------------------------------------


@in_all_variants
def test_encoding_once_equals_the_direct_evaluation(variant):
    model, pieces, poses = model_of(variant), two_puzzles(), random_se3(5, spread=0.7)
    assert_near_in_nonzero_rows(evaluated(model, pieces, poses), directly(model, pieces.move(poses)))


def test_an_encoder_without_time_needs_none_and_one_with_time_says_so():
    pieces = two_puzzles()
    model = model_of(time_in_encoder=False)
    with_none = model.network.encode(model.pyramid(pieces), None)
    with_some = model.network.encode(model.pyramid(pieces), times_of(pieces))
    assert torch.equal(with_none.features, with_some.features)
    model = model_of()
    with pytest.raises(InputError, match="tau"):
        model.network.encode(model.pyramid(pieces), None)


# -- Prop. "SE(3)^N construction": v_X(g) = v_gX(e) g --------------------------------------------------------


def velocity_matrices(model: Eda, pieces: Pieces, poses: SE3) -> Tensor:
    """v_X(g) = f(gX) g as 4 x 4 matrices."""
    with torch.no_grad():
        return twist_matrix(model.velocity(pieces, poses, 0.4)) @ poses.matrix()


@in_all_variants
def test_the_field_at_g_is_the_field_of_the_moved_pieces_at_the_identity(variant):
    model, pieces, poses = model_of(variant), two_puzzles(), random_se3(5, spread=0.7)
    at_identity = velocity_matrices(model, pieces.move(poses), SE3.identity(5, dtype=torch.float64))
    assert_near_in_nonzero_rows(
        velocity_matrices(model, pieces, poses).flatten(1), (at_identity @ poses.matrix()).flatten(1)
    )


@in_all_variants
def test_fields_of_moved_pieces_are_related_by_the_right_translation(variant):
    """v_hX(g h^-1) = v_X(g) h^-1 for all h in SE(3)^N."""
    model, pieces, g, h = model_of(variant), two_puzzles(), random_se3(5, spread=0.7), random_se3(5, seed=1, spread=0.7)
    expected = velocity_matrices(model, pieces, g) @ h.inverse().matrix()
    assert_near_in_nonzero_rows(
        velocity_matrices(model, pieces.move(h), g @ h.inverse()).flatten(1), expected.flatten(1)
    )


@in_all_variants
def test_the_field_is_invariant_under_motions_of_the_whole(variant):
    """v_X(r g) = r v_X(g), translations included: a spatial twist depends on the origin as it should."""
    model, pieces, g = model_of(variant), two_puzzles(), random_se3(5, spread=0.7)
    r = whole(haar_rotations(1, 4)[0], real(0.5, -2.0, 1.0), 5)
    expected = r.matrix() @ velocity_matrices(model, pieces, g)
    assert_near_in_nonzero_rows(velocity_matrices(model, pieces, r @ g).flatten(1), expected.flatten(1))


def test_the_spatial_twist_moves_the_centre_with_the_predicted_velocity():
    model, pieces, poses = model_of(), lumpy_pieces(3, 24), random_se3(3, spread=0.7)
    w, u = evaluated(model, pieces, poses, real(0.4)).split(3, dim=1)
    with torch.no_grad():
        matrix = twist_matrix(model.velocity(pieces, poses, 0.4))
    centre = torch.cat([poses.translation, torch.ones(3, 1).double()], dim=1)
    assert_near_in_nonzero_rows((matrix @ centre[..., None])[:, :3, 0], u)
    assert_near_in_nonzero_rows(torch.stack([matrix[:, 2, 1], matrix[:, 0, 2], matrix[:, 1, 0]], dim=1), w)


# -- batches -----------------------------------------------------------------------------------------------


def mixed_puzzles() -> list[Pieces]:
    """2 to 6 pieces of 4 to 500 points."""
    sizes = [[4, 4], [500, 7], [60, 4, 150, 33, 90, 12], [30, 30, 30]]
    batch = []
    for seed, numbers in enumerate(sizes):
        clouds, normals = zip(*[lumpy_cloud(50 * seed + i, n) for i, n in enumerate(numbers)], strict=True)
        batch.append(Pieces.from_clouds(clouds, normals, dtype=torch.float64))
    return batch


@pytest.mark.parametrize("variant", ["degree 2", "all pairs across", "encoder without time"])
def test_a_puzzle_does_not_see_its_batch_companions(variant):
    model, batch = model_of(variant), mixed_puzzles()
    poses = [random_se3(p.num_pieces, seed, spread=0.7) for seed, p in enumerate(batch)]
    tau = real(0.1, 0.9, 0.5, 0.3)
    together = evaluated(model, Pieces.collate(batch), SE3.cat(poses), tau)
    alone = [evaluated(model, p, g, t[None]) for p, g, t in zip(batch, poses, tau, strict=True)]
    assert_near_in_nonzero_rows(together, torch.cat(alone))


# -- normals -----------------------------------------------------------------------------------------------


def flipped(pieces: Pieces) -> Pieces:
    generator = torch.Generator().manual_seed(0)
    sign = torch.randint(0, 2, (len(pieces.points), 1), generator=generator).double() * 2 - 1
    return dataclasses.replace(pieces, normals=pieces.normals * sign)


@pytest.mark.parametrize("max_degree", [2, 3, 4])
def test_unoriented_normals_may_be_flipped(max_degree):
    model, pieces, poses = (
        model_of(normals="unoriented", max_degree=max_degree),
        two_puzzles(),
        random_se3(5, spread=0.7),
    )
    assert_near_in_nonzero_rows(evaluated(model, flipped(pieces), poses), evaluated(model, pieces, poses), 1e-12)


@pytest.mark.parametrize("max_degree", DEGREES)
def test_oriented_normals_may_not_be_flipped(max_degree):
    model, pieces, poses = model_of(max_degree=max_degree), two_puzzles(), random_se3(5, spread=0.7)
    change = evaluated(model, flipped(pieces), poses) - evaluated(model, pieces, poses)
    assert change.abs().amax(1).min() > 1e-3


@pytest.mark.parametrize(("normals", "sees"), [("oriented", True), ("unoriented", True), ("absent", False)])
def test_normals_are_seen_unless_the_network_is_made_without(normals, sees):
    model, pieces, poses = model_of(normals=normals), two_puzzles(), random_se3(5, spread=0.7)
    other = dataclasses.replace(pieces, normals=pieces.normals @ haar_rotations(1, 1)[0].T)
    change = (evaluated(model, other, poses) - evaluated(model, pieces, poses)).abs().max()
    assert (change > 1e-3) if sees else (change == 0)


@pytest.mark.parametrize("normals", ["oriented", "unoriented"])
def test_missing_normals_are_an_input_error(normals):
    model, pieces = model_of(normals=normals), two_puzzles(normals=False)
    with pytest.raises(InputError, match="normals"):
        evaluated(model, pieces, random_se3(5, spread=0.7))


def test_a_network_without_normals_takes_pieces_with_and_without():
    model, poses = model_of("no normals"), random_se3(5, spread=0.7)
    with_normals, without = (evaluated(model, two_puzzles(normals=normals), poses) for normals in (True, False))
    assert_near_in_nonzero_rows(with_normals, without, 1e-14)


# -- gradients ---------------------------------------------------------------------------------------------


def gradients(model: Eda) -> dict[str, Tensor]:
    """Of a sum over several puzzles, poses and times, so that nothing is zero by chance."""
    pieces = Pieces.collate([lumpy_pieces(3, 60, seed=s) for s in range(3)])
    out = model.network(model.pyramid(pieces), random_se3(9, spread=0.7), real(0.1, 0.5, 0.9))
    names, parameters = zip(*model.network.named_parameters(), strict=True)
    found = torch.autograd.grad(
        (out * random_se3(9, seed=3, spread=0.7).translation.repeat(1, 2)).sum(), parameters, allow_unused=True
    )
    return dict(zip(names, found, strict=True))


@in_all_variants
def test_gradients_are_finite(variant):
    for name, gradient in gradients(model_of(variant)).items():
        assert gradient is not None, name
        assert gradient.isfinite().all(), name


def dead_parts(model: Eda) -> list[str]:
    """Parameters, or their slices per degree, that no gradient reaches. (A knot may have no edge near it.)"""
    dead = []
    for name, gradient in gradients(model).items():
        slices = gradient.unbind(1 if name.endswith("radial") else 0)
        dead += [f"{name} {i}" for i, part in enumerate(slices) if not part.abs().max() > 1e-10]
    return dead


@pytest.mark.parametrize("variant", ["degree 1", "degree 2", "degree 3", "encoder without time", "all pairs across"])
def test_gradients_reach_every_parameter_before_the_head(variant):
    assert [name for name in dead_parts(model_of(variant)) if not name.startswith("head.")] == []


@pytest.mark.parametrize("max_degree", [1, 2])
def test_gradients_reach_every_parameter_of_the_head(max_degree):
    assert [name for name in dead_parts(model_of(max_degree=max_degree)) if name.startswith("head.")] == []


# -- precision ---------------------------------------------------------------------------------------------


def test_float32_is_near_float64():
    model, pieces, poses = model_of(), two_puzzles(), random_se3(5, spread=0.7)
    exact = evaluated(model, pieces, poses)
    rough = model.float().network(
        Pyramid.build(pieces, num_levels=2, num_neighbors=4).to(dtype=torch.float32),
        poses.to(torch.float32),
        times_of(pieces).float(),
    )
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough.double(), exact, rtol=0, atol=1e-4)


def test_large_inputs_may_be_handled_in_chunks():
    """Without gradients, layers run on some rows at a time: 2 x 4500 points have 2250 at the first level."""
    model, pieces = model_of(), lumpy_pieces(2, 4500)
    assert len(model.pyramid(pieces).levels[0].points) > CHUNK
    poses = random_se3(2, spread=0.7)
    with torch.no_grad():
        chunked = model.velocity(pieces, poses, 0.3)
    torch.testing.assert_close(chunked, model.velocity(pieces, poses, 0.3), rtol=0, atol=1e-12)


def test_autocast_changes_no_bit_of_the_field():
    model, pieces, poses = (
        model_of().float(),
        two_puzzles().to(dtype=torch.float32),
        random_se3(5, spread=0.7).to(torch.float32),
    )
    expected = model.velocity(pieces, poses, 0.3)
    with torch.autocast("cpu", torch.bfloat16):
        found = model.velocity(pieces, poses, 0.3)
        sampled = model.sample(pieces, steps=2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(found, expected)
    assert sampled.rotation.dtype == torch.float32


def test_the_gradient_of_the_input_embedding_is_that_of_its_formula():
    """sum_p <Y^l(n_p), G_p^l> for the one weight that all rows of a degree share."""
    model = model_of()
    pyramid = model.pyramid(two_puzzles())
    embedding = model.network.embedding
    features = embedding(pyramid)
    pull = torch.randn(features.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    (found,) = torch.autograd.grad((features * pull).sum(), [embedding.weight])
    spheres = harmonics(pyramid.pieces.normals, 2)
    for l in range(3):
        rows = slice(l**2, (l + 1) ** 2)
        torch.testing.assert_close(found[l], torch.einsum("pm,pmc->c", spheres[:, rows], pull[:, rows]))
