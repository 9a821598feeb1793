"""VelocityField: v_X(g) = f(gX) g of eq. (4), from the network's f.

In: a network and the `Pyramid` of some pieces. Out: a function of poses and tau, which encodes the pieces only when it
has to.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from eda.flow.loss import center_velocity, spatial_twist, turned
from eda.graph import Pyramid
from eda.lie import SE3
from eda.nn import EdaNetwork, Time, Tokens
from eda.registration.arrangements import Arrangements
from eda.segment import ranges


class VelocityField:
    """v_X for `samples` copies of the same pieces: call it with poses (samples * N,) and tau (samples * B,).

    The encoder runs once per distinct tau, or once in all where it does not see tau, and is shared by the samples.
    With `body_twist` the network's velocities are meant in the frames of the pieces: the field is g f(gX).
    """

    def __init__(
        self,
        network: EdaNetwork,
        pyramid: Pyramid,
        samples: int = 1,
        *,
        body_twist: bool = False,
        encoded: Tokens | None = None,
        boldness: float = 1.0,
    ) -> None:
        self._network = network
        self._pyramid = pyramid
        self._samples = samples
        self._body_twist = body_twist
        self._boldness = boldness
        self._last: tuple[Tensor, Tokens] | None = None
        self._copies: Tokens | None = None  # for their places: the features follow tau
        self._encoded = encoded  # by a time-free encoder, when it has run already
        self._centers = pyramid.pieces.centroids().repeat(samples, 1)
        self.puzzle = ranges(pyramid.pieces.counts.repeat(samples))

    def __call__(self, poses: SE3, tau: Tensor) -> Tensor:
        """The spatial twists f(gX), eq. (4). -> (samples * N, 6)."""
        velocity = self.velocities(poses, tau)
        if self._body_twist:
            velocity = turned(velocity, poses.rotation)
        return spatial_twist(velocity, poses.act(self._centers))

    def velocities(self, poses: SE3, tau: Tensor) -> Tensor:
        """What the network predicts: (w, u), u the velocity of the piece's centre. -> (samples * N, 6)."""
        if self._network.config.free_network:
            return self._directly(poses, tau)
        return self._network.relate(self._tokens(tau), poses, tau, self._boldness)

    def center_velocity(self, twist: Tensor, poses: SE3) -> Tensor:
        """Spatial twists of poses in the network's form (w, u)."""
        velocity = center_velocity(twist, poses.act(self._centers))
        return turned(velocity, poses.rotation.mT) if self._body_twist else velocity

    def _directly(self, poses: SE3, tau: Tensor) -> Tensor:
        """f(gX) of a network that does not turn with its input: the moved pieces are encoded anew."""
        moved = _moved(Pyramid.collate([self._pyramid] * self._samples), poses)
        still = SE3.identity(len(poses), dtype=poses.rotation.dtype, device=poses.rotation.device)
        return self._network.relate(self._network.encode(moved, tau), still, tau, self._boldness)

    def _tokens(self, tau: Tensor) -> Tokens:
        """The pieces attuned to tau; the last ones are kept, since the stages of a step often share their tau."""
        if self._last is None or not torch.equal(self._last[0], tau):
            self._last = (tau, self._attuned(tau.reshape(self._samples, -1)))
        return self._last[1]

    def _attuned(self, each: Tensor) -> Tokens:
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
        return dataclasses.replace(self._copies, features=features, arrangements=arrangements, time=time)

    def _encode(self, tau: Tensor) -> Tokens:
        """The encoder at tau (B,): it ran once before where it does not see the time."""
        if self._network.config.time_in_encoder:
            return self._network.encode(self._pyramid, tau)
        if self._encoded is None:
            self._encoded = self._network.encode(self._pyramid, None)
        return self._encoded


def _moved(pyramid: Pyramid, poses: SE3) -> Pyramid:
    """The pyramid of gX: the same graph, with every piece moved by its pose (N,)."""
    levels = [
        dataclasses.replace(level, points=poses[ranges(level.sizes)].act(level.points)) for level in pyramid.levels
    ]
    return dataclasses.replace(pyramid, pieces=pyramid.pieces.moved(poses), levels=tuple(levels))
