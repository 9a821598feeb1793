"""A line on stderr that says what an assembly is busy with, how far it is, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from eda.cli.terminal import bar

# Where each stage ends on the way from 0 to 1; each begins where the one before it ends.
_ENDS = {
    "reading": 0.02,
    "thinning": 0.04,
    "sampling": 0.5,
    "refining joints": 0.85,
    "growing assemblies": 0.9,
    "docking left over pieces": 0.95,
    "ranking": 0.96,
    "writing": 1.0,
}


def overall(stage: str, done: float) -> float | None:
    """The share of the whole that is done, when so much of a stage is done; None for a stage that is not known."""
    if stage not in _ENDS:
        return None
    begin = max((end for end in _ENDS.values() if end < _ENDS[stage]), default=0.0)
    return begin + done * (_ENDS[stage] - begin)


@contextmanager
def stages(*, hidden: bool) -> Iterator[Callable[[str, float], None]]:
    """Gives a function `tell(stage, share of it that is done)`."""
    from rich.progress import BarColumn, TextColumn

    columns = (TextColumn("{task.description:24}"), BarColumn(), TextColumn("{task.fields[left]}"))
    began, reached = time.monotonic(), 0.0
    with bar(*columns, hidden=hidden) as shown:
        task = shown.add_task("reading", total=1.0, left="")

        def tell(stage: str, done: float) -> None:
            nonlocal reached
            reached = max(reached, overall(stage, done) or 0.0)
            shown.update(task, description=stage, completed=reached, left=_left(time.monotonic() - began, reached))

        yield tell


def _left(elapsed: float, done: float) -> str:
    """In words, once enough is done to tell."""
    if done < 0.05:
        return ""
    seconds = elapsed * (1 - done) / done
    return f"about {seconds:.0f} s left" if seconds < 90 else f"about {seconds / 60:.0f} min left"
