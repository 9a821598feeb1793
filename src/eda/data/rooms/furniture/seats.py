"""Chairs, sofas and beds."""

from __future__ import annotations

import math

import numpy as np

from eda.data.meshes import join_meshes
from eda.data.rooms.chance import Rng
from eda.data.rooms.forms import blob, box, cover, move_mesh, tilt_mesh, tube
from eda.data.rooms.furniture.thing import Thing, Top, legs


def chair(rng: Rng) -> Thing:
    """With four legs or on wheels."""
    w, d, seat, top = rng.uniform(0.38, 0.55), rng.uniform(0.38, 0.5), rng.uniform(0.42, 0.5), rng.uniform(0.75, 1.1)
    if rng.random() < 0.4:
        star = [move_mesh(box((0, -0.025, 0.04), (0.3, 0.025, 0.1)), (0, 0, 0), a) for a in np.arange(5) * 1.257]
        middle = join_meshes([*star, tube([0.03, 0.03], [0.05, seat])])
        parts = [move_mesh(middle, (w / 2, d / 2, 0))]
        parts.append(move_mesh(blob(rng, (w, d, 0.1), 0.4, 0.03), (w / 2, d / 2, seat - 0.05)))
        parts.append(move_mesh(blob(rng, (w, 0.1, top - seat - 0.1), 0.4, 0.03), (w / 2, 0.03, seat + 0.1)))
        if rng.random() < 0.6:
            for x in (0, w - 0.05):
                parts += [box((x, 0.1, seat + 0.18), (x + 0.05, d - 0.1, seat + 0.22)),
                          box((x, d / 2, seat), (x + 0.04, d / 2 + 0.04, seat + 0.18))]  # fmt: skip
    else:
        parts = [*legs(rng, w, d, seat, 0.035), box((0, 0, seat - 0.03), (w, d, seat))]
        parts += [box((x, 0, seat), (x + 0.035, 0.035, top)) for x in (0.0, w - 0.035)]
        if rng.random() < 0.5:
            parts.append(box((0, 0, (seat + top) / 2), (w, 0.03, top)))
        else:
            parts += [box((0, 0, z), (w, 0.025, z + 0.07)) for z in np.arange(seat + 0.12, top, 0.13)]
    if rng.random() < 0.2:  # clothes over the back
        parts.append(move_mesh(blob(rng, (w + 0.05, 0.16, 0.5), 0.6, 0.15), (w / 2, 0.02, top - 0.45)))
    return Thing(join_meshes(parts), (Top((0.05, w - 0.05), (0.1, d), seat, 0.4),) if rng.random() < 0.3 else ())


def sofa(rng: Rng) -> Thing:
    """A sofa of one to four seats."""
    seats, seat = int(rng.integers(1, 5)), rng.uniform(0.55, 0.75)
    arm, d, h, top = rng.uniform(0.1, 0.25), rng.uniform(0.75, 1.0), rng.uniform(0.38, 0.46), rng.uniform(0.65, 0.95)
    w, side = seats * seat + 2 * arm, rng.uniform(0.5, 0.68)
    parts = [
        box((0, 0, 0.05), (w, d, h - 0.12)),
        move_mesh(blob(rng, (w, 0.25, top - 0.05), 0.25, 0.02), (w / 2, 0.13, 0.05)),
    ]
    parts += [move_mesh(blob(rng, (arm, d, side - 0.05), 0.25, 0.02), (x, d / 2, 0.05)) for x in (arm / 2, w - arm / 2)]
    for number in range(seats):
        x = arm + (number + 0.5) * seat
        parts.append(move_mesh(blob(rng, (seat, d - 0.2, 0.2), 0.3, 0.04), (x, d / 2 + 0.1, h - 0.17)))
        parts.append(tilt_mesh(move_mesh(blob(rng, (seat, 0.2, top - h), 0.35, 0.05), (x, 0.3, h)), 0.15, (0, 0.3, h)))
        if rng.random() < 0.4:
            soft = tilt_mesh(blob(rng, (0.42, 0.16, 0.42), 0.5, 0.08), 0.4, (0, 0, 0))
            parts.append(move_mesh(soft, (x, 0.45, h), rng.normal(0, 0.4)))
    return Thing(join_meshes(parts), (Top((arm, w - arm), (0.4, d), h + 0.02, 0.5),) if rng.random() < 0.3 else ())


def corner_sofa(rng: Rng) -> Thing:
    """Two sofas at a right angle."""
    first, second = sofa(rng), sofa(rng)
    shift = second.mesh.vertices[:, 0].max()
    return Thing(join_meshes([first.mesh, move_mesh(second.mesh, (0, shift + 0.2, 0), -math.pi / 2)]), first.tops)


def bed(rng: Rng) -> Thing:
    """With covers that are not flat, and pillows."""
    w, d, h = rng.uniform(0.9, 1.8), rng.uniform(1.9, 2.1), rng.uniform(0.35, 0.6)
    parts = [box((0, 0, 0.1), (w, d, h - 0.08)), box((-0.02, 0, 0), (w + 0.02, 0.05, rng.uniform(h, 1.2)))]
    parts.append(cover(rng, (w, d), h, rng.uniform(0.01, 0.04)))
    parts.append(move_mesh(blob(rng, (w + 0.1, d * 0.7, 0.25), 0.35, 0.06), (w / 2, d * 0.62, h - 0.15)))
    for x in np.arange(0.35, w, 0.7):
        parts.append(move_mesh(blob(rng, (0.6, 0.4, 0.16), 0.6, 0.1), (x, 0.3, h - 0.02), rng.normal(0, 0.2)))
    return Thing(
        join_meshes(parts), (Top((0.1, w - 0.1), (0.6, d - 0.1), h + 0.08, 0.5),) if rng.random() < 0.5 else ()
    )
