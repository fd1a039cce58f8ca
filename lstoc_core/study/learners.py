"""Policies to compare LSTOC with, how long they are trained, and the curve of their success."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from lstoc_core.config import LSTOCConfig
from lstoc_core.discovery.method import Request
from lstoc_core.exploration.policy import PolicyExplorer
from lstoc_core.policies.ppo import PPO
from lstoc_core.policies.pursuit import Pursuit, Recent
from lstoc_core.policies.rewards import RewardConfig
from lstoc_core.trajectories import TrajectoryStore
from lstoc_core.trajectories.matching import KeyPath
from lstoc_core.worlds import compile_world, make_vec
from lstoc_core.worlds.tasks import Task

POINTS = 100
"""Most points of a stored curve."""


def fresh_policy(task: Task, *, seed: int, bonus: float = 0.0, store_limit: int | None = 0) -> PPO:
    """An untrained policy with LSTOC's own settings, paid the label and a first-occupancy bonus."""
    config = LSTOCConfig()
    env = make_vec(task, num_envs=config.num_envs, seed=seed)
    settings = replace(config.ppo, store_limit=store_limit)
    return PPO(env, settings, seed=seed, rewards=RewardConfig(bonus=bonus))


def explored(task: Task, steps: int, *, seed: int, epsilon: float | None = None) -> TrajectoryStore:
    """Trajectories of π_exp as the published method trains it before its first discovery.

    epsilon: probability of a random action; None: the method's.
    """
    config = LSTOCConfig()
    explorer = PolicyExplorer(make_vec(task, num_envs=config.num_envs, seed=seed), config, seed=seed)
    chosen = config.forward.epsilon if epsilon is None else epsilon
    forward = config.forward
    request = Request(epsilon=chosen, success_share=forward.success_share, tour=forward.tour)
    while explorer.env_steps < steps:
        explorer.explore(request, silence=0)
    return explorer.trajectories


def true_paths(task: Task) -> tuple[KeyPath, ...]:
    """The minimal satisfying sequences as observation ids: the truth, for scoring and for the oracle."""
    world = compile_world(task)
    return tuple(tuple(world.observation_of_symbol(symbol) for symbol in sequence) for sequence in task.sequences)


def train(learner: PPO | Pursuit, steps: int) -> tuple[list[dict[str, float]], bool]:
    """Train until the task is solved or the budget of environment steps is used up: history, and whether it is solved.

    Solved means what it means in LSTOC's solve phase.
    """
    config = LSTOCConfig()
    history: list[dict[str, float]] = []
    recent = Recent()
    while learner.env_steps < steps:
        history.append(learner.update())
        recent.add(history[-1])
        if recent.above(config.pursuit.solved, config.num_envs):
            return history, True
    return history, False


def success_curve(
    history: Sequence[Mapping[str, Any]], solved: bool, task: Task, steps: int, num_envs: int | None = None
) -> pd.DataFrame:
    """Columns env_steps, success_rate, solved, budget: the rate of the episodes that ended in each window of steps.

    A window is long enough that an episode ends in every environment. All start together, so in a shorter first window
    only successes could end. A run that solves the task ends there; its last row holds the rate by which it was judged.
    num_envs: environments side by side; None: as in the settings.
    """
    config = LSTOCConfig()
    table = pd.DataFrame(history, columns=["env_steps", "episodes", "success_rate"])
    least = (config.num_envs if num_envs is None else num_envs) * (task.horizon + config.ppo.segment_length)
    window = max(int(table.env_steps.max()) // POINTS, least)
    none_ended = table.tail(1).assign(episodes=1, success_rate=0.0)  # then none has succeeded
    table = table[table.episodes > 0] if table.episodes.any() else none_ended
    table = table.astype({"env_steps": "int64", "episodes": "int64"})
    table["successes"] = table.episodes * table.success_rate
    last = max(table.env_steps.max() // window - 1, 0)  # what is left of a window at the end belongs to the last one
    windows = table.groupby(((table.env_steps - 1) // window).clip(upper=last))
    sums = windows[["episodes", "successes"]].sum()
    rate = (sums.successes / sums.episodes).to_numpy(float, copy=True)
    if solved:
        rate[-1] = Recent((record["episodes"], record["success_rate"]) for record in history if record["episodes"]).rate
    ends = windows.env_steps.max().to_numpy()
    return pd.DataFrame({"env_steps": ends, "success_rate": rate, "solved": solved, "budget": steps})
