"""Eda: the network and the flow together. The only place where the two meet.

In: `Pieces`. Out: their velocity v_X(g) = f(gX) g, the training loss, and sampled poses; a model on disk is one file.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import torch
from torch import Tensor, nn

from eda.calibration import Calibrations, calibration_values, calibrations_from
from eda.encoding import Encoding
from eda.errors import InputError
from eda.field import VelocityField
from eda.flow import TAU_SAMPLERS, Path, Trajectory, integrate, merge_pinned, sample_noise
from eda.flow.loss import Loss as FlowLoss
from eda.flow.loss import flow_loss
from eda.flow.solver import Callback
from eda.graph import Pyramid
from eda.lie import SE3, so3
from eda.model_file import read_model_file, write_model_file
from eda.nn import EdaNetwork, NetworkConfig, Tokens, judging_loss, matching_loss
from eda.pieces import Pieces, Puzzle
from eda.regime import REGIMES, Regime
from eda.settings import check_choice, check_positive, check_switch, check_whole
from eda.weights import path_of


@dataclass(frozen=True)
class EdaConfig:
    """Everything a model is, apart from its weights."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    noise_std: float = 0.4  # sqrt(omega) of P_0 in units of the puzzle's size; `fit_noise_std` fits it to data
    tau_sampler: str = "logit_normal"
    translation_weight: float = 1.0  # 1: the paper's Frobenius norm
    break_weight: float = 0.3  # of the break head's cross-entropy, where the network has one
    match_weight: float = 1.0  # of the cross-entropy of matched places, where the network matches any
    judge_weight: float = 1.0  # of the cross-entropy of judged motions, where the network proposes any
    boldness: float = 1.0  # samples are of the density to this power, as far as motions are proposed (nn/motions.py)
    num_points: int = 5000  # of a puzzle in training, and so what a puzzle is best thinned to in use
    no_correction: bool = False  # ablation (r): the path ends in r g~_1 with a random r instead of r*
    body_twist: bool = False  # ablation (h): what f predicts is meant in the piece's own frame, which it cannot see
    regime: Regime = "fracture"  # the kind of pieces that it is for

    def __post_init__(self) -> None:
        check_positive("noise_std", self.noise_std)
        check_choice("tau_sampler", self.tau_sampler, tuple(TAU_SAMPLERS))
        check_positive("translation_weight", self.translation_weight)
        check_positive("break_weight", self.break_weight)
        check_positive("match_weight", self.match_weight)
        check_positive("judge_weight", self.judge_weight)
        check_positive("boldness", self.boldness)
        check_whole("num_points", self.num_points, 1, 2**40)
        check_switch("no_correction", self.no_correction)
        check_switch("body_twist", self.body_twist)
        check_choice("regime", self.regime, REGIMES)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> EdaConfig:
        """From plain values, as read from JSON. Raises `InputError` for a key that is not known."""
        settings = _only_fields(EdaConfig, values)
        network = _only_fields(NetworkConfig, settings.pop("network", {}))
        return EdaConfig(network=NetworkConfig(**network), **settings)


@dataclass(frozen=True)
class Labels:
    """What training data may know beyond the solution."""

    on_break: Tensor | None = None  # (P,) bool, in the order of the pieces' points
    own: Tensor | None = None  # (N,) bool, False: a piece of another object, which has no place


@dataclass(frozen=True)
class TrainingLoss:
    """Means over the pieces of a puzzle, then over puzzles; of the break head over points, of matches over places, of
    motions over right and wrong ones.
    """

    rotation: Tensor  # |dw|^2
    translation: Tensor  # |du|^2
    breaks: Tensor | None  # cross-entropy
    matches: Tensor | None  # cross-entropy
    motions: Tensor | None  # cross-entropy
    total: Tensor  # what is minimised


def _only_fields(kind: type, values: Any) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        raise InputError(f"expected a table of settings for {kind.__name__}, got {type(values).__name__}")
    unknown = sorted(set(values) - {f.name for f in dataclasses.fields(kind)})
    if unknown:
        raise InputError(f"unknown settings {', '.join(map(repr, unknown))} for {kind.__name__}")
    return dict(values)


class Eda(nn.Module):
    """Equivariant flow matching for the assembly of rigid pieces."""

    def __init__(self, config: EdaConfig | None = None, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config or EdaConfig()
        self.calibrations: Calibrations | None = None  # of its assemblies' probabilities, once they were fitted
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = EdaNetwork(self.config.network)

    def pyramid(self, pieces: Pieces) -> Pyramid:
        """The pieces at every resolution of this network: build it once and pass it where pieces are asked for."""
        config = self.config.network
        return Pyramid.build(
            pieces,
            num_levels=config.num_levels,
            ratio=config.ratio,
            num_neighbors=config.num_neighbors,
            num_nearest=self.network.breaks.num_levels if self.network.breaks else 0,
        )

    def field(self, pieces: Pieces | Pyramid, *, samples: int = 1, boldness: float = 1.0) -> VelocityField:
        """v_X as a function of poses and tau; as it was learned, or as it is sampled (`EdaConfig.boldness`)."""
        return self._field(pieces if isinstance(pieces, Pyramid) else self.pyramid(pieces), samples, boldness)

    def _field(
        self, pyramid: Pyramid, samples: int, boldness: float = 1.0, encoded: Tokens | Encoding | None = None
    ) -> VelocityField:
        if len(pyramid.levels) != self.config.network.num_levels:
            raise InputError(
                f"this network has {self.config.network.num_levels} levels but the pyramid {len(pyramid.levels)}"
            )
        weight = self.network.head.output.weight
        points = pyramid.pieces.points
        if points.dtype != weight.dtype or points.device != weight.device:
            raise InputError(
                f"the pieces are {points.dtype} on {points.device} but the model is {weight.dtype} on {weight.device}"
            )
        encoded = encoded.tokens if isinstance(encoded, Encoding) else encoded
        return VelocityField(
            self.network, pyramid, samples, body_twist=self.config.body_twist, encoded=encoded, boldness=boldness
        )

    def _check_poses(self, poses: SE3) -> None:
        weight, got = self.network.head.output.weight, poses.rotation
        if got.dtype != weight.dtype or got.device != weight.device:
            raise InputError(
                f"the poses are {got.dtype} on {got.device} but the model is {weight.dtype} on {weight.device}"
            )
        if not poses.isfinite():
            raise InputError("the poses have NaN or infinite entries")

    def velocity(self, pieces: Pieces | Pyramid, poses: SE3, tau: float | Tensor) -> Tensor:
        """f(gX), the spatial twist (w, t) of every piece at poses (N,): v_X(g) = f(gX) g. -> (N, 6)."""
        velocity_field = self.field(pieces)
        expected = (len(velocity_field.puzzle),)
        if poses.shape != expected:
            raise InputError(f"{expected[0]} pieces need poses of shape {expected}, got {tuple(poses.shape)}")
        self._check_poses(poses)
        weight = self.network.head.output.weight
        num_puzzles = int(velocity_field.puzzle.max()) + 1
        times = torch.as_tensor(tau, dtype=weight.dtype, device=weight.device)
        if times.shape not in [(), (num_puzzles,)] or not bool(times.isfinite().all()):
            raise InputError(f"tau must be a finite number or one for each of {num_puzzles} puzzles, got {tau}")
        times = times.expand(num_puzzles)
        return velocity_field(poses, times)

    def loss(
        self,
        puzzle: Puzzle,
        *,
        pyramid: Pyramid | None = None,
        draws: int = 1,
        labels: Labels | None = None,
        generator: torch.Generator | None = None,
    ) -> TrainingLoss:
        """The flow matching loss, eq. (2), on `draws` draws of noise and tau for every puzzle.

        Draws of a network whose encoder does not see tau share one pass of the encoder, which is most of the cost.
        Without any draw only what is learned beside the flow is: breaks and matches. `labels` say which pieces belong
        to the puzzle and, for a break head, which points lie on a break.
        """
        check_whole("draws", draws, 0, 2**31)
        network, labels = self.network, labels or Labels()
        pyramid = pyramid or self.pyramid(puzzle.pieces)
        on_break = None if network.breaks is None else labels.on_break
        levels = matching = arrangements = encoded = breaks = matches = motions = None
        if on_break is not None or network.matcher is not None:
            # An encoder that sees tau is read at tau = 1 by the break head; a time-free one runs once for all.
            levels = network.descend(pyramid, pyramid.pieces.points.new_ones(pyramid.pieces.num_puzzles))
            matching = network.match(pyramid, levels)
        if levels is not None and on_break is not None:
            breaks = self._break_loss(pyramid, levels, on_break)
        if matching is not None:
            matches = matching_loss(matching, puzzle.solution, labels.own)
        if matching is not None and network.motions is not None and draws:
            proposed = network.propose(pyramid, matching)
            arrangements = network.arrange(pyramid, proposed)
            motions = judging_loss(network.motions.judges, proposed, arrangements, puzzle.solution, labels.own)
        if levels is not None and draws and not network.config.time_in_encoder:
            encoded = network.tokens(pyramid, levels, arrangements)
        flow = self._flow_loss(self._field(pyramid, draws, encoded=encoded), puzzle, draws, labels, generator)
        total = flow.total
        config = self.config
        sides = (breaks, config.break_weight), (matches, config.match_weight), (motions, config.judge_weight)
        for side, weight in sides:
            total = total if side is None else total + weight * side
        return TrainingLoss(flow.rotation, flow.translation, breaks, matches, motions, total)

    def _flow_loss(
        self,
        velocity_field: VelocityField,
        puzzle: Puzzle,
        draws: int,
        labels: Labels,
        generator: torch.Generator | None,
    ) -> FlowLoss:
        """Of a field of `draws` copies; of none it is zero."""
        pieces = puzzle.pieces
        if not draws:
            nothing = pieces.points.new_zeros(())
            return FlowLoss(nothing, nothing, nothing)
        own = None if labels.own is None else labels.own.repeat(draws)
        num_puzzles = draws * pieces.num_puzzles
        noise = sample_noise(pieces, self.config.noise_std, samples=draws, generator=generator).reshape(-1)
        tau = TAU_SAMPLERS[self.config.tau_sampler](num_puzzles, generator).to(pieces.points)
        solution = SE3.cat([puzzle.solution] * draws)
        turn = so3.random(num_puzzles, generator=generator).to(noise.rotation) if self.config.no_correction else None
        path = Path.generated_by(noise, solution, velocity_field.puzzle, num_puzzles, own, turn)
        poses = path.at(tau[velocity_field.puzzle])
        counted = slice(None) if own is None else own
        return flow_loss(
            velocity_field.velocities(poses, tau)[counted],
            velocity_field.center_velocity(path.twist, poses)[counted],
            velocity_field.puzzle[counted],
            num_puzzles,
            self.config.translation_weight,
        )

    def _break_loss(self, pyramid: Pyramid, levels: list[Tensor], on_break: Tensor) -> Tensor:
        logits = self.network.break_logits(pyramid, levels)
        return nn.functional.binary_cross_entropy_with_logits(logits, on_break[pyramid.order].to(logits.dtype))

    def encode(self, pieces: Pieces | Pyramid, pins: Mapping[int, SE3] | None = None) -> Encoding:
        """What samples of the same pieces with the same pins share, and the break head too, if there are no pins."""
        if isinstance(pieces, Pyramid):
            return Encoding(self.network, pieces.pieces, pieces)
        merged = merge_pinned(pieces, pins) if pins else None
        rigid = merged.pieces if merged else pieces
        return Encoding(self.network, rigid, self.pyramid(rigid), merged)

    @torch.no_grad()
    def break_probability(self, pieces: Pieces | Pyramid | Encoding, at: Pieces | None = None) -> Tensor:
        """How likely every point lies on a break surface. -> (P,), in the order of the points that were given.

        The network looks at `pieces`, as dense as what it was trained on, and judges their points, or those of `at`:
        the same pieces in the same frames at any density.
        """
        encoding = pieces if isinstance(pieces, Encoding) else self.encode(pieces)
        pyramid = encoding.pyramid
        probability = torch.sigmoid(self.network.break_logits(pyramid, encoding.levels, at))
        if at is not None:
            return probability
        return torch.empty_like(probability).index_copy_(0, pyramid.order, probability)

    def sample(self, pieces: Pieces | Encoding, samples: int = 1, **options: Any) -> SE3:
        """`samples` assemblies of every puzzle, in one batch: poses (samples, N). Options as for `trajectory`."""
        return self.trajectory(pieces, samples, **options).final

    @torch.no_grad()
    def trajectory(
        self,
        pieces: Pieces | Encoding,
        samples: int = 1,
        *,
        solver: str = "rk4",
        steps: int = 20,
        rounds: int = 1,
        tolerance: float = 1e-3,
        noise: SE3 | None = None,
        pins: Mapping[int, SE3] | None = None,
        generator: torch.Generator | None = None,
        callback: Callback | None = None,
    ) -> Trajectory:
        """The flow from noise to `samples` assemblies: poses (S+1, samples, N) in the units of `pieces.points`.

        In further `rounds` (ours) it is followed again from where it ended, as if that were noise; tau counts on.
        `noise` (samples, N) replaces the draw from P_0. `pins` are known poses of pieces by their index: several of one
        puzzle are sampled as one rigid piece (and count as one in `noise`), and the result is moved to where they are.
        Several calls may share what `encode` returns, which then has the pins.
        """
        check_whole("samples", samples, 1, 2**31)
        check_whole("rounds", rounds, 1, 2**31)
        if isinstance(pieces, Encoding) and pins:
            raise InputError("give the pins to `encode`: what was encoded without them cannot be pinned")
        encoding = pieces if isinstance(pieces, Encoding) else self.encode(pieces, pins)
        rigid, merged = encoding.pieces, encoding.merged
        velocity_field = self._field(encoding.pyramid, samples, self.config.boldness, encoding)
        if noise is None:
            noise = sample_noise(rigid, self.config.noise_std, samples=samples, generator=generator)
        if noise.shape != (samples, rigid.num_pieces):
            raise InputError(f"noise must have shape {(samples, rigid.num_pieces)}, got {tuple(noise.shape)}")
        self._check_poses(noise)
        walked = integrate(
            velocity_field,
            noise.reshape(-1),
            solver=solver,
            steps=steps,
            rounds=rounds,
            tolerance=tolerance,
            puzzle=velocity_field.puzzle,
            callback=callback,
        )
        poses = walked.poses.reshape(-1, samples, rigid.num_pieces)
        return Trajectory(walked.taus, merged.restore(poses) if merged else poses)

    # -- on disk ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, dtype: torch.dtype | None = None) -> None:
        """Write one safetensors file whose header carries config and calibrations as JSON; all of it, or nothing."""
        calibration = None if self.calibrations is None else calibration_values(self.calibrations)
        write_model_file(FilePath(path), dataclasses.asdict(self.config), self.state_dict(), dtype, calibration)

    @staticmethod
    def load(path: str | os.PathLike[str], *, device: torch.device | str = "cpu") -> Eda:
        """Read a file written by `save`, or a model that ships with the package by its name, in float32.

        Nothing in the file is ever executed.
        """
        file = read_model_file(path_of(FilePath(path)))
        try:
            config = EdaConfig.from_dict(_with_regime(file.config, file.version))
        except (InputError, TypeError) as error:
            raise InputError(f"{file.path}: the config of this model cannot be used: {error}") from error
        # A model that has shapes but no memory, so that no file can ask for more memory than it fills.
        with torch.device("meta"):
            file.check_shapes(Eda(config).state_dict())
        model = Eda(config)
        model.load_state_dict(file.weights)
        model.calibrations = calibrations_from(file.calibration, file.path)
        return model.to(device)


def _with_regime(config: Any, version: int) -> Any:
    """The config of a model file; that of a file of version 1, which names no regime, with the one it was used for.

    A network with a break head was used for fractures, any other for scans.
    """
    if version > 1 or not isinstance(config, Mapping):
        return config
    network = config.get("network")
    breaks = isinstance(network, Mapping) and network.get("break_head") is True
    return {"regime": "fracture" if breaks else "scan", **config}


load = Eda.load
