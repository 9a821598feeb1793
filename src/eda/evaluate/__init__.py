"""Judging a model: does it keep the laws it is built on, and how well does it assemble?

source of puzzles ─► PuzzleSet ─► AnswerSource ─► evaluate (by a protocol) ─► Evaluation ─► summarize ─► tables
                                  network, assembler or predictions
"""

from eda.evaluate.answers import Answer, AnswerSource, Confidence
from eda.evaluate.assembler_answers import AssemblerAnswers, fill_unplaced
from eda.evaluate.breaks import evaluate_breaks
from eda.evaluate.equivariance import EquivarianceReport, LawResult, check_equivariance
from eda.evaluate.groups import PROPERTIES
from eda.evaluate.network_answers import NetworkAnswers, Sampling, suitable_model
from eda.evaluate.parts import system_parts
from eda.evaluate.predictions import (
    PredictionAnswers,
    Predictions,
    read_predictions,
    write_inputs,
    write_predictions,
)
from eda.evaluate.protocols import PROTOCOLS
from eda.evaluate.records import Journal, Record
from eda.evaluate.reliability import diagram, reliability
from eda.evaluate.scatter import ScatteredPuzzle, scatter
from eda.evaluate.scoring import evaluate, score_answer
from eda.evaluate.subsets import PuzzleSet, even_indices
from eda.evaluate.summary import Evaluation, summarize
from eda.evaluate.tables import as_csv, markdown, parts_table, reliability_table, table

__all__ = [
    "PROPERTIES",
    "PROTOCOLS",
    "Answer",
    "AnswerSource",
    "AssemblerAnswers",
    "Confidence",
    "EquivarianceReport",
    "Evaluation",
    "Journal",
    "LawResult",
    "NetworkAnswers",
    "PredictionAnswers",
    "Predictions",
    "PuzzleSet",
    "Record",
    "Sampling",
    "ScatteredPuzzle",
    "as_csv",
    "check_equivariance",
    "diagram",
    "evaluate",
    "evaluate_breaks",
    "even_indices",
    "fill_unplaced",
    "markdown",
    "parts_table",
    "read_predictions",
    "reliability",
    "reliability_table",
    "scatter",
    "score_answer",
    "suitable_model",
    "summarize",
    "system_parts",
    "table",
    "write_inputs",
    "write_predictions",
]
