"""The world as the map knows it, as an environment: a policy can be trained in it without touching the world."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lstoc_core.config import LSTOCConfig
from lstoc_core.exploration.keys import OBSERVATIONS, Keys
from lstoc_core.exploration.map_ids import MapIds
from lstoc_core.exploration.world_map import WorldMap
from lstoc_core.policies.ppo import PPO
from lstoc_core.policies.pursuit import Pursuit
from lstoc_core.trajectories.events import Vocabulary
from lstoc_core.trajectories.matching import KeyPath
from lstoc_core.trajectories.vector_env import EventVectorEnv, IdVectorEnv, ObservationTable, vocabulary_of


class ImaginedVectorEnv:
    """Episodes on a map (an `IdVectorEnv`): they succeed when one of the paths has been visited in order.

    They start where real episodes have started. An action never tried leads nowhere.
    env: the real world, whose ids these are. map_ids: what the map is made of.
    """

    def __init__(
        self,
        world_map: WorldMap,
        paths: Sequence[KeyPath],
        env: IdVectorEnv,
        *,
        num_envs: int,
        horizon: int,
        seed: int,
        keys: Keys = OBSERVATIONS,
        map_ids: MapIds | None = None,
    ) -> None:
        map_ids = map_ids or MapIds(env)
        self.num_envs, self.num_actions = num_envs, world_map.num_actions
        self.observations, self._horizon, self._seed = env.observations, horizon, seed
        self.vocabulary: Vocabulary | None = vocabulary_of(env)
        self.sight: ObservationTable | None = map_ids.table if self.vocabulary is not None else None
        links = world_map.links
        self._links = np.where(links < 0, np.arange(len(links))[:, None], links)
        self._rows, self._starts = world_map.ids.astype(np.int64), world_map.starts
        self._ids = map_ids.states[self._rows]
        longest = max(len(path) for path in paths)
        wanted = sorted({key for path in paths for key in path})
        self._paths = np.array(
            [[*map(wanted.index, path), *[len(wanted)] * (longest + 1 - len(path))] for path in paths]
        )
        """Keys by number; the last number is for none, after the end of a path."""
        self._begun = _with_none(keys.begun(self._rows[:, None], self._rows[self._links], wanted))
        """Whether each action in a place visits each key, [places, actions, keys + 1]."""
        self._begun_first = _with_none(keys.begun(None, self._rows, wanted))
        """Whether the first step of an episode does, by where it leads, [places, keys + 1]."""
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
        return self._ids[self._place], self._shown({}, self._place, "seen")

    def _shown(self, info: dict[str, Any], place: NDArray[np.int64], name: str) -> dict[str, Any]:
        """The info with what is seen in each place, where ids do not tell it."""
        return info if self.sight is None else {**info, name: self._rows[place]}

    def _restart(self, envs: NDArray[np.bool_]) -> None:
        self._place[envs] = self._rng.choice(self._starts, int(envs.sum()))
        self._progress[envs] = self._time[envs] = 0

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        begun = self._begun[self._place, np.asarray(actions)]
        self._place = self._links[self._place, np.asarray(actions)].astype(np.int64)
        begun = np.where((self._time == 0)[:, None], self._begun_first[self._place], begun)
        final, final_ids = self._place.copy(), self._ids[self._place]
        following = self._paths[np.arange(len(self._paths)), self._progress]
        self._progress += np.take_along_axis(begun, following, axis=1)
        self._time += 1
        success = (self._progress == self._lengths).any(axis=1)
        truncated = (self._time >= self._horizon) & ~success
        done = success | truncated
        if done.any():
            self._restart(done)
        info = self._shown({"success": success, "final_obs": final_ids}, final, "final_seen")
        info = self._shown(info, self._place, "seen")
        return self._ids[self._place], success.astype(np.float32), success, truncated, info

    def state_dict(self) -> dict[str, Any]:
        """Where the episodes are, and the state of the generator."""
        generator = self._rng.bit_generator.state
        return {"begun": True, "generator": generator, "now": [self._place, self._progress, self._time]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict`."""
        self._rng.bit_generator.state = state["generator"]
        self._place, self._progress, self._time = (each.copy() for each in state["now"])


def _with_none(begun: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """One key more, the last, which is never visited."""
    return np.concatenate([begun, np.zeros((*begun.shape[:-1], 1), np.bool_)], axis=-1)


def imagined_pursuit(
    world_map: WorldMap,
    paths: tuple[KeyPath, ...],
    env: IdVectorEnv,
    config: LSTOCConfig,
    *,
    keys: Keys,
    map_ids: MapIds,
    horizon: int,
    seed: int,
) -> Pursuit:
    """An untrained policy on the map, to be trained to complete one of the paths."""
    stream, num_envs = int(np.random.SeedSequence([seed, 1]).generate_state(1)[0]), config.num_envs
    imagined = ImaginedVectorEnv(
        world_map, paths, env, num_envs=num_envs, horizon=horizon, seed=stream, keys=keys, map_ids=map_ids
    )
    return Pursuit(PPO(imagined, config.ppo.fitting(num_envs), seed=stream), paths, config.pursuit)


_CONFORMS: type[EventVectorEnv] = ImaginedVectorEnv  # checked by mypy
