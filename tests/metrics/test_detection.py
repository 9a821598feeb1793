"""Telling break surfaces from others: areas and shares by counting."""

import itertools
import math

import numpy as np
import pytest

from eda import InputError
from eda.metrics import precision_recall, roc_auc

SEEDS = range(4)


@pytest.mark.parametrize("levels", [3, 1000])
@pytest.mark.parametrize("seed", SEEDS)
def test_auc_counts_pairs(seed, levels):
    rng = np.random.default_rng(seed)
    labels, scores = rng.random(60) < 0.3, rng.integers(levels, size=60) / 7
    pairs = itertools.product(scores[labels], scores[~labels])
    assert roc_auc(labels, scores) == pytest.approx(np.mean([(a > b) + (a == b) / 2 for a, b in pairs]))


@pytest.mark.parametrize(("scores", "auc"), [([1, 2, 3, 4], 1), ([4, 3, 2, 1], 0), ([5, 5, 5, 5], 0.5)])
def test_auc_by_hand(scores, auc):
    assert roc_auc(np.array([False, False, True, True]), np.array(scores)) == auc


def test_auc_of_one_kind_is_not_defined():
    assert math.isnan(roc_auc(np.ones(3, bool), np.arange(3)))


def test_precision_and_recall_by_hand():
    labels = np.array([1, 1, 1, 0, 0, 0, 0], bool)
    chosen = np.array([1, 1, 0, 1, 1, 1, 0], bool)
    assert precision_recall(labels, chosen) == (2 / 5, 2 / 3)
    precision, recall = precision_recall(labels, np.zeros(7, bool))
    assert math.isnan(precision)
    assert recall == 0


@pytest.mark.parametrize("scores", [np.zeros(2), np.array([0, np.nan, 1]), np.zeros((3, 1))])
def test_scores_that_do_not_fit_are_refused(scores):
    with pytest.raises(InputError, match="scores"):
        roc_auc(np.array([True, False, True]), scores)
