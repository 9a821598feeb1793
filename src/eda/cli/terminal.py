"""What commands print on: tables, and progress bars while they work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

FILE_WIDTH = 200  # of what is written to a file or a pipe, which have no width of their own


def table_console() -> Console:
    """Where tables are printed; in a file or a pipe they are not cut off at the 80 columns of an old terminal."""
    from rich.console import Console

    terminal = Console()
    return terminal if terminal.is_terminal else Console(width=FILE_WIDTH)


def bar(*columns: ProgressColumn, hidden: bool) -> Progress:
    """A progress bar on stderr that disappears at its end. It is not shown in logs, where it would leave a line."""
    from rich.console import Console
    from rich.progress import Progress

    errors = Console(stderr=True)
    return Progress(
        *columns,
        console=errors,
        transient=True,
        disable=hidden or not errors.is_interactive,
        speed_estimate_period=3600,  # seconds: one step may take longer than rich's usual 30
    )


@contextmanager
def progress(label: str, *, hidden: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on stderr; yields a function `advance(done, total)`."""
    with labelled_progress(label, hidden=hidden) as advance:
        yield partial(advance, label)


@contextmanager
def labelled_progress(label: str, *, hidden: bool) -> Iterator[Callable[[str, int, int], None]]:
    """The same for work in several parts; yields a function `advance(label, done, total)`."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with bar(*columns, hidden=hidden) as shown:
        task = shown.add_task(label, total=None)
        yield lambda what, done, total: shown.update(task, description=what, completed=done, total=total)
