"""Figures of the experiments: success and accuracy over steps, trajectories until discovery, runs that are exact.

Every function takes whatever runs there are; a panel without any says so. Lines are interquartile means over seeds,
bands their bootstrap 95 % intervals, thin lines and dots the single seeds.
"""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from lstoc_core.drawing.theme import MUTED
from lstoc_core.study.stats import iqm_interval, on_grid
from lstoc_core.study.tables import PAPER_TRAJECTORIES, discoveries
from lstoc_core.study.variants import VARIANTS, variant
from lstoc_core.worlds.tasks import TASKS

WIDE = 7.0
"""Inches of a figure in which three of the longest names fit beside each other in its legend."""
_CHANGED = {"walls": "other walls", "objects": "new objects"}


def draw_curves(table: pd.DataFrame, tasks: Sequence[str], methods: Sequence[str], *, seed: int = 0) -> Figure:
    """Success rate over environment steps, a panel for each task, up to where its last run ends."""
    fig, axes = _panels(tasks)
    for task, ax in zip(tasks, axes, strict=True):
        of_task = table[(table.task == task) & table.method.isin(methods)]
        for method in [m for m in methods if (of_task.method == m).any()]:
            runs = of_task[of_task.method == method]
            grid, curves = curves_on_grid(runs, until=of_task.env_steps.max())
            colour = variant(method).colour
            ax.plot(grid, curves.T, color=colour, linewidth=0.6, alpha=0.45)
            band = iqm_interval([curves], rng=np.random.default_rng(seed), repetitions=1000)
            ax.plot(grid, band.estimate, color=colour, label=variant(method).title)
            ax.fill_between(grid, band.low, band.high, color=colour, alpha=0.15, linewidth=0)
        ax.set(ylim=(-0.03, 1.03), xlim=(0, None))
        _count_axis(ax)
    _legend(fig, axes, "environment steps", "success rate")
    return fig


def curves_on_grid(runs: pd.DataFrame, points: int = 120, *, until: float | None = None) -> tuple[NDArray, NDArray]:
    """Steps up to `until` (None: the budget) [points], and success rates there [runs, points].

    A run that has solved the task ends before the budget and keeps its last rate.
    """
    grid = np.linspace(0, runs.budget.max() if until is None else until, points)
    curves = [on_grid(run.env_steps, run.success_rate, grid, hold=True) for _, run in runs.groupby("seed")]
    return grid, np.array(curves)


def draw_accuracy(table: pd.DataFrame, tasks: Sequence[str], methods: Sequence[str], *, seed: int = 0) -> Figure:
    """Share of the subgoal tree that is learned, over samples, a panel for each task."""
    fig, axes = _panels(tasks)
    colours = [variant(method).colour for method in methods]
    again = {method for place, method in enumerate(methods) if colours[place] in colours[:place]}  # drawn dashed
    for task, ax in zip(tasks, axes, strict=True):
        of_task = table[table.task == task]
        present = [m for m in methods if len(of_task) and (of_task.method == m).any()]
        for shift, method in zip(np.linspace(-0.1, 0.1, max(len(present), 2)), present, strict=False):
            runs = of_task[of_task.method == method].pivot(index="seed", columns="samples", values="accuracy").dropna()
            x = runs.columns.to_numpy(float) * np.exp(shift)  # side by side where they coincide
            band = iqm_interval([runs.to_numpy(float)], rng=np.random.default_rng(seed))
            line = "--" if method in again else "-"
            colour = variant(method).colour
            ax.plot(x, band.estimate, line, color=colour, label=variant(method).title, marker="o", markersize=3)
            ax.vlines(x, band.low, band.high, color=colour, alpha=0.5, linewidth=2)
            ax.plot(x, runs.to_numpy(float).T, ".", color=colour, alpha=0.35, markersize=4)
        ax.set(ylim=(-0.05, 1.05), xscale="log")
        ax.set_xticks(sorted(of_task.samples.unique()) if present else [])
        ax.minorticks_off()
        _count_axis(ax)
    _legend(fig, axes, "samples (environment steps)", "accuracy")
    return fig


def draw_trajectories(
    table: pd.DataFrame, tasks: Sequence[str], methods: Sequence[str], *, paper: bool = True, seed: int = 0
) -> Figure:
    """Trajectories until every subgoal is learned, ours beside the paper's if `paper`: a row for each task and method.

    Filled dots: runs at their own stop. Hollow ones: the budget ended before, so the number is a lower bound.
    """
    runs = discoveries(table)
    shown = [task for task in tasks if paper or (runs.task == task).any()] or tasks
    rows = [(task, method) for task in shown for method in methods]
    fig, ax = plt.subplots(figsize=(7, 0.8 + 0.34 * len(rows)))
    for place, (task, method) in enumerate(rows):
        some = runs[(runs.task == task) & (runs.method == method)]
        colour = variant(method).colour
        if paper and (task, method) in PAPER_TRAJECTORIES:
            mean, spread = PAPER_TRAJECTORIES[task, method]
            ax.errorbar(mean, place, xerr=spread, color=MUTED, marker="D", markersize=5, capsize=3, linewidth=1)
        if some.empty:
            ax.text(1.01, place, "no runs", transform=ax.get_yaxis_transform(), va="center", fontsize=7, color=MUTED)
            continue
        ended = some.finished.astype(bool).to_numpy()
        counts = some.trajectories.to_numpy(float)
        ax.scatter(counts[ended], np.full(ended.sum(), place), s=18, color=colour, alpha=0.6, linewidths=0, zorder=3)
        ax.scatter(counts[~ended], np.full((~ended).sum(), place), s=18, facecolors="none", edgecolors=colour, zorder=3)
        if ended.all():
            band = iqm_interval([counts], rng=np.random.default_rng(seed))
            ax.hlines(place, band.low, band.high, color=colour, linewidth=5, alpha=0.25)
            ax.plot(band.estimate, place, "|", color=colour, markersize=13, markeredgewidth=2)
    ax.set_yticks(range(len(rows)), [f"{title(task)}: {variant(method).title}" for task, method in rows])
    ax.set(xscale="log", xlabel="trajectories until every subgoal is learned", ylim=(len(rows) - 0.4, -0.6))
    ax.set(xlim=(5, 100_000))
    ax.xaxis.set_major_formatter(_count)
    ax.grid(axis="x", color="#e4e7eb", linewidth=0.6)
    key = [
        ax.scatter([], [], s=18, color=MUTED, label="a run at its own stop"),
        ax.scatter([], [], s=18, facecolors="none", edgecolors=MUTED, label="budget exhausted before"),
        ax.scatter([], [], s=22, color=MUTED, marker="D", label="the paper: mean ± deviation (other tasks)"),
    ]
    fig.legend(handles=key[: 2 + paper], loc="outside upper center", ncols=3, fontsize=7)
    return fig


def draw_exact(table: pd.DataFrame, tasks: Sequence[str], methods: Sequence[str]) -> Figure:
    """How many runs end with exactly the true sequences: a row for each method, a column for each task; – without."""
    runs = discoveries(table).astype({"exact": float})
    exact, of = (
        runs.pivot_table("exact", "method", "task", aggfunc=count).reindex(index=methods, columns=tasks)
        for count in ("sum", "count")
    )
    fig, ax = plt.subplots(figsize=(2.2 + 0.75 * len(tasks), 0.9 + 0.36 * len(methods)))
    words = exact.map("{:.0f}".format) + of.map(" of {:.0f}".format)
    style = {"cmap": "Blues", "vmin": 0, "vmax": 1.2, "cbar": False, "linewidths": 2}
    seaborn.heatmap((exact / of).astype(float), annot=words, fmt="", annot_kws={"fontsize": 8}, ax=ax, **style)
    for y, x in np.argwhere(of.isna()):
        ax.text(x + 0.5, y + 0.5, "–", ha="center", va="center", fontsize=8, color=MUTED)
    ax.set_xticklabels([title(task).replace(" Task", "\nTask") for task in tasks])
    ax.set_yticklabels([variant(method).title for method in methods], rotation=0)
    ax.set_ylabel("")
    ax.tick_params(length=0)
    ax.xaxis.tick_top()
    ax.set_xlabel(" ", fontsize=6)  # leaves room for the note of the profile
    return fig


def title(task: str) -> str:
    """The paper's way to name a task, Office Task 2; a test world by what is different in it, Office, other walls."""
    domain, *rest = task.split("-")
    name = domain.capitalize()
    if len(rest) == 2 and rest[1] in _CHANGED:
        return f"{name}, {_CHANGED[rest[1]]}"
    return f"{name} Task {rest[0]}" if len(rest) == 1 and rest[0].isdigit() else " ".join([name, *rest])


def _panels(tasks: Sequence[str]) -> tuple[Figure, list[Axes]]:
    columns = 2 if len(tasks) in (2, 4) else min(3, len(tasks))
    rows = -(-len(tasks) // columns)
    fig, axes = plt.subplots(rows, columns, figsize=(2.75 * columns + 0.4, 1.95 * rows + 0.9), squeeze=False)
    for ax in axes.flat[len(tasks) :]:
        ax.remove()
    for task, ax in zip(tasks, axes.flat, strict=False):
        ax.set_title(f"{title(task)}:  {TASKS[task].formula.pretty}", fontsize=9)
    return fig, list(axes.flat[: len(tasks)])


def _count_axis(ax: Axes) -> None:
    """Steps in thousands or millions; and a word where there is nothing to see."""
    if not ax.lines:
        ax.text(0.5, 0.5, "no runs", transform=ax.transAxes, ha="center", va="center", color=MUTED)
        ax.set(xticks=[])
        return
    ax.xaxis.set_major_formatter(_count)


def _count(x: float, _: float) -> str:
    """A number on an axis, in thousands or millions."""
    return f"{x / 1e6:g}M" if x >= 1e6 else f"{x / 1e3:g}k" if x >= 1e3 else f"{x:g}"


def _legend(fig: Figure, axes: Sequence[Axes], xlabel: str, ylabel: str) -> None:
    """One legend for all panels, and labels on the outer ones."""
    found = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    order = [name for name in dict.fromkeys(each.title for each in VARIANTS.values()) if name in found]
    if order:
        handles = [found[name] for name in order]
        narrow = len(order) > 3 and fig.get_figwidth() < WIDE
        columns = 2 if narrow or len(order) == 4 else min(len(order), 3)
        fig.legend(handles, order, loc="outside upper center", ncols=columns)
    fig.supxlabel(xlabel, fontsize=9)
    fig.supylabel(ylabel, fontsize=9)
