"""What a network learns beside the flow: breaks, correspondences and relative poses, or a loss of the user's own.

In: a network and a puzzle with its labels. Out: unweighted losses by the names of `TrainingLoss`, and the tokens that
an `EdaNetwork` encoded for them, so that the flow need not encode again.
"""

from __future__ import annotations

from torch import Tensor, nn

from eda.graph import Pyramid
from eda.nn import EdaNetwork, Tokens, hypothesis_loss, matching_loss
from eda.nn.protocol import AuxiliaryLoss, Labels
from eda.pieces import Puzzle
from eda.segment import segment_max


def custom_auxiliary_losses(network: nn.Module, puzzle: Puzzle, labels: Labels) -> dict[str, Tensor]:
    """The loss that a network of the user's own adds, if it does."""
    return {"auxiliary": network.auxiliary_loss(puzzle, labels)} if isinstance(network, AuxiliaryLoss) else {}


def auxiliary_losses(
    network: EdaNetwork, pyramid: Pyramid, puzzle: Puzzle, labels: Labels, *, with_flow: bool
) -> tuple[dict[str, Tensor], Tokens | None]:
    """The losses that apply to this network and these labels; the tokens of an encoder without time, if it ran.

    Relative poses are proposed only for the flow: without it, they are not learned.
    """
    losses: dict[str, Tensor] = {}
    on_break = None if network.breaks is None else labels.on_break
    if on_break is None and network.matcher is None:
        return losses, None
    # An encoder that sees tau is read at tau = 1 by the break head; a time-free one runs once for all.
    levels = network.descend(pyramid, pyramid.pieces.points.new_ones(pyramid.pieces.num_puzzles))
    matching, arrangements = network.match(pyramid, levels), None
    if on_break is not None:
        losses["breaks"] = _break_loss(network, pyramid, levels, on_break)
    if matching is not None:
        losses["matches"] = matching_loss(matching, puzzle.solution, labels.own)
    graph = None
    if matching is not None and network.synchronising is not None and with_flow:
        graph = network.link(pyramid, matching)
    if matching is not None and network.motions is not None and with_flow:
        hypotheses = network.hypothesize(pyramid, matching)
        arrangements, scores = network.arrange(pyramid, hypotheses), network.motions.pair_scores
        losses["motions"] = hypothesis_loss(scores, hypotheses, arrangements, puzzle.solution, labels.own)
    if network.config.time_in_encoder or not with_flow:
        return losses, None
    return losses, network.tokens(pyramid, levels, arrangements, graph)


def _break_loss(network: EdaNetwork, pyramid: Pyramid, levels: list[Tensor], on_break: Tensor) -> Tensor:
    """The cross-entropy over the points of puzzles without a focus: where points are dense says where breaks are."""
    logits = network.break_logits(pyramid, levels)
    labels = on_break[pyramid.order].to(logits.dtype)
    if pyramid.pieces.focus is None:
        return nn.functional.binary_cross_entropy_with_logits(logits, labels)
    pieces = pyramid.pieces
    puzzle = pieces.puzzle_of_piece[pieces.piece_of_point]
    told = segment_max(pieces.focus_mask.to(logits.dtype), puzzle, pieces.num_puzzles)[puzzle] > 0
    loss = nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return (loss * ~told).sum() / (~told).sum().clamp(min=1)
