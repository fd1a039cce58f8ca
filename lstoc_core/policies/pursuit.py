"""Training along known sequences: the solve phase, the oracle, and tasks whose subgoals were learned elsewhere.

    pursuit = Pursuit(learner, paths)           # paths: sequences of observation ids that complete the task
    while not pursuit.solved:
        pursuit.update()

The policy is paid for visiting the key states in order (r_a) and for *approach*: each step nearer to the end of a path,
by the shortest ways that the policy itself has taken. Different places may look the same, so ways can mislead. Until
half of the episodes succeed, a first-occupancy bonus is paid as well.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.policies.ppo import PPO
from lstoc_core.policies.rewards import RewardConfig, RewardPlan, Ways
from lstoc_core.trajectories.matching import entries, shortest_ways
from lstoc_core.trajectories.vector_env import vocabulary_of

WINDOW = 8
"""Success is measured over this many updates, counting only those in which an episode ended."""
GROWTH = 1.1
"""Ways are measured again when the number of trajectories has grown by this factor."""


@dataclass(frozen=True)
class PursuitConfig:
    """Rewards for following known sequences, and the success rate at which the task is solved."""

    progress: float = 0.1
    """r_a."""
    approach: float = 0.02
    """For a step nearer to the end of a sequence."""
    bonus: float = 0.01
    """First-occupancy bonus, until the success rate reaches `confident`."""
    confident: float = 0.5
    """Success rate that ends the bonus."""
    solved: float = 0.97
    """Success rate at which the task counts as solved."""


class Recent:
    """Success rate of the episodes that ended lately, in the last `window` updates in which any did."""

    def __init__(self, records: Iterable[tuple[int, float]] = (), window: int = WINDOW) -> None:
        self.window = window
        self.records = [(episodes, rate) for episodes, rate in records][-window:]

    def add(self, stats: dict[str, float]) -> None:
        """Add the report of an update (`PPO.update`)."""
        if stats["episodes"]:
            self.records = [*self.records, (int(stats["episodes"]), stats["success_rate"])][-self.window :]

    @property
    def episodes(self) -> int:
        return sum(episodes for episodes, _ in self.records)

    @property
    def rate(self) -> float:
        """NaN if no episode ended."""
        successes = sum(episodes * rate for episodes, rate in self.records)
        return successes / self.episodes if self.records else float("nan")

    def above(self, rate: float, num_envs: int) -> bool:
        """Whether the rate is at least `rate`, over enough episodes: successes are short and end first."""
        return self.episodes >= 2 * num_envs and self.rate >= rate


class Pursuit:
    """Trains `learner` to complete one of `paths`; its store must keep the episodes (PPOConfig.store_limit)."""

    def __init__(self, learner: PPO, paths: Iterable[Sequence[int]], config: PursuitConfig | None = None) -> None:
        self.learner, self.config = learner, config or PursuitConfig()
        self.paths = tuple(tuple(path) for path in paths)
        self.recent = Recent()
        self._next_look = 0.0
        self._bonus = self.config.bonus
        self._ways: Ways = {}
        self._places: dict[int, NDArray[np.int64]] = {}

    @property
    def env_steps(self) -> int:
        return self.learner.env_steps

    @property
    def solved(self) -> bool:
        return self.recent.above(self.config.solved, self.learner.env.num_envs)

    @property
    def plan(self) -> RewardPlan:
        """The current rewards."""
        paid = RewardConfig(progress=self.config.progress, bonus=self._bonus, approach=self.config.approach)
        return RewardPlan(paid, self.paths, ways=self._ways, places=self._places)

    def update(self) -> dict[str, float]:
        """One update of the policy (see `PPO.update`)."""
        learner, store = self.learner, self.learner.store
        if len(store) >= self._next_look:
            keys = {key for path in self.paths for key in path}
            vocabulary = vocabulary_of(learner.env)
            if vocabulary is None:
                self._ways = shortest_ways(store, keys)
            else:
                self._places = {key: vocabulary.states_with(key) for key in keys}
                self._ways = shortest_ways(store, keys, lambda key: entries(store, self._places[key]))
            self._next_look = len(store) * GROWTH + 1
        learner.follow(self.plan)
        stats = learner.update()
        self.recent.add(stats)
        if self.recent.above(self.config.confident, learner.env.num_envs):
            self._bonus = 0.0
        return stats

    def state_dict(self) -> dict[str, Any]:
        """What the next updates depend on beside the learner's own state, in plain values."""
        return {"recent": self.recent.records, "next_look": self._next_look, "bonus": self._bonus}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned. Restore the learner first: its plan holds the ways."""
        self.recent = Recent((episodes, rate) for episodes, rate in state["recent"])
        self._next_look, self._bonus = state["next_look"], state["bonus"]
        self._ways, self._places = self.learner.rewards.plan.ways, dict(self.learner.rewards.plan.places)
