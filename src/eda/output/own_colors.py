"""The colours of a piece as its file has them: of points, of triangles or from pictures, in one form for the report.

In: a `PieceSource`. Out: `OwnColors`, a surface with a colour for every point, or a place in a picture. Pictures are
made smaller at once: those of scans may take more memory than all else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eda.data.mesh_repair import repair_mesh
from eda.data.mesh_samples import sample_surfaces
from eda.data.meshes import Mesh
from eda.data.piece_files import PieceFile
from eda.data.reading import move_points
from eda.output.piece_source import PieceSource

if TYPE_CHECKING:
    from PIL.Image import Image

_MAX_SIDE = 4096  # pixels, which every graphics card takes
_NO_COLOR = np.full(3, 190, dtype=np.uint8)  # of parts without one beside parts that have some


@dataclass(frozen=True)
class Skin:
    """A run of triangles, and the picture on them."""

    num_faces: int
    image: Image | None  # None: the colours of the points
    size: tuple[int, int] = (0, 0)  # of the picture in the file, in pixels


@dataclass(frozen=True)
class OwnColors:
    """A surface in its own colours."""

    points: np.ndarray  # (n, 3)
    colors: np.ndarray  # (n, 3) uint8
    normals: np.ndarray | None = None  # (n, 3) outward; None: unknown
    faces: np.ndarray | None = None  # (f, 3); None: a cloud
    places: np.ndarray | None = None  # (n, 2) in the picture, from its lower left corner
    skins: tuple[Skin, ...] = ()  # one after the other, all faces

    @staticmethod
    def of(source: PieceSource, max_pixels: float) -> OwnColors | None:
        """The colours of a piece, with pictures of at most so many pixels in all; None if it has none."""
        file = source.mesh_file
        if file is None:
            cloud = source.cloud
            return None if cloud.colors is None else OwnColors(cloud.points, cloud.colors, cloud.normals)
        if any(_has_colors(shape) for shape, _ in source.parts):
            share = max_pixels / max(sum(_picture(shape.visual) is not None for shape, _ in source.parts), 1)
            return _join([_part_colors(*part, share) for part in source.parts])
        colors, _ = source.colors(file)
        return None if colors is None else _whole(file.points, colors[:, :3], _faces_of(file))

    def scattered(self, count: int) -> OwnColors:
        """The same as a cloud of about `count` points at most, at random and, of a mesh, even over its surface."""
        rng = np.random.default_rng(0)
        if self.faces is None:
            rows = rng.permutation(len(self.points))[:count]
            return OwnColors(self.points[rows], self.colors[rows], None if self.normals is None else self.normals[rows])
        origin = self.points.mean(axis=0)
        mesh = Mesh(self.points - origin, self.faces)
        (sample,) = sample_surfaces([mesh], count, rng)
        colors = self._colors_at(sample.points + origin, sample.faces)
        return OwnColors(sample.points + origin, colors, sample.normals if repair_mesh(mesh).is_outward else None)

    def _colors_at(self, points: np.ndarray, faces: np.ndarray) -> np.ndarray:
        """(m, 3) uint8 at points on triangles (m,)."""
        assert self.faces is not None
        corners = self.faces[faces]
        weights = _barycentric(points, self.points[corners])
        colors = np.einsum("mk,mkc->mc", weights, self.colors[corners]).round().clip(0, 255).astype(np.uint8)
        first = 0
        for skin in self.skins:
            rows = np.flatnonzero((faces >= first) & (faces < first + skin.num_faces))
            if skin.image is not None and self.places is not None:
                colors[rows] = _read(skin.image, np.einsum("mk,mkc->mc", weights[rows], self.places[corners[rows]]))
            first += skin.num_faces
        return colors


def _has_colors(shape: Any) -> bool:
    visual = shape.visual
    if visual.kind == "texture":
        return _picture(visual) is not None or getattr(visual, "material", None) is not None
    return visual.kind in ("vertex", "face")


def _faces_of(file: PieceFile) -> np.ndarray:
    assert file.faces is not None
    return file.faces


def _part_colors(shape: Any, place: np.ndarray, max_pixels: float) -> OwnColors:
    """The colours of one mesh of a piece."""
    points, faces, visual = move_points(np.asarray(shape.vertices), place), np.asarray(shape.faces), shape.visual
    plain = np.tile(_NO_COLOR, (len(points), 1))
    if visual.kind == "vertex":
        return _whole(points, np.asarray(visual.vertex_colors)[:, :3], faces)
    if visual.kind == "face":  # every triangle gets corners of its own
        colors = np.repeat(np.asarray(visual.face_colors)[:, :3], 3, axis=0)
        return _whole(points[faces].reshape(-1, 3), colors, np.arange(3 * len(faces)).reshape(-1, 3))
    if visual.kind != "texture":
        return _whole(points, plain, faces)
    image = _picture(visual)
    if image is None:
        return _whole(points, np.tile(np.asarray(visual.material.main_color)[:3], (len(points), 1)), faces)
    skin = Skin(len(faces), _smaller(image, max_pixels), image.size)
    return OwnColors(points, plain, None, faces, np.asarray(visual.uv, dtype=np.float64), (skin,))


def _whole(points: np.ndarray, colors: np.ndarray, faces: np.ndarray) -> OwnColors:
    return OwnColors(points, colors, None, faces, np.zeros((len(points), 2)), (Skin(len(faces), None),))


def _join(parts: Sequence[OwnColors]) -> OwnColors:
    starts = np.cumsum([0, *(len(part.points) for part in parts)])
    return OwnColors(
        np.concatenate([part.points for part in parts]),
        np.concatenate([part.colors for part in parts]),
        None,
        np.concatenate([p.faces + start for p, start in zip(parts, starts, strict=False) if p.faces is not None]),
        np.concatenate([part.places for part in parts if part.places is not None]),
        tuple(skin for part in parts for skin in part.skins),
    )


def _picture(visual: Any) -> Image | None:
    """The picture on a mesh; None if it has none, or does not say where it lies."""
    material = getattr(visual, "material", None)
    image = getattr(material, "baseColorTexture", None) or getattr(material, "image", None)
    uv = getattr(visual, "uv", None)
    return image if uv is not None and np.isfinite(uv).all() else None


def _smaller(image: Image, max_pixels: float) -> Image:
    """The picture without transparency, of at most so many pixels."""
    width, height = image.size
    factor = min((max_pixels / (width * height)) ** 0.5, _MAX_SIDE / max(width, height), 1)
    return image.convert("RGB").resize((max(int(factor * width), 1), max(int(factor * height), 1)))


def _read(image: Image, places: np.ndarray) -> np.ndarray:
    """(m, 3) the colours of a picture at places (m, 2), which repeats beyond its sides."""
    pixels = np.asarray(image)
    height, width = pixels.shape[:2]
    column, row = np.floor(places % 1 * [width, height]).astype(int).T
    return pixels[height - 1 - row.clip(0, height - 1), column.clip(0, width - 1)]


def _barycentric(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """(m, 3) the weights of the corners (m, 3, 3) of triangles at points (m, 3) on them."""
    a, b, c = np.moveaxis(corners, 1, 0)
    normal = np.cross(b - a, c - a)
    square = np.maximum((normal * normal).sum(axis=1), 1e-300)
    pairs = ((points - a, c - a), (b - a, points - a))
    of_b, of_c = ((np.cross(*pair) * normal).sum(axis=1) / square for pair in pairs)
    return np.column_stack([1 - of_b - of_c, of_b, of_c]).clip(0, 1)
