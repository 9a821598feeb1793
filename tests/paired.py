"""For tests of pairs of pieces: networks that have them, puzzles, and what pairs know there."""

from dataclasses import replace

import pytest
import torch
from places import assert_near, piece_alone, puzzle_of, times_of
from reference import stirred
from support.shapes import TINY_NETWORK
from torch import Tensor

from eda import Eda, EdaConfig, Pieces
from eda.nn.pairs import Pairs

VARIANTS = {
    "as it is": {},
    "coarse places": {"pair_level": 2},
    "encoder without time": {"time_in_encoder": False},
    "one look": {"pair_layers": 1},
    "no look": {"pair_layers": 0},
    "degree 1": {"max_degree": 1},
    "degree 3": {"max_degree": 3},
    "no normals": {"normals": "absent"},
}
in_all_variants = pytest.mark.parametrize("variant", VARIANTS)
with_and_without_time = pytest.mark.parametrize("variant", ["as it is", "encoder without time"])


def model_of(variant: str = "as it is", **options: object) -> Eda:
    """In float64, every weight stirred."""
    return stirred(Eda(EdaConfig(replace(TINY_NETWORK, pair_width=8, **{**VARIANTS[variant], **options}))))


def ragged() -> list[Pieces]:
    """Puzzles of 3, 1, 2 and 4 pieces."""
    return [puzzle_of([24, 31, 9], 0), piece_alone(20), puzzle_of([40, 6], 1), puzzle_of([5, 30, 12, 18], 2)]


@torch.no_grad()
def pairs_of(model: Eda, pieces: Pieces, tau: Tensor | None = None) -> Pairs:
    return model.network.encode(model.pyramid(pieces), times_of(pieces) if tau is None else tau).pairs


def known(pairs: Pairs) -> dict[tuple[int, int], tuple[Tensor, Tensor]]:
    """What every first piece knows of every second: vectors and scalars."""
    names = zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)
    return dict(zip(names, zip(pairs.vectors, pairs.scalars, strict=True), strict=True))


def assert_same_knowledge(a: dict, b: dict, atol: float = 1e-10) -> None:
    assert a.keys() == b.keys()
    for name in b:
        assert_near(a[name][0], b[name][0], atol)
        assert_near(a[name][1], b[name][1], atol)


def shifted(expected: dict, start: int) -> dict:
    return {(i + start, j + start): knowledge for (i, j), knowledge in expected.items()}
