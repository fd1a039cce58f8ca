"""Figures: one look, and a drawing function for each of them. Call `style()` once, `save_figure` for each."""

from lstoc_core.drawing.graphs import draw_layered, draw_tree, same_scale, symbol_text
from lstoc_core.drawing.maps import draw_grid
from lstoc_core.drawing.theme import BLUE, GREEN, INK, MUTED, ORANGE, RED, VERMILION, is_live, save_figure, style

__all__ = [
    "BLUE", "GREEN", "INK", "MUTED", "ORANGE", "RED", "VERMILION", "draw_grid", "draw_layered", "draw_tree", "is_live",
    "same_scale", "save_figure", "style", "symbol_text",
]  # fmt: skip
