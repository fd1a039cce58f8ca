"""The automatic choice: the planner while its map predicts well, the policy otherwise."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lstoc_core.config import LSTOCConfig
from lstoc_core.discovery.method import Request
from lstoc_core.exploration.explorer import Explorer
from lstoc_core.exploration.planner import PlannerExplorer
from lstoc_core.exploration.policy import PolicyExplorer
from lstoc_core.exploration.survey import MOST_NOVEL, MOST_WRONG
from lstoc_core.logic.fsm import FSM
from lstoc_core.policies.ppo import PPO
from lstoc_core.trajectories.interned import InternedVectorEnv
from lstoc_core.trajectories.matching import KeyPath
from lstoc_core.trajectories.store import TrajectoryStore
from lstoc_core.trajectories.vector_env import IdVectorEnv

TRIAL = 2_000
"""Steps before the map is judged for the first time."""
PATIENT = 100
"""Episodes in which there must be a success, before the first one twice as many; and enough for a discovery."""
SETTLED, STILL_NOVEL = 5_000, 0.2
"""With events: after so many steps, at most this share of the last ones may still lead to new observations."""


class AutoExplorer:
    """An `Explorer` that begins as a `PlannerExplorer`, and goes on as a `PolicyExplorer` if the map predicts badly.

    widened: makes the environment again, with as many episodes side by side as asked for.
    """

    def __init__(
        self,
        env: IdVectorEnv,
        widened: Callable[[int], IdVectorEnv],
        config: LSTOCConfig,
        fsm: FSM | None,
        *,
        seed: int,
    ) -> None:
        self._config, self._seed, self._widened = config, seed, widened
        self.planner = PlannerExplorer(env, config, fsm, seed=seed)
        self.policy: PolicyExplorer | None = None
        self._reason = ""
        self._planned = 0
        """Steps of the planner before the policy took over."""
        self._saved = Path()

    @property
    def chosen(self) -> Explorer:
        """The explorer in use."""
        return self.policy or self.planner

    @property
    def account(self) -> str:
        return f"policy: {self._reason}" if self.policy else self.planner.account

    @property
    def env(self) -> IdVectorEnv:
        return self.chosen.env

    @property
    def env_steps(self) -> int:
        return self._planned + self.chosen.env_steps

    @property
    def trajectories(self) -> TrajectoryStore:
        return self.chosen.trajectories

    @property
    def learner(self) -> PPO | None:
        return self.chosen.learner

    def explore(self, request: Request, silence: int) -> dict[str, float]:
        stats = self.chosen.explore(request, silence)
        if self.policy is None and (reason := self._objection(testing=request.testing)):
            self._planned = self.planner.env_steps
            self._turn_to_policy(reason)
        return stats

    def _objection(self, *, testing: bool) -> str:
        """Why the map is of no use; empty if it is. testing: episodes test an answer, and most should fail."""
        world_map, steps = self.planner.map, self.planner.env_steps
        if steps < TRIAL:
            return ""
        labels = self.planner.trajectories.labels
        patience = PATIENT if labels.any() else 2 * PATIENT
        if len(labels) >= patience and not (testing or labels[-patience:].any()):
            return f"none of the last {patience} episodes succeeded, and its map leads to no success"
        if len(labels) >= PATIENT and 0 < labels.sum() < self._config.first_positives:
            return f"only {labels.sum()} of the first {len(labels)} episodes succeeded"
        if world_map.novelty > MOST_NOVEL:
            return (
                f"observations do not repeat; {world_map.novelty:.0%} of the last {len(world_map.novel)} "
                f"of {steps} steps led to new ones"
            )
        if world_map.error_rate > MOST_WRONG:
            return f"after {steps} steps, the map is wrong in {world_map.error_rate:.0%} of its predictions"
        if self.planner.keys.reading and steps >= SETTLED and world_map.novelty > STILL_NOVEL:
            return f"after {steps} steps, {world_map.novelty:.0%} of the last ones still led to places that are new"
        if self.planner.survey.reads_states and world_map.blind_rate > MOST_WRONG:
            return f"after {steps} steps, the map is wrong in {world_map.blind_rate:.0%} of the changes of features"
        return ""

    def _turn_to_policy(self, reason: str) -> None:
        """Go on with the policy; episodes so far are kept if ids mean the same in its environment."""
        store, env = self.planner.trajectories, self._widened(self._config.num_envs)
        self.policy, self._reason = PolicyExplorer(env, self._config, seed=self._seed), reason
        if _same_ids(self.planner.env, env):
            self.policy.trajectories.append_flat(store.ids, store.lengths, store.labels)

    def places(self) -> TrajectoryStore | None:
        """Those of the planner's map, while it is in use."""
        return None if self.policy else self.planner.places()

    def pursue(self, paths: Sequence[KeyPath]) -> dict[str, float]:
        return self.chosen.pursue(paths)

    @property
    def success_rate(self) -> float:
        return self.chosen.success_rate

    @property
    def solved(self) -> bool:
        return self.chosen.solved

    def save(self, path: Path) -> None:
        self.chosen.save(path)

    def load(self, path: Path) -> None:
        self._saved = path

    def state_dict(self) -> dict[str, Any]:
        return {"reason": self._reason, "planned": self._planned, "chosen": self.chosen.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["reason"]:
            self._turn_to_policy(state["reason"])
            self._planned = state["planned"]
        self.chosen.load(self._saved)
        self.chosen.load_state_dict(state["chosen"])


def _same_ids(known: IdVectorEnv, env: IdVectorEnv) -> bool:
    """Whether ids mean the same in both: one identity interns their observations, or their tables are equal."""
    if isinstance(known, InternedVectorEnv):  # its table has no rows before the first reset
        return isinstance(env, InternedVectorEnv) and env.identity is known.identity
    return np.array_equal(env.observations[: len(known.observations)], known.observations)
