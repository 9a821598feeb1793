"""Baselines behind two protocols: registration of two clouds without learning, and regression of poses.

`METHODS` has the first by name, `REGRESSIONS` the second.
"""

from __future__ import annotations

from collections.abc import Callable

from eda.assembly.proposals.kiss_matcher import is_installed
from eda.reproduce.baselines.fast_global import FastGlobalRegistration
from eda.reproduce.baselines.feature_ransac import FeatureRansac
from eda.reproduce.baselines.kiss_matching import KissMatching
from eda.reproduce.baselines.pair_registration import PairAnswers, PairRegistration, WithIcp
from eda.reproduce.baselines.regression import REGRESSIONS, regression_config

METHODS: dict[str, Callable[[], PairRegistration]] = {
    "FPFH-RANSAC": FeatureRansac,
    "FGR": FastGlobalRegistration,
    "KISS-Matcher": KissMatching,
}


def available(name: str) -> bool:
    """Whether what a method needs is installed."""
    return METHODS[name] is not KissMatching or is_installed()


__all__ = [
    "METHODS",
    "REGRESSIONS",
    "PairAnswers",
    "PairRegistration",
    "WithIcp",
    "available",
    "regression_config",
]
