"""Subgoals in continuous observations: boxes, found by contrast in recorded episodes.

    found = lstoc.boxes(episodes, labels, count=2)  # where successes must have been, in order
    found.bounds, found.error

No continuous observation repeats, so a subgoal is a region. The last box is where successes end. Failures that visit
the boxes so far in order are the refuters. The next box, before one of the others, is the one that separates successes
best from refuters: a coarse box first, whose sides are then moved as long as this helps. At last all sides are moved
once more, so that the boxes predict the outcome of as many episodes as possible. A region that is no box is met at its
edge, so some outcomes stay wrong, and nothing is proved: `Boxes.error` is their fraction. The task must be a sequence.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Points = NDArray[np.float64]
Bounds = tuple[Points, Points]
"""Lowest and highest value in each dimension, [d] each; infinite where a side does not matter."""
LEVELS = 20
"""Places for each side of a box: quantiles of what was seen."""
COARSE = 5
"""Parts of each dimension in the coarse boxes that the search starts from."""
PASSES = 4
"""Most times that each side of a box is moved."""
FEW_DIMENSIONS = 3
"""Most dimensions whose coarse boxes are all combinations; with more of them, one dimension at a time."""


@dataclass(frozen=True)
class Boxes:
    """Boxes in the order in which successes visit them. Called with an observation: the names of those that hold it."""

    bounds: tuple[Bounds, ...]
    error: float
    """Fraction of the episodes whose outcome they do not predict."""

    def __call__(self, observation: Any) -> list[str]:
        """Names of the boxes that hold the observation: "box 1", "box 2", ..."""
        point = np.asarray(observation, float).ravel()
        return [f"box {number}" for number, box in enumerate(self.bounds, 1) if _inside(point, box).item()]


def boxes(episodes: Sequence[ArrayLike], labels: ArrayLike, count: int) -> Boxes:
    """At most `count` boxes that successes visit in order, the last one at their end, and failures do not.

    episodes: arrays [T + 1, d] of observations, an episode ending at its first success; labels: whether each succeeded.
    """
    rows, label = [np.asarray(episode, float) for episode in episodes], np.asarray(labels, np.bool_)
    rows = [row.reshape(len(row), -1) for row in rows]
    if label.shape != (len(rows),) or label.all() or not label.any():
        raise ValueError(
            f"{int(label.sum())} successes in {len(rows)} episodes: give some of both, and a label for each"
        )
    if count < 1:
        raise ValueError(f"count is {count}: give the number of boxes, at least 1")
    return _Search(rows, label).found(count)


def _inside(points: Points, box: Bounds) -> NDArray[np.bool_]:
    """Which points [..., d] lie in a box; NaN does in none."""
    within: NDArray[np.bool_] = np.all((points >= box[0]) & (points <= box[1]), axis=-1, keepdims=True)
    return within[..., 0]


class _Search:
    """Episodes side by side, padded with NaN: [n, T + 1, d]; a success minus its last step is a failure as well."""

    def __init__(self, rows: Sequence[Points], labels: NDArray[np.bool_]) -> None:
        cut = [row[:-1] for row, label in zip(rows, labels, strict=True) if label]
        everything = [*rows, *cut]
        self.points = np.full((len(everything), max(map(len, everything)), rows[0].shape[1]), np.nan)
        for place, row in zip(self.points, everything, strict=True):
            place[: len(row)] = row
        self.points[:, 0] = np.nan  # the start is no visit
        self.labels = np.append(labels, np.zeros(len(cut), np.bool_))
        self.ends = np.array([row[-1] for row, label in zip(rows, labels, strict=True) if label])
        seen = self.points[~np.isnan(self.points[..., 0])]
        self.sides = np.unique(np.quantile(seen, np.linspace(0, 1, LEVELS + 1), axis=0), axis=0).T
        """Places for the sides, [d, levels]."""

    def found(self, count: int) -> Boxes:
        path = [self._around(self.ends)]
        while len(path) < count:
            found = self._next(path)
            if found is None:
                break
            path.insert(*found)
        for index in reversed(range(len(path))):
            path[index] = self._moved(path[index], partial(self._agreement, tuple(path), index))
        return Boxes(tuple(path), 1 - self._agreement(path, 0, path[0]))

    def _around(self, points: Points) -> Bounds:
        """The box around nearly all of the points."""
        low, high = np.quantile(points, [0.01, 0.99], axis=0)
        return low, high

    def _visits(self, path: Sequence[Bounds]) -> NDArray[np.int64]:
        """Time at which each episode has visited the boxes in order, [n]; its length where it has not."""
        steps = self.points.shape[1]
        times = np.arange(steps)
        at = np.zeros(len(self.points), np.int64)
        for box in path:
            hits = _inside(self.points, box) & (times > at[:, None])
            at = np.where(hits.any(1) & (at < steps), hits.argmax(1), steps)
        return at

    def _agreement(self, path: Sequence[Bounds], index: int, box: Bounds) -> float:
        """Fraction of the episodes whose outcome is predicted if this box takes a place in the path."""
        visited = self._visits([*path[:index], box, *path[index + 1 :]]) < self.points.shape[1]
        return float((visited == self.labels).mean())

    def _next(self, path: Sequence[Bounds]) -> tuple[int, Bounds] | None:
        """The place in the path and the box that separate successes best from refuters; None without refuters."""
        steps = self.points.shape[1]
        visited = self._visits(path) < steps
        supporters, refuters = visited & self.labels, visited & ~self.labels
        if not refuters.any() or not supporters.any():
            return None
        best: tuple[float, int, Bounds] | None = None
        for slot in range(len(path)):
            begin, end = self._visits(path[:slot])[:, None], self._latest(path[slot:])[:, None]
            times = np.arange(steps)
            within = self.points.copy()
            within[~((times > begin) & (times < end))] = np.nan

            def separation(box: Bounds, within: Points = within) -> float:
                hit: NDArray[np.bool_] = np.asarray(_inside(within, box).any(1))
                return float(hit[supporters].mean() - hit[refuters].mean())

            box = self._moved(max(self._coarse(), key=separation), separation)
            if best is None or separation(box) > best[0]:
                best = separation(box), slot, box
        return (best[1], best[2]) if best is not None else None

    def _latest(self, path: Sequence[Bounds]) -> NDArray[np.int64]:
        """Latest time at which each episode begins to visit the boxes in order, [n]; 0 where it does not."""
        steps = self.points.shape[1]
        times = np.arange(steps)
        at = np.full(len(self.points), steps)
        for box in reversed(path):
            hits: NDArray[np.bool_] = _inside(self.points, box) & (times < at[:, None])
            at = np.where(hits.any(1), steps - 1 - hits[:, ::-1].argmax(1), 0)
        return at

    def _coarse(self) -> list[Bounds]:
        dimensions = len(self.sides)
        parts = [side[np.linspace(0, len(side) - 1, COARSE + 1).astype(int)] for side in self.sides]
        if dimensions <= FEW_DIMENSIONS:
            cells = product(*(range(COARSE) for _ in parts))
            return [
                (
                    np.array([part[i] for part, i in zip(parts, cell, strict=True)]),
                    np.array([part[i + 1] for part, i in zip(parts, cell, strict=True)]),
                )
                for cell in cells
            ]
        found = []
        for dimension, index in product(range(dimensions), range(COARSE)):
            low, high = np.full(dimensions, -np.inf), np.full(dimensions, np.inf)
            low[dimension], high[dimension] = parts[dimension][index], parts[dimension][index + 1]
            found.append((low, high))
        return found

    def _moved(self, box: Bounds, worth: Callable[[Bounds], float]) -> Bounds:
        """The box with its sides moved, one after the other, as long as it is worth more."""
        best = worth(box)
        for _ in range(PASSES):
            before = best
            for dimension, side in product(range(len(self.sides)), (0, 1)):
                outer = -np.inf if side == 0 else np.inf
                for place in (outer, *self.sides[dimension]):
                    moved = (box[0].copy(), box[1].copy())
                    moved[side][dimension] = place
                    if moved[0][dimension] < moved[1][dimension] and (value := worth(moved)) > best:
                        box, best = moved, value
            if best == before:
                break
        return box
