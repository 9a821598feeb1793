"""For tests of networks that match places: settings and puzzles, the fields there, and what is matched and proposed."""

from functools import cache

import numpy as np
import torch
from support.oracles import twist_matrix
from support.rigid_motions import random_se3
from support.soft_matches import model_of, puzzle_of, times_of
from torch import Tensor

from eda import SE3, Eda, Pieces
from eda.nn.correspondences import MatchScores
from eda.registration.hypotheses import PairHypotheses, find_hypotheses
from eda.registration.icp import Surface


def ragged() -> list[Pieces]:
    """Puzzles of 3, 2 and 5 pieces of 10 to 22 places."""
    return [puzzle_of([60, 71, 48], 0), puzzle_of([88, 50], 1), puzzle_of([48, 80, 52, 64, 40], 2)]


def small() -> list[Pieces]:
    """Pieces of few places beside those of many: a wide table, of which most is padding."""
    return [puzzle_of([24, 31, 9], 0), puzzle_of([90, 100], 1), puzzle_of([5, 30, 12, 18, 11], 2)]


COMPLEMENTARY = {"matching": "complementary", "spacing": 0.15}
SYNCHRONISING = {"pose_field": "synchronising"}
CASES = {
    "as it is": ({}, ragged),
    "complementary": (COMPLEMENTARY, ragged),
    "coarse places": ({"match_level": 2}, ragged),
    "degree 1, complementary": ({"max_degree": 1, **COMPLEMENTARY}, ragged),
    "unoriented normals, no look": ({"normals": "unoriented", "match_layers": 0}, ragged),
    "no normals": ({"normals": "absent"}, ragged),
    "no normals, complementary": ({"normals": "absent", **COMPLEMENTARY}, ragged),
    "all pairs across": ({"cross_neighbors": None}, ragged),
    "with a break head": ({"break_head": True}, ragged),
    "boldly, complementary": ({"boldness": 30.0, **COMPLEMENTARY}, ragged),
    "small pieces": ({}, small),
    "small pieces, complementary": (COMPLEMENTARY, small),
    "sparse pieces": ({"spacing": 0.046}, ragged),
    "sparse pieces, complementary": ({**COMPLEMENTARY, "spacing": 0.054}, ragged),
    "pieces too sparse for any motion": ({"spacing": 0.02}, ragged),
    "synchronising": (SYNCHRONISING, ragged),
    "synchronising, complementary": ({**SYNCHRONISING, **COMPLEMENTARY}, ragged),
    "synchronising, unoriented normals": ({**SYNCHRONISING, "normals": "unoriented"}, ragged),
    "synchronising, no normals": ({**SYNCHRONISING, "normals": "absent"}, ragged),
    "synchronising, small pieces": ({**SYNCHRONISING, **COMPLEMENTARY}, small),
}


@torch.no_grad()
def field_of(model: Eda, pieces: Pieces, poses: SE3, tau: Tensor | None = None) -> Tensor:
    """v_X(g) = f(gX) g as 4 x 4 matrices, as samples follow it."""
    field = model.field(pieces, boldness=model.config.boldness)
    return twist_matrix(field(poses, times_of(pieces) if tau is None else tau)) @ poses.matrix()


@cache
def known(case: str) -> tuple[Eda, Pieces, SE3, Tensor]:
    """A model, its pieces, their poses and the field there."""
    settings, batch = CASES[case]
    model, pieces, poses = model_of(**settings), Pieces.collate(batch()), random_se3(10, spread=0.7)
    return model, pieces, poses, field_of(model, pieces, poses)


# -- what places and motions there are ---------------------------------------------------------------------


def matched(model: Eda, pieces: Pieces) -> MatchScores:
    pyramid = model.pyramid(pieces)
    return model.network.match(pyramid, model.network.descend(pyramid, None))


def proposed(model: Eda, pieces: Pieces) -> list[PairHypotheses]:
    """Puzzle by puzzle, with the centres of its pieces."""
    centers = torch.stack([cloud.mean(0) for cloud in pieces.points.split(pieces.sizes.tolist())])
    each = zip(
        matched(model, pieces).puzzles(), centers.split(pieces.counts.tolist()), surfaces(model, pieces), strict=True
    )
    return [find_hypotheses(matches, at, lying) for matches, at, lying in each]


def surfaces(model: Eda, pieces: Pieces) -> list[tuple[Surface, ...] | None]:
    """Of every puzzle; of complementary pieces there are none. Without normals, all are zero."""
    config, begin, found = model.config.network, 0, []
    ends = pieces.sizes.cumsum(0)[:-1].tolist()
    sides = [pieces.points, torch.zeros_like(pieces.points) if config.normals == "absent" else pieces.normals]
    clouds = list(zip(*(np.split(of.double().numpy(), ends) for of in sides), strict=True))
    for count in pieces.counts.tolist():
        own = clouds[begin : begin + count]
        found.append(None if config.is_complementary else tuple(Surface(*one, config.spacing) for one in own))
        begin += count
    return found
