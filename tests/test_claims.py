"""The page of claims: in step with the committed runs, and verdicts that follow from numbers."""

from dataclasses import asdict
from itertools import product

import pandas as pd
import pytest

from lstoc_core import paths
from lstoc_core.study import claims, tables
from lstoc_core.study.experiments import THREE, runs
from lstoc_core.study.readings import Reading
from lstoc_core.worlds.tasks import NINE


def test_the_page_is_that_of_the_committed_runs():
    text = (paths.ROOT / "docs" / "claims.md").read_text()
    assert text == claims.page(), "write it again: python -m lstoc_core claims --write"


def test_the_readme_tells_what_the_committed_runs_say():
    text = (paths.ROOT / "README.md").read_text().replace("**", "")
    done = tables.discoveries(runs("discovery"))
    for task, method in product(THREE, ("forward", "lstoc", "planner")):
        some = done[(done.task == task) & (done.method == method)]
        ended = some[some.finished.astype(bool)]
        assert f"{int(ended.trajectories.median()):,}; {int(some.exact.sum())} of {len(some)}" in text, (task, method)
    for method in ("forward", "lstoc", "planner"):
        some = done[(done.method == method) & done.task.isin(NINE)]
        assert f"{int(some.exact.sum())} of {len(some)}" in text, method
    for than in ("baseline1", "baseline2"):
        share = claims._accuracy("forward", than, NINE).number.split()[2]
        assert share in text, than
    rows = pd.read_csv(paths.DATA / "environments.csv")
    assert f"{rows.right.sum()} of {len(rows)} right" in text
    assert (
        f"{rows.right.sum()} of {len(rows)} runs are right"
        in (paths.ROOT / "docs" / "your_own_environment.md").read_text()
    )


def test_a_notebook_shows_the_claims_of_its_figures():
    found = claims.table("contrastive_acc")
    assert len(found) == 3
    assert len(claims.table()) == len(claims.CLAIMS)
    page = claims.page()
    assert all(f"*{row.verdict}* | {row.number}" in page for row in found.itertuples())


def scores(one, two, profile="paper", tasks=("t",)):
    rows = [(task, method, profile, s) for task in tasks for method, some in (("a", one), ("b", two)) for s in some]
    return pd.DataFrame(rows, columns=["task", "method", "profile", "score"])


@pytest.mark.parametrize(
    ("table", "verdict"),
    [
        (scores([2, 3, 4], [0, 1, 1]), claims.READING),
        (scores([0, 1, 1], [2, 3, 4]), claims.DIFFERS),
        (scores([1, 1, 1], [1, 1, 1]), claims.UNSETTLED),  # a tie is no improvement
        (scores([1, 2, 3], [2, 2, 2]), claims.UNSETTLED),
        (scores([2, 3], [0, 1]), claims.UNKNOWN),
        (scores([2, 3], [0, 1], profile="quick"), claims.UNKNOWN),
        (scores([2, 3], []), claims.UNKNOWN),
    ],
)
def test_an_improvement_needs_an_interval_on_its_side_and_the_papers_budgets(table, verdict):
    assert claims.judge_improvement(table, "a", "b", ["t"]).verdict == verdict


def test_a_task_without_runs_leaves_a_claim_open():
    found = claims.judge_improvement(scores([2, 3], [0, 1]), "a", "b", ["t", "u"])
    assert found == claims.Verdict(claims.UNKNOWN, "P = 1.00 (1.00 to 1.00), 1 of 2 tasks, 2 runs each")


@pytest.mark.parametrize(
    ("exact", "tasks", "verdict"),
    [
        ([1, 1, 1], ["t"], claims.READING),
        ([1, 1, 0], ["t"], claims.DIFFERS),
        ([1, 1], ["t"], claims.UNKNOWN),
        ([1, 1, 1], ["t", "u"], claims.UNKNOWN),
    ],
)
def test_one_wrong_run_is_enough_to_differ(exact, tasks, verdict):
    done = pd.DataFrame({"task": "t", "method": "m", "profile": "paper", "exact": exact, "finished": True})
    done = done.astype({"exact": bool})
    unfinished = done.assign(finished=done.exact)
    if len(exact) >= claims.FEWEST:
        expected = claims.READING if all(exact) else claims.UNSETTLED
        assert claims.judge_exact(unfinished, "m", ["t"]).verdict == expected
    assert claims.judge_exact(done, "m", tasks).verdict == verdict
    assert claims.judge_exact(done, "other", tasks).verdict == claims.UNKNOWN


@pytest.mark.parametrize(
    ("ppo", "profile", "verdict"),
    [(0.1, "paper", claims.READING), (0.1, "quick", claims.UNKNOWN), (0.9, "paper", claims.DIFFERS)],
)
def test_every_task_means_every_task(ppo, profile, verdict):
    rates = {"lstoc": 0.5, "ppo": ppo}
    rows = [(method, seed, step, rates[method]) for method in rates for seed in range(3) for step in (0, 100)]
    table = pd.DataFrame(rows, columns=["method", "seed", "env_steps", "success_rate"])
    table = table.assign(task="letter-1", profile=profile, budget=100)
    assert claims.judge_every(table, ["letter-1"]).verdict == verdict
    assert claims.judge_every(table.iloc[:0], ["letter-1"]).verdict == claims.UNKNOWN


@pytest.mark.parametrize(
    ("rate", "solved_at", "verdicts"),
    [
        (0.9, 10, (claims.READING, claims.READING)),
        (0.5, 50, (claims.UNSETTLED, claims.UNSETTLED)),
        (0.2, 90, (claims.DIFFERS, claims.UNSETTLED)),
    ],
)
def test_the_planner_must_be_above_every_other_learner_on_every_task(rate, solved_at, verdicts):
    runs = {"planner": (rate, solved_at), "lstoc": (0.3, 60), "ppo": (0.1, 100), "ppo+bonus": (0.5, 40)}
    rows = [
        ("letter-1", method, seed, "paper", step, rate, True, 100)
        for method, (rate, last) in runs.items()
        for seed in range(3)
        for step in (0, last)
    ]
    columns = ["task", "method", "seed", "profile", "env_steps", "success_rate", "solved", "budget"]
    table = pd.DataFrame(rows, columns=columns)
    above = claims.judge_every(table, ["letter-1"], "planner", tables.SLOWER)
    assert (above.verdict, claims.judge_first(table, ["letter-1"]).verdict) == verdicts
    few = table[table.seed < 2]
    assert claims.judge_first(few, ["letter-1"]).verdict == claims.UNKNOWN
    also = claims.judge_every(table, ["letter-1", "letter-2"], "planner", tables.SLOWER)
    assert also.verdict in (claims.UNKNOWN, claims.DIFFERS)


def test_what_no_run_decides_is_computed():
    assert claims.judge_symmetric() == claims.Verdict(claims.CONFIRMED, "interchangeable: a and d; b and e; c and f")
    found = claims.judge_bottleneck()
    assert found.verdict == claims.DIFFERS
    assert "alone: not unique" in found.number


@pytest.mark.parametrize(("right", "verdict"), [(9, claims.READING), (0, claims.DIFFERS), (5, claims.UNSETTLED)])
def test_the_first_subgoal_is_judged_by_the_best_reading_on_random_layouts(right, verdict):
    best = asdict(Reading())
    rows = [
        {"task": "letter-1", "method": "layouts", **best, "exact": True, "finished": True, "first": first}
        for first in ["next subgoal"] * right + ["later subgoal"] * (9 - right)
    ]
    assert claims.judge_first_subgoal(pd.DataFrame(rows)).verdict == verdict
    assert claims.judge_first_subgoal(pd.DataFrame()).verdict == claims.UNKNOWN
