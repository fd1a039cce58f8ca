"""An explorer of one's own: one function that makes it, given to `discover`; and the plans of the policy explorer."""

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from test_loop import SMALL, run, tiny

import lstoc_core as lstoc
from lstoc_core.discovery.method import Request
from lstoc_core.discovery.published.forward import Forward, ForwardConfig
from lstoc_core.exploration import auto
from lstoc_core.exploration.policy import LEAST_BONUS, PolicyExplorer
from lstoc_core.policies.rewards import RewardConfig
from lstoc_core.trajectories.recorder import EpisodeRecorder
from lstoc_core.worlds import make_env


class RandomExplorer:
    """Acts uniformly at random, whatever is asked of it; never learns to solve anything."""

    account = "at random"
    learner = None
    solved = False

    def __init__(self, env, seed: int) -> None:
        self.env, self.env_steps = env, 0
        self.rng = np.random.default_rng(seed)
        self.recorder = EpisodeRecorder(env.num_envs)
        self.recorder.begin(env.reset()[0])
        self.requests: list[Request] = []

    @property
    def trajectories(self):
        return self.recorder.store

    def explore(self, request: Request, silence: int) -> dict[str, float]:
        self.requests.append(request)
        before = len(self.trajectories)
        for _ in range(8):
            actions = self.rng.integers(self.env.num_actions, size=self.env.num_envs)
            ids, _, terminated, truncated, info = self.env.step(actions)
            self.recorder.step(info["final_obs"], terminated | truncated, info["success"], ids)
            self.env_steps += self.env.num_envs
        labels = self.trajectories.labels[before:]
        return {"episodes": len(labels), "success_rate": float(labels.mean()) if len(labels) else float("nan")}

    def pursue(self, paths) -> dict[str, float]:
        return self.explore(Request(tuple(paths)), 0)

    @property
    def success_rate(self) -> float:
        return float("nan")

    def save(self, path) -> None:
        self.trajectories.save(path)

    def load(self, path) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state) -> None:
        pass


def test_an_explorer_of_ones_own_through_the_whole_loop():
    task = tiny("(a;b)|c")
    made = []

    def at_random(setting):
        made.append(RandomExplorer(setting.env, setting.seed))
        return made[0]

    found = run(task, explorer=at_random)
    assert lstoc.score(found, task).exact
    assert found.explorer is made[0]
    assert found.exploration == "at random"
    assert found.learner is None
    assert found.env_steps == made[0].env_steps
    assert any(request.follow for request in made[0].requests), "it is told what discovery wants to know more of"


def test_an_unknown_explorer_is_named():
    with pytest.raises(ValueError, match="unknown explorer 'oracle'; choose one of policy, planner, auto"):
        run(tiny("a"), explorer="oracle")


# --- what the policy explorer is paid ---------------------------------------------------------------------------------


def explorer(**changes):
    config = replace(SMALL, **changes)
    return PolicyExplorer(tiny("a;b").vector_env(SMALL.num_envs, seed=0), config, seed=0)


def test_while_there_is_news_the_settings_are_paid():
    plan = explorer().plan(Request(((1, 2),), ((3,),)), silence=999)
    assert plan.config == RewardConfig(SMALL.success, SMALL.explained, SMALL.progress, SMALL.bonus, rearm=SMALL.rearm)
    assert (plan.paths, plan.explained, len(plan.worth)) == (((1, 2),), ((3,),), 0)


@pytest.mark.parametrize(("silence", "factor"), [(1_000, 2), (2_000, 4), (9_000, 4)])
def test_silence_doubles_the_bonus_at_most_twice(silence, factor):
    scout = explorer()
    while not len(scout.trajectories):
        scout.explore(Request(), 0)
    plan = scout.plan(Request(), silence)
    assert plan.config.bonus == SMALL.bonus * factor
    assert plan.config.explained == SMALL.explained / factor
    store = scout.trajectories
    missed = [
        np.mean([key not in store.trajectory(index)[1:] for index in range(max(0, len(store) - 250), len(store))])
        for key in range(store.num_ids)
    ]
    np.testing.assert_allclose(plan.worth, missed)


def test_a_collapsed_exploration_without_a_bonus_gets_the_least_one():
    scout = explorer(bonus=0.0)
    while not len(scout.trajectories):
        scout.explore(Request(), 0)
    assert scout.plan(Request(), 1_000).config.bonus == 2 * LEAST_BONUS
    assert explorer(bonus=0.0, patience=None).plan(Request(), 10_000).config.bonus == 0


@pytest.mark.parametrize(("share", "pays"), [(None, True), (0.0, False), (1.1, True)])
def test_successes_pay_only_while_few_episodes_succeed(share, pays):
    scout = explorer()
    while not len(scout.trajectories):
        scout.explore(Request(), 0)
    paid = scout.plan(Request(success_share=share), 0).config
    assert (paid.success, paid.explained) == ((SMALL.success, SMALL.explained) if pays else (0.0, 0.0))


def test_a_tour_pays_no_more_than_the_request_allows():
    scout = explorer(bonus=0.5)
    assert scout.plan(Request(tour=1.0), 0).config.bonus == 0.5, "nothing is known of how long a tour can be"
    while not len(scout.trajectories):
        scout.explore(Request(), 0)
    seen, longest = len(scout.env.observations), int(scout.trajectories.lengths.max())
    assert scout.plan(Request(tour=1.0), 0).config.bonus == pytest.approx(SMALL.success / min(seen, longest))
    assert scout.plan(Request(tour=1e6), 0).config.bonus == 0.5
    assert scout.plan(Request(), 0).config.bonus == 0.5
    assert Forward().request.tour is None
    assert Forward(ForwardConfig(tour=0.3)).request.tour == 0.3


def test_a_fixed_policy_is_frozen_once_there_is_something_to_follow():
    scout = explorer(train_explorer=False)

    def weights():
        return [parameter.detach().clone() for parameter in scout.learner.policy.parameters()]

    before = weights()
    scout.explore(Request(((1,),)), 0)
    assert all((one == two).all() for one, two in zip(before, weights(), strict=True))
    scout.explore(Request(), 0)
    assert not all((one == two).all() for one, two in zip(before, weights(), strict=True))


@pytest.mark.parametrize("env", ["FrozenLake-v1", lambda: make_env(task="letter-1")], ids=["id", "factory"])
def test_the_policy_goes_on_with_the_episodes_of_the_planner(env, monkeypatch):
    monkeypatch.setattr(auto, "TRIAL", 500)
    monkeypatch.setattr(auto, "MOST_WRONG", -1.0)
    planned = []

    def note(state: lstoc.RunState) -> None:
        if state.explorer.policy is None:
            planned[:] = state.explorer.trajectories.ids.tolist()

    found = lstoc.discover(env, fsm="a;b", success="auto" if callable(env) else "reward", max_steps=6_000,
                           callbacks=[note], progress=False, config=SMALL)  # fmt: skip
    assert found.exploration.startswith("policy: ")
    assert planned
    assert found.trajectories.ids[: len(planned)].tolist() == planned


class KeyDoor(gymnasium.Env):
    """A room and a closet beside it, four cells by four; the key opens the door, what is behind it is the goal.

    seen: whether the observation says that the key is held.
    """

    key, door, goal = (0, 3), (3, 1), (4, 1)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, *, seen, ends=True):
        self.seen, self.ends = seen, ends
        self.observation_space = gymnasium.spaces.MultiDiscrete([5, 4, 2])

    def reset(self, *, seed=None, options=None):
        self.place, self.held, self.time, self.done = (0, 0), False, 0, False
        return self._seen(), {}

    def step(self, action):
        self.time += 1
        x, y = np.add(self.place, [(1, 0), (-1, 0), (0, 1), (0, -1)][action]).tolist()
        free = 0 <= x < 3 and 0 <= y < 4
        if free or (self.held and (x, y) in (self.door, self.goal)):
            self.place = x, y
        self.held |= self.place == self.key
        self.done |= self.place == self.goal
        ends = self.done and self.ends
        return self._seen(), 0.0, ends, self.time >= 50 and not ends, {"success": self.done}

    def _seen(self):
        return np.array([*self.place, self.held and self.seen])


def test_a_map_that_leads_to_no_success_again_is_given_up():
    """The key changes what the door does, not what is seen: to the map, the door is a wall."""
    found = lstoc.discover(lambda: KeyDoor(seen=False), max_steps=16_000, progress=False, config=SMALL)
    assert found.exploration.startswith("policy: ")
    assert "succeeded" in found.exploration


def test_the_planner_returns_to_successes_where_no_event_begins():
    """The corner is an event, the goal is none: tours of events alone would not end there again."""
    env = lambda: KeyDoor(seen=True)  # noqa: E731
    events = lambda seen: ["corner"] * (tuple(seen[:2]) == (2, 3))  # noqa: E731
    found = lstoc.discover(env, events=events, explorer="planner", max_steps=10_000, progress=False)
    assert found.num_positives > found.num_trajectories / 50 > 3
    assert found.trajectories.labels[-50:].any()


def test_without_prompt_ends_failures_are_sought_as_well():
    config = lstoc.LSTOCConfig(guided=lstoc.GuidedConfig(prompt=False))
    found = lstoc.discover(lambda: KeyDoor(seen=True, ends=False), fsm="key;goal", config=config, max_steps=20_000,
                           progress=False)  # fmt: skip
    assert found.finished
    goal = next(key for key, name in found.labeling.mapping.items() if name == "goal")
    assert found.explorer.env.flat.unflat(found.key_states[goal].observation)[:2].tolist() == list(KeyDoor.goal)
