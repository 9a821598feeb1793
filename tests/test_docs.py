"""The Python in docs/assemble.md runs as it stands, each snippet with what the reader has: clouds and their names."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from support.broken_stone import stone

from eda.assembly import AssembleConfig
from eda.output.result_files import PictureSizes

PAGE = Path(__file__).resolve().parents[1] / "docs" / "assemble.md"
SNIPPETS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def small(monkeypatch):
    """What the page leaves to the defaults is right, but slow."""
    module = sys.modules["eda.assembly.assemble"]
    monkeypatch.setattr(module, "AssembleConfig", lambda: AssembleConfig(samples=2, steps=1, solver="rk1"))
    small = PictureSizes(preview=48, frame=24, frames=2, last_frames=1)
    monkeypatch.setattr("eda.output.result_files.PictureSizes", lambda: small)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.splitlines()[0])
def test_the_page_on_assembling_can_be_copied(snippet, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pieces = stone(2, 1500)
    given = {
        "clouds": pieces.clouds(),
        "normals": None,
        "names": ["rim", "foot"],
        "pose": np.eye(4),
        "poses": np.tile(np.eye(4), (2, 1, 1)),
    }
    before = set(given)
    exec(compile(snippet, str(PAGE), "exec"), given)
    assert set(given) - before - {"__builtins__"}, "it made nothing"


def test_the_page_has_snippets():
    assert len(SNIPPETS) == 3
