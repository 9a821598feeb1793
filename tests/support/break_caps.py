"""For tests of the focus: pieces of which a cap lies on a break, as a break head might say."""

import numpy as np
import torch
from support.lumpy_shapes import lumpy_pieces

from eda import Pieces


def cap_of(pieces: Pieces, share: float = 0.1) -> torch.Tensor:
    """(P,) the points of every piece that lie farthest along its x axis, about this share of them."""
    along = pieces.points[:, 0].double().split(pieces.sizes.tolist())
    return torch.cat([x > x.quantile(1 - share) for x in along])


def dense_batch(first_size: int = 300, second_size: int = 200, *, normals: bool = True) -> Pieces:
    """A puzzle of 3 pieces and one of 2, in float64, of about so many points a piece."""
    return Pieces.collate(
        [lumpy_pieces(3, first_size, normals=normals), lumpy_pieces(2, second_size, seed=1, normals=normals)]
    )


def shuffled_points(pieces: Pieces, seed: int = 0) -> torch.Tensor:
    """(P,) another order of the points, each within its piece."""
    rng, ends = np.random.default_rng(seed), pieces.sizes.cumsum(0).tolist()
    rows = [rng.permutation(np.arange(end - size, end)) for size, end in zip(pieces.sizes.tolist(), ends, strict=True)]
    return torch.from_numpy(np.concatenate(rows))


def points_by_piece(pieces: Pieces) -> list[set[tuple[float, ...]]]:
    """Of every piece, the set of its points, for clouds of which only the order differs."""
    return [set(map(tuple, cloud.tolist())) for cloud in pieces.points.split(pieces.sizes.tolist())]


def rows_in(dense: Pieces, few: Pieces) -> list[int]:
    """The rows of `dense` that the points of `few` are; every one must be there, bit for bit, in its piece."""
    places = zip(dense.piece_of_point.tolist(), dense.points.tolist(), strict=True)
    rows = {(piece, *point): row for row, (piece, point) in enumerate(places)}
    return [
        rows[(piece, *point)] for piece, point in zip(few.piece_of_point.tolist(), few.points.tolist(), strict=True)
    ]
