"""Figures of the contrast: importance on the map, and how often its highest value is the next subgoal."""

from collections.abc import Mapping
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


def draw_importance(ax: Axes, task: Task, importance: NDArray[np.floating], *, title: str = "") -> AxesImage:
    """Importance on the map, one value per cell, the task's true key states framed; dashed edges are joined."""
    world = compile_world(task)
    values = world.values_on_map(importance)
    walls = np.ones(values.shape, np.bool_)
    walls[world.coordinates[:, 1], world.coordinates[:, 0]] = False
    key_states = {symbol: task.positions[symbol] for symbol in task.formula.symbols}
    image = draw_grid(ax, values, outline=key_states, walls=walls)
    if task.wrap:
        ax.spines[:].set(color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
    for text in ax.texts:
        text.set_in_layout(False)  # they lie within the cells; measuring hundreds of them is slow
    ax.set_title(title)
    return image


@dataclass(frozen=True)
class Aside:
    """A small map beside a task's row: another reading of the same task."""

    title: str
    task: Task
    f: NDArray[np.floating]


def temporal_figure(table: pd.DataFrame, asides: Mapping[str, Aside]) -> Figure:
    """The paper's figure contrastive_temporal: converged f by LSTOC and by Baseline 2, one row per task.

    asides: by name of a task on a Letter map, a third and smaller panel in its row.
    """
    names = list(table.task.unique())
    heights = [5.5 if name in asides else 6.0 for name in names]
    figure = plt.figure(figsize=(15, sum(heights)), dpi=80)
    rows = figure.subfigures(len(names), 1, squeeze=False, height_ratios=heights)[:, 0]
    grids = [
        row.subplots(1, 3, width_ratios=[5, 5, 3]) if name in asides else row.subplots(1, 2)
        for name, row in zip(names, rows, strict=True)
    ]
    figure.canvas.draw()  # the sizes of the cells, and so of the numbers in them, follow from the layout
    for name, axes in zip(names, grids, strict=True):
        task = TASKS[name]
        for ax, (objective, label) in zip(axes[:2], {"lstoc": "LSTOC", "baseline2": "Baseline"}.items(), strict=True):
            f = table.loc[(table.task == name) & (table.objective == objective), FULL].to_numpy()
            _draw_ranked(ax, task, f, f"{label}, {name}: {task.formula}, γ = {task.discount:.2f}")
        if name in asides:
            _draw_ranked(axes[2], asides[name].task, asides[name].f, asides[name].title)
    return figure


def _draw_ranked(ax: Axes, task: Task, importance: NDArray[np.floating], title: str) -> None:
    """Importance on the map with a colour bar; the title gives the rank of each true key state."""
    rank = ", ".join(f"{symbol} {place}" for symbol, place in ranks(task, importance).items())
    title = f"{title}\nranks of {np.isfinite(importance).sum()}: {rank}"
    image = draw_importance(ax, task, importance, title=title)
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
