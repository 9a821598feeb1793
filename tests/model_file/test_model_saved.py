"""A model is saved as a whole or not at all, and what was there before stands until then."""

import os
import stat
from pathlib import Path

import pytest
import torch
from support.full_disk import full_disk
from support.lumpy_shapes import TINY
from support.model_files import NAME, WEIGHT

from eda import Eda, InputError, load

# -- a save that fails -------------------------------------------------------------------------------------


def interrupted(path, data):
    with open(path, "wb") as file:
        file.write(b"half")
    raise KeyboardInterrupt


def not_replaced(source, target):
    raise PermissionError("not allowed")


FAILURES = {
    "disk full": (Path, "write_bytes", full_disk, OSError),
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


# -- where it is saved -------------------------------------------------------------------------------------


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


# -- weights that cannot be saved --------------------------------------------------------------------------

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
