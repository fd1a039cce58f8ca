"""One look for every figure: style, colours, deterministic files."""

import logging
import os
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from lstoc_core import paths
from lstoc_core.study.variants import NEUTRAL, VARIANTS

INK, RED, MUTED = "#1f2933", "#c8102e", NEUTRAL
BLUE, SKY, ORANGE, GREEN, VERMILION, PINK, GREY = (
    VARIANTS[name].colour for name in ("lstoc", "forward", "baseline1", "planner", "ppo", "ppo+bonus", "oracle")
)
"""Colours of the variants (Okabe and Ito's, safe for colour-blind readers), where a drawing uses them without one."""


def style() -> None:
    """Set the project's defaults of matplotlib, and that tables are shown in full; each notebook calls it once."""
    pd.set_option("display.max_colwidth", None)
    logging.getLogger("fontTools").setLevel(logging.ERROR)  # it warns of dates inside Computer Modern, in every PDF
    mpl.rcParams.update(
        {
            "axes.prop_cycle": plt.cycler(color=[BLUE, SKY, ORANGE, GREEN, VERMILION, PINK, GREY]),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "axes.titlesize": 10,
            "axes.labelsize": 9,
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "xtick.labelsize": 8,
            "ytick.labelsize": 8,
            "legend.fontsize": 8,
            "legend.frameon": False,
            "font.family": "DejaVu Sans",
            "mathtext.fontset": "cm",
            "lines.linewidth": 1.6,
            "figure.dpi": 110,
            "figure.constrained_layout.use": True,
            "savefig.dpi": 200,
            "savefig.facecolor": "white",
            "pdf.fonttype": 42,
            "ps.fonttype": 42,
            "svg.hashsalt": "lstoc",
        }
    )


def is_live() -> bool:
    """Whether somebody can move sliders: in a Jupyter server, not in headless execution."""
    return bool(os.environ.get("JPY_SESSION_NAME"))


def save_figure(fig: Figure, name: str, profile: str | None = None) -> None:
    """Write the figure as `name`.pdf and `name`.png to the figures directory, byte for byte the same each time.

    `profile` (which runs the numbers come from) is noted in the lower right corner.
    """
    for note in [text for text in fig.texts if text.get_gid() == "profile"]:
        note.remove()
    if profile is not None:
        fig.text(0.995, 0.002, f"profile: {profile}", ha="right", va="bottom", fontsize=6, color=MUTED, gid="profile")
    no_dates: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "png": {"Software": None}}
    for suffix, metadata in no_dates.items():
        fig.savefig(paths.figures() / f"{name}.{suffix}", metadata=metadata)
