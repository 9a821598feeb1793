"""What is not a model is refused with a reason, and nothing in it is executed."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from support.model_files import NAME, WEIGHT, header, network, network_settings, settings, written

from eda import Eda, InputError, load
from eda.model_file import FILE_VERSION

NO_MODEL = r"not a model, or an incomplete one \(.*\); fetch it again$"

# -- nothing in a file is executed -------------------------------------------------------------------------


class Trap:
    """Unpickling one makes a file."""

    def __init__(self, sentinel: Path) -> None:
        self.sentinel = sentinel

    def __reduce__(self) -> tuple:
        return Path.touch, (self.sentinel,)


@pytest.mark.parametrize("kind", ["pickle", "torch.save", "old torch.save"])
def test_a_pickle_is_refused_and_not_run(tmp_path, kind):
    sentinel, pickled = tmp_path / "sentinel", tmp_path / "model.pt"
    if kind == "pickle":
        pickled.write_bytes(pickle.dumps(Trap(sentinel)))
        pickle.loads(pickled.read_bytes())
    else:
        torch.save(Trap(sentinel), pickled, _use_new_zipfile_serialization=kind == "torch.save")
        torch.load(pickled, weights_only=False)
    assert sentinel.exists(), "the trap does not work"
    sentinel.unlink()
    path = pickled.rename(tmp_path / NAME)
    with pytest.raises(InputError, match=NO_MODEL) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert not sentinel.exists()


# -- what is not a model -----------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 9, 500, 0.25, 0.5, 0.9, -1])
def test_a_truncated_file_is_refused(content, tmp_path, keep):
    """The first `keep` bytes, or that fraction of them."""
    path = tmp_path / NAME
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(InputError, match=NO_MODEL) as caught:
        load(path)
    assert str(path) in str(caught.value)


FOREIGN_BYTES = {
    "random": np.random.default_rng(0).bytes(4096),
    "text": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n",
    "a page": b"<!DOCTYPE html><html><body>404</body></html>" * 20,
    "zeros": bytes(4096),
}


@pytest.mark.parametrize("name", FOREIGN_BYTES)
def test_other_bytes_are_refused(tmp_path, name):
    path = tmp_path / NAME
    path.write_bytes(FOREIGN_BYTES[name])
    with pytest.raises(InputError, match=NO_MODEL) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_bytes_after_the_end_are_refused(content, tmp_path):
    path = tmp_path / NAME
    path.write_bytes(content + b"more")
    with pytest.raises(InputError, match=NO_MODEL):
        load(path)


@pytest.mark.parametrize("name", ["missing", "missing folder", "folder", "broken link"])
def test_a_path_without_a_file_is_refused(tmp_path, name):
    path = tmp_path / "absent" / NAME if name == "missing folder" else tmp_path / NAME
    if name == "folder":
        path.mkdir()
    if name == "broken link":
        path.symlink_to(tmp_path / "nowhere")
    message = "a folder, not a model file" if name == "folder" else "no such model file"
    with pytest.raises(InputError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


# -- headers -----------------------------------------------------------------------------------------------

BAD_HEADERS = {
    "no metadata": (None, "not an Eda model"),
    "other metadata": ({"format": "pt"}, "not an Eda model"),
    "only a config": ({"config": "{}"}, "not an Eda model"),
    "no version": ({"format": "eda", "config": "{}"}, "damaged .*version"),
    "no config": ({"format": "eda", "version": "1"}, "damaged .*config"),
    "version in words": (header(version="one"), "damaged .*one"),
    "newer version": (header(version=str(FILE_VERSION + 1)), "newer Eda .*upgrade"),
    "newer version, other settings": (header({"shape": "new"}, version="999"), "newer Eda .*upgrade"),
    "wrong JSON": (header(config="{'channels': 8}"), "damaged"),
    "cut JSON": (header(config=header()["config"][:-1]), "damaged"),
    "no JSON": (header(config=""), "damaged"),
    "a list": (header([1, 2]), "config .* cannot be used"),
    "null": (header(config="null"), "config .* cannot be used"),
}


@pytest.mark.parametrize("name", BAD_HEADERS)
def test_a_foreign_or_damaged_header_is_refused(model, tmp_path, name):
    metadata, message = BAD_HEADERS[name]
    path = written(tmp_path / NAME, model.state_dict(), metadata)
    with pytest.raises(InputError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_json_without_end_is_refused(model, tmp_path):
    path = written(tmp_path / NAME, model.state_dict(), header(config="[" * 200_000))
    with pytest.raises(InputError, match=f"{NAME}: the header of this Eda model is damaged"):
        load(path)


@pytest.mark.parametrize("version", ["0", "-1"])
def test_a_version_that_never_was_is_refused(model, tmp_path, version):
    path = written(tmp_path / NAME, model.state_dict(), header(version=version))
    with pytest.raises(InputError, match=f"{NAME}: the header of this Eda model is damaged .*{version}"):
        load(path)


# -- settings ----------------------------------------------------------------------------------------------

BAD_CONFIGS = {
    "unknown key": (settings(flavour=1), "unknown settings 'flavour'"),
    "unknown network key": (network_settings(flavour=1), "unknown settings 'flavour'"),
    "network is a list": (settings(network=[8]), "NetworkConfig"),
    "network is null": (settings(network=None), "NetworkConfig"),
    "noise_std": (settings(noise_std=0.0), "noise_std"),
    "noise_std NaN": (settings(noise_std=float("nan")), "noise_std"),
    "tau_sampler": (
        settings(tau_sampler="cosine"),
        "tau_sampler must be one of logit_normal, uniform, start, got 'cosine'",
    ),
    "num_levels": (network_settings(num_levels=0), "num_levels"),
    "num_blocks": (network_settings(num_blocks=-1), "num_blocks"),
    "cross_neighbors": (network_settings(cross_neighbors=0), "cross_neighbors"),
    "ratio": (network_settings(ratio=1.5), "ratio"),
    "max_degree": (network_settings(max_degree=0), "max_degree"),
    "heads that do not split": (network_settings(num_heads=3), "3 heads"),
    "num_knots": (network_settings(num_knots=3), "knots"),
    "pairs": (network_settings(pair_width=8, pair_level=1, pair_layers=2), "pair_width is 8.*train a model without it"),
    "mates": (network_settings(match_mates=1), "match_mates must be"),
    "matches that do not split": (
        network_settings(match_width=6, time_in_encoder=False),
        "match_width of 6 does not split into 4 heads",
    ),
    "matches beyond the levels": (
        network_settings(match_width=8, match_level=3, time_in_encoder=False),
        "match_level is 3, but there are 2 levels",
    ),
    "matches that see the time": (network_settings(match_width=8), "match_width needs time_in_encoder=False"),
    "match_layers": (network_settings(match_layers=-1), "match_layers must be a whole number"),
    "match_weight": (settings(match_weight=0.0), "match_weight must be a positive number"),
    "boldness": (settings(boldness=-1.0), "boldness must be a positive number"),
    "spacing": (network_settings(spacing=0), "spacing"),
    "normals": (network_settings(normals="inward"), "inward"),
    "unoriented normals without degree 2": (network_settings(normals="unoriented", max_degree=1), "degree"),
    "a word for a number": (network_settings(channels="8"), "channels must be a whole number .*'8'"),
    "null for a number": (network_settings(channels=None), "channels must be a whole number .*None"),
    "a list for a name": (settings(tau_sampler=[]), r"tau_sampler must be one of .*\[\]"),
}


@pytest.mark.parametrize("name", BAD_CONFIGS)
def test_a_config_that_cannot_be_used_is_refused(model, tmp_path, name):
    config, message = BAD_CONFIGS[name]
    path = written(tmp_path / NAME, model.state_dict(), header(config))
    with pytest.raises(InputError, match=f"config of this model cannot be used.*{message}") as caught:
        load(path)
    assert str(path) in str(caught.value)


WRONG_TYPES = {
    "a word": ("abc", "expected a table of settings for EdaConfig, got str"),
    "float channels": (network_settings(channels=8.0), "channels must be a whole number .*8.0"),
    "float levels": (network_settings(num_levels=2.0), "num_levels must be a whole number .*2.0"),
    "float degree": (network_settings(max_degree=1.5), "max_degree must be a whole number .*1.5"),
    "more channels than memory": (network_settings(channels=2**40), "channels must be a whole number .*8192"),
    "float neighbours": (network_settings(num_neighbors=4.5), "num_neighbors must be a whole number .*4.5"),
    "true for a number": (network_settings(num_blocks=True), "num_blocks must be a whole number .*True"),
    "a word for a truth value": (
        network_settings(time_in_encoder="no"),
        "time_in_encoder must be true or false",
    ),
    "a word for a weight": (settings(translation_weight="x"), "translation_weight must be a positive number"),
    "a weight of zero": (settings(translation_weight=0.0), "translation_weight must be a positive number"),
    "infinite noise": (settings(noise_std=float("inf")), "noise_std must be a positive number"),
    "infinite spacing": (network_settings(spacing=float("inf")), "spacing must be a positive number"),
}


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_a_config_of_wrong_types_is_refused(model, tmp_path, name):
    config, message = WRONG_TYPES[name]
    path = written(tmp_path / NAME, model.state_dict(), header(config))
    with pytest.raises(InputError, match=f"{NAME}: the config of this model cannot be used: {message}"):
        load(path)


# -- weights that do not fit -------------------------------------------------------------------------------


def without(weights: dict) -> dict:
    return {name: tensor for name, tensor in weights.items() if name != WEIGHT}


BAD_WEIGHTS = {
    "missing": (without, f"do not belong together .*{WEIGHT}"),
    "none": (lambda weights: {}, "do not belong together"),
    "extra": (lambda weights: {**weights, "extra": torch.ones(2)}, "do not belong together .*extra"),
    "renamed": (lambda weights: {**without(weights), "w": weights[WEIGHT]}, "2 differ"),
    "transposed": (lambda weights: {**weights, WEIGHT: weights[WEIGHT].mT.contiguous()}, WEIGHT),
    "one row short": (lambda weights: {**weights, WEIGHT: weights[WEIGHT][:1]}, WEIGHT),
    "flat": (lambda weights: {**weights, WEIGHT: weights[WEIGHT].flatten()}, WEIGHT),
    "NaN": (lambda weights: {**weights, WEIGHT: weights[WEIGHT] * torch.nan}, f"NaN .*{WEIGHT}"),
    "infinite": (lambda weights: {**weights, WEIGHT: weights[WEIGHT] * torch.inf}, f"infinite .*{WEIGHT}"),
    "too large for float32": (
        lambda weights: {**weights, WEIGHT: torch.full((2, 8), 1e200, dtype=torch.float64)},
        f"infinite .*{WEIGHT}",
    ),
}


@pytest.mark.parametrize("name", BAD_WEIGHTS)
def test_weights_that_do_not_fit_are_refused(model, tmp_path, name):
    change, message = BAD_WEIGHTS[name]
    path = written(tmp_path / NAME, change(dict(model.state_dict())), header())
    with pytest.raises(InputError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_the_weights_of_another_network_are_refused(tmp_path):
    path = written(tmp_path / NAME, Eda(network(channels=4)).state_dict(), header())
    with pytest.raises(InputError, match="do not belong together"):
        load(path)
