"""For tests of the compiled kernels: arguments of edge attention, how near results are, and processes that may die."""

import faulthandler
import math
import multiprocessing
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from support.closeness import assert_near_to_scale
from torch import Tensor

from eda import kernels
from eda.kernels import Edges

SINGLE, DOUBLE = torch.float32, torch.float64
KNOTS = 7
forks = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@dataclass(frozen=True)
class Case:
    """The arguments of the operator."""

    features: Tensor
    queries: Tensor
    vectors: Tensor
    neighbors: Tensor
    key_radial: Tensor
    value_radial: Tensor
    num_heads: int = 2

    @staticmethod
    def random(
        max_degree: int = 2,
        channels: int = 6,
        *,
        receivers: int = 7,
        senders: int = 9,
        k: int = 5,
        num_heads: int = 2,
        dtype: torch.dtype = DOUBLE,
        seed: int = 0,
    ) -> "Case":
        """Values of float32, in any precision. Some neighbours are missing, some edges have no length.

        The first receiver has no neighbours, the last one only such as lie where it lies.
        """
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator).to(dtype)

        L, M = max_degree, (max_degree + 1) ** 2
        neighbors = torch.randint(-1, senders, (receivers, k), generator=generator)
        neighbors[:1] = -1
        vectors = normal(receivers, k, 3)
        vectors[-1:] = 0
        vectors[receivers // 2, : k // 3] = 0
        spread = 1 / math.sqrt(M * (L + 1) * channels / num_heads)  # of queries, so that a logit is about one
        return Case(
            normal(senders, M, channels),
            normal(receivers, M, L + 1, channels) * spread,
            vectors,
            neighbors,
            normal(KNOTS, 2 * L + 1, channels),
            normal(KNOTS, 2 * L + 1, channels),
            num_heads,
        )

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (*self.leaves[:2], self.vectors, self.neighbors, *self.leaves[2:])

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        """What has gradients."""
        return self.features, self.queries, self.key_radial, self.value_radial

    def to(self, dtype: torch.dtype) -> "Case":
        tensors = (t.to(dtype) if t.is_floating_point() else t for t in self.tensors)
        return Case(*tensors, self.num_heads)

    def run(self, attend: Callable = kernels.edge_attention) -> Tensor:
        return attend(
            self.features,
            self.queries,
            Edges(self.neighbors, self.vectors),
            self.key_radial,
            self.value_radial,
            self.num_heads,
        )

    def results(self, attend: Callable = kernels.edge_attention) -> list[Tensor]:
        """The output, and the gradients of the leaves under a fixed pull."""
        leaves = [t.detach().clone().requires_grad_() for t in self.leaves]
        features, queries, key, value = leaves
        case = replace(self, features=features, queries=queries, key_radial=key, value_radial=value)
        out = case.run(attend)
        pull = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out)
        return [out.detach(), *torch.autograd.grad((out * pull).sum(), leaves)]


def out_of_order(tensor: Tensor) -> Tensor:
    """The same values with the strides of another order of axes."""
    axes = list(range(tensor.ndim))[::-1]
    return tensor.permute(axes).contiguous().permute(axes)


def scattered(case: Case) -> Case:
    return Case(*map(out_of_order, case.tensors), case.num_heads)


def assert_all_near_to_scale(found: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    """Each to a tolerance relative to its largest entry."""
    for one, two in zip(found, expected, strict=True):
        assert_near_to_scale(one.to(two), two, tolerance, smallest_scale=1e-30)


def assert_same(found: list[Tensor], expected: list[Tensor]) -> None:
    """Bit for bit."""
    assert all(torch.equal(one, two) for one, two in zip(found, expected, strict=True))


def refuse(*_: object) -> None:
    raise AssertionError("the compiled module was called")


def in_child(action: Callable[[], object]) -> object:
    """What an action returns, or the error it raises, in a forked process. It fails if that process dies."""
    fork = multiprocessing.get_context("fork")
    receiving, sending = fork.Pipe(duplex=False)

    def run() -> None:
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            sending.send(action())
        except Exception as error:
            sending.send(error)

    child = fork.Process(target=run)
    child.start()
    sending.close()
    try:
        result = receiving.recv() if receiving.poll(60) else "nothing for a minute"
    except EOFError:
        result = "died"
    child.join(5)
    if child.exitcode is None:
        child.kill()
        child.join()
    assert child.exitcode == 0, f"exit code {child.exitcode}: {result}"
    return result
