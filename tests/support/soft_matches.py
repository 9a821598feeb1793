"""For tests of places that pieces share: puzzles, networks that match them, and matchings by hand and by chance."""

import itertools
from dataclasses import replace

import pytest
import torch
from support.lumpy_shapes import TINY_NETWORK, lumpy_cloud, seeded
from support.oracles import stirred
from torch import Tensor

from eda import SE3, Eda, EdaConfig, Pieces
from eda.graph import Across
from eda.nn.correspondences import HIDDEN, MatchScores
from eda.registration.hypotheses import PairHypotheses, find_hypotheses
from eda.registration.icp import Surface
from eda.registration.soft_correspondences import SoftCorrespondences

REACH = 0.5  # of matchings by hand
MATCHED = {"match_width": 8, "time_in_encoder": False}

of_both_kinds = pytest.mark.parametrize("complementary", [False, True])


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def puzzle_of(sizes: list[int], seed: int = 0, normals: bool = True) -> Pieces:
    clouds, directions = zip(*[lumpy_cloud(50 * seed + i, size) for i, size in enumerate(sizes)], strict=True)
    return Pieces.from_clouds(clouds, directions if normals else None, dtype=torch.float64)


def piece_alone(size: int) -> Pieces:
    """A puzzle of one piece, as pins leave it: nobody can ask for one directly."""
    two = puzzle_of([size, size], seed=9)
    rows = {"points": two.points[:size], "normals": two.normals[:size]}
    return replace(two, **rows, sizes=two.sizes[:1], counts=torch.tensor([1]), centers=two.centers[:1])


def times_of(pieces: Pieces) -> Tensor:
    return torch.linspace(0.2, 0.9, pieces.num_puzzles).double()


@torch.no_grad()
def model_of(boldness: float = 1.0, complementary: bool = False, **settings: object) -> Eda:
    """In float64, every weight stirred; places look much alike, so that many have a say in every fit. Of scans, judges
    are kind: of many pieces all pairs are judged, so that no arrangement would have a say else.
    """
    kind = {"matching": "complementary"} if complementary else {}
    network = replace(TINY_NETWORK, **{**MATCHED, **kind, **settings})
    model = stirred(Eda(EdaConfig(network, boldness=boldness)))
    if model.network.matcher:
        for projection in (model.network.matcher.looks, model.network.matcher.fits):
            for parameter in projection.parameters() if projection else ():
                parameter *= 0.3
    if model.network.motions and not network.is_complementary:
        model.network.motions.judge[-1].bias += 2.4
    return model


def pairs_of(counts: list[int]) -> list[tuple[int, int]]:
    """Every two pieces of puzzles of `counts` pieces."""
    begins = [0, *itertools.accumulate(counts)]
    return [pair for a, b in itertools.pairwise(begins) for pair in itertools.combinations(range(a, b), 2)]


def unit(vectors: Tensor) -> Tensor:
    return vectors / vectors.norm(dim=-1, keepdim=True)


# -- matchings of all puzzles of a batch ----------------------------------------------------------------------


def by_hand(
    places: list[Tensor], scores: list[Tensor], counts: list[int] | None = None, *, shared: list[Tensor] | None = None,
    normals: list[Tensor] | None = None, columns: int = 0, reach: float = REACH,
) -> MatchScores:  # fmt: skip
    """From the places (n, 3) of every piece and the scores (n, n') of every pair, in tables of `columns` or more."""
    counts, sizes = counts or [len(places)], [len(place) for place in places]
    begins = [0, *itertools.accumulate(sizes)]  # the first place of every piece
    ends = [begins[piece] for piece in [0, *itertools.accumulate(counts)]]  # and of every puzzle
    width = max(columns, *(b - a for a, b in itertools.pairwise(ends)))
    rows = torch.tensor([[a + (k if k < b - a else 0) for k in range(width)] for a, b in itertools.pairwise(ends)])
    present = torch.tensor([[k < b - a for k in range(width)] for a, b in itertools.pairwise(ends)])
    owner = torch.tensor([piece for piece, size in enumerate(sizes) for _ in range(size)])[rows]
    table = torch.full((len(counts), width, width), HIDDEN, dtype=torch.float64)
    puzzle = [b for b, count in enumerate(counts) for _ in range(count)]
    for (i, j), block in zip(pairs_of(counts), scores, strict=True):
        here, there = (slice(begins[p] - ends[puzzle[p]], begins[p + 1] - ends[puzzle[p]]) for p in (i, j))
        table[puzzle[i], here, there], table[puzzle[i], there, here] = block, block.T
    return MatchScores(
        points=torch.cat(places),
        normals=None if normals is None else torch.cat(normals),
        sizes=torch.tensor(sizes),
        counts=torch.tensor(counts),
        shared=torch.full((sum(sizes),), 3.0).double() if shared is None else torch.cat(shared),
        scores=table,
        across=Across(rows, present, (owner[:, :, None] != owner[:, None, :]) & present[:, None, :]),
        reach=reach,
    )


def at_random(sizes: list[int], counts: list[int] | None = None, *, columns: int = 0, seed: int = 0) -> MatchScores:
    """Places about as far from each other as the reach, with normals, and with scores of no meaning."""
    parts = [0.5 * drawn(n, 3, seed=seed + i) for i, n in enumerate(sizes)]
    normals = [unit(drawn(n, 3, seed=seed + 20 + i)) for i, n in enumerate(sizes)]
    scores = [drawn(sizes[i], sizes[j], seed=seed + 40 + 7 * i + j) for i, j in pairs_of(counts or [len(sizes)])]
    shared = [drawn(n, seed=seed + 90 + i) for i, n in enumerate(sizes)]
    return by_hand(parts, scores, counts, shared=shared, normals=normals, columns=columns)


# -- matches of one puzzle ------------------------------------------------------------------------------------


def table_of(rows: list[Tensor], width: int) -> Tensor:
    """Rows of different lengths, padded with the first of each."""
    return torch.stack([row[[*range(len(row)), *[0] * (width - len(row))]] for row in rows])


def matches_by_hand(
    places: list[Tensor], weights: list[Tensor], *, shared: list[Tensor] | None = None,
    normals: list[Tensor] | None = None, columns: int = 0, reach: float = REACH,
) -> SoftCorrespondences:  # fmt: skip
    """From the places (n, 3) of every piece and the weights (n, n') of every pair, in tables of `columns` or more."""
    width, pairs = max(columns, *map(len, places)), pairs_of([len(places)])
    wide = torch.zeros(len(pairs), width, width, dtype=torch.float64)
    for row, block in enumerate(weights):
        wide[row, : block.shape[0], : block.shape[1]] = block
    present = torch.tensor([[k < len(place) for k in range(width)] for place in places])
    likely = [torch.full((len(p),), 0.9).double() for p in places] if shared is None else shared
    first, second = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).unbind(1)
    return SoftCorrespondences(
        places=table_of(places, width),
        present=present,
        normals=None if normals is None else table_of(normals, width),
        shared=table_of(likely, width) * present,
        first=first,
        second=second,
        weights=wide,
        reach=reach,
    )


def matches_at_random(sizes: list[int], *, columns: int = 0, seed: int = 0) -> SoftCorrespondences:
    """Places about as far from each other as the reach, with normals, and with weights of no meaning."""
    parts = [0.5 * drawn(n, 3, seed=seed + i) for i, n in enumerate(sizes)]
    normals = [unit(drawn(n, 3, seed=seed + 20 + i)) for i, n in enumerate(sizes)]
    weights = [drawn(sizes[i], sizes[j], seed=seed + 40 + 7 * i + j).exp() / 90 for i, j in pairs_of([len(sizes)])]
    shared = [torch.sigmoid(drawn(n, seed=seed + 90 + i)) for i, n in enumerate(sizes)]
    return matches_by_hand(parts, weights, shared=shared, normals=normals, columns=columns)


def moved(matches: SoftCorrespondences, poses: SE3) -> SoftCorrespondences:
    """The same places in other frames, one pose (N,) for each piece."""
    normals = None if matches.normals is None else matches.normals @ poses.rotation.mT
    return replace(matches, places=poses.reshape(-1, 1).act(matches.places), normals=normals)


def swapped(matches: SoftCorrespondences) -> SoftCorrespondences:
    """Every pair the other way round."""
    return replace(matches, first=matches.second, second=matches.first, weights=matches.weights.mT)


def reordered(matches: SoftCorrespondences, order: list[int]) -> tuple[SoftCorrespondences, list[int], list[bool]]:
    """Piece k is what was piece order[k]. Also which pair each pair was, and whether it was the other way round."""
    old = {pair: row for row, pair in enumerate(pairs_of([len(order)]))}
    pieces = [(order[k], order[l]) for k, l in old]
    rows, turned = [old[min(pair), max(pair)] for pair in pieces], [i > j for i, j in pieces]
    weights = [matches.weights[row].T if back else matches.weights[row] for row, back in zip(rows, turned, strict=True)]
    of_pieces = {name: getattr(matches, name)[order] for name in ("places", "present", "normals", "shared")}
    return replace(matches, weights=torch.stack(weights), **of_pieces), rows, turned


def with_garbage(matches: SoftCorrespondences) -> SoftCorrespondences:
    """Whatever stands where there are no places."""
    present = matches.present[..., None]
    places, normals = (
        torch.where(present, of, size * drawn(*of.shape, seed=61 + row))
        for row, (of, size) in enumerate(((matches.places, 1.0), (matches.normals, 9.0)))
    )
    return replace(matches, places=places, normals=normals)


def centers_of(matches: SoftCorrespondences) -> Tensor:
    return torch.stack([p[present].mean(0) for p, present in zip(matches.places, matches.present, strict=True)])


def surfaces_of(matches: SoftCorrespondences, spacing: float = 0.3) -> tuple[Surface, ...]:
    """Of pieces that consist of their places, about as far from each other as places at random are."""
    normals = torch.zeros_like(matches.places) if matches.normals is None else matches.normals
    sides = zip(matches.places.double().numpy(), normals.double().numpy(), matches.present.numpy(), strict=True)
    return tuple(Surface(points[there], facing[there], spacing) for points, facing, there in sides)


def hypotheses_of(matches: SoftCorrespondences, complementary: bool, centers: Tensor | None = None) -> PairHypotheses:
    """What is proposed for one puzzle; scans consist of their places."""
    centers = centers_of(matches) if centers is None else centers
    return find_hypotheses(matches, centers, None if complementary else surfaces_of(matches))
