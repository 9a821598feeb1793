"""Shared by the tests of Eda."""

import pytest
from support.lumpy_shapes import lumpy_pieces
from support.tiny_models import model_of

from eda import Eda, Pieces


@pytest.fixture(scope="module")
def model() -> Eda:
    return model_of()


@pytest.fixture(scope="module")
def pieces() -> Pieces:
    return lumpy_pieces(3, 12)
