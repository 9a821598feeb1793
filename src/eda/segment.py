"""Sums, means, maxima and softmax over ragged groups.

A group is named by an index per row, `group` (R,) with values in 0 .. count-1; rows of one group need not be adjacent.
"""

import torch
from torch import Tensor


def segment_sum(values: Tensor, group: Tensor, count: int) -> Tensor:
    """(R, ...) -> (count, ...); an empty group sums to zero."""
    return values.new_zeros(count, *values.shape[1:]).index_add(0, group, values)


def segment_mean(values: Tensor, group: Tensor, count: int) -> Tensor:
    """(R, ...) -> (count, ...); an empty group has mean zero."""
    size = torch.bincount(group, minlength=count).clamp(min=1).to(values.dtype)
    return segment_sum(values, group, count) / size.reshape(-1, *[1] * (values.ndim - 1))


def segment_max(values: Tensor, group: Tensor, count: int) -> Tensor:
    """(R, ...) -> (count, ...); an empty group has maximum -inf."""
    index = group.reshape(-1, *[1] * (values.ndim - 1)).expand_as(values)
    start = values.new_full((count, *values.shape[1:]), -torch.inf)
    return start.scatter_reduce(0, index, values, reduce="amax")


def segment_softmax(logits: Tensor, group: Tensor, count: int) -> Tensor:
    """Weights (R, ...) that are positive and sum to one over every group."""
    largest = segment_max(logits.detach(), group, count)
    weights = torch.exp(logits - largest[group])
    return weights / segment_sum(weights, group, count)[group]


def ranges(sizes: Tensor) -> Tensor:
    """The group of every row when groups of these sizes lie one after the other: (2, 3) -> (0, 0, 1, 1, 1)."""
    return torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)


def starts(sizes: Tensor) -> Tensor:
    """Where each group begins: (2, 3) -> (0, 2)."""
    return sizes.cumsum(0) - sizes


def padded(sizes: Tensor, least: int = 0) -> tuple[Tensor, Tensor]:
    """Groups of these sizes, one after the other, as a table: the rows (G, m) of each, and which are not padding.

    What is padded is a group's first row. The table has `least` columns or more.
    """
    column = torch.arange(max(int(sizes.max()), least), device=sizes.device)
    present = column < sizes[:, None]
    return starts(sizes)[:, None] + torch.where(present, column, 0), present
