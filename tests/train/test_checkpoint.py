"""The state of a run on disk: all of it comes back, and the last good one is never lost."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.full_disk import full_disk
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from eda import InputError
from eda.train import WriteError
from eda.train.checkpoint import LAST, PREVIOUS, load_state, save_state


class Trained:
    """A small model with its average and its optimiser; every step is decided by its number."""

    def __init__(self, width: int = 3) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2))
        self.average = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05)
        self.step = 0

    @property
    def parts(self) -> tuple[nn.Module, AveragedModel, torch.optim.Optimizer]:
        return self.model, self.average, self.optimizer

    def go(self, steps: int) -> "Trained":
        for _ in range(steps):
            data = torch.randn(8, 4, generator=torch.Generator().manual_seed(self.step))
            self.optimizer.zero_grad()
            self.model(data).square().mean().backward()
            self.optimizer.step()
            self.average.update_parameters(self.model)
            self.step += 1
        return self

    def save(self, folder: Path) -> None:
        save_state(folder, *self.parts, {"step": self.step, "used": 2 * self.step})

    def load(self, folder: Path) -> dict[str, int] | None:
        restored = load_state(folder, *self.parts)
        self.step = restored.progress["step"] if restored else 0
        return restored.progress if restored else None

    def numbers(self) -> list[torch.Tensor]:
        states = self.optimizer.state_dict()["state"]
        moments = [states[i][name] for i in sorted(states) for name in ("exp_avg", "exp_avg_sq", "step")]
        return [*self.model.state_dict().values(), *self.average.state_dict().values(), *moments]


def same(a: Trained, b: Trained) -> bool:
    return all(x.dtype == y.dtype and torch.equal(x, y) for x, y in zip(a.numbers(), b.numbers(), strict=True))


@pytest.fixture
def folder(tmp_path) -> Path:
    """Holds the state after 3 steps and, before it, that after 2."""
    trained = Trained().go(2)
    trained.save(tmp_path)
    trained.go(1).save(tmp_path)
    return tmp_path


# -- there and back ----------------------------------------------------------------------------------------


def test_a_folder_without_a_state_changes_nothing(tmp_path):
    trained, untouched = Trained().go(2), Trained().go(2)
    assert load_state(tmp_path, *trained.parts) is None
    assert same(trained, untouched)


def test_everything_comes_back(folder):
    loaded = Trained().go(7)
    assert loaded.load(folder) == {"step": 3, "used": 6}
    assert same(loaded, Trained().go(3))


def test_going_on_is_as_if_nothing_had_happened(folder):
    loaded = Trained()
    loaded.load(folder)
    assert same(loaded.go(4), Trained().go(7))


def test_what_has_not_been_trained_yet_has_no_moments(tmp_path):
    Trained().save(tmp_path)
    loaded = Trained().go(2)
    loaded.load(tmp_path)
    assert same(loaded.go(3), Trained().go(3))


def test_tensors_that_share_memory_are_saved(tmp_path):
    trained = Trained(width=4)
    trained.model[0].weight = nn.Parameter(trained.model[0].weight.expand(4, 4))
    trained.save(tmp_path)
    assert torch.equal(load_file(tmp_path / LAST)["model.0.weight"], trained.model[0].weight)


def test_the_state_before_is_kept(folder):
    (folder / LAST).unlink()
    loaded = Trained()
    assert loaded.load(folder) == {"step": 2, "used": 4}
    assert same(loaded, Trained().go(2))
    assert sorted(path.name for path in folder.iterdir()) == [PREVIOUS]


def test_the_state_of_another_network_is_an_input_error(folder):
    with pytest.raises(InputError, match="network of another shape"):
        Trained(width=5).load(folder)


# -- damage ------------------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def without_header(path: Path) -> None:
    save_file(load_file(path), path)


def with_a_broken_header(path: Path) -> None:
    save_file(load_file(path), path, {"progress": "{"})


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut off": cut,
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(b"\xff" * 1000),
    "without a header": without_header,
    "with a broken header": with_a_broken_header,
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_state_falls_back_to_the_one_before(folder, how):
    DAMAGE[how](folder / LAST)
    loaded = Trained()
    assert loaded.load(folder) == {"step": 2, "used": 4}
    assert same(loaded, Trained().go(2))


@pytest.mark.parametrize("how", DAMAGE)
def test_two_damaged_states_are_an_input_error(folder, how):
    for name in (LAST, PREVIOUS):
        DAMAGE[how](folder / name)
    with pytest.raises(InputError, match=f"damaged; delete {LAST} and {PREVIOUS}"):
        Trained().load(folder)


@pytest.mark.parametrize("present", [LAST, PREVIOUS])
def test_a_damaged_state_alone_is_an_input_error(folder, present):
    for name in {LAST, PREVIOUS} - {present}:
        (folder / name).unlink()
    cut(folder / present)
    with pytest.raises(InputError, match="damaged"):
        Trained().load(folder)


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]


def test_a_flipped_bit_anywhere_falls_back_to_the_state_before(folder):
    good = (folder / LAST).read_bytes()
    header = 8 + int.from_bytes(good[:8], "little")
    loaded = Trained()
    for at in [*range(0, header, 3), *range(header, len(good), 11), len(good) - 1]:
        (folder / LAST).write_bytes(flipped(good, at))
        restored = load_state(folder, *loaded.parts)
        assert restored.progress == {"step": 2, "used": 4}, f"byte {at} of {len(good)}"
        assert restored.damaged == (folder / LAST,)
    assert same(loaded, Trained().go(2))
    (folder / LAST).write_bytes(good)
    assert load_state(folder, *loaded.parts).damaged == ()
    assert same(loaded, Trained().go(3))


def test_a_flipped_bit_in_both_states_is_an_input_error(folder):
    for name in (LAST, PREVIOUS):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(flipped(content, len(content) - 1))
    with pytest.raises(InputError, match=f"damaged; delete {LAST} and {PREVIOUS}"):
        Trained().load(folder)


def test_a_state_of_before_there_were_checksums_is_read(folder):
    tensors = load_file(folder / LAST)
    save_file(tensors, folder / LAST, {"format": "eda-training", "progress": '{"step": 3, "used": 6}'})
    loaded = Trained()
    assert loaded.load(folder) == {"step": 3, "used": 6}
    assert same(loaded, Trained().go(3))


def test_equal_states_are_equal_in_bytes(tmp_path):
    found = set()
    for number in range(8):
        (tmp_path / str(number)).mkdir()
        trained = Trained().go(2)
        progress = [("step", 2), ("used", 4)]
        save_state(tmp_path / str(number), *trained.parts, dict(progress if number % 2 else progress[::-1]))
        found.add((tmp_path / str(number) / LAST).read_bytes())
    assert len(found) == 1


# -- a full disk, and a kill -------------------------------------------------------------------------------


def saving_fails(trained: Trained, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full_disk)
        with pytest.raises(WriteError, match=f"{LAST}: cannot be written .No space left.*free some space and run"):
            trained.save(folder)


def test_a_full_disk_keeps_the_last_good_state(folder, monkeypatch):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    saving_fails(Trained().go(4), folder, monkeypatch)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before, "also the one before the last"
    loaded = Trained()
    assert loaded.load(folder) == {"step": 3, "used": 6}
    assert same(loaded, Trained().go(3))
    assert not list(folder.glob("*partial*"))
    assert not list(folder.glob(".*"))


def test_a_disk_that_stays_full_keeps_it_too_and_one_that_is_not_goes_on(folder, monkeypatch):
    for _ in range(3):
        saving_fails(Trained().go(4), folder, monkeypatch)
    loaded = Trained()
    loaded.load(folder)
    loaded.go(2).save(folder)
    assert Trained().load(folder) == {"step": 5, "used": 10}
    cut(folder / LAST)
    assert Trained().load(folder) == {"step": 3, "used": 6}


def test_a_full_disk_after_damage_keeps_the_last_good_state(folder, monkeypatch):
    cut(folder / LAST)
    trained = Trained()
    trained.load(folder)
    saving_fails(trained.go(3), folder, monkeypatch)
    assert Trained().load(folder) == {"step": 2, "used": 4}
