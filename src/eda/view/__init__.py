"""Pictures of pieces: points, meshes, contact sheets and animations, without a display or a graphics card.

Colours, cameras and scenes are plain arrays and records, for any other picture to use.
"""

from eda.view.animation import animate, gif
from eda.view.camera import Camera, looking
from eda.view.colors import confidence_colors, piece_colors, scalar_colors
from eda.view.mesh import draw_mesh
from eda.view.scene import colors_by_break, colors_by_piece, exploded, good_view, posed
from eda.view.sheet import SheetStyle, contact_sheet
from eda.view.splat import splat

__all__ = [
    "Camera",
    "SheetStyle",
    "animate",
    "colors_by_break",
    "colors_by_piece",
    "confidence_colors",
    "contact_sheet",
    "draw_mesh",
    "exploded",
    "gif",
    "good_view",
    "looking",
    "piece_colors",
    "posed",
    "scalar_colors",
    "splat",
]
