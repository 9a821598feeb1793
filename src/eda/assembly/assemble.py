"""`assemble`: clouds in, ranked assemblies out. The whole of it in one call, or in its three steps.

    clouds ─► prepare ─► PreparedPieces ─► sample ─► trajectories ─► rank ─► Assembly

In: the pieces as the user has them, in any unit, place and order. Out: motions of these very clouds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eda.assembly.contact.evidence import Evidence
from eda.assembly.inputs.clouds import MAX_PIECES, Clouds, check_number
from eda.assembly.inputs.downsample import ModelInput, to_model_device
from eda.assembly.inputs.model_choice import NO_MODEL, ModelChoice, suitable_models
from eda.assembly.inputs.names import piece_names
from eda.assembly.inputs.pins import align_to_pins, pins_by_index
from eda.assembly.proposals import kiss_matcher
from eda.assembly.proposals.flow_samples import Resampler, Sampler
from eda.assembly.regimes import AssemblyRegime, regime_of
from eda.assembly.result import Alternative, Assembly
from eda.assembly.scenes import MOST_AT_ONCE, PairCache, PairJoint, Scene, can_describe, model_digest
from eda.assembly.search.rank import rank
from eda.assembly.search.rank_config import RankConfig
from eda.assembly.small_pieces import SmallPieces
from eda.budget import Budget, Progress, Stage, silent
from eda.errors import InputError
from eda.flow import Trajectory, sample_noise
from eda.flow.solver import SOLVERS
from eda.lie import SE3
from eda.model import Eda
from eda.piece_encoding import Encoding
from eda.pieces import Cloud, Pieces
from eda.registration.rigid import inverse
from eda.settings import check_choice, check_positive, check_whole
from eda.version import __version__
from eda.weights import shipped_for

# Without a network: to how many points the pieces are downsampled in all, and how far they are scattered to begin with.
FEW_POINTS, SCATTER = 1000, 1.0
# Of the time, the share that sampling may take.
SAMPLING_SHARE = 0.5


@dataclass(frozen=True)
class AssembleConfig:
    """How hard to try."""

    samples: int = 16  # assemblies drawn from the flow
    steps: int = 10  # of the solver, per round
    rounds: int = 1  # how often the flow is followed, each time from where it ended
    solver: str = "rk1"
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
    cache: str | Path | None = None,
    progress: Progress = silent,
) -> Assembly:
    """Put pieces together: clouds (n_i, 3) of any length, at least two, in one unit of any size.

    Outward normals (n_i, 3) are estimated where there are none. `names` become the names of the files that
    `save_assembly` writes, so each must be unique. `pins` are motions (4, 4) of pieces whose place is known, by name or
    index. `model` is a model, its file, the name of one that ships with the package, or "none": scans can be assembled
    without. If none is given, one is chosen by what the pieces are. If they do not say, two are tried, each in half of
    the time, and the result is that which is surer of itself. Of many scans, pairs are registered that may overlap;
    `cache` is a folder that keeps what was found of each pair, so that the same call goes on where it was stopped.
    `progress` is called with every stage and the share of it that is done, from the beginning for each model.
    """
    config = config or AssembleConfig()
    budget = Budget(config.time_limit, progress)
    budget.report(Stage.DOWNSAMPLE, 0.0)
    given = _checked(clouds, normals, model, device, config.seed)
    choices = _choices(model, given)
    found = []
    for tried, choice in enumerate(choices):
        prepared = _with_model(choice, given, names=names, pins=pins, model=model, device=device)
        part = budget.rest(1 / (len(choices) - tried))
        if prepared.is_scene:
            found.append(prepared.assemble_scene(config, PairCache(None if cache is None else Path(cache)), part))
        else:
            found.append(prepared.rank(prepared.sample(config, budget=part), config, budget=part))
    return replace(_surest(found), seconds=budget.elapsed, stopped=any(one.stopped for one in found))


def prepare(
    clouds: Sequence[Cloud],
    normals: Sequence[Cloud | None] | None = None,
    *,
    names: Sequence[str] | None = None,
    pins: Mapping[int | str, np.ndarray] | None = None,
    model: Eda | str | Path | None = None,
    device: str = "cpu",
    seed: int = 0,
) -> PreparedPieces:
    """The pieces checked and downsampled, with a model, as `assemble` does it; of two models the likelier one."""
    given = _checked(clouds, normals, model, device, seed)
    return _with_model(_choices(model, given)[0], given, names=names, pins=pins, model=model, device=device)


def _with_model(
    choice: ModelChoice,
    given: Clouds,
    *,
    names: Sequence[str] | None,
    pins: Mapping[int | str, np.ndarray] | None,
    model: Eda | str | Path | None,
    device: str,
) -> PreparedPieces:
    names = piece_names(names, len(given))
    network = model if isinstance(model, Eda) else _load(choice, device)
    _check_number(len(given), network)
    known = pins_by_index(pins or {}, names)
    is_fracture = network is not None and network.config.regime == "fracture"
    small = SmallPieces.among(names, given, known) if is_fracture else SmallPieces.none(names, given)
    large = small.large.tolist()
    clouds = given.choose(large)
    points = FEW_POINTS if network is None else network.config.budget.of(len(clouds))
    return PreparedPieces(
        names=tuple(names[i] for i in large),
        clouds=clouds,
        model_input=ModelInput.of(clouds, points, one_density=is_fracture),
        model=network,
        choice=choice,
        pins={large.index(i): pin for i, pin in known.items()},
        small=small,
    )


def _checked(
    clouds: Sequence[Cloud],
    normals: Sequence[Cloud | None] | None,
    model: Eda | str | Path | None,
    device: str,
    seed: int,
) -> Clouds:
    """The pieces that were given. Too many for a model that is named are refused before their normals are estimated."""
    if model is not None and len(clouds) > MAX_PIECES:
        _check_number(len(clouds), model if isinstance(model, Eda) else _load(_given(model), device))
    return Clouds.of(clouds, normals, seed=seed)


def _check_number(count: int, network: Eda | None) -> None:
    """Raise `InputError` for more pieces than can be assembled if every pair is tried, unless it need not be."""
    if network is None or network.config.regime != "scan" or not can_describe(network):
        check_number(count)


def _choices(model: Eda | str | Path | None, clouds: Clouds) -> tuple[ModelChoice, ...]:
    """The model that is given, or those that may suit the pieces."""
    if model is None:
        suitable = suitable_models(clouds)
        if len(clouds) <= MAX_PIECES or len(suitable) == 1:
            return suitable
        return tuple(choice for choice in suitable if choice.model == shipped_for("scan").name)
    return (_given(model),)


def _given(model: Eda | str | Path) -> ModelChoice:
    return ModelChoice("a model of your own" if isinstance(model, Eda) else str(model), "given")


def _surest(found: Sequence[Assembly]) -> Assembly:
    """The assembly that believes most pieces to be in their place; it tells what was tried."""
    best = max(found, key=_belief)
    if len(found) == 1:
        return best
    beliefs = ", ".join(f"{one.model} {_belief(one):.0%}" for one in found)
    return replace(best, why=f"{best.why}; both models were tried, and this one is surer ({beliefs})")


def _belief(assembly: Assembly) -> float:
    """The probability of the best alternative, times the share of the pieces that it places."""
    return assembly.best.probability * float(assembly.best.placed.mean())


def _load(choice: ModelChoice, device: str) -> Eda | None:
    """The model that was chosen; None if scans are to be assembled without one."""
    if choice.model != NO_MODEL:
        return Eda.load(choice.model, device=_check_device(device))
    if not kiss_matcher.is_installed():
        missing = f"scans cannot be matched yet: {kiss_matcher.INSTALL}, or name a model"
        raise InputError(f"no model ({choice.why}), and {missing}")
    return None


def _check_device(device: str) -> torch.device:
    """The device of this name. Raises `InputError` if torch cannot compute on it."""
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
class PreparedPieces:
    """N pieces and a model for them, ready to be sampled. Make one with `prepare`.

    Pieces that are too small beside the others are not among the N, but come back in the result.
    """

    names: tuple[str, ...]  # (N,)
    clouds: Clouds  # in the user's frames
    model_input: ModelInput  # in those of the network
    model: Eda | None  # None: nothing is sampled, scans are matched
    choice: ModelChoice
    pins: dict[int, np.ndarray]  # (4, 4) in the user's frames, by the index of the piece
    small: SmallPieces  # all pieces, and which of them are the N

    @cached_property
    def regime(self) -> AssemblyRegime:
        """What is particular to pieces of this kind, with the model's calibrations if it has any."""
        if self.model is None:
            return regime_of("scan")
        return regime_of(self.model.config.regime, self.model.calibrations)

    @cached_property
    def even_encoding(self) -> Encoding | None:
        """The evenly thinned pieces as the model encodes them, to find breaks; None without a model."""
        return None if self.model is None else self.model.encode(to_model_device(self.model_input.pieces, self.model))

    @cached_property
    def shown(self) -> Pieces:
        """The pieces in the points that samples are drawn with: more of them near breaks, if the model asks."""
        model = self.model
        if model is None or not model.config.focus:
            return self.model_input.pieces
        dense = to_model_device(self.model_input.all_points(self.clouds), model)
        return model.focus(dense, even=self.even_encoding).to(device="cpu")

    @cached_property
    def encoding(self) -> Encoding | None:
        """What all samples share; None without a model."""
        if self.model is None or not self.model.config.focus:
            return self.even_encoding
        return self.model.encode(to_model_device(self.shown, self.model))

    @cached_property
    def evidence(self) -> Evidence:
        """What the pieces themselves say about how they fit; of fractures, with the breaks that the model sees."""
        model, breaks = self.model, None
        if model is not None and self.regime.has_breaks and model.has_break_head:
            breaks = self.model_input.break_probability(model, self.even_encoding)
        return self.model_input.evidence(self.regime.contact, breaks)

    # -- sampling --------------------------------------------------------------------------------------------------

    def sample(
        self, config: AssembleConfig | None = None, *, noise: SE3 | None = None, budget: Budget | None = None
    ) -> Trajectory:
        """The flow from noise to assemblies, poses (S+1, samples, N) of `model_input.pieces`.

        `noise` (samples, N) replaces what the seed would draw; all pinned pieces count as one there. It takes at most
        half of a time limit, and then gives fewer samples. Without a model it is one state, of no step, in which the
        pieces lie scattered.
        """
        config = config or AssembleConfig()
        budget = budget or Budget(config.time_limit)
        self._check_not_scene()
        if self.model is None:
            return self._scatter(config.seed)
        sampler = Sampler(self.model, self._encoding_with_pins(self.model), config.steps, config.rounds, config.solver)
        generator = torch.Generator().manual_seed(config.seed)
        return sampler.sample(config.samples, generator, noise, budget.part(SAMPLING_SHARE))

    def _encoding_with_pins(self, model: Eda) -> Encoding:
        if not self.pins:
            assert self.encoding is not None
            return self.encoding
        pieces = to_model_device(self.shown, model)
        return model.encode(pieces, {i: pin.to(pieces.points) for i, pin in self._network_pins().items()})

    def _scatter(self, seed: int) -> Trajectory:
        """The pieces anywhere, but for those that are pinned."""
        generator = torch.Generator().manual_seed(seed)
        poses = sample_noise(self.model_input.pieces, SCATTER, generator=generator).matrix()
        for i, pin in self._network_pins().items():
            poses[:, i] = pin.matrix().to(poses)
        return Trajectory(torch.zeros(1, 1), SE3.from_matrix(poses[None]))

    def _network_pins(self) -> dict[int, SE3]:
        """In the frames of the network, moved as one so that the first is at the origin: far away digits are lost."""
        if not self.pins:
            return {}
        motions = np.tile(np.eye(4), (len(self.names), 1, 1))
        motions[list(self.pins)] = np.stack(list(self.pins.values()))
        poses = self.model_input.from_user(motions)
        near = inverse(poses[min(self.pins)]) @ poses
        return {i: SE3.from_matrix(torch.from_numpy(near[i])) for i in self.pins}

    # -- ranking ---------------------------------------------------------------------------------------------------

    def rank(
        self, trajectory: Trajectory, config: AssembleConfig | None = None, *, budget: Budget | None = None
    ) -> Assembly:
        """The assembly of samples, after refining, scoring and combining them with all else that is proposed."""
        config = config or AssembleConfig()
        budget = budget or Budget(config.time_limit)
        self._check_not_scene()
        if self.model is None and not config.ranking.refine:
            raise InputError("without a model there are no samples to score as they are; refine, or name a model")
        final = _matrices(trajectory.final)
        found = rank(
            self.evidence,
            final[:0] if self.model is None else final,  # pieces that lie scattered are no sample
            config.ranking,
            regime=self.regime,
            budget=budget,
            rigid=[list(self.pins)],
            group_poses=final[0],
            detail=self.model_input.detail(self.clouds),
            resample=None if self.model is None else self._resampler(self.model, config),
        )
        best = self._with_pins(found)
        placed = self._assembly(self._in_user_frames(best), self._flow(trajectory, best[0]), config, budget)
        return self.small.add_to(placed)

    def _resampler(self, model: Eda, config: AssembleConfig) -> Resampler:
        return Resampler(model, config.samples, config.steps, config.rounds, config.solver, config.seed)

    def _assembly(
        self, found: Sequence[Alternative], flow: np.ndarray, config: AssembleConfig, budget: Budget
    ) -> Assembly:
        """From alternatives and a flow (T, N, 4, 4) in the user's frames."""
        return Assembly(
            names=self.names,
            clouds=self.clouds,
            alternatives=tuple(found),
            flow=flow,
            pinned=tuple(self.pins),
            model=self.choice.model,
            why=self._why(),
            settings=config.as_dict(),
            seconds=budget.elapsed,
            stopped=budget.exhausted,
            calibrated=self.model is None or self.model.calibrations is not None,
            known=self.regime.confidence.knows(self.evidence),
        )

    def _why(self) -> str:
        """The reasons for the model, and what limits it."""
        uncalibrated = self.model is not None and self.model.calibrations is None
        limits = ["its probabilities are not calibrated"] if uncalibrated else []
        return "; ".join([self.choice.why, *limits, *self.regime.cautions(len(self.names))])

    def _with_pins(self, found: list[Alternative]) -> list[Alternative]:
        """The alternatives that place what is pinned. If none does, only that has a place."""
        pinned = list(self.pins)
        whole = [alternative for alternative in found if alternative.placed[pinned].all()]
        if whole:
            return whole
        nothing, placed = np.zeros(len(self.names)), np.isin(np.arange(len(self.names)), pinned)
        only_pins = replace(found[0], placed=placed, probability=0.0, score=0.0, confidence=nothing)
        return [replace(only_pins, joints=np.zeros_like(only_pins.joints))]

    # -- many scans ------------------------------------------------------------------------------------------------

    @property
    def is_scene(self) -> bool:
        """Whether there are too many scans to try every pair, and all at once."""
        return self.regime.name == "scan" and len(self.names) > MOST_AT_ONCE

    def _check_not_scene(self) -> None:
        if self.is_scene:
            raise InputError(
                f"{len(self.names)} scans: more than {MOST_AT_ONCE} are put together from pairs, and not sampled and "
                "ranked at once; use assemble"
            )

    def assemble_scene(self, config: AssembleConfig, cache: PairCache, budget: Budget) -> Assembly:
        """The assembly of many scans, from pairs of them."""
        scene = Scene(
            self.clouds,
            self.model,
            lambda i, j: self._register(i, j, config),
            self._pair_settings(config),
            cache,
            self.pins,
        )
        best, pairs = scene.assemble(budget)
        best = replace(
            best, poses=align_to_pins(self.pins, best.poses), confidence=self._pinned_are_sure(best.confidence)
        )
        scattered = self.model_input.to_user(_matrices(self._scatter(config.seed).poses)[:, 0])
        assembly = self._assembly([best], np.concatenate([scattered, best.poses[None]]), config, budget)
        return replace(assembly, pairs=pairs)

    def _register(self, i: int, j: int, config: AssembleConfig) -> tuple[PairJoint, ...]:
        """The ways in which two of the scans may lie to each other, as if there were no others."""
        clouds, names = self.clouds.choose([i, j]), (self.names[i], self.names[j])
        points = FEW_POINTS if self.model is None else self.model.config.budget.of(2)
        two = PreparedPieces(
            names, clouds, ModelInput.of(clouds, points), self.model, self.choice, {}, SmallPieces.none(names, clouds)
        )
        config = replace(config, time_limit=None)
        found = two.rank(two.sample(config), config).alternatives
        return tuple(
            PairJoint(inverse(one.poses[1]) @ one.poses[0], one.probability) for one in found if one.placed.all()
        )

    def _pair_settings(self, config: AssembleConfig) -> str:
        """Everything but the scans that the result of a pair depends on."""
        weights = NO_MODEL if self.model is None else model_digest(self.model)
        settings = f"{config.as_dict() | {'time_limit': None}} {config.ranking}"
        return f"{__version__} {weights} {settings} {kiss_matcher.version()}"

    def _pinned_are_sure(self, confidence: np.ndarray) -> np.ndarray:
        """(N,) the confidence, 1 for what is pinned."""
        return np.where(np.isin(np.arange(len(self.names)), list(self.pins)), 1.0, confidence)

    # -- the user's frames -----------------------------------------------------------------------------------------

    def _in_user_frames(self, found: list[Alternative]) -> tuple[Alternative, ...]:
        """Assemblies are known up to a motion of the whole: all are put where the best one has its surest piece."""
        anchor = int(found[0].confidence.argmax())
        target = found[0].poses[anchor]
        return tuple(self._in_user_frame(one, _move_piece_to(one.poses, anchor, target)) for one in found)

    def _in_user_frame(self, alternative: Alternative, poses: np.ndarray) -> Alternative:
        poses = align_to_pins(self.pins, self.model_input.to_user(poses))
        return replace(alternative, poses=poses, confidence=self._pinned_are_sure(alternative.confidence))

    def _flow(self, trajectory: Trajectory, best: Alternative) -> np.ndarray:
        """(T, N, 4, 4) of the sample nearest to an assembly, ending where it is."""
        every = _matrices(trajectory.poses)
        flow = every[:, _nearest_sample(best, every[-1])]
        anchor = int(best.confidence.argmax())
        onto = best.poses[anchor] @ inverse(flow[-1, anchor])
        return align_to_pins(self.pins, self.model_input.to_user(onto @ flow))


def _matrices(poses: SE3) -> np.ndarray:
    """(..., 4, 4) in float64, freed of the rounding that poses of the network have."""
    return poses.to(torch.float64).polish().matrix().cpu().numpy()


def _move_piece_to(poses: np.ndarray, piece: int, target: np.ndarray) -> np.ndarray:
    """An assembly (N, 4, 4) moved as a whole, so that one piece comes to a pose (4, 4)."""
    return (target @ inverse(poses[piece])) @ poses


def _nearest_sample(alternative: Alternative, samples: np.ndarray) -> int:
    """The sample whose pieces are turned most like those of an assembly, up to a turn of the whole."""
    # |R_k Q_k^T - S|_F is least for the rotation S nearest to their sum, so a long sum means agreement.
    turns = np.einsum("nij,knlj->kil", alternative.poses[:, :3, :3], samples[:, :, :3, :3])
    return int(np.linalg.norm(turns, ord="nuc", axis=(1, 2)).argmax())
