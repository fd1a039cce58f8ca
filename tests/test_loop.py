"""The whole loop on tiny worlds: discovery, names, solving, checkpoints, any environment, and bad input."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch

import lstoc_core as lstoc
from lstoc_core.loop import LSTOCConfig
from lstoc_core.policies.ppo import PPO, PPOConfig
from lstoc_core.scoring import Score

torch.set_num_threads(1)
SMALL = LSTOCConfig(num_envs=16, ppo=PPOConfig(segment_length=32, minibatches=2, hidden=32, features=32))
POSITIONS = {"a": (1, 4), "b": (4, 1), "c": (4, 4)}


def tiny(formula, **options):
    given = {"positions": POSITIONS, "size": (5, 5), "horizon": 60, "wrap": False, **options}
    return lstoc.make_task(domain="letter", formula=formula, **given)


def run(env, **options):
    """A small run of the policy explorer, unless another one is named."""
    given = {"seed": 0, "max_steps": 60_000, "progress": False, "config": SMALL, "explorer": "policy", **options}
    return lstoc.discover(env, **given)


def facts(discovery):
    """Everything a run found and did, comparable."""
    history = [tuple(str(value) for value in record.values()) for record in discovery.history]  # text: nan equals nan
    weights = [parameter.detach().clone() for parameter in discovery.learner.policy.parameters()]
    return (
        history,
        discovery.sequences,
        discovery.num_trajectories,
        discovery.env_steps,
        discovery.trajectories.ids.copy(),
        weights,
    )


def assert_same(one, two):
    for mine, other in zip(facts(one)[:-2], facts(two)[:-2], strict=True):
        assert mine == other
    np.testing.assert_array_equal(facts(one)[-2], facts(two)[-2])
    assert all(torch.equal(mine, other) for mine, other in zip(facts(one)[-1], facts(two)[-1], strict=True))


class Corridor(gymnasium.Env):
    """Cells 0 to 4, start in the middle; success: the left end, then the right end, within 40 steps."""

    def __init__(self, discrete=False, reports=True):
        cells = gymnasium.spaces.Discrete(5) if discrete else gymnasium.spaces.Box(0, 4, (2,), np.float32)
        self.observation_space, self.action_space = cells, gymnasium.spaces.Discrete(2)
        self.discrete, self.reports = discrete, reports

    def observe(self):
        return self.cell if self.discrete else np.array([self.cell, 4 - self.cell], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.time, self.left = 2, 0, False
        return self.observe(), {}

    def step(self, action):
        self.cell = min(max(self.cell + (1 if action else -1), 0), 4)
        self.time += 1
        self.left |= self.cell == 0
        done = self.succeeds()
        info = {"success": done} if self.reports else {}
        return self.observe(), 0.0, done, self.time >= 40, info

    def succeeds(self):
        return self.left and self.cell == 4


class Never(Corridor):
    def succeeds(self):
        return False


class Always(Corridor):
    """Every episode ends in success after three steps, wherever it is."""

    def succeeds(self):
        return self.time >= 3


# --- what it finds ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("formula", ["a;b", "(a;b)|c", "a;b;a"])
def test_finds_names_and_solves(formula):
    task = tiny(formula)
    found = run(task, solve=True, max_steps=150_000)
    assert lstoc.score(found, task) == Score(exact=True, found=1.0, labels_correct=True)
    assert found.finished
    assert not found.missing
    assert found.success_rate >= SMALL.pursuit.solved
    assert found.learner.evaluate(100) >= 0.9
    assert found.tree.sequences == found.sequences
    assert found.num_trajectories <= len(found.trajectories)
    assert found.env_steps <= found.learner.env_steps <= 150_000
    assert [record["phase"] for record in found.history][-1] == "solved"


def test_the_papers_method_through_the_same_loop():
    """Learned importance and the restarts belong to other tests; here: that the loop drives it and steers by it."""
    task = tiny("a")
    config = replace(SMALL, forward=replace(SMALL.forward, threshold=20, exact=True))
    found = run(task, method="forward", config=config)
    assert found.finished
    assert lstoc.score(found, task).exact
    assert [event for event, *_ in found.tree.events] == ["expand", "work", "satisfying", "work", "explored"]


def test_the_papers_randomness_is_for_exploration_only(monkeypatch):
    """ε = 0.5 while exploring by the paper's method; none in the solve phase, nor by ours."""
    used = []
    update = PPO.update

    def noted(self, *, epsilon=None, **options):
        used.append(self.config.epsilon if epsilon is None else epsilon)
        return update(self, epsilon=epsilon, **options)

    monkeypatch.setattr(PPO, "update", noted)
    config = replace(SMALL, forward=replace(SMALL.forward, threshold=20, exact=True))
    found = run(tiny("a"), method="forward", config=config, solve=True)
    phases = [record["phase"] for record in found.history]
    assert {*used[: phases.index("solve") + 1]} == {0.5}
    assert {*used[phases.index("solve") + 1 :]} == {SMALL.ppo.epsilon}
    used.clear()
    run(tiny("a"), max_steps=1)
    assert used == [SMALL.ppo.epsilon]


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    task = tiny("a;b")
    one, two, other = run(task), run(task), run(task, seed=1)
    assert_same(one, two)
    assert facts(one)[0] != facts(other)[0]


def test_callbacks_and_history_tell_the_same_story():
    seen = []
    found = run(tiny("a;b"), callbacks=[seen.append])
    assert seen == found.history
    steps = [record["env_steps"] for record in seen]
    assert steps == list(range(512, 512 * len(seen) + 1, 512))
    assert seen[-1]["trajectories"] == len(found.trajectories)


def test_a_budget_too_small_says_what_is_missing_and_keeps_what_was_collected():
    found = run(tiny("a;b;a"), max_steps=2_000)
    assert not found.finished
    assert found.labeling is None
    assert f"in {len(found.trajectories)} trajectories" in str(found.missing)
    assert len(found.trajectories) == found.num_trajectories > 0


def test_score_counts_what_was_found():
    task, other = tiny("a;b"), tiny("a;c")
    found = run(task)
    judged = lstoc.score(found, other)
    assert not judged.exact
    assert judged.found == 0.5
    assert not judged.labels_correct
    nothing = run(task, max_steps=500)
    assert lstoc.score(nothing, task) == Score(exact=False, found=0.0, labels_correct=False)


# --- any environment --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("discrete", [False, True])
def test_a_users_environment(discrete):
    found = run(lambda: Corridor(discrete))
    assert found.finished
    assert len(found.sequences) == 1
    places = [found.key_states[key].observation for key in found.sequences[0]]
    ends = np.eye(5)[[0, 4]] if discrete else np.array([[0, 4], [4, 0]])
    np.testing.assert_array_equal(places, ends)
    assert found.labeling is None


def test_a_users_environment_with_names_for_its_subgoals():
    fsm = lstoc.parse("left;right").fsm()
    found = run(Corridor, fsm=fsm)
    first, last = found.sequences[0]
    assert found.labeling.mapping == {first: "left", last: "right"}


def test_a_single_environment_that_stands():
    found = run(Corridor(), max_steps=30_000)
    assert [list(found.key_states[key].observation) for key in found.sequences[0]] == [[0, 4], [4, 0]]


def test_an_exploration_that_brings_nothing_new_is_paid_for_what_it_misses():
    """Cells 0 to 4; nothing ever succeeds, so there is no news. What every episode visits is worth nothing then."""
    found = run(Never, max_steps=8_000, config=replace(SMALL, patience=40, bonus=0.0))
    plan, store = found.learner.rewards.plan, found.trajectories
    last = [set(store.trajectory(index)[1:].tolist()) for index in range(len(store) - 10, len(store))]
    missed = [np.mean([key not in visited for visited in last]) for key in range(store.num_ids)]
    np.testing.assert_allclose(plan.worth, missed)
    assert plan.config.bonus > 0
    assert plan.config.explained == SMALL.explained / 4
    solving = run(tiny("a;b"), max_steps=150_000, solve=True, config=replace(SMALL, patience=1))
    assert solving.finished
    assert len(solving.learner.rewards.plan.worth) == 0
    calm = run(Never, max_steps=8_000, config=replace(SMALL, patience=None, bonus=0.0)).learner.rewards.plan
    assert len(calm.worth) == calm.config.bonus == 0
    assert calm.config.explained == SMALL.explained


# --- bad input --------------------------------------------------------------------------------------------------------


def test_an_environment_that_never_succeeds():
    found = run(Never, max_steps=5_000)
    assert not found.finished
    assert found.sequences == ()
    assert "0 successes in" in str(found.missing)
    assert "nothing to learn from" in str(found.missing)
    assert len(found.trajectories) > 100
    assert not found.trajectories.labels.any()


def test_an_environment_that_always_succeeds():
    found = run(Always, max_steps=5_000)
    assert not found.finished
    assert "without failures there is nothing to contrast" in str(found.missing)
    assert "no success" not in str(found.missing)
    assert found.trajectories.labels.all()
    assert len(found.trajectories) == found.num_positives > 100


def test_episodes_that_do_not_end():
    class Endless(Corridor):
        def step(self, action):
            observation, reward, _, _, info = super().step(action)
            return observation, reward, False, False, info

    assert "no episode ended within 1024 steps" in str(run(Endless, max_steps=1_000).missing)


def test_an_environment_that_does_not_report_success():
    with pytest.raises(KeyError, match="without info\\['success'\\]"):
        run(lambda: Corridor(reports=False))


def test_what_cannot_be_explored_is_named():
    with pytest.raises(ValueError, match="unknown method 'backward'; did you mean forward"):
        run(tiny("a;b"), method="backward")
    with pytest.raises(lstoc.TaskError, match="did you mean letter-1"):
        run("leter-1")
    with pytest.raises(TypeError, match="cannot explore 3: give a Task"):
        run(3)
    continuous = Corridor()
    continuous.action_space = gymnasium.spaces.Box(0, 1)
    with pytest.raises(TypeError, match="choose n actions"):
        run(continuous)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_steps": 0}, "max_steps is 0: give at least 1"),
        ({"seed": -1}, "seed is -1: give a number that is not negative"),
        ({"fsm": lstoc.parse("a;b")}, "or an FSM, as from parse"),
        ({"fsm": "a;;b"}, "a;;b"),
        ({"success": "sucess"}, "unknown success 'sucess'; did you mean is_success"),
        ({"success": "reward"}, "labels its episodes itself"),
        ({"config": {"bonus": 1}}, "give an LSTOCConfig"),
        ({"callbacks": print}, "give a list of them"),
        ({"method": "forward", "contrast": "exakt"}, "unknown contrast 'exakt'; did you mean exact"),
        ({"explorer": "police"}, "unknown explorer 'police'; did you mean policy"),
    ],
)
def test_arguments_that_make_no_sense_are_named_with_a_remedy(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        run(tiny("a;b"), **options)


def test_environments_that_do_not_give_ids_are_named_with_a_remedy():
    with pytest.raises(TypeError, match="does not give observation ids: make it with"):
        run(lstoc.make_vec(tiny("a"), num_envs=2, observation="array"))
    with pytest.raises(TypeError, match="a factory gave None: it must return"):
        run(lambda: None)


def test_ids_of_ones_own_vector_environment():
    found = run(lstoc.make_vec(tiny("a;b"), num_envs=16, seed=0), fsm=lstoc.parse("a;b").fsm())
    assert lstoc.score(found, tiny("a;b")).exact
