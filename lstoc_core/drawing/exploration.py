"""Drawings of the planner: its map as it grows, what is left to learn, a plan, and how good its predictions are."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from lstoc_core.drawing.maps import draw_grid
from lstoc_core.drawing.theme import BLUE, INK, MUTED, VERMILION
from lstoc_core.exploration.outcomes import Visits
from lstoc_core.exploration.plans import Judgement, PlanSearch
from lstoc_core.study.tables import planned_episodes, reliability
from lstoc_core.study.variants import variant
from lstoc_core.worlds.grid import World

Tried = NDArray[np.float64]
"""[observations]: how many of the actions were tried where it was seen; NaN: never seen."""


def tried_actions(ids: NDArray[np.int32], links: NDArray[np.int32], num_ids: int) -> Tried:
    """Of a map, how many actions were tried where each observation is seen; the fewest if several places show it."""
    tried = np.full(num_ids, np.inf)
    np.minimum.at(tried, ids, (links >= 0).sum(axis=1))
    return np.where(np.isfinite(tried), tried, np.nan)


def _walls(world: World) -> NDArray[np.bool_]:
    """Cells that are not free, [height, width]."""
    walls = np.ones(world.size[::-1], np.bool_)
    x, y = world.coordinates.T
    walls[y, x] = False
    return walls


def draw_growth(world: World, snapshots: Mapping[str, Tried]) -> Figure:
    """The map at several times: white where nothing was seen, darker where more actions were tried."""
    width, height = world.size
    side = 9.6 / len(snapshots)
    fig, axes = plt.subplots(1, len(snapshots), figsize=(9.6, 0.3 + side * height / width), squeeze=False)
    for ax, (title, tried) in zip(axes[0], snapshots.items(), strict=True):
        image = draw_grid(ax, world.values_on_map(tried), walls=_walls(world), annotate=False, cmap="Blues")
        image.set_clim(-2, 4)
        ax.set_title(title, fontsize=9)
    return fig


def draw_bits(table: pd.DataFrame, tasks: Sequence[str]) -> Figure:
    """Bits left before each episode, a panel for each task: every run, and the fastest fall that outcomes allow."""
    columns = min(3, len(tasks))
    rows = -(-len(tasks) // columns)
    fig, axes = plt.subplots(rows, columns, figsize=(9.6, 0.6 + 2.1 * rows), squeeze=False, sharey=True)
    for ax, task in zip(axes.flat, tasks, strict=False):
        of_task = table[table.task == task]
        for _, run in of_task.groupby("seed"):
            _draw_run(ax, run)
        ax.set_title(task, fontsize=9)
        ax.set_xlim(0, None)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    for ax in axes.flat[len(tasks) :]:
        ax.set_visible(False)
    axes.flat[0].set_ylim(bottom=-1)  # shared, so only once all are drawn
    fig.supxlabel("episodes", fontsize=9)
    fig.supylabel("bits left: log2 of consistent assignments", fontsize=9)
    if handles := {each.get_label(): each for ax in axes.flat for each in ax.get_legend_handles_labels()[0]}:
        fig.legend(handles=list(handles.values()), loc="outside upper center", ncols=3, fontsize=8)
    return fig


def _draw_run(ax: Axes, run: pd.DataFrame) -> None:
    """One run: dots where the count is exact; grey, what is left if every episode tells as much as it could."""
    planned = planned_episodes(run)
    if planned.empty:
        return
    episodes, left = planned.episode.to_numpy(float), planned.left.to_numpy(float)
    if run.finished.iloc[-1]:
        episodes, left = np.append(episodes, run.episode.iloc[-1] + 1), np.append(left, 0.0)
    ax.plot(episodes, left, color=BLUE, linewidth=1, alpha=0.8, label="a run")
    exact = planned[planned.counted.astype(bool)]
    ax.plot(exact.episode, exact.left, ".", color=BLUE, markersize=4, label="counted, not estimated")
    limit = float(planned.limit.max())
    steps = np.arange(int(np.ceil(left[0] / limit)) + 1)
    fall = np.maximum(left[0] - steps * limit, 0)
    ax.plot(
        episodes[0] + steps, fall, color=MUTED, linewidth=1, linestyle=":", label="fastest fall that outcomes allow"
    )


def draw_plan(world: World, search: PlanSearch, best: Judgement) -> Figure:
    """A plan on the map, and when the beliefs expect it to succeed.

    Left: the walk from the start; cells are shaded by the probability that the episode ends there. Right: the same over
    time. Both end where the last of the beliefs expects a success.
    """
    outset, places = search.outset, best.itinerary.places
    walk = outset.ids[list(places)]
    judges = search.judges
    times = search.words.success_times(Visits.of(walk, search.num_ids), judges.assignments)
    length = int(times[times < len(walk)].max(initial=1)) + 1
    ends = np.bincount(times, judges.weights / judges.weights.sum(), minlength=len(walk) + 1)[:length]
    cells = world.coordinates[_positions(world, outset.links, places[:length])]
    here = np.full(world.size[::-1], np.nan)
    here[cells[:, 1], cells[:, 0]] = 0.0
    np.add.at(here, (cells[:, 1], cells[:, 0]), ends)
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), width_ratios=[1.35, 1])
    image = draw_grid(left, here, walls=_walls(world), annotate=False, cmap="YlOrRd")
    fig.colorbar(image, ax=left, shrink=0.8, label="probability that the episode ends here")
    _draw_walk(left, cells)
    left.set_title(f"the plan, {length - 1} steps", fontsize=9)
    when = np.flatnonzero(ends)
    right.vlines(when, 0, ends[when], color=VERMILION, linewidth=2)
    right.set(
        xlabel="time of success, in steps", ylabel="probability over the beliefs", xlim=(0, length), ylim=(0, None)
    )
    told = f"success {best.success:.0%}, none {1 - best.success:.0%}; {best.bits:.1f} bits expected"
    right.set_title(told, fontsize=9)
    return fig


def _positions(world: World, links: NDArray[np.int32], places: Sequence[int]) -> list[int]:
    """Where the agent is at each time of a walk on the map, if it starts where episodes start."""
    positions = [int(world.starts[0])]
    for place, following in pairwise(places):
        action = int(np.flatnonzero(links[place] == following)[0])
        positions.append(int(world.next_position[positions[-1], action]))
    return positions


def _draw_walk(ax: Axes, cells: NDArray[Any]) -> None:
    """The walk as a line from light to dark; where the map wraps round, the line is broken."""
    points = cells + np.linspace(-0.25, 0.25, len(cells))[:, None]  # ways there and back side by side
    parts = np.stack([points[:-1], points[1:]], axis=1)
    near = np.abs(parts[:, 1] - parts[:, 0]).max(axis=1) < 1.5
    lines = LineCollection(list(parts[near]), cmap="Blues", linewidths=1.3, zorder=4)
    lines.set_array(np.linspace(0.35, 1, len(parts))[near])
    lines.set_clim(0, 1)
    ax.add_collection(lines)
    ax.plot(*points[0], "o", color=INK, markersize=5, zorder=5)


def draw_reliability(table: pd.DataFrame) -> Figure:
    """Predicted probability of success of planned episodes against the share that succeeded, a panel per method."""
    methods = list(dict.fromkeys(table.method)) or ["planner"]
    fig, axes = plt.subplots(1, len(methods), figsize=(1.4 + 2.6 * len(methods), 3.4), squeeze=False, sharey=True)
    for ax, method in zip(axes[0], methods, strict=True):
        ax.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=":")
        found = reliability(table[table.method == method])
        if len(found):
            bars = [found.real - found.low, found.high - found.real]
            ax.errorbar(found.predicted, found.real, yerr=bars, color=BLUE, fmt="o", markersize=4, linewidth=1)
            for row in found.itertuples():
                told, above = f"{row.episodes:.0f}", {"xytext": (0, 2), "textcoords": "offset points", "ha": "center"}
                ax.annotate(told, (row.predicted, row.high), fontsize=6.5, color=MUTED, **above)
        ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.08), aspect="equal")
        ax.set_title(variant(method).title, fontsize=9)
        ax.set_xlabel("predicted probability of success")
    axes[0][0].set_ylabel("share that succeeded\n(numbers: episodes)")
    return fig
