"""Pictures of whole maps, drawn with Pillow: 32 pixels per cell, in the colours of a colour-blind safe palette."""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lstoc_core.extras import needed_for
from lstoc_core.worlds.tasks import Task

with needed_for("a picture of a world", extra="worlds"):
    from PIL import Image, ImageDraw, ImageFont

CELL = 32
"""Side of a cell, in pixels."""
_FINE = 4
"""Everything is drawn this many times larger and scaled down, for smooth edges."""
_UNIT = CELL * _FINE

_GROUND, _LINE, _WALL, _WALL_TOP, _START = "#FAF9F6", "#E6E3DC", "#49525E", "#5B6572", "#C9C4B8"
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#56B4E9")
_BALLS = {"r": "#D9483B", "b": "#2F6FBF", "g": "#3A9B57"}
_DISTRACTOR, _DISTRACTOR_TEXT = "#E4E1DA", "#8E897D"

Marker = Callable[[ImageDraw.ImageDraw, str, float, float, str, str], None]


def board(task: Task, mark: Marker) -> NDArray[np.uint8]:
    """The map with its walls, river, start and letters, [h, w, 3]; letters the formula does not use are grey.

    Where the map wraps round, arrows at its edges point out of it.
    """
    width, height = task.size
    image = Image.new("RGB", (width * _UNIT, height * _UNIT), _GROUND)
    draw = ImageDraw.Draw(image)
    for i in range(width + 1):
        draw.line([(i * _UNIT, 0), (i * _UNIT, height * _UNIT)], _LINE, _FINE)
    for i in range(height + 1):
        draw.line([(0, i * _UNIT), (width * _UNIT, i * _UNIT)], _LINE, _FINE)
    for (x, y), ground in task.terrain.items():
        if ground == "river":
            _water(draw, x * _UNIT, y * _UNIT)
    for x, y in task.walls:
        draw.rectangle(_box(x, y, 0), _WALL)
        draw.rectangle(_box(x, y, 0.08), _WALL_TOP)
    if task.wrap:
        _open_edges(draw, width, height)
    if task.start is not None:
        draw.rounded_rectangle(_box(*task.start, 0.12), 0.16 * _UNIT, outline=_START, width=2 * _FINE)
    for letter, (x, y) in task.positions.items():
        used = letter in task.formula.symbols
        colour = letter_colour(letter, task.formula.symbols) if used else _DISTRACTOR
        mark(draw, letter, x, y, colour, "white" if used else _DISTRACTOR_TEXT)
    return np.asarray(image.resize((width * CELL, height * CELL), Image.Resampling.LANCZOS))


def letter_colour(letter: str, symbols: Sequence[str]) -> str:
    """The colour of a letter among the symbols of a formula, sorted."""
    return _COLOURS[symbols.index(letter) % len(_COLOURS)]


def _open_edges(draw: ImageDraw.ImageDraw, width: int, height: int) -> None:
    """An arrowhead in every cell at an edge, pointing outwards."""
    for i in range(max(width, height)):
        for x, y, dx, dy in ((i, 0, 0, -1), (i, height - 1, 0, 1), (0, i, -1, 0), (width - 1, i, 1, 0)):
            if x < width and y < height:
                tip = ((x + 0.5 + 0.48 * dx) * _UNIT, (y + 0.5 + 0.48 * dy) * _UNIT)
                back = [
                    (tip[0] - (0.1 * dx + s * dy) * _UNIT, tip[1] - (0.1 * dy + s * dx) * _UNIT) for s in (-0.14, 0.14)
                ]
                draw.polygon([tip, *back], fill=_START)


def tile(draw: ImageDraw.ImageDraw, letter: str, x: float, y: float, colour: str, ink: str) -> None:
    """A letter on a coloured tile."""
    draw.rounded_rectangle(_box(x, y, 0.1), 0.2 * _UNIT, fill=colour)
    _text(draw, letter, x, y, ink)


def ball(draw: ImageDraw.ImageDraw, letter: str, x: float, y: float, colour: str, ink: str) -> None:
    """A ball; r, b and g are red, blue and green."""
    draw.ellipse(_box(x, y, 0.1), fill=_BALLS.get(letter, colour))
    _text(draw, letter, x, y, ink)


def icon(draw: ImageDraw.ImageDraw, letter: str, x: float, y: float, colour: str, ink: str) -> None:
    """The things of the motivating example: charger, board, wheel, diamond; other letters as tiles."""

    def at(*points: tuple[float, float]) -> list[tuple[float, float]]:
        return [((x + px) * _UNIT, (y + py) * _UNIT) for px, py in points]

    if letter == "c":
        draw.rounded_rectangle(_box(x, y, 0.1), 0.2 * _UNIT, fill="#3D4A57")
        bolt = at((0.56, 0.17), (0.27, 0.56), (0.46, 0.56), (0.41, 0.84), (0.73, 0.42), (0.53, 0.42))
        draw.polygon(bolt, fill="#FFC83D")
    elif letter == "b":
        draw.polygon(at((0.1, 0.62), (0.76, 0.2), (0.92, 0.4), (0.26, 0.84)), fill="#8A5A2B")
        draw.polygon(at((0.1, 0.62), (0.76, 0.2), (0.82, 0.27), (0.16, 0.7)), fill="#B67C42")
        draw.line(at((0.27, 0.72), (0.82, 0.36)), "#6E4620", _FINE * 2)
    elif letter == "w":
        draw.ellipse(_box(x, y, 0.1), fill="#2E3338")
        draw.ellipse(_box(x, y, 0.24), fill="#D5D9DD")
        for dx, dy in ((0.23, 0.0), (0.0, 0.23), (0.17, 0.17), (0.17, -0.17)):
            draw.line(at((0.5 - dx, 0.5 - dy), (0.5 + dx, 0.5 + dy)), "#6C747C", _FINE * 2)
        draw.ellipse(_box(x, y, 0.41), fill="#2E3338")
    elif letter == "d":
        draw.polygon(at((0.28, 0.18), (0.72, 0.18), (0.9, 0.42), (0.5, 0.88), (0.1, 0.42)), fill="#35B5D8")
        draw.polygon(at((0.28, 0.18), (0.38, 0.42), (0.1, 0.42)), fill="#8FE0F2")
        draw.polygon(at((0.38, 0.42), (0.62, 0.42), (0.5, 0.88)), fill="#63CCE6")
        draw.polygon(at((0.28, 0.18), (0.72, 0.18), (0.62, 0.42), (0.38, 0.42)), fill="#C7F2FA")
    else:
        tile(draw, letter, x, y, colour, ink)


@lru_cache(maxsize=1)
def agent() -> NDArray[np.uint8]:
    """A small robot on nothing, [32, 32, 4]."""
    image = Image.new("RGBA", (_UNIT, _UNIT))
    draw = ImageDraw.Draw(image)

    def box(left: float, top: float, right: float, bottom: float) -> tuple[float, float, float, float]:
        return left * _UNIT, top * _UNIT, right * _UNIT, bottom * _UNIT

    draw.line(box(0.5, 0.1, 0.5, 0.3), "#20262D", 2 * _FINE)
    draw.ellipse(box(0.43, 0.04, 0.57, 0.18), fill="#E4572E")
    draw.rounded_rectangle(box(0.16, 0.24, 0.84, 0.8), 0.14 * _UNIT, fill="#20262D", outline="white", width=_FINE)
    for left in (0.28, 0.56):
        draw.ellipse(box(left, 0.38, left + 0.17, 0.55), fill="white")
        draw.ellipse(box(left + 0.055, 0.43, left + 0.125, 0.5), fill="#20262D")
    draw.line(box(0.37, 0.68, 0.63, 0.68), "white", 2 * _FINE)
    for left in (0.26, 0.58):
        draw.rounded_rectangle(box(left, 0.8, left + 0.16, 0.92), 0.04 * _UNIT, fill="#20262D")
    return np.asarray(image.resize((CELL, CELL), Image.Resampling.LANCZOS))


def _box(x: float, y: float, margin: float) -> tuple[float, float, float, float]:
    """Corners of a cell without its margin (in cells)."""
    return (x + margin) * _UNIT, (y + margin) * _UNIT, (x + 1 - margin) * _UNIT - 1, (y + 1 - margin) * _UNIT - 1


def _text(draw: ImageDraw.ImageDraw, text: str, x: float, y: float, colour: str) -> None:
    font = ImageFont.load_default(size=0.62 * _UNIT / max(1.0, 0.62 * len(text)))
    centre = ((x + 0.5) * _UNIT, (y + 0.49) * _UNIT)
    draw.text(centre, text, fill=colour, font=font, anchor="mm", stroke_width=_FINE // 2, stroke_fill=colour)


def _water(draw: ImageDraw.ImageDraw, left: float, top: float) -> None:
    draw.rectangle((left, top, left + _UNIT, top + _UNIT), "#9CCBE8")
    for row in (0.3, 0.65):
        wave = [(left + t * _UNIT, top + (row + 0.06 * np.sin(2 * np.pi * t)) * _UNIT) for t in np.linspace(0, 1, 25)]
        draw.line(wave, "#E3F2FA", 2 * _FINE)
