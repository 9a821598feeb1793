"""Thinned: the pieces as the network sees them, and as the judge does, with the way back to the user's frames."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from eda.assembly.clouds import Clouds
from eda.assembly.evidence import Evidence
from eda.assembly.fragment import MOST_POINTS, Fragment
from eda.assembly.scans import Scan
from eda.assembly.sherds import Fracture
from eda.cloud import farthest_points
from eda.data.example import Example
from eda.lie import SE3
from eda.model import Eda
from eda.pieces import Pieces


@dataclass(frozen=True)
class Thinned:
    """N pieces twice, in the same frames and the same unit."""

    pieces: Pieces  # about as many points as the network was trained on, evenly spaced over all pieces
    dense: Pieces  # in up to `MOST_POINTS` points each

    @staticmethod
    def of(clouds: Clouds, budget: int) -> Thinned:
        """Thin by farthest points, to about `budget` points in all: a rule that does not know the axes."""
        centers = np.stack([cloud.mean(axis=0) for cloud in clouds.points])
        rows = [farthest_points(c - m, min(len(c), MOST_POINTS)) for c, m in zip(clouds.points, centers, strict=True)]
        points = [c[r] - m for c, r, m in zip(clouds.points, rows, centers, strict=True)]
        example = Example.from_clouds("pieces", points, [n[r] for n, r in zip(clouds.normals, rows, strict=True)])
        shift = points[0][0] - example.points[0].astype(np.float64)  # an example is centred as a whole
        few = example.downsample(budget)
        pieces = Pieces.from_clouds(few.clouds(), few.clouds(few.normals))
        own = replace(pieces, centers=pieces.centers + torch.from_numpy(centers + shift))
        return Thinned(own, replace(_in_frames_of(pieces, example), centers=own.centers))

    def evidence(self, network: Eda | None) -> Evidence:
        """What the judge knows: of sherds how likely each point lies on a break, of scans the surface alone.

        Scans are what a network without a break head is for, and what needs none.
        """
        points, normals = self.dense.points.double().numpy(), self.dense.normals.double().numpy()  # type: ignore[union-attr]
        breaking = None if network is None or not network.has_break_head else network
        breaks = np.zeros(len(points)) if breaking is None else self._breaks(breaking)
        cuts = np.cumsum(self.dense.sizes.numpy())[:-1]
        parts = zip(*(np.split(column, cuts) for column in (points, normals, breaks)), strict=True)
        regime = Scan() if breaking is None else Fracture()
        return Evidence.of([Fragment(*part) for part in parts], regime)

    def _breaks(self, network: Eda) -> np.ndarray:
        """(P,) of the dense points, by the break head."""
        probability = network.break_probability(suited(self.pieces, network), suited(self.dense, network))
        return probability.double().cpu().numpy()

    def in_frames(self, clouds: Clouds) -> list[np.ndarray]:
        """All points of the pieces that were thinned, in the same frames and unit. -> N of (n_i, 3)."""
        centers, unit = self.pieces.centers.numpy(), float(self.pieces.scales[0])
        return [(cloud - center) / unit for cloud, center in zip(clouds.points, centers, strict=True)]

    def to_user(self, poses: np.ndarray) -> np.ndarray:
        """Poses (..., N, 4, 4) of the thinned pieces as motions of the user's clouds."""
        return self.pieces.to_user(SE3.from_matrix(torch.from_numpy(poses))).matrix().numpy()

    def from_user(self, motions: np.ndarray) -> np.ndarray:
        """The inverse of `to_user`."""
        return self.pieces.from_user(SE3.from_matrix(torch.from_numpy(motions))).matrix().numpy()


def suited(pieces: Pieces, network: Eda) -> Pieces:
    """In the precision and on the device of a network."""
    weight = next(network.parameters())
    return pieces.to(dtype=weight.dtype, device=weight.device)


def _in_frames_of(pieces: Pieces, example: Example) -> Pieces:
    """All points of an example in the frames and the unit of the pieces that were thinned from it."""
    piece = np.repeat(np.arange(example.num_pieces), example.sizes)
    points = (example.points - pieces.centers.numpy()[piece]) / float(pieces.scales[0])
    return replace(
        pieces,
        points=torch.from_numpy(points.astype(np.float32)),
        normals=torch.from_numpy(np.asarray(example.normals, dtype=np.float32)),
        sizes=torch.from_numpy(example.sizes),
    )
