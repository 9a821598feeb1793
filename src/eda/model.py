"""Eda: the network and the flow together. The only place where the two meet.

In: `Pieces`. Out: their velocity v_X(g) = f(gX) g, the training loss, and sampled poses; a model on disk is one file.
f is an `EdaNetwork`, or any module that meets `eda.nn.protocol`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path as FilePath
from typing import Any, get_args

import torch
from torch import Tensor, nn

from eda.auxiliary import auxiliary_losses, custom_auxiliary_losses
from eda.calibration import Calibrations, calibration_values, calibrations_from
from eda.errors import InputError
from eda.field import EncodedEda, VelocityField, custom_velocities
from eda.flow import NOISES, Trajectory, integrate
from eda.flow.loss import Loss as FlowLoss
from eda.flow.solver import Callback
from eda.flow_objective import Draws, FieldOf, losses_of_both_paths, path_loss
from eda.focus import beside_breaks, thin
from eda.graph import Pyramid
from eda.lie import SE3
from eda.model_config import EdaConfig
from eda.model_file import read_model_file, write_model_file
from eda.nn import EdaNetwork, NetworkConfig, Paths, Tokens
from eda.nn.protocol import CustomNetwork, Labels
from eda.piece_encoding import Encoding
from eda.pieces import Pieces, Puzzle
from eda.registration.rigid_groups import merge_pinned
from eda.registry import look_up
from eda.settings import check_choice, check_whole
from eda.weights import path_of

ON_BREAK = 0.5  # the probability above which a point counts as on a break


@dataclass(frozen=True)
class TrainingLoss:
    """Means over the pieces of a puzzle, then over puzzles; None for what this network does not learn.

    Breaks are a mean over points, matches over the points of a level, motions over right and wrong ones.
    """

    rotation: Tensor  # |dw|^2
    translation: Tensor  # |du|^2
    total: Tensor  # what is minimised
    breaks: Tensor | None = None  # cross-entropy
    matches: Tensor | None = None  # cross-entropy
    motions: Tensor | None = None  # cross-entropy
    synchronisation: Tensor | None = None  # of relative poses, a mean over rounds
    auxiliary: Tensor | None = None  # what a network of the user's own adds


class Eda(nn.Module):
    """Equivariant flow matching for the assembly of rigid pieces."""

    network: nn.Module

    def __init__(self, config: EdaConfig | None = None, *, network: nn.Module | None = None, seed: int = 0) -> None:
        """A model with new weights, or around a `network` that exists and then replaces that of the config."""
        super().__init__()
        self.calibrations: Calibrations | None = None  # of its assemblies' probabilities, once they were fitted
        config = config or EdaConfig()
        if network is not None:
            of_network = network.config if isinstance(network, EdaNetwork) else CustomNetwork.of(network)
            self.config, self.network = dataclasses.replace(config, network=of_network), network
            return
        self.config = config
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            of_config = config.network
            self.network = EdaNetwork(of_config) if isinstance(of_config, NetworkConfig) else of_config.make()

    @property
    def device(self) -> torch.device:
        """Where the weights are; the CPU for a network without any."""
        weight = self._weight
        return torch.device("cpu") if weight is None else weight.device

    @property
    def has_break_head(self) -> bool:
        """Whether `break_probability` can be asked."""
        return isinstance(self.network, EdaNetwork) and self.network.breaks is not None

    @property
    def takes_normals(self) -> bool:
        """Whether the network looks at normals where the pieces have any."""
        return isinstance(self.config.network, CustomNetwork) or self.config.network.normals != "absent"

    @property
    def _weight(self) -> Tensor | None:
        """Any weight: all have the same precision and device."""
        return next((weight for weight in self.parameters() if weight.is_floating_point()), None)

    @property
    def pyramid_settings(self) -> dict[str, Any]:
        """The arguments of `Pyramid.build` for this network; a network of the user's own gets the points alone."""
        config = self.config.network
        if isinstance(config, CustomNetwork):
            return {"num_levels": 0, "ratio": 0.5, "num_neighbors": 1, "num_nearest": 0}
        assert isinstance(self.network, EdaNetwork)
        return {
            "num_levels": config.num_levels,
            "ratio": config.ratio,
            "num_neighbors": config.num_neighbors,
            "num_nearest": self.network.breaks.num_levels if self.network.breaks else 0,
        }

    def pyramid(self, pieces: Pieces) -> Pyramid:
        """The pieces at every resolution of this network: build it once and pass it where pieces are asked for."""
        return Pyramid.build(pieces, **self.pyramid_settings)

    def focus(self, dense: Pieces, num_points: int | None = None, even: Encoding | None = None) -> Pieces:
        """The pieces as this model is best shown them: `num_points` of the points of every puzzle, in the same frames.

        A model with a focus first looks at an even choice of points for breaks (`even`, if it has encoded one already),
        then gets about half of its points on and beside them. Any other gets the even choice.
        """
        budget = [num_points or self.config.budget.of(count) for count in dense.counts.tolist()]
        if not self.config.focus:
            return thin(dense, budget)
        on_break = self.break_probability(even or thin(dense, budget), dense) > ON_BREAK
        return thin(dense, budget, beside_breaks(dense, on_break))

    def sample_noise(self, pieces: Pieces, samples: int = 1, generator: torch.Generator | None = None) -> SE3:
        """Draws from P_0, the noise that this model is trained with and starts from. -> (samples, N)."""
        noise = look_up(NOISES, "noise", self.config.noise)
        draws = noise(pieces, self.config.noise_std, samples=samples, generator=generator)
        if draws.shape != (samples, pieces.num_pieces):
            raise InputError(
                f"the noise {self.config.noise!r} must return poses of shape {(samples, pieces.num_pieces)}, "
                f"but gave {tuple(draws.shape)}"
            )
        return draws

    def field(
        self, pieces: Pieces | Pyramid, *, samples: int = 1, boldness: float = 1.0, paths: Paths = "all"
    ) -> VelocityField:
        """v_X as a function of poses and tau; as it was learned, or as it is sampled (`EdaConfig.boldness`)."""
        pyramid = pieces if isinstance(pieces, Pyramid) else self.pyramid(pieces)
        return self._field(pyramid, samples, boldness, paths=paths)

    def _field(
        self,
        pyramid: Pyramid,
        samples: int,
        boldness: float = 1.0,
        encoded: Tokens | None = None,
        paths: Paths = "all",
    ) -> VelocityField:
        self._check_pyramid(pyramid)
        if isinstance(self.network, EdaNetwork):
            velocities = EncodedEda(self.network, pyramid, samples, encoded=encoded, boldness=boldness, paths=paths)
            return VelocityField(velocities, pyramid.pieces, samples, body_twist=self.config.body_twist)
        plain = custom_velocities(self.network, pyramid.pieces, samples)
        return VelocityField(plain, pyramid.pieces, samples, body_twist=self.config.body_twist)

    def _check_pyramid(self, pyramid: Pyramid) -> None:
        num_levels = self.pyramid_settings["num_levels"]
        if len(pyramid.levels) != num_levels:
            raise InputError(f"this network has {num_levels} levels but the pyramid {len(pyramid.levels)}")
        self._check_alike("pieces", pyramid.pieces.points)

    def _check_alike(self, what: str, values: Tensor) -> None:
        """Raises `InputError` for values of another precision or on another device than the weights."""
        weight = self._weight
        if weight is not None and (values.dtype != weight.dtype or values.device != weight.device):
            raise InputError(
                f"the {what} are {values.dtype} on {values.device} but the model is {weight.dtype} on {weight.device}"
            )

    def _check_poses(self, poses: SE3) -> None:
        self._check_alike("poses", poses.rotation)
        if not poses.isfinite():
            raise InputError("the poses have NaN or infinite entries")

    def velocity(self, pieces: Pieces | Pyramid, poses: SE3, tau: float | Tensor) -> Tensor:
        """f(gX), the spatial twist (w, t) of every piece at poses (N,): v_X(g) = f(gX) g. -> (N, 6)."""
        velocity_field = self.field(pieces)
        expected = (len(velocity_field.puzzle),)
        if poses.shape != expected:
            raise InputError(f"{expected[0]} pieces need poses of shape {expected}, got {tuple(poses.shape)}")
        self._check_poses(poses)
        num_puzzles = int(velocity_field.puzzle.max()) + 1
        times = torch.as_tensor(tau, dtype=poses.rotation.dtype, device=poses.rotation.device)
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
        network, config, labels = self.network, self.config, labels or Labels()
        pyramid, encoded = pyramid or self.pyramid(puzzle.pieces), None
        self._check_pyramid(pyramid)
        if isinstance(network, EdaNetwork):
            auxiliary, encoded = auxiliary_losses(network, pyramid, puzzle, labels, with_flow=draws > 0)
        else:
            auxiliary = custom_auxiliary_losses(network, puzzle, labels)
        zero = puzzle.pieces.points.new_zeros(())
        flow = FlowLoss(zero, zero, zero)
        if draws:
            field_of = partial(self._field, pyramid, encoded=encoded)
            flow, more = self._flow_loss(puzzle, field_of, draws, labels, generator)
            auxiliary |= more
        weights = {"breaks": config.break_weight, "matches": config.match_weight, "motions": config.judge_weight}
        total = sum((weights.get(name, 1.0) * loss for name, loss in auxiliary.items()), start=flow.total)
        return TrainingLoss(flow.rotation, flow.translation, total, **auxiliary)

    def _flow_loss(
        self,
        puzzle: Puzzle,
        field_of: FieldOf,
        draws: int,
        labels: Labels,
        generator: torch.Generator | None,
    ) -> tuple[FlowLoss, dict[str, Tensor]]:
        """Eq. (2) on some draws, and the loss of a synchronising field by its name."""
        noise = self.sample_noise(puzzle.pieces, draws, generator)
        drawn, weight = Draws.of(puzzle, noise, self.config, labels.own, generator), self.config.translation_weight
        if not self._synchronises:
            return path_loss(drawn, field_of, draws, weight), {}
        flow, synchronisation = losses_of_both_paths(drawn, field_of, draws, weight, generator)
        return flow, {"synchronisation": synchronisation}

    @property
    def _synchronises(self) -> bool:
        return isinstance(self.network, EdaNetwork) and self.network.synchronising is not None

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
        if not isinstance(self.network, EdaNetwork):
            raise InputError("this network has no break head: only an EdaNetwork with break_head=True does")
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
        paths: Paths = "all",
        generator: torch.Generator | None = None,
        callback: Callback | None = None,
    ) -> Trajectory:
        """The flow from noise to `samples` assemblies: poses (S+1, samples, N) in the units of `pieces.points`.

        In further `rounds` (ours) it is followed again from where it ended, as if that were noise; tau counts on.
        `noise` (samples, N) replaces the draw from P_0. `pins` are known poses of pieces by their index: several of one
        puzzle are sampled as one rigid piece (and count as one in `noise`), and the result is moved to where they are.
        `paths` says what of a network that matches pieces is used: "all"; "pairs", so that nothing is searched or
        synchronised as a whole; or "croco", the paper's cross-attention alone. Several calls may share what `encode`
        returns, which then has the pins.
        """
        check_choice("paths", paths, get_args(Paths))
        check_whole("samples", samples, 1, 2**31)
        check_whole("rounds", rounds, 1, 2**31)
        if isinstance(pieces, Encoding) and pins:
            raise InputError("give the pins to `encode`: what was encoded without them cannot be pinned")
        encoding = pieces if isinstance(pieces, Encoding) else self.encode(pieces, pins)
        rigid, merged = encoding.pieces, encoding.merged
        encoded = encoding.tokens if paths == "all" else None
        velocity_field = self._field(encoding.pyramid, samples, self.config.boldness, encoded, paths)
        if noise is None:
            noise = self.sample_noise(rigid, samples, generator)
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
        return Trajectory(walked.taus, merged.expand(poses) if merged else poses)

    # -- on disk ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, dtype: torch.dtype | None = None) -> None:
        """Write one safetensors file whose header carries config and calibrations as JSON; all of it, or nothing."""
        config = self.config
        if isinstance(config.network, CustomNetwork):
            config = dataclasses.replace(config, network=self._checked_custom(FilePath(path)))
        calibration = None if self.calibrations is None else calibration_values(self.calibrations)
        write_model_file(FilePath(path), dataclasses.asdict(config), self.state_dict(), dtype, calibration)

    def _checked_custom(self, path: FilePath) -> CustomNetwork:
        """The name and settings of a network from outside, by which `load` will make the same network again."""
        custom, kind = CustomNetwork.of(self.network), type(self.network).__name__
        if not custom.name:
            raise InputError(f"{path}: not saved: give its network a name first, eda.register_network(NAME, {kind})")
        try:
            custom.check_remakes(self.network)
        except InputError as error:
            raise InputError(f"{path}: not saved: {error}") from error
        return custom

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
        if isinstance(config.network, NetworkConfig):
            # A model that has shapes but no memory, so that no file can ask for more memory than it fills.
            with torch.device("meta"), file.limit_network():
                file.check_shapes(Eda(config).state_dict())
        try:
            model = Eda(config)
        except InputError as error:
            raise InputError(f"{file.path}: {error}") from error
        file.check_shapes(model.state_dict())
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
