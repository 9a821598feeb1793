"""What a network of your own must do to take the place of f, eq. (5), and how it gets a name.

A torch module with `forward(pieces, tau) -> (N, 6)` is enough to train, sample, evaluate and check. The rest is
optional: `EncodingNetwork` (encode once, evaluate at many poses), `AuxiliaryLoss` (learn something beside the flow) and
`register_network`, so that the model can be saved, loaded and named in a recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from eda.errors import InputError
from eda.lie import SE3
from eda.pieces import Pieces, Puzzle
from eda.registry import look_up, register


class Network(Protocol):
    """f: from pieces at their poses and the time to a velocity per piece.

    Prop. 4.6 asks that f is SO(3)- and permutation-equivariant and does not see where the whole lies. Nothing enforces
    that; `eda check` measures it.

    `config`, if there is one, is a dict of JSON values: the keyword arguments by which the class makes the same network
    again. It goes into model files.
    """

    def __call__(self, pieces: Pieces, tau: Tensor) -> Tensor:
        """The velocities of N pieces of B puzzles.

        pieces: gX, every piece moved by its current pose; `points` (P, 3) in units of the puzzle's size, `normals`
        where the data have them, `piece_of_point` (P,), `puzzle_of_piece` (N,), `centroids()` (N, 3).
        tau: (B,) in [0, 1], the time of every puzzle.
        Returns (N, 6): the angular velocity w of every piece and the velocity u of its centroid, in the frame of gX.
        """
        ...


@runtime_checkable
class EncodingNetwork(Protocol):
    """Optional: a network that sees the pieces once and is then evaluated at many poses and times.

    `relate(encode(X), g, tau)` must equal `forward(gX, tau)`.
    """

    def encode(self, pieces: Pieces) -> Any:
        """Whatever `relate` needs, from the pieces in their own frames; called once for a batch of samples."""
        ...

    def relate(self, encoded: Any, poses: SE3, tau: Tensor) -> Tensor:
        """The velocities (N, 6) at poses (N,) and times (B,), as `Network.__call__` returns them."""
        ...


@dataclass(frozen=True)
class Labels:
    """What training data may know beyond the solution."""

    on_break: Tensor | None = None  # (P,) bool, in the order of the pieces' points
    own: Tensor | None = None  # (N,) bool, False: a piece of another object, which has no place


@runtime_checkable
class AuxiliaryLoss(Protocol):
    """Optional: a network that learns something beside the flow."""

    def auxiliary_loss(self, puzzle: Puzzle, labels: Labels) -> Tensor:
        """A scalar that is added to the flow matching loss, once per batch."""
        ...


# Networks from outside by name: called with the settings of a `CustomNetwork` as keyword arguments.
NETWORKS: dict[str, Callable[..., nn.Module]] = {}


def register_network(name: str, make: Callable[..., nn.Module]) -> None:
    """Give a network class a name, by which model files and recipes find it. Raises `InputError` where it is taken."""
    register(NETWORKS, "network", name, make)


@dataclass(frozen=True)
class CustomNetwork:
    """A registered network in a config: its name, and the keyword arguments that make it."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if type(self.name) is not str or not isinstance(self.settings, Mapping):
            raise InputError(f"a network needs a name and a table of settings, got {self.name!r}, {self.settings!r}")

    @staticmethod
    def of(network: nn.Module) -> CustomNetwork:
        """The config of a network that was made already; its name is empty where its class is not registered."""
        names = [name for name, make in NETWORKS.items() if make is type(network)]
        return CustomNetwork(names[0] if names else "", dict(getattr(network, "config", {})))

    def check_remakes(self, network: nn.Module) -> None:
        """Raises `InputError` unless `make` gives a network with weights of the same names and shapes."""
        again, here = ({k: t.shape for k, t in each.state_dict().items()} for each in (self.make(), network))
        if again != here:
            raise InputError(
                f"{type(network).__name__}(**{dict(self.settings)}) has other weights than this network: its `config` "
                f"must be a dict of the arguments that it was made with"
            )

    def make(self) -> nn.Module:
        """The network, with new weights. Raises `InputError` for an unknown name and for settings that do not fit."""
        kind = look_up(NETWORKS, "network", self.name)
        try:
            return kind(**self.settings)
        except TypeError as error:
            raise InputError(f"the network {self.name!r} cannot be made with {dict(self.settings)}: {error}") from error
