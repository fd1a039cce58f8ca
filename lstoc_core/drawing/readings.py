"""The figures of the readings: which open choices of the paper carry its result."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lstoc_core.drawing.theme import BLUE, MUTED, ORANGE
from lstoc_core.study.readings import MULTIVERSES, TRAINING, is_reading, shares
from lstoc_core.worlds.tasks import TASKS

SOURCES = {"layouts": ("random layouts", BLUE), "tasks": ("the reported tasks", ORANGE)}


def readings_figure(table: pd.DataFrame) -> Figure:
    """Share of exact runs with one choice changed at a time, a panel for each domain that has runs."""
    fig = plt.figure(figsize=(11, 5.6), layout="constrained")
    first, *others = _shown(table)
    axes = fig.subplot_mosaic([[first, other] for other in others] or [[first]])
    for domain, ax in axes.items():
        names = list(MULTIVERSES[domain].named())
        _changes(ax, shares(table, domain), names, width=2.5 if len(others) > 1 and domain != first else 4.0)
        ax.set_title(f"{domain.capitalize()}: one choice changed", loc="left")
        ax.tick_params(axis="y", labelsize=9 if len(names) > 14 else 8)
    for ax in (axes[first], list(axes.values())[-1]):
        ax.set_xlabel("share of exact runs (95 % interval)")
    if handles := {h.get_label(): h for ax in axes.values() for h in ax.get_legend_handles_labels()[0]}:
        fig.legend(handles=list(handles.values()), loc="outside upper center", ncols=2)
    return fig


def grid_figure(table: pd.DataFrame) -> Figure:
    """Exact runs on random layouts for each γ and training: Letter wrapped and flat, other domains with runs."""
    panels = [(domain, wrap) for domain in _shown(table) for wrap in MULTIVERSES[domain].grid.get("wrap", (False,))]
    rows = -(-len(panels) // 2)
    fig, axes = plt.subplots(rows, 2, figsize=(11, 2.3 * rows), layout="constrained", sharey=True, squeeze=False)
    for ax, (domain, wrap) in zip(axes.flat, panels, strict=False):
        _combinations(ax, table[(table.method == "layouts") & table.task.str.startswith(f"{domain}-")], domain, wrap)
    for ax in axes.flat[len(panels) :]:
        ax.axis("off")
    for ax in axes[-1]:
        ax.set_xlabel("γ")
    return fig


def _shown(table: pd.DataFrame) -> list[str]:
    """Domains with runs; all of them if none has any."""
    found = [domain for domain in MULTIVERSES if table.task.str.startswith(f"{domain}-").any()]
    return found or list(MULTIVERSES)


def _changes(ax: Axes, found: pd.DataFrame, names: list[str], *, width: float) -> None:
    present = [source for source in SOURCES if len(found) and (found.maps == source).any()]
    for shift, source in zip(np.linspace(-0.16, 0.16, max(len(present), 2)), present, strict=False):
        title, colour = SOURCES[source]
        rows = found[found.maps == source]
        places = np.array([names.index(name) for name in rows.reading]) + shift
        ax.hlines(places, rows.low, rows.high, color=colour, alpha=0.35, linewidth=width)
        ax.plot(rows.share, places, "o", color=colour, markersize=1 + width, label=title)
    ax.set_yticks(range(len(names)), names)
    ax.set(ylim=(len(names) - 0.4, -0.6), xlim=(-0.02, 1.02))
    for place in (0.5, len(names) - 1.5):
        ax.axhline(place, color=MUTED, linewidth=0.6, linestyle=":")
    ax.grid(axis="x", color="#e4e7eb", linewidth=0.6)
    ax.tick_params(left=False)


def _combinations(ax: Axes, table: pd.DataFrame, domain: str, wrap: bool) -> None:
    multiverse = MULTIVERSES[domain]
    rule = replace(TASKS[f"{domain}-1"], wrap=wrap).discount
    gammas = sorted(multiverse.grid["gamma"], key=lambda value: rule if value is None else value)
    cells = [
        [table[is_reading(table, replace(multiverse.best, wrap=wrap, gamma=g, training=way))].exact for g in gammas]
        for way in TRAINING
    ]
    share = np.array([[runs.mean() if len(runs) else np.nan for runs in row] for row in cells], float)
    words = [[f"{int(runs.sum())} of {len(runs)}" for runs in row] for row in cells]
    style = {"cmap": "Blues", "vmin": 0, "vmax": 1.2, "cbar": False, "linewidths": 2}
    seaborn.heatmap(share, annot=np.array(words), fmt="", annot_kws={"fontsize": 8}, ax=ax, **style)
    ax.set_xticklabels(["by the rule" if gamma is None else f"{gamma:g}" for gamma in gammas])
    ax.set_yticklabels([f"f: {way}" for way in TRAINING], rotation=0)
    world = {("letter", True): "Letter, wraps round", ("letter", False): "Letter, flat"}
    ax.set_title(world.get((domain, wrap), domain.capitalize()), loc="left")
    ax.tick_params(length=0)
