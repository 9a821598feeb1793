"""Budget: how long an assembly may take, and who is told how far it has come.

One budget is handed through everything that takes time. It knows the stages of the work, so that whoever shows them can
know all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum


class Stage(str, Enum):
    """What an assembly is busy with, in the order in which the stages begin. The values are what a person reads."""

    READ = "reading"
    DOWNSAMPLE = "downsampling"
    COMPARE = "comparing scans"
    REGISTER = "registering pairs"
    JOIN = "joining pairs"
    SAMPLE = "sampling"
    MATCH = "matching features"
    REFINE_JOINTS = "refining joints"
    GROW = "growing assemblies"
    REFINE_SAMPLES = "refining samples"
    DOCK = "docking remaining pieces"
    FINISH = "refining finely"
    RANK = "ranking"
    WRITE = "writing"


Progress = Callable[[Stage, float], None]  # the stage, and the share of it that is done


def silent(stage: Stage, share: float) -> None:
    """The progress callback that tells nobody."""


@dataclass(frozen=True)
class Budget:
    """Time that begins to run when the budget is made, and a callback for progress."""

    seconds: float | None = None  # None: no limit
    progress: Progress = silent
    started: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        """The seconds since the budget was made."""
        return time.monotonic() - self.started

    @property
    def exhausted(self) -> bool:
        """Whether the time is over: then no new work begins, and the best found so far is the result."""
        return self.seconds is not None and self.elapsed >= self.seconds

    def report(self, stage: Stage, share: float) -> None:
        """Tell that this share of a stage is done."""
        self.progress(stage, share)

    def part(self, share: float) -> Budget:
        """The same budget with this share of the time."""
        return replace(self, seconds=None if self.seconds is None else share * self.seconds)

    def rest(self, share: float = 1.0) -> Budget:
        """A budget that begins now, with this share of the time that is left."""
        left = None if self.seconds is None else share * max(self.seconds - self.elapsed, 0.0)
        return replace(self, seconds=left, started=time.monotonic())
