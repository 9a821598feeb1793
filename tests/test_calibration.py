"""Calibrations: fitted to what is right, and kept in the header of a model file."""

import numpy as np
import pytest
from support.lumpy_shapes import TINY
from support.model_files import NAME, header, written

from eda import Eda, InputError, load
from eda.assembly.confidence.features import FEATURES
from eda.calibration import Calibration, calibrate, read_calibrations, write_calibrations
from eda.metrics import expected_calibration_error
from eda.weights import SHIPPED

ONE = {"joint": Calibration((0.5, -2.0), 1.0, "two joints", (0.0, 1.0), (1.0, 4.0))}


def test_calibration_recovers_the_odds_it_was_drawn_from():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(20_000, 2)) * [1, 3] + [0, 5]
    odds = 1.5 * features[:, 0] - 0.5 * features[:, 1] + 2
    right = rng.random(len(odds)) < 1 / (1 + np.exp(-odds))
    fitted = calibrate(features, right, fitted="drawn", ridge=1e-6)
    np.testing.assert_allclose(fitted.weights, [1.5, -0.5], atol=0.07)
    assert fitted.bias == pytest.approx(2, abs=0.2)
    assert expected_calibration_error(fitted(features), right) < 0.02


def test_calibration_stays_finite_where_right_and_wrong_separate():
    features = np.array([[0.0], [0.1], [0.9], [1.0]])
    fitted = calibrate(features, np.array([0, 0, 1, 1]), fitted="four")
    assert np.isfinite(fitted.weights).all()
    assert (np.diff(fitted(features)) > 0).all()


def test_calibration_error_by_hand():
    probability = np.array([0.1, 0.1, 0.9, 0.9])
    right = np.array([0.0, 1.0, 1.0, 1.0])
    assert expected_calibration_error(probability, right) == pytest.approx((2 * 0.4 + 2 * 0.1) / 4)


def test_calibration_refuses_what_does_not_fit():
    with pytest.raises(InputError, match="features"):
        calibrate(np.zeros((3, 2)), np.zeros(4), fitted="")
    with pytest.raises(InputError, match="labels"):
        expected_calibration_error(np.zeros(3), np.zeros(4))


def test_unlikeness_counts_how_far_outside_the_usual_the_worst_feature_lies():
    rng = np.random.default_rng(0)
    features = np.vstack([rng.uniform([0, 10], [1, 30], (5000, 2)), [[50.0, -50.0]] * 20])
    usual = np.arange(len(features)) < 5000
    fitted = calibrate(features, rng.random(len(features)) < 0.5, fitted="", usual=usual)
    asked = np.array([[0.5, 20], [0.05, 29], [2.0, 20], [0.5, 0], [2.0, 0], [0.5, 60]])
    np.testing.assert_allclose(fitted.unlikeness(asked), [0, 0, 1, 0.5, 1, 1.5], atol=0.03)
    assert calibrate(features, usual, fitted="").unlikeness(asked).tolist() == [0] * 6, "where it is not known"


# -- in a model file -------------------------------------------------------------------------------------------------


def weight_bytes(path) -> bytes:
    content = path.read_bytes()
    return content[8 + int.from_bytes(content[:8], "little") :]


def test_calibrations_are_put_into_a_model_file_and_leave_the_weights_alone(tmp_path):
    path = tmp_path / NAME
    Eda(TINY).save(path)
    assert load(path).calibrations is read_calibrations(path) is None
    before = weight_bytes(path)
    write_calibrations(path, ONE)
    assert weight_bytes(path) == before
    model = load(path)
    assert model.calibrations == read_calibrations(path) == ONE
    assert model.config == TINY
    model.save(path)
    assert load(path).calibrations == ONE, "what was loaded is saved again"


@pytest.mark.parametrize(
    "entry",
    [
        "[]",
        "7",
        '{"joint": {}}',
        '{"joint": {"weights": [1, "a"], "bias": 0, "fitted": ""}}',
        '{"joint": {"weights": [1, NaN], "bias": 0, "fitted": ""}}',
        '{"joint": {"weights": [1, 2], "bias": 0, "fitted": "", "low": [0], "high": [1]}}',
        '{"joint": {"weights": [1], "bias": 0, "fitted": "", "low": [0], "high": [Infinity]}}',
    ],
)
def test_a_damaged_calibration_is_an_input_error(tmp_path, entry):
    path = written(tmp_path / NAME, Eda(TINY).state_dict(), header(calibration=entry))
    with pytest.raises(InputError, match=r"model\.safetensors: the calibration .* is damaged"):
        load(path)


def test_what_is_no_model_gets_no_calibration(tmp_path):
    path = written(tmp_path / NAME, Eda(TINY).state_dict(), {"format": "other"})
    before = path.read_bytes()
    with pytest.raises(InputError, match="not an Eda model"):
        write_calibrations(path, ONE)
    assert path.read_bytes() == before


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda shipped: shipped.name)
def test_the_models_that_ship_know_their_regime_and_are_calibrated(shipped):
    model = load(shipped.name)
    assert model.config.regime == shipped.regime
    assert model.calibrations is not None
    sizes = {"fracture": {kind: len(names) for kind, names in FEATURES.items()}, "scan": {"joint": 12}}
    assert {kind: len(one.weights) for kind, one in model.calibrations.items()} == sizes[shipped.regime]
