"""TrainConfig: all settings of a training run. The defaults are the paper's where it has a value (Sec. 6.1)."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from eda.data.augment import Augmentation
from eda.errors import InputError
from eda.model_config import EdaConfig, network_config_kind
from eda.nn import NetworkConfig, upgrade_settings
from eda.settings import check_positive, check_share, check_switch, check_text, check_whole


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with warm-up, cosine decay and gradient clipping, and an exponential moving average of the weights."""

    steps: int = 200_000
    lr: float = 1e-4
    final_lr: float = 0.0  # where the cosine ends, as a fraction of `lr`
    warmup: int = 1000  # steps
    weight_decay: float = 0.01
    clip: float = 1.0  # the largest norm of the gradient
    ema: float = 0.99  # decay of the average
    accumulate: int = 1  # batches per step
    bfloat16: bool = False  # mixed precision where the device has it; an EdaNetwork itself keeps its precision

    def __post_init__(self) -> None:
        for name in ("steps", "accumulate"):
            check_whole(name, getattr(self, name), 1, 2**40)
        check_whole("warmup", self.warmup, 0, 2**40)
        for name in ("lr", "clip"):
            check_positive(name, getattr(self, name))
        for name in ("ema", "final_lr", "weight_decay"):
            check_share(name, getattr(self, name))
            if getattr(self, name) == 1:
                raise InputError(f"{name} must be below 1")
        check_switch("bfloat16", self.bfloat16)


@dataclass(frozen=True)
class DataConfig:
    """The datasets, and how their puzzles become batches."""

    train: str = ""  # folder of a dataset, or several joined by +
    validation: str = ""  # folder of a dataset to measure the error on; empty: no validation
    points_per_batch: int = 50_000
    # Noises and taus per puzzle, which share one pass of an encoder without time; 0: only auxiliary losses.
    draws: int = 1
    max_pieces: tuple[int, ...] = (10**6,)  # a curriculum: the largest puzzles of epoch 0, 1, ...; the last value stays
    augmentation: Augmentation = field(default_factory=Augmentation)
    focused: float = 0.75  # share of the puzzles that a model with a focus sees so; the others teach it breaks
    workers: int = 0

    def __post_init__(self) -> None:
        check_whole("points_per_batch", self.points_per_batch, 1, 2**40)
        check_whole("draws", self.draws, 0, 2**40)
        check_whole("workers", self.workers, 0, 4096)
        check_share("focused", self.focused)
        for name in ("train", "validation"):
            check_text(name, getattr(self, name))
        if type(self.max_pieces) is not tuple:
            raise InputError(f"max_pieces must be numbers such as (2, 4, 8), got {self.max_pieces!r}")
        for most in self.max_pieces:
            check_whole("max_pieces", most, 2, 2**31)


@dataclass(frozen=True)
class WatchConfig:
    """How often the run reports, saves and validates, in steps."""

    log_every: int = 20
    checkpoint_every: int = 500
    validate_every: int = 2000
    validation_puzzles: int = 64
    validation_steps: int = 20  # of rk4

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            check_whole(f.name, getattr(self, f.name), 1, 2**40)


@dataclass(frozen=True)
class TrainConfig:
    """All settings of a run: `eda.recipes` has those that ship."""

    model: EdaConfig = field(default_factory=EdaConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    data: DataConfig = field(default_factory=DataConfig)
    watch: WatchConfig = field(default_factory=WatchConfig)
    seed: int = 0
    begin_with: str = ""  # a model file to take the first weights from; empty: random ones

    def __post_init__(self) -> None:
        check_whole("seed", self.seed, 0, 2**63)
        check_text("begin_with", self.begin_with)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> TrainConfig:
        """The config from plain values, as read from JSON. Raises `InputError` for a setting that does not exist."""
        return _build(TrainConfig, values, "the config")


_Config = TypeVar("_Config")

# Fields that are tables of settings themselves.
_NESTED: dict[str, type] = {
    "model": EdaConfig,
    "network": NetworkConfig,
    "optimizer": OptimizerConfig,
    "data": DataConfig,
    "augmentation": Augmentation,
    "watch": WatchConfig,
}


def _build(kind: type[_Config], values: Any, what: str) -> _Config:
    if not isinstance(values, Mapping):
        raise InputError(f"{what}: expected a table of settings, got {type(values).__name__}")
    if kind is NetworkConfig:
        values = upgrade_settings(values)
    known = {f.name for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(values) - known)
    if unknown:
        raise InputError(f"{what}: unknown setting {unknown[0]!r}; there are {', '.join(sorted(known))}")
    settings = {
        name: _build(_kind_of(name, value), value, name) if name in _NESTED else _as_tuple(value)
        for name, value in values.items()
    }
    return kind(**settings)


def _kind_of(name: str, value: Any) -> type:
    """The class of a field that is a table of settings itself."""
    return network_config_kind(value) if name == "network" else _NESTED[name]


def _as_tuple(value: Any) -> Any:
    """JSON has lists where configs have tuples."""
    return tuple(value) if isinstance(value, list) else value


def overridden(config: TrainConfig, settings: Sequence[str]) -> TrainConfig:
    """The config with changed settings, each like "optimizer.lr=3e-4", "data.max_pieces=(2, 4, 8)" or "seed=1"."""
    values = dataclasses.asdict(config)
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals:
            raise InputError(f"--set {setting}: expected name=value, e.g. optimizer.lr=3e-4")
        table: Any = values
        *folders, name = path.split(".")
        for folder in folders:
            table = table.get(folder) if isinstance(table, dict) else None
        if not isinstance(table, dict) or name not in table:
            raise InputError(f"--set {setting}: there is no setting {path!r}")
        table[name] = _parsed(text, table[name])
    return TrainConfig.from_dict(values)


def _parsed(text: str, before: Any) -> Any:
    """The value of a Python literal, or else the text: names and paths need no quotes, even a folder called 2024."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return text if isinstance(before, str) and not isinstance(value, str) else value
