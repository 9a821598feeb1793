"""Confidence: the probability that joints, pieces and whole assemblies are right."""

from eda.assembly.confidence.fracture_confidence import FractureConfidence
from eda.assembly.confidence.scan_confidence import ScanConfidence
from eda.assembly.confidence.stats import AssemblyStats, ConfidenceEstimator, Probabilities

__all__ = ["AssemblyStats", "ConfidenceEstimator", "FractureConfidence", "Probabilities", "ScanConfidence"]
