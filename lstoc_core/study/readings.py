"""Which reading of the paper makes its method work? A multiverse of the choices that the paper leaves open.

The published algorithm (`Forward`) runs on random walks in Letter worlds, once for each `Reading`. Random walks take
exploration out of the question: what is left is the world, the sampling and the training of f_ω.

Office and Crafter are not in it yet: a random walk completes no task there (`data/tasks.csv`).
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd

from lstoc_core.discovery.published.forward import Forward, ForwardConfig
from lstoc_core.discovery.published.training import TRAININGS
from lstoc_core.run.methods import named
from lstoc_core.study.cache import RunSpec
from lstoc_core.study.contrast import verdict
from lstoc_core.study.learners import true_paths
from lstoc_core.trajectories import TrajectoryStore, random_walks
from lstoc_core.worlds import make_vec
from lstoc_core.worlds.tasks import TASKS, Task, make_task

TRAINING = {
    "closed form": TRAININGS["converged"],
    "converged": TRAININGS["converged"],
    "one positive per step": TRAININGS["printed"],
}
"""How f_ω is found: the optimum of its objective without training; 700 steps on all data with a falling rate; 700 steps
on one positive and 64 negatives each at the rate 0.01, as "L = 700 iterations" can be read literally."""
MOST_RESTARTS = 6
"""After so many on the same walks the algorithm is taken to be stuck."""
FIRST_LAYOUT = 1_000
"""Layout seed of the first random layout; none of the reported tasks is drawn by such a seed."""


@dataclass(frozen=True)
class Reading:
    """One choice for each thing that the paper leaves open; the defaults are the best reading."""

    wrap: bool = True
    """Whether the Letter map wraps round, as in the world it descends from."""
    start: Literal["corner", "random"] = "corner"
    """Where episodes start."""
    horizon: int = 200
    gamma: float | None = None
    """Discount of temporal geometric sampling; None: by the rule of `Task.discount`."""
    training: str = "converged"
    """A key of TRAINING."""
    threshold: int = 80
    """N_T at the first call."""
    walks: int = 12_000
    """Trajectories given."""


BEST = Reading()
FIRST = Reading(wrap=False, gamma=0.99, training="one positive per step")
"""What we took the paper to mean at first."""
ALTERNATIVES: dict[str, tuple[Any, ...]] = {
    "wrap": (False,),
    "start": ("random",),
    "horizon": (100,),
    "gamma": (0.8, 0.95, 0.97, 0.99),
    "training": ("closed form", "one positive per step"),
    "threshold": (20, 160),
    "walks": (3_000, 6_000),
}
"""Other values of each choice, tried with all else at the best reading."""
GRID: dict[str, tuple[Any, ...]] = {
    "wrap": (True, False),
    "gamma": (None, 0.8, 0.95, 0.97, 0.99),
    "training": tuple(TRAINING),
}
"""The choices that carry the result, in all combinations."""


def readings() -> Iterator[Reading]:
    """All that are tried, each once: the best one, one choice changed, the grid, and our first one."""
    changed = [replace(BEST, **{name: value}) for name, values in ALTERNATIVES.items() for value in values]
    grid = [replace(BEST, **dict(zip(GRID, values, strict=True))) for values in product(*GRID.values())]
    yield from dict.fromkeys([BEST, *changed, *grid, FIRST])


def measure(spec: RunSpec) -> pd.DataFrame:
    """The published algorithm on one map by every reading: a row for each, with how it ended.

    Method "layouts": the task's formula on a random layout for each seed. Method "tasks": the task as reported; the
    seed is that of the walks. spec.config: walks (most trajectories), readings (how many, in their order).
    """
    rows = []
    chosen = list(readings())[: spec.config["readings"]]
    walks = cache(partial(_walks, spec))  # readings of the same world share them
    for reading in chosen:
        task = _task(spec, reading.wrap, reading.start, reading.horizon)
        store = walks(reading.wrap, reading.start, reading.horizon)
        given = store.select(np.arange(min(reading.walks, len(store))))
        rows.append(asdict(reading) | outcome(task, given, reading, seed=spec.seed))
    return pd.DataFrame(rows)


def outcome(task: Task, store: TrajectoryStore, reading: Reading, *, seed: int) -> dict[str, Any]:
    """How the published algorithm ends on given trajectories.

    exact: its sequences are the true ones. first: what the state of highest f at the root is (see `contrast.verdict`).
    """
    fsm = task.formula.fsm()
    gamma = task.discount if reading.gamma is None else reading.gamma
    config = ForwardConfig(threshold=reading.threshold, gamma=gamma, exact=reading.training == "closed form")
    method = Forward(config, fsm, partial(named, fsm=fsm), TRAINING[reading.training], seed)
    for restarts in range(MOST_RESTARTS + 1):
        method.advance(store)
        if method.restarts == restarts:
            break
    found = [attempt.importances[0] for attempt in (*method.abandoned, method.attempt) if attempt.importances]
    return {
        "used_gamma": gamma,
        "successes": len(store.positives),
        "exact": set(method.paths) == set(true_paths(task)),
        "finished": method.finished,
        "restarts": method.restarts,
        "first": verdict(task, found[0]) if found else "none",
    }


def _walks(spec: RunSpec, wrap: bool, start: str, horizon: int) -> TrajectoryStore:
    env = make_vec(_task(spec, wrap, start, horizon), num_envs=1000)
    return random_walks(env, spec.config["walks"], seed=spec.seed)


def _task(spec: RunSpec, wrap: bool, start: str, horizon: int) -> Task:
    place = (0, 0) if start == "corner" else None
    task = TASKS[spec.task]
    if spec.method == "layouts":
        layout = FIRST_LAYOUT + spec.seed
        task = make_task(domain=task.domain, formula=task.formula, name=f"{task.name}-{layout}", layout_seed=layout)
    return replace(task, wrap=wrap, start=place, horizon=horizon)


# --- tables -----------------------------------------------------------------------------------------------------------


def is_reading(table: pd.DataFrame, reading: Reading) -> "pd.Series[bool]":
    """Which rows are of this reading."""
    same = pd.Series(True, index=table.index)
    for name, value in asdict(reading).items():
        same &= table[name].isna() if value is None else table[name] == value
    return same


def shares(table: pd.DataFrame, chosen: dict[str, Reading]) -> pd.DataFrame:
    """Per named reading and source of maps: exact runs, their share with Wilson's interval, and right first states."""
    from lstoc_core.study.stats import wilson

    rows = []
    for name, reading in chosen.items():
        for source, runs in table[is_reading(table, reading)].groupby("method"):
            share = wilson(runs.exact.sum(), len(runs))
            rows.append(
                {
                    "reading": name,
                    "maps": source,
                    "exact": f"{int(runs.exact.sum())} of {len(runs)}",
                    "share": float(share.estimate),
                    "low": float(share.low),
                    "high": float(share.high),
                    "first state right": f"{int((runs['first'] == 'next subgoal').sum())} of {len(runs)}",
                    "stopped wrong": int((runs.finished & ~runs.exact).sum()),
                }
            )
    return pd.DataFrame(rows)


def named_readings() -> dict[str, Reading]:
    """The best reading, each single change of it, and our first one, by how a reader would call them."""
    words: dict[str, dict[Any, str]] = {
        "wrap": {False: "a flat map"},
        "start": {"random": "random starts"},
        "horizon": {value: f"horizon {value}" for value in ALTERNATIVES["horizon"]},
        "gamma": {value: f"γ = {value}" for value in ALTERNATIVES["gamma"]},
        "training": {value: f"f: {value}" for value in ALTERNATIVES["training"]},
        "threshold": {value: f"N_T = {value}" for value in ALTERNATIVES["threshold"]},
        "walks": {value: f"{value:,} walks" for value in ALTERNATIVES["walks"]},
    }
    changed = {words[n][value]: replace(BEST, **{n: value}) for n, values in ALTERNATIVES.items() for value in values}
    return {"best reading": BEST, **changed, "our first reading": FIRST}
