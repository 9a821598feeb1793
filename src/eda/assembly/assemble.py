"""`assemble`: clouds in, ranked assemblies out. The whole of it in one call.

    clouds ─► thinned pieces ─► network ─┬─► samples ───────────────┐
                                         └─► break probabilities ───┴─► rank ─► Assembly

In: the pieces as the user has them, in any unit, place and order. Out: motions of these very clouds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from eda.assembly.evidence import Evidence
from eda.assembly.fragment import MOST_POINTS, Fragment
from eda.assembly.rank import Candidate, RankConfig, rank
from eda.assembly.result import Alternative, Assembly
from eda.cloud import farthest_points
from eda.data.example import Example
from eda.errors import InputError
from eda.lie import SE3
from eda.model import Eda
from eda.pieces import Pieces
from eda.settings import check_whole

DEFAULT_MODEL = "fracture-small"

Progress = Callable[[str, float], None]  # what is being done, and which share of it is done


@dataclass(frozen=True)
class AssembleConfig:
    """How hard to try."""

    samples: int = 32  # assemblies drawn from the flow
    steps: int = 20
    solver: str = "rk4"
    seed: int = 0
    ranking: RankConfig = field(default_factory=RankConfig)

    def __post_init__(self) -> None:
        check_whole("samples", self.samples, 1, 4096)
        check_whole("steps", self.steps, 1, 10_000)
        check_whole("seed", self.seed, 0, 2**63 - 1)


def assemble(
    clouds: Sequence[np.ndarray],
    normals: Sequence[np.ndarray],
    *,
    names: Sequence[str] | None = None,
    model: Eda | str | Path = DEFAULT_MODEL,
    config: AssembleConfig | None = None,
    progress: Progress = lambda what, done: None,
) -> Assembly:
    """Put pieces together: clouds (n_i, 3) with outward normals (n_i, 3), at least two, in one unit of any size.

    `model` is a model, its file, or the name of one that ships with the package.
    """
    began = time.monotonic()
    config = config or AssembleConfig()
    network = model if isinstance(model, Eda) else Eda.load(model)
    names = [f"piece {i}" for i in range(len(clouds))] if names is None else list(names)
    if len(names) != len(clouds):
        raise InputError(f"{len(clouds)} pieces but {len(names)} names")
    progress("thinning", 0.0)
    thinned = Thinned.of(clouds, normals, network.config.num_points)
    progress("sampling", 0.0)
    generator = torch.Generator().manual_seed(config.seed)
    trajectory = network.trajectory(
        thinned.pieces, config.samples, steps=config.steps, solver=config.solver, generator=generator
    )
    evidence = thinned.evidence(network)
    samples = trajectory.final.to(torch.float64).matrix().numpy()
    candidates = rank(evidence, samples, config.ranking, progress)
    flow = trajectory.poses[:, _nearest_sample(candidates[0], samples)].to(torch.float64).matrix().numpy()
    anchor = int(candidates[0].pieces.argmax())
    there = candidates[0].poses[anchor]
    return Assembly(
        names=tuple(names),
        alternatives=tuple(_alternative(candidate, thinned, anchor, there) for candidate in candidates),
        flow=thinned.to_user(_anchored(flow, flow[-1, anchor], there)),
        model=str(model) if not isinstance(model, Eda) else "a model of your own",
        settings={"samples": config.samples, "steps": config.steps, "solver": config.solver, "seed": config.seed},
        seconds=time.monotonic() - began,
    )


@dataclass(frozen=True)
class Thinned:
    """The pieces as the network sees them, and as the judge does, with the way back to the user's frame."""

    pieces: Pieces  # about as many points as the network was trained on, evenly spaced over all pieces
    dense: Pieces  # the same pieces in the same frames, in more points
    origins: np.ndarray  # (N, 3) where the origin of the thinned clouds lies in the user's frame

    @staticmethod
    def of(clouds: Sequence[np.ndarray], normals: Sequence[np.ndarray], budget: int) -> Thinned:
        """Thin by farthest points: a rule that does not know the axes."""
        whole = Pieces.from_clouds(clouds, normals, dtype=torch.float64)  # checks what it is given
        centers = whole.centers.numpy()
        rows = [farthest_points(cloud, min(len(cloud), MOST_POINTS)) for cloud in _split(whole.points, whole)]
        points = [np.asarray(c, np.float64)[r] - m for c, r, m in zip(clouds, rows, centers, strict=True)]
        directions = [n[r] for n, r in zip(_split(whole.normals, whole), rows, strict=True)]
        example = Example.from_clouds("pieces", points, directions)
        shift = points[0][0] - example.points[0].astype(np.float64)  # an example is centred as a whole
        few = example.thinned(budget)
        pieces = Pieces.from_clouds(few.clouds(), few.clouds(few.normals))
        return Thinned(pieces, _in_frames_of(pieces, example), centers + shift)

    def evidence(self, network: Eda) -> Evidence:
        """What the judge knows: dense points, and how likely each lies on a break."""
        if network.network.breaks is None:
            raise InputError("this model has no break head, which judging needs: use one trained with break_head=True")
        probability = network.break_probability(self.pieces, self.dense).double()
        sizes = self.dense.sizes.tolist()
        columns = (self.dense.points.double(), self.dense.normals.double(), probability)  # type: ignore[union-attr]
        split = [torch.split(column, sizes) for column in columns]
        return Evidence.of([Fragment(*(part.numpy() for part in parts)) for parts in zip(*split, strict=True)])

    def to_user(self, poses: np.ndarray) -> np.ndarray:
        """Poses (..., N, 4, 4) of the thinned pieces as motions of the user's clouds."""
        motions = self.pieces.to_user(SE3.from_matrix(torch.from_numpy(poses))).matrix().numpy().copy()
        motions[..., :3, 3] -= np.einsum("...nij,nj->...ni", motions[..., :3, :3], self.origins)
        return motions


def _split(values: torch.Tensor | None, pieces: Pieces) -> list[np.ndarray]:
    assert values is not None
    return [part.numpy() for part in torch.split(values, pieces.sizes.tolist())]


def _in_frames_of(pieces: Pieces, example: Example) -> Pieces:
    """All points of an example in the frames and the unit of the pieces that were thinned from it."""
    piece = np.repeat(np.arange(example.num_pieces), example.sizes)
    points = (example.points - pieces.centers.numpy()[piece]) / float(pieces.scales[0])
    return Pieces(
        points=torch.from_numpy(points.astype(np.float32)),
        normals=torch.from_numpy(np.asarray(example.normals, dtype=np.float32)),
        sizes=torch.from_numpy(example.sizes),
        counts=pieces.counts,
        centers=pieces.centers,
        scales=pieces.scales,
    )


def _anchored(poses: np.ndarray, here: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Assemblies (..., N, 4, 4) moved as wholes, by what brings one pose (4, 4) to another."""
    return (there @ np.linalg.inv(here)) @ poses


def _alternative(candidate: Candidate, thinned: Thinned, anchor: int, there: np.ndarray) -> Alternative:
    """In the user's frame; assemblies are known up to a motion of the whole, so the anchor is put where it belongs."""
    return Alternative(
        poses=thinned.to_user(_anchored(candidate.poses, candidate.poses[anchor], there)),
        placed=candidate.placed,
        score=candidate.score,
        probability=candidate.probability,
        confidence=candidate.pieces,
        joints=candidate.joints,
        count=candidate.count,
    )


def _nearest_sample(candidate: Candidate, samples: np.ndarray) -> int:
    """The sample whose pieces are turned most like those of an assembly, up to a turn of the whole."""
    # |R_k Q_k^T - S|_F is least for the rotation S nearest to their sum, so a long sum means agreement.
    turns = np.einsum("nij,knlj->kil", candidate.poses[:, :3, :3], samples[:, :, :3, :3])
    return int(np.linalg.norm(turns, ord="nuc", axis=(1, 2)).argmax())
