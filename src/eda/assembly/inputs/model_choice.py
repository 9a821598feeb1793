"""The choice of a model: which of those that ship suits some pieces, and why."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eda.assembly.inputs.clouds import Clouds
from eda.assembly.inputs.normals import rim_share
from eda.weights import shipped_for

NO_MODEL = "none"  # what a user may ask for: scans are then assembled from local features alone
# Set by hand on what it was measured on, none held out. Generated sherds had 1 to 8 % of points on a rim, but thin
# ones of some 600 points a piece 14 to 17 %; rooms of 3DMatch 17 to 31 %, lidar views 30 to 35 %. So thin sherds of few
# points may pass for scans, and a single smooth view (7 %) for a sherd.
OPEN_RIM = 0.16


class ModelChoice(NamedTuple):
    """A model by its name or file, or `NO_MODEL`, and the reason for it in words."""

    model: str
    why: str


def choose_model(clouds: Clouds) -> ModelChoice:
    """The model for some pieces. Fractured ones are closed or have outward normals; scans are open and have none."""
    fracture = shipped_for("fracture").name
    if not clouds.has_estimated_normals.any():
        return ModelChoice(fracture, "closed surfaces or outward normals: fractured pieces")
    rims = [rim_share(points, normals) for points, normals in zip(clouds.points, clouds.normals, strict=True)]
    if np.median(rims) <= OPEN_RIM:
        return ModelChoice(fracture, "closed surfaces, whose outside was found from the points: fractured pieces")
    open_surfaces = f"open surfaces without normals ({np.median(rims):.0%} of the points lie on a rim): scans"
    return ModelChoice(
        shipped_for("scan").name, f"{open_surfaces}; if these are fractured pieces, name a model for them: {fracture}"
    )
