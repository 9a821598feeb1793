"""How far an assembly is from the truth. Every function names its convention; all are per puzzle."""

from eda.metrics.calibration_error import ReliabilityBin, brier_score, expected_calibration_error, reliability_bins
from eda.metrics.detection import precision_recall, roc_auc
from eda.metrics.pairwise import is_solved, pairwise_errors, pairwise_geodesic, relative_errors
from eda.metrics.placement import (
    align_on,
    chamfer,
    euler_rmse,
    largest_piece,
    matched_part_accuracy,
    part_accuracy,
    pieces_in_place,
    shape_chamfer,
    translation_rmse,
)
from eda.metrics.registration import PairErrors, information_rmse, overlap_mask, pair_errors

__all__ = [
    "PairErrors",
    "ReliabilityBin",
    "align_on",
    "brier_score",
    "chamfer",
    "euler_rmse",
    "expected_calibration_error",
    "information_rmse",
    "is_solved",
    "largest_piece",
    "matched_part_accuracy",
    "overlap_mask",
    "pair_errors",
    "pairwise_errors",
    "pairwise_geodesic",
    "part_accuracy",
    "pieces_in_place",
    "precision_recall",
    "relative_errors",
    "reliability_bins",
    "roc_auc",
    "shape_chamfer",
    "translation_rmse",
]
