"""Shared by the tests of models on disk."""

import pytest
from support.lumpy_shapes import TINY
from support.model_files import NAME

from eda import Eda


@pytest.fixture(scope="module")
def model() -> Eda:
    return Eda(TINY, seed=3)


@pytest.fixture(scope="module")
def content(model, tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / NAME
    model.save(path)
    return path.read_bytes()
