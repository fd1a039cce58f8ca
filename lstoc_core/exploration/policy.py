"""The paper's exploration policy π_exp: a GRU policy trained by recurrent PPO.

It is paid for successes, for following the paths that discovery asks for (r_a), and a first-occupancy bonus. When
discovery has had no news for long, exploration has collapsed onto what is known. Then the bonus grows where recent
episodes have not been, and explained successes pay less.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.config import LSTOCConfig
from lstoc_core.discovery.method import Request, nested_tuples
from lstoc_core.policies.ppo import PPO
from lstoc_core.policies.pursuit import Pursuit
from lstoc_core.policies.rewards import RewardConfig, RewardPlan
from lstoc_core.trajectories.matching import KeyPath, segment_counts
from lstoc_core.trajectories.store import TrajectoryStore
from lstoc_core.trajectories.vector_env import IdVectorEnv

LEAST_BONUS = 0.01
"""Least first-occupancy bonus once exploration has collapsed."""
RECENT = 64
"""Last episodes over which the success rate is compared with `Request.success_share`."""
TESTING = 0.5
"""ε while an answer is tested: what the policy does by itself, it has done before."""
MOST_DOUBLINGS = 2
"""Most doublings of the bonus once exploration has collapsed."""


class PolicyExplorer:
    """An `Explorer` that learns by PPO. reason: why it was chosen."""

    def __init__(self, env: IdVectorEnv, config: LSTOCConfig, *, seed: int, reason: str = "as chosen") -> None:
        self.env, self.config = env, config
        self.account = f"policy: {reason}"
        self.learner = PPO(env, config.ppo.fitting(env.num_envs), seed=seed)
        self._pursuit: Pursuit | None = None

    @property
    def env_steps(self) -> int:
        return self.learner.env_steps

    @property
    def trajectories(self) -> TrajectoryStore:
        return self.learner.store

    def explore(self, request: Request, silence: int) -> dict[str, float]:
        """One update of the policy, with rewards that follow the request."""
        self._pursuit = None  # of an answer that was withdrawn
        self.learner.follow(self.plan(request, silence))
        frozen = not self.config.train_explorer and bool(request.follow)
        epsilon = TESTING if request.testing and request.epsilon is None else request.epsilon
        return self.learner.update(train=not frozen, epsilon=epsilon)

    def plan(self, request: Request, silence: int) -> RewardPlan:
        """The rewards for a request, after so many trajectories without news."""
        config = self.config
        doublings = min(MOST_DOUBLINGS, silence // config.patience) if config.patience else 0
        bonus = max(self._bonus(request), LEAST_BONUS if doublings else 0.0) * 2**doublings
        success, explained = config.success, config.explained / 2**doublings
        recent = self.trajectories.labels[-RECENT:]
        if request.success_share is not None and len(recent) and recent.mean() >= request.success_share:
            success = explained = 0.0
        paid = RewardConfig(success, explained, config.progress, bonus, rearm=config.rearm)
        worth = self._missed() if doublings else np.empty(0)
        return RewardPlan(paid, request.follow, request.explained, worth=worth)

    def _bonus(self, request: Request) -> float:
        """The first-occupancy bonus, small enough that a tour earns no more than the request allows."""
        most = min(len(self.env.observations), int(self.trajectories.lengths.max(initial=0)))
        if request.tour is None or not most:
            return self.config.bonus
        return min(self.config.bonus, request.tour * self.config.success / most)

    def _missed(self) -> NDArray[np.float64]:
        """Fraction of the last `patience // 4` episodes that never visited each observation, [num_ids]."""
        store = self.trajectories
        last = store.select(np.arange(len(store))[-max(1, (self.config.patience or 0) // 4) :])
        return 1 - segment_counts(last, last.offsets[:-1], last.offsets[1:], store.num_ids) / len(last)

    def pursue(self, paths: Sequence[KeyPath]) -> dict[str, float]:
        """One update of the same policy, now paid to complete one of the paths."""
        if self._pursuit is None:
            self._pursuit = Pursuit(self.learner, paths, self.config.pursuit)
        return self._pursuit.update()

    @property
    def success_rate(self) -> float:
        return self._pursuit.recent.rate if self._pursuit else float("nan")

    @property
    def solved(self) -> bool:
        return self._pursuit is not None and self._pursuit.solved

    def save(self, path: Path) -> None:
        self.learner.save(path)

    def load(self, path: Path) -> None:
        self.learner.load(path)

    def state_dict(self) -> dict[str, Any]:
        pursuit = self._pursuit
        return {"pursuit": {"paths": pursuit.paths, **pursuit.state_dict()} if pursuit else None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._pursuit = None
        if state["pursuit"] is not None:
            self._pursuit = Pursuit(self.learner, nested_tuples(state["pursuit"]["paths"]), self.config.pursuit)
            self._pursuit.load_state_dict(state["pursuit"])
