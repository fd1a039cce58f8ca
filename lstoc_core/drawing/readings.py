"""The figure of the readings: which open choices of the paper carry its result."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lstoc_core.drawing.theme import BLUE, MUTED, ORANGE
from lstoc_core.study.readings import GRID, Reading, is_reading, named_readings, shares

SOURCES = {"layouts": ("random layouts", BLUE), "tasks": ("the three Letter tasks", ORANGE)}


def readings_figure(table: pd.DataFrame) -> Figure:
    """Left: share of exact runs with one choice changed at a time. Right: map × γ × training, random layouts."""
    fig = plt.figure(figsize=(11, 5.2))
    left, right = fig.subfigures(1, 2, squeeze=False, width_ratios=(1.1, 1))[0]
    _changes(left.subplots(), table)
    grid = right.subplots(2, 1)
    for ax, wrap in zip(grid, (True, False), strict=True):
        _combinations(ax, table[(table.method == "layouts")], wrap)
    grid[0].set_xlabel("")
    return fig


def _changes(ax: Axes, table: pd.DataFrame) -> None:
    found, names = shares(table, named_readings()), list(named_readings())
    present = [source for source in SOURCES if len(found) and (found.maps == source).any()]
    for shift, source in zip(np.linspace(-0.16, 0.16, max(len(present), 2)), present, strict=False):
        title, colour = SOURCES[source]
        rows = found[found.maps == source]
        places = np.array([names.index(name) for name in rows.reading]) + shift
        ax.hlines(places, rows.low, rows.high, color=colour, alpha=0.35, linewidth=4)
        ax.plot(rows.share, places, "o", color=colour, markersize=5, label=title)
    ax.set_yticks(range(len(names)), names)
    ax.set(ylim=(len(names) - 0.4, -0.6), xlim=(-0.02, 1.02), xlabel="share of exact runs (95 % interval)")
    for place in (0.5, len(names) - 1.5):
        ax.axhline(place, color=MUTED, linewidth=0.6, linestyle=":")
    ax.grid(axis="x", color="#e4e7eb", linewidth=0.6)
    ax.tick_params(left=False)
    if present:
        ax.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2)


def _combinations(ax: Axes, table: pd.DataFrame, wrap: bool) -> None:
    gammas, ways = sorted(GRID["gamma"], key=lambda value: value or 0), GRID["training"]
    cells = [[table[is_reading(table, Reading(wrap, gamma=g, training=way))].exact for g in gammas] for way in ways]
    share = np.array([[runs.mean() if len(runs) else np.nan for runs in row] for row in cells], float)
    words = [[f"{int(runs.sum())} of {len(runs)}" for runs in row] for row in cells]
    style = {"cmap": "Blues", "vmin": 0, "vmax": 1.2, "cbar": False, "linewidths": 2}
    seaborn.heatmap(share, annot=np.array(words), fmt="", annot_kws={"fontsize": 8}, ax=ax, **style)
    ax.set_xticklabels(["by the rule" if gamma is None else f"{gamma:g}" for gamma in gammas])
    ax.set_yticklabels([f"f: {way}" for way in ways], rotation=0)
    ax.set(title="the map wraps round" if wrap else "the map is flat", xlabel="γ")
    ax.tick_params(length=0)
