"""Files that commands write: what is refused before the work, and after it."""

import pytest
from support.full_disk import fail_without_space

from eda import InputError
from eda.cli.files import check_output_file, write_output_file


def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    old = tmp_path / "old.json"
    old.write_text("old")
    for path, message in ((tmp_path, "is a folder"), (tmp_path / "no" / "a", "does not exist"), (old, "--overwrite")):
        with pytest.raises(InputError, match=message):
            check_output_file(path, overwrite=False)
    check_output_file(old, overwrite=True)
    check_output_file(tmp_path / "new.json", overwrite=False)


def test_a_failure_leaves_the_old_file(tmp_path, monkeypatch):
    old = tmp_path / "old.json"
    write_output_file(old, b"old")

    monkeypatch.setattr("os.replace", fail_without_space)
    with pytest.raises(InputError, match=r"old\.json: cannot be written .*No space left"):
        write_output_file(old, b"new")
    assert old.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [old]
