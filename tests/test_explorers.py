"""An explorer of one's own: one function that makes it, given to `discover`; and the plans of the policy explorer."""

from dataclasses import replace
from typing import Any

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
