"""What does not fit a model is an input error that says what: poses, times, options, precisions and settings."""

import pytest
import torch
from support.lumpy_shapes import lumpy_pieces, lumpy_puzzle
from support.rigid_motions import random_se3_batch
from support.tiny_models import DOUBLE, SINGLE, model_of

from eda import SE3, EdaConfig, InputError, Puzzle

# -- velocities --------------------------------------------------------------------------------------------

BAD_VELOCITIES = {
    "too few poses": (DOUBLE, lambda: random_se3_batch(2), DOUBLE, r"3 pieces .*\(2,\)"),
    "too many poses": (DOUBLE, lambda: random_se3_batch(4), DOUBLE, r"3 pieces .*\(4,\)"),
    "a batch of poses": (DOUBLE, lambda: random_se3_batch(1, 3), DOUBLE, r"3 pieces .*\(1, 3\)"),
    "a single pose": (DOUBLE, lambda: random_se3_batch(3)[0], DOUBLE, r"3 pieces .*\(\)"),
    "float64 pieces, float32 model": (
        DOUBLE,
        lambda: random_se3_batch(3),
        SINGLE,
        "pieces are torch.float64 .*float32",
    ),
    "float32 pieces, float64 model": (
        SINGLE,
        lambda: random_se3_batch(3),
        DOUBLE,
        "pieces are torch.float32 .*float64",
    ),
    "float64 poses": (SINGLE, lambda: random_se3_batch(3), SINGLE, "poses are torch.float64 .*float32"),
    "float32 poses": (DOUBLE, lambda: random_se3_batch(3, dtype=SINGLE), DOUBLE, "poses are torch.float32 .*float64"),
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
        model.velocity(pieces, random_se3_batch(3), tau)


@pytest.mark.parametrize("part", ["rotation", "translation"])
@pytest.mark.parametrize("where", ["velocity", "noise"])
def test_poses_with_nan_are_an_input_error(model, pieces, where, part):
    poses = random_se3_batch(3)
    getattr(poses, part)[1, 2] = torch.nan
    with pytest.raises(InputError, match="NaN"):
        model.velocity(pieces, poses, 0.5) if where == "velocity" else model.sample(pieces, noise=poses[None])


# -- samples -----------------------------------------------------------------------------------------------

BAD_SAMPLES = {
    "no samples": (dict(samples=0), "samples .*0"),
    "negative samples": (dict(samples=-2), "samples .*-2"),
    "unknown solver": (dict(solver="rk5"), "rk5.*not known here .there are rk1, rk4"),
    "no steps": (dict(steps=0), "steps .*0"),
    "no tolerance": (dict(solver="adaptive", tolerance=0.0), "tolerance"),
    "a tolerance of NaN": (dict(solver="adaptive", tolerance=float("nan")), "tolerance"),
    "noise for too few samples": (dict(samples=2, noise=random_se3_batch(1, 3)), r"\(2, 3\), got \(1, 3\)"),
    "noise for too many samples": (dict(noise=random_se3_batch(2, 3)), r"\(1, 3\), got \(2, 3\)"),
    "noise for too few pieces": (dict(noise=random_se3_batch(1, 2)), r"\(1, 3\), got \(1, 2\)"),
    "noise without samples": (dict(noise=random_se3_batch(3)), r"\(1, 3\), got \(3,\)"),
    "pin of no piece": (dict(pins={3: SE3.identity()}), "no piece 3 .*0 to 2"),
    "pin of piece -1": (dict(pins={-1: SE3.identity()}), "no piece -1"),
    "pin of many poses": (dict(pins={0: random_se3_batch(2)}), "piece 0 .*single pose"),
    "pin with NaN": (dict(pins={1: SE3(torch.eye(3), torch.full((3,), torch.nan))}), "piece 1 .*NaN"),
    "pin that mirrors": (dict(pins={1: SE3(-torch.eye(3), torch.zeros(3))}), "piece 1 .*mirrors"),
    "pin that scales": (dict(pins={1: SE3(2 * torch.eye(3), torch.zeros(3))}), "piece 1 .*scales"),
    "noise for pieces that pins merge": (
        dict(noise=random_se3_batch(1, 3), pins={0: SE3.identity(), 1: SE3.identity()}),
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
        model.sample(pieces, noise=random_se3_batch(1, 3, dtype=SINGLE), steps=1)


def test_a_network_of_normals_asks_for_normals(model):
    with pytest.raises(InputError, match="normals"):
        model.sample(lumpy_pieces(2, 12, normals=False), steps=1)


# -- losses ------------------------------------------------------------------------------------------------


def test_a_loss_of_another_precision_is_an_input_error(model):
    with pytest.raises(InputError, match="float32"):
        model.loss(lumpy_puzzle(2, 12, dtype=SINGLE))


BAD_LOSSES = {
    "fewer draws than none": lambda model, pieces: model.loss(Puzzle(pieces, random_se3_batch(3)), draws=-1),
    "a solution of another precision": lambda model, pieces: model.loss(
        Puzzle(pieces, random_se3_batch(3, dtype=SINGLE))
    ),
    "a solution of other pieces": lambda model, pieces: model.loss(Puzzle(pieces, random_se3_batch(2))),
    "a pyramid of another network": lambda model, pieces: model.velocity(
        model_of(num_levels=1).pyramid(pieces), random_se3_batch(3), 0.5
    ),
}


@pytest.mark.parametrize("name", BAD_LOSSES)
def test_other_things_that_do_not_fit_are_an_input_error(model, pieces, name):
    with pytest.raises(InputError):
        BAD_LOSSES[name](model, pieces)


# -- settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise_std", [0.0, -1.0, float("nan")])
def test_a_noise_without_spread_is_an_input_error(noise_std):
    with pytest.raises(InputError, match="noise_std"):
        EdaConfig(noise_std=noise_std)


@pytest.mark.parametrize("weight", [0, 0.0, -1.0, float("nan"), float("inf"), True, "1"])
def test_a_translation_weight_that_is_not_positive_is_an_input_error(weight):
    with pytest.raises(InputError, match="translation_weight must be a positive number"):
        EdaConfig(translation_weight=weight)


def test_an_unknown_tau_sampler_is_an_input_error():
    with pytest.raises(InputError, match=r"tau_sampler must be one of logit_normal, uniform, start, got 'cosine'"):
        EdaConfig(tau_sampler="cosine")
