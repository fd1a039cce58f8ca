"""Frames of a film of a run, drawn with Pillow: see `film`."""

import os
from dataclasses import dataclass
from functools import lru_cache

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from lstoc_core.drawing.episodes import picture
from lstoc_core.drawing.scene import Scene, Stage, counted, strides, walked
from lstoc_core.drawing.theme import GREEN, INK, MUTED
from lstoc_core.drawing.trees import place
from lstoc_core.worlds import World

FINE = 2
"""Everything is drawn this many times larger and scaled down, for smooth edges."""
WIDTH, MARGIN, GAP = 800, 18, 22
PANE = 258
"""Width of a map, in pixels."""
HEAD, TITLE, CAPTION, CHART = 40, 24, 26, 76
"""Heights of the rows above and below the maps."""
ROW = 20
"""Height of a line of text beside the maps."""
SMALL = 14
"""Cells below this size do not show their letters well."""
TAIL = 24
"""Last steps of a walk that are drawn strongly."""
PALE, LINE, WALL, TRAIL = "#f6f7f9", "#dde2e8", "#c9d0d8", "#4a5866"

Box = tuple[float, float, float, float]


@lru_cache
def _font(size: float, bold: bool = False) -> ImageFont.FreeTypeFont:
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(os.path.join(mpl.get_data_path(), "fonts", "ttf", name), FINE * size)


@lru_cache(maxsize=256)
def shade(level: int) -> tuple[int, int, int]:
    """The colour of a share of the answers, given as a number of 64 steps."""
    red, green, blue, _ = mpl.colormaps["Blues"](level / 64, bytes=True)
    return int(red), int(green), int(blue)


def level(share: float) -> int:
    """The step of the colour scale for a share: its root, so that small shares are seen."""
    return round(64 * float(np.sqrt(share)))


@dataclass(frozen=True)
class Frame:
    """What one frame shows: a scene's episode up to a step, and what was known at another scene."""

    scene: Scene
    known: Scene
    until: int
    """Steps of the episode that are shown."""
    over: bool
    """Whether the outcome is shown."""
    duration: int
    """Milliseconds."""


class Painter:
    """Draws the frames of a film."""

    def __init__(self, stage: Stage, scenes: list[Scene]) -> None:
        self.stage, self.scenes = stage, scenes
        self.world = world = stage.world
        width, height = world.size if world is not None else (1, 1)
        self.cell = PANE / width
        self.high = round(PANE * height / width)
        self.size = (WIDTH, HEAD + TITLE + self.high + CAPTION + CHART + MARGIN)
        self.top = HEAD + TITLE
        self._ground = self._scaled(world.render()) if world is not None else None
        self._walls = self._wall_cells(world) if world is not None else []
        self._walks: dict[int, NDArray[np.int32]] = {}
        self._bits = max((scene.bits for scene in scenes if scene.bits == scene.bits), default=1.0)

    def _scaled(self, pixels: NDArray[np.uint8]) -> Image.Image:
        size = (FINE * PANE, FINE * self.high)
        return Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS)

    @staticmethod
    def _wall_cells(world: World) -> list[tuple[int, int]]:
        free = set(map(tuple, world.coordinates.tolist()))
        return [(x, y) for x in range(world.size[0]) for y in range(world.size[1]) if (x, y) not in free]

    def paint(self, frame: Frame) -> Image.Image:
        """The frame as a picture."""
        image = Image.new("RGB", (FINE * self.size[0], FINE * self.size[1]), "white")
        draw = ImageDraw.Draw(image)
        known = frame.known
        self._head(draw, frame)
        self._episode(image, draw, frame)
        left = MARGIN + PANE + GAP
        title = "proved: 1 answer left" if known.finished else counted(known.count)
        self._text(draw, (left, HEAD), title if len(known.labels) else "nothing is known", 14, bold=True)
        self._beliefs(image, draw, left, known)
        left += PANE + GAP
        self._text(draw, (left, HEAD), "subgoals, in order", 14, bold=True)
        bottom = self.top + self.high - ROW * len(self.stage.symbols)
        self._tree(draw, (left, self.top, WIDTH - MARGIN, bottom - 8), known)
        self._places(draw, left, bottom, known)
        self._chart(draw, frame)
        return image.resize(self.size, Image.Resampling.BOX)

    # --- parts ---

    def _head(self, draw: ImageDraw.ImageDraw, frame: Frame) -> None:
        count = len(frame.known.labels)
        if frame.known.finished:
            text = f"proved after {count} episodes, {int(frame.known.labels.sum())} of them done"
            self._text(draw, (MARGIN, 8), text, 18, GREEN, bold=True)
        else:
            text = 'All the agent hears is "done" or "not done". Where are the hidden subgoals?'
            self._text(draw, (MARGIN, 10), text, 15, INK)

    def _episode(self, image: Image.Image, draw: ImageDraw.ImageDraw, frame: Frame) -> None:
        scene, number = frame.scene, len(frame.scene.labels)
        done = bool(scene.labels[-1])
        self._text(draw, (MARGIN, HEAD), f"episode {number}", 14, bold=True)
        if frame.over:
            text, colour = ("done ✓", GREEN) if done else ("not done", MUTED)
            self._text(draw, (MARGIN + PANE, HEAD), text, 14, colour, bold=True, anchor="ra")
        else:
            self._text(draw, (MARGIN + PANE, HEAD), f"step {frame.until}", 13, MUTED, anchor="ra")
        if self.world is None or self._ground is None:
            self._picture(image, int(scene.last[frame.until]), (MARGIN, self.top), PANE)
            return
        image.paste(self._ground, (FINE * MARGIN, FINE * self.top))
        if self.cell < SMALL:
            for symbol in self.stage.symbols:
                self._chip(draw, MARGIN, symbol, self.world.task.positions[symbol])
        if number not in self._walks:
            self._walks = {number: walked(self.world, scene.last)}
        cells = self._walks[number][: frame.until + 1]
        layer = Image.new("RGBA", self._ground.size)
        ink = ImageDraw.Draw(layer)
        lines = strides(self.world, cells)
        red, green, blue = (round(255 * part) for part in to_rgb(GREEN if frame.over and done else TRAIL))
        for halo in (True, False):
            for index, (one, two) in enumerate(lines):
                strong = index >= len(lines) - TAIL
                points = [FINE * self.cell * (value + 0.5) for value in (*one, *two)]
                if halo and strong:
                    ink.line(points, (255, 255, 255, 200), round(5 * FINE))
                elif not halo:
                    ink.line(points, (red, green, blue, 255 if strong else 100), round(FINE * (2.6 if strong else 1.6)))
        image.paste(layer, (FINE * MARGIN, FINE * self.top), layer)
        self._agent(image, cells[-1])
        self._frame(draw, MARGIN, GREEN if frame.over and done else LINE, 3 if frame.over and done else 1)
        self._text(draw, (MARGIN, self.top + self.high + 6), "letters: for you only, the agent sees none", 11, MUTED)

    def _picture(self, image: Image.Image, observation: int, at: tuple[float, float], side: float) -> None:
        """What the agent sees, where there is no map."""
        seen = Image.fromarray(picture(np.asarray(self.stage.env.observations[observation])))
        scale = FINE * side / max(seen.size)
        seen = seen.resize((round(scale * seen.width), round(scale * seen.height)), Image.Resampling.NEAREST)
        image.paste(seen, (round(FINE * at[0]), round(FINE * at[1])))

    def _likely(self, image: Image.Image, left: float, known: Scene) -> None:
        """Where there is no map: the states at which most answers put a key state, most likely first."""
        if known.heat is None:
            return
        side = PANE / 3
        for rank, state in enumerate(np.argsort(-known.heat, kind="stable")[:9]):
            if known.heat[state] > 0:
                at = (left + side * (rank % 3), self.top + side * (rank // 3))
                self._picture(image, int(state), at, side - 6)

    def _chip(self, draw: ImageDraw.ImageDraw, left: float, symbol: str, cell: tuple[int, int]) -> None:
        """A letter at its cell; on large maps it is larger than the cell, to be read."""
        grow = max(0.0, 15 - self.cell) / 2
        box = self._cell(left, *cell, 1 - grow)
        draw.rounded_rectangle(box, FINE * 4, self.stage.colour(symbol))
        middle = ((box[0] + box[2]) / 2 / FINE, (box[1] + box[3]) / 2 / FINE)
        self._text(draw, middle, symbol, min(15, 0.62 * (self.cell + 2 * grow)), "white", bold=True, anchor="mm")

    def _agent(self, image: Image.Image, cell: NDArray[np.int32]) -> None:
        assert self.world is not None
        side = round(FINE * max(17.0, 1.25 * self.cell))
        sprite = Image.fromarray(self.world.agent, "RGBA").resize((side, side), Image.Resampling.LANCZOS)
        x, y = (
            round(FINE * (start + self.cell * (part + 0.5)) - side / 2)
            for start, part in zip((MARGIN, self.top), cell.tolist(), strict=True)
        )
        image.paste(sprite, (x, y), sprite)

    def _beliefs(self, image: Image.Image, draw: ImageDraw.ImageDraw, left: float, known: Scene) -> None:
        if self.world is None:
            self._likely(image, left, known)
            return
        width, height = self.world.size
        values = self.world.values_on_map(known.heat) if known.heat is not None else np.zeros((height, width))
        for y in range(height):
            for x in range(width):
                fill = WALL if np.isnan(values[y, x]) else shade(level(values[y, x]))
                draw.rectangle(self._cell(left, x, y), fill, LINE if self.cell > 12 else None)
        for x, y in self._walls:
            draw.rectangle(self._cell(left, x, y), WALL)
        for symbol, key in known.settled.items():
            cell = place(self.world, key)
            draw.rectangle(self._cell(left, *cell), "white")
            self._chip(draw, left, symbol, cell)
        self._frame(draw, left, LINE, 1)
        caption = "darker: more answers put a subgoal here"
        self._text(draw, (left, self.top + self.high + 6), caption, 11, MUTED)

    def _tree(self, draw: ImageDraw.ImageDraw, box: Box, known: Scene) -> None:
        radius = 13.0
        left, top, right, bottom = box[0] + radius + 1, box[1] + radius, box[2] - radius - 1, box[3] - radius
        spots = [(left + node.x * (right - left), top + node.y * (bottom - top)) for node in known.nodes]
        for one, two in known.edges:
            (x1, y1), (x2, y2) = spots[one], spots[two]
            long = max(1.0, float(np.hypot(x2 - x1, y2 - y1)))
            dx, dy = (x2 - x1) / long, (y2 - y1) / long
            begin = radius if known.nodes[one].text else 5
            start = (x1 + dx * begin, y1 + dy * begin)
            tip = (x2 - dx * (radius + 2), y2 - dy * (radius + 2))
            draw.line(self._fine(*start, *tip), MUTED, round(1.4 * FINE))
            wing = [(tip[0] - 7 * dx - s * dy, tip[1] - 7 * dy + s * dx) for s in (-3.5, 3.5)]
            draw.polygon([self._fine(*point) for point in (tip, *wing)], MUTED)
        for node, (x, y) in zip(known.nodes, spots, strict=True):
            if not node.text:
                draw.ellipse(self._fine(x - 5, y - 5, x + 5, y + 5), INK)
                continue
            fill = self.stage.colour(node.symbol) if node.known and node.symbol else "white"
            edge = fill if node.known and node.symbol else MUTED
            if node.last:
                outer = radius + 3.2
                draw.ellipse(self._fine(x - outer, y - outer, x + outer, y + outer), "white", edge, round(1.4 * FINE))
            draw.ellipse(self._fine(x - radius, y - radius, x + radius, y + radius), fill, edge, round(1.4 * FINE))
            colour = "white" if node.known and node.symbol else MUTED
            self._text(draw, (x, y), node.text, 14 if len(node.text) < 3 else 9, colour, bold=True, anchor="mm")

    def _places(self, draw: ImageDraw.ImageDraw, left: float, top: float, known: Scene) -> None:
        """One line per symbol: where it is, or at how many places it may be."""
        for row, symbol in enumerate(self.stage.symbols):
            y = top + ROW * (row + 0.5)
            text, colour = self.stage.told(symbol, known), INK if symbol in known.settled else MUTED
            chip = self.stage.colour(symbol) if symbol in known.settled else "#b7c0ca"
            draw.rounded_rectangle(self._fine(left, y - 8, left + 16, y + 8), 4 * FINE, chip)
            self._text(draw, (left + 8, y), symbol, 11, "white", bold=True, anchor="mm")
            self._text(draw, (left + 26, y), text, 12, colour, anchor="lm")

    def _chart(self, draw: ImageDraw.ImageDraw, frame: Frame) -> None:
        """Bits left after each episode so far; a dot per episode, green where it was done."""
        left, right = MARGIN + 62, WIDTH - MARGIN - 8
        top = self.top + self.high + CAPTION + 12
        bottom = top + CHART - 34
        many = max(1, len(self.scenes[-1].labels))
        self._text(draw, (MARGIN, top - 4), "bits left", 11, MUTED)
        self._text(draw, (left - 8, bottom), "0", 11, MUTED, anchor="rm")
        draw.line(self._fine(left, bottom, right, bottom), LINE, FINE)
        shown = [scene for scene in self.scenes if len(scene.labels) <= len(frame.known.labels)]
        points: list[tuple[float, float]] = []
        for scene in shown:
            x = left + (right - left) * (len(scene.labels) - 0.5) / many
            y = bottom - (bottom - top) * scene.bits / self._bits if scene.bits == scene.bits else None
            points.append((x, points[-1][1] if y is None and points else y if y is not None else top))
        if len(points) > 1:
            draw.line([self._fine(*point) for point in points], "#9fb3c8", 2 * FINE)
        radius = min(4.5, 0.32 * (right - left) / many)
        for (x, y), scene in zip(points, shown, strict=True):
            done = bool(scene.labels[-1])
            fill, edge = (GREEN, GREEN) if done else ("white", MUTED)
            draw.ellipse(self._fine(x - radius, y - radius, x + radius, y + radius), fill, edge, round(1.3 * FINE))
        if points and frame.known.bits == frame.known.bits:
            x, y = points[-1]
            text = f"{frame.known.bits:.1f}" if not frame.known.finished else "0"
            self._text(draw, (min(x, right - 8), y - 8), text, 11, INK, bold=True, anchor="mb")
        legend = bottom + 14
        self._text(draw, (left, legend), "episodes", 11, MUTED, anchor="lm")
        for x, fill, edge, text in ((left + 76, GREEN, GREEN, "done"), (left + 132, "white", MUTED, "not done")):
            draw.ellipse(self._fine(x - 4, legend - 4, x + 4, legend + 4), fill, edge, round(1.3 * FINE))
            self._text(draw, (x + 9, legend), text, 11, MUTED, anchor="lm")

    # --- helpers ---

    @staticmethod
    def _fine(*values: float) -> tuple[float, ...]:
        return tuple(FINE * value for value in values)

    def _cell(self, left: float, x: int, y: int, inset: float = 0.0) -> Box:
        """Corners of a cell in fine pixels."""
        return (
            round(FINE * (left + x * self.cell + inset)),
            round(FINE * (self.top + y * self.cell + inset)),
            round(FINE * (left + (x + 1) * self.cell - inset)),
            round(FINE * (self.top + (y + 1) * self.cell - inset)),
        )

    def _frame(self, draw: ImageDraw.ImageDraw, left: float, colour: str, width: int) -> None:
        box = self._fine(left - 1, self.top - 1, left + PANE + 1, self.top + self.high + 1)
        draw.rectangle(box, None, colour, width * FINE)

    def _text(
        self,
        draw: ImageDraw.ImageDraw,
        place: tuple[float, float],
        text: str,
        size: float,
        colour: str = INK,
        *,
        bold: bool = False,
        anchor: str = "la",
    ) -> None:
        draw.text((FINE * place[0], FINE * place[1]), text, fill=colour, font=_font(size, bold), anchor=anchor)
