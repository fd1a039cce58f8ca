"""Plans: walks whose outcome is most uncertain under the beliefs.

The outcome of an episode is the time of its success, or none. A plan is a walk on the map. What it is expected to tell
is the entropy of its predicted outcome over the beliefs, in bits. Candidates are tours of all states; walks through the
keys of several assignments at once, word by word; and parts of past successes. The best are varied and judged again.

Where steps depend on chance, a plan is judged by several walks through its way-points that slip as the world does.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.config import PlannerConfig
from lstoc_core.exploration.keys import OBSERVATIONS, Keys
from lstoc_core.exploration.outcomes import Assignments, Words
from lstoc_core.exploration.routes import Itinerary, Routes, Slips, States
from lstoc_core.exploration.world_map import Links

TOLL = 6.0
"""Steps of detour that a way takes to avoid a state with a toll."""
TOLLS = 3
"""Sets of states with a toll, drawn for each search."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """A plan and what the beliefs say about it."""

    itinerary: Itinerary
    bits: float
    """Expected information."""
    success: float
    """Predicted probability of success."""


def information(
    outcomes: NDArray[np.integer[Any]], weights: NDArray[np.float64], groups: NDArray[np.integer[Any]] | None = None
) -> float:
    """Entropy of the outcome in bits, given the group that an assignment belongs to (None: all in one)."""
    if groups is None:
        return _entropy(np.bincount(outcomes, weights))
    joint = np.unique(groups.astype(np.int64) * (int(outcomes.max(initial=0)) + 1) + outcomes, return_inverse=True)[1]
    return _entropy(np.bincount(joint, weights)) - _entropy(np.bincount(groups, weights))


def _entropy(masses: NDArray[Any]) -> float:
    shares = masses[masses > 0] / masses.sum()
    return float(-(shares * np.log2(shares)).sum())


@dataclass(frozen=True, eq=False)
class Outset:
    """What a search for a plan starts from."""

    ids: NDArray[np.int32]
    links: Links
    place: int
    """Where the walk starts."""
    steps: int
    """Its most steps."""
    successes: Sequence[NDArray[np.int32]] = ()
    """Keys of past successes."""
    past: Sequence[int] = ()
    """Ids that the episode has visited before it came to the place."""
    keys: Keys = OBSERVATIONS
    """What key states are."""
    slip: float = 0.0
    """Fraction of steps that lead elsewhere than the map expects."""

    def open(self, assignments: Assignments, words: Words, prompt: bool) -> NDArray[np.intp]:
        """Numbers of the assignments that the episode under way leaves open.

        prompt: episodes end on success, so it refutes those under which it would have succeeded already.
        """
        if not self.past or not prompt:
            return np.arange(len(assignments))
        walk = [*self.past, int(self.ids[self.place])]
        visits = self.keys.visits(walk, self.keys.size(walk, assignments))
        return np.flatnonzero(words.success_times(visits, assignments) == visits.never)


@dataclass(frozen=True, eq=False)
class Judges:
    """Assignments that judge plans."""

    assignments: Assignments
    weights: NDArray[np.float64]
    """[K]; only their ratios count."""
    groups: NDArray[np.integer[Any]] | None = None
    """[K]: outcomes of episodes under way; what those will tell counts no more."""


class PlanSearch:
    """Search for the plan that tells most.

    makers: assignments that plans are made from. prompt: an episode tells when it succeeded, because it ends there;
    else only whether.
    """

    def __init__(
        self,
        outset: Outset,
        words: Words,
        config: PlannerConfig,
        makers: Assignments,
        judges: Judges,
        *,
        rng: np.random.Generator,
        prompt: bool = True,
    ) -> None:
        self.outset, self.words, self.config, self.rng, self.prompt = outset, words, config, rng, prompt
        self.makers, self.judges = makers, judges
        self.routes = list(self._drawn_routes())
        self.num_ids = outset.keys.size(outset.ids, judges.assignments, outset.past)

    def best(self) -> Judgement:
        """The best plan found."""
        config = self.config
        found = self.judged(self._candidates())
        for _ in range(config.rounds):
            found = sorted(found, key=lambda each: -each.bits)[: config.best]
            found += self.judged([self._varied(found) for _ in range(config.variations)])
        best = max(found, key=lambda each: each.bits)
        if self.outset.slip:  # the luckiest of many: judge it again
            best = self.judged([best.itinerary], repeats=config.rejudged)[0]
        return best

    def judged(
        self, itineraries: Sequence[Itinerary], judges: Judges | None = None, *, repeats: int | None = None
    ) -> list[Judgement]:
        """What the judges say about each plan; None: the search's own.

        repeats: walks of each plan where steps slip; None: as in the settings.
        """
        judges = judges or self.judges
        repeats = (self.config.slipped if repeats is None else repeats) if self.outset.slip else 1
        walks = [walk for each in itineraries for walk in self._walks(each, repeats)]
        past, steps = len(self.outset.past), max(map(len, walks))
        table = np.full((len(walks), past + steps), -1, np.int64)
        table[:, :past] = self.outset.past
        for row, walk in zip(table, walks, strict=True):
            row[past : past + len(walk)] = self.outset.ids[list(walk)]
        visits = self.outset.keys.visits(table, self.num_ids)
        bits, success = np.zeros((2, len(walks)))
        for index in range(len(walks)):
            times = self.words.success_times(visits[index], judges.assignments)
            outcomes = times if self.prompt else (times < visits.never).astype(np.int64)
            bits[index] = information(outcomes, judges.weights, judges.groups)
            success[index] = judges.weights[times < visits.never].sum() / judges.weights.sum()
        means = zip(*(each.reshape(-1, repeats).mean(axis=1).tolist() for each in (bits, success)), strict=True)
        return [Judgement(each, *mean) for each, mean in zip(itineraries, means, strict=True)]

    def _walks(self, itinerary: Itinerary, repeats: int) -> list[tuple[int, ...]]:
        """Places of the walk of a plan; where steps slip, of several walks through its way-points."""
        outset, slips = self.outset, Slips(self.outset.slip, self.rng)
        if not outset.slip:
            return [itinerary.places]
        routes, given = self.routes[0], (outset.place, itinerary.waypoints, outset.steps)
        return [routes.walk(*given, slips=slips).places for _ in range(repeats)]

    def _drawn_routes(self) -> Iterator[Routes]:
        """Cheapest ways without tolls, and with tolls on a random half of the states that may be key states."""
        ids, links, keys = self.outset.ids, self.outset.links, self.outset.keys
        doubtful = keys.visited_at(ids, links, self.makers)
        for index in range(TOLLS + 1):
            tolls = 1e-3 * self.rng.random(len(ids))
            if index:
                tolls += TOLL * (doubtful & (self.rng.random(len(ids)) < 0.5))
            yield keys.routes(ids, links, tolls)

    def _candidates(self) -> list[Itinerary]:
        kinds = [self._tour, self._through_beliefs, self._through_beliefs, self._through_beliefs]
        if self.outset.successes:
            kinds.append(self._part_of_success)
        made = [kinds[index % len(kinds)] for index in range(self.config.candidates)]
        return [self._itinerary(make()) for make in made]

    def _itinerary(self, waypoints: States) -> Itinerary:
        routes = self.routes[self.rng.integers(len(self.routes))]
        more: Callable[[], States] = self._through_beliefs if len(self.makers) else self._tour
        return routes.walk(self.outset.place, waypoints, self.outset.steps, more)

    def _tour(self) -> States:
        haste = float(np.exp(self.rng.uniform(np.log(0.05), np.log(3.0))))
        return self.routes[0].tour(self.outset.place, self.outset.steps, haste, self.rng)

    def _through_beliefs(self) -> States:
        """The keys of several assignments, symbol by symbol of one word; those of one symbol nearest first."""
        if not len(self.makers):
            return self._tour()
        rng, routes = self.rng, self.routes[0]
        word = self.words.words[rng.integers(len(self.words.words))]
        together = self.makers[rng.integers(len(self.makers), size=2 ** rng.integers(6))]
        waypoints: list[int] = []
        place = self.outset.place
        for symbol in word:
            states = set(together[:, symbol].tolist())
            while states:
                ways = {state: routes.way(place, state) for state in sorted(states)}
                nearest = min(ways, key=lambda state: len(ways[state]))
                states.remove(nearest)
                waypoints.append(nearest)
                place = ways[nearest][-1] if ways[nearest] else place
        return waypoints

    def _part_of_success(self) -> States:
        """Some of the keys of a past success, in its order."""
        ids = self.outset.successes[int(self.rng.integers(len(self.outset.successes)))]
        count = min(len(ids), int(self.rng.integers(2, 12)))
        chosen = np.sort(self.rng.choice(len(ids), count, replace=False))
        return [*ids[chosen].tolist(), int(ids[-1])]

    def _varied(self, found: Sequence[Judgement]) -> Itinerary:
        """One of the plans with a part left out, moved, turned round, put in, or taken from another plan."""
        rng = self.rng
        waypoints = list(found[int(rng.integers(len(found)))].itinerary.waypoints)
        if not waypoints:
            return self._itinerary(self._through_beliefs())
        begin, end = np.sort(rng.integers(len(waypoints) + 1, size=2))
        if rng.random() < 0.5:  # small changes
            end = min(end, begin + int(rng.integers(1, 4)))
        part = waypoints[begin:end]
        rest = waypoints[:begin] + waypoints[end:]
        kind = rng.integers(5)
        at = int(rng.integers(len(rest) + 1))
        if kind == 0:
            waypoints = rest
        elif kind == 1:
            waypoints = rest[:at] + part + rest[at:]
        elif kind == 2:
            waypoints[begin:end] = part[::-1]
        elif kind == 3:
            waypoints[begin:begin] = self._through_beliefs()
        else:
            waypoints[begin:] = found[int(rng.integers(len(found)))].itinerary.waypoints[begin:]
        return self._itinerary(waypoints)
