"""The ids of which a map is made: with events, exact observations as long as these recur, else sets of features.

A set of features often does not tell the place: "carries a key" holds at many. An exact observation tells more, if it
recurs. Each has one set of features, so a map of observations can be read as one of sets at any time.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.trajectories.identity import ExactIdentity
from lstoc_core.trajectories.recorder import Ids
from lstoc_core.trajectories.vector_env import IdVectorEnv, ObservationTable, sight_of, vocabulary_of


class MapIds:
    """The map's ids for what an environment gives: its own ids, or numbers of exact observations."""

    def __init__(self, env: IdVectorEnv) -> None:
        self._env, self._sight = env, sight_of(env)
        self.exact = vocabulary_of(env) is not None
        """Whether ids are numbers of exact observations; else they are those of the environment."""
        self._identity = ExactIdentity()
        self._states = np.zeros(64, np.int64)
        self._count = 0

    def of(self, ids: Ids, rows: Ids | None) -> NDArray[Any]:
        """The map's ids. ids: of the environment, [E]; rows: of what is seen, where key states are events."""
        if not self.exact or rows is None:
            return ids
        found = self._identity.ids(self._sight.observations[rows])
        self._enter(found, ids)
        return found

    def _enter(self, found: NDArray[np.int64], states: Ids) -> None:
        most = int(found.max()) + 1
        if most > len(self._states):
            self._states = np.concatenate([self._states, np.zeros(max(most, len(self._states)), np.int64)])
        self._states[found], self._count = states, max(self._count, most)

    @property
    def states(self) -> NDArray[np.int64]:
        """The environment's id of each of the map's, [ids]."""
        return self._states[: self._count] if self.exact else np.arange(len(self._env.observations))

    @property
    def table(self) -> ObservationTable:
        """What is seen at each of the map's ids."""
        return self._identity if self.exact else self._env

    def as_states(self) -> None:
        """From now on, ids are those of the environment; observations are forgotten."""
        self.exact, self._identity, self._count = False, ExactIdentity(), 0

    def state_dict(self) -> dict[str, Any]:
        """The observations and their states."""
        if not self.exact:
            return {"exact": False}
        known = self._identity.observations.copy() if self._count else np.zeros(0)
        return {"exact": True, "observations": known, "states": self.states.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; the environment must know its states again."""
        if not state["exact"]:
            self.as_states()
            return
        self._identity, self._count = ExactIdentity(), 0
        if len(state["states"]):
            self._enter(self._identity.ids(state["observations"]), state["states"])
