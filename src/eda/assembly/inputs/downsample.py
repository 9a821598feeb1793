"""ModelInput: the pieces as the network sees them, and as the score does, with the way back to the user's frames."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from eda.assembly.contact.detail import Detail
from eda.assembly.contact.evidence import Evidence
from eda.assembly.contact.fragment import MOST_POINTS, Fragment
from eda.assembly.contact.rules import ContactRules
from eda.assembly.inputs.clouds import Clouds
from eda.cloud import farthest_points_and_gaps
from eda.data.example import Example
from eda.lie import SE3
from eda.model import Eda
from eda.piece_encoding import Encoding
from eda.pieces import Pieces

UNKNOWN_BREAK = 0.5  # the probability of a break where no network has looked for one
# With so many points a piece, pieces are covered well enough to tell roughly where they fit.
POINTS_PER_PIECE = 1500
LEAST_POINTS = 200  # of a piece that is small beside the others


@dataclass(frozen=True)
class ModelInput:
    """N pieces twice, in the same frames and the same unit."""

    pieces: Pieces  # about as many points as the network was trained on, evenly spaced over all pieces
    dense: Pieces  # in `POINTS_PER_PIECE` points each or on average, as far as there are so many

    @staticmethod
    def of(clouds: Clouds, num_points: int, *, one_density: bool = False) -> ModelInput:
        """Downsample by farthest points, to about `num_points` in all: a rule that does not know the axes.

        With `one_density`, the dense points are equally far apart on all pieces, so that a large piece is seen as
        sharply as a small one that fits it; else every piece has as many.
        """
        centers = np.stack([cloud.mean(axis=0) for cloud in clouds.points])
        rows = _dense_rows([c - m for c, m in zip(clouds.points, centers, strict=True)], one_density)
        points = [c[r] - m for c, r, m in zip(clouds.points, rows, centers, strict=True)]
        example = Example.from_clouds("pieces", points, [n[r] for n, r in zip(clouds.normals, rows, strict=True)])
        shift = points[0][0] - example.points[0].astype(np.float64)  # an example is centred as a whole
        few = example.downsample(num_points)
        pieces = Pieces.from_clouds(few.clouds(), few.clouds(few.normals))
        own = replace(pieces, centers=pieces.centers + torch.from_numpy(centers + shift))
        return ModelInput(own, replace(_in_frames_of(pieces, example), centers=own.centers))

    def evidence(self, contact: ContactRules, break_probability: np.ndarray | None = None) -> Evidence:
        """The evidence of the dense points, for pieces that fit by these rules.

        `break_probability` (P,) says how likely each of them lies on a break. If it is not known, any may.
        """
        points, normals = self.dense.points.double().numpy(), self.dense.normals.double().numpy()  # type: ignore[union-attr]
        breaks = np.full(len(points), UNKNOWN_BREAK) if break_probability is None else break_probability
        cuts = np.cumsum(self.dense.sizes.numpy())[:-1]
        parts = zip(*(np.split(column, cuts) for column in (points, normals, breaks)), strict=True)
        return Evidence.of([Fragment(*part) for part in parts], contact)

    def break_probability(self, model: Eda, encoding: Encoding | None = None) -> np.ndarray:
        """(P,) how likely each of the dense points lies on a break, by a model that has encoded the pieces."""
        encoding = encoding or model.encode(to_model_device(self.pieces, model))
        probability = model.break_probability(encoding, to_model_device(self.dense, model))
        return probability.double().cpu().numpy()

    def all_points(self, clouds: Clouds) -> Pieces:
        """All points of the downsampled clouds, in the frames and the unit of the pieces."""
        return self.pieces.resample(clouds.points, clouds.normals)

    def detail(self, clouds: Clouds) -> Detail:
        """All points of the downsampled clouds with their normals, in the frames and the unit of the pieces."""
        centers, unit = self.pieces.centers.numpy(), float(self.pieces.scales[0])
        points = [(cloud - center) / unit for cloud, center in zip(clouds.points, centers, strict=True)]
        return Detail(tuple(points), clouds.normals)

    def to_user(self, poses: np.ndarray) -> np.ndarray:
        """Poses (..., N, 4, 4) of the downsampled pieces as motions of the user's clouds."""
        return self.pieces.to_user(SE3.from_matrix(torch.from_numpy(poses))).matrix().numpy()

    def from_user(self, motions: np.ndarray) -> np.ndarray:
        """The inverse of `to_user`."""
        return self.pieces.from_user(SE3.from_matrix(torch.from_numpy(motions))).matrix().numpy()


def _dense_rows(clouds: list[np.ndarray], one_density: bool) -> list[np.ndarray]:
    """Which points of every cloud are dense points, each the farthest from those before it."""
    most = MOST_POINTS if one_density else POINTS_PER_PIECE
    runs = [farthest_points_and_gaps(cloud, min(len(cloud), most)) for cloud in clouds]
    if not one_density:
        return [rows for rows, _ in runs]
    # The points with a gap above some length cover every piece evenly at that length.
    every = np.sort(np.concatenate([gaps for _, gaps in runs]))[::-1]
    least = every[min(len(every), POINTS_PER_PIECE * len(clouds)) - 1]
    return [rows[: max(int((gaps >= least).sum()), LEAST_POINTS)] for rows, gaps in runs]


def to_model_device(pieces: Pieces, model: Eda) -> Pieces:
    """The pieces in the precision and on the device of a model."""
    weight = next(model.parameters())
    return pieces.to(dtype=weight.dtype, device=weight.device)


def _in_frames_of(pieces: Pieces, example: Example) -> Pieces:
    """All points of an example in the frames and the unit of the pieces that were downsampled from it."""
    piece = np.repeat(np.arange(example.num_pieces), example.sizes)
    points = (example.points - pieces.centers.numpy()[piece]) / float(pieces.scales[0])
    return replace(
        pieces,
        points=torch.from_numpy(points.astype(np.float32)),
        normals=torch.from_numpy(np.asarray(example.normals, dtype=np.float32)),
        sizes=torch.from_numpy(example.sizes),
    )
