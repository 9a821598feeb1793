"""The contact sheet: many puzzles on one page, each assembled, apart, and with its breaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eda.data import Example
from eda.errors import InputError
from eda.view.camera import Camera
from eda.view.colors import BACKGROUND, FAINT_INK, INK, as_bytes
from eda.view.scene import (
    EXPLOSION,
    colors_by_break,
    colors_by_piece,
    disc_sizes,
    good_view,
    laid_out,
    own_points,
    piece_of_point,
)
from eda.view.splat import splat

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_POINTS = 3500  # in a view: more would not be seen
MARGIN, TITLE = 14, 40  # pixels around a tile, and of its title


@dataclass(frozen=True)
class SheetStyle:
    """How a page is laid out."""

    columns: int = 3
    view: int = 220  # pixels of a square view
    breaks: bool = True  # a third view, with the break surfaces in red
    explosion: float = EXPLOSION

    @property
    def num_views(self) -> int:
        """Of a tile."""
        return 3 if self.breaks else 2

    @property
    def tile(self) -> tuple[int, int]:
        """Width and height of a tile, with its margin."""
        return self.num_views * self.view + 2 * MARGIN, TITLE + self.view + 2 * MARGIN


def contact_sheet(
    examples: Sequence[Example],
    style: SheetStyle | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Image:
    """One page, a tile an example, row by row; `progress` is told how many of how many are drawn."""
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
    """One puzzle: its title, and its views side by side."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", style.tile, _ink(BACKGROUND))
    draw = ImageDraw.Draw(picture)
    draw.text((MARGIN, MARGIN), _fitting(example.name), fill=_ink(INK), font=ImageFont.load_default(15))
    draw.text((MARGIN, MARGIN + 19), caption(example), fill=_ink(FAINT_INK), font=ImageFont.load_default(12))
    for number, view in enumerate(views(example, style)):
        picture.paste(view, (MARGIN + number * style.view, MARGIN + TITLE))
    return picture


def views(example: Example, style: SheetStyle) -> list[Image]:
    """Assembled, apart, and apart with the breaks in red if the example knows them."""
    # Fewer than there are, so that they lie evenly.
    example = example.downsample(min(MOST_POINTS, 2 * len(example.points) // 3))
    camera = good_view(example)
    colors, breaks, sizes = colors_by_piece(example), colors_by_break(example), disc_sizes(example)
    own = own_points(example)
    whole = _view(example, example.points, colors, sizes, camera, style.view, own if own.any() else ~own)
    apart = laid_out(example, camera, style.explosion)
    pictures = [whole, _view(example, apart, colors, sizes, camera, style.view)]
    _label_foreign(pictures[1], example, apart, camera.framing(apart))
    if style.breaks and breaks is not None:
        pictures.append(_view(example, apart, breaks, sizes, camera, style.view))
    return pictures


def caption(example: Example) -> str:
    """How many pieces, and how many of them belong to something else."""
    own, foreign = int(example.own.sum()), int((~example.own).sum())
    text = f"{own} piece" + ("s" if own != 1 else "")
    return f"{text} + {foreign} foreign" if foreign else text


def _view(
    example: Example,
    points: np.ndarray,
    colors: np.ndarray,
    sizes: np.ndarray,
    camera: Camera,
    size: int,
    chosen: np.ndarray | slice = slice(None),
) -> Image:
    from PIL import Image

    normals = None if example.normals is None else example.normals[chosen]
    camera = camera.framing(points[chosen])
    return Image.fromarray(
        splat(points[chosen], colors[chosen], normals, camera=camera, size=size, radius=sizes[chosen])
    )


def _label_foreign(picture: Image, example: Example, points: np.ndarray, camera: Camera) -> None:
    """Write under each foreign piece what it is."""
    from PIL import ImageDraw, ImageFont

    draw, size = ImageDraw.Draw(picture), picture.width
    for piece in np.flatnonzero(~example.own):
        place = camera.project(points[piece_of_point(example) == piece])
        x, y = (place[:, 0].mean() + 1) / 2 * size, (1 - place[:, 1].min()) / 2 * size
        draw.text((x, min(y, size - 13)), "foreign", fill=_ink(FAINT_INK), font=ImageFont.load_default(11), anchor="ma")


def _fitting(name: str, most: int = 48) -> str:
    """A long name without its middle: the ends tell examples apart."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-(most // 2) :]}"


def _ink(color: np.ndarray) -> tuple[int, ...]:
    return tuple(int(value) for value in as_bytes(color))
