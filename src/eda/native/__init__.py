"""Loads the compiled module, which has a plain C interface. `kernels.h` lists its files.

It is built with the package where a C++ compiler is found. Without it everything works, but more slowly.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import warnings
from functools import lru_cache
from pathlib import Path

from eda.errors import InputError

POINTER, INTEGER = ctypes.c_void_p, ctypes.c_int64
# What a compiled function returns if it failed; MISFIT: sizes or indices would lead outside of the memory it was given.
_OUT_OF_MEMORY, MISFIT = 1, 2

# features, queries, vectors, neighbors, key_radial, value_radial, stretch; sizes; threads.
_ATTENTION = [POINTER] * 7 + [INTEGER] * 8 + [ctypes.c_int]
# features, weight, bias; sizes; threads; out.
_PRODUCT = [POINTER] * 3 + [INTEGER] * 5 + [ctypes.c_int, POINTER]
# features, gain; its stride, sizes; threads; out.
_NORM = [POINTER] * 2 + [INTEGER] * 4 + [ctypes.c_int, POINTER]
# features, gain, d_out, d_gain; its stride, sizes; threads; d_features.
_NORM_BACKWARD = [POINTER] * 4 + [INTEGER] * 4 + [ctypes.c_int, POINTER]
# features, toward or gates; sizes; threads; gates or out.
_GATE = [POINTER] * 2 + [INTEGER] * 4 + [ctypes.c_int, POINTER]
# features, toward, projection, gates, density, d_out, d_toward; sizes; threads; d_features.
_GATE_BACKWARD = [POINTER] * 7 + [INTEGER] * 4 + [ctypes.c_int, POINTER]
_SIGNATURES = {
    "eda_lanes": [ctypes.c_int],
    "eda_lend_team": [POINTER],
    "eda_attention_forward_f32": [*_ATTENTION, *[POINTER] * 2],
    "eda_attention_forward_f64": [*_ATTENTION, *[POINTER] * 2],
    "eda_attention_backward_f32": [*_ATTENTION, *[POINTER] * 6],
    "eda_attention_backward_f64": [*_ATTENTION, *[POINTER] * 6],
    "eda_product_f32": _PRODUCT,
    "eda_product_f64": _PRODUCT,
    "eda_norm_f32": _NORM,
    "eda_norm_f64": _NORM,
    "eda_projection_f32": _GATE,
    "eda_projection_f64": _GATE,
    "eda_gate_f32": _GATE,
    "eda_gate_f64": _GATE,
    "eda_norm_backward_f32": _NORM_BACKWARD,
    "eda_norm_backward_f64": _NORM_BACKWARD,
    "eda_gate_backward_f32": _GATE_BACKWARD,
    "eda_gate_backward_f64": _GATE_BACKWARD,
    # queries, table; sizes; threads; out.
    "eda_nearest_f32": [POINTER] * 2 + [INTEGER] * 2 + [ctypes.c_int, POINTER],
    "eda_farthest_points": [POINTER, INTEGER, INTEGER, INTEGER, POINTER, POINTER],
}


def library() -> ctypes.CDLL | None:
    """The compiled functions, or None (with one warning) if they were not built."""
    loaded = _load()
    if "torch" in sys.modules:  # which may come later than the first call
        _share_threads(loaded)
    return loaded


def check_result(result: int, work: str) -> None:
    """Raise if a compiled function failed."""
    if result == _OUT_OF_MEMORY:
        raise MemoryError(f"{work} ran out of memory")
    if result == MISFIT:
        raise InputError(f"{work} was given sizes or indices that do not fit together")


@lru_cache(maxsize=1)
def _load() -> ctypes.CDLL | None:
    found = sorted(Path(__file__).parent.glob("_core*.so")) + sorted(Path(__file__).parent.glob("_core*.pyd"))
    if not found:
        warnings.warn(
            "eda's compiled module is missing, so everything runs on the slow reference path: install a C++17 compiler "
            "and reinstall eda-assembly",
            RuntimeWarning,
            stacklevel=3,
        )
        return None
    loaded = ctypes.CDLL(str(found[0]))
    for name, arguments in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = arguments, ctypes.c_int
    return loaded


@lru_cache(maxsize=1)
def _share_threads(loaded: ctypes.CDLL | None) -> None:
    """Let the module use the threads of torch's OpenMP runtime, if there is one, and let those wait without spinning.

    Threads of our own would compete for the cores with torch's, which spin for a while after their work.
    """
    team = getattr(ctypes.CDLL(None), "GOMP_parallel", None)
    if team is None:
        return
    if loaded is not None:
        loaded.eda_lend_team(ctypes.cast(team, POINTER))
    if sys.platform == "linux":
        _shorten_waits()


@lru_cache(maxsize=1)
def _shorten_waits() -> None:
    """Let the threads of the OpenMP runtime (libgomp) give their cores back soon when they wait for each other.

    While it counts no more threads than cores, libgomp lets a waiting thread spin for milliseconds. On a busy machine
    each then spins on a core that the other needs. How long it spins is read from the environment when torch is loaded,
    which is over by now. But with more threads than cores it spins for microseconds only, whatever the environment
    says: so there is a team with a thread for every core that sleeps for good, and costs nothing.
    """
    threading.Thread(target=_sleep_as_a_team, name="eda-sleepers", daemon=True).start()


def _sleep_as_a_team() -> None:
    """Sleep for good on a thread per core. A signal would end it, so all of them are left to the other threads."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    process = ctypes.CDLL(None)  # an object of its own, so that types can be set for this call alone
    team, sleep, forever = process.GOMP_parallel, ctypes.cast(process.sleep, POINTER), POINTER(2**31)  # seconds
    team.argtypes, team.restype = [POINTER, POINTER, ctypes.c_uint, ctypes.c_uint], None
    team(sleep, forever, max(len(os.sched_getaffinity(0)), 2), 0)
