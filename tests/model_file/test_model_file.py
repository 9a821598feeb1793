"""A model on disk: what is written comes back, from old files too."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from support.model_files import NAME, header, network, settings, written
from support.shapes import TINY, lumpy_pieces

from eda import SE3, Eda, EdaConfig, NetworkConfig, load
from eda.model_file import FILE_VERSION

# -- weights -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_path", [str, Path])
def test_weights_come_back_bit_for_bit(model, tmp_path, as_path):
    path = as_path(tmp_path / NAME)
    model.save(path)
    before, after = model.state_dict(), load(path).state_dict()
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert after[name].dtype == torch.float32
        assert torch.equal(after[name], tensor), name


def test_the_loaded_model_computes_the_same(model, tmp_path):
    model.save(tmp_path / NAME)
    pieces = lumpy_pieces(2, 12, dtype=torch.float32)
    again, before = (m.velocity(pieces, SE3.identity(2), 0.3) for m in (load(tmp_path / NAME), model))
    assert before.norm() > 0
    assert torch.equal(again, before)


@pytest.mark.parametrize(("dtype", "digits"), [(torch.float16, 2e-3), (torch.bfloat16, 1e-2)])
def test_half_precision_comes_back_as_float32(model, content, tmp_path, dtype, digits):
    path = tmp_path / NAME
    model.save(path, dtype=dtype)
    assert {tensor.dtype for tensor in load_file(path).values()} == {dtype}
    assert len(path.read_bytes()) < 0.8 * len(content)
    differs = False
    for name, tensor in load(path).state_dict().items():
        before = model.state_dict()[name]
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor, before, rtol=digits, atol=1e-6)
        differs |= not torch.equal(tensor, before)
    assert differs


def test_a_float64_model_is_read_as_float32(model, tmp_path):
    Eda(TINY, seed=3).double().save(tmp_path / NAME)
    for name, tensor in load(tmp_path / NAME).state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name])


def test_saving_does_not_change_the_model(tmp_path):
    model = Eda(TINY)
    model.save(tmp_path / NAME, dtype=torch.float16)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert all(p.requires_grad for p in model.parameters())
    assert all(p.requires_grad for p in load(tmp_path / NAME).parameters())


def test_the_file_is_plain_safetensors_with_a_json_config(model, tmp_path):
    model.save(tmp_path / NAME)
    with safe_open(tmp_path / NAME, framework="pt") as file:
        metadata = file.metadata()
        assert set(file.keys()) == set(model.state_dict())
    assert metadata["format"] == "eda"
    assert metadata["version"] == str(FILE_VERSION)
    assert json.loads(metadata["config"]) == dataclasses.asdict(TINY)


# -- settings ----------------------------------------------------------------------------------------------

CONFIGS = {
    "tiny": TINY,
    "cross neighbours: all": network(cross_neighbors=None),
    "no time in the encoder": network(time_in_encoder=False),
    "unoriented normals": network(normals="unoriented"),
    "no normals": network(normals="absent"),
    "pairs": network(pair_width=12, pair_level=2, pair_layers=1),
    "matches": network(match_width=12, match_level=2, match_layers=1, time_in_encoder=False),
    "every number": network(
        num_levels=1,
        ratio=0.5,
        num_blocks=2,
        num_neighbors=6,
        cross_neighbors=2,
        max_degree=1,
        channels=6,
        num_heads=3,
        expansion=1,
        num_knots=4,
        spacing=0.125,
    ),
    "the flow": dataclasses.replace(
        TINY, noise_std=0.7, tau_sampler="uniform", translation_weight=2.5, match_weight=0.5, boldness=40.0
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_config_comes_back(tmp_path, name):
    Eda(CONFIGS[name]).save(tmp_path / NAME)
    assert load(tmp_path / NAME).config == CONFIGS[name]


@pytest.mark.parametrize("name", CONFIGS)
def test_the_config_survives_json(name):
    values = json.loads(json.dumps(dataclasses.asdict(CONFIGS[name])))
    assert EdaConfig.from_dict(values) == CONFIGS[name]


def test_missing_settings_are_the_defaults():
    """A setting that is added later does not make the files of today unreadable."""
    assert EdaConfig.from_dict({}) == EdaConfig()
    assert EdaConfig.from_dict({"network": {"channels": 8}}).network == NetworkConfig(channels=8)


# -- pairs -------------------------------------------------------------------------------------------------


def test_a_model_with_pairs_comes_back(tmp_path):
    model = Eda(CONFIGS["pairs"], seed=3)
    model.save(tmp_path / NAME)
    before, again = model.state_dict(), load(tmp_path / NAME)
    assert sum(name.startswith("network.pairs.") for name in before) > 10
    assert before.keys() == again.state_dict().keys()
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in before.items())
    pieces, poses = lumpy_pieces(3, 12, dtype=torch.float32), SE3.identity(3)
    assert torch.equal(again.velocity(pieces, poses, 0.3), model.velocity(pieces, poses, 0.3))


def test_a_file_of_before_there_were_pairs_is_read(model, tmp_path):
    known = {name: value for name, value in dataclasses.asdict(TINY.network).items() if not name.startswith("pair_")}
    assert len(known) == len(dataclasses.fields(NetworkConfig)) - 3
    again = load(written(tmp_path / NAME, model.state_dict(), header(settings(network=known))))
    assert again.config == TINY
    assert again.network.pairs is None
    pieces = lumpy_pieces(2, 12, dtype=torch.float32)
    assert torch.equal(*(m.velocity(pieces, SE3.identity(2), 0.3) for m in (again, model)))
