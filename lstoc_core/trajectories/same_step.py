"""A vector environment of gymnasium, as given, in the form that `InternedVectorEnv` steps: labelled, flat, same step.

Gymnasium knows three ways to begin the next episode. Here an episode that ends begins anew in the same step, whichever
of them the given one uses:

- SAME_STEP does so itself.
- DISABLED leaves the reset to the caller: it is made at once, for those that ended.
- NEXT_STEP spends the following step on it, without an action. SyncVectorEnv and AsyncVectorEnv can be reset before
  that step, so none is lost. Others cannot and are refused.
"""

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space, iterate
from numpy.typing import NDArray

from lstoc_core.trajectories.flat import FlatObservations, ListedActions
from lstoc_core.trajectories.success import EpisodeEnd, Success, succeeded


class SameStepVectorEnv(VectorEnv[Any, Any, Any]):
    """`env` with flat observations, numbered actions, and no info but final observations and labels at an end."""

    def __init__(self, env: VectorEnv[Any, Any, Any], success: Success) -> None:
        self.env, self.success, self.num_envs = env, success, env.num_envs
        self.flat, self.listed = (
            FlatObservations(env.single_observation_space),
            ListedActions.of(env.single_action_space),
        )
        self.single_observation_space = self.flat.box
        self.single_action_space = spaces.Discrete(len(self.listed))
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        mode = env.metadata.get("autoreset_mode")
        if mode is None:
            raise ValueError(f"{env} does not say in metadata['autoreset_mode'] how episodes begin anew: set it")
        self._mode = AutoresetMode(mode)
        if self._mode is AutoresetMode.NEXT_STEP and not isinstance(env.unwrapped, SyncVectorEnv | AsyncVectorEnv):
            raise ValueError(
                f"{env} spends a step on each reset, and cannot be reset before it: make it with "
                "autoreset_mode=AutoresetMode.SAME_STEP, or give a factory of its single environment"
            )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        observations, _ = self.env.reset(seed=seed, options=options)
        return self.flat.rows(observations, self.num_envs), {}

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        observations, reward, terminated, truncated, info = self.env.step(self.listed.rows[actions])
        reward, terminated, truncated = (np.array(each) for each in (reward, terminated, truncated))  # not its buffers
        done = terminated | truncated
        rows = self.flat.rows(observations, self.num_envs)
        if not done.any():
            return rows, reward, terminated, truncated, {}
        if self._mode is AutoresetMode.SAME_STEP:
            last, info = info["final_obs"], info["final_info"]
        else:
            last = _separate(self.env, observations)
        success, final = np.zeros(self.num_envs, np.bool_), np.empty(self.num_envs, object)
        for i in np.flatnonzero(done).tolist():
            end = EpisodeEnd(last[i], float(reward[i]), bool(terminated[i]), bool(truncated[i]), of_one(info, i))
            success[i] = succeeded(self.success, end, f"environment {i}")
            final[i] = self.flat.row(last[i]).copy()
        if self._mode is not AutoresetMode.SAME_STEP:
            rows = rows.copy()
            begun, _ = self.env.reset(options={"reset_mask": done})
            rows[done] = self.flat.rows(begun, self.num_envs)[done]
        return rows, reward, terminated, truncated, {"final_obs": final, "final_info": {"success": success}}

    def close_extras(self, **kwargs: Any) -> None:
        self.env.close(**kwargs)


def _separate(env: VectorEnv[Any, Any, Any], observations: Any) -> list[Any]:
    """The observations of a batch, one for each environment."""
    return list(iterate(env.observation_space, observations))


def of_one(info: dict[str, Any], index: int) -> dict[str, Any]:
    """The info of one environment in gymnasium's batched info: what its masks `_key` mark as given."""
    return {
        key: of_one(value, index) if isinstance(value, dict) else value[index]
        for key, value in info.items()
        if not key.startswith("_") and (f"_{key}" not in info or info[f"_{key}"][index])
    }
