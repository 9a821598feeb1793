"""For tests of Eda: tiny models of any precision."""

import dataclasses

import torch
from support.lumpy_shapes import TINY

from eda import Eda

SINGLE, DOUBLE = torch.float32, torch.float64


def model_of(dtype: torch.dtype = torch.float64, **options: object) -> Eda:
    network = dataclasses.replace(TINY.network, **options)
    return Eda(dataclasses.replace(TINY, network=network)).to(dtype)
