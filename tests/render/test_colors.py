"""Colours: they can be told apart, also with colour blindness."""

import itertools

import numpy as np
import pytest

from eda.render import confidence_colors, piece_colors
from eda.render.colors import PIECES

# Machado, Oliveira, Fernandes 2009, severity 1, for linear RGB.
EYES = {
    "all cones": np.eye(3),
    "no M cones": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no L cones": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
}


def lab(colors: np.ndarray, eye: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of sRGB colours as an eye sees them."""
    linear = np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)
    linear = np.clip(linear @ np.asarray(eye).T, 0, 1)
    xyz = linear @ np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]).T
    xyz /= [0.95047, 1.0, 1.08883]
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


@pytest.mark.parametrize(("count", "apart"), [(8, 18), (14, 13), (24, 10)])
def test_pieces_can_be_told_apart_by_every_eye(count, apart):
    for eye in EYES.values():
        seen = lab(piece_colors(count), eye)
        assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > apart


def test_a_piece_keeps_its_colour():
    assert np.array_equal(piece_colors(30)[:5], piece_colors(5))
    assert len(PIECES) >= 20


@pytest.mark.parametrize("eye", EYES)
def test_doubt_and_certainty_differ_for_every_eye(eye):
    seen = lab(confidence_colors(np.array([0.0, 0.5, 1.0])), EYES[eye])
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 25


def test_the_scale_of_confidence_runs_from_end_to_end():
    assert np.array_equal(confidence_colors(np.array([-1.0, 2.0])), confidence_colors(np.array([0.0, 1.0])))
