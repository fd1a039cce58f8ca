"""Environments of one's own under the same id interface: observations become numbers as they appear.

class MyEnv(gymnasium.Env): ...          # Box or Discrete observations, Discrete actions, info["success"]
InternedVectorEnv([MyEnv] * 16)          # factories, or environments that stand
"""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from lstoc_core.trajectories.identity import ExactIdentity, Identity


class InternedVectorEnv(VectorEnv[Any, Any, Any]):
    """Any gymnasium environments under the interface of `GridVectorEnv`: ids, same-step autoreset, `final_obs`.

    envs: environments or factories of them, all with the same spaces. Discrete observations become one-hot rows.
    identity: when two observations are the same state; by default when their bytes are equal.
    An episode must end (terminated or truncated) with `info["success"]`, True or False: the label of the paper.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self,
        envs: Sequence[gymnasium.Env[Any, Any] | Callable[[], gymnasium.Env[Any, Any]]],
        identity: Identity | None = None,
        *,
        seed: int | None = 0,
    ) -> None:
        if not len(envs):
            raise ValueError("no environments: give at least one, or one factory")
        self.envs = [env if isinstance(env, gymnasium.Env) else env() for env in envs]
        if len({id(env) for env in self.envs}) < len(self.envs):
            raise ValueError("an environment appears twice: every episode needs one of its own, so give factories")
        self.identity: Identity = ExactIdentity() if identity is None else identity
        self.num_envs = len(self.envs)
        first = self.envs[0]
        if not isinstance(first.action_space, spaces.Discrete):
            raise TypeError(f"actions are {first.action_space}: only Discrete actions are supported")
        if not isinstance(first.observation_space, spaces.Box | spaces.Discrete):
            raise TypeError(f"observations are {first.observation_space}: only Box and Discrete are supported")
        for i, env in enumerate(self.envs):
            if (env.observation_space, env.action_space) != (first.observation_space, first.action_space):
                raise ValueError(f"environment {i} has other spaces than environment 0")
        self.num_actions = int(first.action_space.n)
        self._first_action = int(first.action_space.start)
        self._raw_space = first.observation_space
        self.single_observation_space = spaces.Discrete(np.iinfo(np.int32).max)  # how many there are is not known
        self.single_action_space = spaces.Discrete(self.num_actions)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._seed = seed
        self._begun = False
        self._seen = False

    @property
    def observations(self) -> NDArray[Any]:
        """The distinct observations so far, [N, ...]; grows at the end. No rows before the first reset."""
        if self._seen:
            return self.identity.observations
        if isinstance(self._raw_space, spaces.Discrete):
            return np.empty((0, int(self._raw_space.n)), np.uint8)
        return np.empty((0, *self._raw_space.shape), self._raw_space.dtype)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.int64], dict[str, Any]]:
        seed = self._seed if seed is None and not self._begun else seed
        starts = [
            env.reset(seed=None if seed is None else seed + i, options=options)[0] for i, env in enumerate(self.envs)
        ]
        self._begun = True
        return self._intern(starts), {}

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        if not self._begun:
            raise ResetNeeded("the environments have not begun: call reset() before step()")
        chosen = np.asarray(actions)
        if chosen.shape != (self.num_envs,) or chosen.dtype.kind not in "iu":
            raise InvalidAction(f"actions of shape {chosen.shape}, {chosen.dtype}: give {self.num_envs} integers")
        if chosen.min() < 0 or chosen.max() >= self.num_actions:
            raise InvalidAction(f"actions from {chosen.min()} to {chosen.max()}: choose 0 to {self.num_actions - 1}")
        reward = np.zeros(self.num_envs, np.float32)
        terminated, truncated, success = np.zeros((3, self.num_envs), bool)
        final, starts = [], []
        for i, env in enumerate(self.envs):
            observation, reward[i], terminated[i], truncated[i], info = env.step(chosen[i] + self._first_action)
            final.append(observation)
            if terminated[i] or truncated[i]:
                success[i] = _label(info, i)
                starts.append(env.reset()[0])
        final_ids = self._intern(final)
        ids = final_ids
        if starts:
            ids = final_ids.copy()
            ids[terminated | truncated] = self._intern(starts)
        return ids, reward, terminated, truncated, {"success": success, "final_obs": final_ids}

    def state_dict(self) -> dict[str, Any]:
        """The table of observations. Episodes under way live in the environments and are not saved: they begin anew."""
        return {"observations": self.observations.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Gives every saved observation its id again; `reset` must follow."""
        saved = np.asarray(state["observations"])
        if len(saved) and (self.identity.ids(saved) != np.arange(len(saved))).any():
            raise ValueError("other observations were seen before the saved ones: load into a new InternedVectorEnv")
        self._seen |= bool(len(saved))
        self._begun = False

    def close_extras(self, **kwargs: Any) -> None:
        for env in self.envs:
            env.close()

    def _intern(self, observations: Sequence[Any]) -> NDArray[np.int64]:
        self._seen = True
        if isinstance(self._raw_space, spaces.Discrete):
            numbers = np.asarray(observations, np.int64) - self._raw_space.start
            return self.identity.ids((numbers[:, None] == np.arange(self._raw_space.n)).astype(np.uint8))
        return self.identity.ids(np.stack([np.asarray(o, self._raw_space.dtype) for o in observations]))


def _label(info: dict[str, Any], env: int) -> bool:
    if "success" not in info:
        raise KeyError(
            f"environment {env} ended an episode without info['success']: the step() that ends an episode must return "
            "info with 'success' True or False, saying whether the hidden task was done"
        )
    return bool(info["success"])
