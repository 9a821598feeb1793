"""Shared by all tests."""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "20000")  # as the command line does; torch reads it when it is loaded

import pytest
import torch

# The tensors of the tests are small: a second thread costs more in hand-over than it brings.
torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
