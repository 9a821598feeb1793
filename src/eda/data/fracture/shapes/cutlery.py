"""Thin implements: forks, knives and turners. There is no spoon among them: that kind is kept to measure on.

In: a random generator. Out: a solid; the x axis is along it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from eda.data.fracture.shapes.loft import FINE, Vector, bow, thickness, tube
from eda.data.fracture.solids import union

if TYPE_CHECKING:
    from manifold3d import CrossSection, Manifold

THIN = (0.011, 0.03)  # range of the thickness of a sheet


def _strip(knots: Sequence[Vector], count: int = 16) -> CrossSection:
    """A flat strip along x, through knots (x, half width)."""
    from manifold3d import CrossSection

    x, half = bow(knots, count).T
    edge = np.stack([x, np.maximum(half, 0.005)], axis=-1)
    return CrossSection([np.concatenate([edge * [1, -1], edge[::-1]])])


def _sheet(outline: CrossSection, thick: float) -> Manifold:
    """A thin sheet in the plane z = 0, fine enough to be bent."""
    from manifold3d import Manifold

    return Manifold.extrude(outline, thick).translate([0, 0, -thick / 2]).refine_to_length(FINE / 2)


def _bent(rng: np.random.Generator, solid: Manifold, most: float) -> Manifold:
    """The solid raised and lowered along x by a random smooth line."""
    from scipy.interpolate import CubicSpline

    line = CubicSpline(np.linspace(-0.2, 1.2, 5), rng.uniform(-most, most, size=5))
    return solid.warp_batch(lambda x: x + np.stack([0 * x[:, 0], 0 * x[:, 0], line(x[:, 0])], axis=-1))


def fork(rng: np.random.Generator) -> Manifold:
    """Tines on a head on a handle, all from one bent sheet."""
    from manifold3d import CrossSection

    u = rng.uniform
    half, tines, root = u(0.06, 0.12), int(rng.integers(2, 6)), u(0.68, 0.76)
    neck = u(0.012, 0.025)
    flat = _strip([(0, u(0.02, 0.05)), (0.15, u(0.025, 0.055)), (0.5, neck), (0.6, u(0.5, 0.9) * half), (root, half)])
    width = 2 * half / (tines + u(0.5, 0.8) * (tines - 1))
    for left in np.linspace(-half, half - width, tines):
        tip = root + u(0.22, 0.32)
        corners = [(root - 0.02, left), (tip - 0.06, left), (tip, left + 0.35 * width), (tip, left + 0.65 * width)]
        flat = flat + CrossSection([[*corners, (tip - 0.06, left + width), (root - 0.02, left + width)]])
    return _bent(rng, _sheet(flat, thickness(rng, *THIN)), 0.04)


def knife(rng: np.random.Generator) -> Manifold:
    """A blade that is thinner at its edge, on a flat or a round handle."""
    from manifold3d import CrossSection

    u = rng.uniform
    start, spine, belly = u(0.3, 0.5), u(0.015, 0.04), u(0.03, 0.1)
    back = bow([(start - 0.06, spine), (0.75, spine * u(0.6, 1.2)), (1.0, -u(0, 0.6) * belly)], 12)
    edge = bow([(1.0, -belly * 0.65), (0.85, -belly), (start - 0.06, -belly * u(0.5, 1))], 12)
    thick, sharp = thickness(rng, *THIN), u(0.3, 0.6)

    def thin_out(x: np.ndarray) -> np.ndarray:
        down = np.clip((spine - x[:, 1]) / (spine + belly), 0, 1)
        return x * np.stack([np.ones(len(x)), np.ones(len(x)), 1 - (1 - sharp) * down], axis=-1)

    blade = _sheet(CrossSection([np.concatenate([edge[::-1], back[::-1]])]), thick).warp_batch(thin_out)
    swell = 1 + u(0, 0.3) * np.sin(np.linspace(0, u(3, 8), 10))
    path = bow([(0, u(-0.03, 0.03), 0), (0.5 * start, 0, 0), (start, 0, 0)], 10)
    handle = tube(path, u(0.015, 0.03) * swell, 12, u(0.6, 1.6))
    return _bent(rng, union([blade, handle]), 0.02)


def spatula(rng: np.random.Generator) -> Manifold:
    """A thin blade, slotted or not, on a long thin handle."""
    from manifold3d import CrossSection

    u = rng.uniform
    root, near, far = u(0.6, 0.72), u(0.06, 0.12), u(0.08, 0.16)
    flat = _strip([(root - 0.05, 0.5 * near), (root, near), (0.9, far), (1.0, far * u(0.7, 1))])
    for y in np.linspace(-0.6, 0.6, int(rng.integers(1, 6)))[1:-1] * near:
        flat = flat - CrossSection.square((u(0.12, 0.2), u(0.015, 0.025))).translate((root + 0.04, y))
    rise = u(0.03, 0.12)
    neck = [(root + 0.02, 0, 0), (root - 0.08, 0, 0.5 * rise), (root - 0.2, 0, rise)]
    path = bow([*neck, (0, 0, rise * u(0.8, 1.5))], 14)
    handle = tube(path, u(0.012, 0.02) * np.linspace(1, u(1, 1.8), 14), 10, u(0.7, 1.4))
    return union([_bent(rng, _sheet(flat, thickness(rng, *THIN)), 0.004), handle])


CUTLERY = {make.__name__: make for make in (fork, knife, spatula)}
