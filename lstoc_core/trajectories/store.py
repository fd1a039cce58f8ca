"""Labelled trajectories of observation ids, all in one flat array.

An episode of T steps is stored as T + 1 small integers: the start observation, then one id per step up to the final
observation. All episodes lie end to end in one flat array, so every operation here works on all trajectories at once.

One rule holds everywhere: the first element of a trajectory is its *start*, not a visit. Key states are visited
strictly after the start, so matches begin at index 1. `after` keeps the rule: its trajectories start on the last
element of the path they are conditioned on.

Several events may happen in one step (`events`). Then the elements of a step stand side by side, *joined*, and a match
goes on strictly after the step: of two elements of one step, neither comes before the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lstoc_core.trajectories.door import InputError, booleans

Integers = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
BLOCK = 1 << 15
"""Ids processed at a time: few enough for the processor's cache."""


class TrajectoryStore:
    """The buffers B_P and B_N of the paper in one: flat ids, offsets, and a label per trajectory.

    num_ids: size of the table of distinct observations; ids outside it are errors. None: the table may grow, and
    `num_ids` is one more than the largest id so far.
    """

    def __init__(self, num_ids: int | None = None) -> None:
        if num_ids is not None and num_ids < 1:
            raise ValueError(f"num_ids is {num_ids}; give the number of distinct observations (at least 1), or None")
        self._table_size = num_ids
        self._largest = -1
        self._ids = np.empty(1024, np.int32)
        self._offsets = np.zeros(65, np.int64)
        self._labels = np.empty(64, np.bool_)
        self._joined: Bools | None = None
        """Per flat position, whether it belongs to the step of the one before it; None: no two share a step."""
        self._steps: tuple[int, NDArray[np.int64]] = (-1, np.empty(0, np.int64))
        """Flat positions at which steps begin, and the size; with the size for which they were computed."""
        self._count = 0
        self._previous = np.empty(0, np.int32)
        self._indexed = 0
        self._places: dict[int, tuple[int, NDArray[np.int64]]] = {}

    # --- growing ---

    def append(
        self, ids: ArrayLike | Sequence[ArrayLike], lengths: ArrayLike | None = None, labels: ArrayLike = ()
    ) -> None:
        """Add a batch: a padded array [n, T] with `lengths` [n], or a list of 1-D arrays (`lengths` may be None)."""
        if isinstance(ids, np.ndarray) and ids.ndim == 2:
            if lengths is None:
                raise ValueError("a padded 2-D batch needs `lengths`, the number of valid ids in each row")
            lengths = np.asarray(lengths, np.int64)
            if lengths.shape != (len(ids),) or (lengths > ids.shape[1]).any():
                raise ValueError(
                    f"lengths must hold one number up to {ids.shape[1]} for each of the {len(ids)} rows, got {lengths}"
                )
            self.append_flat(ids[np.arange(ids.shape[1]) < lengths[:, None]], lengths, labels)
            return
        parts = [np.asarray(part) for part in ids]  # type: ignore[union-attr]
        if any(part.ndim != 1 for part in parts):
            raise ValueError("ids must be a padded 2-D array or a list of 1-D arrays")
        own = np.array([len(part) for part in parts], np.int64)
        if lengths is not None and not np.array_equal(own, lengths):
            raise ValueError(f"lengths {np.asarray(lengths)} disagree with the listed trajectories' lengths {own}")
        self.append_flat(np.concatenate(parts) if parts else np.empty(0, np.int32), own, labels)

    def append_flat(
        self, ids: ArrayLike, lengths: ArrayLike, labels: ArrayLike, joined: ArrayLike | None = None
    ) -> None:
        """Add trajectories that lie end to end in `ids`. Amortised cost per id is constant.

        joined: whether each element belongs to the step of the one before it; None: no two share a step.
        """
        ids, lengths, labels = np.asarray(ids), np.asarray(lengths, np.int64), booleans(labels)
        if ids.ndim != 1 or lengths.ndim != 1 or labels.shape != lengths.shape:
            raise ValueError(f"one label per trajectory: got {labels.shape} labels for {lengths.shape} lengths")
        if len(lengths) and lengths.min() < 1:
            raise ValueError("a trajectory is empty; each holds at least its start observation")
        if lengths.sum() != len(ids):
            raise ValueError(f"the lengths add up to {lengths.sum()}, but {len(ids)} ids were given")
        if len(lengths) == 0:
            return
        if not np.issubdtype(ids.dtype, np.integer):
            raise TypeError(f"observation ids are integers, not {ids.dtype}; intern the observations first")
        self._largest = max(self._largest, self._checked(ids))
        size, count = self.size, self._count
        self._ids = _grown(self._ids, size, size + len(ids))
        self._labels = _grown(self._labels, count, count + len(lengths))
        self._offsets = _grown(self._offsets, count + 1, count + 1 + len(lengths))
        if joined is not None and self._joined is None:
            self._joined = np.zeros(len(self._ids), np.bool_)
        if self._joined is not None:
            self._joined = _grown(self._joined, size, size + len(ids))
            self._joined[size : size + len(ids)] = False if joined is None else joined
        self._ids[size : size + len(ids)] = ids
        self._labels[count : count + len(lengths)] = labels
        self._offsets[count + 1 : count + 1 + len(lengths)] = size + np.cumsum(lengths)
        self._count += len(lengths)

    def extend(self, other: TrajectoryStore, *, label: bool) -> None:
        """Add all trajectories of another store, with this label."""
        joined = None if other._joined is None else other._joined[: other.size]
        self.append_flat(other.ids, other.lengths, np.full(len(other), label), joined)

    def _checked(self, ids: Integers) -> int:
        """The largest id; raises if one lies outside the table."""
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high > np.iinfo(np.int32).max or (self._table_size is not None and high >= self._table_size):
            wrong = low if low < 0 else high
            size = "any table" if self._table_size is None else f"the table of {self._table_size} observations"
            raise ValueError(f"observation id {wrong} is outside {size}")
        return high

    # --- reading ---

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return (
            f"TrajectoryStore({len(self)} trajectories, {len(self.positives)} positive, "
            f"{self.num_steps} steps, {self.num_ids} ids)"
        )

    @property
    def size(self) -> int:
        """Number of stored ids."""
        return int(self._offsets[self._count])

    @property
    def num_steps(self) -> int:
        """Environment steps behind the stored trajectories."""
        return self.size - self._count

    @property
    def num_ids(self) -> int:
        """Size of the table of distinct observations."""
        return self._largest + 1 if self._table_size is None else self._table_size

    @property
    def ids(self) -> NDArray[np.int32]:
        """All ids end to end (read-only view)."""
        return _frozen(self._ids[: self.size])

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each trajectory begins in `ids`, and the end: [n + 1] (read-only view)."""
        return _frozen(self._offsets[: self._count + 1])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of ids of each trajectory: steps + 1."""
        return np.diff(self.offsets)

    @property
    def labels(self) -> Bools:
        """True where the episode completed the task (read-only view)."""
        return _frozen(self._labels[: self._count])

    @property
    def positives(self) -> NDArray[np.intp]:
        """Indices of the trajectories in B_P."""
        return np.flatnonzero(self.labels)

    @property
    def negatives(self) -> NDArray[np.intp]:
        """Indices of the trajectories in B_N."""
        return np.flatnonzero(~self.labels)

    def trajectory(self, index: int) -> NDArray[np.int32]:
        """Ids of one trajectory, from its start observation to its final one."""
        if not 0 <= index < self._count:
            raise IndexError(f"trajectory {index} of {self._count}")
        return self.ids[self._offsets[index] : self._offsets[index + 1]]

    def times(self, index: int) -> NDArray[np.int64]:
        """The step of each element of one trajectory, 0 at its start; elements that are joined share theirs."""
        begin, end = self._offsets[index], self._offsets[index + 1]
        if self._joined is None:
            return np.arange(end - begin)
        return np.cumsum(~self._joined[begin:end]) - 1

    def select(self, indices: ArrayLike) -> TrajectoryStore:
        """The trajectories at `indices` (integers or a mask), as a store of the same table."""
        chosen = np.arange(self._count)[np.asarray(indices, dtype=None if np.size(indices) else np.intp)]
        return self.cut(chosen, self.offsets[:-1][chosen], self.offsets[1:][chosen])

    def cut(self, chosen: Integers, begin: Integers, end: Integers) -> TrajectoryStore:
        """The flat pieces begin <= k < end of the chosen trajectories, as a store of the same table."""
        lengths = end - begin
        out = self._like(int(lengths.sum()), len(lengths))
        total, first = np.cumsum(lengths), 0
        while first < len(lengths):  # a block of pieces at a time: their positions take more memory than their ids
            done = total[first - 1] if first else 0
            last = max(int(np.searchsorted(total, done + BLOCK, side="right")), first + 1)
            positions = ranges(begin[first:last], end[first:last])
            self._copy(out, positions, lengths[first:last], self.labels[chosen[first:last]])
            first = last
        return out

    def keep(self, kept: Bools) -> TrajectoryStore:
        """All trajectories, reduced to the flat positions in the mask; each must keep its start."""
        lengths = np.add.reduceat(kept, self.offsets[:-1], dtype=np.int64) if len(self) else self.lengths
        out = self._like(int(lengths.sum()), len(lengths))
        self._copy(out, np.flatnonzero(kept), lengths, self.labels)
        return out

    def _like(self, size: int, count: int) -> TrajectoryStore:
        """An empty store of the same table, with room for so many ids and trajectories."""
        out = TrajectoryStore(self._table_size)
        out._ids, out._labels = np.empty(size, np.int32), np.empty(count, np.bool_)
        out._offsets, out._largest = np.zeros(count + 1, np.int64), self._largest
        return out

    def _copy(self, out: TrajectoryStore, positions: Integers, lengths: Integers, labels: Bools) -> None:
        """Add the elements at these flat positions to another store."""
        joined = None
        if self._joined is not None:
            step = self.first_of(positions.astype(np.int64))
            joined = np.append(False, step[1:] == step[:-1])[: len(step)]
            joined[np.cumsum(lengths)[:-1]] = False
        out.append_flat(self.ids[positions], lengths, labels, joined)

    # --- steps: which elements happened together ---

    def first_of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Flat position of the first element in the same step; `size` stays."""
        if self._joined is None:
            return positions
        begins = self._step_begins()
        return begins[np.searchsorted(begins, positions, side="right") - 1]

    def last_of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Flat position of the last element in the same step."""
        if self._joined is None:
            return positions
        begins = self._step_begins()
        return begins[np.searchsorted(begins, positions, side="right")] - 1

    def _step_begins(self) -> NDArray[np.int64]:
        assert self._joined is not None
        if self._steps[0] != self.size:
            self._steps = self.size, np.append(np.flatnonzero(~self._joined[: self.size]), self.size)
        return self._steps[1]

    def last_steps(self, chosen: Integers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Flat bounds begin <= k < end of the last step of the chosen trajectories."""
        end = self.offsets[1:][chosen]
        return self.first_of(end - 1), end

    # --- index: kept between calls, extended by what was appended since ---

    @property
    def previous(self) -> NDArray[np.int32]:
        """For each flat position, that of the previous occurrence of the same id in the same trajectory, or -1."""
        if self._indexed < self._count:
            self._previous = _grown(self._previous, int(self._offsets[self._indexed]), self.size)
        while self._indexed < self._count:  # a block of whole trajectories at a time
            first, begin = self._indexed, self._offsets[self._indexed]
            last = int(np.searchsorted(self._offsets[: self._count + 1], begin + BLOCK, side="right")) - 1
            last = max(last, first + 1)
            end = self._offsets[last]
            self._previous[begin:end] = _previous_occurrence(
                self._ids[begin:end], self._offsets[first : last + 1] - begin, int(begin)
            )
            self._indexed = last
        return _frozen(self._previous[: self.size])

    def occurrences(self, observation_id: int) -> NDArray[np.int64]:
        """Sorted flat positions at which an id occurs (start observations included)."""
        if observation_id < 0 or (self._table_size is not None and observation_id >= self._table_size):
            self._checked(np.asarray([observation_id]))
        scanned, places = self._places.get(observation_id, (0, np.empty(0, np.int64)))
        if scanned < self.size:
            new = np.flatnonzero(self._ids[scanned : self.size] == observation_id) + scanned
            places = np.concatenate([places, new]) if len(places) else new
            self._places[observation_id] = (self.size, places)
        return places

    # --- files ---

    def save(self, path: str | PathLike[str]) -> None:
        """Write a compressed npz without pickled objects."""
        ids = self.ids.astype(np.uint16) if self._largest < 1 << 16 else self.ids
        np.savez_compressed(
            path,
            ids=ids,
            lengths=self.lengths.astype(np.int32),
            labels=self.labels,
            num_ids=np.int64(self._table_size or 0),
        )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> TrajectoryStore:
        """Read what `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as file:
                parts = {name: file[name] for name in file.files}
        except FileNotFoundError:
            raise
        except Exception as error:  # whatever a damaged file leads to
            raise InputError(f"{path} is not a whole trajectory file ({error}): save it again") from error
        return cls.from_arrays(parts, str(path))

    @classmethod
    def from_arrays(cls, parts: Mapping[str, NDArray[Any]], source: str) -> TrajectoryStore:
        """The store of a file's arrays `ids`, `lengths`, `labels` and `num_ids` (0: None), after checking them.

        source: names the file in errors.
        """
        for name, dimensions in {"ids": 1, "lengths": 1, "num_ids": 0}.items():
            if name not in parts or "labels" not in parts:
                missing = name if name not in parts else "labels"
                raise InputError(f"{source} is not a trajectory file: {missing} missing")
            array = parts[name]
            if array.dtype.kind not in "iu" or array.ndim != dimensions:
                kind = f"{array.dtype} of shape {array.shape}"
                raise InputError(f"{source} holds {name} as {kind}: they must be whole numbers, so save it again")
        try:
            store = cls(int(parts["num_ids"]) or None)
            store.append_flat(parts["ids"], parts["lengths"], parts["labels"])
        except ValueError as error:
            raise InputError(f"{source} does not fit together ({error}): save it again") from error
        return store


# --- helpers ---


def ranges(begin: Integers, end: Integers) -> NDArray[np.int64]:
    """The integers begin[i] <= k < end[i] of all i, one range after the other."""
    lengths = end - begin
    total = np.cumsum(lengths)
    if len(total) == 0:
        return np.empty(0, np.int64)
    found: NDArray[np.int64] = np.arange(total[-1]) + np.repeat(begin - total + lengths, lengths)
    return found


def _previous_occurrence(ids: NDArray[np.int32], offsets: NDArray[np.int64], base: int) -> NDArray[np.int32]:
    """Position + base of the previous occurrence of each id in its trajectory, or -1.

    A stable sort by id lists the positions of each id in ascending order, hence also trajectory by trajectory.
    """
    keys = ids.astype(np.uint16) if ids.max() < 1 << 16 else ids  # numpy's radix sort needs 16 bits
    order = np.argsort(keys, kind="stable").astype(np.int32)
    owner = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
    earlier, later = order[:-1], order[1:]
    same = (keys[earlier] == keys[later]) & (owner[earlier] == owner[later])
    previous = np.full(len(ids), -1, np.int32)
    previous[later[same]] = earlier[same] + base
    return previous


def _grown(buffer: NDArray[Any], used: int, needed: int) -> NDArray[Any]:
    """The buffer, or a copy of its used part that is at least twice as large."""
    if needed <= len(buffer):
        return buffer
    larger = np.empty(max(needed, 2 * len(buffer)), buffer.dtype)
    larger[:used] = buffer[:used]
    return larger


def _frozen(view: NDArray[Any]) -> NDArray[Any]:
    view = view.view()
    view.flags.writeable = False
    return view
