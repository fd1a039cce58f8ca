"""The one interface through which the library sees environments: many episodes at once, as observation ids.

`InternedVectorEnv` offers it for any gymnasium environments.
"""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lstoc_core.trajectories.events import Vocabulary


class ObservationTable(Protocol):
    """Observations that are known by their row number, the id."""

    @property
    def observations(self) -> NDArray[Any]:
        """The distinct observations so far [N, ...]; new ones are added at the end."""
        ...


@runtime_checkable
class IdVectorEnv(ObservationTable, Protocol):
    """E episodes side by side, each observation an id. An episode that ends starts again in the same step."""

    num_envs: int
    """The number of episodes E."""
    num_actions: int
    """Actions are 0 to num_actions - 1."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.int64], dict[str, Any]]:
        """Begin all episodes: ids [E] and an info dictionary. Episode i is seeded with seed + i."""
        ...

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """One action per episode: ids after any restart, rewards, terminated, truncated, info; all arrays are [E].

        info["final_obs"]: ids before any restart, valid for every episode.
        info["success"]: the label, valid where an episode ended.
        """
        ...

    def representation(self, count: int) -> NDArray[np.float32] | None:
        """o_θ of the first `count` observations [count, d], where one was learned to tell them apart; else None."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What the next steps depend on, in arrays and plain values; `begun` is True if episodes under way resume."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict`; unless it says `begun`, `reset` must follow."""
        ...


@runtime_checkable
class Stateful(Protocol):
    """An environment that can be saved in the middle of an episode."""

    def state_dict(self) -> dict[str, Any]:
        """All that its next steps depend on, in arrays and plain values."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict`."""
        ...


@runtime_checkable
class EventVectorEnv(IdVectorEnv, Protocol):
    """One whose key states may be features. Where they are, `vocabulary` is given: ids are then sets of features."""

    @property
    def vocabulary(self) -> Vocabulary | None: ...

    @property
    def sight(self) -> ObservationTable | None:
        """What a policy sees, in rows that info["seen"] names, and info["final_seen"] before any restart."""
        ...


def vocabulary_of(env: IdVectorEnv) -> Vocabulary | None:
    """The events of an environment; None where key states are observations."""
    return env.vocabulary if isinstance(env, EventVectorEnv) else None


def sight_of(env: IdVectorEnv) -> ObservationTable:
    """The table of what a policy sees."""
    sight = env.sight if isinstance(env, EventVectorEnv) else None
    return env if sight is None else sight
