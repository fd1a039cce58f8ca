"""Observations that may look like several places: told by what comes before and after them.

Who comes to a place from one neighbour can leave by another one. So the neighbours of an observation fall into groups:
two are in one group if an episode has passed from one to the other. Two groups are two places, or a place that was not
passed often enough.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from lstoc_core.trajectories.store import TrajectoryStore

MOST_PASSAGES = 20_000
"""Passages of an observation that are looked at."""
MOST_PARTS = 5
"""Most sides, or places of a map, that are dealt to two places."""


@dataclass(frozen=True)
class Side:
    """Neighbours of an observation that belong to one place."""

    neighbours: frozenset[int]
    passages: int
    """How often an episode was there on the way from one of them to one of them."""


def sides(store: TrajectoryStore, state: int) -> list[Side]:
    """The neighbours of an observation in groups, the most passed one first."""
    visits = _Visits.of(store, state)
    before, behind = visits.before[:MOST_PASSAGES], visits.behind[:MOST_PASSAGES]
    group: dict[int, int] = {}
    passages: dict[int, int] = {}
    for one, two in zip(before.tolist(), behind.tolist(), strict=True):
        # it stayed, or moved to a place that looks the same; or the episode began or ended there
        known = [neighbour for neighbour in (one, two) if neighbour not in (state, -1)]
        roots = [group.setdefault(neighbour, neighbour) for neighbour in known]
        for root in roots:
            passages.setdefault(root, 0)
        if len(roots) == 2:
            passages[roots[0]] += 1
            if roots[0] != roots[1]:
                group = {neighbour: roots[0] if root == roots[1] else root for neighbour, root in group.items()}
                passages[roots[0]] += passages.pop(roots[1])
    found = [
        Side(frozenset(neighbour for neighbour, own in group.items() if own == root), count)
        for root, count in passages.items()
    ]
    return sorted(found, key=lambda side: -side.passages)


def told_apart(
    store: TrajectoryStore, state: int, places: TrajectoryStore | None = None
) -> Iterator[tuple[TrajectoryStore, set[int], set[int]]]:
    """The trajectories with the observation as two places, in each way to deal what is known of them to two.

    With them, the neighbours of either place; the second one has the id `num_ids`. places: the same trajectories as
    places instead of observations, where a map tells them; else, and where it knows only one, the sides count.
    """
    visits = _Visits.of(store, state)
    at = visits.at
    parts: list[NDArray[np.bool_]] = []
    if places is not None:
        parts = [places.ids[at] == place for place in np.unique(places.ids[at])]
    if len(parts) < 2:
        parts = [visits.beside(side.neighbours) for side in sides(store, state)]
    parts = [part for part in parts if part.any()]
    if not 1 < len(parts) <= MOST_PARTS:
        return
    parts.sort(key=lambda part: -int(part.sum()))
    for other in product((False, True), repeat=len(parts) - 1):
        if any(other):
            second = np.any([part for part, there in zip(parts[1:], other, strict=True) if there], axis=0)
            yield _renamed(store, at[second]), visits.around(~second), visits.around(second)


def _renamed(store: TrajectoryStore, at: NDArray[np.int64]) -> TrajectoryStore:
    """The trajectories with another id at these flat positions, `num_ids`."""
    ids = store.ids.copy()
    ids[at] = store.num_ids
    renamed = TrajectoryStore()
    renamed.append_flat(ids, store.lengths, store.labels)
    return renamed


@dataclass(frozen=True)
class _Visits:
    """Where an observation occurs, [n], and what came before and after it."""

    state: int
    at: NDArray[np.int64]
    """Flat positions."""
    before: NDArray[np.int32]
    """The observation before; -1 where the episode begins."""
    behind: NDArray[np.int32]
    """The observation after; -1 where the episode ends."""

    @classmethod
    def of(cls, store: TrajectoryStore, state: int) -> "_Visits":
        at = store.occurrences(state)
        owner = np.searchsorted(store.offsets, at, side="right") - 1
        padded = np.pad(store.ids, 1, constant_values=-1)
        before = np.where(at > store.offsets[owner], padded[at], -1)
        behind = np.where(at < store.offsets[owner + 1] - 1, padded[at + 2], -1)
        return cls(state, at, before, behind)

    def beside(self, neighbours: frozenset[int]) -> NDArray[np.bool_]:
        """Which of them are reached from these neighbours; or left to them, at the start of an episode."""
        side = np.array(sorted(neighbours))
        there: NDArray[np.bool_] = np.isin(self.before, side) | ((self.before == -1) & np.isin(self.behind, side))
        for index in np.flatnonzero(self.before == self.state):  # it stayed: the place is that of the step before
            there[index] = there[index - 1]
        return there

    def around(self, chosen: NDArray[np.bool_]) -> set[int]:
        """The neighbours of those chosen."""
        return {*self.before[chosen].tolist(), *self.behind[chosen].tolist()} - {self.state, -1}
