"""Functions of groups run in the precision of their inputs, even if the network around them runs under autocast."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])


def full_precision(function: Function) -> Function:
    """`function` with autocast off: a bfloat16 rotation has an error of 0.4 %, which would add up along the flow."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        device = _device_type((*args, *kwargs.values()))
        if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
            return function(*args, **kwargs)
        with torch.autocast(device, enabled=False):
            return function(*args, **kwargs)

    return wrapped  # type: ignore[return-value]


def _device_type(args: tuple[Any, ...]) -> str:
    for value in args:
        tensor = value if isinstance(value, Tensor) else getattr(value, "rotation", None)
        if tensor is not None:
            return tensor.device.type
    return "cpu"
