"""Subgoals in continuous observations: boxes, found by contrast in recorded episodes.

    found = lstoc.boxes(episodes, labels, count=2)  # where successes must have been, in order
    found.bounds, found.error

No continuous observation repeats, so a subgoal is a region. The last box is where successes end. Failures that visit
the boxes so far in order are the refuters. The next box, before one of the others, is the one that separates successes
best from refuters: a coarse box or a half of space first, whose sides are then moved as long as this helps. Then all
sides are moved once more, so that the boxes predict the outcome of as many episodes as possible; of several next boxes,
the best is kept. A box that adds too little is dropped at the end.

A region that is no box is met at its edge, so some outcomes stay wrong, and nothing is proved: `Boxes.error` is their
fraction. The task must be a sequence.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lstoc_core.trajectories.cells import Bounds, Points, inside

LEVELS = 80
"""Places for each side of a box: quantiles of what was seen."""
COARSE = 5
"""Parts of each dimension in the coarse boxes that the search starts from."""
PASSES = 4
"""Most times that each side of a box is moved."""
CUT = 0.25
"""What a success without its last step counts as a failure: at the edge of a region, it may be one a step too early."""
TRIED = 4
"""Most boxes that are tried as the next one."""
FEW_DIMENSIONS = 3
"""Most dimensions whose coarse boxes are also all combinations; with more of them, one dimension at a time."""


@dataclass(frozen=True)
class Boxes:
    """Boxes in the order in which successes visit them. Called with an observation: the names of those that hold it."""

    bounds: tuple[Bounds, ...]
    error: float
    """Fraction of the episodes whose outcome they do not predict."""

    def __call__(self, observation: Any) -> list[str]:
        """Names of the boxes that hold the observation: "box 1", "box 2", ..."""
        point = np.asarray(observation, float).ravel()
        return [f"box {number}" for number, box in enumerate(self.bounds, 1) if inside(point, box).item()]


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
    seen = np.concatenate([row[1:] for row in rows])
    sides = np.unique(np.quantile(seen, np.linspace(0, 1, LEVELS + 1), axis=0), axis=0).T
    parts = np.stack([np.searchsorted(side[1:-1], seen[:, k], side="right") for k, side in enumerate(sides)], 1)
    cells, which = np.unique(parts, axis=0, return_inverse=True)
    each = np.arange(len(sides))
    middles = (sides[each, cells] + sides[each, cells + 1]) / 2
    ids = np.split(which.reshape(-1), np.cumsum([len(row) - 1 for row in rows])[:-1])
    return BoxSearch(ids, label, middles, sides).found(count)


class BoxSearch:
    """Episodes as cells, side by side: [n, T], and as failures also the successes without their last step.

    episodes: the cells visited after the start, which is no visit. middles: of the cells, [N, d]. sides: places for the
    sides of boxes, between the cells, [d, levels].
    """

    def __init__(
        self, episodes: Sequence[NDArray[np.int64]], labels: NDArray[np.bool_], middles: Points, sides: Points
    ) -> None:
        cut = [row[:-1] for row, label in zip(episodes, labels, strict=True) if label]
        everything = [*episodes, *cut]
        self.cells = np.full((len(everything), max(map(len, everything))), len(middles))
        """Padded with a cell that is in no box."""
        for place, row in zip(self.cells, everything, strict=True):
            place[: len(row)] = row
        self.steps = self.cells.shape[1]
        self.labels = np.append(labels, np.zeros(len(cut), np.bool_))
        self.weights = np.append(np.ones(len(labels)), np.full(len(cut), CUT))
        self.weights /= self.weights.sum()
        self.ends = middles[[row[-1] for row, label in zip(episodes, labels, strict=True) if label]]
        self.middles, self.sides = middles, sides

    def found(self, count: int, *, gain: float = 0.0) -> Boxes:
        """At most `count` boxes. gain: how much each must add to the fraction of outcomes predicted."""
        path = [self._around(self.ends)]
        best = self._fitted(path)
        while len(path) < count and (longer := self._longer(path)):
            fitted = [self._fitted(each) for each in longer]
            chosen = max(range(len(longer)), key=lambda index: self._predicted(fitted[index]))
            if self._predicted(fitted[chosen]) < self._predicted(best) + gain:
                break
            path, best = longer[chosen], fitted[chosen]
        best = self.needed(best, gain)
        return Boxes(best, 1 - self._predicted(best))

    def needed(self, path: Sequence[Bounds], gain: float) -> tuple[Bounds, ...]:
        """The boxes without those that add less than `gain` to the fraction of outcomes predicted; one stays."""
        kept = tuple(path)
        while len(kept) > 1:
            without = max((kept[:index] + kept[index + 1 :] for index in range(len(kept))), key=self._predicted)
            if self._predicted(kept) < self._predicted(without) + gain:
                kept = without
            else:
                break
        return kept

    def _fitted(self, boxes: Sequence[Bounds]) -> tuple[Bounds, ...]:
        """The boxes with their sides moved so that they predict as many outcomes as possible: twice, the last first."""
        path = list(boxes)
        for index in 2 * [*reversed(range(len(path)))]:
            path[index] = self._moved(path[index], partial(self._agreement, tuple(path), index))
        return tuple(path)

    def _around(self, points: Points) -> Bounds:
        """The box around nearly all of the points."""
        low, high = np.quantile(points, [0.01, 0.99], axis=0)
        return low, high

    def _hits(self, box: Bounds) -> NDArray[np.bool_]:
        """Where the episodes are in the box, [n, T]."""
        hits: NDArray[np.bool_] = np.append(inside(self.middles, box), False)[self.cells]
        return hits

    def _visits(self, path: Sequence[Bounds]) -> NDArray[np.int64]:
        """Time at which each episode has visited the boxes in order, [n]; the number of steps where it has not."""
        times = np.arange(self.steps)
        at = np.full(len(self.cells), -1)
        for box in path:
            hits = self._hits(box) & (times > at[:, None])
            at = np.where(hits.any(1) & (at < self.steps), hits.argmax(1), self.steps)
        return at

    def _predicted(self, path: Sequence[Bounds]) -> float:
        """Fraction of the episodes whose outcome the path predicts, those without their last step counted less."""
        return float(self.weights[(self._visits(path) < self.steps) == self.labels].sum())

    def _agreement(self, path: Sequence[Bounds], index: int, box: Bounds) -> float:
        """The same if this box takes a place in the path."""
        return self._predicted([*path[:index], box, *path[index + 1 :]])

    def _longer(self, path: Sequence[Bounds]) -> list[list[Bounds]]:
        """Paths with one more box, those that separate successes best from refuters; none without refuters."""
        visited = self._visits(path) < self.steps
        supporters, refuters = visited & self.labels, visited & ~self.labels
        if not refuters.any() or not supporters.any():
            return []
        times = np.arange(self.steps)
        found: list[tuple[float, list[Bounds]]] = []
        for slot in range(len(path)):
            begin, end = self._visits(path[:slot])[:, None], self._latest(path[slot:])[:, None]
            within = (times > begin) & (times < end)

            def separation(box: Bounds, within: NDArray[np.bool_] = within) -> float:
                hit: NDArray[np.bool_] = np.asarray((self._hits(box) & within).any(1))
                return self._share(hit, supporters) - self._share(hit, refuters)

            for coarse in (self._cells, *self._slabs, *self._halves):
                box = self._moved(max(coarse, key=separation), separation)
                found.append((separation(box), [*path[:slot], box, *path[slot:]]))
        found.sort(key=lambda each: -each[0])
        return [longer for _, longer in found[:TRIED]]

    def _share(self, hit: NDArray[np.bool_], among: NDArray[np.bool_]) -> float:
        """Which part of some episodes, by weight, hit something."""
        return float(self.weights[hit & among].sum() / self.weights[among].sum())

    def _latest(self, path: Sequence[Bounds]) -> NDArray[np.int64]:
        """Latest time at which each episode begins to visit the boxes in order, [n]; -1 where it does not."""
        times = np.arange(self.steps)
        at = np.full(len(self.cells), self.steps)
        for box in reversed(path):
            hits: NDArray[np.bool_] = self._hits(box) & (times < at[:, None])
            at = np.where(hits.any(1), self.steps - 1 - hits[:, ::-1].argmax(1), -1)
        return at

    @cached_property
    def _parts(self) -> list[Points]:
        return [side[np.linspace(0, len(side) - 1, COARSE + 1).astype(int)] for side in self.sides]

    @cached_property
    def _cells(self) -> list[Bounds]:
        """Coarse boxes: all combinations of a part of each dimension, where they are few."""
        parts = self._parts
        if len(parts) > FEW_DIMENSIONS:
            return [slab for slabs in self._slabs for slab in slabs]
        return [
            (
                np.array([part[i] for part, i in zip(parts, cell, strict=True)]),
                np.array([part[i + 1] for part, i in zip(parts, cell, strict=True)]),
            )
            for cell in product(*(range(COARSE) for _ in parts))
        ]

    @cached_property
    def _slabs(self) -> list[list[Bounds]]:
        """Coarse boxes, for each dimension: a part of it, and all of the others."""
        found: list[list[Bounds]] = []
        for dimension, part in enumerate(self._parts):
            found.append([])
            for index in range(COARSE):
                low, high = np.full(len(self.sides), -np.inf), np.full(len(self.sides), np.inf)
                low[dimension], high[dimension] = part[index], part[index + 1]
                found[-1].append((low, high))
        return found

    @cached_property
    def _halves(self) -> list[list[Bounds]]:
        """All that lies on one side of a place, for each dimension: what a coarse box hides where most episodes go."""
        unbounded = np.full(len(self.sides), np.inf)
        found: list[list[Bounds]] = []
        for dimension, side in enumerate(self.sides):
            found.append([])
            for place in side[1:-1]:
                low, high = -unbounded, unbounded.copy()
                low[dimension] = high[dimension] = place
                found[-1] += [(low, unbounded), (-unbounded, high)]
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
                    if moved[0][dimension] < moved[1][dimension]:
                        value = worth(moved)
                        if value > best or (value == best and np.isinf(place)):  # sides that say nothing are left out
                            box, best = moved, value
            if best == before:
                break
        return box
