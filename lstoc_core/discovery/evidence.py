"""Evidence for and against satisfying sequences: successes that support them, failures that refute them.

With exact labels, a sequence is satisfying if and only if no failure visits it in order.
"""

from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lstoc_core.trajectories.matching import KeyPath, earliest_match, latest_match, segment_counts
from lstoc_core.trajectories.store import TrajectoryStore

Indices = NDArray[np.int64]
"""Indices of trajectories, or flat positions in a store."""
Number = TypeVar("Number", int, NDArray[np.int64])
CALL, TRAJECTORY, ID, QUANTILES = 12_000, 30, 10, 1_000_000
"""Work, roughly in nanoseconds: of matching one state, for each trajectory, of reading an id, of quantiles of noise."""


class Evidence:
    """Successes and failures of a store.

    prompt: episodes end at their first success, even if its label is flipped. So every success minus its last step is a
    certain failure, and a flipped label puts only the last step of a failure in doubt.
    noise: fraction of labels that may be flipped.
    """

    def __init__(self, store: TrajectoryStore, *, prompt: bool = True, noise: float = 0.0) -> None:
        self.num_ids, self.prompt, self.noise = store.num_ids, prompt, noise
        self.work = 0
        """Work done so far. It counts operations, not time, so that what depends on it can be repeated."""
        self.positives = store.select(store.positives)
        self.failures = store.select(store.negatives)
        self.doubtful = self.tolerated(len(self.failures))
        """Most failures that may be labelled as successes."""
        self._label_counts_from = self.failures.offsets[:-1]
        """Per failure, the flat position before which it is a certain failure, whatever its label."""
        if prompt:
            self._label_counts_from = self.failures.last_steps(np.arange(len(self.failures)))[0]
        if prompt and len(self.positives):
            every = np.arange(len(self.positives))
            self.failures.extend(
                self.positives.cut(every, self.positives.offsets[:-1], self.positives.last_steps(every)[0]), label=False
            )
            self._label_counts_from = np.append(self._label_counts_from, self.failures.offsets[-len(every) :])

    def match(self, store: TrajectoryStore, path: KeyPath) -> Indices:
        """`earliest_match`, counted as work."""
        self.work += CALL + len(path) * (CALL + TRAJECTORY * len(store))
        return earliest_match(store, path)

    def supported(self, path: KeyPath, successes: Indices) -> int:
        """How many of the successes contain a path."""
        return int((self.match(self.positives, path)[successes] >= 0).sum())

    def refuters(self, path: KeyPath) -> int:
        """Failures that contain a path."""
        return int((self.match(self.failures, path) >= 0).sum())

    def admits(self, path: KeyPath) -> bool:
        """Whether the path has more refuters than noise explains: it is not satisfying. Nor is the empty path."""
        match = self.match(self.failures, path)
        refuting = match >= 0
        if not self.noise or (refuting & (match < self._label_counts_from)).any():
            return not path or bool(refuting.any())
        refuters = int(refuting.sum())
        support = self.supported(path, np.arange(len(self.positives)))
        return not path or refuters > self.tolerated(refuters + support)

    def pruned(self, path: KeyPath) -> KeyPath:
        """The path without elements, front first, whose removal admits no refuter. This removes bottlenecks."""
        for index in range(len(path) - self.prompt):
            shorter = path[:index] + path[index + 1 :]
            if no_repeat(shorter) and not self.admits(shorter):
                return self.pruned(shorter)
        return path

    def same_moments(self, path: KeyPath, other: KeyPath) -> bool:
        """Whether both paths are visited in the same steps, element by element, in every episode.

        Only events can be: that a door is open and that it is no longer closed. No episode can tell such paths apart.
        """
        ends = [end for end in range(1, len(path) + 1) if path[:end] != other[:end]]
        return len(path) == len(other) and all(
            np.array_equal(self._moments(store, path[:end]), self._moments(store, other[:end]))
            for store in (self.positives, self.failures)
            for end in ends
        )

    def _moments(self, store: TrajectoryStore, path: KeyPath) -> Indices:
        """Where the step begins in which each trajectory has visited a path."""
        return store.first_of(self.match(store, path))

    def tolerated(self, trials: Number) -> Number:
        """Most flipped labels to expect among `trials` (a number or an array): the 99.9 % quantile under `noise`."""
        if not self.noise:
            return 0 * trials
        self.work += QUANTILES
        from scipy.stats import binom  # imported here: slow

        most: Number = binom.ppf(0.999, trials, self.noise).astype(np.int64)[()]
        return most

    def slot(
        self, store: TrajectoryStore, before: KeyPath, behind: KeyPath, chosen: Indices
    ) -> tuple[Indices, Indices]:
        """Flat bounds of the open segments between the earliest match of `before` and the latest match of `behind`."""
        self.work += len(behind) * (CALL + TRAJECTORY * len(store))
        start, stop = self.match(store, before)[chosen], latest_match(store, behind)[chosen]
        both = (start >= 0) & (stop >= 0)
        return store.last_of(start[both]), store.first_of(stop[both])

    def visits(self, store: TrajectoryStore, before: KeyPath, behind: KeyPath, chosen: Indices) -> NDArray[np.int64]:
        """For each state [num_ids], how many of the chosen trajectories visit it in that slot."""
        start, stop = self.slot(store, before, behind, chosen)
        self.work += 2 * CALL + ID * int(np.maximum(stop - start, 0).sum())
        return segment_counts(store, start, stop, self.num_ids)


def no_repeat(path: KeyPath) -> bool:
    """Whether no element follows itself."""
    return all(a != b for a, b in pairwise(path))
