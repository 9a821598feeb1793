"""Eda, the network and the flow together: velocity, loss, sample, and what the package offers by name."""

import dataclasses
import subprocess
import sys

import pytest
import torch
from shapes import TINY_NETWORK, lumpy_pieces, lumpy_puzzle

import eda
from eda import SE3, Eda, EdaConfig, InputError, NetworkConfig, Pieces, Puzzle
from eda.flow import SOLVERS, sample_noise
from eda.lie import so3

TINY = EdaConfig(TINY_NETWORK)


def model_of(dtype: torch.dtype = torch.float64, **options: object) -> Eda:
    network = dataclasses.replace(TINY.network, **options)
    return Eda(dataclasses.replace(TINY, network=network)).to(dtype)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def poses_of(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> SE3:
    generator = seeded(seed)
    rotation = so3.random(*shape, generator=generator, dtype=dtype)
    return SE3(rotation, torch.randn(*shape, 3, generator=generator, dtype=dtype))


def two_puzzles() -> Pieces:
    return Pieces.collate([lumpy_pieces(3, 12), lumpy_pieces(2, 12, seed=1)])


def assert_near(a: torch.Tensor, b: torch.Tensor, bound: float = 1e-10) -> None:
    assert a.shape == b.shape
    assert (a - b).abs().max() < bound


@pytest.fixture(scope="module")
def model() -> Eda:
    return model_of()


@pytest.fixture(scope="module")
def pieces() -> Pieces:
    return lumpy_pieces(3, 12)


# -- velocity ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_velocity_is_a_twist_per_piece(dtype):
    pieces = two_puzzles().to(dtype=dtype)
    twist = model_of(dtype).velocity(pieces, poses_of(5, dtype=dtype), 0.5)
    assert twist.shape == (5, 6)
    assert twist.dtype == dtype
    assert twist.isfinite().all()
    assert (twist.norm(dim=1) > 0).all()


@pytest.mark.parametrize(
    "tau",
    [
        torch.tensor(0.25),
        torch.tensor([0.25, 0.25]),
        torch.tensor(0.25, dtype=torch.float32),
    ],
    ids=["scalar", "one per puzzle", "of another precision"],
)
def test_tau_may_be_a_number_or_a_tensor(model, tau):
    pieces, poses = two_puzzles(), poses_of(5)
    assert torch.equal(model.velocity(pieces, poses, tau), model.velocity(pieces, poses, 0.25))


@pytest.mark.parametrize("tau", [0, 1])
def test_the_ends_of_time_may_be_whole_numbers(model, pieces, tau):
    assert torch.equal(model.velocity(pieces, poses_of(3), tau), model.velocity(pieces, poses_of(3), float(tau)))


def test_every_puzzle_has_its_own_time(model):
    first, second = lumpy_pieces(3, 12), lumpy_pieces(2, 12, seed=1)
    poses, tau = poses_of(5), torch.tensor([0.1, 0.9], dtype=torch.float64)
    both = model.velocity(Pieces.collate([first, second]), poses, tau)
    assert_near(both[:3], model.velocity(first, poses[:3], 0.1))
    assert_near(both[3:], model.velocity(second, poses[3:], 0.9))
    assert (both[3:] - model.velocity(second, poses[3:], 0.1)).abs().max() > 1e-6


@pytest.mark.parametrize("time_in_encoder", [True, False])
def test_velocity_depends_on_tau(pieces, time_in_encoder):
    model, poses = model_of(time_in_encoder=time_in_encoder), poses_of(3)
    assert not torch.allclose(model.velocity(pieces, poses, 0.1), model.velocity(pieces, poses, 0.9))


def test_a_pyramid_serves_as_pieces(model, pieces):
    pyramid, poses = model.pyramid(pieces), poses_of(3)
    assert torch.equal(model.velocity(pyramid, poses, 0.5), model.velocity(pieces, poses, 0.5))


def test_velocity_has_a_gradient(pieces):
    model = model_of()
    model.velocity(pieces, poses_of(3), 0.5).square().sum().backward()
    assert model.network.head.output.weight.grad.norm() > 0


# -- what does not fit -------------------------------------------------------------------------------------

SINGLE, DOUBLE = torch.float32, torch.float64

BAD_VELOCITIES = {
    "too few poses": (DOUBLE, lambda: poses_of(2), DOUBLE, r"3 pieces .*\(2,\)"),
    "too many poses": (DOUBLE, lambda: poses_of(4), DOUBLE, r"3 pieces .*\(4,\)"),
    "a batch of poses": (DOUBLE, lambda: poses_of(1, 3), DOUBLE, r"3 pieces .*\(1, 3\)"),
    "a single pose": (DOUBLE, lambda: poses_of(3)[0], DOUBLE, r"3 pieces .*\(\)"),
    "float64 pieces, float32 model": (
        DOUBLE,
        lambda: poses_of(3),
        SINGLE,
        "pieces are torch.float64 .*float32",
    ),
    "float32 pieces, float64 model": (
        SINGLE,
        lambda: poses_of(3),
        DOUBLE,
        "pieces are torch.float32 .*float64",
    ),
    "float64 poses": (SINGLE, lambda: poses_of(3), SINGLE, "poses are torch.float64 .*float32"),
    "float32 poses": (DOUBLE, lambda: poses_of(3, dtype=SINGLE), DOUBLE, "poses are torch.float32 .*float64"),
}


@pytest.mark.parametrize("name", BAD_VELOCITIES)
def test_poses_and_pieces_that_do_not_fit_are_an_input_error(pieces, name):
    pieces_dtype, poses, model_dtype, message = BAD_VELOCITIES[name]
    with pytest.raises(InputError, match=message):
        model_of(model_dtype).velocity(pieces.to(dtype=pieces_dtype), poses(), 0.5)


@pytest.mark.parametrize(
    "tau",
    [torch.zeros(2), torch.zeros(1, 1), torch.zeros(0), float("nan"), torch.tensor([torch.inf])],
    ids=["two", "matrix", "none", "NaN", "infinite"],
)
def test_a_bad_tau_is_an_input_error(model, pieces, tau):
    with pytest.raises(InputError, match="tau"):
        model.velocity(pieces, poses_of(3), tau)


@pytest.mark.parametrize("part", ["rotation", "translation"])
@pytest.mark.parametrize("where", ["velocity", "noise"])
def test_poses_with_nan_are_an_input_error(model, pieces, where, part):
    poses = poses_of(3)
    getattr(poses, part)[1, 2] = torch.nan
    with pytest.raises(InputError, match="NaN"):
        model.velocity(pieces, poses, 0.5) if where == "velocity" else model.sample(pieces, noise=poses[None])


BAD_SAMPLES = {
    "no samples": (dict(samples=0), "samples .*0"),
    "negative samples": (dict(samples=-2), "samples .*-2"),
    "unknown solver": (dict(solver="rk5"), "rk5.*choose one of rk1, rk4"),
    "no steps": (dict(steps=0), "steps .*0"),
    "no tolerance": (dict(solver="adaptive", tolerance=0.0), "tolerance"),
    "a tolerance of NaN": (dict(solver="adaptive", tolerance=float("nan")), "tolerance"),
    "noise for too few samples": (dict(samples=2, noise=poses_of(1, 3)), r"\(2, 3\), got \(1, 3\)"),
    "noise for too many samples": (dict(noise=poses_of(2, 3)), r"\(1, 3\), got \(2, 3\)"),
    "noise for too few pieces": (dict(noise=poses_of(1, 2)), r"\(1, 3\), got \(1, 2\)"),
    "noise without samples": (dict(noise=poses_of(3)), r"\(1, 3\), got \(3,\)"),
    "pin of no piece": (dict(pins={3: SE3.identity()}), "no piece 3 .*0 to 2"),
    "pin of piece -1": (dict(pins={-1: SE3.identity()}), "no piece -1"),
    "pin of many poses": (dict(pins={0: poses_of(2)}), "piece 0 .*single pose"),
    "pin with NaN": (dict(pins={1: SE3(torch.eye(3), torch.full((3,), torch.nan))}), "piece 1 .*NaN"),
    "pin that mirrors": (dict(pins={1: SE3(-torch.eye(3), torch.zeros(3))}), "piece 1 .*mirrors"),
    "pin that scales": (dict(pins={1: SE3(2 * torch.eye(3), torch.zeros(3))}), "piece 1 .*scales"),
    "noise for pieces that pins merge": (
        dict(noise=poses_of(1, 3), pins={0: SE3.identity(), 1: SE3.identity()}),
        r"\(1, 2\), got \(1, 3\)",
    ),
}


@pytest.mark.parametrize("name", BAD_SAMPLES)
def test_bad_options_of_sampling_are_an_input_error(model, pieces, name):
    options, message = BAD_SAMPLES[name]
    with pytest.raises(InputError, match=message):
        model.sample(pieces, **options)


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_sampling_pieces_of_another_precision_is_an_input_error(pieces, dtype):
    other = DOUBLE if dtype is SINGLE else SINGLE
    with pytest.raises(InputError, match=f"{dtype} .* but the model is {other}"):
        model_of(other).sample(pieces.to(dtype=dtype))


def test_the_error_speaks_of_the_pieces(model, pieces):
    with pytest.raises(InputError, match=r"pieces are torch\.float32"):
        model.sample(pieces.to(dtype=SINGLE))


def test_noise_of_another_precision_is_an_input_error(model, pieces):
    with pytest.raises(InputError, match=r"torch.float32 .*torch.float64"):
        model.sample(pieces, noise=poses_of(1, 3, dtype=SINGLE), steps=1)


def test_a_network_of_normals_asks_for_normals(model):
    with pytest.raises(InputError, match="normals"):
        model.sample(lumpy_pieces(2, 12, normals=False), steps=1)


def test_a_loss_of_another_precision_is_an_input_error(model):
    with pytest.raises(InputError, match="float32"):
        model.loss(lumpy_puzzle(2, 12, dtype=SINGLE))


BAD_LOSSES = {
    "fewer draws than none": lambda model, pieces: model.loss(Puzzle(pieces, poses_of(3)), draws=-1),
    "a solution of another precision": lambda model, pieces: model.loss(Puzzle(pieces, poses_of(3, dtype=SINGLE))),
    "a solution of other pieces": lambda model, pieces: model.loss(Puzzle(pieces, poses_of(2))),
    "a pyramid of another network": lambda model, pieces: model.velocity(
        model_of(num_levels=1).pyramid(pieces), poses_of(3), 0.5
    ),
}


@pytest.mark.parametrize("name", BAD_LOSSES)
def test_other_things_that_do_not_fit_are_an_input_error(model, pieces, name):
    with pytest.raises(InputError):
        BAD_LOSSES[name](model, pieces)


# -- sample and trajectory ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
@pytest.mark.parametrize("solver", SOLVERS)
def test_samples_are_rigid_motions(solver, dtype):
    pieces = two_puzzles().to(dtype=dtype)
    poses = model_of(dtype).sample(pieces, 2, solver=solver, steps=2, tolerance=0.1, generator=seeded())
    assert poses.shape == (2, 5)
    assert poses.rotation.dtype == poses.translation.dtype == dtype
    assert poses.isfinite()
    bound = 1e-5 if dtype == SINGLE else 1e-13
    assert_near(poses.rotation @ poses.rotation.mT, torch.eye(3, dtype=dtype).expand(2, 5, 3, 3), bound)
    assert_near(torch.linalg.det(poses.rotation), torch.ones(2, 5, dtype=dtype), bound)
    assert not poses.rotation.requires_grad
    assert not torch.allclose(poses.translation[0], poses.translation[1])


def test_sampling_takes_rounding_out_of_rotations(model, pieces):
    noise = SE3(poses_of(1, 3).rotation * (1 + 1e-5), torch.zeros(1, 3, 3).double())
    rotation = model.sample(pieces, noise=noise, steps=3, solver="rk1").rotation
    assert_near(rotation @ rotation.mT, torch.eye(3).double().expand(1, 3, 3, 3), 1e-12)


@pytest.mark.parametrize("solver", ["rk1", "rk4", "rkmk4"])
def test_a_trajectory_begins_at_the_noise(model, solver):
    pieces, noise = two_puzzles(), poses_of(2, 5)
    walked = model.trajectory(pieces, 2, noise=noise, solver=solver, steps=3)
    assert walked.poses.shape == (4, 2, 5)
    assert torch.equal(walked.poses[0].matrix(), noise.matrix())
    assert torch.equal(walked.final.matrix(), walked.poses[-1].matrix())
    assert walked.taus.shape == (4, 4)  # two samples of two puzzles
    assert_near(walked.taus, torch.linspace(0, 1, 4).double()[:, None].expand(4, 4), 1e-6)
    for before, after in zip(walked.poses.translation[:-1], walked.poses.translation[1:], strict=True):
        assert (before - after).abs().max() > 0


def test_an_adaptive_trajectory_ends_at_one(model, pieces):
    walked = model.trajectory(pieces, 2, noise=poses_of(2, 3), solver="adaptive", tolerance=0.1)
    assert walked.poses.shape == (len(walked.taus), 2, 3)
    assert walked.taus[0].eq(0).all()
    assert walked.taus[-1].eq(1).all()
    assert (walked.taus.diff(dim=0) >= 0).all()


def test_a_sample_is_the_end_of_a_trajectory(model, pieces):
    sample = model.sample(pieces, 2, steps=2, generator=seeded(5))
    walked = model.trajectory(pieces, 2, steps=2, generator=seeded(5))
    assert torch.equal(sample.matrix(), walked.final.matrix())
    assert torch.equal(walked.poses[0].matrix(), sample_noise(pieces, 0.4, samples=2, generator=seeded(5)).matrix())


def test_the_generator_decides_the_sample(model, pieces):
    a, b, c = (model.sample(pieces, steps=1, generator=seeded(s)).matrix() for s in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.allclose(a, c)


def test_samples_and_puzzles_do_not_see_each_other(model):
    first, second, noise = lumpy_pieces(3, 12), lumpy_pieces(2, 12, seed=1), poses_of(2, 5)
    together = model.sample(Pieces.collate([first, second]), 2, noise=noise, steps=2).matrix()
    for k in range(2):
        assert_near(together[k, :3], model.sample(first, noise=noise[k : k + 1, :3], steps=2)[0].matrix())
        assert_near(together[k, 3:], model.sample(second, noise=noise[k : k + 1, 3:], steps=2)[0].matrix())


def test_a_callback_sees_every_step(model, pieces):
    seen = []
    walked = model.trajectory(pieces, 2, noise=poses_of(2, 3), steps=3, solver="rk1", callback=seen.append)
    assert [progress.step for progress in seen] == [1, 2, 3]
    for progress, tau, poses in zip(seen, walked.taus[1:], walked.poses[1:].matrix(), strict=True):
        assert torch.equal(progress.tau, tau)
        assert torch.equal(progress.poses.matrix(), poses.flatten(0, 1))


def test_a_callback_may_stop_the_walk(model, pieces):
    noise = poses_of(2, 3)
    whole = model.trajectory(pieces, 2, noise=noise, steps=5, solver="rk1")
    stopped = model.trajectory(
        pieces, 2, noise=noise, steps=5, solver="rk1", callback=lambda progress: progress.step == 2
    )
    assert stopped.poses.shape == (3, 2, 3)
    assert torch.equal(stopped.poses.matrix(), whole.poses[:3].matrix())
    assert_near(stopped.taus[-1], torch.full((2,), 0.4, dtype=torch.float64), 1e-6)


@pytest.mark.parametrize(
    ("time_in_encoder", "solver", "encoded"), [(True, "rk1", 2), (True, "rk4", 5), (False, "rk4", 1)]
)
def test_samples_share_the_encoder(pieces, monkeypatch, time_in_encoder, solver, encoded):
    """Two steps of rk4 meet the times 0, 1/4, 1/2, 3/4 and 1."""
    model, calls = model_of(time_in_encoder=time_in_encoder), []
    encode = model.network.encode
    monkeypatch.setattr(model.network, "encode", lambda *arguments: calls.append(1) or encode(*arguments))
    model.sample(pieces, 3, solver=solver, steps=2)
    assert len(calls) == encoded


def test_samples_share_the_first_self_attention(pieces, monkeypatch):
    """It sees tau but single pieces only: once per distinct time, on one copy of the tokens."""
    model, seen = model_of(time_in_encoder=False), []
    attune = model.network.attune
    monkeypatch.setattr(
        model.network, "attune", lambda tokens, tau: seen.append(len(tokens.points)) or attune(tokens, tau)
    )
    model.sample(pieces, 3, solver="rk4", steps=2)
    assert seen == [len(model.pyramid(pieces).coarse.points)] * 5


# -- pins --------------------------------------------------------------------------------------------------


def test_one_pin_only_moves_the_assembly(model, pieces):
    noise, pin = poses_of(2, 3), SE3(torch.eye(3).double(), torch.tensor([1.0, -2.0, 3.0]).double())
    free = model.sample(pieces, 2, noise=noise, steps=2)
    pinned = model.sample(pieces, 2, noise=noise, steps=2, pins={1: pin})
    assert pinned.shape == (2, 3)
    for k in range(2):
        assert torch.equal(pinned[k, 1].matrix(), pin.matrix())
        whole = pin @ free[k, 1].inverse()
        assert_near(pinned[k].matrix(), torch.stack([(whole @ free[k, i]).matrix() for i in range(3)]))


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_several_pins_are_kept_exactly(model, pieces, dtype):
    pins = {2: poses_of(seed=1, dtype=dtype), 0: poses_of(seed=2, dtype=dtype)}
    walked = model.trajectory(pieces, 3, steps=2, pins=pins, generator=seeded())
    assert walked.poses.shape == (3, 3, 3)
    assert walked.poses.isfinite()
    for index, pin in pins.items():
        assert_near(walked.final[:, index].matrix(), pin.to(DOUBLE).matrix().expand(3, 4, 4), 1e-14)
    assert (walked.final.translation[0, 1] - walked.final.translation[1, 1]).norm() > 1e-3


def test_pins_that_leave_nothing_free(model, pieces):
    pins = {i: poses_of(seed=i) for i in range(3)}
    poses = model.sample(pieces, steps=1, pins=pins)
    assert_near(poses[0].matrix(), torch.stack([pins[i].matrix() for i in range(3)]), 1e-14)


def test_no_pins_are_no_pins(model, pieces):
    noise = poses_of(1, 3)
    plain, empty = (model.sample(pieces, noise=noise, steps=1, pins=pins).matrix() for pins in (None, {}))
    assert torch.equal(plain, empty)


def test_pins_of_one_puzzle_leave_the_other_alone(model):
    pieces, noise = two_puzzles(), poses_of(1, 5)
    free = model.sample(pieces, noise=noise, steps=1)
    pinned = model.sample(pieces, noise=noise, steps=1, pins={4: SE3.identity()})
    assert_near(pinned[0, :3].matrix(), free[0, :3].matrix())
    assert_near(pinned[0, 4].matrix(), torch.eye(4).double())


# -- loss --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("time_in_encoder", [True, False])
@pytest.mark.parametrize("draws", [1, 3])
def test_the_loss_has_finite_gradients(time_in_encoder, draws):
    model = model_of(time_in_encoder=time_in_encoder)
    puzzle = Puzzle.collate([lumpy_puzzle(3, 12), lumpy_puzzle(2, 12, seed=1)])
    loss = model.loss(puzzle, draws=draws, generator=seeded())
    assert loss.total.shape == loss.rotation.shape == loss.translation.shape == ()
    assert loss.total > 0
    assert_near(loss.total, 2 * loss.rotation + loss.translation)
    loss.total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    assert sum(bool(p.grad.norm() > 0) for p in model.parameters()) > 0.9 * len(list(model.parameters()))


def test_a_step_down_the_gradient_lowers_the_loss():
    model, puzzle = model_of(), lumpy_puzzle(3, 12)
    before = model.loss(puzzle, draws=2, generator=seeded()).total
    before.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 1e-3 * parameter.grad
    assert model.loss(puzzle, draws=2, generator=seeded()).total < before


def test_the_loss_of_a_field_of_zero_is_the_size_of_the_target():
    model, puzzle = model_of(), lumpy_puzzle(3, 12)
    torch.nn.init.zeros_(model.network.head.output.weight)
    loss = model.loss(puzzle, draws=20, generator=seeded())
    # The angle of a Haar rotation: E[theta^2] = pi^2 / 3 + 2; the correction of the whole makes it smaller.
    assert 0.5 < loss.rotation < torch.pi**2 / 3 + 2
    assert loss.translation > 0


@pytest.mark.parametrize("weight", [0.5, 2.0])
def test_the_translation_weight_counts(weight):
    model = Eda(dataclasses.replace(TINY, translation_weight=weight)).double()
    loss = model.loss(lumpy_puzzle(2, 12), generator=seeded())
    assert loss.translation > 0
    assert_near(loss.total, 2 * loss.rotation + weight * loss.translation)


def test_the_generator_decides_the_loss(model):
    puzzle = lumpy_puzzle(2, 12)
    a, b, c = (model.loss(puzzle, generator=seeded(s)).total for s in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


@pytest.mark.parametrize("sampler", ["uniform", "logit_normal"])
def test_the_tau_sampler_is_used(pieces, sampler, monkeypatch):
    calls = []
    monkeypatch.setitem(eda.model.TAU_SAMPLERS, sampler, lambda n, _: calls.append(n) or torch.full((n,), 0.5))
    model = Eda(dataclasses.replace(TINY, tau_sampler=sampler)).double()
    model.loss(Puzzle(pieces, poses_of(3)), draws=4)
    assert calls == [4]


def test_the_loss_takes_a_pyramid(model):
    puzzle = lumpy_puzzle(2, 12)
    plain = model.loss(puzzle, generator=seeded()).total
    assert torch.equal(model.loss(puzzle, pyramid=model.pyramid(puzzle.pieces), generator=seeded()).total, plain)


@pytest.mark.parametrize(("time_in_encoder", "encoded"), [(True, 3), (False, 1)])
def test_draws_share_an_encoder_without_time(pieces, monkeypatch, time_in_encoder, encoded):
    model, calls = model_of(time_in_encoder=time_in_encoder), []
    encode = model.network.encode
    monkeypatch.setattr(model.network, "encode", lambda *arguments: calls.append(1) or encode(*arguments))
    model.loss(Puzzle(pieces, poses_of(3)), draws=3)
    assert len(calls) == encoded


# -- randomness --------------------------------------------------------------------------------------------


def test_the_seed_decides_the_weights():
    one, same, other = (Eda(TINY, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_the_weights_do_not_depend_on_the_global_seed():
    torch.manual_seed(1)
    one = Eda(TINY).state_dict()
    torch.manual_seed(2)
    two = Eda(TINY).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("action", ["make", "sample", "loss"])
def test_the_global_random_state_is_left_alone(model, pieces, action):
    before = torch.get_rng_state()
    if action == "make":
        Eda(TINY, seed=9)
    elif action == "sample":
        model.sample(pieces, steps=1, generator=seeded())
    else:
        model.loss(Puzzle(pieces, poses_of(3)), generator=seeded())
    assert torch.equal(torch.get_rng_state(), before)


# -- configs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise_std", [0.0, -1.0, float("nan")])
def test_a_noise_without_spread_is_an_input_error(noise_std):
    with pytest.raises(InputError, match="noise_std"):
        EdaConfig(noise_std=noise_std)


@pytest.mark.parametrize("weight", [0, 0.0, -1.0, float("nan"), float("inf"), True, "1"])
def test_a_translation_weight_that_is_not_positive_is_an_input_error(weight):
    with pytest.raises(InputError, match="translation_weight must be a positive number"):
        EdaConfig(translation_weight=weight)


def test_an_unknown_tau_sampler_is_an_input_error():
    with pytest.raises(InputError, match=r"tau_sampler must be one of logit_normal, uniform, got 'cosine'"):
        EdaConfig(tau_sampler="cosine")


def test_a_model_without_a_config_is_the_papers(monkeypatch):
    monkeypatch.setattr("eda.model.EdaNetwork", lambda config: torch.nn.Identity())
    assert Eda().config == EdaConfig()
    assert EdaConfig().network == NetworkConfig()


# -- the package -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", eda.__all__)
def test_public_names_resolve(name):
    assert getattr(eda, name).__name__ == name


def test_public_names_are_those_that_are_known():
    assert set(eda.__all__) == set(eda._HOME)
    assert {"Eda", "Pieces", "SE3", "load", "InputError"} <= set(eda.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        eda.nonsense  # noqa: B018
    with pytest.raises(ImportError, match="nonsense"):
        from eda import nonsense  # noqa: F401
    assert not hasattr(eda, "nonsense")


@pytest.mark.parametrize("module", ["eda", "eda.errors", "eda.cli"])
def test_importing_does_not_load_torch(module):
    code = f"import sys, {module}; print(sorted({{'torch', 'numpy', 'scipy'}} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "[]"


def test_public_names_are_listed():
    code = "import eda; print(sorted(set(eda.__all__) - set(dir(eda))))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "[]"
