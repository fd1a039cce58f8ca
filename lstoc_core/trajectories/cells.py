"""Cells of continuous observations: a grid that makes them repeat, and boxes of cells as events.

No continuous observation occurs twice. A *state* is then the cell of a grid that holds it, so memory does not grow with
what is seen. The features are coarse cells, which the exploration bonus pays for, and a few *boxes* of cells: where
discovery thinks the subgoals are (`regions`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.trajectories.flat import FlatObservations
from lstoc_core.trajectories.identity import Table

Points = NDArray[np.float64]
Bounds = tuple[Points, Points]
"""Lowest and highest value in each dimension, [d] each; infinite where a side does not matter."""
LEVELS = 60
"""Most cells along a dimension."""
COARSE = 20
"""Most coarse cells along a dimension: those that the exploration bonus pays for."""
MOST_CELLS = 4096
"""Most cells of the grid."""
MOST_DIMENSIONS = 6
"""Most numbers of an observation; with more, a dimension would have fewer than four cells."""
FAR = 1e3
"""Bounds beyond this are taken as none."""


class CellIdentity:
    """An `Identity` and `Vocabulary`: a state is a cell of a grid over the observations.

    A dimension with bounds is cut into equal parts; one without them is squashed to x / (1 + |x|) first. Events have
    odd numbers for coarse cells and even ones for boxes; only the last boxes given to `place` are kept.
    """

    def __init__(self, flat: FlatObservations) -> None:
        box, dimensions = flat.box, int(np.prod(flat.box.shape))
        if box.dtype.kind != "f" or dimensions > MOST_DIMENSIONS:
            raise ValueError(
                f"events='boxes' for observations of {dimensions} numbers of type {box.dtype}: boxes are for at most "
                f"{MOST_DIMENSIONS} real numbers; say what recurs by events=, a function of an observation"
            )
        levels = min(LEVELS, int(MOST_CELLS ** (1 / dimensions) + 1e-9))
        low, high = box.low.reshape(-1).astype(float), box.high.reshape(-1).astype(float)
        self.sides: Points = np.array([_sides(*pair, levels) for pair in zip(low, high, strict=True)])
        """Borders of the cells along each dimension, [d, levels + 1]; beyond the outermost ones, cells are endless."""
        self._state: dict[tuple[int, ...], int] = {}
        self._middles: list[Points] = []
        self._group = -(-levels // COARSE)
        self._coarse: dict[tuple[int, ...], int] = {}
        self._coarse_of: list[int] = []
        self._table = Table()
        self._boxes: dict[int, Bounds] = {}
        self._placed = 0

    @property
    def observations(self) -> NDArray[Any]:
        """The first observation of each cell so far, row by id (read-only)."""
        return self._table.rows

    def ids(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """Cell of each observation [n, *shape] -> [n]; new ones enter the table in order of appearance."""
        points = observations.reshape(len(observations), -1)
        parts = [np.searchsorted(inner, points[:, k], side="right") for k, inner in enumerate(self.sides[:, 1:-1])]
        return np.array(
            [self._number(cell, row) for cell, row in zip(zip(*parts, strict=True), observations, strict=True)],
            np.int64,
        )

    def _number(self, cell: tuple[int, ...], row: NDArray[Any]) -> int:
        state = self._state.setdefault(cell, len(self._state))
        if state == len(self._middles):
            each = np.arange(len(cell))
            self._middles.append((self.sides[each, list(cell)] + self.sides[each, np.array(cell) + 1]) / 2)
            coarse = tuple(part // self._group for part in cell)
            self._coarse_of.append(self._coarse.setdefault(coarse, len(self._coarse)))
            self._table.append(row)
        return state

    def representation(self, count: int) -> None:
        """None: nothing is learned about the cells."""

    @property
    def middles(self) -> Points:
        """The middle of each cell so far, [N, d]."""
        return np.array(self._middles)

    # -- boxes -----------------------------------------------------------------------------------------------------

    def place(self, boxes: Sequence[Bounds], first: int | None = None) -> tuple[int, ...]:
        """Keep these boxes, and no other; their events. first: the first one's number, of boxes that are restored."""
        self._placed = self._placed if first is None else first // 2 - 1
        self._boxes = {2 * (self._placed + index) + 2: bounds for index, bounds in enumerate(boxes)}
        self._placed += len(boxes)
        return tuple(self._boxes)

    def bounds(self, event: int) -> Bounds:
        """The bounds of a box."""
        return self._boxes[event]

    @property
    def num_events(self) -> int:
        return 2 * max(len(self._coarse), self._placed) + 1

    def event_name(self, event: int) -> str:
        """Boxes are numbered as they were placed."""
        return f"cell {event // 2}" if event % 2 else f"box {list(self._boxes).index(event) + 1}"

    def begun(self, before: int, state: int) -> tuple[int, ...]:
        if before == state:
            return ()
        now = self._middles[state]
        entered = [
            event
            for event, box in self._boxes.items()
            if inside(now, box).item() and not (before >= 0 and inside(self._middles[before], box).item())
        ]
        if before < 0 or self._coarse_of[before] != self._coarse_of[state]:
            entered.append(2 * self._coarse_of[state] + 1)
        return tuple(sorted(entered))

    def states_with(self, event: int) -> NDArray[np.int64]:
        if event % 2:
            return np.flatnonzero(np.array(self._coarse_of) == event // 2)
        return np.flatnonzero(inside(self.middles, self._boxes[event]))


def inside(points: Points, box: Bounds) -> NDArray[np.bool_]:
    """Which points [..., d] lie in a box; NaN does in none."""
    within: NDArray[np.bool_] = np.all((points >= box[0]) & (points <= box[1]), axis=-1, keepdims=True)
    return within[..., 0]


def _sides(low: float, high: float, levels: int) -> Points:
    if max(abs(low), abs(high)) <= FAR:
        return np.linspace(low, high, levels + 1)
    squashed = np.linspace(-1, 1, levels + 3)[1:-1]
    sides: Points = squashed / (1 - np.abs(squashed))
    return sides
