"""From the tidy tables of runs to the tables that are shown, and what runs there are.

Every function takes whatever runs there are, none included. Means over seeds are interquartile means.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from lstoc_core.study.cache import RUN_COLUMNS
from lstoc_core.study.stats import area_under_curve, difference_interval, interquartile_mean, wilson
from lstoc_core.study.variants import VARIANTS, variant

PAPER_TRAJECTORIES = {
    ("letter-2", "forward"): (18_123, 2_915), ("letter-2", "forward-fixed"): (39_256, 2_567),
    ("office-2", "forward"): (32_195, 5_623), ("office-2", "forward-fixed"): (56_232, 4_621),
    ("crafter-3", "forward"): (33_562, 4_482), ("crafter-3", "forward-fixed"): (50_172, 5_215),
}  # fmt: skip
"""The paper's Table subgoal_efficiency_traj: mean and ± of (task, method)."""
SLOWER = ("lstoc", "ppo", "ppo+bonus")
"""Learners that guided discovery with the planner is compared with."""


# --- what there is ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coverage:
    """Which runs there are of those that a table or figure compares. `str` tells it in words."""

    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: Mapping[tuple[str, str], int]
    """(task, method) -> number of seeds, where there is at least one."""
    profiles: Mapping[str, str]
    """Profiles of each task that has runs, joined by a slash."""

    @property
    def missing(self) -> tuple[tuple[str, str], ...]:
        """Pairs of task and method without a run."""
        return tuple(pair for pair in product(self.tasks, self.methods) if pair not in self.seeds)

    @property
    def absent(self) -> tuple[str, ...]:
        """Tasks without a run of any of the methods."""
        return tuple(task for task in self.tasks if {(task, method) for method in self.methods} <= {*self.missing})

    def __bool__(self) -> bool:
        """Whether every pair of task and method has a run."""
        return not self.missing

    def __str__(self) -> str:
        lines = [self._line(task) for task in self.tasks if task not in self.absent]
        return "\n".join([*lines, *([f"no runs: {', '.join(self.absent)}"] if self.absent else [])])

    def _line(self, task: str) -> str:
        counts = sorted({self.seeds[task, method] for method in self.methods if (task, method) in self.seeds})
        seeds = f"{counts[0]} seeds" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
        missing = [variant(method).title for name, method in self.missing if name == task]
        return f"{task}: {seeds}, profile {self.profiles[task]}" + (
            f"; no runs of {', '.join(missing)}" * bool(missing)
        )


def coverage(table: pd.DataFrame, tasks: Sequence[str], methods: Sequence[str]) -> Coverage:
    """Which of the tasks and methods have runs in the table, how many seeds, and from which profile."""
    some = table[table.task.isin(tasks) & table.method.isin(methods)]
    counts = some.groupby(["task", "method"]).seed.nunique().items() if len(some) else ()
    seeds = {(str(task), str(method)): int(count) for (task, method), count in counts}
    return Coverage(tuple(tasks), tuple(methods), seeds, {task: profiles(_of(table, task)) for task, _ in seeds})


def profiles(table: pd.DataFrame) -> str:
    """The profiles behind a figure, for its footnote."""
    return "/".join(table.profile.unique()) if len(table) else "none"


# --- success rate over steps ------------------------------------------------------------------------------------------


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
    titles = [variant(method).title for method in (better, than)]
    for task in tasks:
        one, two = (area[(area.task == task) & (area.method == method)].area.to_numpy() for method in (better, than))
        if not (len(one) and len(two)):
            continue
        low, high = difference_interval(one, two, rng=np.random.default_rng(seed))
        iqm = [float(interquartile_mean(each)) for each in (one, two)]
        row = {"task": task, titles[0]: iqm[0], titles[1]: iqm[1], "difference": iqm[0] - iqm[1]}
        rows.append(row | {"low": low, "high": high, "seeds": min(len(one), len(two))})
    columns = ["task", titles[0], titles[1], "difference", "low", "high", "seeds"]
    return pd.DataFrame(rows, columns=columns).round(3)


# --- accuracy of subgoal learning -------------------------------------------------------------------------------------


def accuracy_table(table: pd.DataFrame, tasks: Iterable[str]) -> pd.DataFrame:
    """On all samples of each run: accuracy, key states found in any order, runs that are exact; per task and method."""
    rows = []
    for task in tasks:
        of_task = _of(table, task)
        for method in [m for m in VARIANTS if len(of_task) and (of_task.method == m).any()]:
            runs = of_task[(of_task.method == method) & (of_task.samples == of_task.samples.max())]
            rows.append(
                {
                    "task": task,
                    "method": variant(method).title,
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
                    "method": variant(method).title,
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


def unfinished_table(table: pd.DataFrame, tasks: Iterable[str], method: str = "forward") -> pd.DataFrame:
    """Runs of the published method that ended with their budget: what they had, and why it did not suffice.

    Trees are counted by their first mistake (see `mistakes`). reason: too few successes, if no tree was wrong;
    confounded order, if most wrong trees have a key state too early; else another state stands out.
    """
    runs = discoveries(table)
    columns = ["task", "seed", "trajectories", "successes", "trees right", "early", "other", "reason"]
    if "trees_right" not in runs:
        return pd.DataFrame(columns=columns)
    some = runs[(runs.method == method) & ~runs.finished.astype(bool)]
    some = some[some.task.isin(list(tasks))].sort_values(["task", "seed"])
    trees = some[["trees_right", "trees_early", "trees_other"]].astype("Int64")
    early, other = (trees[name].fillna(-1) for name in ("trees_early", "trees_other"))
    reasons = np.select(
        [early < 0, early + other == 0, early >= other],
        ["not recorded", "too few successes", "confounded order"],
        "another state stands out",
    )
    counts = [some.task, some.seed, some.trajectories.astype(int), some.positives.astype(int)]
    values = [*counts, *(trees[name] for name in trees), reasons]
    return pd.DataFrame(dict(zip(columns, values, strict=True)), columns=columns).reset_index(drop=True)


def side_by_side(found: pd.DataFrame) -> pd.DataFrame:
    """The table `discovery_table` with a row for each task and a column for each method: trajectories, exact runs."""
    told = found.trajectories + "; " + found.exact
    wide = found.assign(told=told).pivot(index="task", columns="method", values="told").fillna("–")
    return wide.loc[list(dict.fromkeys(found.task)), list(dict.fromkeys(found.method))].rename_axis(columns=None)


# --- solving ----------------------------------------------------------------------------------------------------------


def trajectory_ratio(
    table: pd.DataFrame, tasks: Iterable[str], method: str = "forward", than: str = "forward-fixed", *, seed: int = 0
) -> pd.DataFrame:
    """Trajectories of two methods at their own stop, and their ratio with a bootstrap 95 % interval, by task.

    Geometric interquartile means. A run that did not stop counts with all it had, so its true count is larger.
    """
    done, rows = discoveries(table), []
    columns = ["task", variant(method).title, variant(than).title, "ratio", "low", "high", "stopped"]
    for task in tasks:
        both = [done[(done.task == task) & (done.method == each)] for each in (method, than)] if len(done) else []
        if not both or not all(map(len, both)):
            continue
        counts = [np.log(runs.trajectories.to_numpy(float)) for runs in both]
        mean = [float(interquartile_mean(each)) for each in counts]
        interval = difference_interval(counts[1], counts[0], rng=np.random.default_rng(seed))
        stopped = " and ".join(f"{int(runs.finished.sum())} of {len(runs)}" for runs in both)
        values = [round(np.exp(mean[0])), round(np.exp(mean[1])), *np.exp([mean[1] - mean[0], *interval]).round(2)]
        rows.append([task, *values, stopped])
    return pd.DataFrame(rows, columns=columns)


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
        rows.append((task, variant(method).title, share, _median_and_range(solved.env_steps), int(last.budget.max())))
    return pd.DataFrame(rows, columns=["task", "method", "solved", "steps", "budget"])


def first_to_solve(
    table: pd.DataFrame,
    tasks: Iterable[str],
    first: str = "planner",
    others: Sequence[str] = SLOWER,
) -> pd.DataFrame:
    """Steps until the task is solved, median and range, a row for each task that has runs of all these methods.

    apart: even the slowest run of the first method is faster than every run of the others. A run that does not solve
    the task counts with its budget; ">" marks a number that is larger in truth.
    """
    rows, methods = [], (first, *others)
    for task in tasks:
        of_task = _of(table, task)
        runs = {method: of_task[of_task.method == method].groupby("seed").last() for method in methods}
        if any(last.empty for last in runs.values()):
            continue
        steps = {method: last.env_steps.where(last.solved.astype(bool), last.budget) for method, last in runs.items()}
        told = [_steps_told(steps[method], last.solved.astype(bool)) for method, last in runs.items()]
        solved = bool(runs[first].solved.all())
        rows.append([task, *told, solved and steps[first].max() < min(steps[other].min() for other in others)])
    return pd.DataFrame(rows, columns=["task", *(variant(method).title for method in methods), "apart"])


# --- questions of the planner -----------------------------------------------------------------------------------------


def planned_episodes(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `measure.questions` about episodes that the beliefs had judged before."""
    return table[table.success.notna()] if "success" in table else table[:0]


def question_table(table: pd.DataFrame, tasks: Iterable[str]) -> pd.DataFrame:
    """Per task and method: episodes of a run, bits to learn, bits per planned episode, the limit, and predictions.

    bits to learn: log2 of the number of consistent assignments before the first planned episode, median over runs.
    per episode: bits to learn over the number of planned episodes; limit: log2 of the possible outcomes of one.
    predicted, real: mean predicted probability that a plan succeeds, and share of the plans that did.
    map wrong: share of the map's last predictions that were wrong at the end, worst run.
    """
    columns = ["exact", "episodes", "bits to learn", "per episode", "limit", "predicted", "real", "map wrong"]
    rows = []
    for task, method in product(tasks, VARIANTS):
        some = _of(table, task)
        some = some[some.method == method]
        if some.empty:
            continue
        planned, last = planned_episodes(some).groupby("seed"), some.groupby("seed").last()
        bits = planned.left.first()
        rows.append(
            {
                "task": task,
                "method": variant(method).title,
                "exact": f"{int(last.exact.sum())} of {len(last)}",
                "episodes": _median_and_range(last.episode),
                "bits to learn": round(float(bits.median()), 1),
                "per episode": round(float((bits / planned.size()).median()), 1),
                "limit": round(float(planned.limit.max().median()), 1),
                "predicted": round(float(planned_episodes(some).success.mean()), 2),
                "real": round(float(planned_episodes(some).came_true.mean()), 2),
                "map wrong": f"{last.error_rate.max():.1%}",
            }
        )
    return pd.DataFrame(rows, columns=["task", "method", *columns])


def reliability(table: pd.DataFrame, bins: int = 10) -> pd.DataFrame:
    """Planned episodes by their predicted probability of success: a row for each bin that has some.

    predicted: mean prediction; real: share of plans that succeeded, with Wilson's 95 % interval low to high.
    """
    planned = planned_episodes(table)
    bin_of = (planned.success * bins).astype(int).clip(upper=bins - 1) if len(planned) else []
    rows = []
    for _, some in planned.groupby(bin_of):
        share = wilson(some.came_true.sum(), len(some))
        rows.append((some.success.mean(), share.estimate, share.low, share.high, len(some)))
    return pd.DataFrame(rows, columns=["predicted", "real", "low", "high", "episodes"]).astype(float)


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


def _median_and_range(values: pd.Series) -> str:
    if values.empty:
        return "–"
    if values.nunique() == 1:
        return f"{int(values.iloc[0]):,}"
    return f"{int(values.median()):,} ({int(values.min()):,} to {int(values.max()):,})"


def _steps_told(steps: pd.Series, solved: "pd.Series[bool]") -> str:
    """Median and range of steps, where those of runs that did not solve the task are lower bounds."""
    told, least = _median_and_range(steps), steps[~solved].min()
    told = told if solved.all() else told.replace(" to ", " to > ")
    return f"> {told}" if not solved.all() and steps.median() >= least else told


def _of(table: pd.DataFrame, task: str) -> pd.DataFrame:
    return table[table.task == task]
