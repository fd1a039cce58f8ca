"""What the planner has seen of the world: its episodes, in ids of the environment and of the map, and the map."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.exploration.keys import OBSERVATIONS, EventKeys, Keys
from lstoc_core.exploration.map_ids import MapIds
from lstoc_core.exploration.routes import Routes
from lstoc_core.exploration.world_map import WorldMap
from lstoc_core.trajectories.matching import ending_states
from lstoc_core.trajectories.recorder import EpisodeRecorder, Ids
from lstoc_core.trajectories.store import Bools
from lstoc_core.trajectories.vector_env import IdVectorEnv, vocabulary_of

FIRST_JUDGED = 250
"""Steps after which exact observations are first judged: whether they recur."""
MOST_NOVEL = 0.5
"""Most of the last steps that may lead to ids never seen before."""
MOST_WRONG = 0.25
"""Most of the last predictions of a map that may be wrong."""
NO_ENDS = -1, np.zeros(0, np.int64)
"""Of no episode (see `Survey.ends`)."""


class Survey:
    """Steps in an environment, recorded and mapped."""

    def __init__(self, env: IdVectorEnv) -> None:
        self._env = env
        self.map, self.map_ids = WorldMap(env.num_envs, env.num_actions), MapIds(env)
        vocabulary = vocabulary_of(env)
        self.keys: Keys = OBSERVATIONS if vocabulary is None else EventKeys(vocabulary, self.map_ids)
        """What key states are."""
        self.recorder = EpisodeRecorder(env.num_envs)
        self.walked = EpisodeRecorder(env.num_envs) if self.map_ids.exact else self.recorder
        """The same episodes in ids of the map."""
        self._judged_at = FIRST_JUDGED
        """Steps after which exact observations are judged again."""
        self._routes: Routes | None = None
        self._ends_after = NO_ENDS
        """Number of episodes, and the ids on which they end."""
        self.begin()

    def begin(self) -> None:
        """Begin an episode in every environment."""
        ids, info = self._env.reset()
        self.recorder.begin(ids)
        seen = self.map_ids.of(ids, info.get("seen"))
        self.walked.begin(seen)
        self.map.begin(seen)

    def step(self, actions: Ids) -> tuple[Ids, Bools, Bools]:
        """One step of every environment: ids of the map before any restart, whether episodes ended, their labels."""
        ids, _, terminated, truncated, info = self._env.step(actions)
        done, final_ids, success = terminated | truncated, info["final_obs"], info["success"]
        self.recorder.step(final_ids, done, success, ids)
        final_ids = self.map_ids.of(final_ids, info.get("final_seen"))
        ids = self.map_ids.of(ids, info.get("seen"))
        self.map.step(actions, final_ids, done, ids)
        if self.walked is not self.recorder:
            self.walked.step(final_ids, done, success, ids)
        return final_ids, done, success

    @property
    def reads_states(self) -> bool:
        """Whether the map is one of sets of features."""
        return self.keys.reading is not None and not self.map_ids.exact

    def judged(self, steps: int) -> bool:
        """Whether ids of the map have changed: exact observations do not recur, and a map of sets of features predicts.

        steps: taken so far.
        """
        if not self.map_ids.exact or steps < self._judged_at:
            return False
        self._judged_at = 2 * steps
        if self.map.novelty <= MOST_NOVEL:
            return False
        other = self.map.renamed(self.map_ids.states)
        if other.novelty > MOST_NOVEL or other.blind_rate > MOST_WRONG:
            return False
        self.map, self.walked, self._routes, self._ends_after = other, self.recorder, None, NO_ENDS
        self.map_ids.as_states()
        return True

    def refresh(self) -> None:
        """Bring places and ways up to date."""
        if self.map.refresh():
            self._routes = None

    @property
    def routes(self) -> Routes:
        """Shortest ways on the map as of the last `refresh`."""
        if self._routes is None:
            self._routes = self.keys.routes(self.map.ids, self.map.links, np.zeros(len(self.map.ids)))
        return self._routes

    def ends(self) -> NDArray[np.int64]:
        """Ids of the map on which episodes end."""
        count = len(self.recorder.store)
        if self._ends_after[0] != count:  # only an episode that ends can add one
            self._ends_after = count, ending_states(self.walked.store)
        return self._ends_after[1]

    # --- state ---

    def state_dict(self) -> dict[str, Any]:
        """All of it as arrays and plain values."""
        state = {
            "episodes": self.recorder.state_dict(),
            "map": self.map.state_dict(),
            "map_ids": self.map_ids.state_dict(),
            "judged_at": self._judged_at,
        }
        return state if self.walked is self.recorder else {**state, "walked": self.walked.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; the environment's comes first."""
        self.recorder.load_state_dict(state["episodes"])
        self.map_ids.load_state_dict(state["map_ids"])
        self.walked = EpisodeRecorder(self._env.num_envs) if "walked" in state else self.recorder
        if "walked" in state:
            self.walked.load_state_dict(state["walked"])
        self.map.load_state_dict(state["map"])
        self._judged_at, self._routes, self._ends_after = int(state["judged_at"]), None, NO_ENDS
