"""From the tidy tables of the experiments to the paper's figures and tables.

Every function takes whatever runs there are: a panel without any says so, and `coverage` names what is missing. Lines
are interquartile means over seeds, bands their bootstrap 95 % intervals, thin lines and dots the single seeds.
"""

from collections.abc import Iterable, Sequence
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from lstoc_core.drawing import MUTED, PALETTE
from lstoc_core.study.cache import RUN_COLUMNS
from lstoc_core.study.stats import area_under_curve, interquartile_mean, iqm_interval, on_grid, wilson
from lstoc_core.worlds.tasks import TASKS

NAMES = {
    "lstoc": "LSTOC (guided)",
    "guided": "LSTOC (guided)",
    "fixed": "fixed exploration policy",
    "forward": "LSTOC as published",
    "forward-exact": "LSTOC as published, exact optimum",
    "forward-exact-0.9": "LSTOC as published, exact optimum, γ = 0.9",
    "baseline1": "Baseline 1 (no first occupancy)",
    "baseline2": "Baseline 2 (all states)",
    "ppo": "PPO",
    "ppo+bonus": "PPO + first-occupancy bonus",
    "oracle": "oracle (true symbols)",
    "no-rearm": "without re-arming",
    "no-bonus": "without bonus",
    "explained-0": "explained success pays 0",
    "explained-1": "explained success pays 1",
    "flipped": "2 % of labels wrong",
    "pixels": "pixels that never repeat",
}
"""How methods are called in figures, in their order there."""
COLOURS = PALETTE | {"forward-exact": PALETTE["forward"], "fixed": PALETTE["baseline1"]}
PAPER_TRAJECTORIES = {
    ("letter-2", "lstoc"): (18_123, 2_915), ("letter-2", "fixed"): (39_256, 2_567),
    ("office-2", "lstoc"): (32_195, 5_623), ("office-2", "fixed"): (56_232, 4_621),
    ("crafter-3", "lstoc"): (33_562, 4_482), ("crafter-3", "fixed"): (50_172, 5_215),
}  # fmt: skip
"""The paper's Table subgoal_efficiency_traj: mean and ± of (task, method)."""
_VARIANTS = {"walls": "other walls", "objects": "new objects"}


# --- what there is ----------------------------------------------------------------------------------------------------


def coverage(table: pd.DataFrame, tasks: Sequence[str], methods: Sequence[str]) -> str:
    """In words: profile and number of seeds for each task, and which tasks and methods have no runs at all."""
    seeds = table.groupby(["task", "method"]).seed.nunique() if len(table) else pd.Series(dtype=int)
    lines, absent = [], []
    for task in tasks:
        have = {method: int(seeds[task, method]) for method in methods if (task, method) in seeds.index}
        if not have:
            absent.append(task)
            continue
        profile = "/".join(table[table.task == task].profile.unique())
        counts = sorted(set(have.values()))
        missing = [NAMES[method] for method in methods if method not in have]
        seeds_text = f"{counts[0]} seeds" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
        lines.append(
            f"{task}: {seeds_text}, profile {profile}" + (f"; no runs of {', '.join(missing)}" * bool(missing))
        )
    return "\n".join([*lines, *([f"no runs: {', '.join(absent)}"] if absent else [])])


def profiles(table: pd.DataFrame) -> str:
    """The profiles behind a figure, for its footnote."""
    return "/".join(table.profile.unique()) if len(table) else "none"


# --- success rate over steps ------------------------------------------------------------------------------------------


def draw_curves(table: pd.DataFrame, tasks: Sequence[str], methods: Sequence[str], *, seed: int = 0) -> Figure:
    """Success rate over environment steps, a panel for each task."""
    fig, axes = _panels(tasks)
    for task, ax in zip(tasks, axes, strict=True):
        of_task = _of(table, task)
        for method in [m for m in methods if len(of_task) and (of_task.method == m).any()]:
            runs = of_task[of_task.method == method]
            grid, curves = curves_on_grid(runs)
            colour = COLOURS[method]
            ax.plot(grid, curves.T, color=colour, linewidth=0.6, alpha=0.45)
            band = iqm_interval([curves], rng=np.random.default_rng(seed), repetitions=1000)
            ax.plot(grid, band.estimate, color=colour, label=NAMES[method])
            ax.fill_between(grid, band.low, band.high, color=colour, alpha=0.15, linewidth=0)
        ax.set(ylim=(-0.03, 1.03), xlim=(0, None))
        _count_axis(ax)
    _legend(fig, axes, "environment steps", "success rate")
    return fig


def curves_on_grid(runs: pd.DataFrame, points: int = 120) -> tuple[NDArray, NDArray]:
    """Steps up to the budget [points], and success rates there [runs, points].

    A run that has solved the task ends before the budget and keeps its last rate.
    """
    grid = np.linspace(0, runs.budget.max(), points)
    curves = [on_grid(run.env_steps, run.success_rate, grid, hold=True) for _, run in runs.groupby("seed")]
    return grid, np.array(curves)


def areas(table: pd.DataFrame) -> pd.DataFrame:
    """Mean success rate of each run over its budget: columns task, method, seed, area."""
    rows = []
    for (task, method, seed), run in table.groupby(["task", "method", "seed"], sort=False):
        area = area_under_curve(run.env_steps, run.success_rate, until=run.budget.iloc[0])
        rows.append({"task": task, "method": method, "seed": seed, "area": area})
    return pd.DataFrame(rows, columns=["task", "method", "seed", "area"])


def advantage(
    table: pd.DataFrame, tasks: Iterable[str], better: str = "lstoc", than: str = "ppo", *, seed: int = 0
) -> pd.DataFrame:
    """Area under the curve of two methods and its difference with a bootstrap 95 % interval, a row for each task."""
    area, rows = areas(table), []
    for task in tasks:
        one, two = (area[(area.task == task) & (area.method == method)].area.to_numpy() for method in (better, than))
        if not (len(one) and len(two)):
            continue
        low, high = difference_interval(one, two, rng=np.random.default_rng(seed))
        iqm = [float(interquartile_mean(each)) for each in (one, two)]
        row = {"task": task, NAMES[better]: iqm[0], NAMES[than]: iqm[1], "difference": iqm[0] - iqm[1]}
        rows.append(row | {"low": low, "high": high, "seeds": min(len(one), len(two))})
    columns = ["task", NAMES[better], NAMES[than], "difference", "low", "high", "seeds"]
    return pd.DataFrame(rows, columns=columns).round(3)


def difference_interval(
    one: NDArray, two: NDArray, *, rng: np.random.Generator, repetitions: int = 2_000
) -> tuple[float, float]:
    """Bootstrap 95 % interval of the difference of two interquartile means, each sample resampled by itself."""
    means = [
        interquartile_mean(sample[rng.integers(len(sample), size=(repetitions, len(sample)))], axis=1)
        for sample in (one, two)
    ]
    low, high = np.quantile(means[0] - means[1], [0.025, 0.975])
    return float(low), float(high)


# --- accuracy of subgoal learning -------------------------------------------------------------------------------------


def draw_accuracy(table: pd.DataFrame, tasks: Sequence[str], methods: Sequence[str], *, seed: int = 0) -> Figure:
    """Share of the subgoal tree that is learned, over samples, a panel for each task."""
    fig, axes = _panels(tasks)
    for task, ax in zip(tasks, axes, strict=True):
        of_task = _of(table, task)
        present = [m for m in methods if len(of_task) and (of_task.method == m).any()]
        for shift, method in zip(np.linspace(-0.1, 0.1, max(len(present), 2)), present, strict=False):
            runs = of_task[of_task.method == method].pivot(index="seed", columns="samples", values="accuracy").dropna()
            x = runs.columns.to_numpy(float) * np.exp(shift)  # side by side where they coincide
            band = iqm_interval([runs.to_numpy(float)], rng=np.random.default_rng(seed))
            line = "--" if method == "forward-exact" else "-"
            colour = COLOURS[method]
            ax.plot(x, band.estimate, line, color=colour, label=NAMES[method], marker="o", markersize=3)
            ax.vlines(x, band.low, band.high, color=colour, alpha=0.5, linewidth=2)
            ax.plot(x, runs.to_numpy(float).T, ".", color=colour, alpha=0.35, markersize=4)
        ax.set(ylim=(-0.05, 1.05), xscale="log")
        ax.set_xticks(sorted(of_task.samples.unique()) if present else [])
        ax.minorticks_off()
        _count_axis(ax)
    _legend(fig, axes, "samples (environment steps)", "accuracy")
    return fig


def accuracy_table(table: pd.DataFrame, tasks: Iterable[str]) -> pd.DataFrame:
    """On all samples of each run: accuracy, key states found in any order, runs that are exact; per task and method."""
    rows = []
    for task in tasks:
        of_task = _of(table, task)
        for method in [m for m in NAMES if len(of_task) and (of_task.method == m).any()]:
            runs = of_task[(of_task.method == method) & (of_task.samples == of_task.samples.max())]
            rows.append(
                {
                    "task": task,
                    "method": NAMES[method],
                    "accuracy": float(interquartile_mean(runs.accuracy)),
                    "key states": float(interquartile_mean(runs.key_states)),
                    "exact": f"{int(runs.exact.sum())} of {len(runs)}",
                    "samples": int(runs.samples.iloc[0]),
                    "successes": int(runs.positives.median()),
                }
            )
    columns = ["task", "method", "accuracy", "key states", "exact", "samples", "successes"]
    return pd.DataFrame(rows, columns=columns).round(2)


# --- discoveries ------------------------------------------------------------------------------------------------------


def discoveries(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each run that discovers subgoals: what it found and when."""
    if "finished" not in table:
        return pd.DataFrame(columns=[*RUN_COLUMNS, "finished", "exact", "stopped_wrong", "trajectories"])
    return table[table.finished.notna()].groupby(list(RUN_COLUMNS), sort=False).last().reset_index()


def discovery_table(table: pd.DataFrame, tasks: Iterable[str], methods: Iterable[str]) -> pd.DataFrame:
    """Per task and method: how many runs are exact, finished, wrong at their stop; trajectories, ours and paper's.

    trajectories: median and range at the method's own stop, over the runs that came to one. first right: median when
    the answer first was the truth. low, high: Wilson's 95 % interval of the share of exact runs. key states: share of
    the true ones in the last answer, mean over runs.
    """
    runs, rows = discoveries(table), []
    for task in tasks:
        for method in methods:
            some = runs[(runs.task == task) & (runs.method == method)]
            if some.empty:
                continue
            ended = some[some.finished.astype(bool)]
            share = wilson(some.exact.sum(), len(some))
            mean, spread = PAPER_TRAJECTORIES.get((task, method), (None, None))
            rows.append(
                {
                    "task": task,
                    "method": NAMES[method],
                    "exact": f"{int(some.exact.sum())} of {len(some)}",
                    "low": round(float(share.low), 2),
                    "high": round(float(share.high), 2),
                    "finished": len(ended),
                    "stopped wrong": int(some.stopped_wrong.sum()),
                    "key states": round(float(some.found.mean()), 2),
                    "trajectories": _median_and_range(ended.trajectories),
                    "first right": _median_and_range(some.first_right_trajectories.dropna()),
                    "paper": f"{mean:,} ± {spread:,}" if mean else "",
                }
            )
    counts = ["exact", "low", "high", "finished", "stopped wrong", "key states", "trajectories", "first right"]
    return pd.DataFrame(rows, columns=["task", "method", *counts, "paper"])


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
        colour = COLOURS.get(method, MUTED)
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
    ax.set_yticks(range(len(rows)), [f"{title(task)}: {NAMES[method]}" for task, method in rows])
    ax.set(xscale="log", xlabel="trajectories until every subgoal is learned", ylim=(len(rows) - 0.4, -0.6))
    ax.set(xlim=(30, 100_000))
    ax.xaxis.set_major_formatter(_count)
    ax.grid(axis="x", color="#e4e7eb", linewidth=0.6)
    key = [
        ax.scatter([], [], s=18, color=MUTED, label="a run at its own stop"),
        ax.scatter([], [], s=18, facecolors="none", edgecolors=MUTED, label="a run whose budget ended before"),
        ax.scatter([], [], s=22, color=MUTED, marker="D", label="the paper's mean ± (other FSM drawings)"),
    ]
    fig.legend(handles=key[: 2 + paper], loc="outside upper center", ncols=3, fontsize=7)
    return fig


def draw_exact(table: pd.DataFrame, tasks: Sequence[str], methods: Sequence[str]) -> Figure:
    """How many runs end with exactly the true sequences: a row for each method, a column for each task."""
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
        ax.text(x + 0.5, y + 0.5, "no runs", ha="center", va="center", fontsize=7, color=MUTED)
    ax.set_xticklabels([title(task).replace(" Task", "\nTask") for task in tasks])
    ax.set_yticklabels([NAMES[method] for method in methods], rotation=0)
    ax.set_ylabel("")
    ax.tick_params(length=0)
    ax.xaxis.tick_top()
    ax.set_xlabel(" ", fontsize=6)  # leaves room for the note of the profile
    return fig


def _median_and_range(values: pd.Series) -> str:
    if values.empty:
        return "–"
    return f"{int(values.median()):,} ({int(values.min()):,} to {int(values.max()):,})"


# --- solving ---------------------------------------------------------------------------------------------------------


def solved_table(table: pd.DataFrame, tasks: Iterable[str], methods: Iterable[str]) -> pd.DataFrame:
    """Per task and method: in how many runs the task was solved, and after how many steps: median and range."""
    rows = []
    for task, method in product(tasks, methods):
        runs = _of(table, task)
        last = runs[runs.method == method].groupby("seed").last() if len(runs) else runs
        if last.empty:
            continue
        solved = last[last.solved.astype(bool)]
        share = f"{len(solved)} of {len(last)}"
        rows.append((task, NAMES[method], share, _median_and_range(solved.env_steps), int(last.budget.max())))
    return pd.DataFrame(rows, columns=["task", "method", "solved", "steps", "budget"])


# --- labels -----------------------------------------------------------------------------------------------------------


def label_table(table: pd.DataFrame) -> pd.DataFrame:
    """Per test task: runs that learned labels, steps they took to it, worst precision and recall of a label."""
    columns = ["task", "labels learned", "steps to learn them", "precision", "recall"]
    if "labels_learned" not in table:
        return pd.DataFrame(columns=columns)
    rows = []
    for task, some in table[table.labels_learned.notna()].groupby(["task", "seed"]).last().groupby("task"):
        worst = [some[name].min() if name in some else np.nan for name in ("label_precision", "label_recall")]
        learned = f"{int(some.labels_learned.sum())} of {len(some)}"
        rows.append((task, learned, _median_and_range(some.train_steps), *worst))
    return pd.DataFrame(rows, columns=columns)


# --- panels -----------------------------------------------------------------------------------------------------------


def title(task: str) -> str:
    """The paper's way to name a task, Office Task 2; a test world by what is different in it, Office, other walls."""
    domain, number, *variant = task.split("-")
    return f"{domain.capitalize()}, {_VARIANTS[variant[0]]}" if variant else f"{domain.capitalize()} Task {number}"


def _of(table: pd.DataFrame, task: str) -> pd.DataFrame:
    return table[table.task == task]


def _panels(tasks: Sequence[str]) -> tuple[Figure, list[Axes]]:
    columns = 2 if len(tasks) in (2, 4) else 3
    rows = -(-len(tasks) // columns)
    fig, axes = plt.subplots(rows, columns, figsize=(2.75 * columns + 0.4, 1.95 * rows + 0.9), squeeze=False)
    for task, ax in zip(tasks, axes.flat, strict=True):
        ax.set_title(f"{title(task)}:  {TASKS[task].formula.pretty}", fontsize=9)
    return fig, list(axes.flat)


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
    order = [name for name in dict.fromkeys(NAMES.values()) if name in found]
    if order:
        handles = [found[name] for name in order]
        fig.legend(handles, order, loc="outside upper center", ncols=min(len(order), 3 if len(order) != 4 else 2))
    fig.supxlabel(xlabel, fontsize=9)
    fig.supylabel(ylabel, fontsize=9)
