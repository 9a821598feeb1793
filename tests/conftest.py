"""Shared by all tests."""

import eda  # noqa: F401 - before torch, which reads how its threads wait when it is loaded

import pytest  # isort: skip
import torch  # isort: skip

# The tensors of the tests are small: a second thread costs more in hand-over than it brings.
torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
