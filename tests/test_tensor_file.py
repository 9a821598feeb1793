"""Files of tensors: equal content is equal in bytes, and any reader of safetensors can read them."""

import os
import subprocess
import sys

import pytest
import torch
from safetensors import safe_open

from eda.tensor_file import tensor_file_bytes

TENSORS = {
    "weight": torch.arange(6.0).reshape(2, 3),
    "a": torch.tensor([1.5], dtype=torch.float64),
    "count": torch.tensor(3),
    "b": torch.tensor([0.5, 2.0], dtype=torch.bfloat16),
    "none": torch.zeros(0, 4),
    "flag": torch.tensor([True]),
}
TEXTS = {name: f'{{"{name}": "é"}}' for name in ("version", "format", "config", "progress", "checksum", "z", "y")}

IN_A_PROCESS = """
import sys, torch
from eda.tensor_file import tensor_file_bytes
names = list({"alpha", "beta", "gamma", "delta", "epsilon", "zeta"})  # in an order by chance
content = tensor_file_bytes({n: torch.full((2,), len(n)) for n in names}, {n: n.upper() for n in names})
sys.stdout.write(",".join(names) + " " + content.hex())
"""


def test_the_order_in_which_content_is_given_does_not_matter():
    backward = tensor_file_bytes(dict(reversed(TENSORS.items())), dict(reversed(TEXTS.items())))
    assert {tensor_file_bytes(TENSORS, TEXTS) for _ in range(20)} == {backward}


def test_processes_write_the_same_bytes():
    said = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        words = [sys.executable, "-c", IN_A_PROCESS]
        said.append(subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout.split())
    assert said[0][0] != said[1][0], "the test is of two orders"
    assert said[0][1] == said[1][1]


@pytest.mark.parametrize("texts", [TEXTS, {}])
def test_everything_comes_back(tmp_path, texts):
    path = tmp_path / "file.safetensors"
    path.write_bytes(tensor_file_bytes(TENSORS, texts))
    with safe_open(path, framework="pt") as file:
        assert (file.metadata() or {}) == texts
        assert set(file.keys()) == set(TENSORS)
        for name, tensor in TENSORS.items():
            found = file.get_tensor(name)
            assert found.dtype == tensor.dtype
            assert torch.equal(found, tensor)


def test_tensors_begin_where_a_word_of_memory_does():
    for length in range(9):
        content = tensor_file_bytes(TENSORS, {"text": "x" * length})
        assert int.from_bytes(content[:8], "little") % 8 == 0


def test_tensors_that_share_memory_are_two():
    tensor = torch.ones(3)
    assert tensor_file_bytes({"a": tensor, "b": tensor}, {}) == tensor_file_bytes(
        {"b": torch.ones(3), "a": torch.ones(3)}, {}
    )
