"""For tests of Eda: tiny models of any precision, two puzzles in one batch, and poses of any shape for them."""

import dataclasses

import torch
from support.lumpy_shapes import TINY, lumpy_pieces, seeded

from eda import SE3, Eda, Pieces
from eda.lie import so3

SINGLE, DOUBLE = torch.float32, torch.float64


def model_of(dtype: torch.dtype = torch.float64, **options: object) -> Eda:
    network = dataclasses.replace(TINY.network, **options)
    return Eda(dataclasses.replace(TINY, network=network)).to(dtype)


def poses_of(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> SE3:
    generator = seeded(seed)
    rotation = so3.random(*shape, generator=generator, dtype=dtype)
    return SE3(rotation, torch.randn(*shape, 3, generator=generator, dtype=dtype))


def two_puzzles() -> Pieces:
    return Pieces.collate([lumpy_pieces(3, 12), lumpy_pieces(2, 12, seed=1)])
