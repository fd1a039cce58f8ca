"""Worlds made harder on purpose, one episode at a time: wrong labels, slippery moves, pixels that never repeat."""

from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from numpy.typing import NDArray


class _Perturbed(gymnasium.Wrapper):
    """A wrapper that draws from a stream of its own, apart from the environment's; a seed begins it anew."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng([seed, 1])
        return super().reset(seed=seed, options=options)

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on exactly here; the environment inside must have one, too."""
        return {"rng": self._rng.bit_generator.state, "env": self.env.state_dict()}  # type: ignore[attr-defined]

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state_dict`."""
        self._rng.bit_generator.state = state["rng"]
        self.env.load_state_dict(state["env"])  # type: ignore[attr-defined]


class FlippedLabels(_Perturbed):
    """The label at the end of an episode is wrong with probability `rate`; the episode itself is unchanged."""

    def __init__(self, env: gymnasium.Env, rate: float) -> None:
        if not 0 <= rate < 0.5:
            raise ValueError(f"rate={rate}: give 0 or more and less than 1/2, where labels carry no information")
        super().__init__(env)
        self.rate = rate

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if (terminated or truncated) and self._rng.random() < self.rate:
            info = {**info, "success": not info["success"]}
        return observation, reward, terminated, truncated, info


class SlipperyMoves(_Perturbed):
    """With probability `rate`, a uniformly random action is taken instead of the chosen one."""

    def __init__(self, env: gymnasium.Env, rate: float) -> None:
        if not 0 <= rate <= 1:
            raise ValueError(f"rate={rate}: give a probability, from 0 to 1")
        super().__init__(env)
        self.rate = rate

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        slips = self._rng.random() < self.rate
        return self.env.step(self._rng.integers(self.action_space.n) if slips else action)  # type: ignore[attr-defined]


class NoisyPixels(_Perturbed, gymnasium.ObservationWrapper):
    """Adds noise of up to `amplitude` grey levels to every pixel, anew in each step, so that no observation repeats."""

    def __init__(self, env: gymnasium.Env, amplitude: int = 3) -> None:
        super().__init__(env)
        self.amplitude = amplitude

    def observation(self, observation: NDArray[np.uint8]) -> NDArray[np.uint8]:
        noise = self._rng.integers(-self.amplitude, self.amplitude + 1, observation.shape, np.int8)
        return np.clip(observation + noise.astype(np.int16), 0, 255).astype(np.uint8)
