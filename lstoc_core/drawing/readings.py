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

SOURCES = {"layouts": ("random layouts", BLUE), "tasks": ("the reported tasks", ORANGE)}


def readings_figure(table: pd.DataFrame) -> Figure:
    """Share of exact runs with one choice changed at a time, a panel for each domain."""
    sizes = [len(multiverse.named()) for multiverse in MULTIVERSES.values()]
    fig = plt.figure(figsize=(11, 5.6), layout="constrained")
    axes = fig.subplot_mosaic([["letter", "office"], ["letter", "crafter"]])
    for (domain, ax), rows in zip(axes.items(), sizes, strict=True):
        _changes(ax, shares(table, domain), list(MULTIVERSES[domain].named()))
        ax.set_title(f"{domain.capitalize()}: one choice changed", loc="left")
        ax.tick_params(axis="y", labelsize=9 if rows > 14 else 8)
    for ax in (axes["letter"], axes["crafter"]):
        ax.set_xlabel("share of exact runs (95 % interval)")
    if handles := {h.get_label(): h for ax in axes.values() for h in ax.get_legend_handles_labels()[0]}:
        fig.legend(handles=list(handles.values()), loc="outside upper center", ncols=2)
    return fig


def grid_figure(table: pd.DataFrame) -> Figure:
    """Exact runs on random layouts for each γ and training: Letter wrapped and flat, Office, Crafter."""
    fig, axes = plt.subplots(2, 2, figsize=(11, 4.6), layout="constrained", sharey=True)
    panels = [("letter", True), ("letter", False), ("office", False), ("crafter", False)]
    for ax, (domain, wrap) in zip(axes.flat, panels, strict=True):
        _combinations(ax, table[(table.method == "layouts") & table.task.str.startswith(f"{domain}-")], domain, wrap)
    for ax in axes[1]:
        ax.set_xlabel("γ")
    return fig


def _changes(ax: Axes, found: pd.DataFrame, names: list[str]) -> None:
    present = [source for source in SOURCES if len(found) and (found.maps == source).any()]
    for shift, source in zip(np.linspace(-0.16, 0.16, max(len(present), 2)), present, strict=False):
        title, colour = SOURCES[source]
        rows = found[found.maps == source]
        places = np.array([names.index(name) for name in rows.reading]) + shift
        ax.hlines(places, rows.low, rows.high, color=colour, alpha=0.35, linewidth=4)
        ax.plot(rows.share, places, "o", color=colour, markersize=5, label=title)
    ax.set_yticks(range(len(names)), names)
    ax.set(ylim=(len(names) - 0.4, -0.6), xlim=(-0.02, 1.02))
    for place in (0.5, len(names) - 1.5):
        ax.axhline(place, color=MUTED, linewidth=0.6, linestyle=":")
    ax.grid(axis="x", color="#e4e7eb", linewidth=0.6)
    ax.tick_params(left=False)


def _combinations(ax: Axes, table: pd.DataFrame, domain: str, wrap: bool) -> None:
    multiverse = MULTIVERSES[domain]
    rule = 0.9 if domain == "letter" else 0.965  # where the rule's γ, about as large, stands among the others
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
