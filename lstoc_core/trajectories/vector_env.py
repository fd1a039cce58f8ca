"""The one interface through which everything else sees an environment: many episodes at once, as observation ids."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray


class IdVectorEnv(Protocol):
    """Episodes side by side, each observation a row number of the table `observations`.

    A finished episode starts again in the same step. `info["final_obs"]` [E] holds the ids before any reset, valid for
    every environment; `info["success"]` [E] the label, valid where an episode ended.
    """

    num_envs: int
    num_actions: int

    @property
    def observations(self) -> NDArray[Any]:
        """The distinct observations so far, [N, ...]; may grow at its end."""
        ...

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.int64], dict[str, Any]]: ...

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]: ...

    def state_dict(self) -> dict[str, Any]:
        """What the next steps depend on, in arrays and plain values; `begun` False if episodes cannot be resumed."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...
