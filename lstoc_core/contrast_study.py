"""When does the highest importance point at the next subgoal? A study over random layouts, and the figures of it.

The paper selects the state of highest f_omega as the next key state (Algorithm 2, line 14). Two questions are kept
apart: does training reach the optimum of the objective (`agreement`), and does that optimum lie at the next subgoal
(`order_study`)?
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import get_args

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray
from scipy.stats import spearmanr

from lstoc_core.envs import compile_world, make_vec
from lstoc_core.importance import Contrast, Objective, Training, exact_importance, make_contrast, train_importance
from lstoc_core.plotting import INK, PALETTE, draw_grid
from lstoc_core.representation import represent, train_representation
from lstoc_core.tasks import TASKS, Task, make_task
from lstoc_core.trajectories import TrajectoryStore, earliest_match, first_occupancy, random_walks

SMOOTHING = 1e-4
"""Added to both occupancies wherever an exact optimum is ranked or drawn, so that no value is infinite."""
EXACT, PAPER = "exact optimum", "one positive per step (paper)"
SETTLED, FULL = "64 positives, falling rate", "all data, falling rate"
TRAINED = {
    PAPER: Training(),
    SETTLED: Training(positives_per_step=64, anneal=True),
    FULL: Training(full_batch=True, anneal=True),
}
"""Ways to train f for 700 steps: the paper's, one that settles, and one without sampling noise."""
VERDICTS = ("next subgoal", "later subgoal", "no subgoal")


def split(store: TrajectoryStore) -> tuple[TrajectoryStore, TrajectoryStore]:
    """Positives and negatives of a store."""
    return store.select(store.positives), store.select(store.negatives)


def verdict(task: Task, importance: NDArray[np.floating]) -> str:
    """What the state of highest importance is: a subgoal that begins a sequence, another subgoal, or none."""
    world = compile_world(task)
    best = int(np.nanargmax(importance))
    here = {symbol for symbol in task.formula.symbols if world.observation_of_symbol(symbol) == best}
    if here & {sequence[0] for sequence in task.sequences}:
        return VERDICTS[0]
    return VERDICTS[1] if here else VERDICTS[2]


def importance_table(stores: Mapping[str, TrajectoryStore], *, gamma: float, seed: int) -> pd.DataFrame:
    """f at the root of each named task by all objectives, trained and exact: columns task, objective, method, id, f."""
    parts = []
    for name, store in stores.items():
        for objective in get_args(Objective):
            contrast = make_contrast(*split(store), objective=objective, gamma=gamma)
            for method, (f,) in _all_ways([contrast], list(TRAINED), seed).items():
                keys = {"task": name, "objective": objective, "method": method}
                parts.append(pd.DataFrame({**keys, "id": np.arange(len(f)), "f": f}))
    return pd.concat(parts, ignore_index=True)


def agreement(table: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation of trained with exact importance over visited states, and where the exact optimum lies."""
    rows = []
    for (name, objective), part in table.groupby(["task", "objective"], sort=False):
        f = part.pivot(index="id", columns="method", values="f")
        row = {"task": name, "objective": objective, "exact optimum at": verdict(TASKS[name], f[EXACT].to_numpy())}
        rows.append(row | {way: spearmanr(f[way], f[EXACT], nan_policy="omit").statistic for way in TRAINED})
    return pd.DataFrame(rows)


def input_table(stores: Mapping[str, TrajectoryStore], *, gamma: float, seed: int, restarts: int = 10) -> pd.DataFrame:
    """What f reads, random directions or o_theta, and how well its restarts then agree with the exact optimum.

    Columns: rank correlation over visited states (median and range over restarts), and how many restarts are highest
    where the optimum is.
    """
    rows = []
    for name, store in stores.items():
        observations = compile_world(name).observations
        learned = represent(train_representation(observations, seed=seed), observations)
        contrast = make_contrast(*split(store), gamma=gamma)
        exact = exact_importance(contrast, smoothing=SMOOTHING)
        for (kind, inputs), way in product({"random directions": None, "o_θ": learned}.items(), (PAPER, SETTLED)):
            trained = train_importance([contrast], inputs, restarts=restarts, seed=seed, training=TRAINED[way])[0]
            correlation = [spearmanr(f, exact, nan_policy="omit").statistic for f in trained]
            low, median, high = np.quantile(correlation, [0, 0.5, 1])
            row = {"task": name, "f reads": kind, "training": way, "median": median, "low": low, "high": high}
            agree = sum(np.nanargmax(f) == np.nanargmax(exact) for f in trained)
            rows.append(row | {"highest where the optimum is": f"{agree} of {restarts}"})
    return pd.DataFrame(rows)


def key_state_table(task: Task, store: TrajectoryStore, *, gamma: float) -> pd.DataFrame:
    """Per subgoal: which share of positives and negatives visits it, as which first visit on average, and exact f."""
    world = compile_world(task)
    exact = exact_importance(make_contrast(*split(store), gamma=gamma), smoothing=SMOOTHING)
    rows = []
    for symbol in task.formula.symbols:
        key_state = world.observation_of_symbol(symbol)
        row: dict[str, object] = {"subgoal": symbol}
        for label, part in zip(("positives", "negatives"), split(store), strict=True):
            match = earliest_match(part := first_occupancy(part), [key_state])
            row[f"visited by {label}"] = f"{np.mean(match >= 0):.0%}"
            row[f"as n-th state, {label}"] = np.mean((match - part.offsets[:-1])[match >= 0]).round(1)
        rows.append(row | {"f": exact[key_state].round(2), "rank of f": 1 + int(np.sum(exact > exact[key_state]))})
    return pd.DataFrame(rows)


# --- the study ---


def random_layout(rng: np.random.Generator, *, start: tuple[int, int] | None, horizon: int) -> Task:
    """a;b;c on a 10×10 Letter map with the letters at random places."""
    cells = rng.choice(99, 3, replace=False) + 1  # not on the corner where episodes start
    positions = {symbol: (int(cell % 10), int(cell // 10)) for symbol, cell in zip("abc", cells, strict=True)}
    return make_task(domain="letter", formula="a;b;c", positions=positions, size=(10, 10), start=start, horizon=horizon)


def order_study(
    *,
    layouts: int,
    trajectories: int,
    seed: int,
    gammas: Sequence[float],
    horizons: Sequence[int],
    positives: Sequence[int],
    gamma: float = 0.97,
    horizon: int = 200,
) -> pd.DataFrame:
    """Which state has the highest LSTOC importance at the root of a;b;c, on random-walk data from random layouts.

    One factor varies at a time (column `sweep`), the others stay at `gamma`, `horizon` and all positives found. One row
    per layout, start (fixed corner or random), value and way of getting f: exact, and trained in two ways.
    """
    rows = []
    for start_name, start in (("fixed", (0, 0)), ("random", None)):
        tasks = [random_layout(np.random.default_rng([seed, i]), start=start, horizon=horizon) for i in range(layouts)]
        data = {
            steps: [
                random_walks(make_vec(replace(task, horizon=steps), num_envs=1000), trajectories, seed=seed + i)
                for i, task in enumerate(tasks)
            ]
            for steps in sorted({*horizons, horizon})
        }
        settings: list[tuple[str, float, float, int, int | None]]
        settings = [("gamma", float(value), value, horizon, None) for value in gammas]
        settings += [("horizon", float(value), gamma, value, None) for value in horizons]
        settings += [("positives", float(value), gamma, horizon, value) for value in positives]
        for sweep, value, discount, steps, limit in settings:
            usable, contrasts = [], []
            for task, store in zip(tasks, data[steps], strict=True):
                found, failed = split(store)
                if len(found) >= (limit or 1):
                    usable.append(task)
                    kept = found.select(np.arange(limit)) if limit else found
                    contrasts.append(make_contrast(kept, failed, gamma=discount))
            if not contrasts:
                continue
            for method, importances in _all_ways(contrasts, [PAPER, SETTLED], seed).items():
                for task, importance in zip(usable, importances, strict=True):
                    row = {"sweep": sweep, "value": value, "start": start_name, "method": method}
                    distance = sum(task.positions["a"])
                    rows.append({**row, "distance": distance, "verdict": verdict(task, importance)})
    return pd.DataFrame(rows)


def _all_ways(contrasts: Sequence[Contrast], ways: Sequence[str], seed: int) -> dict[str, list[NDArray] | NDArray]:
    exact = [exact_importance(contrast, smoothing=SMOOTHING) for contrast in contrasts]
    return {EXACT: exact} | {way: train_importance(contrasts, seed=seed, training=TRAINED[way])[:, 0] for way in ways}


# --- figures ---


def draw_importance(ax: Axes, task: Task, importance: NDArray[np.floating], *, title: str = "") -> AxesImage:
    """Importance on the map, one value per cell, the task's true key states framed."""
    world = compile_world(task)
    values = world.values_on_map(importance)
    walls = np.ones(values.shape, np.bool_)
    walls[world.coordinates[:, 1], world.coordinates[:, 0]] = False
    key_states = {symbol: task.positions[symbol] for symbol in task.formula.symbols}
    image = draw_grid(ax, values, outline=key_states, walls=walls)
    for text in ax.texts:
        text.set_in_layout(False)  # they lie within the cells; measuring hundreds of them is slow
    ax.set_title(title)
    return image


def temporal_figure(table: pd.DataFrame) -> Figure:
    """The paper's figure contrastive_temporal: LSTOC and Baseline 2 per task, each trained and exact."""
    tasks = table.task.unique()
    wide = [TASKS[task].size[0] > 12 for task in tasks]  # two panels side by side instead of four, so that texts fit
    heights = [11.6 if each else 3.7 for each in wide]
    figure = plt.figure(figsize=(15, sum(heights)), dpi=80)
    parts = figure.subfigures(len(tasks), 1, squeeze=False, height_ratios=heights)[:, 0]
    grids = [part.subplots(*((2, 2) if each else (1, 4))) for part, each in zip(parts, wide, strict=True)]
    figure.canvas.draw()  # the sizes of the cells, and so of the numbers in them, follow from the layout
    columns = [(o, m) for o in ("lstoc", "baseline2") for m in (PAPER, EXACT)]
    for task, grid in zip(tasks, grids, strict=True):
        for ax, (objective, method) in zip(grid.flat, columns, strict=True):
            part = table[(table.task == task) & (table.objective == objective) & (table.method == method)]
            name, kind = {"lstoc": "LSTOC", "baseline2": "Baseline"}[objective], {PAPER: "trained"}.get(method, method)
            image = draw_importance(ax, TASKS[task], part.f.to_numpy(), title=f"{name}, {task}: {kind}")
            ax.figure.colorbar(image, ax=ax, shrink=0.75, pad=0.01).outline.set_visible(False)
    return figure


def order_figure(table: pd.DataFrame) -> Figure:
    """The figure contrastive_order: how often the highest importance lies at the next subgoal."""
    figure, axes = plt.subplots(2, 2, figsize=(11, 7))
    names = {
        "gamma": "discount γ of temporal geometric sampling",
        "horizon": "horizon of the episodes",
        "positives": "positive trajectories",
    }
    colours = dict(zip(table.method.unique(), (PALETTE["oracle"], PALETTE["baseline1"], PALETTE["lstoc"]), strict=True))
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
    for kind, colour in zip(VERDICTS, (PALETTE["lstoc"], PALETTE["ppo"], "#cbd2d9"), strict=True):
        ax.bar(shares.index, shares[kind], bottom=bottom, color=colour, label=kind, width=0.7)
        bottom += shares[kind].to_numpy()
    ax.set(xlabel="steps from the start to the next subgoal a", ylabel="highest exact f, fixed start", ylim=(0, 1))
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
