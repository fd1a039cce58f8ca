"""Episodes that contradict an answer: their outcome is not what its satisfying sequences predict.

An answer can be proved only under assumptions (see `consistent`). Where they do not hold, later episodes may contradict
it. So every episode after a proof is a test of it.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lstoc_core.trajectories.matching import KeyPath, earliest_match
from lstoc_core.trajectories.store import TrajectoryStore


@runtime_checkable
class Refutable(Protocol):
    """A discovery method whose answer a single episode can contradict."""

    def refuted_by(self, store: TrajectoryStore) -> NDArray[np.int64] | None:
        """Indices of the trajectories that contradict the answer; None if labels may be flipped."""
        ...


def contradictions(store: TrajectoryStore, paths: Sequence[KeyPath], *, prompt: bool = True) -> NDArray[np.int64]:
    """Indices of the trajectories whose outcome the satisfying sequences `paths` do not predict.

    prompt: a success must also end where it first contains one of them. False: only the label counts.
    """
    end = store.offsets[1:]
    first = np.full(len(store), store.size, np.int64)
    for path in paths:
        match = earliest_match(store, path)
        first = np.where(match >= 0, np.minimum(first, match), first)
    predicted = first < end
    wrong = predicted != store.labels
    if prompt:
        wrong |= predicted & (first < store.last_steps(np.arange(len(store)))[0])
    return np.flatnonzero(wrong)
