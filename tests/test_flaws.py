"""A run that cannot find anything says so early: one sentence, with the cause and the argument that mends it."""

import warnings

import gymnasium
import numpy as np
import pytest
import torch

import lstoc_core as lstoc
from lstoc_core.loop import LSTOCConfig
from lstoc_core.policies.ppo import PPOConfig

torch.set_num_threads(1)
SMALL = LSTOCConfig(num_envs=8, ppo=PPOConfig(segment_length=32, minibatches=2, hidden=16, features=16))


class Corridor(gymnasium.Env):
    """Five cells, start in the middle; success: the left end, then the right end, within 30 steps.

    noisy: no observation repeats. easy: the first step is a success. runs_on: an episode goes on after its success.
    """

    def __init__(self, *, noisy=False, easy=False, runs_on=False):
        self.noisy, self.easy, self.runs_on = noisy, easy, runs_on
        self.observation_space = gymnasium.spaces.Box(-1, 6, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.time, self.left, self.right = 2, 0, False, False
        return self._seen(), {}

    def step(self, action):
        self.cell = min(max(self.cell + (1 if action else -1), 0), 4)
        self.time += 1
        self.left |= self.cell == 0
        self.right |= self.easy or (self.cell == 4 and self.left)
        late = self.time >= 30
        return self._seen(), 0.0, self.right and not self.runs_on, late, {"success": self.right}

    def _seen(self):
        return np.array([self.cell + (self.np_random.uniform(-0.4, 0.4) if self.noisy else 0)], np.float32)


def run(make, **options):
    given = {"max_steps": 4_000, "config": SMALL, "progress": False, "explorer": "policy", **options}
    return lstoc.discover(make, **given)


@pytest.mark.parametrize(
    ("flaw", "told"),
    [
        ({"noisy": True}, r"observations hardly repeat: .* say what recurs by events="),
        ({"easy": True}, r"all \d+ episodes succeeded: without failures there is nothing to contrast"),
        ({"runs_on": True}, r"\d+ of \d+ successes ended by truncation: .*guided=lstoc.GuidedConfig\(prompt=False\)\)"),
    ],
)
def test_a_flaw_is_named_within_a_few_thousand_steps(flaw, told, tmp_path):
    with pytest.warns(UserWarning, match=told) as caught:
        found = run(lambda: Corridor(**flaw))
    assert len(caught) == 1, "once"
    assert found.warnings == (str(caught[0].message),)
    found.save(tmp_path / "flawed")
    assert lstoc.load(tmp_path / "flawed").warnings == found.warnings


def test_an_episode_without_an_end_is_named():
    class Endless(Corridor):
        def step(self, action):
            return *super().step(action)[:2], False, False, {"success": False}

    with pytest.warns(UserWarning, match=r"gone on for 10,000 steps: .*TimeLimit"):
        run(Endless, explorer="planner", max_steps=12_000)


@pytest.mark.parametrize(
    ("events", "told"),
    [
        (lambda row: [], "sets of features are all the same in .* by events="),
        (lambda row: ["here"], "sets of features are all the same"),
        (lambda row: [float(row[0])], "sets of features hardly repeat: .* say what recurs by events="),
    ],
)
def test_events_that_tell_nothing_apart_or_everything_are_named(events, told):
    with pytest.warns(UserWarning, match=told) as caught:
        found = run(lambda: Corridor(noisy=True), events=events)
    assert len(caught) == 1
    assert not found.finished


def test_a_wrong_rule_of_success_is_named():
    with pytest.warns(UserWarning, match=r"none of \d+ episodes succeeded .* check success="):
        run(Corridor, success=lambda end: end.reward > 0, max_steps=11_000)


def test_a_sound_run_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(Corridor, fsm="a;b").warnings == ()


def test_an_fsm_with_which_nothing_agrees_is_told_with_the_nearest_answer():
    """Three successes out of 300 come without the left end: the nearest answer is a;b, and they contradict it."""
    rng, episodes, labels = np.random.default_rng(0), [], []
    while len(episodes) < 300:
        walk, left = [2], False
        while len(walk) < 30 and not (walk[-1] == 4 and left):
            walk.append(int(np.clip(walk[-1] + rng.choice((-1, 1)), 0, 4)))
            left |= walk[-1] == 0
        episodes.append(np.array(walk))
        labels.append(walk[-1] == 4 and left)
    odd = [np.array([2, 3, 4])] * 3
    wrong = lstoc.learn([*odd, *episodes], [True] * 3 + labels, "a;b")
    assert not wrong.finished
    told = str(wrong.missing)
    assert "no assignment of the FSM's symbols to states is consistent" in told
    assert "contradicted by 3 of 303 episodes (0, 1, 2)" in told
    nearest = [int(wrong.observations[key]) for key in wrong.missing.needs[0].paths[0]]
    assert nearest == [0, 4]
    assert lstoc.learn(episodes, labels, "a;b").proved
