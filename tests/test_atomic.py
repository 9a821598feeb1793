"""Files that are written whole or not at all; what a kill leaves of them is known by its name."""

import os
import subprocess
import sys

from eda.atomic import remove_partial_files, write_atomically

KILLED = """
import os, sys
from pathlib import Path
from eda.atomic import write_atomically
os.replace = lambda *names: os.kill(os.getpid(), 9)
write_atomically(Path(sys.argv[1]), b"new")
"""


def test_what_a_kill_leaves_is_removed_and_nothing_else(tmp_path):
    mine = [tmp_path / name for name in (".notes", ".draft.partial", "x.1.eda-partial")]
    for path in mine:
        path.write_text("mine")
    write_atomically(tmp_path / "state", b"old")
    before = sorted(os.listdir(tmp_path))
    subprocess.run([sys.executable, "-c", KILLED, tmp_path / "state"], check=False)
    assert len(os.listdir(tmp_path)) == len(before) + 1
    assert (tmp_path / "state").read_bytes() == b"old"
    remove_partial_files(tmp_path)
    assert sorted(os.listdir(tmp_path)) == before
