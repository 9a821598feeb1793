"""The lock of a folder: one holder at a time, and none that outlives its process."""

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eda import InputError
from eda.folder_lock import FolderLock

HOLDER = """
import sys, time
from pathlib import Path
from eda.folder_lock import FolderLock
with FolderLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of the folder `run`."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path / "run"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_only_one_process_holds_it(tmp_path, holder):
    message = rf"run: another process \({holder.pid}\) is writing there; .*choose another folder"
    with pytest.raises(InputError, match=message), FolderLock(tmp_path / "run"):
        pass
    with FolderLock(tmp_path / "another"):
        pass


def test_it_ends_with_a_kill(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with FolderLock(tmp_path / "run") as lock:
        assert lock.exclusive
    assert list(tmp_path.iterdir()) == []


def test_one_process_does_not_hold_it_twice_and_may_take_it_again(tmp_path):
    for _ in range(2):
        with FolderLock(tmp_path / "run"):
            with pytest.raises(InputError, match=rf"another process \({os.getpid()}\)"), FolderLock(tmp_path / "run"):
                pass
            assert [path.name for path in tmp_path.iterdir()] == [".run.eda-lock"]
    assert list(tmp_path.iterdir()) == []


def test_links_lead_to_the_same_lock(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with FolderLock(tmp_path / "run"), pytest.raises(InputError, match="link: another"), FolderLock(tmp_path / "link"):
        pass


def test_a_child_process_does_not_keep_it(tmp_path):
    """An orphan of a killed run, such as one that loads data, must not stand in the way of the next run."""
    context = multiprocessing.get_context("fork")
    ended = context.Event()
    with FolderLock(tmp_path / "run"):
        child = context.Process(target=ended.wait)
        child.start()
    with FolderLock(tmp_path / "run"):
        pass
    ended.set()
    child.join()


def test_a_holder_that_goes_away_meanwhile_leaves_no_lock_without_a_name(tmp_path, monkeypatch):
    """The file may be removed between opening and locking it; two processes would then hold two files."""
    lock, first = FolderLock(tmp_path / "run"), FolderLock(tmp_path / "run")
    opened = FolderLock._open

    def late(self: FolderLock) -> int:
        descriptor = opened(self)
        monkeypatch.setattr(FolderLock, "_open", opened)
        first.__exit__(None, None, None)
        return descriptor

    first.__enter__()
    monkeypatch.setattr(FolderLock, "_open", late)
    with lock, pytest.raises(InputError, match="another process"), FolderLock(tmp_path / "run"):
        pass


def test_folders_above_are_created_and_go_again_if_nothing_was_written(tmp_path):
    with FolderLock(tmp_path / "a" / "b" / "run"):
        assert (tmp_path / "a" / "b").is_dir()
    assert list(tmp_path.iterdir()) == []
    with FolderLock(tmp_path / "a" / "b" / "run"):
        (tmp_path / "a" / "b" / "run").mkdir()
    assert (tmp_path / "a" / "b" / "run").is_dir()


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="a file system that takes nothing is needed")
def test_beside_a_folder_where_nothing_can_be_created_the_folder_itself_is_locked():
    folder = Path("/proc/self/fd")
    with FolderLock(folder) as lock:
        assert lock.exclusive
        with pytest.raises(InputError, match="another process is writing"), FolderLock(folder):
            pass
    with pytest.raises(InputError, match="none: cannot be created"), FolderLock(Path("/proc/none")):
        pass
