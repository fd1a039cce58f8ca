"""The world as the map knows it, as an environment: a policy can be trained in it without touching the world."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lstoc_core.config import LSTOCConfig
from lstoc_core.exploration.world_map import WorldMap
from lstoc_core.policies.ppo import PPO
from lstoc_core.policies.pursuit import Pursuit
from lstoc_core.trajectories.matching import KeyPath
from lstoc_core.trajectories.vector_env import IdVectorEnv


class ImaginedVectorEnv:
    """Episodes on a map (an `IdVectorEnv`): they succeed when one of the paths has been visited in order.

    They start where real episodes have started. An action never tried leads nowhere.
    """

    def __init__(
        self,
        world_map: WorldMap,
        paths: Sequence[KeyPath],
        observations: NDArray[Any],
        *,
        num_envs: int,
        horizon: int,
        seed: int,
    ) -> None:
        self.num_envs, self.num_actions = num_envs, world_map.num_actions
        self.observations, self._horizon, self._seed = observations, horizon, seed
        links = world_map.links
        self._links = np.where(links < 0, np.arange(len(links))[:, None], links)
        self._ids, self._starts = world_map.ids.astype(np.int64), world_map.starts
        longest = max(len(path) for path in paths)
        self._paths = np.array([[*path, *[-1] * (longest + 1 - len(path))] for path in paths])
        self._lengths = np.array([len(path) for path in paths])
        self._place = np.zeros(num_envs, np.int64)
        self._progress = np.zeros((num_envs, len(paths)), np.int64)
        self._time = np.zeros(num_envs, np.int64)
        self._rng = np.random.default_rng(seed)

    def representation(self, count: int) -> None:
        """None: ids tell the observations apart."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.int64], dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._restart(np.ones(self.num_envs, np.bool_))
        return self._ids[self._place], {}

    def _restart(self, envs: NDArray[np.bool_]) -> None:
        self._place[envs] = self._rng.choice(self._starts, int(envs.sum()))
        self._progress[envs] = self._time[envs] = 0

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        self._place = self._links[self._place, np.asarray(actions)].astype(np.int64)
        final_ids = self._ids[self._place]
        self._progress += self._paths[np.arange(len(self._paths)), self._progress] == final_ids[:, None]
        self._time += 1
        success = (self._progress == self._lengths).any(axis=1)
        truncated = (self._time >= self._horizon) & ~success
        done = success | truncated
        if done.any():
            self._restart(done)
        info = {"success": success, "final_obs": final_ids}
        return self._ids[self._place], success.astype(np.float32), success, truncated, info

    def state_dict(self) -> dict[str, Any]:
        """Where the episodes are, and the state of the generator."""
        generator = self._rng.bit_generator.state
        return {"begun": True, "generator": generator, "now": [self._place, self._progress, self._time]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict`."""
        self._rng.bit_generator.state = state["generator"]
        self._place, self._progress, self._time = (each.copy() for each in state["now"])


def imagined_pursuit(
    world_map: WorldMap,
    paths: tuple[KeyPath, ...],
    observations: NDArray[Any],
    config: LSTOCConfig,
    *,
    horizon: int,
    seed: int,
) -> Pursuit:
    """An untrained policy on the map, to be trained to complete one of the paths."""
    stream, num_envs = int(np.random.SeedSequence([seed, 1]).generate_state(1)[0]), config.num_envs
    env = ImaginedVectorEnv(world_map, paths, observations, num_envs=num_envs, horizon=horizon, seed=stream)
    return Pursuit(PPO(env, config.ppo.fitting(num_envs), seed=stream), paths, config.pursuit)


_CONFORMS: type[IdVectorEnv] = ImaginedVectorEnv  # checked by mypy
