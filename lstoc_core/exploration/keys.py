"""What a key state is on a map: what is seen at a place, or an event, which begins on a step between two places.

The map, its way-points and the walks of plans are in ids of the map (`map_ids`). The planner asks here which keys a
walk visits, which ways lead to a key, and where on the map a key is visited.
"""

import itertools
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lstoc_core.exploration.map_ids import MapIds
from lstoc_core.exploration.outcomes import Visits
from lstoc_core.exploration.routes import Routes
from lstoc_core.exploration.world_map import Links
from lstoc_core.trajectories.events import EventReading, Vocabulary
from lstoc_core.trajectories.matching import KeyPath, visited_part
from lstoc_core.trajectories.store import Bools, Integers, TrajectoryStore, ranges

LAST_SUCCESSES = 50
"""Of so many, what they have in common is looked for."""


class Keys(Protocol):
    """The keys of a map's ids."""

    reading: EventReading | None
    """How trajectories are read; None: keys are observation ids."""
    few: bool
    """Whether there are fewer keys than places, so that a tour of all keys is short."""

    def known(self, seen: Collection[int]) -> NDArray[np.int64]:
        """All keys so far, sorted. seen: the ids on the map."""
        ...

    def size(self, *given: ArrayLike) -> int:
        """One more than the largest key. given: ids and keys, of which there may be none."""
        ...

    def visits(self, walks: ArrayLike, num_keys: int) -> Visits:
        """The visits of walks of ids [..., T + 1], the start first; -1 pads at the end."""
        ...

    def part(self, path: KeyPath, walk: Sequence[int]) -> int:
        """How many keys of a path, from its beginning on, a walk of ids visits in order; its start is no visit."""
        ...

    def of(self, store: TrajectoryStore, episode: int) -> NDArray[np.int32]:
        """The keys of one trajectory, in order."""
        ...

    def common(self, store: TrajectoryStore, ids: Integers, links: Links) -> tuple[int, ...]:
        """Events that begin on the map, and that none of the last successes has omitted: the world may force them."""
        ...

    def begun(self, before: Integers | None, after: Integers, keys: Sequence[int]) -> Bools:
        """Which of the keys each step visits, [..., keys]. before: None for first steps of episodes."""
        ...

    def visited_at(self, ids: Integers, links: Links, keys: ArrayLike) -> Bools:
        """Whether a step into each place visits one of the keys, [places]."""
        ...

    def routes(self, ids: NDArray[np.int32], links: Links, tolls: NDArray[np.float64]) -> Routes:
        """Ways on a map to its keys."""
        ...


class ObservationKeys:
    """A key is an id: it is visited where it is seen."""

    reading: EventReading | None = None
    few = False

    def known(self, seen: Collection[int]) -> NDArray[np.int64]:
        return np.array(sorted(seen))

    def size(self, *given: ArrayLike) -> int:
        return max(int(np.max(each, initial=0)) for each in given) + 1

    def visits(self, walks: ArrayLike, num_keys: int) -> Visits:
        return Visits.of(walks, num_keys)

    def part(self, path: KeyPath, walk: Sequence[int]) -> int:
        return visited_part(path, walk[1:])

    def of(self, store: TrajectoryStore, episode: int) -> NDArray[np.int32]:
        return store.trajectory(episode)

    def common(self, store: TrajectoryStore, ids: Integers, links: Links) -> tuple[int, ...]:
        return ()

    def begun(self, before: Integers | None, after: Integers, keys: Sequence[int]) -> Bools:
        found: Bools = after[..., None] == np.asarray(keys)
        return found

    def visited_at(self, ids: Integers, links: Links, keys: ArrayLike) -> Bools:
        return np.isin(ids, keys)

    def routes(self, ids: NDArray[np.int32], links: Links, tolls: NDArray[np.float64]) -> Routes:
        return Routes(ids, links, tolls)


OBSERVATIONS = ObservationKeys()


class EventKeys:
    """A key is an event, visited on a step in which its feature begins to hold.

    ids: what the map is made of, and the state of each of its ids.
    """

    few = True

    def __init__(self, vocabulary: Vocabulary, ids: MapIds) -> None:
        self.reading: EventReading | None = EventReading(vocabulary)
        self._read, self._vocabulary, self._ids = self.reading, vocabulary, ids
        self._known: dict[tuple[int, int], tuple[int, ...]] = {}
        """The events of each step from one state to another."""

    def known(self, seen: Collection[int]) -> NDArray[np.int64]:
        return np.arange(1, self._vocabulary.num_events)

    def size(self, *given: ArrayLike) -> int:
        return self._vocabulary.num_events

    def visits(self, walks: ArrayLike, num_keys: int) -> Visits:
        ids = np.atleast_2d(np.asarray(walks, np.int64))
        before, after = ids[:, :-1], ids[:, 1:]
        walk, time = np.nonzero(after >= 0)
        first = time == 0
        index, key = self.steps(np.where(first, -1, before[walk, time]), after[walk, time])
        given = {"walks": len(ids), "last": ids.shape[1] - 1, "num_keys": num_keys}
        found = Visits.of_steps(walk[index], time[index] + 1, key, **given)
        return found if np.ndim(walks) == 2 else found[0]

    def part(self, path: KeyPath, walk: Sequence[int]) -> int:
        ids = np.asarray(walk, np.int64)
        step, key = self.steps(np.append(-1, ids[1:-1])[: len(ids) - 1], ids[1:])
        length = 0
        for now in np.unique(step):
            length += length < len(path) and path[length] in key[step == now]
        return length

    def of(self, store: TrajectoryStore, episode: int) -> NDArray[np.int32]:
        return self._read(store).trajectory(episode)

    def common(self, store: TrajectoryStore, ids: Integers, links: Links) -> tuple[int, ...]:
        last = store.positives[-LAST_SUCCESSES:].tolist()
        found = set(self.entries(ids, links)[2].tolist()) if last else set()
        return tuple(sorted(found.intersection(*(self.of(store, success).tolist() for success in last))))

    def begun(self, before: Integers | None, after: Integers, keys: Sequence[int]) -> Bools:
        found = np.zeros((after.size, len(keys)), np.bool_)
        flat = np.full(after.size, -1) if before is None else np.broadcast_to(before, after.shape).ravel()
        step, key = self.steps(flat, after.ravel())
        for column, wanted in enumerate(keys):
            found[step[key == wanted], column] = True
        return found.reshape(*after.shape, len(keys))

    def visited_at(self, ids: Integers, links: Links, keys: ArrayLike) -> Bools:
        _, target, key = self.entries(ids, links)
        found = np.zeros(len(ids), np.bool_)
        found[target[np.isin(key, keys)]] = True
        return found

    def routes(self, ids: NDArray[np.int32], links: Links, tolls: NDArray[np.float64]) -> Routes:
        return EventRoutes(ids, links, tolls, self)

    def entries(self, ids: Integers, links: Links) -> tuple[Integers, Integers, Integers]:
        """The steps of a map that begin events: from which place, to which, and the event; sorted by event."""
        origin, action = np.nonzero(links >= 0)
        target = links[origin, action]
        index, key = self.steps(ids[origin], ids[target])
        order = np.argsort(key, kind="stable")
        return origin[index][order], target[index][order], key[order]

    def steps(self, before: Integers, after: Integers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The events of steps between ids: the number of the step, and the event. before: -1 in first steps."""
        states = self._ids.states
        one, two = np.where(before >= 0, states[before], -1), states[after]
        pairs, which = np.unique((one + 1) * len(states) + two, return_inverse=True)
        events = [self._begun(pair // len(states) - 1, pair % len(states)) for pair in pairs.tolist()]
        counts = np.array([len(each) for each in events], np.int64)
        flat = np.array([event for each in events for event in each], np.int64)
        ends = np.cumsum(counts)
        length, end = counts[which], ends[which]
        return np.repeat(np.arange(len(which)), length), flat[ranges(end - length, end)]

    def _begun(self, before: int, state: int) -> tuple[int, ...]:
        pair = before, state
        if pair not in self._known:
            self._known[pair] = self._vocabulary.begun(before, state)
        return self._known[pair]


class EventRoutes(Routes):
    """Cheapest ways on a map to the steps that begin events."""

    def __init__(self, ids: NDArray[np.int32], links: Links, tolls: NDArray[np.float64], events: EventKeys) -> None:
        super().__init__(ids, links, tolls)
        self._tolls, self._events = tolls, events

    @cached_property
    def _entries(self) -> tuple[Integers, Integers, dict[int, slice]]:
        """Steps that begin events, from and to which place; and which of them begin each event."""
        origin, target, key = self._events.entries(self.ids, self.links)
        events, first = np.unique(key, return_index=True)
        bounds = itertools.pairwise([*first.tolist(), len(key)])
        return origin, target, {event: slice(*pair) for event, pair in zip(events.tolist(), bounds, strict=True)}

    def _found_way(self, place: int, key: int) -> tuple[int, ...]:
        origin, target, of = self._entries
        if key not in of:
            return ()
        costs = self.costs(place)[origin[of[key]]] + self._tolls[target[of[key]]]
        best = of[key].start + int(costs.argmin())
        if not np.isfinite(costs.min()):
            return ()
        return (*self._path(place, int(origin[best])), int(target[best]))

    def _targets(self) -> list[int]:
        return list(self._entries[2])

    def _reach(self, place: int, keys: Sequence[int]) -> tuple[NDArray[np.float64], Bools]:
        origin, target, of = self._entries
        costs, stuck = 1 + self.costs(place)[origin] + self._tolls[target], self._stuck[target]
        return np.array([costs[of[key]].min() for key in keys]), np.array([stuck[of[key]].all() for key in keys])

    def _passed(self, place: int, way: Sequence[int]) -> list[int]:
        walk = self.ids[[place, *way]]
        passed: list[int] = self._events.steps(walk[:-1], walk[1:])[1].tolist()
        return passed
