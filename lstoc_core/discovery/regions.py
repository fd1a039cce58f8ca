"""Discovery in continuous observations: boxes that successes visit in order, sought again as episodes come ("boxes").

`BoxSearch` finds boxes in a sample of the episodes so far. A region that is no box is met at its edge, so some outcomes
stay wrong, and nothing can be proved. Instead every answer is put to the test: it is kept if it predicts the episodes
that come after it, and else sought again with them. Exploration follows the boxes, so that what is sampled gathers
where they are doubtful.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.discovery.boxes import Boxes, BoxSearch
from lstoc_core.discovery.method import Missing, Request
from lstoc_core.discovery.tree import SubgoalTree
from lstoc_core.logic.fsm import Word
from lstoc_core.trajectories.cells import CellIdentity
from lstoc_core.trajectories.events import EventReading
from lstoc_core.trajectories.matching import KeyPath
from lstoc_core.trajectories.store import TrajectoryStore

FEWEST = 20
"""Fewest successes for the first boxes."""
GROWTH = 1.25
"""Growth of the number of trajectories after which boxes are judged, and sought again if they are not good enough."""
TESTED = 100
"""Fewest successes, and predictions of one, by which boxes are judged."""
GOOD = 0.85
"""Least precision and recall of predicted successes, in the episodes since, for an answer."""
MOST_SUCCESSES, MOST_FAILURES = 400, 800
"""Most episodes in which boxes are sought."""
MOST_BOXES, GAIN = 4, 0.02
"""Without an FSM: most boxes, and the fraction of outcomes that each must add to those predicted."""
EPSILON = 0.2
"""ε while boxes are followed: their edges are found by who strays."""


class Regions:
    """Boxes over a growing set of trajectories of cells (a `DiscoveryMethod`).

    structure: the only minimal sequence of an FSM; its length is the number of boxes. None: as many as help to predict.
    seed: of the samples of episodes.
    """

    def __init__(self, cells: CellIdentity, structure: Word | None = None, *, seed: int = 0) -> None:
        self.cells, self.structure, self.seed = cells, structure, seed
        self.reading = EventReading(cells)
        self.boxes = Boxes((), 1.0)
        self.paths: tuple[KeyPath, ...] = ()
        self.finished = False
        self.missing = Missing.one("no success was seen")
        self.tested, self.precision, self.recall = 0, 0.0, 0.0
        """Episodes by which the boxes were judged, and how well they predicted their outcomes."""
        self._sought_at = 0
        """Number of trajectories when the boxes were sought."""

    @property
    def key_states(self) -> list[int]:
        return list(self.paths[0]) if self.paths else []

    @property
    def names(self) -> Mapping[str, int] | None:
        """Symbol -> event of its box."""
        if self.structure is None or not self.finished:
            return None
        return dict(zip(self.structure, self.key_states, strict=True))

    @property
    def tree(self) -> SubgoalTree:
        return SubgoalTree.from_sequences([tuple(range(len(path))) for path in self.paths])

    @property
    def request(self) -> Request:
        """Follow the boxes."""
        return Request(self.paths, epsilon=EPSILON if self.paths else None)

    @property
    def verdict(self) -> str:
        if not self.finished:
            return f"open: {self.missing}"
        return (
            f"unrefuted: of {self.tested} later episodes, the boxes predicted {self.recall:.0%} of the successes, and "
            f"{self.precision:.0%} of those they predicted were ones; nothing can prove the bounds of a region"
        )

    def advance(self, store: TrajectoryStore) -> Missing:
        """Judge the boxes by the episodes since, or seek them again in all; what is missing afterwards."""
        successes = int(store.labels.sum())
        if successes < FEWEST:
            self.missing = Missing.one(f"the first boxes wait for {FEWEST} successes, {successes} were seen")
            return self.missing
        if self.paths and len(store) < GROWTH * self._sought_at:
            return self.missing
        if self.paths and self._judged(store):
            self.finished, self.missing = True, Missing()
            return self.missing
        self._seek(store)
        until = int(np.ceil(GROWTH * self._sought_at))
        self.missing = Missing.one(
            f"{{}} predicted {self.recall:.0%} of the successes, with a precision of {self.precision:.0%}, where "
            f"{GOOD:.0%} are asked for; the next boxes are judged at {until} trajectories",
            *self.paths,
        )
        return self.missing

    def _judged(self, store: TrajectoryStore) -> bool:
        """Whether the boxes predict the episodes since well enough."""
        fresh = np.arange(self._sought_at, len(store))
        predicted, truth = self._visited(store, fresh), store.labels[fresh]
        both = int((predicted & truth).sum())
        self.tested = len(fresh)
        self.precision, self.recall = both / max(int(predicted.sum()), 1), both / max(int(truth.sum()), 1)
        few = min(int(predicted.sum()), int(truth.sum())) < TESTED
        wanted = len(self.structure) if self.structure is not None else 1
        return not few and min(self.precision, self.recall) >= GOOD and len(self.key_states) >= wanted

    def _visited(self, store: TrajectoryStore, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the trajectories visit the boxes in order."""
        states = [frozenset(self.cells.states_with(key).tolist()) for key in self.key_states]
        return np.array(
            [_in_order(store.trajectory(index)[1:].tolist(), states) for index in chosen.tolist()], np.bool_
        )

    def _seek(self, store: TrajectoryStore) -> None:
        rng = np.random.default_rng([self.seed, len(store)])
        chosen = np.concatenate(
            [
                _sample(np.flatnonzero(store.labels), MOST_SUCCESSES, rng),
                _sample(np.flatnonzero(~store.labels), MOST_FAILURES, rng),
            ]
        )
        episodes = [store.trajectory(index)[1:].astype(np.int64) for index in chosen.tolist()]
        search = BoxSearch(episodes, store.labels[chosen], self.cells.middles, self.cells.sides)
        told = self.structure is not None
        self.boxes = search.found(len(self.structure or ()) or MOST_BOXES, gain=0.0 if told else GAIN)
        self.paths = (self.cells.place(self.boxes.bounds),)
        self._sought_at = len(store)

    def refuted_by(self, store: TrajectoryStore) -> NDArray[np.int64] | None:
        """None: outcomes at the edge of a region contradict nothing."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """What the next `advance` depends on, in plain values."""
        return {
            "bounds": [[low.tolist(), high.tolist()] for low, high in self.boxes.bounds],
            "error": self.boxes.error,
            "first": self.key_states[0] if self.paths else None,
            "finished": self.finished,
            "missing": self.missing.to_json(),
            "judged": [self.tested, self.precision, self.recall],
            "sought_at": self._sought_at,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        bounds = tuple((np.array(low, float), np.array(high, float)) for low, high in state["bounds"])
        self.boxes = Boxes(bounds, state["error"])
        self.paths = (self.cells.place(bounds, state["first"]),) if bounds else ()
        self.finished, self.missing = state["finished"], Missing.from_json(state["missing"])
        self.tested, self.precision, self.recall = state["judged"]
        self._sought_at = state["sought_at"]


def _in_order(states: Sequence[int], boxes: Sequence[frozenset[int]]) -> bool:
    """Whether the states visit the boxes in order, one per step at most."""
    reached = 0
    for state in states:
        reached += reached < len(boxes) and state in boxes[reached]
    return reached == len(boxes)


def _sample(indices: NDArray[np.int64], most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """At most so many of the trajectories: half of them the last ones, the others at random."""
    if len(indices) <= most:
        return indices
    early, late = np.split(indices, [len(indices) - most // 2])
    return np.append(np.sort(rng.choice(early, most - most // 2, replace=False)), late)
