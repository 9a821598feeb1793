"""The models that ship with the package, by name: one file each, with a card that says what they are for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eda.errors import InputError
from eda.regime import Regime

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Shipped:
    """A model that ships with the package."""

    name: str
    regime: Regime
    purpose: str  # in one line

    @property
    def path(self) -> Path:
        """The model file."""
        return _HERE / f"{self.name}.safetensors"

    @property
    def card(self) -> Path:
        """What it was trained on, how well it does, and where it fails."""
        return _HERE / f"{self.name}.md"


SHIPPED = (
    Shipped(
        "fracture-small", "fracture", "sherds and other broken objects, 2 to 8 pieces, meshes or clouds with normals"
    ),
    Shipped("scan-small", "scan", "scans of rooms that overlap, clouds; trained on research data, see its card"),
)


def shipped_for(regime: Regime) -> Shipped:
    """The model that ships for a regime."""
    return next(shipped for shipped in SHIPPED if shipped.regime == regime)


def path_of(model: str | Path) -> Path:
    """The file of a model given by its name or by its path."""
    for shipped in SHIPPED:
        if str(model) == shipped.name:
            return shipped.path
    path = Path(model)
    if not path.exists() and path.suffix != ".safetensors":
        names = ", ".join(shipped.name for shipped in SHIPPED)
        raise InputError(f"{model}: neither a model file nor the name of a model; the names are {names}")
    return path
