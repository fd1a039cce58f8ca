"""Records the episodes of a vector environment and keeps the finished ones."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.trajectories.store import Bools, TrajectoryStore

Ids = NDArray[np.integer[Any]]
"""Observation ids, one per environment."""


class RunningEpisodes:
    """Observation ids of the running episodes: one row per environment, its start observation first."""

    def __init__(self, num_envs: int) -> None:
        self.ids = np.zeros((num_envs, 64), np.int32)
        self.lengths = np.zeros(num_envs, np.int64)
        self._rows = np.arange(num_envs)

    def begin(self, envs: Bools, ids: Ids) -> None:
        """Start new episodes in the environments of the mask, on observations `ids` [E]."""
        self.ids[envs, 0] = ids[envs]
        self.lengths[envs] = 1

    def extend(self, ids: Ids) -> None:
        """Add one observation in every environment."""
        if self.lengths.max() == self.ids.shape[1]:
            self.ids = np.concatenate([self.ids, np.zeros_like(self.ids)], axis=1)
        self.ids[self._rows, self.lengths] = ids
        self.lengths += 1

    def take(self, envs: Bools) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Episodes of the environments in the mask: ids end to end, and lengths."""
        lengths = self.lengths[envs]
        ids = self.ids[envs, : lengths.max()]
        return ids[np.arange(ids.shape[1]) < lengths[:, None]], lengths


class EpisodeRecorder:
    """The running episodes of `num_envs` environments and a store of the finished ones.

    limit: number of finished episodes to keep, first ones first; 0 keeps none, None all.
    """

    def __init__(self, num_envs: int, limit: int | None = None) -> None:
        self.running = RunningEpisodes(num_envs)
        self.store = TrajectoryStore()
        self._limit = limit

    def begin(self, ids: Ids) -> None:
        """Begin an episode in every environment, on observations `ids` [E]; running episodes are dropped."""
        self.running.begin(np.ones(len(ids), np.bool_), ids)

    def step(self, final_ids: Ids, done: Bools, success: Bools, next_ids: Ids) -> None:
        """Record one step of every environment.

        final_ids: observation after the step, before any reset. next_ids: the first one of the next episode where
        `done`. success: the label, read only where `done`.
        """
        self.running.extend(final_ids)
        if done.any():
            self._keep(*self.running.take(done), success[done])
            self.running.begin(done, next_ids)

    def _keep(self, ids: NDArray[np.int32], lengths: NDArray[np.int64], labels: Bools) -> None:
        room = len(labels) if self._limit is None else max(0, self._limit - len(self.store))
        self.store.append_flat(ids[: lengths[:room].sum()], lengths[:room], labels[:room])

    def state_dict(self) -> dict[str, Any]:
        """All episodes, running and finished, as arrays."""
        longest = max(1, int(self.running.lengths.max()))
        return {
            "ids": self.running.ids[:, :longest].copy(),
            "lengths": self.running.lengths.copy(),
            "store": [self.store.ids, self.store.lengths, self.store.labels],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        num_envs = len(self.running.lengths)
        if len(state["lengths"]) != num_envs:
            raise ValueError(f"the state is of {len(state['lengths'])} environments, here are {num_envs}")
        self.running = RunningEpisodes(num_envs)
        self.running.ids, self.running.lengths = state["ids"].copy(), state["lengths"].copy()
        self.store = TrajectoryStore()
        self.store.append_flat(*state["store"])
