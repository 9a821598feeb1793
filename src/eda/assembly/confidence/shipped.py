"""The calibrations of the models that ship: what stands in where a model brings none of its own."""

from __future__ import annotations

from functools import cache

from eda.calibration import Calibrations, read_calibrations
from eda.regime import Regime
from eda.weights import shipped_for


@cache
def shipped_calibrations(regime: Regime) -> Calibrations:
    """The calibrations of the model that ships for a regime, from its file."""
    calibrations = read_calibrations(shipped_for(regime).path)
    assert calibrations is not None
    return calibrations
