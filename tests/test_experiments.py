"""Variants and experiments: plans that can be run, and how one more is added."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import fields, replace
from typing import get_type_hints

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from lstoc_core import cli, paths
from lstoc_core.config import LSTOCConfig, PlannerConfig
from lstoc_core.discovery.published.forward import ForwardConfig
from lstoc_core.drawing import curves as figures
from lstoc_core.study import cache, executors, experiments, measure, settings, tables
from lstoc_core.study.cache import RunSpec
from lstoc_core.study.experiments import EXPERIMENTS
from lstoc_core.study.plans import Experiment, Kind, Plan
from lstoc_core.study.settings import Discovering, PlainPPO, WrongLabels
from lstoc_core.study.variants import CURVES, OFFLINE, VARIANTS, ExperimentError, Variant
from lstoc_core.worlds.tasks import NINE, TASKS

pytestmark = pytest.mark.usefixtures("places")
LSTOC = VARIANTS["lstoc"].config()
PPO_8192 = {"steps": 8192, **VARIANTS["ppo"].config()}
each_experiment = pytest.mark.parametrize("name", EXPERIMENTS)


# --- plans -----------------------------------------------------------------------------------------------------------


@each_experiment
@pytest.mark.parametrize("profile", ["smoke", "quick", "paper"])
def test_every_plan_is_a_list_of_different_runs_with_enough_seeds(name, profile):
    specs = experiments.experiment(name).specs(profile)
    assert len({spec.name for spec in specs}) == len(specs) > 0
    seeds = pd.DataFrame([(spec.task, spec.method, spec.seed) for spec in specs]).groupby([0, 1])[2].nunique()
    few = {"robustness": 3, "discovery": 3, "readings": 1}.get(name, 5)
    least = {"smoke": 1, "quick": 3, "paper": few}[profile]
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
    seeds = Counter((spec.task, spec.method) for spec in EXPERIMENTS["discovery"].specs("paper"))
    assert all(seeds[task, method] >= 5 for task in NINE for method in ("lstoc", "planner", "forward"))
    assert all(seeds[task, method] == 5 for task in experiments.THREE for method in ("forward", "forward-fixed"))


discovering = pytest.mark.parametrize("name", [n for n, v in VARIANTS.items() if isinstance(v.settings, Discovering)])


@discovering
def test_a_variant_differs_from_the_default_in_what_it_names(name):
    """A variant that sets something to its default value would be a copy of LSTOC under another name."""
    chosen, default = VARIANTS[name], LSTOCConfig()
    changed = chosen.settings.loop_config(wrong_labels=chosen.world.wrong_labels)
    got = {field.name for field in fields(default) if getattr(changed, field.name) != getattr(default, field.name)}
    parts = [name for name in ("forward", "planner") if getattr(chosen.settings, name)]
    named = {*chosen.settings.loop, *parts}
    assert got == named | ({"guided"} if chosen.world.wrong_labels else set())
    assert all(getattr(changed.forward, field) == value for field, value in chosen.settings.forward.items())
    assert all(getattr(changed.planner, field) == value for field, value in chosen.settings.planner.items())


@pytest.mark.parametrize(
    ("changes", "config"),
    [
        (settings.LoopChanges, LSTOCConfig),
        (settings.ForwardChanges, ForwardConfig),
        (settings.PlannerChanges, PlannerConfig),
    ],
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
        learner = {key: now.pop(key) for key in ("learner", "bonus") if key in now}
        told = manifest["config"]
        assert {key: told.pop(key) for key in ("learner", "bonus") if key in told} in ({}, learner)  # {}: older runs
        assert set(now.pop("shares", ())) <= set(told.pop("shares", ())), file.name
        assert told == now, file.name
        assert bool(learner) == (run["method"] in ("ppo", "ppo+bonus", "oracle"))
        compared += 1
    assert compared > 50


def test_names_and_colours_of_variants():
    assert all(name == each.name for name, each in VARIANTS.items())
    assert VARIANTS["lstoc"].colour == VARIANTS["guided"].colour
    assert VARIANTS["published"].colour == VARIANTS["forward"].colour
    drawn = [*CURVES, "fixed", "baseline1", "baseline2"]
    assert len({VARIANTS[name].colour for name in drawn}) == len(drawn), "a colour is one method's in all figures"
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


# --- running them ----------------------------------------------------------------------------------------------------


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
    """Two real runs in real worker processes, byte for byte; those on pixels are left to the smoke reproduction."""
    monkeypatch.setattr(cache, "with_loky", executors.with_loky)
    entries = [entry for entry in EXPERIMENTS.values() if entry.kind.name == kind]
    specs = {spec.name: spec for entry in entries for spec in entry.specs("smoke")}
    specs = [spec for spec in specs.values() if TASKS[spec.task].domain != "crafter"][-2:]
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
