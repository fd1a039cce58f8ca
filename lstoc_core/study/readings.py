"""Which reading of the paper makes its method work? A multiverse of the choices that the paper leaves open.

The published algorithm (`Forward`) runs on the same given trajectories, once for each `Reading`. In Letter they are
random walks, which take exploration out of the question. In Office and Crafter a random walk completes no task
(`data/tasks.csv`); there they are those of π_exp before its first discovery.
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
from lstoc_core.study.learners import explored, true_paths
from lstoc_core.study.resuming import Rows, place_of, resumed
from lstoc_core.study.stats import wilson
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
"""After so many on the same trajectories the algorithm is taken to be stuck."""
FIRST_LAYOUT = 1_000
"""Layout seed of the first random layout; none of the reported tasks is drawn by such a seed."""


@dataclass(frozen=True)
class Reading:
    """One choice for each thing that the paper leaves open; the defaults are the best reading in Letter."""

    wrap: bool = True
    """Whether the Letter map wraps round, as in the world it descends from."""
    start: Literal["fixed", "random"] = "fixed"
    """Where episodes start."""
    horizon: int | None = None
    """None: the task's."""
    gamma: float | None = None
    """Discount of temporal geometric sampling; None: by the rule of `Task.discount`."""
    training: str = "converged"
    """A key of TRAINING."""
    threshold: int = 80
    """N_T at the first call."""
    share: float = 1.0
    """Of the trajectories, those that are given."""
    epsilon: float | None = None
    """Probability of a random action of π_exp while it is trained; None: random walks."""

    @property
    def data(self) -> dict[str, Any]:
        """The choices that decide which trajectories there are."""
        return {"wrap": self.wrap, "start": self.start, "horizon": self.horizon, "epsilon": self.epsilon}


@dataclass(frozen=True)
class Multiverse:
    """The readings that are tried in a domain."""

    best: Reading
    first: Reading
    """What we took the paper to mean at first."""
    alternatives: dict[str, tuple[Any, ...]]
    """Other values of each choice, tried with all else at the best reading."""
    grid: dict[str, tuple[Any, ...]]
    """The choices that carry the result, in all combinations."""

    def readings(self) -> Iterator[Reading]:
        """All that are tried, each once: the best one, our first one, one choice changed, and the grid."""
        changed = [self.changed(name, value) for name, values in self.alternatives.items() for value in values]
        grid = [
            replace(self.best, **dict(zip(self.grid, values, strict=True))) for values in product(*self.grid.values())
        ]
        yield from dict.fromkeys([self.best, self.first, *changed, *grid])

    def changed(self, name: str, value: Any) -> Reading:
        """The best reading with one choice changed."""
        return replace(self.best, **{name: value})

    def named(self) -> dict[str, Reading]:
        """The best reading, each single change of it, and our first one, by how a reader would call them."""
        changes = {
            _words(name, value): self.changed(name, value)
            for name, values in self.alternatives.items()
            for value in values
        }
        return {"best reading": self.best, **changes, "our first reading": self.first}


_TRAININGS = ("closed form", "one positive per step")
_LETTER = Multiverse(
    best=Reading(),
    first=Reading(wrap=False, gamma=0.99, training="one positive per step"),
    alternatives={
        "wrap": (False,),
        "start": ("random",),
        "horizon": (100,),
        "gamma": (0.8, 0.95, 0.97, 0.99),
        "training": _TRAININGS,
        "threshold": (20, 160),
        "share": (0.25, 0.5),
        "epsilon": (0.5,),
    },
    grid={"wrap": (True, False), "gamma": (None, 0.8, 0.95, 0.97, 0.99), "training": tuple(TRAINING)},
)
_OFFICE = Multiverse(
    best=Reading(wrap=False, epsilon=0.5),
    first=Reading(wrap=False, epsilon=0.5, gamma=0.99, training="one positive per step"),
    alternatives={
        "gamma": (0.8, 0.9, 0.95, 0.99),
        "training": _TRAININGS,
        "threshold": (20, 160),
        "share": (0.25, 0.5),
        "epsilon": (0.1,),
    },
    grid={"gamma": (None, 0.8, 0.9, 0.95, 0.99), "training": tuple(TRAINING)},
)
MULTIVERSES = {"letter": _LETTER, "office": _OFFICE, "crafter": _OFFICE}
"""By domain."""


def measure(spec: RunSpec) -> pd.DataFrame:
    """The published algorithm on one map by every reading: a row for each, with how it ended.

    Method "layouts": the task's formula on a random layout for each seed. Method "tasks": the task as reported; the
    seed is that of the episodes. spec.config: walks (random walks), steps (of π_exp), readings (how many, in order).
    """
    chosen = list(MULTIVERSES[TASKS[spec.task].domain].readings())[: spec.config["readings"]]
    collect = cache(partial(_collect, spec))  # readings with the same trajectories share them
    with resumed(Rows, place_of(spec, __name__, "rows")) as (table, save):
        for reading in chosen[len(table.rows) :]:
            store = collect(**reading.data)
            given = store.select(np.arange(round(reading.share * len(store))))
            table.rows.append(asdict(reading) | outcome(_task(spec, reading), given, reading, seed=spec.seed))
            save()
    return pd.DataFrame(table.rows)


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


def _collect(spec: RunSpec, **data: Any) -> TrajectoryStore:
    """The trajectories of readings with these choices."""
    task, epsilon = _task(spec, Reading(**data)), data["epsilon"]
    if epsilon is None:
        return random_walks(make_vec(task, num_envs=1000), spec.config["walks"], seed=spec.seed)
    place = place_of(spec, __name__, *data.items())
    return explored(task, spec.config["steps"], epsilon=epsilon, seed=spec.seed, place=place)


def _task(spec: RunSpec, reading: Reading) -> Task:
    """The world of a reading."""
    task = TASKS[spec.task]
    if spec.method == "layouts":
        layout = FIRST_LAYOUT + spec.seed
        task = make_task(domain=task.domain, formula=task.formula, name=f"{task.name}-{layout}", layout_seed=layout)
    start = None if reading.start == "random" else task.start
    return replace(task, wrap=reading.wrap, start=start, horizon=reading.horizon or task.horizon)


# --- tables -----------------------------------------------------------------------------------------------------------


def is_reading(table: pd.DataFrame, reading: Reading) -> "pd.Series[bool]":
    """Which rows are of this reading."""
    same = pd.Series(True, index=table.index)
    for name, value in asdict(reading).items():
        same &= table[name].isna() if value is None else table[name] == value
    return same


def shares(table: pd.DataFrame, domain: str) -> pd.DataFrame:
    """Per named reading and source of maps: exact runs, their share with Wilson's interval, right first states."""
    rows = []
    of_domain = table[table.task.str.startswith(f"{domain}-")]
    for name, reading in MULTIVERSES[domain].named().items():
        for source, runs in of_domain[is_reading(of_domain, reading)].groupby("method"):
            share = wilson(runs.exact.sum(), len(runs))
            rows.append(
                {
                    "domain": domain,
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


def _words(name: str, value: Any) -> str:
    """A change of the best reading, as a reader would call it."""
    words = {
        "wrap": "a flat map",
        "start": "random starts",
        "horizon": f"horizon {value}",
        "gamma": f"γ = {value}",
        "training": f"f: {value}",
        "threshold": f"N_T = {value}",
        "share": f"{value:.0%} of the episodes" if name == "share" else "",
        "epsilon": f"π_exp with ε = {value}",
    }
    return words[name]
