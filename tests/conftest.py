"""Shared by all tests."""

import eda  # noqa: F401 - before torch, which reads how its threads wait when it is loaded

from collections.abc import Iterator  # isort: skip

import pytest  # isort: skip
import torch  # isort: skip

# The tensors of the tests are small: a second thread costs more in hand-over than it brings.
torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def registries() -> Iterator[None]:
    """What a test registers is forgotten after it."""
    import eda.data.sources
    import eda.flow
    import eda.nn.protocol
    import eda.recipes

    tables: list[dict] = [eda.nn.protocol.NETWORKS, eda.flow.NOISES, eda.flow.SOLVERS, eda.recipes.RECIPES]
    tables.append(eda.data.sources._SOURCES)
    before = [dict(table) for table in tables]
    yield
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)
