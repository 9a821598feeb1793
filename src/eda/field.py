"""VelocityField: v_X(g) = f(gX) g of eq. (4), from the network's f.

In: a network and some pieces. Out: a function of poses and tau. f(gX) is evaluated by `EncodedEda`, which encodes the
pieces only when it has to, or for any other network by `custom_velocities`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor, nn

from eda.errors import InputError
from eda.flow.loss import center_velocity, rotate_velocity, spatial_twist
from eda.graph import Pyramid
from eda.lie import SE3
from eda.nn import EdaNetwork, Paths, Relation, Time, Tokens
from eda.nn.match_graph import MatchGraph
from eda.nn.protocol import EncodingNetwork
from eda.pieces import Pieces
from eda.registration.arrangements import Arrangements
from eda.segment import ranges

Velocities = Callable[[SE3, Tensor], Tensor]  # poses (N,), tau (B,) -> (N, 6): (w, u) of every piece


class VelocityField:
    """v_X for `samples` copies of the same pieces: call it with poses (samples * N,) and tau (samples * B,).

    `velocities` is f(gX) of those copies. With `body_twist` it is in the frames of the pieces: the field is g f(gX).
    """

    def __init__(self, velocities: Velocities, pieces: Pieces, samples: int = 1, *, body_twist: bool = False) -> None:
        self.velocities = velocities
        self._body_twist = body_twist
        self._centers = pieces.centroids().repeat(samples, 1)
        self.puzzle = ranges(pieces.counts.repeat(samples))

    def __call__(self, poses: SE3, tau: Tensor) -> Tensor:
        """The spatial twists f(gX), eq. (4). -> (samples * N, 6)."""
        velocity = self.velocities(poses, tau)
        if self._body_twist:
            velocity = rotate_velocity(velocity, poses.rotation)
        return spatial_twist(velocity, poses.act(self._centers))

    def center_velocity(self, twist: Tensor, poses: SE3) -> Tensor:
        """Spatial twists of poses in the network's form (w, u)."""
        velocity = center_velocity(twist, poses.act(self._centers))
        return rotate_velocity(velocity, poses.rotation.mT) if self._body_twist else velocity


def custom_velocities(network: nn.Module, pieces: Pieces, samples: int = 1) -> Velocities:
    """f(gX) of a network of the user's own, for `samples` copies of the same pieces (see `eda.nn.protocol`)."""
    copies = Pieces.collate([pieces] * samples)
    encoded = network.encode(copies) if isinstance(network, EncodingNetwork) else None

    def velocities(poses: SE3, tau: Tensor) -> Tensor:
        if isinstance(network, EncodingNetwork):
            found = network.relate(encoded, poses, tau)
        else:
            found = network(copies.move(poses), tau)
        if not isinstance(found, Tensor) or found.shape != (copies.num_pieces, 6):
            got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(f"a network must return (w, u) of every piece, {(copies.num_pieces, 6)}, but gave {got}")
        return found.to(poses.translation.dtype)

    return velocities


class EncodedEda:
    """f(gX) of an `EdaNetwork` for `samples` copies of the same pieces.

    The encoder runs once per distinct tau, or once in all where it does not see tau, and is shared by the samples.
    """

    def __init__(
        self,
        network: EdaNetwork,
        pyramid: Pyramid,
        samples: int = 1,
        *,
        encoded: Tokens | None = None,
        boldness: float = 1.0,
        paths: Paths = "all",
    ) -> None:
        self._network = network
        self._pyramid = pyramid
        self._samples = samples
        self._boldness = boldness
        self._paths: Paths = paths
        self._last: tuple[Tensor, Tokens] | None = None
        self._copies: Tokens | None = None  # for their places: the features follow tau
        self._encoded = encoded  # by a time-free encoder, when it has run already

    def __call__(self, poses: SE3, tau: Tensor) -> Tensor:
        """(w, u), u the velocity of the piece's centre. -> (samples * N, 6)."""
        if self._network.config.free_network:
            return self._directly(poses, tau)
        return self._network.relate(self._tokens(tau), poses, tau, self._boldness, self._paths)

    def relation(self, poses: SE3, tau: Tensor) -> tuple[Relation, MatchGraph | None]:
        """What f says part by part, for losses of their own, and the correspondences that it goes by."""
        tokens = self._tokens(tau)
        return self._network.relation(tokens, poses, tau), tokens.graph

    def _directly(self, poses: SE3, tau: Tensor) -> Tensor:
        """f(gX) of a network that does not turn with its input: the moved pieces are encoded anew."""
        moved = _move(Pyramid.collate([self._pyramid] * self._samples), poses)
        still = SE3.identity(len(poses), dtype=poses.rotation.dtype, device=poses.rotation.device)
        return self._network.relate(self._network.encode(moved, tau, self._paths), still, tau, self._boldness)

    def _tokens(self, tau: Tensor) -> Tokens:
        """The pieces attuned to tau; the last ones are kept, since the stages of a step often share their tau."""
        if self._last is None or not torch.equal(self._last[0], tau):
            self._last = (tau, self._attune(tau.reshape(self._samples, -1)))
        return self._last[1]

    def _attune(self, each: Tensor) -> Tokens:
        """Tokens at the taus (samples, B) of every sample; once for all where these are equal."""
        if not bool((each == each[0]).all()):
            copies = Tokens.cat([self._encode(tau) for tau in each])
            return self._network.attune(copies, each.flatten())
        one = self._network.attune(self._encode(each[0]), each[0])
        if self._samples == 1:
            return one
        if self._copies is None:
            self._copies = Tokens.cat([one] * self._samples)
        assert one.time is not None
        time = Time(one.time.embedding.repeat(self._samples, 1), self._copies.layout.puzzle)
        arrangements = Arrangements.cat([one.arrangements] * self._samples) if one.arrangements else None
        features = one.features.repeat(self._samples, 1, 1)
        graph = MatchGraph.cat([one.graph] * self._samples) if one.graph else None
        return dataclasses.replace(self._copies, features=features, arrangements=arrangements, graph=graph, time=time)

    def _encode(self, tau: Tensor) -> Tokens:
        """The encoder at tau (B,): it ran once before where it does not see the time."""
        if self._network.config.time_in_encoder:
            return self._network.encode(self._pyramid, tau, self._paths)
        if self._encoded is None:
            self._encoded = self._network.encode(self._pyramid, None, self._paths)
        return self._encoded


def _move(pyramid: Pyramid, poses: SE3) -> Pyramid:
    """The pyramid of gX: the same graph, with every piece moved by its pose (N,)."""
    levels = [
        dataclasses.replace(level, points=poses[ranges(level.sizes)].act(level.points)) for level in pyramid.levels
    ]
    return dataclasses.replace(pyramid, pieces=pyramid.pieces.move(poses), levels=tuple(levels))
