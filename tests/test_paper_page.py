"""What docs/paper.md refers to exists: every test file, and every name of the code."""

import importlib
import re
from functools import reduce
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
PAGE = (TESTS.parent / "docs" / "paper.md").read_text(encoding="utf-8")
QUOTED = sorted(set(re.findall(r"`([^`\n]+)`", PAGE)))
TEST_FILES = [text for text in QUOTED if re.fullmatch(r"([a-z_]+/)*test_\w+\.py", text)]
SETTINGS = ("optimizer.", "data.augmentation", "data.points", "data.draws", "model.")
NAMES = [
    text
    for text in QUOTED
    if re.fullmatch(r"[A-Za-z_]\w*(\.\w+)+", text) and not text.endswith(".py") and not text.startswith(SETTINGS)
]


@pytest.mark.parametrize("path", TEST_FILES)
def test_a_test_that_is_named_exists(path):
    assert (TESTS / path).is_file()


def found(name: str) -> object:
    """The object of this name below `eda`: the longest part that is a module, then attributes."""
    parts = ["eda", *name.split(".")]
    for size in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:size]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[size:], module)
    raise AssertionError(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_code_resolves(name):
    assert found(name) is not None


def test_settings_of_recipes_resolve():
    from eda.recipes import RECIPES

    config = RECIPES["scan-small"]()
    settings = [text for text in QUOTED if text.startswith(SETTINGS)]
    assert len(settings) > 8
    for setting in settings:
        reduce(getattr, setting.split("."), config)


def test_the_page_refers_to_much():
    assert len(TEST_FILES) > 30
    assert len(NAMES) > 30
