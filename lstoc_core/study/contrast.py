"""When does the highest importance point at the next subgoal? A study over random layouts.

The paper selects the state of highest f_omega as the next key state (Algorithm 2, line 14). Two questions are kept
apart: does training reach the optimum of the objective (`agreement`), and does that optimum lie at the next subgoal
(`order_study`)?
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import spearmanr

from lstoc_core.discovery.published.importance import (
    ContrastData,
    Objective,
    exact_importance,
    make_contrast,
    train_importance,
)
from lstoc_core.discovery.published.training import TRAININGS, Training
from lstoc_core.trajectories import TrajectoryStore, earliest_match, first_occupancy, random_walks
from lstoc_core.trajectories.representation import represent, train_representation
from lstoc_core.worlds import compile_world, make_vec
from lstoc_core.worlds.tasks import TASKS, Task, make_task

SMOOTHING = 1e-4
"""Added to both occupancies wherever an exact optimum is ranked or drawn, so that no value is infinite."""
EXACT, PRINTED = "exact optimum", "one positive per step"
SETTLED, FULL = "64 positives, falling rate", "all data, falling rate"
TRAINED = {
    PRINTED: TRAININGS["printed"],
    SETTLED: Training(positives_per_step=64, anneal=True),
    FULL: TRAININGS["converged"],
}
"""Ways to train f for 700 steps: as printed, one that settles, and one without sampling noise, our default."""
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


def ranks(task: Task, importance: NDArray[np.floating]) -> dict[str, int]:
    """Rank of f at each subgoal's key state among all visited states; 1 is the highest."""
    world = compile_world(task)
    f = {symbol: importance[world.observation_of_symbol(symbol)] for symbol in task.formula.symbols}
    return {symbol: 1 + int(np.sum(importance > value)) for symbol, value in f.items()}


def importance_table(stores: Mapping[str, TrajectoryStore], *, seed: int) -> pd.DataFrame:
    """f at the root of each named task by all objectives, at the task's own γ.

    Columns task, objective and id, then f by each way of getting it: exact, and trained.
    """
    parts = []
    for name, store in stores.items():
        for objective in get_args(Objective):
            contrast = make_contrast(*split(store), objective=objective, gamma=TASKS[name].discount)
            f = {way: values[0] for way, values in _all_ways([contrast], list(TRAINED), seed).items()}
            keys = {"task": name, "objective": objective, "id": np.arange(store.num_ids)}
            parts.append(pd.DataFrame(keys | f))
    return pd.concat(parts, ignore_index=True)


def agreement(table: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation of trained with exact importance over visited states, and where the exact optimum lies."""
    rows = []
    for (name, objective), f in table.groupby(["task", "objective"], sort=False):
        row = {"task": name, "objective": objective, "exact optimum at": verdict(TASKS[name], f[EXACT].to_numpy())}
        rows.append(row | {way: spearmanr(f[way], f[EXACT], nan_policy="omit").statistic for way in TRAINED})
    return pd.DataFrame(rows)


def input_table(stores: Mapping[str, TrajectoryStore], *, seed: int, restarts: int = 10) -> pd.DataFrame:
    """What f reads, random directions or o_theta, and how well its restarts then agree with the exact optimum.

    Each task has its own γ. Columns: rank correlation over visited states (median and range over restarts), and how
    many restarts are highest where the optimum is.
    """
    rows = []
    for name, store in stores.items():
        observations = compile_world(name).observations
        learned = represent(train_representation(observations, seed=seed), observations)
        contrast = make_contrast(*split(store), gamma=TASKS[name].discount)
        exact = exact_importance(contrast, smoothing=SMOOTHING)
        for (kind, inputs), way in product({"random directions": None, "o_θ": learned}.items(), TRAINED):
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
    rank = ranks(task, exact)
    rows = []
    for symbol in task.formula.symbols:
        key_state = world.observation_of_symbol(symbol)
        row: dict[str, object] = {"subgoal": symbol}
        for label, part in zip(("positives", "negatives"), split(store), strict=True):
            match = earliest_match(part := first_occupancy(part), [key_state])
            row[f"visited by {label}"] = f"{np.mean(match >= 0):.0%}"
            row[f"as n-th state, {label}"] = np.mean((match - part.offsets[:-1])[match >= 0]).round(1)
        rows.append(row | {"f": exact[key_state].round(2), "rank of f": rank[symbol]})
    return pd.DataFrame(rows)


# --- the study ---


def random_layout(rng: np.random.Generator, *, start: tuple[int, int] | None, horizon: int) -> Task:
    """a;b;c on a flat 10×10 Letter map with the letters at random places."""
    cells = rng.choice(99, 3, replace=False) + 1  # not on the corner where episodes start
    positions = {symbol: (int(cell % 10), int(cell // 10)) for symbol, cell in zip("abc", cells, strict=True)}
    return make_task(
        domain="letter", formula="a;b;c", positions=positions, size=(10, 10), start=start, horizon=horizon, wrap=False
    )


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
    """Which state has the highest LSTOC importance at the root of a;b;c, on random-walk data from random flat layouts.

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
            for method, importances in _all_ways(contrasts, [PRINTED, SETTLED], seed).items():
                for task, importance in zip(usable, importances, strict=True):
                    row = {"sweep": sweep, "value": value, "start": start_name, "method": method}
                    distance = sum(task.positions["a"])
                    rows.append({**row, "distance": distance, "verdict": verdict(task, importance)})
    return pd.DataFrame(rows)


def _all_ways(contrasts: Sequence[ContrastData], ways: Sequence[str], seed: int) -> dict[str, list[NDArray] | NDArray]:
    exact = [exact_importance(contrast, smoothing=SMOOTHING) for contrast in contrasts]
    return {EXACT: exact} | {way: train_importance(contrasts, seed=seed, training=TRAINED[way])[:, 0] for way in ways}
