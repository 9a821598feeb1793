"""The verdict in words: what is said for which probability, and what is advised."""

from dataclasses import replace

import pytest

from eda.assembly.verdict import LIKELY, UNLIKELY, Observed, Verdict

SURE = Observed(0.95, False, 0, None, True, True, False, 16)


@pytest.mark.parametrize(
    ("change", "judgement"),
    [
        ({}, "likely right"),
        ({"probability": LIKELY}, "likely right"),
        ({"probability": (LIKELY + UNLIKELY) / 2}, "uncertain"),
        ({"probability": UNLIKELY}, "uncertain"),
        ({"probability": UNLIKELY - 0.01}, "probably wrong"),
        ({"empty": True, "probability": 0.0}, "nothing fits"),
        ({"known": False}, "uncertain"),
        ({"trusted": False}, "uncertain"),
        ({"known": False, "probability": 0.1}, "probably wrong"),
    ],
)
def test_the_judgement(change, judgement):
    assert Verdict.of(replace(SURE, **change)).judgement == judgement


def test_what_is_likely_right_needs_no_advice():
    assert str(Verdict.of(SURE)) == "Verdict: likely right."
    assert Verdict.of(SURE).as_dict() == {"judgement": "likely right", "unlike": False, "advice": []}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "more samples"),
        ({"known": False}, "name the model"),
        ({"known": False}, "one unit"),
        ({"weakest": "lid"}, "leave out lid"),
        ({"stopped": True}, "more time"),
        ({"unplaced": 2}, "of another object"),
        ({"empty": True}, "one unit"),
    ],
)
def test_the_advice(change, words):
    said = str(Verdict.of(replace(SURE, **{"probability": 0.1, **change})))
    assert words in said
    assert ("unlike what this model knows" in said) == ("known" in change)


def test_who_drew_many_samples_is_not_told_to_draw_more():
    assert "samples" not in str(Verdict.of(replace(SURE, probability=0.1, samples=64)))
