"""The same work on many items, in several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import TypeVar

Input = TypeVar("Input")
Output = TypeVar("Output")


def run_in_processes(work: Callable[[Input], Output], items: Sequence[Input], workers: int) -> Iterator[Output]:
    """The results, in the order in which they are done; work and items must be picklable for many workers."""
    if workers <= 1 or len(items) <= 1:
        yield from map(work, items)
        return
    # A fresh interpreter for every worker: forking a process that runs threads may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(items)), mp_context=context) as pool:
        try:
            waiting: set[Future[Output]] = {pool.submit(work, item) for item in items}
            while waiting:
                finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
