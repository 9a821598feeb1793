"""Sums, means, maxima and softmax over ragged groups.

`group` (R,) has the group of every row, in 0 .. count-1. The rows of one group need not be adjacent.
"""

import torch
from torch import Tensor


def segment_sum(values: Tensor, group: Tensor, count: int) -> Tensor:
    """The sum of every group; zero for an empty one. (R, ...) -> (count, ...)."""
    return values.new_zeros(count, *values.shape[1:]).index_add(0, group, values)


def segment_mean(values: Tensor, group: Tensor, count: int) -> Tensor:
    """The mean of every group; zero for an empty one. (R, ...) -> (count, ...)."""
    size = torch.bincount(group, minlength=count).clamp(min=1).to(values.dtype)
    return segment_sum(values, group, count) / size.reshape(-1, *[1] * (values.ndim - 1))


def segment_max(values: Tensor, group: Tensor, count: int) -> Tensor:
    """The maximum of every group; -inf for an empty one. (R, ...) -> (count, ...)."""
    index = group.reshape(-1, *[1] * (values.ndim - 1)).expand_as(values)
    start = values.new_full((count, *values.shape[1:]), -torch.inf)
    return start.scatter_reduce(0, index, values, reduce="amax")


def segment_softmax(logits: Tensor, group: Tensor, count: int) -> Tensor:
    """Positive weights that sum to one over every group. (R, ...) -> (R, ...)."""
    largest = segment_max(logits.detach(), group, count)
    weights = torch.exp(logits - largest[group])
    return weights / segment_sum(weights, group, count)[group]


def ranges(sizes: Tensor) -> Tensor:
    """The group of every row, for adjacent groups of these sizes: (2, 3) -> (0, 0, 1, 1, 1)."""
    return torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)


def starts(sizes: Tensor) -> Tensor:
    """The first row of every group, for adjacent groups of these sizes: (2, 3) -> (0, 2)."""
    return sizes.cumsum(0) - sizes


def padded_rows(sizes: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of adjacent groups of these sizes as a table (G, m), and which entries are present, not padding.

    A group is padded with its first row.
    """
    column = torch.arange(int(sizes.max()), device=sizes.device)
    present = column < sizes[:, None]
    return starts(sizes)[:, None] + torch.where(present, column, 0), present
