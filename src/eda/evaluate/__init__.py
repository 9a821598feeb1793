"""Judging a model: does it keep the laws it is built on, and how well does it assemble?"""

from eda.evaluate.breaks import evaluate_breaks
from eda.evaluate.equivariance import EquivarianceReport, LawResult, check_equivariance
from eda.evaluate.predictions import Predictions, read_predictions, write_inputs, write_predictions
from eda.evaluate.protocols import PROTOCOLS
from eda.evaluate.run import Answer, Sampling, evaluate, looked_up, sampled
from eda.evaluate.scatter import Scattered, scattered
from eda.evaluate.summary import Evaluation, as_csv, markdown, summarize, table

__all__ = [
    "PROTOCOLS",
    "Answer",
    "EquivarianceReport",
    "Evaluation",
    "LawResult",
    "Predictions",
    "Sampling",
    "Scattered",
    "as_csv",
    "check_equivariance",
    "evaluate",
    "evaluate_breaks",
    "looked_up",
    "markdown",
    "read_predictions",
    "sampled",
    "scattered",
    "summarize",
    "table",
    "write_inputs",
    "write_predictions",
]
