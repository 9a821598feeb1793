"""Scoring: the answers of a network, of the assembler, or of any other system against the truth.

In: answers, one after the other. Out: an `Evaluation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from eda.errors import InputError
from eda.evaluate.answers import Answer
from eda.evaluate.groups import PROPERTIES
from eda.evaluate.protocols import PROTOCOLS, Protocol, placement_figures
from eda.evaluate.records import Record, Unplaced
from eda.evaluate.reliability import claims_of
from eda.evaluate.summary import Evaluation
from eda.lie import SE3
from eda.settings import check_choice


def evaluate(
    answers: Iterable[Answer],
    protocol_name: str = "pairwise",
    *,
    by: Sequence[str] = ("pieces",),
    finished: Sequence[Record] = (),
    keep: Callable[[Record], None] = lambda record: None,
) -> Evaluation:
    """Score answers as they come, beside records that are `finished` already; `keep` gets every new record."""
    check_choice("protocol", protocol_name, tuple(PROTOCOLS))
    records = list(finished)
    for answer in answers:  # their clouds are let go: a source may be larger than the memory
        record = score_answer(answer, protocol_name, by)
        keep(record)
        records.append(record)
    _check_alike(records)
    return Evaluation(protocol_name, sorted(records, key=lambda record: record.index))


def score_answer(answer: Answer, protocol_name: str = "pairwise", by: Sequence[str] = ("pieces",)) -> Record:
    """The figures of one answer. Foreign pieces are left out of them."""
    protocol, puzzle = PROTOCOLS[protocol_name], answer.puzzle
    if protocol.score is None:
        raise InputError(f"the protocol {protocol_name!r} does not score assemblies: use evaluate_breaks")
    return Record(
        index=puzzle.index,
        name=puzzle.example.name,
        num_pieces=len(puzzle.own),
        figures=_figures(protocol, answer),
        groups={name: PROPERTIES[name](puzzle.example) for name in by},
        poses=answer.poses,
        seconds=answer.seconds,
        unplaced=_unplaced(answer),
        claims=None if answer.confidence is None else claims_of(answer, protocol),
        model=answer.model,
    )


def _figures(protocol: Protocol, answer: Answer) -> dict[str, np.ndarray]:
    """Every figure as (R, K)."""
    assert protocol.score is not None
    own, solution, clouds = answer.puzzle.own, answer.puzzle.solution, answer.puzzle.clouds()
    solution, clouds = solution[own], [clouds[i] for i in own]
    shape, count = answer.poses.shape[:2], answer.poses.shape[-1]
    every = np.ones(answer.poses.shape, dtype=bool) if answer.placed is None else answer.placed
    scores = []
    for poses, placed in zip(_each(answer.poses), every.reshape(-1, count), strict=True):
        mine = placed[own.numpy()]
        score = protocol.score(poses[own], solution, clouds, mine)
        scores.append(score if answer.placed is None else score | placement_figures(poses[own], solution, mine))
    return {name: np.array([score[name] for score in scores]).reshape(shape) for name in scores[0]}


def _each(poses: SE3) -> list[SE3]:
    """The assemblies (N,) of poses (R, K, N)."""
    flat = poses.reshape(-1, poses.shape[-1])
    return [flat[i] for i in range(len(flat))]


def _unplaced(answer: Answer) -> Unplaced | None:
    if answer.placed is None:
        return None
    own, left = answer.puzzle.example.own, ~answer.placed[0, 0]
    return Unplaced(int(left[own].sum()), int(own.sum()), int(left[~own].sum()), int((~own).sum()))


def _check_alike(records: list[Record]) -> None:
    if not records:
        raise InputError("no puzzles to evaluate on")
    shapes = {next(iter(record.figures.values())).shape for record in records}
    if len(shapes) > 1:
        raise InputError(f"all puzzles need as many repeats and samples as the others, got {sorted(shapes)}")
