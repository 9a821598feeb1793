"""The catalogue: every table and figure of the paper that can be reproduced, by the name that the command gives it."""

from __future__ import annotations

from collections.abc import Mapping

from eda.data.setting_text import typed_settings
from eda.errors import InputError
from eda.reproduce.ablation import Ablation
from eda.reproduce.broken_objects import BrokenObjects
from eda.reproduce.equivariance_error import EquivarianceError
from eda.reproduce.experiment import Experiment
from eda.reproduce.integration_steps import IntegrationSteps
from eda.reproduce.piece_numbers import PieceNumbers
from eda.reproduce.scan_pairs import ScanPairs
from eda.reproduce.without_overlap import WithoutOverlap

EXPERIMENTS: dict[str, type[Experiment]] = {
    "equivariance": EquivarianceError,
    "registration": ScanPairs,
    "breaking-bad": BrokenObjects,
    "ablation": Ablation,
    "steps": IntegrationSteps,
    "no-overlap": WithoutOverlap,
    "pieces": PieceNumbers,
}


def experiment_kind(name: str) -> type[Experiment]:
    """The class of an experiment. Raises `InputError` for a name that there is not."""
    if name not in EXPERIMENTS:
        raise InputError(f"there is nothing called {name!r} to reproduce; there are {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


def make_experiment(name: str, settings: Mapping[str, str]) -> Experiment:
    """An experiment with these settings as text. Raises `InputError` for one that it does not have."""
    kind = experiment_kind(name)
    values = typed_settings(name, settings, kind.defaults())
    for key, value in values.items():
        if type(value) is int and value < (0 if key == "seed" else 1):
            raise InputError(f"{name}: {key} must be at least {0 if key == 'seed' else 1}, got {value}")
        if value == ():
            raise InputError(f"{name}: {key} must name at least one")
    return kind(**values)
