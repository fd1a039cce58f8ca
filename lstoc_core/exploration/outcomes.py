"""When an episode would succeed, for many assignments at once.

An assignment gives each symbol a key: an observation id, or an event. Under it, an episode succeeds when one of the
words, read as a sequence of keys, has been visited in order. A table of the first visit of each key after each time
answers this for thousands of assignments by a few look-ups.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lstoc_core.logic.fsm import Word

Assignments = NDArray[np.int32]
"""[K, symbols]: key of each symbol, an observation id or an event."""
Times = NDArray[np.int32]
"""Times of success; `never` of the table where there is none."""


@dataclass(frozen=True)
class Visits:
    """The first visit of each key strictly after each time, of one or several walks."""

    table: NDArray[np.int32]
    """[..., T + 2, N]; `never` where no visit follows, and in the last two rows."""

    @classmethod
    def of(cls, walks: ArrayLike, num_ids: int) -> "Visits":
        """walks: ids [..., T + 1], the start first; -1 pads at the end."""
        ids = np.asarray(walks, np.int64)
        last = ids.shape[-1] - 1
        flat = ids.reshape(-1, last + 1)
        table = np.full((len(flat), last + 2, num_ids), last + 1, np.int32)
        rows = np.arange(len(flat))
        for time in range(last - 1, -1, -1):
            table[:, time] = table[:, time + 1]
            here = flat[:, time + 1]
            on = here >= 0
            table[rows[on], time, here[on]] = time + 1
        return cls(table.reshape(*ids.shape[:-1], last + 2, num_ids))

    @classmethod
    def of_steps(
        cls, walk: ArrayLike, time: ArrayLike, key: ArrayLike, *, walks: int, last: int, num_keys: int
    ) -> Self:
        """Of walks in which several keys, or none, may be visited in one step: one entry for each visit.

        walk, time, key: which walk, when (from 1 to `last`), and what. Entries may come in any order.
        """
        rows, times, keys = (np.asarray(each, np.int64) for each in (walk, time, key))
        order = np.argsort(times, kind="stable")
        rows, times, keys = rows[order], times[order], keys[order]
        bounds = np.searchsorted(times, np.arange(last + 2))
        table = np.full((walks, last + 2, num_keys), last + 1, np.int32)
        for now in range(last, 0, -1):
            table[:, now - 1] = table[:, now]
            here = slice(bounds[now], bounds[now + 1])
            table[rows[here], now - 1, keys[here]] = now
        return cls(table)

    @cached_property
    def never(self) -> int:
        """The time that stands for "never": T + 1."""
        return int(self.table.shape[-2]) - 1

    def __getitem__(self, walk: int) -> "Visits":
        return Visits(self.table[walk])


@dataclass(frozen=True)
class Words:
    """The words of a task, over numbered symbols."""

    symbols: tuple[str, ...]
    words: tuple[tuple[int, ...], ...]
    """Symbols of each word by their number."""

    @classmethod
    def of(cls, words: Sequence[Word]) -> "Words":
        symbols = tuple(sorted({symbol for word in words for symbol in word}))
        return cls(symbols, tuple(tuple(symbols.index(symbol) for symbol in word) for word in words))

    def over(self, assigned: Sequence[int]) -> "Words":
        """Only the words whose symbols are all assigned."""
        return Words(self.symbols, tuple(word for word in self.words if set(word) <= set(assigned)))

    def success_times(self, visits: Visits, assignments: Assignments) -> Times:
        """When the walk succeeds under each assignment, [K]; `visits.never` if it does not. visits: of one walk."""
        num_ids = visits.table.shape[-1]
        flat = visits.table.reshape(-1)
        columns = {symbol: np.ascontiguousarray(assignments[:, symbol]) for word in self.words for symbol in word}
        reached: dict[tuple[int, ...], Times] = {}
        best = np.full(len(assignments), visits.never, np.int32)
        for word in self.words:
            for length in range(1, len(word) + 1):
                if word[:length] not in reached:
                    column = columns[word[length - 1]]
                    index = column if length == 1 else reached[word[: length - 1]] * np.int32(num_ids) + column
                    reached[word[:length]] = flat.take(index)
            np.minimum(best, reached[word], out=best)
        return best
