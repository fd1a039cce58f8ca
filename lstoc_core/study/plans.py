"""What an experiment is: a question, the runs that answer it under each profile, its table and its drawing."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

from lstoc_core.study.cache import Function, RunSpec
from lstoc_core.study.variants import ExperimentError, known
from lstoc_core.worlds.tasks import TASKS, Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STEP_COST = {"crafter": 4}
"""Time of an environment step by domain; 1 in the others."""


class Tabulate(Protocol):
    """The table of an experiment: from its runs to a row for each task and method."""

    def __call__(self, runs: pd.DataFrame, tasks: Sequence[str], /) -> pd.DataFrame: ...


class Draw(Protocol):
    """The drawing of an experiment; `seed` is that of the bootstrap intervals."""

    def __call__(self, runs: pd.DataFrame, tasks: Sequence[str], /, *, seed: int = 0) -> "Figure": ...


@dataclass(frozen=True)
class Kind:
    """A kind of run: what is measured, and what a run is told. Experiments of one kind share their runs."""

    name: str
    """Directory of its runs."""
    measure: Function
    """Does one run. Given as "package.module:name", it is imported by the process that does the run."""
    config: Callable[[Task, str, str], Mapping[str, Any]]
    """(task, method, profile) -> configuration of the run, as plain JSON."""


@dataclass(frozen=True)
class Plan:
    """All combinations of some tasks, methods and seeds."""

    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: int


@dataclass(frozen=True)
class Experiment:
    """One question and how it is answered."""

    question: str
    kind: Kind
    plans: Mapping[str, tuple[Plan, ...]]
    """What is run under each profile."""
    table: Tabulate
    draw: Draw

    def specs(
        self,
        profile: str,
        *,
        tasks: Sequence[str] = (),
        methods: Sequence[str] = (),
        seeds: Sequence[int] = (),
    ) -> list[RunSpec]:
        """The runs of a profile, long ones first; with tasks or methods given, all combinations under its budgets."""
        known([profile], self.plans, "profile")
        known(tasks, TASKS, "task")
        for what, given in (("task", tasks), ("method", methods), ("seed", seeds)):
            if repeated := [each for each, times in Counter(given).items() if times > 1]:
                raise ExperimentError(f"{what} {repeated[0]} is given more than once: name each once")
        if negative := [seed for seed in seeds if seed < 0]:
            raise ExperimentError(f"seed {negative[0]} is negative: give seeds from 0 on")
        plans = self.plans[profile]
        if tasks or methods:
            plans = (Plan(tuple(tasks) or self.tasks(profile), tuple(methods) or self.methods, plans[0].seeds),)
        wanted = [
            self._spec(task, method, seed, profile)
            for plan in plans
            for task, method, seed in product(plan.tasks, plan.methods, seeds or range(plan.seeds))
        ]
        return sorted(wanted, key=cost, reverse=True)

    def tasks(self, profile: str) -> tuple[str, ...]:
        """Tasks of a profile."""
        return tuple(dict.fromkeys(task for plan in self.plans[profile] for task in plan.tasks))

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods of all profiles."""
        return tuple(dict.fromkeys(m for plans in self.plans.values() for plan in plans for m in plan.methods))

    def _spec(self, task: str, method: str, seed: int, profile: str) -> RunSpec:
        return RunSpec(self.kind.name, task, method, seed, profile, self.kind.config(TASKS[task], method, profile))


def cost(spec: RunSpec) -> int:
    """Rough time of a run, in steps of a Letter world. Long runs start first, so that the cores finish together."""
    steps = spec.config.get("steps", 1) + spec.config.get("train_steps", 0)
    return _STEP_COST.get(TASKS[spec.task].domain, 1) * steps
