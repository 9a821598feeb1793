"""A line on stderr that says what an assembly is busy with, how far it is, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from eda.budget import Progress, Stage
from eda.cli.terminal import bar

# Where each stage ends on the way from 0 to 1; each begins where the one before it ends. Many scans are registered in
# pairs: these stages stand in place of all between downsampling and writing.
STAGE_ENDS: dict[Stage, float] = {
    Stage.READ: 0.02,
    Stage.DOWNSAMPLE: 0.04,
    Stage.COMPARE: 0.05,
    Stage.REGISTER: 0.95,
    Stage.JOIN: 0.96,
    Stage.SAMPLE: 0.5,
    Stage.MATCH: 0.6,
    Stage.REFINE_JOINTS: 0.85,
    Stage.GROW: 0.88,
    Stage.REFINE_SAMPLES: 0.91,
    Stage.DOCK: 0.93,
    Stage.FINISH: 0.95,
    Stage.RANK: 0.96,
    Stage.WRITE: 1.0,
}

PAIRWISE = (Stage.COMPARE, Stage.REGISTER, Stage.JOIN)


def overall_share(stage: Stage, share: float) -> float:
    """The share of the whole that is done, when this share of a stage is done."""
    skipped = () if stage in PAIRWISE else PAIRWISE
    before = [STAGE_ENDS[other] for other in list(Stage)[: list(Stage).index(stage)] if other not in skipped]
    begin = before[-1] if before else 0.0
    return begin + share * (STAGE_ENDS[stage] - begin)


@contextmanager
def stages(*, hidden: bool) -> Iterator[Progress]:
    """A context with a progress bar, which gives the callback that moves it."""
    from rich.progress import BarColumn, TextColumn

    columns = (TextColumn("{task.description:24}"), BarColumn(), TextColumn("{task.fields[left]}"))
    started, reached = time.monotonic(), 0.0
    with bar(*columns, hidden=hidden) as shown:
        task = shown.add_task(Stage.READ, total=1.0, left="")

        def tell(stage: Stage, share: float) -> None:
            nonlocal reached
            reached = max(reached, overall_share(stage, share))
            left = _time_left(time.monotonic() - started, reached)
            shown.update(task, description=stage, completed=reached, left=left)

        yield tell


def _time_left(elapsed: float, done: float) -> str:
    """The time that is left, in words, once enough is done to tell."""
    if done < 0.05:
        return ""
    seconds = elapsed * (1 - done) / done
    return f"about {seconds:.0f} s left" if seconds < 90 else f"about {seconds / 60:.0f} min left"
