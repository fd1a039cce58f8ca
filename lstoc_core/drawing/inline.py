"""How tasks, machines, trees and discoveries show themselves in notebooks: HTML with the pictures inside."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from lstoc_core.drawing.embedded import image
from lstoc_core.drawing.episodes import draw_pictured_tree
from lstoc_core.drawing.theme import BLUE, GREEN, RED
from lstoc_core.result import Discovery
from lstoc_core.worlds import World, compile_world
from lstoc_core.worlds.grid import GridVectorEnv, place
from lstoc_core.worlds.tasks import Task


@dataclass(frozen=True)
class Folded:
    """A long table that a reader opens with a click; as plain text it is shown whole."""

    title: str
    table: pd.DataFrame

    def __repr__(self) -> str:
        return f"{self.title}\n{self.table.to_string()}"

    def _repr_html_(self) -> str:
        return f"<details><summary>{escape(self.title)}</summary>{self.table.to_html()}</details>"


CELL, MAP = 0.17, 2.6
"""Inches: side of a cell at least, and longer side of a map at least."""


def drawing_html(draw: Callable[[], Axes], alt: str) -> str:
    """What a function without arguments draws, as HTML."""
    fig = draw().figure.get_figure(root=True)
    assert fig is not None
    return image(fig, alt)


def task_html(task: Task) -> str:
    """The map, and below it the name, the formula and the horizon."""
    facts = f"<b>{escape(task.name)}</b>: {escape(task.formula.pretty)}; at most {task.horizon} steps"
    fig = _map(compile_world(task))
    return f"<div>{image(fig, f'map of {task.name}')}<br>{facts}</div>"


def discovery_html(discovery: Discovery) -> str:
    """Key states on the map, if the explorer's world is a grid, else their pictures; tree, names, proof, counts."""
    world = _world(discovery)
    names = discovery.names
    ways = [" → ".join(names[key] for key in sequence) for sequence in discovery.sequences]
    tree = "subgoal tree: " + (" or ".join(ways) or "no sequence yet")
    pictures = []
    if world is not None:
        cells = {names[key.index]: place(world, key.observation_id) for key in discovery.key_states}
        told = ", ".join(f"{name} at {cell}" for name, cell in cells.items())
        pictures.append(image(_map(world, cells.values()), f"map with the key states: {told}"))
        pictures.append(drawing_html(lambda: discovery.tree.draw(labels=names), tree))
    else:
        told = ", ".join(names.values())
        pictures.append(drawing_html(lambda: draw_pictured_tree(discovery), tree))
    lines = [
        f"<b>{'Finished' if discovery.finished else 'Open'}</b> after {discovery.num_trajectories:,} trajectories, "
        f"{discovery.num_positives:,} of them successes, {discovery.env_steps:,} steps",
        f"Sequences: {escape('; '.join(ways) or 'none yet')}",
        f"Key states: {escape(told or 'none yet')}",
        escape(_standing(discovery, world)),
    ]
    inside = "".join(f'<td style="background:white;vertical-align:middle">{picture}</td>' for picture in pictures)
    return f"<table><tr>{inside}</tr></table><div>{'<br>'.join(line for line in lines if line)}</div>"


def discovery_figure(discovery: Discovery) -> Figure:
    """What `Discovery.plot` shows."""
    world, names = _world(discovery), discovery.names
    fig, axes = plt.subplots(1, 3 if world is not None else 2, figsize=(10.5 if world is not None else 7.5, 3.1))
    if world is not None:
        _draw_map(axes[0], world, [place(world, key.observation_id) for key in discovery.key_states])
    if world is not None:
        discovery.tree.draw(axes[1], labels=names)
    else:
        draw_pictured_tree(discovery, axes[0])
    labels = discovery.trajectories.labels
    axes[-1].step(range(len(labels) + 1), [0, *labels.cumsum()], where="post", color=BLUE)
    if discovery.finished:
        axes[-1].axvline(discovery.num_trajectories, color=GREEN, linestyle="--")
        end = "proved" if discovery.proved else "found"
        axes[-1].set_title(f"{end} after {discovery.num_trajectories:,} trajectories", color=GREEN)
    axes[-1].set(xlabel="trajectories", ylabel="successes", xlim=(0, None), ylim=(0, None))
    return fig


def _standing(discovery: Discovery, world: World | None) -> str:
    """The proof in one line, or what is missing, with coordinates where there is a map."""
    if not discovery.finished:
        told = discovery.missing
        return f"Missing: {told.told(lambda path: _cells(world, path)) if world is not None else told}"
    return discovery.verdict[:1].upper() + discovery.verdict[1:] if discovery.method == "guided" else ""


def _cells(world: World, path: Iterable[int]) -> str:
    return " → ".join(str(place(world, state)) for state in path) or "the start"


def _world(discovery: Discovery) -> World | None:
    """The grid world in which the discovery was made; None if there was another one, or it was loaded."""
    env = discovery.explorer.env if discovery.explorer is not None else None
    return env.world if isinstance(env, GridVectorEnv) else None


def _map(world: World, framed: Iterable[tuple[int, int]] = ()) -> Figure:
    """The map, with some cells framed."""
    width, height = world.size
    scale = max(CELL, MAP / max(width, height))
    fig, ax = plt.subplots(figsize=(scale * width, scale * height))
    _draw_map(ax, world, framed)
    return fig


def _draw_map(ax: Axes, world: World, framed: Iterable[tuple[int, int]]) -> None:
    width, height = world.size
    ax.imshow(world.render(), extent=(-0.5, width - 0.5, height - 0.5, -0.5), interpolation="lanczos")
    for x, y in framed:
        ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor=RED, linewidth=2))
    ax.axis("off")
