"""For tests: alternatives of which only a part matters."""

from typing import Any

import numpy as np

from eda.assembly import Alternative


def alternative_of(poses: np.ndarray, **given: Any) -> Alternative:
    """Poses (N, 4, 4) with a place for every piece and no contact, unless something else is given."""
    count = len(poses)
    defaults = {
        "placed": np.ones(count, dtype=bool),
        "score": 0.5,
        "probability": 0.5,
        "confidence": np.full(count, 0.5),
        "joints": np.zeros((count, count)),
    }
    return Alternative(**{"poses": poses, **defaults, **given})
