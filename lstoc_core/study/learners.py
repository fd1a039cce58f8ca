"""Policies to compare LSTOC with, how long they are trained, and the curve of their success."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from lstoc_core.config import LSTOCConfig
from lstoc_core.discovery.method import Request
from lstoc_core.exploration.policy import PolicyExplorer
from lstoc_core.policies.ppo import PPO
from lstoc_core.policies.pursuit import Pursuit, Recent
from lstoc_core.policies.rewards import RewardConfig
from lstoc_core.study.resuming import resumed
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


def explored(
    task: Task, steps: int, *, seed: int, epsilon: float | None = None, place: Path | None = None
) -> TrajectoryStore:
    """Trajectories of π_exp as the published method trains it before its first discovery.

    epsilon: probability of a random action; None: the method's. place: of a checkpoint to go on from (see `resuming`).
    """
    config = LSTOCConfig()
    chosen = config.forward.epsilon if epsilon is None else epsilon
    forward = config.forward
    request = Request(epsilon=chosen, success_share=forward.success_share, tour=forward.tour)

    def fresh() -> PolicyExplorer:
        return PolicyExplorer(make_vec(task, num_envs=config.num_envs, seed=seed), config, seed=seed)

    with resumed(fresh, place) as (explorer, save):
        while explorer.env_steps < steps:
            explorer.explore(request, silence=0)
            save()
    return explorer.trajectories


def true_paths(task: Task) -> tuple[KeyPath, ...]:
    """The minimal satisfying sequences as observation ids: the truth, for scoring and for the oracle."""
    world = compile_world(task)
    return tuple(tuple(world.observation_of_symbol(symbol) for symbol in sequence) for sequence in task.sequences)


class UnderTraining:
    """A learner that is trained, and what its updates have reported; a `Resumable`."""

    def __init__(self, learner: PPO | Pursuit) -> None:
        self.learner = learner
        self.history: list[dict[str, float]] = []
        self._recent = Recent()

    @property
    def env_steps(self) -> int:
        return self.learner.env_steps

    @property
    def solved(self) -> bool:
        """Whether the task is solved: what it means in LSTOC's solve phase."""
        config = LSTOCConfig()
        return self._recent.above(config.pursuit.solved, config.num_envs)

    def update(self) -> None:
        """One update of the learner."""
        self.history.append(self.learner.update())
        self._recent.add(self.history[-1])

    @property
    def _policy(self) -> PPO:
        return self.learner.learner if isinstance(self.learner, Pursuit) else self.learner

    def save(self, path: Path) -> None:
        self._policy.save(path)

    def load(self, path: Path) -> None:
        self._policy.load(path)

    def state_dict(self) -> dict[str, Any]:
        pursuit = self.learner.state_dict() if isinstance(self.learner, Pursuit) else None
        return {"history": self.history, "recent": self._recent.records, "pursuit": pursuit}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.history = list(state["history"])
        self._recent = Recent((episodes, rate) for episodes, rate in state["recent"])
        if isinstance(self.learner, Pursuit):
            self.learner.load_state_dict(state["pursuit"])


def train(
    make: Callable[[], PPO | Pursuit], steps: int, place: Path | None = None
) -> tuple[list[dict[str, float]], bool]:
    """Train until the task is solved or the budget of environment steps is used up: history, and whether it is solved.

    make: gives the untrained learner. place: of a checkpoint to go on from (see `resuming`).
    """
    with resumed(lambda: UnderTraining(make()), place) as (training, save):
        while training.env_steps < steps and not training.solved:
            training.update()
            save()
    return training.history, training.solved


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
        judged = _pursued(history)
        rate[-1] = Recent((record["episodes"], record["success_rate"]) for record in judged if record["episodes"]).rate
    ends = windows.env_steps.max().to_numpy()
    return pd.DataFrame({"env_steps": ends, "success_rate": rate, "solved": solved, "budget": steps})


def _pursued(history: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The updates in which the task was pursued: after the one that ended exploration, which has the phase after it."""
    begin = max((place + 2 for place, record in enumerate(history) if record.get("phase") == "explore"), default=0)
    return history[begin:]
