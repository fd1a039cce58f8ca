"""The planner and the automatic choice through the whole loop."""

from dataclasses import replace
from itertools import pairwise

import gymnasium
import numpy as np
import pytest
from test_loop import SMALL, Corridor, run, tiny

import lstoc_core as lstoc
from lstoc_core.config import PlannerConfig
from lstoc_core.exploration.auto import AutoExplorer
from lstoc_core.exploration.imagined import ImaginedVectorEnv
from lstoc_core.exploration.planner import PlannerExplorer
from lstoc_core.exploration.policy import PolicyExplorer
from lstoc_core.worlds.perturbed import FlippedLabels, SlipperyMoves

PLANNED = replace(SMALL, planner=PlannerConfig(candidates=12, variations=8, rounds=1, imagined=60_000, walks=8))


def planned(task, **options):
    return run(task, **{"explorer": "planner", "config": PLANNED, **options})


@pytest.mark.parametrize("formula", ["a;b", "(a;b)|c", "a;b;a"])
@pytest.mark.parametrize("options", [{}, {"view": 3}, {"start": None}, {"start": None, "view": 3}], ids=str)
def test_it_proves_the_truth_in_few_episodes(formula, options):
    task = tiny(formula, **options)
    found = planned(task)
    assert found.finished
    assert lstoc.score(found, task).exact
    assert found.num_trajectories <= 40
    assert found.exploration.startswith("planner: its map of ")


def test_several_episodes_side_by_side():
    task = tiny("(a;b)|c")
    found = planned(task, config=replace(PLANNED, planner=replace(PLANNED.planner, num_envs=4)))
    assert found.explorer.env.num_envs == 4
    assert lstoc.score(found, task).exact


@pytest.mark.parametrize("rows", [PLANNED.planner.rows, 200], ids=["all beliefs", "a sample of the beliefs"])
def test_forecasts_agree_with_what_happens(rows):
    config, asked = replace(PLANNED, planner=replace(PLANNED.planner, rows=rows)), []
    for seed in range(20):
        task = tiny("(a;b)|c", layout_seed=seed, positions=None)
        asked += planned(task, seed=seed, config=config).explorer.questions
    asked = [question for question in asked if not np.isnan(question.success)]
    assert all(question.answer for question in asked if question.came_true)
    predicted, real = np.array([(question.success, question.came_true) for question in asked], float).T
    deviation = np.sqrt((predicted * (1 - predicted)).sum())
    assert len(asked) > 40
    assert abs(predicted.sum() - real.sum()) < 3 * deviation


def test_questions_tell_what_is_left_and_never_more_than_an_episode_can():
    task = tiny("(a;b)|c")
    found = planned(task)
    asked = found.explorer.questions
    assert [question.answer for question in asked] == found.trajectories.labels.tolist()
    assert asked[-1].env_steps == found.env_steps
    judged = [question for question in asked if not np.isnan(question.gain)]
    assert judged
    assert all(0 < question.gain <= question.limit <= np.log2(task.horizon + 1) for question in judged)
    assert all(one.left >= two.left for one, two in pairwise(judged)), "all beliefs are counted: they only shrink"
    assert judged[0].left <= np.log2(25 * 24 * 23)


def test_it_solves_by_walks_and_trains_a_policy_on_the_map():
    task = tiny("a;b")
    found = planned(task, solve=True)
    assert found.history[-1]["phase"] == "solved"
    assert found.success_rate == 1
    walks = PLANNED.planner.walks
    assert found.history[-1]["env_steps"] <= found.env_steps + walks * task.shortest_solution, "walks, nothing else"
    assert len(found.trajectories) == found.num_trajectories + walks
    learner = found.learner
    assert isinstance(learner.env, ImaginedVectorEnv)
    assert learner.env_steps > 0
    learner.env = task.vector_env(16, seed=1)
    assert learner.evaluate(64) > 0.9, "the policy of the map completes the task in the world"


def test_a_task_is_not_solved_while_the_policy_of_the_map_is_not():
    short = replace(PLANNED, planner=replace(PLANNED.planner, imagined=100))
    found = planned(tiny("a;b"), solve=True, config=short, max_steps=2_000)
    assert found.history[-1]["phase"] == "solve"
    assert found.success_rate == 1
    assert not found.explorer.solved
    none = replace(PLANNED, planner=replace(PLANNED.planner, imagined=0))
    found = planned(tiny("a;b"), solve=True, config=none)
    assert (found.history[-1]["phase"], found.learner) == ("solved", None)


def test_an_imagined_world_is_the_world_that_was_mapped():
    task = tiny("(a;b)|c")
    found = planned(task)
    paths = [tuple(found.key_states[key].observation_id for key in path) for path in found.sequences]
    env, rng = task.vector_env(8, seed=0), np.random.default_rng(0)
    imagined = ImaginedVectorEnv(found.explorer.map, paths, env, num_envs=8, horizon=task.horizon, seed=0)
    np.testing.assert_array_equal(env.reset()[0], imagined.reset()[0])
    for _ in range(300):
        actions = rng.integers(4, size=8)
        for mine, other in zip(env.step(actions), imagined.step(actions), strict=True):
            if isinstance(mine, dict):
                assert all((mine[name] == other[name]).all() for name in ("success", "final_obs"))
            else:
                np.testing.assert_array_equal(mine, other)


def same(one, two):
    assert [str(record) for record in one.history] == [str(record) for record in two.history]
    np.testing.assert_array_equal(one.trajectories.ids, two.trajectories.ids)
    assert (one.sequences, one.exploration) == (two.sequences, two.exploration)


@pytest.mark.parametrize(("explorer", "num_envs"), [("planner", 3), ("auto", 1)])
def test_a_run_stopped_and_taken_up_again_goes_on_the_same(tmp_path, explorer, num_envs):
    task, config = tiny("a;b"), replace(PLANNED, planner=replace(PLANNED.planner, num_envs=num_envs))
    whole = planned(task, explorer=explorer, config=config, solve=True)
    assert whole.history[-1]["phase"] == "solved"
    marks = [record["env_steps"] for record in whole.history]
    for budget in sorted({marks[0], marks[len(marks) // 8], 60_000}):
        resumed = planned(task, explorer=explorer, config=config, solve=True, max_steps=budget, checkpoint=tmp_path)
    same(whole, resumed)
    assert whole.learner.env_steps == resumed.learner.env_steps


def test_a_policy_half_trained_on_the_map_goes_on(tmp_path):
    task = tiny("a;b")
    whole = planned(task, solve=True)
    calls = []

    def stop_in_training(record):
        calls.append(record)
        return sum(each["phase"] == "solve" and not each["episodes"] for each in calls) != 2

    stopped = planned(task, solve=True, callbacks=[stop_in_training], checkpoint=tmp_path)
    assert stopped.interrupted
    assert 0 < stopped.learner.env_steps < whole.learner.env_steps
    resumed = planned(task, solve=True, checkpoint=tmp_path)
    same(whole, resumed)
    assert whole.learner.env_steps == resumed.learner.env_steps


def test_without_an_fsm_it_follows_what_discovery_asks_for():
    found = planned(Corridor, max_steps=20_000)
    assert found.finished
    assert len(found.sequences) == 1
    assert [found.key_states[key].observation.tolist()[0] for key in found.sequences[0]] == [0, 4]


def test_slips_are_expected():
    task = tiny("(a;b)|c")
    found = planned(lambda: SlipperyMoves(gymnasium.make("lstoc/Letter-v0", task=task), 0.1), fsm="(a;b)|c", confirm=0)
    assert found.finished
    assert lstoc.score(found, task).exact
    assert "read as stochastic" in found.exploration


def test_wrong_labels_are_weighed():
    task = tiny("a;b")

    class Flipped:
        fingerprint = "flipped"
        discount = task.discount
        fsm = staticmethod(task.fsm)

        @staticmethod
        def vector_env(num_envs, *, seed):
            made = [FlippedLabels(gymnasium.make("lstoc/Letter-v0", task=task), 0.02) for _ in range(num_envs)]
            return lstoc.InternedVectorEnv(made, seed=seed)

    config = replace(PLANNED, guided=replace(PLANNED.guided, noise=0.02))
    found = planned(Flipped(), config=config)
    assert found.finished
    assert lstoc.score(found, task).exact


# --- the automatic choice ---


class Blurred(Corridor):
    """The corridor through a lens that never shows the same twice."""

    def observe(self):
        return super().observe() + self.np_random.uniform(-0.3, 0.3, 2).astype(np.float32)


def test_where_observations_never_repeat_the_policy_takes_over_within_5000_steps():
    found = run(Blurred, explorer="auto", config=PLANNED, max_steps=6_000)
    assert found.exploration.startswith("policy: observations do not repeat")
    assert isinstance(found.explorer, AutoExplorer)
    assert found.explorer.planner.env_steps <= 5_000
    assert found.explorer.env.num_envs == PLANNED.num_envs
    assert len(found.trajectories) > found.explorer.planner.env_steps // 40, "what the planner collected is kept"


def test_where_the_map_predicts_the_planner_goes_on():
    task = tiny("(a;b)|c")
    found = lstoc.discover(
        task, config=PLANNED, max_steps=60_000, progress=False
    )  # the automatic choice is the default
    assert isinstance(found.explorer.chosen, PlannerExplorer)
    assert found.exploration.startswith("planner")
    same(found, planned(task))


def test_the_published_method_explores_by_the_policy_unless_another_is_named():
    task = tiny("a;b")
    found = run(task, method="forward", explorer="auto", max_steps=600)
    assert isinstance(found.explorer, PolicyExplorer)
    assert found.exploration == "policy: the published method explores by it"
    assert found.explorer.env.num_envs == SMALL.num_envs
    assert run(task, method="forward", explorer="policy", max_steps=600).exploration == "policy: as chosen"
    named = run(task, method="forward", explorer="planner", config=PLANNED, max_steps=600)
    assert isinstance(named.explorer, PlannerExplorer)
