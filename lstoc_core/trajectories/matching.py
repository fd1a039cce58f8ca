"""Which trajectories visit a path in order, the part after it, and what lies between two visits.

Every function works on all trajectories of a store at once. Positions are flat: they count through all trajectories.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lstoc_core.trajectories.store import BLOCK, Bools, TrajectoryStore, ranges

KeyPath = tuple[int, ...]
"""Observation ids of key states, in the order in which they are visited: ξ of the paper."""

# --- conditioned on, the part after, explained by (Section "Learning Subgoals") ---


def earliest_match(store: TrajectoryStore, path: Sequence[int]) -> NDArray[np.int64]:
    """Per trajectory, the flat position at which its earliest visit of `path` in order ends, or -1.

    The empty path ends on the start observation. A trajectory is *conditioned on* a working node if it visits the
    node's path in order.
    """
    begin, end = store.offsets[:-1], store.offsets[1:]
    at, alive = begin.copy(), np.ones(len(store), np.bool_)
    for observation_id in path:
        places = np.append(store.occurrences(observation_id), store.size)
        found = places[np.searchsorted(places[:-1], store.last_of(at), side="right")]
        alive &= found < end
        at = np.where(alive, found, end - 1)
    return np.where(alive, at, -1)


def latest_match(store: TrajectoryStore, path: Sequence[int]) -> NDArray[np.int64]:
    """Per trajectory, the flat position at which its latest visit of `path` in order begins, or -1.

    The empty path begins one past the final observation.
    """
    begin, end = store.offsets[:-1], store.offsets[1:]
    at, alive = end.copy(), np.ones(len(store), np.bool_)
    for observation_id in reversed(path):
        places = np.append(-1, store.occurrences(observation_id))
        found = places[np.searchsorted(places[1:], store.first_of(at), side="left")]
        alive &= found > begin
        at = np.where(alive, found, begin)
    return np.where(alive, at, -1)


def contains(store: TrajectoryStore, path: Sequence[int]) -> Bools:
    """Which trajectories visit `path` in order (other visits in between are harmless)."""
    return earliest_match(store, path) >= 0


def ending_states(store: TrajectoryStore) -> NDArray[np.int64]:
    """States on which a trajectory has succeeded, or on which every visit has ended one before its time."""
    last = store.offsets[1:] - 1
    left = np.bincount(np.delete(store.ids, last), minlength=store.num_ids) > 0
    early = store.lengths < store.lengths.max(initial=0)
    ends: NDArray[np.int64] = np.unique(store.ids[last[store.labels | (early & ~left[store.ids[last]])]])
    return ends


def visited_part(path: Sequence[int], ids: Iterable[int]) -> int:
    """How many key states of a path, from its beginning on, one walk of ids visits in order."""
    length = 0
    for each in ids:
        length += length < len(path) and each == path[length]
    return length


def explained_by(store: TrajectoryStore, sequences: Iterable[Sequence[int]]) -> Bools:
    """Which trajectories contain at least one of the sequences."""
    explained = np.zeros(len(store), np.bool_)
    for sequence in sequences:
        explained |= contains(store, sequence)
    return explained


def after(store: TrajectoryStore, path: Sequence[int]) -> TrajectoryStore:
    """The trajectories conditioned on `path`, cut to the part after its earliest match.

    Each starts on the last element of the path (on its own start for the empty path), or on what is joined to it;
    visits come strictly after.
    """
    match = earliest_match(store, path)
    chosen = np.flatnonzero(match >= 0)
    if len(chosen) == 0:
        raise ValueError(f"no trajectory of {len(store)} visits the path {list(path)} in order; collect more")
    return store.cut(chosen, store.last_of(match[chosen]), store.offsets[1:][chosen])


# --- first occupancy (Section "Discovering Next Subgoal") ---


def first_occupancy(store: TrajectoryStore) -> TrajectoryStore:
    """FR of each trajectory: its start, then only the first visit of each id, in order of time."""
    begin = np.repeat(store.offsets[:-1], store.lengths)
    keep = store.previous <= begin  # -1: never before; begin: only as the start, which is not a visit
    return store.keep(keep)


def shortest_ways(
    store: TrajectoryStore, keys: Iterable[int], visits_of: Callable[[int], NDArray[np.int64]] | None = None
) -> dict[int, NDArray[np.float64]]:
    """For each key, the fewest steps from each observation to the next visit of the key: [num_ids], inf if none.

    visits_of: sorted flat positions of a key's visits; None: where the id itself occurs.
    Each way lies within one trajectory. Joining pieces of several would connect different places that look the same.
    """
    ends = np.repeat(store.offsets[1:], store.lengths)
    positions = np.arange(store.size)
    ways = {}
    for key in keys:
        visits = np.append((visits_of or store.occurrences)(key), store.size)
        following = visits[np.searchsorted(visits, positions, side="right")]
        comes = following < ends
        ways[key] = np.full(store.num_ids, np.inf)
        np.minimum.at(ways[key], store.ids[comes], (following - positions)[comes])
    return ways


def entries(store: TrajectoryStore, ids: ArrayLike) -> NDArray[np.int64]:
    """Sorted flat positions at which a trajectory enters a set of ids; on its first step, also if it starts there."""
    inside = np.isin(store.ids, np.asarray(ids))
    before = np.append(False, inside[:-1])
    begin = store.offsets[:-1]
    before[(begin + 1)[begin + 1 < store.size]] = False
    entered = inside & ~before
    entered[begin] = False
    return np.flatnonzero(entered)


def segment_counts(store: TrajectoryStore, start: ArrayLike, stop: ArrayLike, num_ids: int) -> NDArray[np.int64]:
    """For each id, in how many open segments start < k < stop of flat positions it occurs at least once: [num_ids].

    A segment lies within one trajectory; empty ones (stop <= start + 1) count nothing. Cost: the total length.
    """
    start, stop = np.asarray(start, np.int64), np.asarray(stop, np.int64)
    if num_ids < store.num_ids:
        raise ValueError(f"num_ids is {num_ids}, but the store's table has {store.num_ids} observations")
    long = stop > start + 1
    start, stop = start[long], stop[long]
    if len(start) and (start.min() < 0 or stop.max() > store.size):
        raise ValueError(f"segments must lie within 0..{store.size}; drop the trajectories without a match (-1) first")
    counts = np.zeros(num_ids, np.int64)
    ids, previous, total = store.ids, store.previous, np.cumsum(stop - start - 1)
    first = 0
    while first < len(start):  # a block of segments at a time
        done = total[first - 1] if first else 0
        last = max(int(np.searchsorted(total, done + BLOCK, side="right")), first + 1)
        inside = ranges(start[first:last] + 1, stop[first:last])
        fresh = previous[inside] <= np.repeat(start[first:last], stop[first:last] - start[first:last] - 1)
        counts += np.bincount(ids[inside[fresh]], minlength=num_ids)
        first = last
    return counts


def segments(store: TrajectoryStore, start: ArrayLike, stop: ArrayLike) -> TrajectoryStore:
    """The open segments start < k < stop of flat positions as trajectories that start on the element at `start`."""
    start, stop = np.asarray(start, np.int64), np.asarray(stop, np.int64)
    return store.cut(np.searchsorted(store.offsets, start, side="right") - 1, start, stop)
