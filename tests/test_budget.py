"""Budgets: time that runs out, and a callback that hears of every stage."""

import pytest

from eda.budget import Budget, Stage


def test_without_a_limit_time_never_runs_out():
    assert not Budget().exhausted
    assert not Budget().part(0.5).exhausted


@pytest.mark.parametrize(("elapsed", "whole", "half"), [(4.0, False, False), (6.0, False, True), (10.0, True, True)])
def test_a_part_of_the_time_runs_out_before_the_whole(monkeypatch, elapsed, whole, half):
    budget = Budget(10.0, started=100.0)
    monkeypatch.setattr("time.monotonic", lambda: 100.0 + elapsed)
    assert budget.elapsed == elapsed
    assert budget.exhausted is whole
    assert budget.part(0.5).exhausted is half


def test_progress_is_reported_also_by_a_part_of_the_budget():
    told = []
    budget = Budget(progress=lambda stage, share: told.append((stage, share)))
    budget.report(Stage.SAMPLE, 0.25)
    budget.part(0.5).report(Stage.RANK, 1.0)
    assert told == [(Stage.SAMPLE, 0.25), (Stage.RANK, 1.0)]


def test_the_rest_begins_now_and_ends_with_the_whole(monkeypatch):
    budget = Budget(10.0, started=100.0)
    monkeypatch.setattr("time.monotonic", lambda: 104.0)
    half, rest = budget.rest(0.5), budget.rest()
    assert (half.elapsed, half.seconds, rest.seconds) == (0.0, 3.0, 6.0)
    monkeypatch.setattr("time.monotonic", lambda: 111.0)
    assert half.exhausted
    assert rest.exhausted
    assert budget.rest().exhausted
    assert Budget().rest(0.5).seconds is None
