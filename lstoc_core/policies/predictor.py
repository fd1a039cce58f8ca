"""A trained policy as other libraries call it: `predict` in the convention of stable-baselines3, on raw observations.

action, state = policy.predict(observation)                         # at an episode's start
action, state = policy.predict(observation, state)                  # then with the state of the last call
actions, state = policy.predict(batch, state, episode_start=ended)  # many episodes at once
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lstoc_core.policies.gru import RecurrentPolicy, log_policy, sample
from lstoc_core.trajectories.flat import FlatObservations, ListedActions, box_like, space_from_json, space_to_json
from lstoc_core.trajectories.interned import InternedVectorEnv
from lstoc_core.trajectories.vector_env import IdVectorEnv

PolicyState = tuple[NDArray[np.float32]]
"""The memory of a policy, between two observations: the hidden state [n, H]."""


class Predictor:
    """A recurrent policy with the spaces of its environment.

    network: takes any observation, also one that was never seen. seed: of the draws with `deterministic=False`.
    """

    def __init__(
        self, network: RecurrentPolicy, flat: FlatObservations, listed: ListedActions, *, seed: int = 0
    ) -> None:
        self.network, self.flat, self.listed = network, flat, listed
        self._draws = torch.Generator().manual_seed(seed)

    @classmethod
    def of(cls, network: RecurrentPolicy, env: IdVectorEnv, *, seed: int = 0) -> Predictor:
        """For the environments behind `env`: their raw observations, their actions."""
        if isinstance(env, InternedVectorEnv):
            return cls(network, env.flat, env.listed, seed=seed)
        listed = ListedActions(np.arange(env.num_actions, dtype=np.int64))
        return cls(network, FlatObservations(box_like(env.observations)), listed, seed=seed)

    @torch.no_grad()
    def predict(
        self,
        observation: Any,
        state: PolicyState | None = None,
        episode_start: NDArray[np.bool_] | bool | None = None,
        deterministic: bool = True,
    ) -> tuple[Any, PolicyState]:
        """The action for an observation, or the actions for a batch; and the state for the next call.

        state: from the last call; None where episodes begin. episode_start: [n], True where one begins, whose state is
        forgotten. deterministic: the most probable action; otherwise one is drawn.
        """
        many = self.flat.is_batch(observation)
        rows = self._rows(observation, many)
        hidden = self._hidden(len(rows), state, episode_start)
        projection = self.network.project(self.network.embedding(rows))
        logits, _, hidden = self.network.step(projection, torch.arange(len(rows)), hidden)
        if deterministic:
            chosen = logits.argmax(-1)
        else:
            chosen = sample(log_policy(logits), torch.rand(len(rows), generator=self._draws))
        actions = self.listed.rows[chosen.numpy()]
        return actions if many else actions[0], (hidden.numpy(),)

    def _rows(self, observation: Any, many: bool) -> NDArray[Any]:
        rows = self.flat.rows(observation, _first_length(observation)) if many else self.flat.row(observation)[None]
        if rows.shape[1:] != self.flat.box.shape:
            raise ValueError(
                f"an observation of shape {rows.shape[1:]}: the policy was trained on {self.flat.box.shape}, alone or "
                "in a batch"
            )
        return rows

    def _hidden(self, count: int, state: PolicyState | None, episode_start: NDArray[np.bool_] | bool | None) -> Tensor:
        if state is None:
            return self.network.initial_hidden(count)
        hidden = torch.as_tensor(state[0])
        if hidden.shape != (count, self.network.hidden_size):
            raise ValueError(
                f"a state of {len(hidden)} episodes for {count} observations: give the state of the last call, or None"
            )
        if episode_start is None:
            return hidden
        going_on = ~np.broadcast_to(np.asarray(episode_start, np.bool_), count)
        return hidden * torch.from_numpy(going_on).unsqueeze(1)

    # --- files ---

    def to_json(self) -> dict[str, Any]:
        """Everything but the weights."""
        network = self.network
        return {
            "space": space_to_json(self.flat.space),
            "actions": self.listed.rows.tolist(),
            "hidden": network.hidden_size,
            "features": network.input.in_features,
            "memoryless": network.memoryless,
        }

    @classmethod
    def from_json(cls, told: dict[str, Any], weights: dict[str, Tensor], *, seed: int = 0) -> Predictor:
        """What `to_json` wrote, with the weights of the network's `state_dict`."""
        flat, listed = FlatObservations(space_from_json(told["space"])), ListedActions(np.array(told["actions"]))
        network = RecurrentPolicy(
            flat.box.shape, flat.box.dtype, len(listed), hidden=told["hidden"], features=told["features"],
            memoryless=told["memoryless"],
        )  # fmt: skip
        network.load_state_dict(weights)
        return cls(network, flat, listed, seed=seed)


def _first_length(observations: Any) -> int:
    """The number of observations in a batch."""
    while isinstance(observations, dict | tuple):
        observations = next(iter(observations.values())) if isinstance(observations, dict) else observations[0]
    return len(observations)
