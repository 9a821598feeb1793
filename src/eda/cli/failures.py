"""How a command that does not end well tells so: one line for the user, an exit code, a traceback only on demand."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import FrameType, TracebackType

from eda.errors import InputError

UNEXPECTED, BAD_INPUT = 1, 2
INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM  # the convention of shells

debug: ContextVar[bool] = ContextVar("debug", default=False)  # whether tracebacks are wanted

_MAX_WORDS = 400  # letters of somebody else's message
_NO_MEMORY = ("can't allocate memory", "out of memory")  # in a RuntimeError of torch


class CommandError(RuntimeError):
    """Carries, as its cause, an exception that typer would otherwise end the command for without saying why."""


def tell(error: BaseException) -> int:
    """Print what ended a command as one line, with a traceback before it if that is wanted; return the exit code."""
    if isinstance(error, CommandError) and error.__cause__ is not None:
        error = error.__cause__
    code, line = _ending(error)
    with suppress(OSError, ValueError):  # nobody may be listening any more
        if debug.get():
            import traceback

            traceback.print_exception(error, file=sys.stderr)
        elif code == UNEXPECTED:
            line += "; `eda --debug ...` prints the traceback"
        print(f"eda: {line}", file=sys.stderr, flush=True)
    _drop_output()
    return code


def _ending(error: BaseException) -> tuple[int, str]:
    """The exit code for an exception, and the sentence."""
    if isinstance(error, InputError):
        return BAD_INPUT, str(error)
    if isinstance(error, KeyboardInterrupt) or _exit_code(error) == INTERRUPTED:
        return INTERRUPTED, "interrupted"
    if _exit_code(error) == TERMINATED:
        return TERMINATED, "terminated"
    return UNEXPECTED, _sentence(error)


def _exit_code(error: BaseException) -> object:
    return error.code if isinstance(error, SystemExit) else None


def _sentence(error: BaseException) -> str:
    """What happened, and to which file if that can be found out."""
    if isinstance(error, BrokenPipeError):
        return "what reads the output ended before all of it was written"
    where = _file_of(error)
    place = f"{where}: " if where else ""
    if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
        return f"{place}this needs more memory than there is; use fewer or smaller pieces, or a machine with more"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"{place}no space is left on the disk; free some and run the command again"
    if isinstance(error, OSError) and error.strerror:
        return f"{place}{error.strerror}"
    said = " ".join(str(error).split())
    said = said if len(said) <= _MAX_WORDS else f"{said[:_MAX_WORDS]}..."
    return f"{place}an error that was not foreseen, {type(error).__name__}{f': {said}' if said else ''}"


def _file_of(error: BaseException) -> Path | None:
    """The file or folder that was being read or written, if that can be found out.

    It is the one that the system names, or else the innermost path among the variables of our code. The commands are
    left out: their paths are there all the time, whatever is being done.
    """
    if isinstance(error, OSError) and isinstance(error.filename, str):
        return Path(error.filename)
    for frame in reversed(_frames(error.__traceback__)):
        module = f"{frame.f_globals.get('__name__', '')}."
        if module.startswith("eda.") and not module.startswith("eda.cli."):
            paths = [value for value in frame.f_locals.values() if isinstance(value, Path)]
            if paths:
                return paths[0]
    return None


def _frames(trace: TracebackType | None) -> list[FrameType]:
    frames = []
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    return frames


def _drop_output() -> None:
    """Forget output that cannot be written, or Python would try again at its end and complain."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends the command in order, as Ctrl-C does, so that nothing half finished is left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets signals
        return
    process = os.getpid()

    def end(number: int, frame: object) -> None:
        if os.getpid() == process:
            raise SystemExit(128 + number)
        signal.signal(number, signal.SIG_DFL)  # a child process, such as one that loads data, has nothing to tidy up
        os.kill(os.getpid(), number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
