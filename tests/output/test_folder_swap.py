"""A folder replaced as a whole: whatever moment a process is killed at, it is complete, and the next one tidies up."""

import ctypes
import errno
import subprocess
import sys
import warnings
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from eda.errors import InputError, InputWarning
from eda.output import folder_swap
from eda.output.folder_swap import replaced_folder, staging_folder, tidy

OLD, NEW = {"a": "old", "b/c": "old"}, {"a": "new", "d/e": "new"}

# Replaces the folder, and kills itself before the call of the system with the number in `sys.argv[2]`.
KILLED = """
import os, sys
from pathlib import Path
from eda.output import folder_swap

calls = int(sys.argv[2])

def counted(function):
    def call(*arguments, **options):
        global calls
        calls -= 1
        if calls < 0:
            os.kill(os.getpid(), 9)
        return function(*arguments, **options)
    return call

for name in ("mkdir", "open", "rename", "rmdir", "unlink"):
    setattr(os, name, counted(getattr(os, name)))
if sys.argv[3] == "exchange":
    folder_swap._exchange = counted(folder_swap._exchange)
else:
    folder_swap._exchange = lambda a, b: False
place = Path(sys.argv[1])
with folder_swap.replaced_folder(place, lambda folder: None) as partial:
    (partial / "a").write_text("new")
    (partial / "d").mkdir()
    (partial / "d" / "e").write_text("new")
"""


def allow(folder: Path) -> None:
    """Everything may be deleted."""


def write(folder: Path, content: dict[str, str]) -> None:
    for name, text in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def content_of(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("way", ["exchange", "renames"])
def test_a_kill_at_any_moment_leaves_the_old_or_the_new_folder(tmp_path, way):
    """Killed before its first call of the system, its second, and so on until it comes to the end."""
    place, seen, code = tmp_path / "out", [], -9
    calls = 0
    while code:
        write(place, OLD)
        command = [sys.executable, "-c", KILLED, str(place), str(calls), way]
        code = subprocess.run(command, check=False).returncode
        assert code in (0, -9)
        if way == "exchange":
            assert content_of(place) in (OLD, NEW), calls
        tidy(place, allow)
        assert content_of(place) in (OLD, NEW), calls
        assert list(tmp_path.iterdir()) == [place], calls
        seen.append(content_of(place))
        calls += 1
        for path in (place / "d" / "e", place / "d"):
            if path.exists():
                path.unlink() if path.is_file() else path.rmdir()
    changes = [a != b for a, b in pairwise(seen)]
    assert seen[0] == OLD
    assert seen[-1] == NEW
    assert sum(changes) == 1, "there is one moment before which it is the old one, and after which it is the new one"
    assert len(seen) > 8


@pytest.mark.parametrize("can_exchange", [True, False])
@pytest.mark.parametrize("before", [None, {}, OLD])
def test_it_is_replaced_with_or_without_exchanges(tmp_path, monkeypatch, can_exchange, before):
    place = tmp_path / "out"
    if before is not None:
        place.mkdir(mode=0o750)
        write(place, before)
    if not can_exchange:
        monkeypatch.setattr(folder_swap, "_exchange", lambda a, b: False)
    with replaced_folder(place, allow) as partial:
        write(partial, NEW)
        assert content_of(place) == (before or {})
    assert content_of(place) == NEW
    assert before is None or place.stat().st_mode & 0o777 == 0o750
    assert list(tmp_path.iterdir()) == [place]


def test_an_interruption_between_two_renames_puts_the_old_folder_back(tmp_path, monkeypatch):
    place, rename = tmp_path / "out", folder_swap.os.rename
    write(place, OLD)

    def interrupted(source: Path, target: Path) -> None:
        if (Path(source).name, Path(target)) == ("new", place):
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(folder_swap, "_exchange", lambda a, b: False)
    monkeypatch.setattr(folder_swap.os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), replaced_folder(place, allow) as partial:
        write(partial, NEW)
    assert content_of(place) == OLD
    assert list(tmp_path.iterdir()) == [place]


def test_a_system_that_cannot_exchange_is_told_from_an_error(tmp_path, monkeypatch):
    write(tmp_path / "a", OLD)
    with pytest.raises(FileNotFoundError):
        folder_swap._exchange(tmp_path / "a", tmp_path / "none")

    def library(number: int) -> SimpleNamespace:
        return SimpleNamespace(renameat2=lambda *words: -1 if ctypes.set_errno(number) is not None else 0)

    for number, expected in ((errno.EINVAL, False), (errno.ENOSYS, False)):
        monkeypatch.setattr(ctypes, "CDLL", lambda *words, number=number, **options: library(number))
        assert folder_swap._exchange(tmp_path / "a", tmp_path / "b") is expected
    monkeypatch.setattr(ctypes, "CDLL", lambda *words, **options: library(errno.EBUSY))
    with pytest.raises(OSError, match="busy"):
        folder_swap._exchange(tmp_path / "a", tmp_path / "b")
    monkeypatch.setattr(ctypes, "CDLL", lambda *words, **options: SimpleNamespace())
    assert not folder_swap._exchange(tmp_path / "a", tmp_path / "b")


def test_only_what_is_ours_is_tidied_up(tmp_path):
    """Other names, other folders' leftovers, links, and folders without the marker stay."""
    place, ours = tmp_path / "out", tmp_path / ".out.1.eda-staging"
    write(ours, {"written-by-eda": "", "partial/a": "half"})
    write(tmp_path / ".other.1.eda-staging", {"written-by-eda": "", "partial/a": "half"})
    write(tmp_path / ".out.2.eda-staging", {"mine": "mine"})
    write(tmp_path / ".out.x.eda-staging", {"written-by-eda": "mine"})
    write(tmp_path / "elsewhere", {"written-by-eda": "mine"})
    (tmp_path / ".out.3.eda-staging").symlink_to(tmp_path / "elsewhere")
    before = {path.name for path in tmp_path.iterdir()}
    tidy(place, allow)
    assert {path.name for path in tmp_path.iterdir()} == before - {ours.name}
    assert content_of(tmp_path / "elsewhere") == {"written-by-eda": "mine"}


def test_somebodys_file_in_a_leftover_is_kept_and_named(tmp_path):
    place, left = tmp_path / "out", tmp_path / ".out.1.eda-staging"
    write(left, {"written-by-eda": "", "new/notes.txt": "mine"})

    def refuse(folder: Path) -> None:
        raise InputError(f"{folder}: contains notes")

    with pytest.warns(InputWarning, match=r"eda-staging/new: contains notes; an interrupted replacement left"):
        tidy(place, refuse)
    assert (left / "new" / "notes.txt").read_text() == "mine"


def test_the_staging_folder_is_not_visible(tmp_path):
    assert staging_folder(tmp_path / "out").name.startswith(".")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tidy(tmp_path / "out", allow)
