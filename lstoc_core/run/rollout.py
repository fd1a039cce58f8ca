"""Episodes of a trained policy in an environment."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.policies.predictor import PolicyState, Predictor
from lstoc_core.run.environments import EnvLike, single_environment
from lstoc_core.trajectories.success import EpisodeEnd, Success, check_success, succeeded

MAX_STEPS = 10_000
"""An episode is given up after this many steps."""


@dataclass(frozen=True)
class Rollout:
    """One episode of a policy: T steps."""

    observations: NDArray[Any]
    """From the start observation to the final one, as the policy takes them [T + 1, ...]."""
    actions: NDArray[np.int64]
    """As the environment takes them [T, ...]."""
    rewards: NDArray[np.float64]
    """[T]."""
    success: bool
    """The label; False if the episode was given up."""
    frames: tuple[NDArray[np.uint8], ...] = ()
    """What the environment renders at each observation, T + 1 pictures; empty unless it renders RGB arrays."""


def rollouts(
    policy: Predictor,
    env: EnvLike,
    episodes: int = 1,
    *,
    success: Success = "auto",
    deterministic: bool = False,
    seed: int | None = None,
) -> Iterator[Rollout]:
    """Let the policy play episodes, the first one seeded."""
    check_success(success)
    if episodes < 1:
        raise ValueError(f"episodes is {episodes}: give at least 1")
    world = single_environment(env)
    for episode in range(episodes):
        observation, _ = world.reset(seed=seed if episode == 0 else None)
        seen, actions, rewards, label = [policy.flat.row(observation).copy()], [], [], False
        renders = world.render_mode == "rgb_array"
        frames = [np.asarray(world.render())] if renders else []
        state: PolicyState | None = None
        for _ in range(MAX_STEPS):
            action, state = policy.predict(observation, state, deterministic=deterministic)
            observation, reward, terminated, truncated, info = world.step(action)
            seen.append(policy.flat.row(observation).copy())
            actions.append(action)
            rewards.append(float(reward))
            if renders:
                frames.append(np.asarray(world.render()))
            if terminated or truncated:
                end = EpisodeEnd(observation, float(reward), bool(terminated), bool(truncated), info)
                label = succeeded(success, end, "the environment")
                break
        yield Rollout(np.stack(seen), np.array(actions), np.array(rewards), label, tuple(frames))
