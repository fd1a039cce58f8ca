"""Worlds made harder on purpose, one episode at a time: wrong labels, slippery moves, pixels that never repeat."""

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from numpy.typing import NDArray


class FlippedLabels(gymnasium.Wrapper):
    """The label at the end of an episode is wrong with probability `rate`; the episode itself is unchanged."""

    def __init__(self, env: gymnasium.Env, rate: float) -> None:
        if not 0 <= rate < 0.5:
            raise ValueError(f"rate={rate}: give 0 or more and less than 1/2, where labels carry no information")
        super().__init__(env)
        self.rate = rate
        self._rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._rng = _own_stream(self._rng, seed)
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if (terminated or truncated) and self._rng.random() < self.rate:
            info = {**info, "success": not info["success"]}
        return observation, reward, terminated, truncated, info


class SlipperyMoves(gymnasium.Wrapper):
    """With probability `rate`, a uniformly random action is taken instead of the chosen one."""

    def __init__(self, env: gymnasium.Env, rate: float) -> None:
        if not 0 <= rate <= 1:
            raise ValueError(f"rate={rate}: give a probability, from 0 to 1")
        super().__init__(env)
        self.rate = rate
        self._rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._rng = _own_stream(self._rng, seed)
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        slips = self._rng.random() < self.rate
        return self.env.step(self._rng.integers(self.action_space.n) if slips else action)  # type: ignore[attr-defined]


class NoisyPixels(gymnasium.ObservationWrapper):
    """Adds noise of up to `amplitude` grey levels to every pixel, anew in each step, so that no observation repeats."""

    def __init__(self, env: gymnasium.Env, amplitude: int = 3) -> None:
        super().__init__(env)
        self.amplitude = amplitude
        self._rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._rng = _own_stream(self._rng, seed)
        return super().reset(seed=seed, options=options)

    def observation(self, observation: NDArray[np.uint8]) -> NDArray[np.uint8]:
        noise = self._rng.integers(-self.amplitude, self.amplitude + 1, observation.shape, np.int8)
        return np.clip(observation + noise.astype(np.int16), 0, 255).astype(np.uint8)


def _own_stream(rng: np.random.Generator, seed: int | None) -> np.random.Generator:
    """A new stream, apart from the environment's, if a seed is given; else the one in use."""
    return rng if seed is None else np.random.default_rng([seed, 1])
