"""Tools and household things: hafts, blades and flat outlines.

In: a random generator. Out: a solid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eda.data.fracture.shapes.loft import ball, block, bow, slab, tube
from eda.data.fracture.solids import union

if TYPE_CHECKING:
    from manifold3d import Manifold


def _haft(rng: np.random.Generator, thickness: float) -> Manifold:
    """A handle of one unit along z, slightly bent and of changing thickness."""
    path = bow([(0, 0, 0), (rng.uniform(-0.07, 0.07), rng.uniform(-0.03, 0.03), 0.5), (0, 0, 1)], 12)
    swell = 1 + rng.uniform(-0.3, 0.3) * np.sin(np.linspace(0, rng.uniform(3, 9), 12) + rng.uniform(0, 6))
    return tube(path, thickness * swell, 12, rng.uniform(0.7, 1.4))


def hammer(rng: np.random.Generator) -> Manifold:
    """A head across a haft, a face on one end and a peen on the other."""
    u = rng.uniform
    width, height = u(0.06, 0.1), u(0.9, 0.95)
    head = block((-u(0.12, 0.25), -width, height - u(0.06, 0.1)), (u(0.12, 0.2), width, height + u(0.06, 0.1)))
    path = bow([(0.1, 0, height), (0.26, 0, height + u(-0.03, 0.03)), (u(0.34, 0.45), 0, height - u(-0.05, 0.1))], 6)
    return union([_haft(rng, u(0.035, 0.06)), head, tube(path, np.linspace(0.06, u(0.01, 0.07), 6), 12)])


def axe(rng: np.random.Generator) -> Manifold:
    """A blade that thins out from the haft."""
    u = rng.uniform
    upper = [(u(0.35, 0.45), u(0.98, 1.1)), (0.12, u(0.9, 0.95)), (-0.1, 0.93)]
    lower = [(-0.1, 0.75), (0.12, u(0.74, 0.8)), (u(0.35, 0.45), u(0.5, 0.65)), (u(0.4, 0.5), 0.82)]
    thickness = u(0.12, 0.2)
    flat = slab([lower + upper], thickness).translate([0, 0, -thickness / 2]).rotate([90, 0, 0])

    def thin_out(x: np.ndarray) -> np.ndarray:
        return x * np.stack([np.ones(len(x)), 1 - np.clip(x[:, 0] / 0.55, 0, 0.8), np.ones(len(x))], axis=-1)

    return union([_haft(rng, u(0.035, 0.055)), flat.warp_batch(thin_out)])


def spoon(rng: np.random.Generator) -> Manifold:
    """A hollowed bowl at the end of a bent handle."""
    u = rng.uniform
    a, b, c = u(0.16, 0.24), u(0.1, 0.16), u(0.05, 0.1)
    bulge = ball((0, 0, 0), (a, b, c), segments=24)
    hollow = ball((0, 0, u(0.45, 0.7) * c), (0.87 * a, 0.87 * b, u(0.75, 0.9) * c), segments=24)
    path = bow(
        [(0.92 * a, 0, 0.01), (a + 0.3, u(-0.02, 0.02), u(0.02, 0.12)), (a + u(0.55, 0.8), 0, u(-0.03, 0.08))], 10
    )
    return union([bulge - hollow, tube(path, np.linspace(0.03, u(0.03, 0.06), 10), 10, u(1, 2))])


def brush(rng: np.random.Generator) -> Manifold:
    """A long handle with a block of bristles."""
    u = rng.uniform
    head, width = u(0.12, 0.25), u(0.03, 0.06)
    bristles = block((-u(0.06, 0.14), -width, 1 - head), (0, width, 1 + u(-0.03, 0.02)))
    return union([_haft(rng, u(0.022, 0.04)), bristles])


def mirror(rng: np.random.Generator) -> Manifold:
    """A disc with a rim, on a handle."""
    u = rng.uniform
    radii = (u(0.2, 0.3), u(0.03, 0.05), u(0.22, 0.32))
    middle = (0, 0, 1 + 0.85 * radii[2])
    disc = ball(middle, radii, squareness=u(0.5, 1), segments=28)
    glass = ball(np.add(middle, (0, radii[1], 0)), (0.82 * radii[0], 0.5 * radii[1], 0.82 * radii[2]), segments=28)
    return union([disc - glass, _haft(rng, u(0.035, 0.05))])


def key(rng: np.random.Generator) -> Manifold:
    """A bow, a shank and a bit."""
    from manifold3d import CrossSection

    u = rng.uniform
    grip = CrossSection.circle(u(0.15, 0.22), 28).scale((1, u(0.7, 1.2))) - CrossSection.circle(u(0.07, 0.1), 20)
    shank = CrossSection.square((0.75, 0.09)).translate((0.1, -0.045))
    bits = [CrossSection.square((u(0.05, 0.09), u(0.1, 0.2))).translate((x, 0)) for x in (u(0.55, 0.6), u(0.72, 0.77))]
    return slab((grip + shank + bits[0] + bits[1]).to_polygons(), u(0.07, 0.12))


def wheel(rng: np.random.Generator) -> Manifold:
    """A rim, a hub and spokes that are not quite even; thick or thin."""
    from manifold3d import CrossSection

    u = rng.uniform
    r, count = u(0.4, 0.5), int(rng.integers(3, 7))
    flat = CrossSection.circle(r, 40) - CrossSection.circle(r * u(0.72, 0.85), 32)
    flat = flat + CrossSection.circle(u(0.08, 0.16), 16)
    spoke = CrossSection.square((r * 0.9, u(0.05, 0.1))).translate((0, -0.03))
    for i in range(count):
        flat = flat + spoke.rotate(360 / count * (i + u(-0.15, 0.15)))
    return slab(flat.to_polygons(), u(0.07, 0.18))


def gear(rng: np.random.Generator) -> Manifold:
    """A toothed disc with a hole beside its middle."""
    u = rng.uniform
    angle = np.linspace(0, 2 * np.pi, 72, endpoint=False)
    edge = u(0.4, 0.5) * (1 + u(0.04, 0.12) * np.tanh(3 * np.cos(rng.integers(6, 13) * angle)))
    hole_angle = angle[::-6]
    hole = u(-0.12, 0.12, size=2) + u(0.05, 0.15) * np.stack([np.cos(hole_angle), np.sin(hole_angle)], axis=-1)
    return slab([np.stack([edge * np.cos(angle), edge * np.sin(angle)], axis=-1), hole], u(0.06, 0.2))


def horseshoe(rng: np.random.Generator) -> Manifold:
    """A bent bar with feet."""
    u = rng.uniform
    arc = np.linspace(-u(0.1, 0.5), np.pi + u(0.1, 0.5), 24)
    path = np.stack([u(0.3, 0.45) * np.cos(arc), u(0.35, 0.5) * np.sin(arc), u(-0.05, 0.05) * np.cos(2 * arc)], axis=-1)
    bar = tube(path, u(0.06, 0.11) * (1 + u(0, 0.3) * np.cos(arc - u(0, 3))), 12, u(0.4, 1.5))
    return union([bar, *(ball(path[end], u(0.09, 0.14, size=3), squareness=u(0.4, 1)) for end in (0, -1))])


TOOLS = {make.__name__: make for make in (hammer, axe, spoon, brush, mirror, key, wheel, gear, horseshoe)}
