"""The experiments behind the paper's figures and tables: the runs, the table and the drawing of each.

    curves = runs("efficiency", "quick")               # computes what is missing, then one tidy table of all runs
    curves = runs("efficiency")                        # the committed runs, whatever profile computed them
    experiment("efficiency").draw(curves, FOUR)        # the figure

To add an experiment, add an entry to EXPERIMENTS: a question, the kind of its runs, its plan for each profile, its
table and its drawing. Experiments of one kind share their runs: LSTOC on Office 2 is trained once, and appears in the
curves, in the table of discoveries and in the ablation.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from lstoc_core.study import cache, tables
from lstoc_core.study.cache import RUN_COLUMNS, SAVED
from lstoc_core.study.plans import Draw, Experiment, Kind, Plan, Tabulate, cost
from lstoc_core.study.settings import ForwardChanges
from lstoc_core.study.variants import (
    ABLATIONS,
    CURVES,
    DISCOVERIES,
    FORWARD,
    OFFLINE,
    ROBUSTNESS,
    SHOWN_TRANSFERS,
    TRANSFERS,
    ExperimentError,
    known,
    variant,
)
from lstoc_core.worlds.tasks import NINE, Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOUR = ("letter-1", "office-2", "crafter-1", "crafter-3")
"""The tasks that the paper's main text shows."""
THREE = ("letter-2", "office-2", "crafter-3")
"""The tasks of the paper's table of trajectories; the ablation uses them, too."""
TRAIN_TASK = {"office-2-walls": "office-2", "crafter-2-objects": "crafter-2"}
"""Generalization: test task -> task on which the labels are learned."""

Steps = Mapping[str, int]
"""Environment steps by domain."""

TRAINING_STEPS: dict[str, Steps] = {
    "smoke": {"letter": 16_384, "office": 8_192, "crafter": 4_096},
    "quick": {"letter": 250_000, "office": 500_000, "crafter": 250_000},
    "paper": {"letter": 1_000_000, "office": 2_000_000, "crafter": 2_500_000},
}
"""Budget of a training run: one for all experiments of a profile, so that they can share runs."""
PUBLISHED_STEPS: dict[str, Steps] = TRAINING_STEPS | {
    "paper": {**TRAINING_STEPS["paper"], "office": 6_000_000, "crafter": 6_000_000}
}
"""Budget of the published method where it discovers only. The paper counts trajectories, 32,195 on its Office 2 and
33,562 on its Crafter 3; these are about 12,000 and 20,000."""
PUBLISHED_CHANGES: dict[str, ForwardChanges] = {"crafter": {"tour": 1.0}}
"""Settings of the published method by domain: in Crafter a tour of the map would pay three times a success."""
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
SHARES = {"smoke": (1.0,), "quick": (0.3, 1.0), "paper": (0.03, 0.1, 0.3, 1.0)}
"""Prefixes of the samples on which subgoal learning is compared."""
WALKS = {"smoke": 1_000, "quick": 6_000, "paper": 12_000}
"""Random walks on which readings of the paper are compared."""
EXPLORED: dict[str, Steps] = SAMPLES | {"paper": {**SAMPLES["paper"], "crafter": 1_000_000}}
"""Steps of π_exp on whose episodes readings are compared."""
READINGS = {"smoke": 3, "quick": 16, "paper": 100}
"""How many readings are tried at most: in Letter, 16 leave out the grid; there are fewer than 100."""


# --- kinds of runs ----------------------------------------------------------------------------------------------------


def _steps(budgets: Steps, task: Task) -> int:
    """The budget of a task's domain."""
    if task.domain not in budgets:
        raise ExperimentError(f"{task.name!r} has no budget here: there are budgets for {', '.join(budgets)}")
    return budgets[task.domain]


def _training(task: Task, method: str, profile: str) -> dict[str, Any]:
    config = variant(method).config()
    budgets = PUBLISHED_STEPS if method in FORWARD else TRAINING_STEPS
    changes = config.pop("forward", {})
    if config.get("discovery") == "forward":
        changes = {**changes, **PUBLISHED_CHANGES.get(task.domain, {})}
    budget = {"steps": _steps(budgets[profile], task), **config}
    return budget | ({"forward": changes} if changes else {})


def _accuracy(task: Task, method: str, profile: str) -> dict[str, Any]:
    known([method], ("offline",), "method")
    return {"steps": _steps(SAMPLES[profile], task), "shares": SHARES[profile]}


def _generalization(task: Task, method: str, profile: str) -> dict[str, Any]:
    known([method], TRANSFERS, "method")
    known([task.name], TRAIN_TASK, "test task")
    budget = {"steps": _steps(TEST_STEPS[profile], task)}
    if method == "lstoc":
        return budget | {"train_task": TRAIN_TASK[task.name], "train_steps": _steps(LABEL_STEPS[profile], task)}
    return budget | variant(method).config()


def _readings(task: Task, method: str, profile: str) -> dict[str, Any]:
    known([method], ("layouts", "tasks"), "method")
    budget = {"steps": _steps(EXPLORED[profile], task), "readings": READINGS[profile]}
    return budget | ({"walks": WALKS[profile]} if task.domain == "letter" else {})


TRAINING = Kind("training", "lstoc_core.study.measure:training", _training)
"""A policy learns a task by a variant."""
ACCURACY = Kind("accuracy", "lstoc_core.study.measure:accuracy", _accuracy)
"""Every algorithm on the same samples; the method is always "offline"."""
GENERALIZATION = Kind("generalization", "lstoc_core.study.measure:generalization", _generalization)
"""Labels learned in a training world, used in a test world."""
QUESTIONS = Kind("questions", "lstoc_core.study.measure:questions", _training)
"""What the planner predicted before each episode, and what came."""
READING = Kind("readings", "lstoc_core.study.readings:measure", _readings)
"""The published algorithm by many readings; the methods are the sources of maps, "layouts" and "tasks"."""


# --- tables and drawings ----------------------------------------------------------------------------------------------


def _curves(methods: Sequence[str]) -> Draw:
    """Success rate over steps."""

    def draw(runs: pd.DataFrame, tasks: Sequence[str], *, seed: int = 0) -> "Figure":
        from lstoc_core.drawing.curves import draw_curves

        return draw_curves(runs, tasks, methods, seed=seed)

    return draw


def _accuracies(runs: pd.DataFrame, tasks: Sequence[str], *, seed: int = 0) -> "Figure":
    """Accuracy over samples."""
    from lstoc_core.drawing.curves import draw_accuracy

    return draw_accuracy(runs, tasks, OFFLINE, seed=seed)


def _trajectories(methods: Sequence[str], *, paper: bool) -> Draw:
    """Trajectories until every subgoal is learned."""

    def draw(runs: pd.DataFrame, tasks: Sequence[str], *, seed: int = 0) -> "Figure":
        from lstoc_core.drawing.curves import draw_trajectories

        return draw_trajectories(runs, tasks, methods, paper=paper, seed=seed)

    return draw


def _discoveries(methods: Sequence[str], *, paper: bool = False) -> Tabulate:
    """Discoveries by task and method, beside the paper's numbers if `paper`."""

    def table(runs: pd.DataFrame, tasks: Sequence[str]) -> pd.DataFrame:
        found = tables.discovery_table(runs, tasks, methods)
        return found if paper else found.drop(columns="paper")

    return table


def _reliability(runs: pd.DataFrame, tasks: Sequence[str], *, seed: int = 0) -> "Figure":
    """Predicted against real success of planned episodes."""
    from lstoc_core.drawing.exploration import draw_reliability

    return draw_reliability(runs[runs.task.isin(tasks)])


def _exact_by_reading(runs: pd.DataFrame, tasks: Sequence[str]) -> pd.DataFrame:
    """Share of exact runs by reading."""
    from lstoc_core.study.readings import MULTIVERSES, shares

    return pd.concat([shares(runs[runs.task.isin(tasks)], domain) for domain in MULTIVERSES], ignore_index=True)


def _draw_readings(runs: pd.DataFrame, tasks: Sequence[str], *, seed: int = 0) -> "Figure":
    """Share of exact runs by reading, one choice changed at a time."""
    from lstoc_core.drawing.readings import readings_figure

    return readings_figure(runs[runs.task.isin(tasks)])


# --- the experiments --------------------------------------------------------------------------------------------------

_LETTER, _OFFICE, _CRAFTER = NINE[:3], NINE[3:6], NINE[6:]
_QUICK = (*_LETTER, "office-2")
"""Tasks of the profile "quick" on which policies are trained; in Crafter its budget would end before anything shows."""

EXPERIMENTS: dict[str, Experiment] = {
    "accuracy": Experiment(
        question="How much of the subgoal tree is learned from the same samples?",
        kind=ACCURACY,
        plans={
            "smoke": (Plan(("letter-1", "crafter-1"), ("offline",), 1),),
            "quick": (Plan(_LETTER[:2], ("offline",), 3),),
            "paper": (Plan(NINE, ("offline",), 5),),
        },
        table=tables.accuracy_table,
        draw=_accuracies,
    ),
    "discovery": Experiment(
        question="How many trajectories does it take until every subgoal is learned?",
        kind=TRAINING,
        plans={
            "smoke": (Plan(("letter-2",), ("lstoc", "fixed"), 1),),
            "quick": (Plan(_QUICK, ("lstoc",), 3), Plan(("letter-2",), ("fixed",), 3)),
            "paper": (
                Plan(NINE, ("lstoc",), 5),
                Plan(NINE, ("planner",), 10),
                Plan(THREE, ("fixed",), 5),
                Plan(NINE, ("forward",), 5),
                Plan(_LETTER, FORWARD[1:], 5),
                Plan(_OFFICE, ("forward-exact", "baseline1", "baseline2"), 3),
                Plan(THREE[1:], ("forward-fixed",), 5),
            ),
        },
        table=_discoveries(DISCOVERIES, paper=True),
        draw=_trajectories(("forward", "forward-fixed", "lstoc", "fixed", "planner"), paper=True),
    ),
    "ablation": Experiment(
        question="What does each rule of exploration contribute?",
        kind=TRAINING,
        plans={
            "smoke": (Plan(("letter-2",), ("lstoc", "no-rearm"), 1),),
            "quick": (Plan(("letter-2",), ABLATIONS, 3),),
            "paper": (Plan(THREE, ABLATIONS, 5),),
        },
        table=_discoveries(ABLATIONS),
        draw=_trajectories(ABLATIONS, paper=False),
    ),
    "robustness": Experiment(
        question="Does it still work with wrong labels, random starts, slippery moves, and pixels that never repeat?",
        kind=TRAINING,
        plans={
            "smoke": (Plan(("letter-1",), ("flipped",), 1), Plan(("crafter-1",), ("pixels",), 1)),
            "quick": (Plan(("letter-1",), ("flipped",), 3),),
            "paper": (
                Plan(_LETTER, ("flipped", "flipped-planner", "slips", "slips-planner", "starts", "starts-planner"), 5),
                Plan(_OFFICE, ("starts-planner",), 5),
                Plan(_OFFICE, ("slips", "starts"), 3),
                Plan(("crafter-1",), ("pixels",), 3),
            ),
        },
        table=_discoveries(ROBUSTNESS),
        draw=_trajectories(ROBUSTNESS, paper=False),
    ),
    "efficiency": Experiment(
        question="How fast is the task solved?",
        kind=TRAINING,
        plans={
            "smoke": (Plan(("letter-1",), CURVES, 1), Plan(("office-2", "crafter-1"), ("lstoc",), 1)),
            "quick": (
                Plan(_QUICK, ("lstoc", "ppo"), 3),
                Plan(NINE, ("planner",), 3),
                Plan(("letter-2",), ("ppo+bonus", "oracle"), 3),
            ),
            "paper": (Plan(NINE, CURVES, 5),),
        },
        table=tables.advantage,
        draw=_curves(CURVES),
    ),
    "questions": Experiment(
        question="What does each episode of the planner tell, and are its predictions right?",
        kind=QUESTIONS,
        plans={
            "smoke": (Plan(("letter-1",), ("planner",), 1),),
            "quick": (Plan(_LETTER, ("planner",), 3),),
            "paper": (Plan((*_LETTER, "office-2", "crafter-3"), ("planner",), 5),),
        },
        table=tables.question_table,
        draw=_reliability,
    ),
    "generalization": Experiment(
        question="Do the learned labels help on an unseen task in a changed world?",
        kind=GENERALIZATION,
        plans={
            "smoke": (Plan(tuple(TRAIN_TASK), ("lstoc", "ppo"), 1),),
            "quick": (Plan(tuple(TRAIN_TASK), ("lstoc", "ppo"), 3),),
            "paper": (Plan(tuple(TRAIN_TASK), TRANSFERS, 5),),
        },
        table=tables.advantage,
        draw=_curves(SHOWN_TRANSFERS),
    ),
    "readings": Experiment(
        question="Which reading of the paper makes its method work?",
        kind=READING,
        plans={
            "smoke": (Plan(("letter-1",), ("layouts",), 1),),
            "quick": (Plan(("letter-1",), ("layouts",), 3),),
            "paper": (
                Plan(_LETTER, ("layouts",), 4),
                Plan(_LETTER, ("tasks",), 3),
                Plan(_OFFICE, ("layouts", "tasks"), 2),
                Plan(_CRAFTER, ("layouts", "tasks"), 1),
            ),
        },
        table=_exact_by_reading,
        draw=_draw_readings,
    ),
}


def experiment(name: str) -> Experiment:
    """The entry of that name."""
    known([name], EXPERIMENTS, "experiment")
    return EXPERIMENTS[name]


def runs(name: str, profile: str = SAVED, *, progress: bool = True) -> pd.DataFrame:
    """All runs of an experiment in one tidy table; under a profile other than "saved", computed where missing.

    Of the committed runs, each task has those of one profile (see `one_profile`). Without any, the table is empty.
    """
    entry = experiment(name)
    if profile == SAVED:
        try:
            found = cache.load(entry.kind.name)
        except FileNotFoundError:
            return pd.DataFrame(columns=list(RUN_COLUMNS))
        found = one_profile(found[found.method.isin(entry.methods)])
    else:
        found = cache.compute(entry.specs(profile), entry.kind.measure, progress=progress, cost=cost)
    if "algorithm" in found:  # runs that try several algorithms on the same data
        found = found.assign(method=found.algorithm).drop(columns="algorithm")
    if entry.kind is GENERALIZATION:
        found = found.assign(method=found.method.replace(dict(zip(TRANSFERS, SHOWN_TRANSFERS, strict=True))))
    return found.reset_index(drop=True)


def compute(names: Iterable[str], profile: str) -> None:
    """Compute what is missing of several experiments in one pool, so that no core waits for the last run of each."""
    entries = [experiment(name) for name in names]
    specs = {spec.name: spec for entry in entries for spec in entry.specs(profile)}
    functions = {entry.kind.name: entry.kind.measure for entry in entries}
    cache.compute(sorted(specs.values(), key=cost, reverse=True), functions, cost=cost)


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
