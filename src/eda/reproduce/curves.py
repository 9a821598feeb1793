"""Curves and histograms as SVG, without a plotting library: panels side by side, each with its own scale and legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

WIDTH, HEIGHT = 420, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 30, 40
COLORS = ("#1b6ca8", "#d1495b", "#3a9d5d", "#e2a33a", "#7d5ba6", "#555555")


@dataclass(frozen=True)
class Curve:
    """One line of a panel."""

    label: str
    x: np.ndarray  # (n,)
    y: np.ndarray  # (n,)


@dataclass(frozen=True)
class _Axes:
    """From values to places in a panel; the vertical axis begins at zero."""

    far: float  # the largest x
    high: float  # the end of the vertical axis

    def place(self, x: float, y: float) -> tuple[float, float]:
        across = LEFT + (WIDTH - LEFT - RIGHT) * x / self.far
        return across, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / self.high


def charts(panels: Mapping[str, Sequence[Curve]], x_label: str) -> str:
    """An SVG document with one panel for every title."""
    return _document([_panel(title, curves, x_label) for title, curves in panels.items()])


def histogram(title: str, edges: np.ndarray, values: np.ndarray, expected: np.ndarray) -> str:
    """An SVG document: the share of values (n,) in every bin in percent, and a line of expected shares (bins,)."""
    shares = 100 * np.histogram(values, edges)[0] / max(1, len(values))
    axes = _Axes(float(edges[-1]), 1.05 * float(max(shares.max(), expected.max())))
    bars = [_bar(axes, *place) for place in zip(edges[:-1], edges[1:], shares, strict=True)]
    middles = (edges[:-1] + edges[1:]) / 2
    ticks = [_grid_line(axes, share) + _x_tick(axes, share) for share in np.linspace(0, 1, 5)]
    line = _line(axes, Curve("", middles, expected), COLORS[1])
    legend = _legend(len(COLORS), "by chance", COLORS[1])
    return _document([_text(WIDTH / 2, 18, title, "middle") + "".join([*ticks, *bars]) + line + legend])


def _bar(axes: _Axes, low: float, high: float, share: float) -> str:
    (left, top), (right, floor) = axes.place(low, share), axes.place(high, 0)
    box = f'x="{left:.1f}" y="{top:.1f}" width="{right - left - 1:.1f}" height="{floor - top:.1f}"'
    return f'<rect {box} fill="{COLORS[0]}"/>'


def _document(panels: Sequence[str]) -> str:
    """Panels side by side."""
    parts = [f'<g transform="translate({i * WIDTH} 0)">{panel}</g>' for i, panel in enumerate(panels)]
    size = f'width="{WIDTH * len(panels)}" height="{HEIGHT}"'
    style = 'font-family="sans-serif" font-size="11" fill="#333"'
    background = '<rect width="100%" height="100%" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{background}{"".join(parts)}</svg>\n'


def _panel(title: str, curves: Sequence[Curve], x_label: str) -> str:
    if not curves:
        return _text(WIDTH / 2, HEIGHT / 2, f"{title}: nothing yet", "middle")
    axes = _Axes(max(float(c.x.max()) for c in curves), 1.05 * max(float(np.nanmax(c.y)) for c in curves) or 1.0)
    parts = [_text(WIDTH / 2, 18, title, "middle"), _text(WIDTH / 2, HEIGHT - 8, x_label, "middle")]
    for share in np.linspace(0, 1, 5):
        parts += [_grid_line(axes, share), _x_tick(axes, share)]
    for i, curve in enumerate(curves):
        color = COLORS[i % len(COLORS)]
        parts += [_line(axes, curve, color), _legend(i, curve.label, color)]
    return "".join(parts)


def _grid_line(axes: _Axes, share: float) -> str:
    (left, y), (right, _) = axes.place(0, share * axes.high), axes.place(axes.far, 0)
    line = f'<line x1="{left:.1f}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
    return line + _text(left - 6, y + 4, f"{share * axes.high:.3g}", "end")


def _x_tick(axes: _Axes, share: float) -> str:
    x, y = axes.place(share * axes.far, 0)
    return _text(x, y + 15, f"{share * axes.far:.0f}", "middle")


def _line(axes: _Axes, curve: Curve, color: str) -> str:
    known = np.isfinite(curve.y)
    places = (axes.place(float(x), float(y)) for x, y in zip(curve.x[known], curve.y[known], strict=True))
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.8"/>'


def _legend(row: int, label: str, color: str) -> str:
    y = HEIGHT - BOTTOM - 12 - 15 * row
    mark = f'<line x1="{LEFT + 10}" y1="{y - 4}" x2="{LEFT + 28}" y2="{y - 4}" stroke="{color}" stroke-width="3"/>'
    return mark + _text(LEFT + 34, y, label, "start")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
