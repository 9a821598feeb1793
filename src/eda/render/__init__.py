"""Pictures of pieces: points, meshes, contact sheets and animations, without a display or a graphics card.

Colours, cameras and scenes are plain arrays and records, so that other pictures can use them too.
"""

from eda.render.animation import animate
from eda.render.colors import confidence_colors, piece_colors
from eda.render.image_files import encode_gif, encode_png
from eda.render.mesh_drawing import draw_mesh
from eda.render.point_drawing import draw_points
from eda.render.scene import best_view, colors_by_break, colors_by_piece, explode, posed_example
from eda.render.sheet import SheetStyle, contact_sheet
from eda.render.virtual_camera import Camera, look_from

__all__ = [
    "Camera",
    "SheetStyle",
    "animate",
    "best_view",
    "colors_by_break",
    "colors_by_piece",
    "confidence_colors",
    "contact_sheet",
    "draw_mesh",
    "draw_points",
    "encode_gif",
    "encode_png",
    "explode",
    "look_from",
    "piece_colors",
    "posed_example",
]
