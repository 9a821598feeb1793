"""The table of nearest points: the same answers as distances in double precision give."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from eda.errors import InputError
from eda.kernels import nearest
from eda.kernels.nearest import NearestTable

SCRIPT = """
import sys, numpy as np
from eda.kernels.nearest import NearestTable
points, queries = np.random.default_rng(0).normal(size=(2, 333, 6))
sys.stdout.buffer.write(NearestTable(points).nearest(queries).tobytes())
"""


def drawn(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 6))


@pytest.fixture(params=["compiled", "plain"])
def way(request, monkeypatch):
    """With the compiled module, and without it."""
    if request.param == "plain":
        monkeypatch.setattr(nearest, "library", lambda: None)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("targets", [1, 2, 15, 16, 17, 300, 1024])
@pytest.mark.parametrize("queries", [0, 1, 2, 999])
def test_the_nearest_is_the_nearest(targets, queries):
    points, asked = drawn(targets), drawn(queries, seed=1)
    found = NearestTable(points).nearest(asked)
    assert found.shape == (queries,)
    if not queries:
        return
    distance = cdist(asked, points)
    # In single precision two that are equally far to seven digits may change places.
    np.testing.assert_allclose(distance[np.arange(queries), found], distance.min(axis=1), rtol=1e-5)
    assert (found == distance.argmin(axis=1)).mean() > 0.99


@pytest.mark.usefixtures("way")
def test_of_several_that_are_equally_near_the_first_is_found():
    points = np.tile(drawn(5), (40, 1))
    np.testing.assert_array_equal(NearestTable(points).nearest(points), np.tile(np.arange(5), 40))


def test_threads_do_not_change_the_answer(monkeypatch):
    table, asked = NearestTable(drawn(1024)), drawn(5001, seed=1)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found.append(table.nearest(asked))
    assert len(asked) * 7 * 1024 > 5 * nearest._WORK_PER_THREAD
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


@pytest.mark.parametrize("instructions", ["baseline", "avx2"])
def test_every_instruction_set_finds_the_same(instructions):
    environment = {**os.environ, "EDA_ISA": instructions}
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True, env=environment)
    points, asked = np.random.default_rng(0).normal(size=(2, 333, 6))
    np.testing.assert_array_equal(np.frombuffer(run.stdout, dtype=np.int64), NearestTable(points).nearest(asked))


# -- what does not fit -------------------------------------------------------------------------------------

WRONG = {
    "three axes": drawn(5)[:, :3],
    "seven axes": np.ones((5, 7)),
    "one point without its axis": drawn(5)[0],
    "a point that is NaN": np.where(np.arange(5)[:, None] == 3, np.nan, drawn(5)),
    "an infinite point": np.where(np.arange(5)[:, None] == 3, np.inf, drawn(5)),
    "too far for single precision": 1e39 * drawn(5),
    "text": np.full((5, 6), "a"),
}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", WRONG)
def test_points_that_do_not_fit_are_refused(name):
    with pytest.raises(InputError, match="nearest points"):
        NearestTable(WRONG[name])
    with pytest.raises(InputError, match="nearest points"):
        NearestTable(drawn(5)).nearest(WRONG[name])


@pytest.mark.usefixtures("way")
def test_an_empty_table_has_no_nearest_point():
    with pytest.raises(InputError, match="the table is empty"):
        NearestTable(drawn(0)).nearest(drawn(3))
