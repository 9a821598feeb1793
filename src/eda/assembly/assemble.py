"""`assemble`: clouds in, ranked assemblies out. The whole of it in one call, or in its three steps.

    clouds ─► prepare ─► Prepared ─► sample ─► trajectories ─► rank ─► Assembly

In: the pieces as the user has them, in any unit, place and order. Out: motions of these very clouds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eda.assembly.choose import NO_MODEL, Choice, choose_model
from eda.assembly.clouds import Clouds
from eda.assembly.evidence import Evidence
from eda.assembly.match import INSTALL, Matches, can_match, match
from eda.assembly.names import checked_names
from eda.assembly.pins import checked_pins, moved_onto
from eda.assembly.rank import Candidate, RankConfig, rank
from eda.assembly.result import Alternative, Assembly
from eda.assembly.scans import Scan
from eda.assembly.thin import Thinned, suited
from eda.errors import InputError
from eda.flow import Trajectory, sample_noise
from eda.flow.solver import SOLVERS
from eda.flow.solver import Progress as SolverProgress
from eda.lie import SE3
from eda.model import Eda
from eda.pieces import Cloud
from eda.registration.rigid import inverse
from eda.settings import check_choice, check_positive, check_whole

# More samples in one batch take no less time each, and the limits of memory and time are met less well.
SAMPLES_AT_ONCE = 8
# Without a network: to how many points the pieces are thinned in all, and how far they are scattered to begin with.
FEW_POINTS, SCATTER = 1000, 1.0

Progress = Callable[[str, float], None]  # what is being done, and which share of it is done


def _silent(what: str, done: float) -> None:
    pass


@dataclass(frozen=True)
class AssembleConfig:
    """How hard to try."""

    samples: int = 16  # assemblies drawn from the flow
    steps: int = 10
    rounds: int = 1  # how often the flow is followed, each time from where it ended
    solver: str = "rk4"
    seed: int = 0
    ranking: RankConfig = field(default_factory=RankConfig)
    time_limit: float | None = None  # seconds after which nothing new is tried; then the result depends on the machine

    def __post_init__(self) -> None:
        check_whole("samples", self.samples, 1, 4096)
        check_whole("steps", self.steps, 1, 10_000)
        check_whole("rounds", self.rounds, 1, 100)
        check_choice("solver", self.solver, tuple(SOLVERS))
        check_whole("seed", self.seed, 0, 2**63 - 1)
        if self.time_limit is not None:
            check_positive("time_limit", self.time_limit)

    def as_dict(self) -> dict[str, Any]:
        """What a user may choose, as it is written down."""
        names = ("samples", "steps", "rounds", "solver", "seed", "time_limit")
        return {**{name: getattr(self, name) for name in names}, "refine": self.ranking.refine}


def assemble(
    clouds: Sequence[Cloud],
    normals: Sequence[Cloud | None] | None = None,
    *,
    names: Sequence[str] | None = None,
    pins: Mapping[int | str, np.ndarray] | None = None,
    model: Eda | str | Path | None = None,
    device: str = "cpu",
    config: AssembleConfig | None = None,
    progress: Progress = _silent,
) -> Assembly:
    """Put pieces together: clouds (n_i, 3) of any length, at least two, in one unit of any size.

    Outward normals (n_i, 3) are estimated where there are none. `names` are those of the files that `save_assembly`
    writes, so each is of its own. `pins` are motions (4, 4) of pieces whose place is
    known, by name or index. `model` is a model, its file, the name of one that ships with the package, or "none": scans
    can be matched without. It is chosen by what the pieces are if none is given.
    """
    began, config = time.monotonic(), config or AssembleConfig()
    progress("thinning", 0.0)
    prepared = prepare(clouds, normals, names=names, pins=pins, model=model, device=device, seed=config.seed)
    trajectory = prepared.sample(config, began=began, progress=progress)
    return prepared.rank(trajectory, config, began=began, progress=progress)


def prepare(
    clouds: Sequence[Cloud],
    normals: Sequence[Cloud | None] | None = None,
    *,
    names: Sequence[str] | None = None,
    pins: Mapping[int | str, np.ndarray] | None = None,
    model: Eda | str | Path | None = None,
    device: str = "cpu",
    seed: int = 0,
) -> Prepared:
    """Check, thin, and choose a model, as `assemble` does."""
    given = Clouds.of(clouds, normals, seed=seed)
    names = checked_names(names, len(given))
    choice = _choice(model, given)
    network = model if isinstance(model, Eda) else _loaded(choice, device)
    thinned = Thinned.of(given, FEW_POINTS if network is None else network.config.num_points)
    return Prepared(names, given, thinned, network, choice, checked_pins(pins or {}, names))


def _choice(model: Eda | str | Path | None, clouds: Clouds) -> Choice:
    if model is None:
        return choose_model(clouds)
    return Choice("a model of your own" if isinstance(model, Eda) else str(model), "given")


def _loaded(choice: Choice, device: str) -> Eda | None:
    if choice.model != NO_MODEL:
        return Eda.load(choice.model, device=_checked_device(device))
    if not can_match():
        missing = f"scans cannot be matched yet: {INSTALL}, or name a model"
        raise InputError(f"no model ({choice.why}), and {missing}")
    return None


def _checked_device(device: str) -> torch.device:
    try:
        value = torch.ones(1, device=device)
        value.add(1).cpu()  # some devices hold tensors, but no numbers
        return value.device
    except (RuntimeError, AssertionError, ImportError) as error:  # torch's ways to say that it was not built for it
        raise InputError(
            f"the device {device!r} cannot be used: torch cannot compute on it here; choose another, such as cpu, "
            "or install a torch that was built for it"
        ) from error


@dataclass(frozen=True)
class Prepared:
    """N pieces and a model for them, ready to be sampled. Make one with `prepare`."""

    names: tuple[str, ...]  # (N,)
    clouds: Clouds  # in the user's frames
    thinned: Thinned  # in those of the network
    model: Eda | None  # None: nothing is sampled, scans are matched
    choice: Choice
    pins: dict[int, np.ndarray]  # (4, 4) in the user's frames, by the index of the piece

    def sample(
        self,
        config: AssembleConfig | None = None,
        *,
        noise: SE3 | None = None,
        began: float | None = None,
        progress: Progress = _silent,
    ) -> Trajectory:
        """The flow from noise to assemblies, poses (S+1, samples, N) of `thinned.pieces`.

        `noise` (samples, N) replaces what the seed would draw; all pinned pieces count as one there. Of a time limit,
        which began at a time of `time.monotonic`, it takes the half, and then gives fewer samples. Without a model it
        is one state, of no step, in which the pieces lie scattered.
        """
        config, began = config or AssembleConfig(), time.monotonic() if began is None else began
        if self.model is None:
            return self._scattered(config.seed)
        generator = torch.Generator().manual_seed(config.seed)
        parts: list[Trajectory] = []
        for first in range(0, config.samples, SAMPLES_AT_ONCE):
            if parts and config.time_limit is not None and time.monotonic() - began > config.time_limit / 2:
                break
            rows = slice(first, min(first + SAMPLES_AT_ONCE, config.samples))
            drawn = None if noise is None else noise[rows]
            parts.append(self._sampled(self.model, rows, config, drawn, generator, progress))
        return _side_by_side(parts)

    def _scattered(self, seed: int) -> Trajectory:
        """The pieces anywhere, but for those that are pinned."""
        poses = sample_noise(self.thinned.pieces, SCATTER, generator=torch.Generator().manual_seed(seed)).matrix()
        for i, pin in self._network_pins().items():
            poses[:, i] = pin.matrix().to(poses)
        return Trajectory(torch.zeros(1, 1), SE3.from_matrix(poses[None]))

    def _sampled(
        self,
        model: Eda,
        rows: slice,
        config: AssembleConfig,
        noise: SE3 | None,
        generator: torch.Generator,
        progress: Progress,
    ) -> Trajectory:
        """Some of all samples at once."""
        pieces, count = suited(self.thinned.pieces, model), rows.stop - rows.start

        def tell(at: SolverProgress) -> None:
            progress("sampling", (rows.start + count * float(at.tau.mean()) / config.rounds) / config.samples)

        progress("sampling", rows.start / config.samples)
        return model.trajectory(
            pieces,
            count,
            steps=config.steps,
            rounds=config.rounds,
            solver=config.solver,
            noise=noise,
            pins={i: pin.to(pieces.points) for i, pin in self._network_pins().items()},
            generator=generator,
            callback=tell,
        )

    def rank(
        self,
        trajectory: Trajectory,
        config: AssembleConfig | None = None,
        *,
        began: float | None = None,
        progress: Progress = _silent,
    ) -> Assembly:
        """Refine, judge and pool what was sampled. `began`: when the time limit began, of `time.monotonic`."""
        config, began = config or AssembleConfig(), time.monotonic() if began is None else began
        deadline = None if config.time_limit is None else began + config.time_limit
        evidence = self.thinned.evidence(self.model)
        matches = self._matches(evidence, config, progress, deadline)
        final, rigid = _matrices(trajectory.final), [list(self.pins)]
        samples = final[:0] if self.model is None else final  # pieces that lie scattered are no sample
        found = rank(
            evidence,
            samples,
            config.ranking,
            progress,
            deadline=deadline,
            rigid=rigid,
            lying=final[0],
            matches=matches,
        )
        candidates = self._with_pins(found)
        return Assembly(
            names=self.names,
            clouds=self.clouds,
            alternatives=self._alternatives(candidates),
            flow=self._flow(trajectory, candidates[0]),
            pinned=tuple(self.pins),
            model=self.choice.model,
            why=self._why(evidence),
            settings=config.as_dict(),
            seconds=time.monotonic() - began,
            stopped=deadline is not None and time.monotonic() >= deadline,
        )

    # -- matching --------------------------------------------------------------------------------------------------

    def _matches(
        self, evidence: Evidence, config: AssembleConfig, progress: Progress, deadline: float | None
    ) -> Matches:
        """Of scans, if they can be matched. There is no other way without a model."""
        if self.model is None and not config.ranking.refine:
            raise InputError("without a model there are no samples to judge as they are; refine, or name a model")
        if not (isinstance(evidence.regime, Scan) and config.ranking.refine and can_match()):
            return {}
        return match(
            self.thinned.in_frames(self.clouds),
            lambda done: progress("matching", done),
            lambda: deadline is not None and time.monotonic() >= deadline,
        )

    def _why(self, evidence: Evidence) -> str:
        if not isinstance(evidence.regime, Scan):
            return self.choice.why
        why = self.choice.why
        if len(self.names) > 2:
            why = f"{why}; how sure a result is was measured on pairs of scans only"
        return why if can_match() else f"{why}; {INSTALL} would add matching of local features"

    # -- pins ------------------------------------------------------------------------------------------------------

    def _network_pins(self) -> dict[int, SE3]:
        """In the frames of the network, moved as one so that the first is at the origin: far away digits are lost."""
        if not self.pins:
            return {}
        known = np.tile(np.eye(4), (len(self.names), 1, 1))
        known[list(self.pins)] = np.stack(list(self.pins.values()))
        poses = self.thinned.from_user(known)
        near = inverse(poses[min(self.pins)]) @ poses
        return {i: SE3.from_matrix(torch.from_numpy(near[i])) for i in self.pins}

    def _with_pins(self, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates that place what is pinned. If none does, only that has a place."""
        pinned = list(self.pins)
        whole = [candidate for candidate in candidates if candidate.placed[pinned].all()]
        if whole:
            return whole
        alone = replace(candidates[0], placed=np.zeros(len(self.names), dtype=bool), probability=0.0, score=0.0)
        alone.placed[pinned] = True
        return [replace(alone, joints=np.zeros_like(alone.joints), pieces=np.zeros_like(alone.pieces))]

    # -- the user's frames -----------------------------------------------------------------------------------------

    def _alternatives(self, candidates: list[Candidate]) -> tuple[Alternative, ...]:
        """Assemblies are known up to a motion of the whole: all are put where the best one has its surest piece."""
        anchor = int(candidates[0].pieces.argmax())
        there = candidates[0].poses[anchor]
        return tuple(self._alternative(one, _anchored(one.poses, anchor, there)) for one in candidates)

    def _alternative(self, candidate: Candidate, poses: np.ndarray) -> Alternative:
        confidence = candidate.pieces.copy()
        confidence[list(self.pins)] = 1
        return Alternative(
            poses=moved_onto(self.pins, self.thinned.to_user(poses)),
            placed=candidate.placed,
            score=candidate.score,
            probability=candidate.probability,
            confidence=confidence,
            joints=candidate.joints,
            count=candidate.count,
        )

    def _flow(self, trajectory: Trajectory, best: Candidate) -> np.ndarray:
        """(T, N, 4, 4) of the sample nearest to an assembly, ending where it is."""
        every = _matrices(trajectory.poses)
        flow = every[:, _nearest_sample(best, every[-1])]
        anchor = int(best.pieces.argmax())
        onto = best.poses[anchor] @ inverse(flow[-1, anchor])
        return moved_onto(self.pins, self.thinned.to_user(onto @ flow))


def _matrices(poses: SE3) -> np.ndarray:
    """(..., 4, 4) in float64, freed of the rounding that poses of the network have."""
    return poses.to(torch.float64).polish().matrix().cpu().numpy()


def _side_by_side(parts: Sequence[Trajectory]) -> Trajectory:
    """Samples of the same pieces as one batch; those that took fewer steps stay at their end."""
    steps = max(len(part.taus) for part in parts)
    rows = [torch.arange(steps).clamp(max=len(part.taus) - 1) for part in parts]
    poses = [part.poses[index] for part, index in zip(parts, rows, strict=True)]
    return Trajectory(
        torch.cat([part.taus[index] for part, index in zip(parts, rows, strict=True)], dim=1),
        SE3(torch.cat([p.rotation for p in poses], dim=1), torch.cat([p.translation for p in poses], dim=1)),
    )


def _anchored(poses: np.ndarray, anchor: int, there: np.ndarray) -> np.ndarray:
    """An assembly (N, 4, 4) moved as a whole, so that one piece comes to a pose (4, 4)."""
    return (there @ inverse(poses[anchor])) @ poses


def _nearest_sample(candidate: Candidate, samples: np.ndarray) -> int:
    """The sample whose pieces are turned most like those of an assembly, up to a turn of the whole."""
    # |R_k Q_k^T - S|_F is least for the rotation S nearest to their sum, so a long sum means agreement.
    turns = np.einsum("nij,knlj->kil", candidate.poses[:, :3, :3], samples[:, :, :3, :3])
    return int(np.linalg.norm(turns, ord="nuc", axis=(1, 2)).argmax())
