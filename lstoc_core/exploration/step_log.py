"""Every step of every environment, kept small: a world map reads them again whenever it learns that ids are aliased.

The last steps are plain numbers. Older ones lie in compressed blocks, which are opened one at a time. An explorer that
has learned what it can repeats itself, so a step of a long run takes far less than a byte.
"""

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 14
"""Rows that are compressed together."""
LEVEL = 1
"""Of compression: the fastest."""


class StepLog:
    """Rows of int32 numbers [*shape], in the order in which they were added."""

    def __init__(self, *shape: int) -> None:
        self._shape = shape
        self._closed: list[bytes] = []
        """Blocks that are full, each compressed column by column: a column repeats itself more than a row."""
        self._open = np.zeros((64, *shape), np.int32)
        self._used = 0

    def __len__(self) -> int:
        return BLOCK * len(self._closed) + self._used

    @property
    def nbytes(self) -> int:
        """Bytes that the log takes."""
        return sum(map(len, self._closed)) + self._open.nbytes

    @property
    def last(self) -> NDArray[np.int32]:
        """The row added last; what is written to it is kept until the next one is added."""
        row: NDArray[np.int32] = self._open[self._used - 1]
        return row

    def append(self) -> NDArray[np.int32]:
        """A new row, to be written to."""
        if self._used == BLOCK:
            self._closed.append(zlib.compress(np.moveaxis(self._open, 0, -1).tobytes(), LEVEL))
            self._used = 0
        if self._used == len(self._open):
            self._open = np.concatenate([self._open, np.zeros_like(self._open)])
        self._used += 1
        return self.last

    def blocks(self) -> Iterator[NDArray[np.int32]]:
        """All rows, [n, *shape] at a time."""
        for block in self._closed:
            columns = np.frombuffer(zlib.decompress(block), np.int32).reshape(*self._shape, -1)
            yield np.moveaxis(columns, -1, 0)
        yield self._open[: self._used]

    def state_dict(self) -> dict[str, Any]:
        """The log as arrays."""
        closed = [np.frombuffer(block, np.uint8) for block in self._closed]
        return {"closed": closed, "open": self._open[: self._used].copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._closed = [block.tobytes() for block in state["closed"]]
        self._used = len(state["open"])
        self._open = np.zeros((max(64, 1 << (self._used - 1).bit_length()), *self._shape), np.int32)
        self._open[: self._used] = state["open"]
