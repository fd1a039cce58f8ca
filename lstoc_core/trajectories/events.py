"""Events: a key state may be a feature of observations, such as "carries a key", instead of one observation.

    discover(env, events=lambda observation: ["key"] if observation[3] else [])
    discover(env, events=lstoc.tiles())

A function says which features hold in an observation. An *event* is a step in which a feature begins to hold; in the
first step of an episode, all that hold do so. A *state* is then the set of features that hold, so observations that
never repeat take no memory. Search, proof and rewards see a trajectory of states as one of events (`EventReading`).
Several events may happen in one step; then none of them comes before the other.
"""

from collections.abc import Callable, Hashable, Iterable, Set
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lstoc_core.trajectories.flat import FlatObservations
from lstoc_core.trajectories.identity import Table
from lstoc_core.trajectories.matching import entries
from lstoc_core.trajectories.store import TrajectoryStore, ranges

NameEvents = Callable[[Any], Iterable[Hashable]]
"""From an observation, as the environment gives it, to the names of the features that hold in it."""
BOXES = "boxes"
LEARNED = "learned"
Events = NameEvents | Literal["boxes", "learned"]
"""What `events=` takes: such a function, "boxes" (see `cells`), or "learned" (see `clusters`)."""
NOTHING = 0
"""The event that stands for none: where an episode starts, and on its last step if nothing begins there."""
CACHED_BYTES = 32_000_000
"""Most bytes of observations whose states are remembered."""
LASTING = 10
"""Fewest steps of an episode over which a feature is judged to last."""


@runtime_checkable
class Vocabulary(Protocol):
    """The features by number, and which of them hold in each state."""

    @property
    def num_events(self) -> int: ...

    def event_name(self, event: int) -> str: ...

    def begun(self, before: int, state: int) -> tuple[int, ...]:
        """Events of a step from one state to another, sorted; before: -1 in the first step of an episode."""
        ...

    def states_with(self, event: int) -> NDArray[np.int64]:
        """The states, so far, in which a feature holds."""
        ...


class EventIdentity:
    """An `Identity` and `Vocabulary`: a state is the set of features that hold in an observation.

    names_of: says which. flat: how the observations, given as arrays, were flattened.
    """

    def __init__(self, names_of: NameEvents, flat: FlatObservations) -> None:
        self._names_of, self._flat = names_of, flat
        self._names: list[Hashable] = ["nothing"]
        self._event: dict[Hashable, int] = {}
        self._states: dict[frozenset[int], int] = {}
        self._holding: list[frozenset[int]] = []
        self._table = Table()
        self._known: dict[bytes, int] = {}

    @property
    def observations(self) -> NDArray[Any]:
        """The first observation of each state so far, row by id (read-only)."""
        return self._table.rows

    def ids(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """State of each observation [n, *shape] -> [n]; new ones enter the table in order of appearance."""
        return np.array([self._state(row) for row in observations], np.int64)

    def _state(self, row: NDArray[Any]) -> int:
        raw = row.tobytes()
        state = self._known.get(raw)
        if state is None:
            features = frozenset(map(self._number, self._named(row)))
            state = self._states.setdefault(features, len(self._states))
            if state == len(self._holding):
                self._holding.append(features)
                self._table.append(row)
            if len(self._known) * len(raw) > CACHED_BYTES:
                self._known.clear()
            self._known[raw] = state
        return state

    def _named(self, row: NDArray[Any]) -> Iterable[Hashable]:
        names = self._names_of(self._flat.unflat(row))
        if isinstance(names, str | bytes) or not isinstance(names, Iterable):
            raise TypeError(f"events= gave {names!r}: give a list of the names of what holds, [] if nothing does")
        return sorted(names, key=str) if isinstance(names, Set) else names  # a set has another order in each process

    def _number(self, name: Hashable) -> int:
        if name not in self._event:
            self._event[name] = len(self._names)
            self._names.append(name)
        return self._event[name]

    def representation(self, count: int) -> None:
        """None: nothing is learned about the states."""

    @property
    def num_events(self) -> int:
        return len(self._names)

    def event_name(self, event: int) -> str:
        return str(self._names[event])

    def event_number(self, name: str) -> int:
        """The number of a feature by its name as text; one that was never seen gets a new one."""
        return next(
            (event for event in range(1, len(self._names)) if str(self._names[event]) == name), len(self._names)
        )

    def begun(self, before: int, state: int) -> tuple[int, ...]:
        held = self._holding[before] if before >= 0 else frozenset()
        return tuple(sorted(self._holding[state] - held))

    def states_with(self, event: int) -> NDArray[np.int64]:
        return np.array([state for state, features in enumerate(self._holding) if event in features], np.int64)


class EventReading:
    """Trajectories of states as trajectories of events: `NOTHING` at the start, then the events of each step, joined.

    A store that grows is read once: only what is new is translated.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._source: TrajectoryStore | None = None
        self._read = TrajectoryStore()

    def __call__(self, store: TrajectoryStore) -> TrajectoryStore:
        if store is not self._source or len(store) < len(self._read):
            self._source, self._read = store, TrajectoryStore()
        done = len(self._read)
        if len(store) > done:
            begin = store.offsets[done]
            self._append(store.ids[begin:], store.offsets[done:] - begin, store.labels[done:])
        return self._read

    def event_name(self, event: int) -> str:
        return self.vocabulary.event_name(event)

    def state_of(self, event: int) -> int:
        """A state in which the feature holds, the first one seen; 0 for `NOTHING`."""
        states = self.vocabulary.states_with(event)
        return int(states[0]) if len(states) else 0

    def lasting(self, event: int) -> float:
        """How long a feature holds in the successes of what was read last, from 0 to 1.

        It is the fraction of the steps since it first began in which it holds, as the mean over the successes in which
        it began. Failures do not count: they undo what successes keep. At least `LASTING` steps count in each, since
        what begins just before the end has no time to end.
        """
        store = self._successes()
        states = self.vocabulary.states_with(event)
        begun, owner = entries(store, states), np.repeat(np.arange(len(store)), store.lengths)
        first = store.offsets[1:].copy()
        np.minimum.at(first, owner[begun], begun)
        left = store.offsets[1:] - first
        holds = np.isin(store.ids, states) & (np.arange(store.size) >= first[owner])
        held = np.bincount(owner[holds], minlength=len(store)) / np.maximum(left, LASTING)
        return float(held[left > 0].mean()) if left.any() else 0.0

    def given(self, event: int) -> int:
        """The number of successes of what was read last at whose start a feature holds."""
        store = self._successes()
        return int(np.isin(store.ids[store.offsets[:-1]], self.vocabulary.states_with(event)).sum())

    def share(self, event: int) -> float:
        """Fraction of the steps of the successes of what was read last in which a feature holds."""
        store = self._successes()
        holds = np.isin(store.ids, self.vocabulary.states_with(event))
        return float(holds.mean()) if store.size else 0.0

    def _successes(self) -> TrajectoryStore:
        return TrajectoryStore() if self._source is None else self._source.select(self._source.positives)

    def _append(self, ids: NDArray[np.int32], offsets: NDArray[np.int64], labels: NDArray[np.bool_]) -> None:
        state = ids.astype(np.int64)
        before = np.append(-1, state[:-1])
        start = np.zeros(len(ids), np.bool_)
        start[offsets[:-1]] = True
        before[np.append(False, start[:-1])] = -1
        before[start] = -2
        pairs, which = np.unique((before + 2) * (state.max() + 1) + state, return_inverse=True)
        size = int(state.max()) + 1
        events = [
            self.vocabulary.begun(pair // size - 2, pair % size) if pair >= size else (NOTHING,)
            for pair in pairs.tolist()
        ]
        counts = np.array([len(each) for each in events], np.int64)
        flat = np.array([event for each in events for event in each] + [NOTHING], np.int64)
        first = np.cumsum(counts) - counts
        begin, length = first[which], counts[which]
        silent = np.zeros(len(ids), np.bool_)
        silent[offsets[1:] - 1] = True
        silent &= length == 0
        begin[silent], length[silent] = len(flat) - 1, 1
        read = flat[ranges(begin, begin + length)]
        joined = np.ones(len(read), np.bool_)
        joined[(np.cumsum(length) - length)[length > 0]] = False
        self._read.append_flat(read, np.add.reduceat(length, offsets[:-1]), labels, joined)


class Sight:
    """What a policy sees: the last observations, row by row, in a table of fixed size.

    A row that is given out stays as it is while half as many new observations come as the table has rows.
    """

    def __init__(self, rows: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.observations = np.zeros((rows, *shape), dtype)
        self._row: dict[bytes, int] = {}
        self._raw: list[bytes | None] = [None] * rows
        self._entered = np.zeros(rows, np.int64)
        self._count = 0

    def rows(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """The row of each observation [n, *shape] -> [n]."""
        return np.array([self._enter(each) for each in observations], np.int64)

    def _enter(self, observation: NDArray[Any]) -> int:
        raw = observation.tobytes()
        row = self._row.get(raw)
        if row is not None and self._count - self._entered[row] < len(self._raw) // 2:
            return row
        row = self._count % len(self._raw)
        old = self._raw[row]
        if old is not None and self._row.get(old) == row:
            del self._row[old]
        self.observations[row], self._raw[row], self._row[raw] = observation, raw, row
        self._entered[row] = self._count
        self._count += 1
        return row
