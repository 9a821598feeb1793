"""A small file that asks for much is refused before the work is done; and equal models are equal in bytes."""

import struct

import pytest
import torch
from support.lumpy_shapes import TINY
from support.model_files import NAME, header, network, network_settings, settings, written
from torch.nn.modules.module import register_module_parameter_registration_hook

from eda import Eda, EdaConfig, InputError, NetworkConfig, load
from eda.model_file import MAX_TENSORS, MIN_LIMIT, rewrite_header, write_model_file

LARGEST = {
    "num_levels": 16, "num_blocks": 256, "num_neighbors": 4096, "cross_neighbors": 4096, "max_degree": 12,
    "channels": 8192, "num_heads": 8192, "expansion": 64, "num_knots": 4096, "break_head": True,
    "match_width": 8192, "match_layers": 64, "time_in_encoder": False,
}  # fmt: skip


def test_a_file_that_asks_for_the_largest_network_is_refused_early(model, tmp_path):
    """Of its many thousand weights only the first are made."""
    NetworkConfig(**LARGEST)  # is a config
    made = []
    path = written(tmp_path / NAME, model.state_dict(), header(network_settings(**LARGEST)))
    counting = register_module_parameter_registration_hook(lambda module, name, weight: made.append(name))
    try:
        bound = f"asks for more than {MIN_LIMIT:,} tensors, but there are {len(model.state_dict())}"
        with pytest.raises(InputError, match=bound):
            load(path)
    finally:
        counting.remove()
    assert 0 < len(made) < 2 * MIN_LIMIT


@pytest.mark.parametrize("setting", sorted(LARGEST.keys() - {"time_in_encoder"}))
def test_a_file_that_asks_for_one_size_at_its_largest_is_refused(model, tmp_path, setting):
    values = {setting: LARGEST[setting], "time_in_encoder": False, "num_heads": 1}
    path = written(tmp_path / NAME, model.state_dict(), header(network_settings(**values)))
    with pytest.raises(InputError, match="weights and config do not belong together"):
        load(path)


def test_a_network_larger_than_the_limit_of_any_file_is_read_where_its_weights_are(tmp_path):
    config = network(num_blocks=48, channels=2, num_heads=1)
    Eda(config).save(tmp_path / NAME)
    found = load(tmp_path / NAME)
    assert len(found.state_dict()) > MIN_LIMIT
    assert found.config == config


def test_the_limit_ends_with_the_file(model, tmp_path):
    path = written(tmp_path / NAME, {"w": torch.ones(2)}, header(network_settings(num_blocks=256)))
    with pytest.raises(InputError, match=f"more than {MIN_LIMIT:,} tensors"):
        load(path)
    layers = torch.nn.ModuleList(torch.nn.Linear(1, 1) for _ in range(MIN_LIMIT))
    assert len(layers.state_dict()) == 2 * MIN_LIMIT


def test_a_file_of_more_tensors_than_any_model_has_is_refused(tmp_path):
    names = (f'"{number}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}' for number in range(MAX_TENSORS + 1))
    text = ("{" + ",".join(names) + "}").encode()
    (tmp_path / NAME).write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(InputError, match=f"{MAX_TENSORS + 1:,} tensors, but a model file may have {MAX_TENSORS:,}"):
        load(tmp_path / NAME)


# -- equal content, equal bytes ----------------------------------------------------------------------------


def test_equal_models_are_equal_in_bytes(model, content, tmp_path):
    for number in range(8):
        model.save(tmp_path / f"{number}.safetensors")
    load(tmp_path / "0.safetensors").save(tmp_path / "again.safetensors")
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {content}


def test_the_order_of_settings_and_weights_does_not_matter(model, content, tmp_path):
    backward = dict(reversed(settings().items()))
    backward["network"] = dict(reversed(backward["network"].items()))
    assert EdaConfig.from_dict(backward) == TINY
    write_model_file(tmp_path / NAME, backward, dict(reversed(model.state_dict().items())))
    assert (tmp_path / NAME).read_bytes() == content


def test_a_rewritten_header_is_as_if_it_had_been_written_at_once(model, tmp_path):
    one, other = tmp_path / NAME, tmp_path / "other.safetensors"
    calibration = {"b": [1.5], "a": {"d": 1, "c": 2}}
    write_model_file(one, settings(), model.state_dict(), calibration=dict(reversed(calibration.items())))
    write_model_file(other, settings(), model.state_dict())
    for _ in range(8):
        rewrite_header(other, {"calibration": calibration})
        assert other.read_bytes() == one.read_bytes()
