"""Values on grid maps."""

from collections.abc import Iterable, Mapping

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from lstoc_core.drawing.theme import INK, RED


def draw_grid(
    ax: Axes,
    values: ArrayLike,
    *,
    outline: Mapping[str, tuple[int, int]] | Iterable[tuple[int, int]] | None = None,
    annotate: bool = True,
    cmap: str = "cividis",
    walls: ArrayLike | None = None,
) -> AxesImage:
    """Draw one value per cell, [H, W] with the origin at the top left; NaN cells were not visited and stay white.

    outline: key cells (x, y) to frame, with their symbols in the corner if a mapping; annotate: write the values into
    the cells where they fit; walls: bool [H, W], hatched. Returns the image, for a colour bar.
    """
    values = np.asarray(values, dtype=float)
    rows, columns = values.shape
    image = ax.imshow(np.ma.masked_invalid(values), cmap=cmap, interpolation="nearest")
    ax.set(xticks=np.arange(columns + 1) - 0.5, yticks=np.arange(rows + 1) - 0.5, xticklabels=[], yticklabels=[])
    ax.grid(color="#d5dae0", linewidth=0.5)
    ax.tick_params(length=0)
    ax.spines[:].set(visible=True, color="#d5dae0")
    for x, y in zip(*np.nonzero(np.asarray(walls).T), strict=True) if walls is not None else ():
        ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fc="#f1f3f5", ec="#aab4be", hatch="/////", linewidth=0))
    box = ax.get_window_extent()
    cell = 72 / ax.figure.dpi * min(box.width / columns, box.height / rows)  # points
    named = list(outline.items()) if isinstance(outline, Mapping) else [("", place) for place in outline or ()]
    if annotate and cell > 12:
        for (y, x), value in np.ndenumerate(values):
            if np.isfinite(value):
                ink = "white" if np.mean(image.cmap(image.norm(value))[:3]) < 0.5 else INK
                lower = 0.2 * any(place == (x, y) for name, place in named if name)  # leave room for the symbol
                text = f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"
                ax.text(x, y + lower, text, ha="center", va="center", fontsize=0.3 * cell, color=ink)
    halo = patheffects.withStroke(linewidth=1.5, foreground="white")
    for name, (x, y) in named:
        ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor=RED, linewidth=1.8, zorder=3))
        corner = ax.text(x - 0.4, y - 0.45, name, ha="left", va="top", fontsize=max(5, 0.36 * cell), color=RED)
        corner.set(weight="bold", path_effects=[halo])
    return image
