"""The choice of a model: which of those that ship suit some pieces, and why."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eda.assembly.inputs.clouds import Clouds
from eda.assembly.inputs.visibility import two_sided_share
from eda.weights import shipped_for

NO_MODEL = "none"  # what a user may ask for: scans are then assembled from local features alone
# The share of a piece's points that can be seen from both sides: up to CLOSED its surface is taken for closed, and from
# OPEN for open. Set on one half of the pieces of the log of 2026-11-19: closed ones had at most 0.23, views 0.38.
CLOSED, OPEN = 0.2, 0.35


class ModelChoice(NamedTuple):
    """A model by its name or file, or `NO_MODEL`, and the reason for it in words."""

    model: str
    why: str


def choose_model(clouds: Clouds) -> ModelChoice:
    """The model that suits some pieces best, as far as can be told before it is tried."""
    return suitable_models(clouds)[0]


def suitable_models(clouds: Clouds) -> tuple[ModelChoice, ...]:
    """The models to try, the likeliest first: one if the pieces say what they are, otherwise two.

    Fractured pieces are closed and scans are open. Open pieces with normals may be sherds of which a part was scanned.
    """
    shares = np.array([two_sided_share(*piece) for piece in zip(clouds.points, clouds.normals, strict=True)])
    seen = f"{_percent(shares)} of the points of a piece can be seen from both sides"
    fracture, scan = shipped_for("fracture").name, shipped_for("scan").name
    if shares.max() <= CLOSED:
        return (ModelChoice(fracture, f"closed surfaces ({seen}): fractured pieces"),)
    if shares.min() >= OPEN and clouds.has_estimated_normals.any():
        hint = f"if these are fractured pieces, name a model for them: {fracture}"
        return (ModelChoice(scan, f"open surfaces ({seen}): scans; {hint}"),)
    likeliest_first = (fracture, scan) if np.median(shares) < (CLOSED + OPEN) / 2 else (scan, fracture)
    return tuple(ModelChoice(model, f"fractured pieces or scans ({seen})") for model in likeliest_first)


def _percent(shares: np.ndarray) -> str:
    least, most = f"{shares.min():.0%}", f"{shares.max():.0%}"
    return most if least == most else f"{least} to {most}"
