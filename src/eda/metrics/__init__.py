"""How far an assembly is from the truth. Every function names its convention; all are per puzzle."""

from eda.metrics.breaks import precision_recall, roc_auc
from eda.metrics.calibration import ReliabilityBin, brier_score, expected_calibration_error, reliability_bins
from eda.metrics.pairwise import is_solved, pairwise_errors, pairwise_geodesic
from eda.metrics.placement import (
    aligned_on,
    chamfer,
    euler_rmse,
    largest,
    matched_part_accuracy,
    part_accuracy,
    shape_chamfer,
    translation_rmse,
)
from eda.metrics.registration import PairErrors, information_rmse, overlapping, pair_errors

__all__ = [
    "PairErrors",
    "ReliabilityBin",
    "aligned_on",
    "brier_score",
    "chamfer",
    "euler_rmse",
    "expected_calibration_error",
    "information_rmse",
    "is_solved",
    "largest",
    "matched_part_accuracy",
    "overlapping",
    "pair_errors",
    "pairwise_errors",
    "pairwise_geodesic",
    "part_accuracy",
    "precision_recall",
    "reliability_bins",
    "roc_auc",
    "shape_chamfer",
    "translation_rmse",
]
