"""The contact sheet: many puzzles on one page, each assembled, taken apart, and with its breaks in red."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eda.data import Example
from eda.errors import InputError
from eda.render.colors import BACKGROUND, FAINT_INK, INK, as_bytes
from eda.render.point_drawing import draw_points
from eda.render.scene import (
    EXPLOSION,
    best_view,
    colors_by_break,
    colors_by_piece,
    disc_radii,
    lay_out,
    own_point_mask,
    piece_of_point,
)
from eda.render.virtual_camera import Camera

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_POINTS = 3500  # in a view: more make no visible difference
MAX_SCAN_POINTS = 20_000  # unless there are no breaks, as in scans: a street has as many details as it has points
MARGIN, TITLE = 14, 40  # pixels: around a tile, and the height of its title


@dataclass(frozen=True)
class SheetStyle:
    """The layout of a page."""

    columns: int = 3
    view: int = 220  # side of a square view, in pixels
    breaks: bool = True  # a third view, with the break surfaces in red
    explosion: float = EXPLOSION

    @property
    def num_views(self) -> int:
        """The number of views in a tile."""
        return 3 if self.breaks else 2

    @property
    def tile(self) -> tuple[int, int]:
        """Width and height of a tile in pixels, with its margin."""
        return self.num_views * self.view + 2 * MARGIN, TITLE + self.view + 2 * MARGIN


def contact_sheet(
    examples: Sequence[Example],
    style: SheetStyle | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Image:
    """One page with a tile for every example, row by row; `progress(done, total)` is called after each."""
    from PIL import Image

    style = style or SheetStyle()
    if not examples:
        raise InputError("nothing to draw: no examples")
    columns = min(style.columns, len(examples))
    width, height = style.tile
    page = Image.new("RGB", (columns * width, -(-len(examples) // columns) * height), _ink(BACKGROUND))
    for number, example in enumerate(examples):
        page.paste(tile(example, style), (number % columns * width, number // columns * height))
        if progress:
            progress(number + 1, len(examples))
    return page


def tile(example: Example, style: SheetStyle) -> Image:
    """The picture of one puzzle: its title, and its views side by side."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", style.tile, _ink(BACKGROUND))
    draw = ImageDraw.Draw(picture)
    draw.text((MARGIN, MARGIN), _shorten(example.name), fill=_ink(INK), font=ImageFont.load_default(15))
    draw.text((MARGIN, MARGIN + 19), caption(example), fill=_ink(FAINT_INK), font=ImageFont.load_default(12))
    for number, view in enumerate(views(example, style)):
        picture.paste(view, (MARGIN + number * style.view, MARGIN + TITLE))
    return picture


def views(example: Example, style: SheetStyle) -> list[Image]:
    """The views of a puzzle: assembled, taken apart, and taken apart with the breaks in red if they are known."""
    # At most two thirds of the points, so that they are evenly spaced.
    most = MAX_SCAN_POINTS if example.on_break is None else MAX_POINTS
    example = example.downsample(min(most, 2 * len(example.points) // 3))
    camera = best_view(example)
    colors, breaks, radii = colors_by_piece(example), colors_by_break(example), disc_radii(example)
    own = own_point_mask(example)
    whole = _view(example, example.points, colors, radii, camera, style.view, own if own.any() else ~own)
    apart = lay_out(example, camera, style.explosion)
    pictures = [whole, _view(example, apart, colors, radii, camera, style.view)]
    _label_foreign(pictures[1], example, apart, camera.framing(apart))
    if style.breaks and breaks is not None:
        pictures.append(_view(example, apart, breaks, radii, camera, style.view))
    return pictures


def caption(example: Example) -> str:
    """The number of pieces, and of those that belong to another object."""
    own, foreign = int(example.own.sum()), int((~example.own).sum())
    text = f"{own} piece" + ("s" if own != 1 else "")
    return f"{text} + {foreign} foreign" if foreign else text


def _view(
    example: Example,
    points: np.ndarray,
    colors: np.ndarray,
    radii: np.ndarray,
    camera: Camera,
    size: int,
    chosen: np.ndarray | slice = slice(None),
) -> Image:
    from PIL import Image

    normals = None if example.normals is None else example.normals[chosen]
    camera = camera.framing(points[chosen])
    return Image.fromarray(
        draw_points(points[chosen], colors[chosen], normals, camera=camera, size=size, radius=radii[chosen])
    )


def _label_foreign(picture: Image, example: Example, points: np.ndarray, camera: Camera) -> None:
    """Write "foreign" under each foreign piece."""
    from PIL import ImageDraw, ImageFont

    draw, size = ImageDraw.Draw(picture), picture.width
    for piece in np.flatnonzero(~example.own):
        projected = camera.project(points[piece_of_point(example) == piece])
        x, y = (projected[:, 0].mean() + 1) / 2 * size, (1 - projected[:, 1].min()) / 2 * size
        draw.text((x, min(y, size - 13)), "foreign", fill=_ink(FAINT_INK), font=ImageFont.load_default(11), anchor="ma")


def _shorten(name: str, most: int = 48) -> str:
    """The name, without its middle if it is long: the ends tell examples apart."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-(most // 2) :]}"


def _ink(color: np.ndarray) -> tuple[int, ...]:
    return tuple(int(value) for value in as_bytes(color))
