"""For tests of places that pieces share: puzzles, networks that match them, and matchings by hand and by chance."""

import itertools
from dataclasses import replace

import torch
from reference import random_motions, stirred
from shapes import TINY_NETWORK, lumpy_cloud
from torch import Tensor

from eda import SE3, Eda, EdaConfig, Pieces
from eda.nn.matching import HIDDEN, Matching

REACH = 0.5  # of matchings by hand
MATCHED = {"match_width": 8, "time_in_encoder": False}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def poses_of(count: int, seed: int = 0, spread: float = 0.7) -> SE3:
    return SE3.from_matrix(random_motions(count, seed, spread))


def puzzle_of(sizes: list[int], seed: int = 0, normals: bool = True) -> Pieces:
    clouds, directions = zip(*[lumpy_cloud(50 * seed + i, size) for i, size in enumerate(sizes)], strict=True)
    return Pieces.from_clouds(clouds, directions if normals else None, dtype=torch.float64)


@torch.no_grad()
def model_of(boldness: float = 1.0, **settings: object) -> Eda:
    """In float64, every weight stirred; places look much alike, so that many have a say in every fit."""
    network = replace(TINY_NETWORK, **{**MATCHED, **settings})
    model = stirred(Eda(EdaConfig(network, boldness=boldness)))
    if model.network.matcher:
        for parameter in model.network.matcher.looks.parameters():
            parameter *= 0.3
    return model


def pairs_of(counts: list[int]) -> list[tuple[int, int]]:
    """Every two pieces of puzzles of `counts` pieces."""
    begins = [0, *itertools.accumulate(counts)]
    return [pair for a, b in itertools.pairwise(begins) for pair in itertools.combinations(range(a, b), 2)]


def assert_near(a: Tensor, b: Tensor, atol: float = 1e-10) -> None:
    assert b.abs().max() > 1e-3  # zero would satisfy every law
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


# -- matchings --------------------------------------------------------------------------------------------


def table(rows: list[Tensor], width: int) -> Tensor:
    """Rows of different lengths, padded with the first of each."""
    return torch.stack([row[[*range(len(row)), *[0] * (width - len(row))]] for row in rows])


def by_hand(
    places: list[Tensor], scores: list[Tensor], counts: list[int] | None = None, *, shared: list[Tensor] | None = None,
    normals: list[Tensor] | None = None, columns: int = 0, reach: float = REACH,
) -> Matching:  # fmt: skip
    """From the places (n, 3) of every piece and the scores (n, n') of every pair, in a table of `columns` or more."""
    width, pairs = max(columns, *map(len, places)), pairs_of(counts or [len(places)])
    padded_scores = torch.full((len(pairs), width, width), HIDDEN, dtype=torch.float64)
    for row, block in enumerate(scores):
        padded_scores[row, : block.shape[0], : block.shape[1]] = block
    first, second = torch.tensor(pairs).unbind(1)
    return Matching(
        places=table(places, width),
        present=torch.tensor([[i < len(place) for i in range(width)] for place in places]),
        normals=None if normals is None else table(normals, width),
        shared=table([torch.full((len(p),), 3.0).double() for p in places] if shared is None else shared, width),
        first=first,
        second=second,
        scores=padded_scores,
        reach=reach,
    )


def unit(vectors: Tensor) -> Tensor:
    return vectors / vectors.norm(dim=-1, keepdim=True)


def at_random(sizes: list[int], counts: list[int] | None = None, *, columns: int = 0, seed: int = 0) -> Matching:
    """Places about as far from each other as the reach, with normals, and with scores of no meaning."""
    parts = [0.5 * drawn(n, 3, seed=seed + i) for i, n in enumerate(sizes)]
    normals = [unit(drawn(n, 3, seed=seed + 20 + i)) for i, n in enumerate(sizes)]
    scores = [drawn(sizes[i], sizes[j], seed=seed + 40 + 7 * i + j) for i, j in pairs_of(counts or [len(sizes)])]
    shared = [drawn(n, seed=seed + 90 + i) for i, n in enumerate(sizes)]
    return by_hand(parts, scores, counts, shared=shared, normals=normals, columns=columns)


def moved(matching: Matching, poses: SE3) -> Matching:
    """The same places in other frames, one pose (N,) for each piece."""
    normals = matching.normals @ poses.rotation.mT
    return replace(matching, places=poses.reshape(-1, 1).act(matching.places), normals=normals)


def swapped(matching: Matching) -> Matching:
    return replace(matching, first=matching.second, second=matching.first, scores=matching.scores.mT)


def centers_of(matching: Matching) -> Tensor:
    return torch.stack([p[present].mean(0) for p, present in zip(matching.places, matching.present, strict=True)])
