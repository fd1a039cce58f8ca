"""Figures of the contrast: importance on the map, and how often its highest value is the next subgoal."""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from lstoc_core.drawing.maps import draw_grid
from lstoc_core.drawing.theme import BLUE, GREY, INK, ORANGE, VERMILION
from lstoc_core.study.contrast import EXACT, FULL, VERDICTS, ranks
from lstoc_core.worlds import compile_world
from lstoc_core.worlds.tasks import TASKS, Task

COMPARED = {"lstoc": "LSTOC", "baseline2": "Baseline"}
"""The objectives that the paper's figure shows side by side."""


def draw_importance(
    ax: Axes, task: Task, importance: NDArray[np.floating], *, title: str = "", annotate: bool = True
) -> AxesImage:
    """Importance on the map, one value per cell, the task's true key states framed; dashed edges are joined."""
    world = compile_world(task)
    values = world.values_on_map(importance)
    walls = np.ones(values.shape, np.bool_)
    walls[world.coordinates[:, 1], world.coordinates[:, 0]] = False
    key_states = {symbol: task.positions[symbol] for symbol in task.formula.symbols}
    image = draw_grid(ax, values, outline=key_states, walls=walls, annotate=annotate)
    if task.wrap:
        ax.spines[:].set(color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
    for text in ax.texts:
        text.set_in_layout(False)  # they lie within the cells; measuring hundreds of them is slow
    ax.set_title(title)
    return image


@dataclass(frozen=True)
class Aside:
    """A map beside a task's own: another reading of the same task."""

    title: str
    task: Task
    f: NDArray[np.floating]


def temporal_figure(table: pd.DataFrame) -> Figure:
    """The paper's figure contrastive_temporal: converged f by LSTOC and by Baseline 2, one row per task."""
    names = list(table.task.unique())
    figure, grid = plt.subplots(len(names), 2, figsize=(8.5, 3.7 * len(names)), squeeze=False)
    for name, axes in zip(names, grid, strict=True):
        for ax, objective in zip(axes, COMPARED, strict=True):
            _draw_ranked(ax, TASKS[name], *_of(table, name, objective), annotate=False)
    return figure


def importance_figure(table: pd.DataFrame, name: str, aside: Aside | None = None) -> Figure:
    """One task of that figure with all numbers: maps of square shape in a row, with the aside; wide ones below."""
    task = TASKS[name]
    panels = [(task, *_of(table, name, objective)) for objective in COMPARED]
    panels += [(aside.task, aside.f, aside.title)] if aside else []
    wide = task.size[0] > task.size[1]
    size = (9.5, 7.2 * len(panels)) if wide else (5.2 * len(panels), 5.2)
    figure, axes = plt.subplots(*((len(panels), 1) if wide else (1, len(panels))), figsize=size, dpi=80, squeeze=False)
    figure.canvas.draw()  # the sizes of the cells, and so of the numbers in them, follow from the layout
    for ax, (shown, f, title) in zip(axes.flat, panels, strict=True):
        _draw_ranked(ax, shown, f, title)
    return figure


def _of(table: pd.DataFrame, name: str, objective: str) -> tuple[NDArray[np.floating], str]:
    """Converged f of a task by an objective, and a title for it."""
    f = table.loc[(table.task == name) & (table.objective == objective), FULL].to_numpy()
    return f, f"{COMPARED[objective]}, {name}: {TASKS[name].formula}, γ = {TASKS[name].discount:.2f}"


def _draw_ranked(ax: Axes, task: Task, importance: NDArray[np.floating], title: str, *, annotate: bool = True) -> None:
    """Importance on the map with a colour bar; the title gives the rank of each true key state."""
    rank = ", ".join(f"{symbol} {place}" for symbol, place in ranks(task, importance).items())
    title = f"{title}\nranks of {np.isfinite(importance).sum()}: {rank}"
    image = draw_importance(ax, task, importance, title=title, annotate=annotate)
    ax.figure.colorbar(image, ax=ax, shrink=0.75, pad=0.01).outline.set_visible(False)


def order_figure(table: pd.DataFrame) -> Figure:
    """The figure contrastive_order: how often the highest importance lies at the next subgoal."""
    figure, axes = plt.subplots(2, 2, figsize=(11, 7))
    names = {
        "gamma": "discount γ of temporal geometric sampling",
        "horizon": "horizon of the episodes",
        "positives": "positive trajectories",
    }
    colours = dict(zip(table.method.unique(), (GREY, ORANGE, BLUE), strict=True))
    for ax, (sweep, label) in zip(axes.flat[:3], names.items(), strict=True):
        part = table[table.sweep == sweep]
        for (method, start), group in part.groupby(["method", "start"], sort=False):
            hits = (group.verdict == VERDICTS[0]).groupby(group.value).agg(["mean", "count"])
            ticks = np.arange(len(hits))
            line = "-" if start == "fixed" else "--"
            ax.plot(ticks, hits["mean"], line, marker="o", markersize=4, color=colours[method])
        ax.set(xticks=ticks, xticklabels=[f"{v:g}" for v in hits.index], ylim=(-0.02, 1.02), xlabel=label)
        ax.set_ylabel("highest f at the next subgoal")
        ax.grid(axis="y", color="#e4e7eb", linewidth=0.8)
    handles = [plt.Line2D([], [], color=colour, marker="o", markersize=4, label=m) for m, colour in colours.items()]
    handles += [
        plt.Line2D([], [], color=INK, ls=ls, label=f"{s} start") for s, ls in (("fixed", "-"), ("random", "--"))
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    _draw_by_distance(axes[1, 1], table)
    return figure


def _draw_by_distance(ax: Axes, table: pd.DataFrame) -> None:
    part = table[(table.sweep == "gamma") & (table.start == "fixed") & (table.method == EXACT)]
    near = pd.cut(part.distance, [0, 4, 7, 10, 18], labels=["1–4", "5–7", "8–10", "11–18"])
    shares = pd.crosstab(near, part.verdict, normalize="index").reindex(columns=VERDICTS, fill_value=0.0)
    bottom = np.zeros(len(shares))
    for kind, colour in zip(VERDICTS, (BLUE, VERMILION, "#cbd2d9"), strict=True):
        ax.bar(shares.index, shares[kind], bottom=bottom, color=colour, label=kind, width=0.7)
        bottom += shares[kind].to_numpy()
    ax.set(xlabel="steps from the start to the next subgoal a", ylabel="highest exact f, fixed start", ylim=(0, 1))
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
