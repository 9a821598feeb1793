"""The paper's equivariance table (Appendix H.2) for any model, trained or not, and more laws than it prints.

In: an `Eda`. Out: for every law, the error of v_X or of whole samples, absolute (the paper's form) and relative to the
norm of what is compared, as the median over random puzzles of 2 to 8 pieces, in float32 and float64.
"""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from eda.lie import SE3, so3
from eda.model import Eda
from eda.nn import EdaNetwork
from eda.pieces import Pieces
from eda.settings import check_whole

# Largest median relative error that is still rounding, by law and precision. A sample passes the field many times,
# and Prop. 4.5 encodes the moved pieces anew: both gather more rounding than one evaluation.
_FIELD = {torch.float32: 1e-6, torch.float64: 1e-13}
_ENCODED = {torch.float32: 1e-4, torch.float64: 1e-12}
_SAMPLED = {torch.float32: 1e-3, torch.float64: 1e-11}
# Motions are fitted to matches whose weights are exponentials, and a network of the user's own sees moved points: one
# evaluation gathers as much as an encoding elsewhere.
_MATCHED = _ENCODED

# Laws hold for any number of steps: a few show it as well as many.
SAMPLE_STEPS = 4


@dataclass(frozen=True)
class LawResult:
    """One row of the table."""

    law: str
    statement: str
    dtype: str
    absolute: float  # median over the draws of the Frobenius norm
    relative: float  # median over the draws, divided by the norm of the field or of the assembly
    bound: float  # on the relative error

    @property
    def holds(self) -> bool:
        """Whether the law is kept. NaN never is."""
        return self.relative <= self.bound


@dataclass(frozen=True)
class EquivarianceReport:
    """All rows, and the norm of the field: a field that is zero would keep every law."""

    results: list[LawResult]
    field_norm: float
    draws: int

    @property
    def holds(self) -> bool:
        """Whether the field is not zero and every law is kept."""
        return self.field_norm > 0 and all(result.holds for result in self.results)

    def as_dict(self) -> dict:
        """Plain values, for JSON."""
        rows = [
            {
                **asdict(law),
                "absolute": _or_none(law.absolute),
                "relative": _or_none(law.relative),
                "holds": law.holds,
            }
            for law in self.results
        ]
        return {
            "holds": self.holds,
            "field_norm": _or_none(self.field_norm),
            "draws": self.draws,
            "laws": rows,
        }


def _or_none(value: float) -> float | None:
    """JSON has neither NaN nor infinity."""
    return value if math.isfinite(value) else None


class _Draw:
    """One random case: pieces X, poses g, a time, the three kinds of change, and what the laws compare with.

    It is drawn in float64 and then rounded, so that all precisions see the same case.
    """

    def __init__(self, model: Eda, exact: Pieces, dtype: torch.dtype, generator: torch.Generator) -> None:
        count = exact.num_pieces
        self.model, self.pieces = model, exact.to(dtype=dtype)
        self.poses = model.sample_noise(exact, generator=generator)[0].to(dtype)
        self.tau = torch.rand(1, generator=generator, dtype=torch.float64).to(dtype)
        turns = so3.random(count + 1, generator=generator, dtype=torch.float64)
        shift = torch.randn(3, generator=generator, dtype=torch.float64)
        still = torch.zeros(count, 3, dtype=torch.float64)
        self.turn = SE3(turns[0], still[0]).to(dtype)  # r, of the whole
        self.turns = SE3(turns[1:], still).to(dtype)  # r_1 .. r_N, of the pieces
        self.motion = SE3(turns[0], shift).to(dtype)  # h, of the whole
        order = torch.randperm(count, generator=generator)
        is_identity = torch.equal(order, torch.arange(count))
        self.order = order.roll(1) if is_identity else order  # sigma
        self.velocity = self.velocity_of(self.pieces, self.poses)
        self.assembly = self.assembly_of(self.pieces, self.poses)

    def velocity_of(self, pieces: Pieces, poses: SE3) -> Tensor:
        """v_X(g) = f(gX) g as matrices (N, 3, 4)."""
        twist = self.model.velocity(pieces, poses, self.tau)
        algebra = torch.cat([so3.hat(twist[:, :3]), twist[:, 3:, None]], dim=-1)
        return algebra @ poses.matrix()

    def assembly_of(self, pieces: Pieces, noise: SE3) -> Tensor:
        """The sampled poses as matrices (N, 3, 4); NaN where the field is not finite."""
        try:
            sampled = self.model.sample(pieces, noise=noise[None], solver="rk1", steps=SAMPLE_STEPS)
        except FloatingPointError:
            return torch.full((pieces.num_pieces, 3, 4), torch.nan, dtype=pieces.points.dtype)
        return sampled[0].matrix()[:, :3]


def _rotation(draw: _Draw) -> tuple[Tensor, Tensor]:
    turned = draw.velocity_of(draw.pieces, draw.turn @ draw.poses)
    return turned, draw.turn.rotation @ draw.velocity


def _whole_moved(draw: _Draw) -> tuple[Tensor, Tensor]:
    moved = draw.velocity_of(draw.pieces, draw.motion @ draw.poses)
    return moved, draw.motion.rotation @ draw.velocity


def _permutation(draw: _Draw) -> tuple[Tensor, Tensor]:
    permuted = draw.velocity_of(draw.pieces.permute(draw.order), draw.poses[draw.order])
    return permuted, draw.velocity[draw.order]


def _right_related(draw: _Draw) -> tuple[Tensor, Tensor]:
    identity = SE3.identity(len(draw.poses), dtype=draw.tau.dtype)
    at_identity = draw.velocity_of(draw.pieces.move(draw.poses), identity)
    return at_identity @ draw.poses.matrix(), draw.velocity


def _sampled_turns(draw: _Draw) -> tuple[Tensor, Tensor]:
    back = draw.turns.inverse()
    turned = draw.assembly_of(draw.pieces.move(draw.turns), draw.poses @ back)
    return turned, draw.assembly @ back.matrix()


def _sampled_permutation(draw: _Draw) -> tuple[Tensor, Tensor]:
    permuted = draw.assembly_of(draw.pieces.permute(draw.order), draw.poses[draw.order])
    return permuted, draw.assembly[draw.order]


def _sampled_rotation(draw: _Draw) -> tuple[Tensor, Tensor]:
    turned = draw.assembly_of(draw.pieces, draw.turn @ draw.poses)
    return turned, draw.turn.rotation @ draw.assembly


# Name, statement, the two sides that should be equal, and the bounds.
LAWS: list[tuple[str, str, Callable[[_Draw], tuple[Tensor, Tensor]], dict[torch.dtype, float]]] = [
    ("L_R", "v_X(r g) = r v_X(g)", _rotation, _FIELD),
    ("L_P", "v_sX(s g) = s v_X(g)", _permutation, _FIELD),
    ("whole moved", "v_X(h g) = h v_X(g), h in SE(3)", _whole_moved, _ENCODED),
    ("Prop. 4.5", "v_X(g) = v_gX(e) g", _right_related, _ENCODED),
    ("samples, pieces turned", "rX from g r^-1", _sampled_turns, _SAMPLED),
    ("samples, pieces permuted", "sX from s g", _sampled_permutation, _SAMPLED),
    ("samples, whole turned", "X from r g", _sampled_rotation, _SAMPLED),
]


@torch.no_grad()
def check_equivariance(
    model: Eda,
    *,
    draws: int = 20,
    points: int = 60,
    seed: int = 0,
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.float64),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> EquivarianceReport:
    """Check every law on `draws` random puzzles of 2 to 8 pieces with about `points` points each, on the CPU."""
    check_whole("draws", draws, 1, 10**6)
    check_whole("points", points, 8, 10**6)
    check_whole("seed", seed, 0, 2**63)
    results: list[LawResult] = []
    norms: list[float] = []
    total = len(dtypes) * draws
    for start, dtype in zip(range(0, total, draws), dtypes, strict=False):
        twin = copy.deepcopy(model).to("cpu", dtype)
        errors: dict[str, list[tuple[float, float]]] = {law: [] for law, *_ in LAWS}
        for i, draw in enumerate(_draws(twin, draws, points, seed, dtype)):
            norms.append(float(draw.velocity.norm()))
            for law, _, sides, _ in LAWS:
                left, right = sides(draw)
                absolute, size = float((left - right).norm()), float(right.norm())
                errors[law].append((absolute, absolute / size if size else absolute))
            progress(start + i + 1, total)
        for law, statement, _, usual in LAWS:
            bounds = usual if usual is not _FIELD or _is_plain(model) else _MATCHED
            absolute, relative = (_median(column) for column in zip(*errors[law], strict=True))
            results.append(
                LawResult(law, statement, str(dtype).removeprefix("torch."), absolute, relative, bounds[dtype])
            )
    return EquivarianceReport(results, _median(norms), draws)


def _is_plain(model: Eda) -> bool:
    """Whether the network is the paper's, which turns features and not points."""
    return isinstance(model.network, EdaNetwork) and model.network.matcher is None


def _median(values: Sequence[float]) -> float:
    """The median; NaN where any value is."""
    return math.nan if any(math.isnan(value) for value in values) else statistics.median(values)


def _draws(model: Eda, count: int, points: int, seed: int, dtype: torch.dtype) -> Iterator[_Draw]:
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        num_pieces = 2 + i % 7
        clouds, normals = zip(*[_lumpy_surface(rng, points) for _ in range(num_pieces)], strict=True)
        yield _Draw(model, Pieces.from_clouds(clouds, normals, dtype=torch.float64), dtype, generator)


def _lumpy_surface(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Points on a random ellipsoid with waves, and their normals: no symmetry that could hide an error."""
    direction = rng.normal(size=(int(rng.integers(size // 2, size * 3 // 2)), 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    axes, wave, phase = rng.uniform(0.5, 1.0, size=3), rng.normal(size=(3, 3)), rng.uniform(0, 6.3, size=3)
    radius = 1 + 0.2 * np.sin(2 * direction @ wave + phase).mean(axis=1, keepdims=True)
    return direction * radius * axes, direction / axes
