"""Experiments: plans that can be run, measurements against sums by hand, tables and figures of whatever there is."""

import json
import subprocess
import sys
from dataclasses import fields, replace
from typing import get_type_hints

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lstoc_core import cli, paths
from lstoc_core.config import LSTOCConfig
from lstoc_core.discovery.guided import GuidedConfig
from lstoc_core.discovery.published.forward import ForwardConfig
from lstoc_core.drawing import curves as figures
from lstoc_core.labeling.recognizer import LabelingFunction
from lstoc_core.policies.rewards import RewardConfig
from lstoc_core.study import cache, executors, experiments, learners, measure, settings, tables, variants
from lstoc_core.study.cache import RunSpec
from lstoc_core.study.experiments import EXPERIMENTS
from lstoc_core.study.plans import Experiment, Kind, Plan
from lstoc_core.study.settings import Discovering, Oracle, PixelNoise, PlainPPO, Unchanged, WrongLabels
from lstoc_core.study.variants import CURVES, OFFLINE, VARIANTS, ExperimentError, Variant
from lstoc_core.trajectories import random_walks
from lstoc_core.worlds import compile_world, make_vec
from lstoc_core.worlds.tasks import NINE, TASKS

LSTOC = VARIANTS["lstoc"].config()
PPO_8192 = {"steps": 8192, **VARIANTS["ppo"].config()}
each_experiment = pytest.mark.parametrize("name", EXPERIMENTS)


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    monkeypatch.setattr(paths, "DATA", tmp_path / "data")
    monkeypatch.setenv("LSTOC_FIGURES", str(tmp_path / "figures"))
    monkeypatch.setattr(cache, "with_loky", lambda call, items, lost, *, workers: map(call, items))
    yield
    plt.close("all")


# --- plans -----------------------------------------------------------------------------------------------------------


@each_experiment
@pytest.mark.parametrize("profile", ["smoke", "quick", "paper"])
def test_every_plan_is_a_list_of_different_runs_with_enough_seeds(name, profile):
    specs = experiments.experiment(name).specs(profile)
    assert len({spec.name for spec in specs}) == len(specs) > 0
    seeds = pd.DataFrame([(spec.task, spec.method, spec.seed) for spec in specs]).groupby([0, 1])[2].nunique()
    least = {"smoke": 1, "quick": 3, "paper": 3 if name == "robustness" else 5}[profile]
    assert (seeds >= least).all()


@pytest.mark.parametrize("profile", ["smoke", "quick", "paper"])
def test_experiments_of_one_kind_agree_on_its_runs(profile):
    """Otherwise each would find the other's runs stale, and redo them for ever."""
    kinds = {entry.kind for entry in EXPERIMENTS.values()}
    assert len({kind.name for kind in kinds}) == len(kinds)
    config: dict[str, dict] = {}
    for entry in EXPERIMENTS.values():
        for spec in entry.specs(profile):
            assert config.setdefault(spec.name, dict(spec.config)) == dict(spec.config)


def test_the_paper_profile_has_the_papers_budgets_and_tasks():
    for spec in EXPERIMENTS["efficiency"].specs("paper"):
        million = {"letter": 1.0, "office": 2.0, "crafter": 2.5}[TASKS[spec.task].domain]
        assert spec.config["steps"] == million * 1e6
    assert set(EXPERIMENTS["accuracy"].tasks("paper")) == set(EXPERIMENTS["discovery"].tasks("paper")) == set(NINE)
    assert set(EXPERIMENTS["ablation"].tasks("paper")) == set(experiments.THREE)


discovering = pytest.mark.parametrize("name", [n for n, v in VARIANTS.items() if isinstance(v.settings, Discovering)])


@discovering
def test_a_variant_differs_from_the_default_in_what_it_names(name):
    """A variant that sets something to its default value would be a copy of LSTOC under another name."""
    chosen, default = VARIANTS[name], LSTOCConfig()
    changed = chosen.settings.loop_config(wrong_labels=chosen.world.wrong_labels)
    got = {field.name for field in fields(default) if getattr(changed, field.name) != getattr(default, field.name)}
    named = {*chosen.settings.loop, *(["forward"] if chosen.settings.forward else [])}
    assert got == named | ({"guided"} if chosen.world.wrong_labels else set())
    assert all(getattr(changed.forward, field) == value for field, value in chosen.settings.forward.items())


@pytest.mark.parametrize(
    ("changes", "config"), [(settings.LoopChanges, LSTOCConfig), (settings.ForwardChanges, ForwardConfig)]
)
def test_changes_have_the_types_of_the_settings_they_change(changes, config):
    types = get_type_hints(config)
    assert get_type_hints(changes).items() <= types.items()


def test_a_configuration_is_plain_json_and_says_which_world_and_settings_are_meant():
    for each in VARIANTS.values():
        if each.settings is not None:
            config = json.loads(json.dumps(each.config()))
            assert (settings.world_of(config), settings.settings_of(config)) == (each.world, each.settings)
    assert VARIANTS["flipped"].config() == {"discovery": "guided", "solve": False, "flipped": 0.02}
    assert VARIANTS["ppo+bonus"].settings == PlainPPO(bonus=LSTOCConfig().bonus)


def test_committed_runs_are_of_todays_configurations(monkeypatch):
    """What a committed run was told is what a run of that name would be told now.

    The committed accuracy runs have one prefix of the samples more than the profile asks for today.
    """
    monkeypatch.setattr(paths, "DATA", paths.ROOT / "data")
    kinds = {entry.kind.name: entry for entry in EXPERIMENTS.values()}
    compared = 0
    for file in sorted((paths.DATA / "runs").glob("*/*/*--0.json")):
        manifest = json.loads(file.read_text())
        run = manifest["run"]
        kind = kinds[run["experiment"]].kind
        now = json.loads(json.dumps(kind.config(TASKS[run["task"]], run["method"], run["profile"])))
        learner = {key: now.pop(key) for key in ("learner", "bonus") if key in now}  # told by the method's name before
        told = manifest["config"]
        assert set(now.pop("shares", ())) <= set(told.pop("shares", ())), file.name
        assert told == now, file.name
        assert bool(learner) == (run["method"] in ("ppo", "ppo+bonus", "oracle"))
        compared += 1
    assert compared > 50


def test_names_and_colours_of_variants():
    assert all(name == each.name for name, each in VARIANTS.items())
    assert VARIANTS["lstoc"].colour == VARIANTS["guided"].colour
    compared = [[VARIANTS[name].colour for name in names] for names in (CURVES, variants.TRANSFERS, ("lstoc", "fixed"))]
    assert all(len(set(colours)) == len(colours) for colours in compared)
    assert set(measure.ALGORITHMS) == set(OFFLINE) <= set(VARIANTS)


def test_impossible_variants_and_configurations_are_refused():
    with pytest.raises(ValueError, match="'noisy-ppo': only a discovery runs in a changed world"):
        Variant("noisy-ppo", "PPO", world=WrongLabels(0.1), settings=PlainPPO())
    with pytest.raises(ExperimentError, match="'guided' cannot be trained by itself"):
        EXPERIMENTS["discovery"].specs("smoke", methods=["guided"])
    with pytest.raises(ValueError, match="unknown learner 'orakle'; did you mean oracle"):
        settings.settings_of({"steps": 1, "learner": "orakle"})
    with pytest.raises(ValueError, match="name its 'train_task'"):
        measure.generalization(RunSpec("generalization", "letter-1", "lstoc", 0, "smoke", {"steps": 1, **LSTOC}))


def test_experiments_are_listed_without_torch_and_matplotlib():
    code = "import sys, lstoc_core.study.experiments; print([m for m in ('torch', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- adding one ------------------------------------------------------------------------------------------------------


def tiny_measure(spec):
    """A run of the experiment that the test adds."""
    return pd.DataFrame({"env_steps": [10, 20], "height": [0.0, spec.config["height"] + spec.seed]})


def tiny_table(runs, tasks):
    return runs[runs.task.isin(tasks)].groupby(["task", "method"]).height.max().reset_index()


def tiny_drawing(runs, tasks, *, seed=0):
    fig, ax = plt.subplots()
    for _, run in runs[runs.task.isin(tasks)].groupby(["method", "seed"]):
        ax.plot(run.env_steps, run.height)
    return fig


def test_adding_an_experiment_is_one_entry(monkeypatch, tmp_path):
    """Its question, kind, plan, table and drawing are all in this file; runs, cache and command line take it as is."""
    entry = Experiment(
        question="How high is a tower?",
        kind=Kind("tower", tiny_measure, lambda task, method, profile: {"height": len(task.name)}),
        plans={"smoke": (Plan(("letter-1", "robot"), ("stone",), 2),)},
        table=tiny_table,
        draw=tiny_drawing,
    )
    monkeypatch.setitem(EXPERIMENTS, "towers", entry)
    runs = experiments.runs("towers", "smoke", progress=False)
    assert entry.table(runs, ["letter-1", "robot"]).values.tolist() == [
        ["letter-1", "stone", 9.0],
        ["robot", "stone", 6.0],
    ]
    assert len(entry.draw(runs, ["robot"]).axes[0].lines) == 2
    assert (tmp_path / "build/smoke/runs/tower/robot--stone--1.parquet").exists()
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "towers", "--profile", "smoke", "--save"])
    assert ended.value.code == 0
    pd.testing.assert_frame_equal(experiments.runs("towers"), runs.sort_values(["task", "seed"], ignore_index=True))
    experiments.compute(["towers"], "smoke")


def test_adding_a_variant_is_one_entry(monkeypatch):
    """A variant of another world and other settings: planned, run, tabulated and drawn under its title and colour."""
    doubtful = Variant(
        "doubtful", "5 % of labels wrong", "#123456", WrongLabels(0.05), Discovering(loop={"rearm": False})
    )
    monkeypatch.setitem(VARIANTS, "doubtful", doubtful)
    (spec,) = EXPERIMENTS["efficiency"].specs("smoke", tasks=["letter-1"], methods=["doubtful"], seeds=[0])
    assert spec.config == {
        "steps": 16_384, "discovery": "guided", "solve": False, "settings": {"rearm": False}, "flipped": 0.05,
    }  # fmt: skip
    runs = cache.compute(
        [replace(spec, config=spec.config | {"steps": 4096})], experiments.TRAINING.measure, progress=False
    )
    assert tables.discovery_table(runs, ["letter-1"], ["doubtful"]).method.tolist() == ["5 % of labels wrong"]
    fig = figures.draw_curves(runs, ["letter-1"], ["doubtful"])
    assert [text.get_text() for text in fig.legends[0].texts] == ["5 % of labels wrong"]
    assert fig.axes[0].lines[-1].get_color() == "#123456"


def test_given_tasks_methods_and_seeds_replace_the_plan():
    specs = EXPERIMENTS["efficiency"].specs("quick", tasks=["crafter-1"], methods=["ppo"], seeds=[7, 8])
    assert sorted((spec.task, spec.method, spec.seed) for spec in specs) == [
        ("crafter-1", "ppo", 7),
        ("crafter-1", "ppo", 8),
    ]
    steps = experiments.TRAINING_STEPS["quick"]["crafter"]
    assert specs[0].config == {"steps": steps, "learner": "ppo"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"profile": "fast"}, "unknown profile 'fast'"),
        ({"profile": "quick", "tasks": ["letter-9"]}, "unknown task 'letter-9'; did you mean letter-"),
        ({"profile": "quick", "methods": ["ppo+bonas"]}, "did you mean ppo[+]bonus"),
    ],
)
def test_unknown_names_are_named(arguments, message):
    with pytest.raises(ExperimentError, match=message):
        EXPERIMENTS["efficiency"].specs(**arguments)
    with pytest.raises(ExperimentError, match="did you mean accuracy"):
        experiments.experiment("acuracy")


def test_of_committed_runs_each_task_has_one_profile():
    rows = [("t1", "a", 0, "quick"), ("t1", "b", 0, "quick"), ("t1", "a", 0, "paper"), ("t2", "a", 0, "quick")]
    rows += [("t2", "a", 0, "paper")]
    table = pd.DataFrame(rows, columns=["task", "method", "seed", "profile"])
    kept = experiments.one_profile(table)
    assert kept.groupby("task").profile.unique().map(list).to_dict() == {"t1": ["quick"], "t2": ["paper"]}


# --- measurements ----------------------------------------------------------------------------------------------------


def test_a_curve_has_the_rate_of_all_episodes_of_a_window_and_none_of_successes_alone():
    """64 environments, horizon 200, segments of 64: the first failure can end in the fourth update only."""
    rng = np.random.default_rng(0)
    history = [{"env_steps": 4096, "episodes": 3, "success_rate": 1.0}]
    history += [{"env_steps": 8192, "episodes": 0, "success_rate": float("nan")}]
    history += [
        {"env_steps": 4096 * k, "episodes": int(n), "success_rate": rng.integers(n + 1) / n}
        for k, n in enumerate(rng.integers(1, 70, size=40), 3)
    ]
    curve = learners.success_curve(history, False, TASKS["letter-1"], 250_000)
    assert (curve.env_steps.diff().dropna() >= 64 * 200).all()
    assert curve.env_steps.iloc[0] >= 64 * 200
    assert curve.env_steps.iloc[-1] == history[-1]["env_steps"]
    begin = 0
    for point in curve.itertuples():
        inside = [r for r in history if begin < r["env_steps"] <= point.env_steps and r["episodes"]]
        successes, episodes = sum(r["episodes"] * r["success_rate"] for r in inside), sum(r["episodes"] for r in inside)
        assert point.success_rate == pytest.approx(successes / episodes)
        begin = point.env_steps
    solved = learners.success_curve(history, True, TASKS["letter-1"], 250_000)
    last = history[-8:]
    rate = sum(r["episodes"] * r["success_rate"] for r in last) / sum(r["episodes"] for r in last)
    assert solved.success_rate.iloc[-1] == pytest.approx(rate)
    assert solved.success_rate.iloc[:-1].equals(curve.success_rate.iloc[:-1])
    short = learners.success_curve(history[1:2], False, TASKS["letter-1"], 8192)
    assert short.success_rate.tolist() == [0.0]


def test_accuracy_of_a_tree():
    truth = [(1, 2, 4), (3, 4)]  # nodes 1, 12, 124, 3, 34
    judged = measure.tree_accuracy({(1,), (1, 2), (9,), (9, 3)}, {(9, 3)}, truth)
    assert judged == {"accuracy": 2 / 5, "key_states": 3 / 4, "precision": 1 / 2, "exact": False}
    perfect = measure.tree_accuracy(measure.prefixes(truth), set(truth), truth)
    assert perfect == {"accuracy": 1.0, "key_states": 1.0, "precision": 1.0, "exact": True}
    nothing = measure.tree_accuracy(set(), set(), truth)
    assert (nothing["accuracy"], nothing["exact"], np.isnan(nothing["precision"])) == (0.0, False, True)


def test_guided_learns_the_whole_tree_of_random_walks_and_forward_some_tree():
    task = TASKS["letter-2"]
    store = random_walks(make_vec(task, num_envs=500, seed=0), 2000, seed=0)
    truth = learners.true_paths(task)
    nodes, found = measure.learned_tree(store, task, GuidedConfig(), seed=0)
    assert measure.tree_accuracy(nodes, found, truth)["exact"]
    assert nodes == measure.prefixes(truth)
    fsm = task.formula.fsm()
    nodes, found = measure.learned_tree(store, task, measure.ALGORITHMS["forward-exact"], seed=0)
    assert nodes
    assert found <= nodes
    assert max(map(len, nodes)) <= fsm.longest_path + 1  # a tree is abandoned as soon as it is too deep


def test_training_learns_letter_1_and_says_what_it_found():
    config = {"steps": 60_000, **Discovering().config()}
    table = measure.training(RunSpec("training", "letter-1", "lstoc", 0, "smoke", config))
    assert table.env_steps.is_monotonic_increasing
    assert table.success_rate.between(0, 1).all()
    last = table.iloc[-1]
    assert last.finished
    assert last.exact
    assert not last.stopped_wrong
    assert 0 < last.first_right_trajectories <= last.trajectories
    assert last.stop_steps <= 60_000


def test_the_oracle_is_paid_along_the_true_sequences_and_ppo_is_not():
    task = TASKS["letter-3"]
    world = compile_world(task)
    assert {tuple(world.task.cells[int(np.flatnonzero(world.observation_id == i)[0])] for i in path)
            for path in learners.true_paths(task)} == {
        tuple(task.positions[symbol] for symbol in sequence) for sequence in task.sequences
    }  # fmt: skip
    oracle = Oracle().learner(task, seed=0)
    assert set(oracle.paths) == set(learners.true_paths(task))
    assert oracle.plan.config.approach > 0
    plain = PlainPPO().learner(task, seed=0).rewards.plan
    assert (plain.config, plain.paths) == (RewardConfig(), ())
    assert PlainPPO(bonus=0.25).learner(task, seed=0).rewards.plan.config.bonus == 0.25


def test_worlds_are_changed_as_said():
    task = TASKS["letter-1"]
    assert Unchanged().env(task, seed=0) is task
    assert WrongLabels(0.1).env(task, seed=0)().rate == 0.1
    assert (PixelNoise(3).contrast, WrongLabels(0.1).contrast) == ("learned", "exact")


def test_training_stops_when_the_task_is_solved():
    class Learner:
        env_steps = 0

        def update(self):
            self.env_steps += 4096
            return {
                "env_steps": self.env_steps,
                "episodes": 20,
                "success_rate": 1.0 if self.env_steps > 40_000 else 0.5,
            }

    history, solved = learners.train(Learner(), 10**9)
    assert solved
    assert history[-1]["env_steps"] == 4096 * (9 + 8)  # the ninth update is the last at one half
    assert learners.train(Learner(), 30_000)[1] is False


def test_labelled_paths_follow_the_function_in_an_unseen_world():
    """Learned in Office 2, the labels give the test task's true sequences in the world with other walls."""
    trained, tested = (compile_world(TASKS[name]) for name in ("office-2", "office-2-walls"))
    symbols = trained.task.formula.symbols
    key_ids = [trained.observation_of_symbol(symbol) for symbol in symbols]
    function = LabelingFunction.learn(trained.observations, key_ids, dict(enumerate(symbols)))
    found = set(measure.labelled_paths(function, tested.observations, tested.task.sequences))
    assert found == set(learners.true_paths(tested.task))
    assert not list(measure.labelled_paths(replace(function, symbols=("x",) * 4), tested.observations, [("m", "c")]))


def test_generalization_learns_labels_before_it_uses_them():
    """The whole way, in the world where it is quick: Letter 1 for training and testing."""
    config = {"steps": 8192, "train_task": "letter-1", "train_steps": 100_000}
    table = measure.generalization(RunSpec("generalization", "letter-1", "lstoc", 0, "smoke", config))
    assert table.labels_learned.all()
    assert (table.label_precision.iloc[0], table.label_recall.iloc[0]) == (1, 1)
    alone = measure.generalization(RunSpec("generalization", "letter-1", "ppo", 0, "smoke", PPO_8192))
    assert "labels_learned" not in alone
    assert alone.env_steps.iloc[-1] == table.env_steps.iloc[-1] == 8192


# --- tables and figures ----------------------------------------------------------------------------------------------


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
    assert [text.get_text() for text in fig.axes[0].texts] == ["2 of 3", *["no runs"] * 3]
    fig = figures.draw_exact(table[:0], ["letter-1"], ["lstoc"])
    assert [text.get_text() for text in fig.axes[0].texts] == ["no runs"]


@pytest.mark.parametrize("tasks", [NINE[:1], experiments.FOUR, NINE[:5], NINE])
def test_panels_without_runs_say_so(tasks):
    fig = figures.draw_curves(curves("letter-1"), tasks, CURVES)
    empty = [ax for ax in fig.axes if any(text.get_text() == "no runs" for text in ax.texts)]
    assert len(fig.axes) == len(tasks)
    assert len(empty) == len(tasks) - 1
    assert [text.get_text() for text in fig.legends[0].texts] == ["LSTOC (guided)", "PPO"]
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


def test_the_command_line_computes_and_saves(capsys, tmp_path):
    arguments = ["--profile", "smoke", "--tasks", "letter-1", "--methods", "ppo", "ppo+bonus", "--seeds", "4", "5"]
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "efficiency", *arguments, "--save"])
    assert ended.value.code == 0
    assert "4 runs copied" in capsys.readouterr().out
    assert len(list((tmp_path / "data/runs/smoke/training").glob("*.parquet"))) == 4
    table = experiments.runs("efficiency")
    assert set(zip(table.method, table.seed, strict=True)) == {(m, s) for m in ("ppo", "ppo+bonus") for s in (4, 5)}
    assert (table.budget == experiments.TRAINING_STEPS["smoke"]["letter"]).all()


@pytest.mark.parametrize("kind", sorted({entry.kind.name for entry in EXPERIMENTS.values()}))
def test_loky_and_dask_give_the_same_tables_under_the_smoke_profile(monkeypatch, tmp_path, kind):
    """The real runs in real worker processes, byte for byte; those on pixels are left to the smoke reproduction."""
    monkeypatch.setattr(cache, "with_loky", executors.with_loky)
    entries = [entry for entry in EXPERIMENTS.values() if entry.kind.name == kind]
    specs = {spec.name: spec for entry in entries for spec in entry.specs("smoke")}
    specs = [spec for spec in specs.values() if TASKS[spec.task].domain != "crafter"]
    written = []
    for executor in ("loky", "dask"):
        monkeypatch.setattr(paths, "BUILD", tmp_path / executor)
        cache.compute(specs, entries[0].kind.measure, executor=executor, workers=2, progress=False)
        written.append([spec.data_path.read_bytes() for spec in specs])
    assert written[0] == written[1]


def test_several_experiments_share_one_pool_and_their_runs(monkeypatch):
    asked, functions = [], {}

    def compute(specs, function, **_):
        asked.extend(specs)
        functions.update(function)

    monkeypatch.setattr(cache, "compute", compute)
    experiments.compute(["efficiency", "generalization", "discovery"], "quick")
    names = [spec.name for spec in asked]
    assert len(names) == len(set(names))
    assert {"training/letter-2--fixed--0", "generalization/office-2-walls--ppo--2"} <= set(names)
    assert asked[0].task == "crafter-2-objects", "the longest first"
    assert functions == {kind: f"lstoc_core.study.measure:{kind}" for kind in ("training", "generalization")}


def test_without_committed_runs_the_table_is_empty():
    assert experiments.runs("efficiency").empty


def test_an_interrupted_discovery_is_not_measured(monkeypatch):
    found = measure.discover("letter-1", max_steps=4096, progress=False, callbacks=[lambda record: False])
    assert found.interrupted
    monkeypatch.setattr(measure, "discover", lambda *_, **__: found)
    for run, told in (
        (measure.training, LSTOC),
        (measure.generalization, {"train_task": "letter-1", "train_steps": 1}),
    ):
        with pytest.raises(KeyboardInterrupt, match="x/letter-1--lstoc--0 was interrupted"):
            run(RunSpec("x", "letter-1", "lstoc", 0, "smoke", {"steps": 4096, **told}))
