"""Following known sequences: what is paid when, and that a saved pursuit goes on the same."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from lstoc_core import TASKS, compile_world, make_vec
from lstoc_core.policies.ppo import PPO, PPOConfig
from lstoc_core.policies.pursuit import Pursuit, PursuitConfig, Recent
from lstoc_core.policies.rewards import RewardConfig

SMALL = PPOConfig(segment_length=16, minibatches=2)


def pursuit(config=None, seed=0):
    task = TASKS["letter-1"]
    world = compile_world(task)
    path = tuple(world.observation_of_symbol(symbol) for symbol in "abc")
    learner = PPO(make_vec(task, num_envs=16, seed=seed), SMALL, seed=seed)
    return Pursuit(learner, [path], config)


def test_recent_counts_the_last_updates_in_which_an_episode_ended():
    recent = Recent()
    assert np.isnan(recent.rate)
    for episodes, rate in [(4, 0.0), (0, float("nan")), *[(2, 1.0), (0, float("nan"))] * 7]:
        recent.add({"episodes": episodes, "success_rate": rate})
    assert (recent.episodes, recent.rate) == (18, 14 / 18)
    recent.add({"episodes": 2, "success_rate": 1.0})
    assert (recent.episodes, recent.rate) == (16, 1.0), "the eighth before is forgotten"
    assert recent.above(1.0, 8)
    assert not recent.above(1.0, 9), "too few episodes to judge by"


def test_looking_around_is_paid_until_half_of_the_episodes_succeed():
    config = PursuitConfig(progress=0.25, approach=0.125, bonus=0.5)
    chase = pursuit(config)
    assert chase.plan.config == RewardConfig(progress=0.25, approach=0.125, bonus=0.5)
    chase.recent = Recent([(1000, 0.4)])
    chase.update()
    assert chase.learner.rewards.plan.config.bonus == 0.5
    chase.recent = Recent([(10_000, 0.6)])
    chase.update()
    assert chase.plan.config == RewardConfig(progress=0.25, approach=0.125, bonus=0.0)
    chase.update()
    assert chase.learner.rewards.plan.config == chase.plan.config
    assert not chase.solved
    chase.recent = Recent([(1000, 0.98)])
    assert chase.solved


def test_ways_are_those_that_the_policy_has_gone():
    chase = pursuit()
    chase.update()
    plan = chase.learner.rewards.plan
    assert plan.paths == chase.paths
    assert not np.isfinite([steps[0] for steps in plan.ways.values() if len(steps)]).any(), "no episode has ended"
    for _ in range(30):
        chase.update()
    ways = chase.learner.rewards.plan.ways
    assert set(ways) == set(chase.paths[0])
    cells, side = compile_world("letter-1").task.cells, 10
    for key, steps in ways.items():
        known = np.flatnonzero(np.isfinite(steps))
        gaps = [[abs(one - other) for one, other in zip(cells[i], cells[key], strict=True)] for i in known]
        apart = [sum(min(gap, side - gap) for gap in both) for both in gaps]  # the map wraps round
        assert len(known) > 50
        assert (steps[known] >= apart).all(), "no way is shorter than the grid allows"


@pytest.mark.parametrize("confident", [0.0, 1.0])
def test_a_saved_pursuit_goes_on_the_same(tmp_path, confident):
    config = replace(PursuitConfig(), confident=confident)
    whole, first = pursuit(config), pursuit(config)
    for _ in range(24):
        whole.update()
    for _ in range(15):
        first.update()
    first.learner.save(tmp_path / "learner.pt")
    second = pursuit(config, seed=1)
    second.learner.load(tmp_path / "learner.pt")
    second.load_state_dict(first.state_dict())
    for _ in range(9):
        second.update()
    assert whole.recent.records == second.recent.records
    for mine, other in zip(whole.learner.policy.parameters(), second.learner.policy.parameters(), strict=True):
        assert torch.equal(mine, other)
