"""Ways on a map: the cheapest way to a key, walks through way-points, and the nearest action never tried.

Here a key is what is seen at a place. Where keys are events, `keys.EventRoutes` knows the ways.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from lstoc_core.exploration.world_map import Links
from lstoc_core.trajectories.store import Bools

States = Sequence[int]
"""Keys as way-points: observation ids, or events."""


MOST_IDLE = 3
"""A walk ends if so many sets of way-points in a row lead nowhere: no way leads on from where it is."""


LAST = 1e9
"""Put off what ends a tour: more than any cost."""


@dataclass(frozen=True)
class Itinerary:
    """A walk on the map through way-points."""

    waypoints: tuple[int, ...]
    """Keys that the walk goes to, in order."""
    arrivals: tuple[int, ...]
    """When it reaches each of them."""
    places: tuple[int, ...]
    """Where it is at each time, its start first."""


@dataclass(frozen=True)
class Slips:
    """Steps that lead elsewhere than expected: at a rate, to a random other neighbour."""

    rate: float
    rng: np.random.Generator


class Routes:
    """Cheapest ways on a map. A step costs 1, plus the toll of the place that it enters."""

    def __init__(self, ids: NDArray[np.int32], links: Links, tolls: NDArray[np.float64]) -> None:
        self.ids, self.links = ids, links
        pairs = np.unique(np.stack([np.repeat(np.arange(len(ids)), links.shape[1]), links.ravel()], axis=1), axis=0)
        origin, target = pairs[(pairs[:, 1] >= 0) & (pairs[:, 0] != pairs[:, 1])].T
        self._graph = csr_array((1 + tolls[target], (origin, target)), shape=(len(ids), len(ids)))
        self._trees: dict[int, tuple[NDArray[np.float64], NDArray[np.int32]]] = {}
        self._ways: dict[tuple[int, int], tuple[int, ...]] = {}
        self._places = {int(state): np.flatnonzero(ids == state) for state in np.unique(ids)}

    def costs(self, place: int) -> NDArray[np.float64]:
        """Cost of the way from a place to each other, [places]; inf where there is none."""
        return self._tree(place)[0]

    def _tree(self, place: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        if place not in self._trees:
            self._trees[place] = dijkstra(self._graph, indices=place, return_predecessors=True)
        return self._trees[place]

    def way(self, place: int, state: int) -> tuple[int, ...]:
        """Places on the cheapest way to a visit of the state, without the first; empty if there is none."""
        if (place, state) not in self._ways:
            self._ways[place, state] = self._found_way(place, state)
        return self._ways[place, state]

    def _found_way(self, place: int, state: int) -> tuple[int, ...]:
        """The way to the nearest place that shows the state."""
        targets = self._places.get(state, np.zeros(0, np.intp))
        return self._path(place, int(targets[self.costs(place)[targets].argmin()])) if len(targets) else ()

    def _path(self, place: int, at: int) -> tuple[int, ...]:
        """Places on the way to another, without the first; empty if there is none."""
        costs, before = self._tree(place)
        way: list[int] = []
        if np.isfinite(costs[at]):
            while at != place:
                way.append(at)
                at = int(before[at])
        return tuple(reversed(way))

    def walk(
        self,
        place: int,
        waypoints: States,
        steps: int,
        more: Callable[[], States] | None = None,
        slips: Slips | None = None,
    ) -> Itinerary:
        """The walk through way-points; then through `more` of them, until so many steps are full.

        slips: the walk slips now and then, and goes on to the same way-point from where it has come to.
        """
        places, reached, arrivals = [place], [], []
        idle = 0
        while True:
            before = len(places)
            for state in waypoints:
                way = self.way(places[-1], state)
                if way and slips is not None:
                    way = self._slippery(places[-1], state, slips, steps)
                if way:
                    places.extend(way)
                    reached.append(state)
                    arrivals.append(len(places) - 1)
                if len(places) > steps:
                    return Itinerary(tuple(reached), tuple(arrivals), tuple(places[: steps + 1]))
            idle = idle + 1 if len(places) == before else 0
            if more is None or idle > MOST_IDLE:
                return Itinerary(tuple(reached), tuple(arrivals), tuple(places))
            waypoints = more()

    def _slippery(self, place: int, state: int, slips: Slips, steps: int) -> tuple[int, ...]:
        """A way to the state, with slips, or as much of it as so many steps allow."""
        places: list[int] = [place]
        while (way := self.way(places[-1], state)) and len(places) <= steps:
            firm = int(slips.rng.geometric(slips.rate)) - 1
            places.extend(way[:firm])
            if firm >= len(way):
                break
            others = [each for each in self.links[places[-1]].tolist() if each not in (-1, way[firm])]
            places.append(others[int(slips.rng.integers(len(others)))] if others else way[firm])
        return tuple(places[1:])

    def action(self, place: int, following: int) -> int:
        """The action that leads from a place to a neighbour."""
        return int(np.flatnonzero(self.links[place] == following)[0])

    def tour(self, place: int, steps: int, haste: float, rng: np.random.Generator) -> list[int]:
        """Way-points of a tour of all states in random order; nearer ones come sooner, the more haste the likelier.

        States that no way leads on from come last: there the tour ends.
        """
        missing = dict.fromkeys(self._targets())
        waypoints: list[int] = []
        while missing and steps > 0:
            states = list(missing)
            costs, ends = self._reach(place, states)
            draws = rng.gumbel(size=len(states)) - haste * costs - np.where(ends, LAST, 0.0)
            state = states[int(draws.argmax())]
            way = self.way(place, state)
            missing.pop(state)
            if not way:
                continue
            for passed in self._passed(place, way):
                missing.pop(passed, None)
            waypoints.append(state)
            steps -= len(way)
            place = way[-1]
        return waypoints

    @cached_property
    def _stuck(self) -> Bools:
        """Whether no way leads on from each place."""
        stuck: Bools = self.links.max(axis=1) < 0
        return stuck

    def _targets(self) -> list[int]:
        """Everything that a tour visits."""
        return list(self._places)

    def _reach(self, place: int, states: States) -> tuple[NDArray[np.float64], Bools]:
        """The cost of the way to each, and whether no way leads on from there."""
        places = [self._places[state][0] for state in states]
        return self.costs(place)[places], self._stuck[places]

    def _passed(self, place: int, way: Sequence[int]) -> list[int]:
        """What is visited on a way from a place."""
        return [int(self.ids[passed]) for passed in way]


def nearest_gap(
    links: Links, place: int, worth: NDArray[np.float64], shunned: Collection[int] = ()
) -> tuple[int, ...] | None:
    """Actions that lead to the nearest action never tried, which is the last; None if there is none within reach.

    worth: [places, actions]; of several untried actions the one worth most is chosen, those below 0 are left out.
    shunned: places that the way must not enter.
    """
    worth = np.where(links < 0, worth, -1)
    best = worth.argmax(axis=1)
    wanted = worth.max(axis=1) >= 0
    ways: dict[int, tuple[int, int]] = {}
    open_, seen = deque([place]), {place, *shunned}
    while open_:
        here = open_.popleft()
        if wanted[here]:
            actions = [int(best[here])]
            while here != place:
                here, action = ways[here]
                actions.append(action)
            return tuple(reversed(actions))
        for action, following in enumerate(links[here].tolist()):
            if following >= 0 and following not in seen:
                seen.add(following)
                ways[following] = here, action
                open_.append(following)
    return None
