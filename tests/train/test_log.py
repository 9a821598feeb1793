"""The log of a run: whole lines only, whatever happened to the disk or to the run before."""

import json
from io import FileIO
from pathlib import Path

import pytest

from eda import InputError
from eda.train import WriteError
from eda.train.log import LOG_FILE, RunLog, read_log


def entries(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / LOG_FILE).read_text().splitlines()]


def test_entries_are_appended(tmp_path):
    for log in (RunLog(tmp_path), RunLog(tmp_path)):
        log.append({"step": 1})
        log.append({"step": 2, "trouble": "é\n"})
    assert entries(tmp_path) == 2 * [{"step": 1}, {"step": 2, "trouble": "é\n"}]


@pytest.mark.parametrize("left", ["", '{"step": 1}\n', '{"step": 1}\n{"step": 2}\n'])
@pytest.mark.parametrize("half", ['{"step": 3, "lo', "{", '{"step": 3}'])
def test_half_a_line_of_a_killed_run_is_removed(tmp_path, left, half):
    (tmp_path / LOG_FILE).write_text(left + half)
    RunLog(tmp_path).append({"step": 9})
    assert (tmp_path / LOG_FILE).read_text() == left + '{"step": 9}\n'


@pytest.mark.parametrize("half", [b"", b'{"step": 3, "lo', b'{"step": 3}', '{"trouble": "é'.encode()[:-1]])
def test_a_log_is_read_without_the_half_line_at_its_end(tmp_path, half):
    whole = '{"step": 1}\n{"step": 2, "trouble": "é"}\n'.encode()
    (tmp_path / LOG_FILE).write_bytes(whole + half)
    assert read_log(tmp_path) == [{"step": 1}, {"step": 2, "trouble": "é"}]


@pytest.mark.parametrize("content", [None, b'{"step": 1\n{"step": 2}\n', b"3\n", b"\xff\n", b"[" * 100_000 + b"\n"])
def test_what_is_no_log_is_refused(tmp_path, content):
    if content is not None:
        (tmp_path / LOG_FILE).write_bytes(content)
    with pytest.raises(InputError, match=r"log\.jsonl: not the log of a training run"):
        read_log(tmp_path)


class AlmostFull(FileIO):
    """A disk that takes five bytes of a write, and no more."""

    def write(self, content: bytes) -> int:
        if len(content) > 5 and not content.startswith(b'{"ste'):
            raise OSError(28, "No space left on device")
        return super().write(content[:5])


def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    log = RunLog(tmp_path)
    log.append({"step": 1})
    with monkeypatch.context() as patched:
        patched.setattr("eda.train.log.FileIO", AlmostFull)
        with pytest.raises(WriteError, match=f"{LOG_FILE}: cannot be written .No space left on device"):
            log.append({"step": 2})
    assert entries(tmp_path) == [{"step": 1}]
    log.append({"step": 3})
    assert entries(tmp_path) == [{"step": 1}, {"step": 3}]


def test_a_device_that_is_always_full(tmp_path):
    (tmp_path / LOG_FILE).symlink_to("/dev/full")
    with pytest.raises(WriteError, match="free some space and run the same command again"):
        RunLog(tmp_path).append({"step": 1})
