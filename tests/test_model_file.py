"""A model on disk: what is written comes back, and what is not a model is refused with a reason."""

import dataclasses
import json
import os
import pickle
import stat
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from shapes import lumpy_pieces

from eda import SE3, Eda, EdaConfig, InputError, NetworkConfig, load
from eda.model import FILE_VERSION

TINY = EdaConfig(
    NetworkConfig(num_levels=2, num_blocks=1, num_neighbors=4, cross_neighbors=3, channels=8, num_heads=2, num_knots=5)
)
NAME = "model.safetensors"
NO_MODEL = r"not a model, or an incomplete one \(.*\); fetch it again$"


def network(**options: object) -> EdaConfig:
    return dataclasses.replace(TINY, network=dataclasses.replace(TINY.network, **options))


@pytest.fixture(scope="module")
def model() -> Eda:
    return Eda(TINY, seed=3)


@pytest.fixture(scope="module")
def content(model, tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / NAME
    model.save(path)
    return path.read_bytes()


def header(values: object = None, /, **changes: str) -> dict[str, str]:
    """The metadata of a good file, with other values in its config or other entries."""
    values = dataclasses.asdict(TINY) if values is None else values
    return {"format": "eda", "version": str(FILE_VERSION), "config": json.dumps(values), **changes}


def written(path: Path, weights: dict[str, torch.Tensor], metadata: dict[str, str] | None) -> Path:
    save_file(weights, path, metadata)
    return path


# -- what is written comes back ----------------------------------------------------------------------------


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


def test_a_file_that_promises_pairs_must_have_them(model, tmp_path):
    path = written(tmp_path / NAME, model.state_dict(), header(network_settings(pair_width=8)))
    with pytest.raises(InputError, match=r"do not belong together.*network\.pairs\."):
        load(path)


def test_the_file_is_plain_safetensors_with_a_json_config(model, tmp_path):
    model.save(tmp_path / NAME)
    with safe_open(tmp_path / NAME, framework="pt") as file:
        metadata = file.metadata()
        assert set(file.keys()) == set(model.state_dict())
    assert metadata["format"] == "eda"
    assert metadata["version"] == str(FILE_VERSION)
    assert json.loads(metadata["config"]) == dataclasses.asdict(TINY)


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


def settings(**changes: object) -> dict:
    return {**dataclasses.asdict(TINY), **changes}


def network_settings(**changes: object) -> dict:
    return settings(network={**dataclasses.asdict(TINY.network), **changes})


BAD_CONFIGS = {
    "unknown key": (settings(flavour=1), "unknown settings 'flavour'"),
    "unknown network key": (network_settings(flavour=1), "unknown settings 'flavour'"),
    "network is a list": (settings(network=[8]), "NetworkConfig"),
    "network is null": (settings(network=None), "NetworkConfig"),
    "noise_std": (settings(noise_std=0.0), "noise_std"),
    "noise_std NaN": (settings(noise_std=float("nan")), "noise_std"),
    "tau_sampler": (
        settings(tau_sampler="cosine"),
        "tau_sampler must be one of logit_normal, uniform, got 'cosine'",
    ),
    "num_levels": (network_settings(num_levels=0), "num_levels"),
    "num_blocks": (network_settings(num_blocks=-1), "num_blocks"),
    "cross_neighbors": (network_settings(cross_neighbors=0), "cross_neighbors"),
    "ratio": (network_settings(ratio=1.5), "ratio"),
    "max_degree": (network_settings(max_degree=0), "max_degree"),
    "heads that do not split": (network_settings(num_heads=3), "3 heads"),
    "num_knots": (network_settings(num_knots=3), "knots"),
    "pairs that do not split": (network_settings(pair_width=6), "pair_width of 6"),
    "pairs beyond the levels": (network_settings(pair_width=8, pair_level=3), "pair_level is 3"),
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


def test_json_without_end_is_refused(model, tmp_path):
    path = written(tmp_path / NAME, model.state_dict(), header(config="[" * 200_000))
    with pytest.raises(InputError, match=f"{NAME}: the header of this Eda model is damaged"):
        load(path)


@pytest.mark.parametrize("version", ["0", "-1"])
def test_a_version_that_never_was_is_refused(model, tmp_path, version):
    path = written(tmp_path / NAME, model.state_dict(), header(version=version))
    with pytest.raises(InputError, match=f"{NAME}: the header of this Eda model is damaged .*{version}"):
        load(path)


# -- weights that do not fit -------------------------------------------------------------------------------

WEIGHT = "network.head.output.weight"


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


# -- all of it, or nothing ---------------------------------------------------------------------------------


def half_written(path, data):
    with open(path, "wb") as file:
        file.write(data[: len(data) // 2])
    raise OSError("No space left on device")


def interrupted(path, data):
    with open(path, "wb") as file:
        file.write(b"half")
    raise KeyboardInterrupt


def not_replaced(source, target):
    raise PermissionError("not allowed")


FAILURES = {
    "disk full": (Path, "write_bytes", half_written, OSError),
    "interrupted": (Path, "write_bytes", interrupted, KeyboardInterrupt),
    "not replaced": (os, "replace", not_replaced, PermissionError),
}


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("name", FAILURES)
def test_a_save_that_fails_leaves_what_was_there(content, tmp_path, monkeypatch, name, old):
    where, what, failure, error = FAILURES[name]
    path = tmp_path / NAME
    if old:
        path.write_bytes(content)
    monkeypatch.setattr(where, what, failure)
    with pytest.raises(error):
        Eda(TINY, seed=4).save(path)
    assert list(tmp_path.iterdir()) == ([path] if old else [])
    if old:
        assert path.read_bytes() == content


def test_the_old_file_stands_until_the_new_one_is_whole(content, tmp_path, monkeypatch):
    path, seen = tmp_path / NAME, []

    def spying(temporary, data):
        with open(temporary, "wb") as file:
            file.write(data)
        seen.append((path.read_bytes(), temporary.parent))

    path.write_bytes(content)
    monkeypatch.setattr(Path, "write_bytes", spying)
    Eda(TINY, seed=4).save(path)
    assert seen == [(content, tmp_path)]
    assert path.read_bytes() != content


def test_a_save_leaves_one_file(model, tmp_path):
    for _ in range(2):
        model.save(tmp_path / NAME)
        assert list(tmp_path.iterdir()) == [tmp_path / NAME]


def test_a_bare_name_is_saved_in_the_working_folder(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model.save(NAME)
    assert [p.name for p in tmp_path.iterdir()] == [NAME]
    assert load(NAME).config == TINY


def test_saving_into_a_missing_folder_fails_and_makes_nothing(model, tmp_path):
    with pytest.raises((InputError, OSError)):
        model.save(tmp_path / "absent" / NAME)
    assert list(tmp_path.iterdir()) == []


def test_saving_over_a_folder_fails_and_leaves_it(model, tmp_path):
    (tmp_path / NAME).mkdir()
    with pytest.raises((InputError, OSError)):
        model.save(tmp_path / NAME)
    assert list(tmp_path.rglob("*")) == [tmp_path / NAME]


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077, 0o002])
def test_a_saved_model_may_be_read_by_those_who_may_read_any_new_file(model, tmp_path, umask):
    before = os.umask(umask)
    try:
        model.save(tmp_path / NAME)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o666 & ~umask


UNSAVABLE = {
    "too large for float16": (1e6, torch.float16),
    "NaN": (torch.nan, None),
    "NaN in float16": (torch.nan, torch.float16),
    "infinite": (-torch.inf, None),
}


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("name", UNSAVABLE)
def test_weights_that_cannot_be_saved_leave_what_was_there(content, tmp_path, name, old):
    (value, dtype), path, model = UNSAVABLE[name], tmp_path / NAME, Eda(TINY)
    if old:
        path.write_bytes(content)
    with torch.no_grad():
        model.network.head.output.weight[0, 0] = value
    with pytest.raises(InputError, match=f"not saved: weights with NaN or infinite entries, e.g. {WEIGHT}") as caught:
        model.save(path, dtype=dtype)
    assert str(path) in str(caught.value)
    assert list(tmp_path.iterdir()) == ([path] if old else [])
    if old:
        assert path.read_bytes() == content


def test_weights_too_large_for_half_precision_are_saved_in_single(tmp_path):
    model = Eda(TINY)
    with torch.no_grad():
        model.network.head.output.weight[0, 0] = 1e6
    model.save(tmp_path / NAME)
    assert load(tmp_path / NAME).network.head.output.weight[0, 0] == 1e6
