"""The paper's claims that runs decide: verdict, number, figure and command of each, from the committed runs.

    print(page())                                      # what `python -m lstoc_core claims` prints

A verdict follows from a number by a rule that is the same for all: a difference is confirmed if its 95 % interval lies
on the claimed side, differs if it lies on the other side, and is not settled if it reaches to both.
"""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cache, partial

import numpy as np
import pandas as pd

from lstoc_core.labeling import label, predict, rejected_words
from lstoc_core.logic import parse
from lstoc_core.study import readings, tables
from lstoc_core.study.experiments import THREE, TRAIN_TASK, runs
from lstoc_core.study.stats import Interval, probability_of_improvement, wilson
from lstoc_core.study.variants import variant
from lstoc_core.trajectories import random_walks
from lstoc_core.worlds import compile_world, make_vec
from lstoc_core.worlds.tasks import NINE

CONFIRMED, READING, DIFFERS, UNSETTLED = "confirmed", "confirmed under this reading", "differs", "not settled"
BY_OURS = "confirmed by our method"
FEWEST = 3
"""Fewest runs of a method on a task for a verdict: fewer say nothing about their spread."""
CORRIDOR = 5
"""Column of the corridor in the world of the paper's figure "limit0"."""
NOT_COMPARABLE, UNKNOWN = "not comparable", "not measured yet"

INTRODUCTION = """\
Made by `python -m lstoc_core claims --write` from the committed runs; a test compares it with them. Intervals are 95 %.
*Differs*: the interval lies on the other side than claimed, or a run stopped with a wrong answer. *Not settled*: the
interval reaches to both sides, or runs ended with their budget, without an answer. *Under this reading*: by the paper's
method, with the choices in [decisions](decisions.md) where the paper leaves something open. *By our method*: by guided
discovery and our solve phase in place of the paper's. *Not measured yet*: tasks of the claim have fewer than three runs
of the profile `paper`; the number is of those that there are. P is the probability that a run of
the first method beats a run of the second, over tasks. An accuracy is the mean over prefixes of the samples, a success
rate the mean over the budget. What no run decides is computed for this page; notebook 07 shows it."""


@dataclass(frozen=True)
class Verdict:
    """What the runs say of a claim."""

    verdict: str
    number: str = "–"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, how it is judged, and what shows it."""

    text: str
    judge: Callable[[], Verdict]
    figure: str
    experiment: str = ""
    """Whose runs decide it; none: it is computed when asked for."""
    confirmed: str = READING
    """What is said if it is confirmed."""

    def judged(self) -> Verdict:
        """What the committed runs say of it."""
        found = self.judge()
        return replace(found, verdict=self.confirmed) if found.verdict == READING else found

    @property
    def command(self) -> str:
        """What to type to see it decided anew."""
        return f"python -m lstoc_core run {self.experiment} -P paper --save" if self.experiment else "make notebooks"


@cache
def _runs(name: str) -> pd.DataFrame:
    """The committed runs of an experiment, read once for all claims of a page."""
    return runs(name)


def table(*figures: str) -> pd.DataFrame:
    """Claims that these figures show, all if none is named, each with its verdict and number."""
    _runs.cache_clear()
    shown = [claim for claim in CLAIMS if not figures or claim.figure in figures]
    found = [(claim.text, *astuple(claim.judged())) for claim in shown]
    return pd.DataFrame(found, columns=["claim", "verdict", "number"]).set_index("claim")


def page() -> str:
    """The page docs/claims.md."""
    _runs.cache_clear()
    lines = [
        "# The paper's claims, and what our runs say",
        "",
        INTRODUCTION,
        "",
        "| Claim of the paper | Verdict | Number | Figure | Command |",
        "|---|---|---|---|---|",
    ]
    for claim in CLAIMS:
        found = claim.judged()
        lines.append(f"| {claim.text} | *{found.verdict}* | {found.number} | `{claim.figure}` | `{claim.command}` |")
    return "\n".join(lines) + "\n"


def judge_improvement(scores: pd.DataFrame, one: str, two: str, tasks: Sequence[str]) -> Verdict:
    """Whether the first method is better over all of the tasks; scores: columns task, method, profile, score."""
    pairs, complete = [], True
    for task in tasks:
        of_task = scores[scores.task == task]
        first, second = (of_task[of_task.method == method].score.to_numpy(float) for method in (one, two))
        if len(first) and len(second):
            pairs.append((first, second))
        complete &= min(len(first), len(second)) >= FEWEST and set(of_task.profile) == {"paper"}
    if not pairs:
        return Verdict(UNKNOWN)
    share = probability_of_improvement(pairs, rng=np.random.default_rng(0))
    verdict = _side(float(share.low), float(share.high), 0.5) if complete else UNKNOWN
    counts = sorted({len(scores) for pair in pairs for scores in pair})
    each = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    return Verdict(verdict, f"P = {_number(share)}, {len(pairs)} of {len(tasks)} tasks, {each} runs each")


def judge_exact(done: pd.DataFrame, method: str, tasks: Sequence[str]) -> Verdict:
    """Whether every run ends with exactly the true subgoals; done: the table `tables.discoveries`."""
    some = done[(done.method == method) & done.task.isin(tasks)]
    if some.empty:
        return Verdict(UNKNOWN)
    right, wrong, of = int(some.exact.sum()), (some.finished & ~some.exact).any(), some.task.nunique()
    enough = some.groupby("task").size().min() >= FEWEST
    complete = of == len(tasks) and enough and set(some.profile) == {"paper"}
    verdict = DIFFERS if wrong else UNKNOWN if not complete else READING if right == len(some) else UNSETTLED
    share = wilson(right, len(some))
    return Verdict(verdict, f"{right} of {len(some)} runs, {_number(share)}; {of} of {len(tasks)} tasks")


def judge_ratio(found: pd.DataFrame, task: str) -> Verdict:
    """Whether a fixed exploration policy takes more trajectories, both by the published method."""
    table = tables.trajectory_ratio(found[found.profile == "paper"], [task])
    if table.empty:
        return Verdict(UNKNOWN)
    row = table.iloc[0]
    number = f"ratio {row.ratio:.2f} ({row.low:.2f} to {row.high:.2f}); stopped {row.stopped}"
    runs_of = tables.discoveries(found[(found.task == task) & (found.profile == "paper")]).groupby("method").size()
    enough = runs_of[["forward", "forward-fixed"]].min() >= FEWEST
    return Verdict(_side(row.low, row.high, 1) if enough else UNKNOWN, number)


def judge_every(
    table: pd.DataFrame, tasks: Sequence[str], better: str = "lstoc", others: Sequence[str] = ("ppo",)
) -> Verdict:
    """Whether the mean success rate over the budget is above that of each other method on each of the tasks."""
    area = pd.concat([tables.advantage(table, tasks, better, other) for other in others])
    if area.empty:
        return Verdict(UNKNOWN)
    at_papers_budget = area.task.map(table.groupby("task").profile.first()) == "paper"
    complete = len(area) == len(tasks) * len(others) and bool(at_papers_budget.all())
    sides = [_side(row.low, row.high, 0) for row in area[at_papers_budget].itertuples()]
    found = DIFFERS if DIFFERS in sides else UNSETTLED if UNSETTLED in sides else READING
    verdict = found if complete or found is DIFFERS else UNKNOWN
    if len(area) == 1:
        row = area.iloc[0]
        return Verdict(verdict, f"difference of means {row.difference:.2f} ({row.low:.2f} to {row.high:.2f})")
    what = "tasks" if len(others) == 1 else "comparisons"
    return Verdict(verdict, f"interval above 0 on {(area.low > 0).sum()} of {len(area)} {what}")


def judge_first(table: pd.DataFrame, tasks: Sequence[str]) -> Verdict:
    """Whether every run with the planner solves its task in fewer steps than every run of the others, on each task."""
    found = tables.first_to_solve(table, tasks)
    apart = int(found.apart.sum())
    fewest = table[table.method.isin(("planner", *tables.SLOWER))].groupby(["task", "method"]).seed.nunique()
    measured = set(table[table.task.isin(tasks)].profile) == {"paper"} and len(fewest) and fewest.min() >= FEWEST
    complete = len(found) == len(tasks) and measured
    verdict = UNKNOWN if not complete else READING if apart == len(tasks) else UNSETTLED
    return Verdict(verdict, f"ranges apart on {apart} of {len(tasks)} tasks")


def judge_first_subgoal(table: pd.DataFrame) -> Verdict:
    """Whether the state of highest importance is the next subgoal in most random Letter layouts (best reading)."""
    layouts = table[table.task.str.startswith("letter-") & (table.method == "layouts")] if len(table) else table
    best = layouts[readings.is_reading(layouts, readings.MULTIVERSES["letter"].best)] if len(layouts) else layouts
    if best.empty:
        return Verdict(UNKNOWN)
    right = int((best["first"] == "next subgoal").sum())
    share = wilson(right, len(best))
    return Verdict(_side(float(share.low), float(share.high), 0.5), f"{right} of {len(best)} layouts, {_number(share)}")


def judge_symmetric() -> Verdict:
    """Whether the paper's example of symmetric branches leaves names open."""
    groups = predict(parse("(a;b;c)|(d;e;f)").fsm()).interchangeable
    told = "; ".join(" and ".join(group) for group in groups)
    return Verdict(CONFIRMED, f"interchangeable: {told}") if groups else Verdict(DIFFERS, "all names are unique")


def judge_bottleneck() -> Verdict:
    """Whether a corridor and a ball stay interchangeable in the paper's example, given what failed episodes visited."""
    world = compile_world("rooms-corridor")
    corridor = next(cell for cell in world.task.cells if cell[0] == CORRIDOR)
    cells = [world.task.positions["r"], corridor, world.task.positions["b"], world.task.positions["g"]]
    episodes = random_walks(make_vec(world.task, num_envs=100, seed=0), 1000, seed=0)
    keys = [int(world.observation_id[world.position_of(cell)]) for cell in cells]
    by_order = label([(0, 1, 2, 3)], world.task.fsm())
    by_failures = label([(0, 1, 2, 3)], world.task.fsm(), rejected=rejected_words(episodes, keys))
    unique = ["unique" if each.unique else "not unique" for each in (by_order, by_failures)]
    verdict = DIFFERS if by_failures.unique else CONFIRMED
    return Verdict(verdict, f"names by the order alone: {unique[0]}; by failed episodes as well: {unique[1]}")


def _side(low: float, high: float, even: float) -> str:
    """Verdict on "more than even", by the interval of what was measured."""
    return READING if low > even else DIFFERS if high < even else UNSETTLED


def _number(interval: Interval) -> str:
    return f"{interval.estimate:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def _accuracy(one: str, two: str, tasks: Sequence[str]) -> Verdict:
    """By the mean accuracy over the prefixes: the paper shows curves, and on easy tasks all of them end at 1."""
    table = _runs("accuracy")
    if table.empty:
        return Verdict(UNKNOWN)
    means = table.groupby(["task", "method", "profile", "seed"], as_index=False).accuracy.mean()
    return judge_improvement(means.rename(columns={"accuracy": "score"}), one, two, tasks)


def _faster(than: str, better: str = "lstoc") -> Verdict:
    table = _runs("efficiency")
    if table.empty:
        return Verdict(UNKNOWN)
    profile = table.groupby("task").profile.first()
    area = tables.areas(table).rename(columns={"area": "score"})
    return judge_improvement(area.assign(profile=area.task.map(profile)), better, than, NINE)


def _fixed_takes_more(task: str) -> Verdict:
    return judge_ratio(_runs("discovery"), task)


def _fixed_takes_more_over_all() -> Verdict:
    """Over all tasks with runs of both; a run that does not stop counts with all trajectories it had."""
    done = tables.discoveries(_runs("discovery"))
    tasks = [task for task in NINE if ((done.method == "forward-fixed") & (done.task == task)).any()]
    return judge_improvement(done.assign(score=-done.trajectories.astype(float)), "forward", "forward-fixed", tasks)


def _labels_beat_the_bonus(task: str) -> Verdict:
    return judge_every(_runs("generalization"), [task], "labels", ("ppo+bonus",))


def _paper_ratio(task: str) -> float:
    return tables.PAPER_TRAJECTORIES[task, "forward-fixed"][0] / tables.PAPER_TRAJECTORIES[task, "forward"][0]


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "Its contrastive learning is more accurate than Baseline 1 on the same samples, all nine tasks",
        lambda: _accuracy("forward", "baseline1", NINE), "contrastive_acc", "accuracy",
    ),
    Claim(
        "It is more accurate than Baseline 2, all nine tasks",
        lambda: _accuracy("forward", "baseline2", NINE), "contrastive_acc", "accuracy",
    ),
    Claim(
        "Baseline 1 is better than Baseline 2 in Office and Crafter",
        lambda: _accuracy("baseline1", "baseline2", NINE[3:]), "contrastive_acc", "accuracy",
    ),
    Claim(
        "LSTOC solves every task faster than PPO (the published method, then our solve phase), Office and Crafter",
        lambda: judge_every(_runs("efficiency"), NINE[3:], "published"), "learning_efficiency", "efficiency",
    ),
    Claim(
        "The same, Letter",
        lambda: judge_every(_runs("efficiency"), NINE[:3], "published"), "learning_efficiency", "efficiency",
    ),
    Claim(
        "The same, over all nine tasks at once",
        lambda: _faster("ppo", "published"), "learning_efficiency", "efficiency",
    ),
    Claim(
        f"Not in the paper: {variant('lstoc').title} solves every task faster than PPO",
        lambda: judge_every(_runs("efficiency"), NINE), "learning_efficiency", "efficiency", CONFIRMED,
    ),
    Claim(
        "Not in the paper: the same, over all tasks at once",
        lambda: _faster("ppo"), "learning_efficiency", "efficiency", CONFIRMED,
    ),
    Claim(
        "Not in the paper: also faster than PPO with a first-occupancy bonus",
        lambda: _faster("ppo+bonus"), "learning_efficiency", "efficiency", CONFIRMED,
    ),
    Claim(
        "Not in the paper: with the planner, solved in fewer steps than by PPO, PPO with a bonus, or guided with PPO",
        lambda: judge_first(_runs("efficiency"), NINE), "learning_efficiency", "efficiency", CONFIRMED,
    ),
    Claim(
        "Not in the paper: with the planner, a higher mean success rate than each of these on every task",
        lambda: judge_every(_runs("efficiency"), NINE, "planner", tables.SLOWER),
        "learning_efficiency", "efficiency", CONFIRMED,
    ),
    *(
        Claim(
            f"A fixed exploration policy takes more trajectories on {task} (paper: ratio {_paper_ratio(task):.1f})",
            partial(_fixed_takes_more, task), "subgoal_efficiency_traj", "discovery",
        )
        for task in THREE
    ),
    Claim(
        "The same, over these three and the two other Letter tasks at once",
        _fixed_takes_more_over_all, "subgoal_efficiency_traj", "discovery",
    ),
    Claim(
        "Its numbers of trajectories, 18,123, 32,195 and 33,562: the FSM drawings and most positions are unknown",
        lambda: Verdict(NOT_COMPARABLE), "subgoal_efficiency_traj", "discovery",
    ),
    Claim(
        "With ε = 0.5 every key state and order is found, all nine tasks (published method)",
        lambda: judge_exact(tables.discoveries(_runs("discovery")), "forward", NINE), "discovery_methods", "discovery",
    ),
    Claim(
        "Not in the paper: the guided method finds them, all nine tasks",
        lambda: judge_exact(tables.discoveries(_runs("discovery")), "lstoc", NINE),
        "discovery_methods", "discovery", CONFIRMED,
    ),
    Claim(
        "Learned labels speed up an unseen task in a changed world, against PPO, Office and Crafter",
        lambda: judge_every(_runs("generalization"), list(TRAIN_TASK), "labels"),
        "generalization", "generalization", BY_OURS,
    ),
    *(
        Claim(
            f"Not in the paper: also against PPO with a first-occupancy bonus, {name}",
            partial(_labels_beat_the_bonus, task), "generalization", "generalization", CONFIRMED,
        )
        for task, name in (("office-2-walls", "Office"), ("crafter-2-objects", "Crafter"))
    ),
    Claim(
        "The first subgoal has the highest importance (here: in most random Letter layouts)",
        lambda: judge_first_subgoal(_runs("readings")), "contrastive_temporal", "readings",
    ),
    Claim("Symmetric branches of an FSM cannot be told apart", judge_symmetric, "labeling_trees"),
    Claim("A bottleneck of the world cannot be told from a subgoal", judge_bottleneck, "limit0"),
)  # fmt: skip
