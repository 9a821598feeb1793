"""Shared by the tests of the training loop."""

import pytest
from support.small_datasets import dataset_of, lumpy_example

from eda.data import Dataset


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    examples = [lumpy_example(i, 2 + i % 2, 24) for i in range(10)]
    return dataset_of(tmp_path_factory.mktemp("train") / "data", examples)
