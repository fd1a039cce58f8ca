"""When two observations are the same state: here if their bytes are equal, in `representation` by a learned rule."""

import math
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class Identity(Protocol):
    """Turns observations into ids: row numbers of a table that only grows."""

    @property
    def observations(self) -> NDArray[Any]:
        """The first observation of each state so far, row by id."""
        ...

    def ids(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """Id of each observation [n, *shape] -> [n]. The caller reuses the array: copy what is kept of it."""
        ...

    def representation(self, count: int) -> NDArray[np.float32] | None:
        """o_θ of the first `count` states [count, d]; None where there is no such thing."""
        ...


@runtime_checkable
class Restorable(Protocol):
    """An `Identity` that is not restored by giving it the first observation of each state again."""

    def state_dict(self) -> dict[str, Any]:
        """What it knows beside these observations, as arrays."""
        ...

    def load_state_dict(self, state: Mapping[str, Any], observations: NDArray[Any]) -> None:
        """Restore what `state_dict` returned, before anything is seen. observations: the first one of each state."""
        ...


class Table:
    """Rows of one shape in one array that grows by doubling."""

    def __init__(self) -> None:
        self._buffer: NDArray[Any] | None = None
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def rows(self) -> NDArray[Any]:
        """The rows so far, read-only."""
        if self._buffer is None:
            raise ValueError("the table is empty: no observation has been seen yet")
        view = self._buffer[: self._used]
        view.flags.writeable = False
        return view

    def append(self, row: NDArray[Any]) -> None:
        if self._buffer is None:
            self._buffer = np.empty((64, *row.shape), row.dtype)
        if row.shape != self._buffer.shape[1:]:
            raise ValueError(f"an observation of shape {row.shape} in a table of shape {self._buffer.shape[1:]}")
        if self._used == len(self._buffer):
            self._buffer = np.concatenate([self._buffer, np.empty_like(self._buffer)])
        self._buffer[self._used] = row
        self._used += 1


class ExactIdentity:
    """Observations are the same state when their bytes are equal."""

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}
        self._table = Table()

    @property
    def observations(self) -> NDArray[Any]:
        """The distinct observations so far, row by id (read-only)."""
        return self._table.rows

    def ids(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """Id of each observation [n, *shape] -> [n]; new ones enter the table in order of appearance."""
        rows, ids = np.ascontiguousarray(observations), self._ids
        flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
        raw: list[bytes] = flat.view(np.dtype((np.void, flat.itemsize * flat.shape[1])))[:, 0].tolist()
        out = [ids.setdefault(each, len(ids)) for each in raw]
        if len(ids) > len(self._table):
            for row, number in zip(rows, out, strict=True):
                if number == len(self._table):
                    self._table.append(row)
        return np.array(out, np.int64)

    def representation(self, count: int) -> None:
        """None: bytes tell the states apart, nothing is learned about them."""
