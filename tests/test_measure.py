"""One run of each kind, against sums by hand."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lstoc_core import paths
from lstoc_core.discovery.guided import GuidedConfig
from lstoc_core.labeling.recognizer import LabelingFunction
from lstoc_core.policies.ppo import PPO
from lstoc_core.policies.rewards import RewardConfig
from lstoc_core.run import checkpoint
from lstoc_core.run.journal import Journal
from lstoc_core.study import cache, learners, measure, readings, tables
from lstoc_core.study.cache import RunSpec
from lstoc_core.study.experiments import EXPERIMENTS
from lstoc_core.study.settings import Discovering, Oracle, PixelNoise, PlainPPO, Unchanged, WrongLabels
from lstoc_core.study.specs import checkpoint_place
from lstoc_core.study.variants import VARIANTS
from lstoc_core.trajectories import random_walks
from lstoc_core.worlds import compile_world, make_vec
from lstoc_core.worlds.tasks import TASKS

pytestmark = pytest.mark.usefixtures("places")
LSTOC = VARIANTS["lstoc"].config()
PPO_8192 = {"steps": 8192, **VARIANTS["ppo"].config()}
each_experiment = pytest.mark.parametrize("name", EXPERIMENTS)


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


def test_a_solved_run_is_judged_by_the_updates_after_its_exploration():
    """Its last window may reach back into exploration, where half of the actions are random."""
    explored = [{"env_steps": 4096 * k, "episodes": 50, "success_rate": 0.5, "phase": "explore"} for k in range(1, 6)]
    ended = {"env_steps": 4096 * 6, "episodes": 50, "success_rate": 0.5, "phase": "solve"}  # the phase after it
    pursued = [ended | {"env_steps": 4096 * k, "success_rate": rate} for k, rate in ((7, 0.97), (8, 0.99))]
    curve = learners.success_curve([*explored, ended, *pursued], True, TASKS["letter-1"], 250_000)
    assert curve.success_rate.iloc[-1] == pytest.approx(0.98)


def test_a_curve_of_one_environment_has_windows_of_one_horizon():
    history = [{"env_steps": 200 * k, "episodes": 1, "success_rate": float(k > 5)} for k in range(1, 21)]
    curve = learners.success_curve(history, True, TASKS["letter-1"], 1_000_000, 1)
    assert curve.env_steps.iloc[-1] == 4_000
    assert (curve.env_steps.diff().dropna() >= 200).all()
    assert curve.success_rate.iloc[0] == 0
    assert curve.success_rate.iloc[-1] == 1
    assert len(learners.success_curve(history, True, TASKS["letter-1"], 1_000_000)) == 1


def test_questions_has_a_row_for_each_episode_of_the_planner():
    config = {"steps": 20_000, **VARIANTS["planner"].config()}
    table = measure.questions(RunSpec("questions", "letter-1", "planner", 100, "smoke", config))
    assert table.episode.tolist() == list(range(1, len(table) + 1))
    assert table.exact.all()
    planned = tables.planned_episodes(table.assign(task="letter-1", method="planner", seed=100))
    assert 0 < len(planned) <= len(table)
    assert planned.left.is_monotonic_decreasing
    row = tables.question_table(table.assign(task="letter-1", method="planner", seed=100), ["letter-1"]).iloc[0]
    assert (row.exact, row.episodes) == ("1 of 1", str(len(table)))
    assert row["bits to learn"] == round(planned.left.iloc[0], 1) <= round(np.log2(100 * 99 * 98), 1)


def test_reliability_counts_each_planned_episode_once():
    rng = np.random.default_rng(0)
    success = rng.random(3_000)
    table = pd.DataFrame(
        {"success": np.append(success, np.nan), "came_true": np.append(rng.random(3_000) < success, True)}
    )
    found = tables.reliability(table)
    assert found.episodes.sum() == 3_000
    assert len(found) == 10
    assert ((found.low <= found.predicted) & (found.predicted <= found.high)).sum() >= 8, "drawn from the predictions"
    assert tables.reliability(table[:0]).empty
    assert tables.reliability(pd.DataFrame(columns=["task"])).empty


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

    history, solved = learners.train(Learner, 10**9)
    assert solved
    assert history[-1]["env_steps"] == 4096 * (9 + 8)  # the ninth update is the last at one half
    assert learners.train(Learner, 30_000)[1] is False


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


# --- a run that was killed --------------------------------------------------------------------------------------------

KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import lstoc_core.run.checkpoint
import test_measure
lstoc_core.run.checkpoint.SAVE_EVERY = 0.0
test_measure.paths.BUILD = Path(sys.argv[2])
test_measure.RUNS[sys.argv[3]](test_measure.to_kill(sys.argv[3]))
"""
TO_KILL = {
    "lstoc": LSTOC,
    "starts-planner": VARIANTS["starts-planner"].config(),
    "ppo+bonus": VARIANTS["ppo+bonus"].config(),
    "oracle": VARIANTS["oracle"].config(),
    "flipped-planner": VARIANTS["flipped-planner"].config(),
    "slips": VARIANTS["slips"].config(),
    "samples": {"shares": [0.5, 1.0]},
    "labels": {"train_task": "letter-1", "train_steps": 40_960},
    "readings": {"readings": 4, "walks": 300},
}
"""What is killed: LSTOC, baselines, changed worlds; accuracy, generalization, readings."""
RUNS = dict.fromkeys(TO_KILL, measure.training) | {
    "samples": measure.accuracy,
    "labels": measure.generalization,
    "readings": readings.measure,
}


def to_kill(name, profile="quick", steps=12_288):
    method = "tasks" if name == "readings" else name
    return RunSpec("killed", "letter-1", method, 3, profile, {"steps": steps, **TO_KILL[name]})


def kill_once_saved(name, *, saves):
    """Start a run in another process, which saves after every update, and kill it once it has saved so often."""
    arguments = [str(Path(__file__).parent), str(paths.BUILD), name]
    process = subprocess.Popen([sys.executable, "-c", KILLED, *arguments])
    deadline = time.monotonic() + 120
    while saved_states(to_kill(name)) < saves and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "it was killed before its end"


def saved_states(spec):
    """How often the stages of a run were saved; 0 if there is no checkpoint."""
    pattern = checkpoint_place(spec, "*")
    files = pattern.parent.glob(f"{pattern.name}/loop.json")
    return sum(json.loads(json.loads(file.read_text())["state"])["number"] for file in files)


@pytest.fixture
def updates(monkeypatch):
    """One entry for each update of the loop or a policy, and for each row that was computed."""
    done = []

    def counted(owner, name):
        real = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *told, **named: done.append(name) or real(*told, **named))

    counted(Journal, "write")
    counted(PPO, "update")
    counted(measure, "learned_tree")
    counted(readings, "outcome")
    return done


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("name", "saves"),
    [
        ("lstoc", 2),
        ("starts-planner", 2),
        ("ppo+bonus", 2),
        ("oracle", 2),
        ("flipped-planner", 8),
        ("slips", 2),
        ("samples", 3),  # while the policy explores
        ("samples", 8),  # between two rows
        ("labels", 2),  # while labels are learned
        ("readings", 2),
    ],
)
def test_a_killed_run_of_an_experiment_goes_on_to_the_same_table(name, saves, updates):
    whole = RUNS[name](to_kill(name, "paper"))
    in_all = len(updates)
    spec = to_kill(name)
    kill_once_saved(name, saves=saves)
    assert saved_states(spec) >= saves
    updates.clear()
    table = cache.compute([spec], RUNS[name], progress=False)
    pd.testing.assert_frame_equal(table[whole.columns], whole, check_exact=True)
    assert len(updates) <= in_all - min(saves, 2), "it went on from what was saved"
    assert not saved_states(spec), "a stored run needs none"


@pytest.mark.parametrize("name", ["lstoc", "oracle"])
def test_a_run_whose_checkpoint_is_damaged_begins_anew(name, capsys):
    spec = to_kill(name, steps=4096)
    whole = measure.training(spec)
    assert saved_states(spec)
    for file in paths.BUILD.rglob("loop*.json"):
        file.write_text("{")
    pd.testing.assert_frame_equal(measure.training(spec), whole)
    assert "begun anew, without a checkpoint" in capsys.readouterr().out


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", ["lstoc", "oracle"])
def test_an_error_within_an_update_leaves_no_half_of_it(name, monkeypatch):
    """A checkpoint of half an update would give another table than a run that had no error."""
    whole = measure.training(to_kill(name, "paper", steps=16_384))
    spec, real, calls = to_kill(name, steps=16_384), PPO._optimise, []

    def failing(self, *told):
        calls.append(1)
        if len(calls) == 3:  # after the segment was collected
            raise MemoryError("for once")
        return real(self, *told)

    monkeypatch.setattr(checkpoint, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(PPO, "_optimise", failing)
    with pytest.raises(MemoryError):
        measure.training(spec)
    pd.testing.assert_frame_equal(measure.training(spec), whole, check_exact=True)
    assert len(calls) == 5, "the first update was not done again"
