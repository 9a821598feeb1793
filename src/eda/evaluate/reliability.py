"""Whether the probabilities of a system come true: every claim it makes, and whether it is right.

    joint      two pieces that touch lie rightly to each other
    piece      a placed piece belongs to the body, the largest group of at least two that lie rightly to one of them
    assembly   all placed pieces do

So an assembly is right just if all its pieces are, and two pieces are right just if their joint is. Which pairs lie
rightly is said by the protocol (`pairs_right`). A claim about a foreign piece is wrong. Where nothing is placed,
nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from eda.evaluate.answers import Answer
from eda.evaluate.protocols import Protocol, body_of, pairs_right, size_of
from eda.metrics import brier_score, expected_calibration_error, reliability_bins

Claims = dict[str, list[tuple[float, bool]]]  # kind -> probability, right
KINDS = ("assembly", "piece", "joint")
COLORS = {"assembly": "#c0392b", "piece": "#2471a3", "joint": "#1e8449"}


def claims_of(answer: Answer, protocol: Protocol) -> Claims:
    """What the only assembly of an answer claims."""
    confidence, placed = answer.confidence, answer.placed
    assert confidence is not None
    assert placed is not None
    is_placed = placed[0, 0]
    pairs = _pairs_right(answer, protocol)
    pieces = body_of(pairs, is_placed)
    rows = np.flatnonzero(is_placed)
    joints = np.argwhere(np.triu(confidence.joints, 1) > 0)
    return {
        "assembly": [(float(confidence.whole), bool(pieces[rows].all()))] if len(rows) else [],
        "piece": [(float(confidence.pieces[i]), bool(pieces[i])) for i in rows],
        "joint": [(float(confidence.joints[i, j]), bool(pairs[i, j])) for i, j in joints],
    }


def _pairs_right(answer: Answer, protocol: Protocol) -> np.ndarray:
    """(N, N) which pairs are right; those with a foreign piece never are."""
    own, puzzle = answer.puzzle.own.numpy(), answer.puzzle
    clouds = puzzle.clouds()
    pairs = np.zeros((len(clouds), len(clouds)), dtype=bool)
    size = size_of([clouds[i] for i in own])
    pairs[np.ix_(own, own)] = pairs_right(protocol, answer.poses[0, 0][own], puzzle.solution[own], size)
    return pairs


def pool_claims(every: Iterable[Claims]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of each kind that was claimed at all, the probabilities (n,) and whether right (n,)."""
    pooled: dict[str, list[tuple[float, bool]]] = {kind: [] for kind in KINDS}
    for claims in every:
        for kind in KINDS:
            pooled[kind] += claims[kind]
    columns = {kind: np.array(rows, dtype=np.float64).reshape(-1, 2) for kind, rows in pooled.items() if rows}
    return {kind: (rows[:, 0], rows[:, 1]) for kind, rows in columns.items()}


def reliability(pooled: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """Of each kind: how many claims, how they come true, and the table by bins of probability, for JSON."""
    return {
        kind: {
            "number": len(right),
            "share_right": float(right.mean()),
            "mean_probability": float(probability.mean()),
            "calibration_error": expected_calibration_error(probability, right),
            "brier": brier_score(probability, right),
            "bins": [row._asdict() for row in reliability_bins(probability, right)],
        }
        for kind, (probability, right) in pooled.items()
    }


def diagram(pooled: Mapping[str, tuple[np.ndarray, np.ndarray]], bins: int = 5) -> str:
    """SVG: how often what was given a probability is right, a curve for each kind, the area of a dot by its number."""
    size = 300
    parts = [f'<path d="M0 0V{size}H{size}V0ZM0 {size}L{size} 0" fill="none" stroke="#999"/>']
    for row, (kind, (probability, right)) in enumerate(pooled.items()):
        color = COLORS[kind]
        dots = [
            (size * b.mean_probability, size * (1 - b.share_right), 3 + 12 * (b.number / len(right)) ** 0.5)
            for b in reliability_bins(probability, right, bins)
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in dots)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}" fill="{color}" opacity="0.5"/>' for x, y, r in dots]
        parts.append(f'<text x="8" y="{18 * (row + 1)}" fill="{color}">{kind} ({len(right)})</text>')
    parts.append(f'<text x="{size / 2}" y="{size + 24}" text-anchor="middle">probability</text>')
    parts.append(f'<text transform="rotate(-90)" x="{-size / 2}" y="-12" text-anchor="middle">share right</text>')
    box = f'viewBox="-40 -20 {size + 60} {size + 60}" width="{size + 60}" font-family="sans-serif" font-size="13"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {box}>', *parts, "</svg>", ""])
