"""Regimes: what is particular to fractures, and what to scans. One kind of pieces a file, behind one protocol."""

from __future__ import annotations

from collections.abc import Callable

from eda.assembly.regimes.assembly_regime import AssemblyRegime
from eda.assembly.regimes.fracture_regime import FractureRegime
from eda.assembly.regimes.scan_regime import ScanRegime
from eda.calibration import Calibrations, shipped_calibrations
from eda.errors import InputError
from eda.regime import Regime

__all__ = ["AssemblyRegime", "FractureRegime", "ScanRegime", "regime_of"]

_REGIMES: dict[Regime, Callable[[Calibrations], AssemblyRegime]] = {"fracture": FractureRegime, "scan": ScanRegime}


def regime_of(name: Regime, calibrations: Calibrations | None = None) -> AssemblyRegime:
    """A regime with the calibrations of a model; without any, with those of the model that ships for it."""
    try:
        return _REGIMES[name](shipped_calibrations(name) if calibrations is None else calibrations)
    except KeyError as error:
        raise InputError(
            f"the model has no calibration of {error} for the regime {name}; calibrate it again"
        ) from error
