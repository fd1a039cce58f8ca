"""Tables and figures of whatever runs there are."""

import numpy as np
import pandas as pd
import pytest

from lstoc_core.drawing import curves as figures
from lstoc_core.study import cache, experiments, measure, tables
from lstoc_core.study.cache import RunSpec
from lstoc_core.study.experiments import EXPERIMENTS
from lstoc_core.study.variants import CURVES, OFFLINE, VARIANTS
from lstoc_core.worlds.tasks import NINE

pytestmark = pytest.mark.usefixtures("places")
LSTOC = VARIANTS["lstoc"].config()
PPO_8192 = {"steps": 8192, **VARIANTS["ppo"].config()}
each_experiment = pytest.mark.parametrize("name", EXPERIMENTS)


def curves(task="letter-1", methods=("lstoc", "ppo"), height=None, seeds=3, budget=100_000):
    """Curves that rise to a height of their own; LSTOC higher."""
    height = height or {"lstoc": 0.8, "ppo": 0.4}
    steps = np.arange(1, 11) * budget // 10
    rows = [
        pd.DataFrame({"env_steps": steps, "success_rate": height[method] + seed / 100}).assign(
            experiment="training", task=task, method=method, seed=seed, profile="quick", solved=False, budget=budget
        )
        for method in methods
        for seed in range(seeds)
    ]
    return pd.concat(rows, ignore_index=True)


def test_areas_and_their_difference():
    table = curves()
    area = tables.areas(table).groupby("method").area.apply(list).to_dict()
    assert area["lstoc"] == pytest.approx([0.80, 0.81, 0.82])
    row = tables.advantage(table, ["letter-1", "office-1"]).iloc[0]
    assert row.difference == pytest.approx(0.4)
    assert 0.37 < row.low < 0.4 < row.high < 0.43
    assert tables.advantage(table[:0], ["letter-1"]).empty


def test_a_solved_run_keeps_its_rate_to_the_end_of_the_budget():
    table = curves(seeds=1)
    short = table[(table.method == "lstoc") & (table.env_steps <= 30_000)].assign(solved=True)
    grid, values = figures.curves_on_grid(short)
    assert grid[-1] == 100_000
    assert values == pytest.approx(0.8)


def test_steps_to_a_solution_are_those_of_the_runs_that_found_one():
    def run(method, seed, steps, solved):
        common = {"task": "letter-1", "method": method, "seed": seed, "solved": solved, "budget": 100}
        return [
            common | {"env_steps": steps // 2, "success_rate": 0.0},
            common | {"env_steps": steps, "success_rate": 1.0},
        ]

    table = pd.DataFrame([*run("lstoc", 0, 40, True), *run("lstoc", 1, 60, True), *run("ppo", 0, 100, False)])
    got = tables.solved_table(table, ["letter-1", "letter-2"], ["lstoc", "ppo", "oracle"])
    assert got.solved.tolist() == ["2 of 2", "0 of 1"]
    assert got.steps.tolist() == ["50 (40 to 60)", "–"]
    assert got.budget.tolist() == [100, 100]


def test_first_to_solve_wants_the_slowest_run_before_the_fastest_of_the_others():
    def runs(method, steps, solved=True):
        rows = [("letter-1", method, seed, each, solved, 900) for seed, each in enumerate(steps)]
        return pd.DataFrame(rows, columns=["task", "method", "seed", "env_steps", "solved", "budget"])

    others = [runs("lstoc", [100, 200]), runs("ppo", [900, 900], solved=False), runs("ppo+bonus", [300])]
    [row] = tables.first_to_solve(pd.concat([runs("planner", [50, 99]), *others]), ["letter-1", "letter-2"]).values
    assert row.tolist() == ["letter-1", "74 (50 to 99)", "150 (100 to 200)", "> 900", "300", True]
    mixed = runs("ppo", [100, 200, 900]).assign(solved=[True, True, False])
    assert (
        tables.first_to_solve(pd.concat([runs("planner", [50]), others[0], mixed, others[2]]), ["letter-1"]).iloc[0, 3]
        == "200 (100 to > 900)"
    ), "the median of all runs is known where it is below every budget that ran out"
    tie = pd.concat([runs("planner", [50, 100]), *others])
    assert tables.first_to_solve(tie, ["letter-1"]).apart.tolist() == [False]
    failed = pd.concat([runs("planner", [50, 60], solved=False), *others])
    assert tables.first_to_solve(failed, ["letter-1"]).apart.tolist() == [False]
    assert tables.first_to_solve(pd.concat(others), ["letter-1"]).empty


def test_coverage_says_what_is_missing():
    table = pd.concat([curves(), curves("letter-2", ("lstoc",), seeds=2)])
    told = tables.coverage(table, ["letter-1", "letter-2", "office-1"], ["lstoc", "ppo"])
    assert told.seeds == {("letter-1", "lstoc"): 3, ("letter-1", "ppo"): 3, ("letter-2", "lstoc"): 2}
    assert told.missing == (("letter-2", "ppo"), ("office-1", "lstoc"), ("office-1", "ppo"))
    assert told.absent == ("office-1",)
    assert not told
    assert tables.coverage(table, ["letter-1"], ["lstoc", "ppo"])
    assert str(told).splitlines() == [
        "letter-1: 3 seeds, profile quick",
        "letter-2: 2 seeds, profile quick; no runs of PPO",
        "no runs: office-1",
    ]
    assert str(tables.coverage(table[:0], ["letter-1"], ["lstoc"])) == "no runs: letter-1"


def test_discoveries_are_counted_by_run_and_unfinished_ones_are_not_averaged():
    facts = dict(exact=[True, True, False], finished=[True, True, False], trajectories=[100, 300, 9000])
    table = curves(methods=("lstoc",))
    for name, values in facts.items():
        table[name] = table.seed.map(dict(enumerate(values)))
    table = table.assign(
        stopped_wrong=False,
        found=table.seed.map({0: 1.0, 1: 1.0, 2: 0.25}),
        first_right_trajectories=table.seed.map({0: 90.0, 1: 250.0, 2: np.nan}),
    )
    table = pd.concat([table, curves(methods=("ppo",))])  # rows without a discovery
    row = tables.discovery_table(table, ["letter-1", "letter-2"], ["lstoc", "fixed"])
    assert len(row) == 1
    row = row.iloc[0]
    assert (row.exact, row.finished, row["trajectories"]) == ("2 of 3", 2, "200 (100 to 300)")
    assert row["first right"] == "170 (90 to 250)"
    assert row["key states"] == 0.75
    fig = figures.draw_trajectories(table, ["letter-1", "letter-2"], ["lstoc", "fixed"])
    texts = [text.get_text() for text in fig.axes[0].texts]
    assert texts == ["no runs"] * 3
    fig = figures.draw_exact(table, ["letter-1", "letter-2"], ["lstoc", "fixed"])
    assert [text.get_text() for text in fig.axes[0].texts] == ["2 of 3", *["–"] * 3]
    fig = figures.draw_exact(table[:0], ["letter-1"], ["lstoc"])
    assert [text.get_text() for text in fig.axes[0].texts] == ["–"]


@pytest.mark.parametrize("tasks", [NINE[:1], experiments.FOUR, NINE[:5], NINE])
def test_panels_without_runs_say_so(tasks):
    fig = figures.draw_curves(curves("letter-1"), tasks, CURVES)
    empty = [ax for ax in fig.axes if any(text.get_text() == "no runs" for text in ax.texts)]
    assert len(fig.axes) == len(tasks)
    assert len(empty) == len(tasks) - 1
    assert [text.get_text() for text in fig.legends[0].texts] == ["guided, PPO explorer", "PPO"]
    for function in (figures.draw_curves, figures.draw_accuracy):
        assert len(function(curves()[:0], tasks, CURVES).axes) == len(tasks)


def test_the_accuracy_figure_and_table_read_real_runs(tmp_path):
    """A real, small run: stored, read back, drawn and tabulated."""
    config = {"steps": 20_000, "shares": [0.5, 1.0]}
    spec = RunSpec("accuracy", "letter-1", "offline", 0, "smoke", config)
    cache.compute([spec], experiments.ACCURACY.measure, progress=False)
    cache.promote("smoke", "accuracy")
    table = experiments.runs("accuracy")
    assert set(table.method) == set(measure.ALGORITHMS)
    assert len(table) == 2 * len(measure.ALGORITHMS)
    assert table.groupby("samples").positives.nunique().eq(1).all()  # the same samples for all
    rows = tables.accuracy_table(table, ["letter-1", "office-2"])
    assert list(rows.task) == ["letter-1"] * 5
    fig = EXPERIMENTS["accuracy"].draw(table, experiments.FOUR)
    assert len(fig.legends[0].texts) == 5
    styles = {line.get_label(): line.get_linestyle() for line in fig.axes[0].lines}
    assert [styles[VARIANTS[name].title] for name in OFFLINE] == ["-", "-", "--", "-", "-"], "same colour: dashed"


def test_the_ratio_of_trajectories_counts_unfinished_runs_with_what_they_had():
    counts = {"forward": [100, 100, 100], "forward-fixed": [200, 400, 200]}
    rows = [
        {"experiment": "training", "task": "letter-2", "method": method, "seed": seed, "profile": "paper",
         "trajectories": count, "finished": count < 400, "exact": True, "step": 1}
        for method, each in counts.items() for seed, count in enumerate(each)
    ]  # fmt: skip
    row = tables.trajectory_ratio(pd.DataFrame(rows), ["letter-1", "letter-2"]).squeeze()
    assert row.task == "letter-2"
    assert (row.iloc[1], row.stopped) == (100, "3 of 3 and 2 of 3")
    assert 2 <= row.low <= row.ratio <= row.high <= 4
    assert tables.trajectory_ratio(pd.DataFrame(), ["letter-2"]).empty


def test_a_range_of_one_value_is_that_value():
    assert tables._median_and_range(pd.Series([5123.0])) == tables._median_and_range(pd.Series([5123, 5123])) == "5,123"
    assert tables._median_and_range(pd.Series([1, 3])) == "2 (1 to 3)"
    assert tables._median_and_range(pd.Series([], dtype=float)) == "–"


def test_methods_side_by_side_keep_the_order_of_tasks_and_methods():
    rows = [("t2", "B", "1 of 1", "5"), ("t2", "A", "0 of 1", "–"), ("t1", "B", "2 of 2", "3 (2 to 4)")]
    found = tables.side_by_side(pd.DataFrame(rows, columns=["task", "method", "exact", "trajectories"]))
    assert found.to_dict("index") == {
        "t2": {"B": "5; 1 of 1", "A": "–; 0 of 1"},
        "t1": {"B": "3 (2 to 4); 2 of 2", "A": "–"},
    }


def test_unfinished_runs_of_the_published_method_have_a_reason():
    common = {"experiment": "training", "task": "office-3", "method": "forward", "profile": "paper", "finished": False}
    facts = {"trajectories": 900, "positives": 30}
    trees = [(1, 0, 0), (2, 3, 1), (0, 1, 4)]
    rows = [
        common | facts | {"seed": seed, "trees_right": right, "trees_early": early, "trees_other": other}
        for seed, (right, early, other) in enumerate(trees)
    ]
    rows.append({**rows[0], "seed": 3, "finished": True})
    rows.append({**common, **facts, "seed": 4})  # of a run that did not count its trees
    table = tables.unfinished_table(pd.DataFrame(rows), NINE)
    assert table.seed.tolist() == [0, 1, 2, 4]
    assert table.reason.tolist() == [
        "too few successes", "confounded order", "another state stands out", "not recorded",
    ]  # fmt: skip
    assert table.successes.tolist() == [30] * 4
    assert tables.unfinished_table(curves(), NINE).empty
