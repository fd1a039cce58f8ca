"""The panes of a run as SVG, for notebooks: quick to write, sharp at any size, and still while they change.

`ground` is what stays, `svg` what changes. The layout is that of films (`painter`).
"""

import base64
import io
from collections.abc import Sequence
from html import escape

import numpy as np
from PIL import Image

from lstoc_core.drawing.episodes import picture
from lstoc_core.drawing.painter import GAP, HEAD, LINE, MARGIN, PANE, ROW, TITLE, TRAIL, WALL, WIDTH, level, shade
from lstoc_core.drawing.scene import Scene, Stage, counted, strides, walked
from lstoc_core.drawing.theme import GREEN, INK, MUTED
from lstoc_core.drawing.trees import place

CHART, FOOT = 84, 40
"""Heights of the chart and of the sentence below the panes."""
TOP = HEAD + TITLE
AMBER = "#b87a00"
SECONDS = 0.45
"""In which the agent runs through an episode."""


def height(stage: Stage) -> int:
    """Height of the panes, in pixels. It is the same for every scene of a run."""
    return TOP + _high(stage) + 20 + CHART + FOOT


def _high(stage: Stage) -> int:
    return round(PANE * stage.world.size[1] / stage.world.size[0]) if stage.world is not None else PANE


def picture_uri(pixels: np.ndarray) -> str:
    """RGB pixels as the address of a picture that needs no file."""
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "png")
    return f"data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}"


def ground(stage: Stage, *, revealed: bool = True) -> str:
    """What stays: the map, with its letters or, not revealed, as the agent knows it: free cells and walls."""
    world = stage.world
    paper = f'<rect width="{WIDTH}" height="{height(stage)}" fill="white"/>'  # themes may be dark
    if world is None:
        return paper
    if not revealed:
        cell = PANE / world.size[0]
        free = "".join(_square(MARGIN, x, y, cell) for x, y in world.coordinates.tolist())
        box = f'x="{MARGIN}" y="{TOP}" width="{PANE}" height="{_high(stage)}"'
        return f'{paper}<rect {box} fill="{WALL}"/><path d="{free}" fill="#faf9f6" stroke="#e6e3dc"/>'
    return (
        f'{paper}<image x="{MARGIN}" y="{TOP}" width="{PANE}" height="{_high(stage)}" preserveAspectRatio="none" '
        f'href="{picture_uri(world.render())}"/>'
    )


def framed(stage: Stage, *parts: str) -> str:
    """SVG elements as one picture of the run's size."""
    high = height(stage)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="a discovery under way" '
        f'viewBox="0 0 {WIDTH} {high}" width="{WIDTH}" height="{high}" font-family="DejaVu Sans, sans-serif" '
        f'style="display:block">{"".join(parts)}</svg>'
    )


class Panes:
    """Writes the scenes of one run as SVG elements."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.high = _high(stage)
        self.cell = PANE / stage.world.size[0] if stage.world is not None else float(PANE)
        self._bits: list[tuple[int, float]] = []
        """Numbers of episodes, and the bits left after them."""

    def svg(self, scene: Scene, head: str, *, colour: str = INK, moving: bool = False, revealed: bool = True) -> str:
        """The scene. head: the line on top. moving: the agent runs through its last episode. revealed: see `ground`."""
        if scene.bits == scene.bits and (not self._bits or self._bits[-1][0] != len(scene.labels)):
            self._bits.append((len(scene.labels), scene.bits))
        beliefs, tree = MARGIN + PANE + GAP, MARGIN + 2 * (PANE + GAP)
        number = len(scene.labels)
        done = bool(scene.labels[-1]) if number else False
        outcome = _text(MARGIN + PANE, HEAD + 13, "done ✓" if done else "not done", GREEN if done else MUTED, end=True)
        title = "proved: 1 answer left" if scene.finished and scene.count == 1 else counted(scene.count)
        left = len(self.stage.symbols)
        return "".join(
            [
                _text(MARGIN, 24, head, colour, 17),
                _text(MARGIN, HEAD + 13, f"episode {number}" if number else "first episode"),
                outcome if number else "",
                self._episode(scene, done, moving=moving, revealed=revealed),
                _text(beliefs, HEAD + 13, title if self.stage.words else "no FSM: answers are not counted"),
                self._beliefs(beliefs, scene),
                _text(tree, HEAD + 13, "subgoals, in order"),
                self._tree(tree, TOP + self.high - ROW * left - 8, scene),
                self._places(tree, TOP + self.high - ROW * left, scene),
                self._chart(scene),
                _text(MARGIN, height(self.stage) - 14, _cut(scene.sentence, 118), MUTED, 12, weight=400),
            ]
        )

    # --- parts ---

    def _episode(self, scene: Scene, done: bool, *, moving: bool, revealed: bool) -> str:
        world = self.stage.world
        if not len(scene.last):
            return ""
        if world is None:
            seen = picture(np.asarray(self.stage.env.observations[int(scene.last[-1])]))
            return (
                f'<image x="{MARGIN}" y="{TOP}" width="{PANE}" height="{PANE}" style="image-rendering:pixelated" '
                f'href="{picture_uri(seen)}"/>'
            )
        lines = [
            tuple((MARGIN + (x + 0.5) * self.cell, TOP + (y + 0.5) * self.cell) for x, y in line)
            for line in strides(world, walked(world, scene.last))
        ]
        path, at = [], None
        for one, two in lines:
            path.append(f"{'' if one == at else f'M{one[0]:.1f} {one[1]:.1f}'}L{two[0]:.1f} {two[1]:.1f}")
            at = two
        way, colour = "".join(path), GREEN if done else TRAIL
        marks = "".join(
            self._chip(MARGIN, symbol, world.task.positions[symbol]) for symbol in self._enlarged * revealed
        )
        run = f'<animateMotion dur="{SECONDS}s" fill="freeze" path="{way}"/>' if moving else ""
        spot = "" if moving or at is None else f'transform="translate({at[0]:.1f} {at[1]:.1f})"'
        agent = f'<circle r="6.5" fill="#20262d" stroke="white" stroke-width="2" {spot}>{run}</circle>'
        lines_drawn = "".join(
            f'<path d="{way}" fill="none" stroke="{ink}" stroke-width="{wide}" opacity="{strong}"/>'
            for ink, wide, strong in (("white", 4.5, 0.6), (colour, 2.2, 0.75))
        )
        return f"{marks}{lines_drawn}{agent if lines else ''}{self._border(MARGIN, GREEN if done else LINE)}"

    @property
    def _enlarged(self) -> tuple[str, ...]:
        """Letters that the map shows too small to be read."""
        world = self.stage.world
        small = world is not None and self.cell < 14
        return tuple(symbol for symbol in self.stage.symbols if world and symbol in world.task.positions) * small

    def _beliefs(self, left: float, scene: Scene) -> str:
        world = self.stage.world
        if world is None:
            return self._likely(left, scene)
        cells: dict[str, list[tuple[int, int]]] = {}
        values = world.values_on_map(scene.heat if scene.heat is not None else np.zeros(world.num_observations))
        for (y, x), value in np.ndenumerate(values):
            fill = WALL if np.isnan(value) else f"#{bytes(shade(level(value))).hex()}"
            cells.setdefault(fill, []).append((x, y))
        size = self.cell
        drawn = [
            f'<path fill="{fill}" d="{"".join(_square(left, x, y, size) for x, y in places)}"/>'
            for fill, places in cells.items()
        ]
        chips = [self._chip(left, symbol, place(world, key)) for symbol, key in scene.settled.items()]
        return "".join([*drawn, *chips, self._border(left, LINE)])

    def _likely(self, left: float, scene: Scene) -> str:
        """Where there is no map: the states at which most answers put a key state, most likely first."""
        if scene.heat is None:
            return ""
        side, parts = PANE / 3, []
        for rank, state in enumerate(np.argsort(-scene.heat, kind="stable")[:9]):
            if scene.heat[state] > 0:
                seen = picture(np.asarray(self.stage.env.observations[int(state)]))
                parts.append(
                    f'<image x="{left + side * (rank % 3):.0f}" y="{TOP + side * (rank // 3):.0f}" '
                    f'width="{side - 6:.0f}" height="{side - 6:.0f}" style="image-rendering:pixelated" '
                    f'href="{picture_uri(seen)}"/>'
                )
        return "".join(parts)

    def _chip(self, left: float, symbol: str, cell: tuple[int, int]) -> str:
        side = max(15.0, self.cell - 2)
        x, y = left + (cell[0] + 0.5) * self.cell, TOP + (cell[1] + 0.5) * self.cell
        box = f'<rect x="{x - side / 2:.1f}" y="{y - side / 2:.1f}" width="{side:.1f}" height="{side:.1f}" rx="4"'
        return (
            f'<rect x="{x - self.cell / 2:.1f}" y="{y - self.cell / 2:.1f}" width="{self.cell:.1f}" '
            f'height="{self.cell:.1f}" fill="white"/>{box} fill="{self.stage.colour(symbol)}"/>'
            f"{_text(x, y + 0.23 * side, symbol, 'white', min(15, 0.65 * side), middle=True)}"
        )

    def _tree(self, left: float, bottom: float, scene: Scene) -> str:
        radius = 13.0
        right, top = WIDTH - MARGIN - radius - 4, TOP + radius + 2
        left, bottom = left + radius, bottom - radius
        spots = [(left + node.x * (right - left), top + node.y * (bottom - top)) for node in scene.nodes]
        parts = []
        for one, two in scene.edges:
            (x1, y1), (x2, y2) = spots[one], spots[two]
            parts.append(f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{MUTED}" stroke-width="1.4"/>')
        for node, (x, y) in zip(scene.nodes, spots, strict=True):
            if not node.text:
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{INK}"/>')
                continue
            named = node.known and bool(node.symbol)
            fill = self.stage.colour(node.symbol) if named else "white"
            edge = fill if named else MUTED
            if node.last:
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="16.2" fill="white" stroke="{edge}"/>')
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}" stroke="{edge}"/>')
            parts.append(_text(x, y + 5, node.text, "white" if named else MUTED, 13, middle=True))
        return "".join(parts)

    def _places(self, left: float, top: float, scene: Scene) -> str:
        parts = []
        for row, symbol in enumerate(self.stage.symbols):
            y, settled = top + ROW * (row + 0.5), symbol in scene.settled
            chip = self.stage.colour(symbol) if settled else "#b7c0ca"
            parts.append(f'<rect x="{left}" y="{y - 8}" width="16" height="16" rx="4" fill="{chip}"/>')
            parts.append(_text(left + 8, y + 4, symbol, "white", 11, middle=True))
            told = self.stage.told(symbol, scene)
            parts.append(_text(left + 26, y + 4, told, INK if settled else MUTED, 12, weight=400))
        return "".join(parts)

    def _chart(self, scene: Scene) -> str:
        """Bits left over episodes, and below them a bar per episode: high where it was done."""
        left, right, top = MARGIN + 62, WIDTH - MARGIN - 30, TOP + self.high + 34
        middle, bottom = top + 36, top + 50
        many = max(12, len(scene.labels))
        most = max((bits for _, bits in self._bits), default=1.0) or 1.0
        points = [
            (left + (right - left) * (n - 0.5) / many, middle - (middle - top) * bits / most) for n, bits in self._bits
        ]
        line = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        parts = [
            _text(MARGIN, top + 6, "bits left", MUTED, 11, weight=400),
            f'<path d="M{left} {middle}H{right}" stroke="{LINE}"/>',
            f'<path d="M{line}" fill="none" stroke="#5b7f9f" stroke-width="2"/>' if points else "",
            f'<circle cx="{points[-1][0]:.1f}" cy="{points[-1][1]:.1f}" r="3.5" fill="#5b7f9f"/>' if points else "",
            _text(points[-1][0] + 7, points[-1][1] + 4, f"{self._bits[-1][1]:.1f}", INK, 11) if points else "",
            _text(MARGIN, bottom + 5, "done", MUTED, 11, weight=400),
        ]
        share = _shares(scene.labels, 240)
        bar = (right - left) / max(12, len(share))
        for index, value in enumerate(share):
            fill, tall = (GREEN, 2 + 8 * value) if value else ("#c5ccd4", 2)
            x, y = left + index * bar, bottom + 6 - tall
            parts.append(f'<path d="M{x:.1f} {y:.1f}h{0.8 * bar:.1f}v{tall:.1f}h-{0.8 * bar:.1f}z" fill="{fill}"/>')
        won = int(scene.labels.sum())
        told = f"{won} of {len(scene.labels):,} episodes done, {scene.steps:,} steps"
        return "".join([*parts, _text(left, bottom + 22, told, MUTED, 11, weight=400)])

    def _border(self, left: float, colour: str) -> str:
        box = f'x="{left - 1}" y="{TOP - 1}" width="{PANE + 2}" height="{self.high + 2}"'
        return f'<rect {box} fill="none" stroke="{colour}" stroke-width="{3 if colour == GREEN else 1}"/>'


def _square(left: float, x: int, y: int, size: float) -> str:
    return f"M{left + x * size:.1f} {TOP + y * size:.1f}h{size:.1f}v{size:.1f}h-{size:.1f}z"


def _shares(labels: np.ndarray, most: int) -> Sequence[float]:
    """Share of successes in at most so many groups of successive episodes."""
    groups = np.array_split(labels, min(most, len(labels))) if len(labels) else []
    return [float(group.mean()) for group in groups]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _text(
    x: float,
    y: float,
    text: str,
    colour: str = INK,
    size: float = 14,
    *,
    weight: int = 700,
    end: bool = False,
    middle: bool = False,
) -> str:
    anchor = ' text-anchor="end"' if end else ' text-anchor="middle"' if middle else ""
    place_and_look = f'x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size:.1f}" font-weight="{weight}"{anchor}'
    return f"<text {place_and_look}>{escape(text)}</text>"
