"""Walks that test an answer: tours with one of its paths in them, mostly such that they should fail.

An answer whose assumptions do not hold is contradicted by some walk. So a walk goes round a key state of each path, and
visits as much else as it can before the rest of the path. Ways are drawn at random, for an assumption may fail on one
way and not on another that is as short.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lstoc_core.exploration.keys import Keys
from lstoc_core.exploration.routes import Itinerary, Routes
from lstoc_core.exploration.world_map import Links
from lstoc_core.trajectories.matching import KeyPath

DOUBTED = 2 / 3
"""Fraction of the walks that should fail."""


def to_shun(
    keys: Keys,
    ids: NDArray[np.int32],
    links: Links,
    paths: Sequence[KeyPath],
    common: Sequence[int],
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """Places of the map that a walk goes round: those of a key state of each path; or none.

    common: events that no success has omitted; a walk may go round one of them instead.
    """
    states = [int(rng.choice((*path, *common))) for path in paths] if rng.random() < DOUBTED else []
    return np.flatnonzero(keys.visited_at(ids, links, states))


def doubting_walk(
    keys: Keys,
    ids: NDArray[np.int32],
    links: Links,
    place: int,
    steps: int,
    paths: Sequence[KeyPath],
    shunned: NDArray[np.intp],
    *,
    rng: np.random.Generator,
) -> tuple[Routes, Itinerary]:
    """A walk of so many steps from a place that enters no shunned one, and the ways that it takes.

    Where keys are few, a tour of them is short: then walks that should fail go on with other tours until the end.
    """
    path = paths[int(rng.integers(len(paths)))]
    routes = keys.routes(ids, np.where(np.isin(links, shunned), -1, links), rng.random(len(ids)))
    tour = routes.tour(place, steps * 3 // 4 if len(shunned) else int(rng.integers(1, steps + 1)), 1.0, rng)
    first = len(tour) // 2 if len(shunned) else 0  # what a second place of a name, say, would add must come before
    cuts = [*sorted(rng.integers(first, len(tour) + 1, size=len(path)).tolist()), len(tour)]
    waypoints = tour[: cuts[0]]
    for state, begin, end in zip(path, cuts[:-1], cuts[1:], strict=True):
        waypoints += [state, *tour[begin:end]]
    more = partial(routes.tour, place, steps, 1.0, rng) if keys.few and len(shunned) else None
    return routes, routes.walk(place, waypoints, steps, more)
