"""The experiments behind the paper's figures and tables, as data: which runs each one needs under which profile.

    table("efficiency", "quick")      # computes what is missing, then the tidy table of all its runs
    table("efficiency")               # the committed runs, whatever profile computed them

An experiment names its tasks, methods, seeds and budgets for each profile (`Plan`), which makes a list of `RunSpec`s; a
`measurements.measure` turns each into a table, `runs` stores it, and `results` draws. Experiments about policies
share one store of runs: LSTOC on Office 2 is trained once, and appears in the curves, in the table of discoveries and
in the ablation.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pandas as pd

from lstoc_core.study import cache
from lstoc_core.study.cache import RUN_COLUMNS, SAVED, RunSpec
from lstoc_core.worlds.tasks import NINE, TASKS

FOUR = ("letter-1", "office-2", "crafter-1", "crafter-3")
"""The tasks that the paper's main text shows."""
THREE = ("letter-2", "office-2", "crafter-3")
"""The tasks of the paper's table of trajectories; the ablation uses them, too."""
TRAIN_TASK = {"office-2-walls": "office-2", "crafter-2-objects": "crafter-2"}
"""Generalization: where labels are learned for each test task."""

Steps = Mapping[str, int]
"""Environment steps by domain."""

TRAINING_STEPS: dict[str, Steps] = {
    "smoke": {"letter": 16_384, "office": 8_192, "crafter": 4_096},
    "quick": {"letter": 250_000, "office": 500_000, "crafter": 250_000},
    "paper": {"letter": 1_000_000, "office": 2_000_000, "crafter": 2_500_000},
}
"""Budget of a training run: one for all experiments of a profile, so that they can share runs."""
SAMPLES: dict[str, Steps] = {
    "smoke": {"letter": 16_384, "office": 8_192, "crafter": 4_096},
    "quick": {"letter": 100_000, "office": 400_000, "crafter": 250_000},
    "paper": TRAINING_STEPS["paper"],
}
"""Samples on which subgoal learning is compared; the paper's numbers are those of its profile."""
TEST_STEPS: dict[str, Steps] = {
    "smoke": {"office": 8_192, "crafter": 4_096},
    "quick": {"office": 300_000, "crafter": 250_000},
    "paper": {"office": 1_000_000, "crafter": 600_000},
}
"""Budget in the test world of the generalization experiment."""
LABEL_STEPS: dict[str, Steps] = {
    "smoke": {"office": 8_192, "crafter": 4_096},
    "quick": {"office": 600_000, "crafter": 400_000},
    "paper": TRAINING_STEPS["paper"],
}
"""Budget for learning the labels in the training world of the generalization experiment."""
SHARES = {"smoke": (1.0,), "quick": (0.3, 1.0), "paper": (0.1, 0.25, 0.5, 1.0)}
"""Prefixes of the samples on which subgoal learning is compared."""

TRAINING_METHODS: dict[str, dict[str, Any]] = {
    "lstoc": {"discovery": "guided", "solve": True},
    "ppo": {},
    "ppo+bonus": {},
    "oracle": {},
    "fixed": {"discovery": "guided", "solve": False, "settings": {"train_explorer": False}},
    "no-rearm": {"discovery": "guided", "solve": False, "settings": {"rearm": False}},
    "no-bonus": {"discovery": "guided", "solve": False, "settings": {"bonus": 0.0, "patience": None}},
    "explained-0": {"discovery": "guided", "solve": False, "settings": {"explained": 0.0}},
    "explained-1": {"discovery": "guided", "solve": False, "settings": {"explained": 1.0}},
    "flipped": {"discovery": "guided", "solve": False, "flipped": 0.02},
    "pixels": {"discovery": "guided", "solve": False, "pixel_noise": 3},
    "forward": {"discovery": "forward", "solve": False},
    "forward-exact": {"discovery": "forward", "solve": False, "forward": {"exact": True}},
    "forward-exact-0.9": {"discovery": "forward", "solve": False, "forward": {"exact": True, "gamma": 0.9}},
    "baseline1": {"discovery": "forward", "solve": False, "forward": {"objective": "baseline1"}},
    "baseline2": {"discovery": "forward", "solve": False, "forward": {"objective": "baseline2"}},
}
"""What a training run is told beyond its budget; "lstoc" has the default settings, the others change one thing.

Without the bonus, exploration must not be mended either, which would bring the bonus back. "flipped": 2 % of the labels
are wrong. "pixels": no observation repeats, so states are told apart by o_θ and contrasted by f_ω.
"""
CURVES = ("lstoc", "ppo", "ppo+bonus", "oracle")
ABLATIONS = ("lstoc", "no-rearm", "no-bonus", "explained-0", "explained-1")
TRANSFERS = ("lstoc", "ppo", "ppo+bonus")
FORWARD = ("forward", "forward-exact", "forward-exact-0.9", "baseline1", "baseline2")
DISCOVERIES = ("lstoc", "fixed", *FORWARD)
_STEP_COST = {"letter": 1, "office": 1, "crafter": 4}
MEASURE = "lstoc_core.study.measure:measure"


class ExperimentError(ValueError):
    """An experiment, task, method or profile that does not exist; nothing has been run."""


@dataclass(frozen=True)
class Plan:
    """All combinations of some tasks, methods and seeds."""

    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: int


@dataclass(frozen=True)
class Experiment:
    """One entry: what is asked, what is run."""

    question: str
    store: str
    """Kind of its runs (see `measurements`), and name under which they are stored; experiments of one store share."""
    plans: Mapping[str, tuple[Plan, ...]]
    """What is run under each profile."""

    def specs(
        self,
        profile: str,
        *,
        tasks: Sequence[str] = (),
        methods: Sequence[str] = (),
        seeds: Sequence[int] = (),
    ) -> list[RunSpec]:
        """The runs of a profile, long ones first; with tasks or methods given, all combinations under its budgets."""
        _known([profile], self.plans, "profile")
        _known(tasks, TASKS, "task")
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
        domain = TASKS[task].domain
        if self.store == "training":
            _known([method], TRAINING_METHODS, "method")
            config = {"steps": TRAINING_STEPS[profile][domain], **TRAINING_METHODS[method]}
        elif self.store == "accuracy":
            _known([method], ("offline",), "method")
            config = {"steps": SAMPLES[profile][domain], "shares": SHARES[profile]}
        else:
            _known([method], TRANSFERS, "method")
            _known([task], TRAIN_TASK, "test task")
            config = {"steps": TEST_STEPS[profile][domain]}
            if method == "lstoc":
                config |= {"train_task": TRAIN_TASK[task], "train_steps": LABEL_STEPS[profile][domain]}
        return RunSpec(self.store, task, method, seed, profile, config)


def cost(spec: RunSpec) -> int:
    """Time of a run, roughly: long ones start first, so that the cores finish together."""
    return _STEP_COST[TASKS[spec.task].domain] * (spec.config["steps"] + spec.config.get("train_steps", 0))


_LETTER = NINE[:3]
_QUICK = (*_LETTER, "office-2", "office-3", "crafter-1")
"""Tasks of the profile "quick", whose budgets leave Office 1 unsolved; pixels are slow, so it has one Crafter task."""

EXPERIMENTS: dict[str, Experiment] = {
    "accuracy": Experiment(
        question="How much of the subgoal tree is learned from the same samples?",
        store="accuracy",
        plans={
            "smoke": (Plan(("letter-1", "crafter-1"), ("offline",), 1),),
            "quick": (Plan(_LETTER[:2], ("offline",), 3),),
            "paper": (Plan(NINE, ("offline",), 5),),
        },
    ),
    "discovery": Experiment(
        question="How many trajectories does it take until every subgoal is learned?",
        store="training",
        plans={
            "smoke": (Plan(("letter-2",), ("lstoc", "fixed"), 1),),
            "quick": (Plan(_QUICK, ("lstoc",), 3), Plan(("letter-2",), ("fixed",), 3)),
            "paper": (
                Plan(NINE, ("lstoc",), 5),
                Plan(THREE, ("fixed",), 5),
                Plan(("letter-2", "office-2"), FORWARD, 5),
            ),
        },
    ),
    "ablation": Experiment(
        question="What does each rule of exploration contribute?",
        store="training",
        plans={
            "smoke": (Plan(("letter-2",), ("lstoc", "no-rearm"), 1),),
            "quick": (Plan(("letter-2",), ABLATIONS, 3),),
            "paper": (Plan(THREE, ABLATIONS, 5),),
        },
    ),
    "robustness": Experiment(
        question="Does it still work with wrong labels, and with pixels that never repeat?",
        store="training",
        plans={
            "smoke": (Plan(("letter-1",), ("flipped",), 1), Plan(("crafter-1",), ("pixels",), 1)),
            "quick": (Plan(("letter-1",), ("flipped",), 3),),
            "paper": (Plan(_LETTER, ("flipped",), 5), Plan(("crafter-1",), ("pixels",), 3)),
        },
    ),
    "efficiency": Experiment(
        question="How fast is the task solved?",
        store="training",
        plans={
            "smoke": (Plan(("letter-1",), CURVES, 1), Plan(("office-2", "crafter-1"), ("lstoc",), 1)),
            "quick": (
                Plan(_QUICK, ("lstoc", "ppo"), 3),
                Plan(("letter-2",), ("ppo+bonus", "oracle"), 3),
            ),
            "paper": (Plan(NINE, CURVES, 5),),
        },
    ),
    "generalization": Experiment(
        question="Do the learned labels help on an unseen task in a changed world?",
        store="generalization",
        plans={
            "smoke": (Plan(tuple(TRAIN_TASK), ("lstoc", "ppo"), 1),),
            "quick": (Plan(tuple(TRAIN_TASK), ("lstoc", "ppo"), 3),),
            "paper": (Plan(tuple(TRAIN_TASK), TRANSFERS, 5),),
        },
    ),
}


def experiment(name: str) -> Experiment:
    """The entry of that name."""
    _known([name], EXPERIMENTS, "experiment")
    return EXPERIMENTS[name]


def table(name: str, profile: str = SAVED, *, progress: bool = True) -> pd.DataFrame:
    """All runs of an experiment in one tidy table; under a profile other than "saved", computed where missing.

    Of the committed runs, each task has those of one profile (see `one_profile`). Without any, the table is empty.
    """
    entry = experiment(name)
    if profile == SAVED:
        try:
            found = cache.load(entry.store)
        except FileNotFoundError:
            return pd.DataFrame(columns=list(RUN_COLUMNS))
        found = one_profile(found[found.method.isin(entry.methods)])
    else:
        found = cache.compute(entry.specs(profile), MEASURE, progress=progress, cost=cost)
    if "algorithm" in found:  # runs that try several algorithms on the same data
        found = found.assign(method=found.algorithm).drop(columns="algorithm")
    return found.reset_index(drop=True)


def compute(names: Iterable[str], profile: str) -> None:
    """Compute what is missing of several experiments in one go, so that no core waits for the last run of each."""
    specs = {spec.name: spec for name in names for spec in experiment(name).specs(profile)}
    cache.compute(sorted(specs.values(), key=cost, reverse=True), MEASURE, cost=cost)


def one_profile(table: pd.DataFrame) -> pd.DataFrame:
    """For each task the runs of the profile with most methods to compare, then most runs, then the larger budgets."""
    rank = {profile: position for position, profile in enumerate(TRAINING_STEPS)}
    kept = []
    for _, of_task in table.groupby("task", sort=False):
        done = of_task[["profile", "method", "seed"]].drop_duplicates().groupby("profile").method
        methods, count = done.nunique(), done.size()
        best = max(count.index, key=lambda profile: (methods[profile], count[profile], rank[profile]))
        kept.append(of_task[of_task.profile == best])
    return pd.concat(kept) if kept else table


def _known(names: Iterable[str], known: Iterable[str], what: str) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known) or known
            raise ExperimentError(f"unknown {what} {name!r}; near: {', '.join(near)}")
