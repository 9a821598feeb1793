"""Which of the models that ship suits some pieces, and why."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eda.assembly.clouds import Clouds
from eda.assembly.surface import rim_share

FRACTURES, SCANS = "fracture-small", "scan-small"
NO_MODEL = "none"  # what a user may ask for: scans are put together by local features alone
# Set by hand on what it was measured on, none held out. Generated sherds had 1 to 8 % of points on a rim, but thin
# ones of some 600 points a piece 14 to 17 %; rooms of 3DMatch 17 to 31 %, lidar views 30 to 35 %. So thin sherds of few
# points may pass for scans, and a single smooth view (7 %) for a sherd.
OPEN_RIM = 0.16


class Choice(NamedTuple):
    """A model by its name or file, or `NO_MODEL`, and the reason for it in words."""

    model: str
    why: str


def choose_model(clouds: Clouds) -> Choice:
    """Sherds are closed, or come with normals that say where outside is; what is open and has none is a scan."""
    if not clouds.estimated.any():
        return Choice(FRACTURES, "closed surfaces or outward normals: sherds")
    rims = [rim_share(points, normals) for points, normals in zip(clouds.points, clouds.normals, strict=True)]
    if np.median(rims) <= OPEN_RIM:
        return Choice(FRACTURES, "closed surfaces, whose outside was found from the points: sherds")
    open_surfaces = f"open surfaces without normals ({np.median(rims):.0%} of the points lie on a rim): scans"
    return Choice(SCANS, f"{open_surfaces}; if these are sherds, name a model for them, {FRACTURES}")
