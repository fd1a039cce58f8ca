"""A discovery in pictures: the tree with what the agent saw at each key state, and an episode on its way through it."""

import math
import shutil
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import AbstractMovieWriter, FFMpegWriter, PillowWriter
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from numpy.typing import NDArray

from lstoc_core.discovery.guided import Guided
from lstoc_core.discovery.published.forward import Forward
from lstoc_core.discovery.regions import Regions
from lstoc_core.discovery.tree import ROOT, SubgoalTree
from lstoc_core.drawing.graphs import layout
from lstoc_core.drawing.theme import INK, RED
from lstoc_core.result import Discovery
from lstoc_core.run.rollout import Rollout
from lstoc_core.trajectories.identity import Identity

SIDE = 44
"""Side of the picture at a node, in points."""
EMPTY = (0.955, 0.96, 0.968)
"""Colour of cells in which nothing is."""


def picture(observation: NDArray[Any]) -> NDArray[np.uint8]:
    """An observation as an RGB picture [h, w, 3].

    Pixels are shown as they are. Of planes [h, w, k], each cell has the colour of its largest one; of several, the
    first all round the last. All else is laid out in rows of a square, dark where values are large.
    """
    seen = np.asarray(observation)
    if seen.ndim == 3 and seen.shape[2] in (3, 4) and seen.dtype == np.uint8 and seen.max(initial=0) > 1:
        return np.ascontiguousarray(seen[..., :3])
    if seen.ndim == 3:
        colours = np.array([to_rgb(f"C{plane}") for plane in range(seen.shape[2])])
        largest = seen == seen.max(2, keepdims=True)
        cells = colours[largest.argmax(2)].repeat(3, 0).repeat(3, 1)
        cells[1::3, 1::3] = colours[::-1][largest[..., ::-1].argmax(2)]
        cells[~seen.any(2).repeat(3, 0).repeat(3, 1)] = EMPTY
        return (255 * cells).astype(np.uint8)
    if seen.ndim != 2:
        flat = seen.astype(float).ravel()
        side = math.ceil(math.sqrt(flat.size))
        rows = np.full(math.ceil(flat.size / side) * side, np.nan)
        rows[: flat.size] = flat
        seen = rows.reshape(-1, side)
    low, high = np.nanmin(seen), np.nanmax(seen)
    shade = (seen - low) / (high - low) if high > low else np.zeros(seen.shape)
    shown: NDArray[np.uint8] = mpl.colormaps["Blues"](shade, bytes=True)[..., :3]
    return shown


class _PicturedTree:
    """The drawing of a discovery's tree; `mark` colours the nodes that an episode has reached."""

    def __init__(self, discovery: Discovery, ax: Axes) -> None:
        self.tree = tree = discovery.tree
        nodes = range(len(tree))
        edges = [(tree.parents[node], node) for node in nodes if node != ROOT]
        place, _ = layout(edges, {node: tree.depth(node) for node in nodes})
        names = discovery.names
        self._frames: dict[int, AnnotationBbox] = {}
        for source, target in edges:
            style = {"arrowstyle": "-|>", "color": INK, "shrinkA": SIDE / 2 + 5, "shrinkB": SIDE / 2 + 5}
            ax.annotate("", place[target], place[source], arrowprops=style)
        for node in nodes:
            if node == ROOT:
                ax.annotate("$v_0$", place[node], ha="center", va="center", fontsize=11)
                continue
            key = discovery.key_states[tree.keys[node]]
            image = picture(key.observation)
            framed = AnnotationBbox(
                OffsetImage(image, zoom=SIDE / max(image.shape[:2]) / 1.4, interpolation="nearest", dpi_cor=True),
                place[node], frameon=True, pad=0.25, box_alignment=(0.5, 0.5),
                bboxprops={"boxstyle": "round,pad=0.1", "edgecolor": INK, "facecolor": "white"},
            )  # fmt: skip
            ax.add_artist(framed)
            self._frames[node] = framed
            end = " ✓" if node in tree.satisfying else ""
            ax.annotate(
                names[key.index] + end, place[node], (0, -SIDE / 2 - 9), textcoords="offset points",
                ha="center", va="top", fontsize=9, color=INK,
            )  # fmt: skip
        x, y = np.array(list(place.values())).T
        ax.set(xlim=(x.min() - 0.5, x.max() + 0.5), ylim=(y.min() - 0.45, y.max() + 0.35))
        ax.axis("off")

    def mark(self, reached: set[int]) -> None:
        for node, framed in self._frames.items():
            framed.patch.set(edgecolor=RED if node in reached else INK, linewidth=2.6 if node in reached else 1.0)


def draw_pictured_tree(discovery: Discovery, ax: Axes | None = None) -> Axes:
    """Draw the tree from left to right, each node a picture of what was seen there, its name below, ✓ at the ends."""
    if ax is None:
        _, ax = plt.subplots(figsize=_size(discovery.tree))
    _PicturedTree(discovery, ax)
    return ax


def _size(tree: SubgoalTree) -> tuple[float, float]:
    """Inches that a pictured tree needs."""
    depths = [tree.depth(node) for node in range(len(tree))]
    return 1.15 * (max(depths) + 1), 1.35 * max(depths.count(depth) for depth in depths)


def progress(tree: SubgoalTree, keys: Sequence[Collection[int]]) -> list[set[int]]:
    """For each observation of an episode, the nodes of the tree whose paths have been visited so far.

    keys: the key states that each observation is; of several, none comes before another. The first observation is the
    start, no visit.
    """
    reached = {ROOT}
    told = [reached]
    for there in keys[1:]:
        reached = reached | {
            node for node in range(1, len(tree)) if tree.keys[node] in there and tree.parents[node] in reached
        }
        told.append(reached)
    return told


def visits(discovery: Discovery, rows: NDArray[Any]) -> list[Collection[int]]:
    """The key states that each observation of an episode is; of events, those that begin there."""
    if not any(key.event for key in discovery.key_states):
        number = {key.observation.tobytes(): key.index for key in discovery.key_states}
        return [[number[raw]] if (raw := row.tobytes()) in number else [] for row in rows]
    finder = discovery.finder if isinstance(discovery.finder, Guided | Regions | Forward) else None
    reading = finder.reading if finder is not None else None
    if finder is None or reading is None or not isinstance(reading.vocabulary, Identity):
        raise ValueError(
            "an animation of events needs the discovery as the run returned it: events= is a function, and no file "
            "keeps it"
        )
    numbers = {key: index for index, key in enumerate(finder.key_states)}
    states = reading.vocabulary.ids(rows).tolist()
    begun = [reading.vocabulary.begun(before, state) for before, state in pairwise([-1, *states[1:]])]
    return [[], *([numbers[event] for event in events if event in numbers] for events in begun)]


def animate(discovery: Discovery, path: Path, played: Rollout | None, *, fps: int = 6) -> Path:
    """Write the animation of `Discovery.animate`; returns its path."""
    writer = _writer(path, fps)
    if played is None:
        successes = discovery.trajectories.positives
        if not len(successes):
            raise ValueError("no success among the trajectories: give env=, where the policy is to play")
        rows, success = discovery.observations[discovery.trajectories.trajectory(int(successes[-1]))], True
    else:
        rows, success = played.observations, played.success
    pictures = played.frames if played is not None and played.frames else [picture(row) for row in rows]
    marks = progress(discovery.tree, visits(discovery, rows))
    width, height = _size(discovery.tree)
    fig, (left, right) = plt.subplots(
        1, 2, figsize=(3.4 + width, max(3.4, height)), width_ratios=(3.2, width), layout="constrained"
    )
    shown = left.imshow(pictures[0], interpolation="nearest")
    left.set(xticks=[], yticks=[])
    drawn = _PicturedTree(discovery, right)
    left.set_title("step 0")
    fig.canvas.draw()
    fig.set_layout_engine("none")  # once is enough
    try:
        with writer.saving(fig, path, dpi=90):
            for time, (frame, mark) in enumerate(zip(pictures, marks, strict=True)):
                shown.set_data(frame)
                drawn.mark(mark)
                last = time == len(rows) - 1
                outcome = f": {'success' if success else 'no success'}" if last else ""
                left.set_title(f"step {time}{outcome}")
                for _ in range(2 * fps if last else 1):
                    writer.grab_frame()
    finally:
        plt.close(fig)
    return path


def _writer(path: Path, fps: int) -> AbstractMovieWriter:
    if path.suffix == ".gif":
        return PillowWriter(fps=fps)
    if path.suffix != ".mp4":
        raise ValueError(f"{path}: give a file name that ends with .gif or .mp4")
    if shutil.which("ffmpeg") is None:
        raise RuntimeError(f"{path} needs the program ffmpeg, which is not installed: install it, or write a .gif")
    return FFMpegWriter(fps=fps)
