"""KISS-Matcher (Lim et al. 2025) alone, of which the assembler takes all proposals and scores them by contact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from eda.assembly.proposals.kiss_matcher import match
from eda.registration.rigid import act
from eda.reproduce.baselines.feature_ransac import INLIER
from eda.reproduce.baselines.spacing import thinned


@dataclass(frozen=True)
class KissMatching:
    """KISS-Matcher at several scales; of its poses, the one that brings most points near the target."""

    def register(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """T_target_source (4, 4)."""
        poses = match([source, target])[0, 1]
        if not len(poses):
            return np.eye(4)
        (points, mine), (_, theirs) = thinned(source), thinned(target)
        distance, _ = cKDTree(target).query(act(poses, points))
        return poses[np.argmax((distance < INLIER * max(mine, theirs)).sum(axis=1))]
