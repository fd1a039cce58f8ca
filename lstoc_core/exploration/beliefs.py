"""Beliefs: the assignments of symbols to states, or events, that are consistent with every episode so far.

While they are few, all of them are held (*complete*). Otherwise a sample is held, drawn as follows. The assignments are
listed symbol by symbol; partial ones that a complete word already refutes are dropped. Where the list would grow too
long, each partial assignment is kept with the same probability. Every consistent assignment has one partial assignment
on each level, so all of them are equally likely to be held.

With label noise, an assignment may disagree with as many labels as chance explains, and weighs less for each.
"""

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.config import PlannerConfig
from lstoc_core.discovery.evidence import Evidence
from lstoc_core.exploration.outcomes import Assignments, Visits, Words
from lstoc_core.trajectories.events import NOTHING, EventReading
from lstoc_core.trajectories.store import TrajectoryStore

LEAST_SHARE = 0.3
"""Share of the consistent assignments that were drawn from which on an attempt is made to draw all."""
CACHED = 60_000_000
"""Most entries of tables of visits that are kept."""


class Beliefs:
    """Assignments consistent with a growing store of trajectories.

    noise, prompt: as in `GuidedConfig`. reading: how trajectories are read, where symbols are for events.
    """

    def __init__(
        self,
        words: Words,
        config: PlannerConfig | None = None,
        *,
        rng: np.random.Generator,
        noise: float = 0.0,
        prompt: bool = True,
        reading: EventReading | None = None,
    ) -> None:
        self.reading = reading
        self.words, self.config = words, config or PlannerConfig()
        self.noise, self.prompt, self._rng = noise, prompt, rng
        self.assignments: Assignments = np.zeros((0, len(words.symbols)), np.int32)
        self.errors = np.zeros(0, np.int64)
        """Labels with which each assignment disagrees."""
        self.complete = False
        """Whether all consistent assignments are held."""
        self.share = 0.0
        """Probability of a consistent assignment to be held."""
        self._states = np.zeros(0, np.int64)
        self._seen = 0
        self._visits: dict[int, Visits] = {}
        self._room = CACHED

    def __len__(self) -> int:
        return len(self.assignments)

    @property
    def num_ids(self) -> int:
        """One more than the largest observation id known."""
        return int(self._states.max(initial=0)) + 1

    @property
    def bits(self) -> float:
        """log2 of the number of consistent assignments, an estimate unless `complete`; -inf if there is none."""
        return float(np.log2(len(self) / self.share)) if len(self) else float("-inf")

    @property
    def weights(self) -> NDArray[np.float64]:
        """Probability of each assignment, [K]."""
        odds = self.noise / (1 - self.noise)
        weights: NDArray[np.float64] = odds ** (self.errors - self.errors.min(initial=0)).astype(float)
        weights /= weights.sum()
        return weights

    def draw(self, count: int) -> Assignments:
        """Assignments drawn from the beliefs."""
        chosen = self._rng.choice(len(self), count, p=self.weights if self.noise else None)
        return self.assignments[chosen]

    def update(self, store: TrajectoryStore, states: NDArray[np.int64]) -> None:
        """Take the trajectories into account that are new in the store. states: all keys that are known, sorted."""
        store = self._as_read(store)
        new = np.arange(self._seen, len(store))
        self._seen = len(store)
        if len(states) > len(self._states):
            self._states, self.complete = states, False
            self._visits.clear()
            self._room = CACHED
            self._draw_all(store)
        elif len(new):
            tolerated = self._tolerated(store)
            kept = self._consistent(store, new, self.assignments, self.words, True, self.errors, tolerated)
            self.assignments, self.errors = self.assignments[kept[0]], kept[1]
            if not self.complete and len(self) < self.config.few:
                self._draw_all(store)

    def left(self, store: TrajectoryStore) -> Assignments | None:
        """Those held that are consistent with a store that has grown since the last update. The beliefs do not change.

        None if nothing is held, or the store has states that the beliefs do not know: only an update can tell then.
        """
        store = self._as_read(store)
        new = np.arange(self._seen, len(store))
        known = self._states if self.reading is None else np.append(self._states, NOTHING)
        if not len(self) or self._seen > len(store) or not np.isin(store.select(new).ids, known).all():
            return None
        tolerated = self._tolerated(store)
        kept, _ = self._consistent(store, new, self.assignments, self.words, True, self.errors, tolerated)
        return self.assignments[kept]

    def redrawn(self, store: TrajectoryStore, rng: np.random.Generator) -> "Beliefs":
        """Other beliefs about the same episodes, drawn independently of these."""
        others = copy(self)
        others._rng = rng
        others._draw_all(self._as_read(store))
        self._room = others._room  # they share the tables of visits
        return others

    def _tolerated(self, store: TrajectoryStore) -> int:
        return Evidence(store, prompt=self.prompt, noise=self.noise).tolerated(len(store)) if self.noise else 0

    def _draw_all(self, store: TrajectoryStore) -> None:
        """Draw the consistent assignments, all or a sample; where a little more room is enough for all, all."""
        self._draw(store, self.config.rows)
        if LEAST_SHARE <= self.share < 1 and len(self) < self.config.few:
            self._draw(store, int(1.2 * self.config.rows / self.share))

    def _draw(self, store: TrajectoryStore, room: int) -> None:
        """Draw assignments. room: most that are tried at a time."""
        labels, lengths = store.labels, store.lengths
        order = np.lexsort((-np.arange(len(store)), lengths * labels, ~labels))  # short successes first
        tolerated, rng, config = self._tolerated(store), self._rng, self.config
        assigned: list[int] = []
        rows: Assignments = np.zeros((1, len(self.words.symbols)), np.int32)
        errors = np.zeros(1, np.int64)
        self.share = 1.0
        for symbol in self._symbol_order():
            states = self._possible(store, symbol)
            most = max(1, room // max(1, len(states)))
            rows, errors = self._thinned(rows, errors, most)
            rows, errors = np.repeat(rows, len(states), axis=0), np.repeat(errors, len(states))
            rows[:, symbol] = np.tile(states, len(rows) // max(1, len(states)))
            distinct = (rows[:, assigned] != rows[:, [symbol]]).all(axis=1)
            rows, errors = rows[distinct], errors[distinct]
            assigned.append(symbol)
            whole = len(assigned) == len(self.words.symbols)
            words = self.words.over(assigned)
            if any(symbol in word for word in words.words):
                none = np.zeros(len(rows), np.int64)
                kept, errors = self._consistent(store, order, rows, words, whole, none, tolerated)
                rows = rows[kept]
        rows, errors = self._thinned(rows, errors, config.held)
        mixed = rng.permutation(len(rows))
        self.assignments, self.errors = rows[mixed], errors[mixed]
        self.complete = self.share == 1.0

    def _thinned(
        self, rows: Assignments, errors: NDArray[np.int64], most: int
    ) -> tuple[Assignments, NDArray[np.int64]]:
        """At most so many of the rows, each kept with the same probability."""
        if len(rows) <= most:
            return rows, errors
        self.share *= most / len(rows)
        kept = np.sort(self._rng.choice(len(rows), most, replace=False))
        return rows[kept], errors[kept]

    def _symbol_order(self) -> list[int]:
        """Symbols in the order in which they are assigned: short words first, each from its end."""
        words = sorted(self.words.words, key=lambda word: len(set(word)))
        order: list[int] = []
        while len(order) < len(self.words.symbols):
            word = min(words, key=lambda word: len(set(word) - set(order)) or 99)
            order += [symbol for symbol in dict.fromkeys(reversed(word)) if symbol not in order]
        return order

    def _possible(self, store: TrajectoryStore, symbol: int) -> NDArray[np.int64]:
        """States that a symbol may have: if every word ends on it, or has it, those that successes end on, or visit.

        Every success must do so, but for as many as may be labelled wrongly.
        """
        states, words, successes = self._states, self.words.words, store.positives
        ends = self.prompt and all(word[-1] == symbol for word in words)
        needed = len(successes) - self._tolerated(store)
        if not (ends or all(symbol in word for word in words)) or needed <= 0:
            return states
        visited = np.zeros(self.num_ids, np.int64)
        for success in successes.tolist():
            ids, times = store.trajectory(success), store.times(success)
            visited[ids[times == times[-1]] if ends else np.unique(ids[1:])] += 1
        return states[visited[states] >= needed]

    def _consistent(
        self,
        store: TrajectoryStore,
        episodes: NDArray[np.integer[Any]],
        rows: Assignments,
        words: Words,
        whole: bool,
        errors: NDArray[np.int64],
        tolerated: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which rows are consistent with the episodes, and their errors. whole: every word is given."""
        kept = np.arange(len(rows))
        for episode in episodes.tolist():
            if not len(kept):
                break
            visits = self._visits_of(store, episode)
            end, label = visits.never - 1, bool(store.labels[episode])
            times = words.success_times(visits, rows)
            wrong = (times == visits.never) & whole if label else times <= end
            alive = errors + wrong <= tolerated
            if self.prompt:
                alive &= times >= end
            if not alive.all():
                kept, rows = kept[alive], rows[alive]
            errors = (errors + wrong)[alive]
        return kept, errors

    def _visits_of(self, store: TrajectoryStore, episode: int) -> Visits:
        """The table of one episode; kept while there is room."""
        if episode not in self._visits:
            visits = self._table(store, episode)
            self._room -= visits.table.size
            if self._room < 0:
                self._room += visits.table.size
                return visits
            self._visits[episode] = visits
        return self._visits[episode]

    def _table(self, store: TrajectoryStore, episode: int) -> Visits:
        ids, times = store.trajectory(episode), store.times(episode)
        if self.reading is None:
            return Visits.of(ids, self.num_ids)
        given = {"walks": 1, "last": int(times[-1]), "num_keys": self.num_ids}
        return Visits.of_steps(np.zeros(len(ids) - 1), times[1:], ids[1:], **given)[0]

    def _as_read(self, store: TrajectoryStore) -> TrajectoryStore:
        return store if self.reading is None else self.reading(store)

    def state_dict(self) -> dict[str, Any]:
        """The beliefs as arrays and plain values."""
        return {
            "assignments": self.assignments,
            "errors": self.errors,
            "complete": self.complete,
            "share": self.share,
            "states": self._states,
            "seen": self._seen,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.assignments, self.errors = state["assignments"], state["errors"]
        self.complete, self.share = state["complete"], state["share"]
        self._states, self._seen = state["states"], state["seen"]
