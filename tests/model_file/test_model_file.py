"""A model on disk: what is written comes back, from old files too."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from support.lumpy_shapes import TINY, lumpy_pieces
from support.model_files import NAME, header, network, settings, written

from eda import SE3, Eda, EdaConfig, InputError, NetworkConfig, load
from eda.model_file import FILE_VERSION
from eda.regime import REGIMES

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
    "matches": network(match_width=12, match_level=2, match_layers=1, time_in_encoder=False),
    "complementary matches": network(match_width=8, matching="complementary", time_in_encoder=False),
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


# -- what older versions wrote -----------------------------------------------------------------------------

NO_PAIRS = {"pair_width": 0, "pair_level": 1, "pair_layers": 2}
# -- regimes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("regime", REGIMES)
def test_the_regime_comes_back(tmp_path, regime):
    Eda(dataclasses.replace(TINY, regime=regime)).save(tmp_path / NAME)
    assert load(tmp_path / NAME).config.regime == regime


@pytest.mark.parametrize(("break_head", "regime"), [(True, "fracture"), (False, "scan")])
def test_a_file_of_before_there_were_regimes_gets_the_one_it_was_used_for(tmp_path, break_head, regime):
    config = network(break_head=break_head)
    values = {name: value for name, value in dataclasses.asdict(config).items() if name != "regime"}
    path = written(tmp_path / NAME, Eda(config).state_dict(), header(values, version="1"))
    again = load(path)
    assert again.config == dataclasses.replace(config, regime=regime)
    assert again.calibrations is None


def test_a_regime_that_there_is_not_is_refused():
    with pytest.raises(InputError, match="regime must be one of fracture, scan"):
        EdaConfig(regime="lidar")


@pytest.mark.parametrize("old", [{}, NO_PAIRS, {**NO_PAIRS, "pair_level": 2}, {"match_mates": False}])
def test_a_file_with_settings_that_are_gone_is_read(model, tmp_path, old):
    values = {name: value for name, value in dataclasses.asdict(TINY.network).items() if name != "matching"}
    again = load(written(tmp_path / NAME, model.state_dict(), header(settings(network={**values, **old}))))
    assert again.config == TINY
    pieces = lumpy_pieces(2, 12, dtype=torch.float32)
    assert torch.equal(*(m.velocity(pieces, SE3.identity(2), 0.3) for m in (again, model)))


@pytest.mark.parametrize(("before", "now"), [(True, "complementary"), (False, "overlap")])
def test_what_was_called_mates_is_a_kind_of_matching(before, now):
    old = {"match_width": 8, "time_in_encoder": False, "match_mates": before}
    found = EdaConfig.from_dict({"network": old}).network
    assert found == NetworkConfig(match_width=8, time_in_encoder=False, matching=now)
