"""The compiled kernels give the same bits every time, and nothing but rounding changes with threads and processes."""

import ctypes
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.attention_cases import DOUBLE, SINGLE, Case, assert_all_near_to_scale, assert_same, forks, in_child

import eda.native
from eda.kernels import attention_compiled, attention_reference

NEEDS_THREADS = dict(receivers=300, senders=300, k=15, channels=16)  # enough work for two threads


@pytest.fixture
def use_threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


class Spy:
    """The compiled module, and how many threads its calls asked for."""

    def __init__(self) -> None:
        self.library, self.threads = eda.native.library(), []

    def __getattr__(self, name: str) -> Callable:
        function = getattr(self.library, name)
        return lambda *given: self.threads.extend(given[15:16]) or function(*given)


# -- threads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_the_same_input_and_threads_give_the_same_bits(threads, dtype, use_threads, monkeypatch):
    spy, case = Spy(), Case.random(**NEEDS_THREADS, dtype=dtype)
    monkeypatch.setattr(attention_compiled, "library", lambda: spy)
    use_threads(threads)
    first = case.results()
    assert spy.threads == [threads, threads]
    for _ in range(3):
        assert_same(case.results(), first)


@pytest.mark.parametrize(("dtype", "tolerance"), [(SINGLE, 1e-5), (DOUBLE, 1e-13)])
def test_threads_change_nothing_but_rounding(dtype, tolerance, use_threads):
    case, results = Case.random(**NEEDS_THREADS, dtype=dtype), []
    for threads in (1, 2, 3, 7):
        use_threads(threads)
        results.append(case.results())
    for other in results[1:]:
        assert_same(other[:1] + other[2:3], results[0][:1] + results[0][2:3])  # what no two receivers share
        assert_all_near_to_scale(other, results[0], tolerance)


@pytest.mark.parametrize("overlap", [0, 1, 40])
@pytest.mark.parametrize("descending", [False, True])
def test_receivers_that_look_at_windows_of_senders_get_all_gradients(overlap, descending, use_threads):
    # As in pieces, one after the other: where the windows of threads are apart, gradients are written without a copy.
    case = Case.random(**NEEDS_THREADS)
    window = 100 * (torch.arange(300) // 100)
    near = case.neighbors % (100 + overlap)
    first = (200 - window if descending else window)[:, None]
    neighbors = torch.where(case.neighbors < 0, case.neighbors, (first + near).clamp(max=299))
    neighbors[100:200] = -1 if overlap == 1 else neighbors[100:200]  # a thread whose receivers look at nothing
    case = replace(case, neighbors=neighbors)
    expected = case.results(attention_reference.edge_attention)
    for threads in (1, 2, 3, 5):
        use_threads(threads)
        assert_all_near_to_scale(case.results(), expected, 1e-12)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "GOMP_parallel"), reason="torch brought no OpenMP runtime")
def test_threads_of_our_own_give_the_bits_of_a_lent_team(use_threads):
    case, native = Case.random(**NEEDS_THREADS), eda.native.library()
    team = ctypes.cast(ctypes.CDLL(None).GOMP_parallel, ctypes.c_void_p)
    use_threads(3)
    lent = case.results()
    native.eda_lend_team(None)
    try:
        assert_same(case.results(), lent)
    finally:
        native.eda_lend_team(team)


def test_more_threads_than_receivers_are_not_used(use_threads):
    case = Case.random(2, 64, receivers=3, senders=300, k=300)
    expected = case.results(attention_reference.edge_attention)
    use_threads(16)
    assert_all_near_to_scale(case.results(), expected, 1e-12)


def test_little_work_is_done_by_one_thread(use_threads, monkeypatch):
    spy = Spy()
    monkeypatch.setattr(attention_compiled, "library", lambda: spy)
    use_threads(2)
    Case.random().results()
    assert spy.threads == [1, 1]


def test_threads_of_python_do_not_meet(use_threads):
    cases = [Case.random(**NEEDS_THREADS, seed=seed) for seed in range(4)]
    use_threads(2)
    expected = [case.results() for case in cases]
    with ThreadPoolExecutor(4) as pool:
        for found, alone in zip(pool.map(Case.results, cases), expected, strict=True):
            assert_same(found, alone)


# -- forked processes --------------------------------------------------------------------------------------


@forks
def test_a_forked_process_may_use_threads(use_threads, monkeypatch):
    # Small enough for torch to use one thread itself: its own pool does not survive a fork.
    spy, case = Spy(), Case.random(receivers=70, senders=60, k=40, channels=16)
    monkeypatch.setattr(attention_compiled, "library", lambda: spy)
    use_threads(2)
    expected = case.results()
    assert spy.threads == [2, 2]
    found = in_child(lambda: [t.numpy() for t in case.results()])
    assert_same([torch.from_numpy(a) for a in found], expected)
    assert_same(case.results(), expected)


@forks
def test_a_thread_that_cannot_be_started_is_an_error_or_not_needed(monkeypatch):
    case = Case.random(receivers=400, senders=20, k=200, channels=16)
    expected = case.run()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)

    def run() -> np.ndarray:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        room = pages * resource.getpagesize() + 60 * 2**20  # for some of the threads, not for all
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
        with torch.no_grad():
            return case.run().numpy()

    found = in_child(run)
    assert isinstance(found, MemoryError) or np.array_equal(found, expected.numpy())
