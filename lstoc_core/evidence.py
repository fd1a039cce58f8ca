"""What labelled trajectories say about satisfying sequences: which they support, which they refute.

The label is exact, so a sequence is satisfying if and only if no trajectory visits it in order and still fails. Given
the structure of the answer as well, an FSM whose names are to be found, the trajectories may leave but one way to give
its names to states (`Evidence.completions`), even where they alone leave several sequences open.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, islice, permutations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from lstoc_core.trajectories import TrajectoryStore, earliest_match, latest_match, segment_counts

Path = tuple[int, ...]
"""Observation ids of key states, in the order in which they are visited."""
Word = tuple[str, ...]
"""A satisfying sequence of an FSM: names of key states that are still to be found."""
Names = dict[str, int]
Counts = NDArray[np.int64]
MAX_ANSWERS = 50
"""So many answers of an FSM's structure are none."""


class Evidence:
    """Successes and failures of a store.

    prompt: episodes end at their first success, so that a success without its last step is a failure, too.
    noise: share of labels that may be wrong.
    """

    def __init__(self, store: TrajectoryStore, *, prompt: bool = True, noise: float = 0.0) -> None:
        self.num_ids, self.noise = store.num_ids, noise
        self.positives = store.select(store.positives)
        self.failures = store.select(store.negatives)
        if prompt and len(self.positives):
            kept = np.ones(self.positives.size, np.bool_)
            kept[self.positives.offsets[1:] - 1] = False
            lengths = self.positives.lengths - 1
            self.failures.append_flat(self.positives.ids[kept], lengths, np.zeros(len(lengths), np.bool_))

    def supported(self, path: Path, successes: Counts) -> int:
        """How many of the successes contain a path."""
        return int((earliest_match(self.positives, path)[successes] >= 0).sum())

    def refuters(self, path: Path) -> int:
        """Failures that contain a path."""
        return int((earliest_match(self.failures, path) >= 0).sum())

    def admits(self, path: Path) -> bool:
        """Whether a path admits more failures than noise explains: then it is not satisfying."""
        refuters = self.refuters(path)
        return not path or refuters > self.tolerated(refuters + self.supported(path, np.arange(len(self.positives))))

    def tolerated(self, trials: int) -> int:
        """Wrong labels among `trials` that noise alone exceeds once in a thousand."""
        return int(binom.ppf(0.999, trials, self.noise)) if self.noise else 0

    def slot(self, store: TrajectoryStore, before: Path, behind: Path, chosen: Counts) -> tuple[Counts, Counts]:
        """Bounds of the part strictly between the earliest visit of `before` and the latest visit of `behind`."""
        start, stop = earliest_match(store, before)[chosen], latest_match(store, behind)[chosen]
        both = (start >= 0) & (stop >= 0)
        return start[both], stop[both]

    def completions(self, anchors: Sequence[Path], structure: Sequence[Word], decisive: int) -> list[tuple[Path, ...]]:
        """All answers of a given structure that agree with the data and hold as many of the anchors as possible.

        structure: the FSM's minimal sequences, words over unknown names. An answer gives each name a state of its own
        such that nothing refutes the sequences, they explain every success, and each alone at least `decisive` ones.
        Empty, too, if there are so many that none can be meant.
        """
        for size in range(len(anchors), 0, -1):
            answers = {
                answer
                for kept in combinations(anchors, size)
                for names in _placements(kept, structure)
                for answer in islice(self._complete(names, structure, decisive), MAX_ANSWERS)
            }
            if answers:
                return sorted(answers) if len(answers) < MAX_ANSWERS else []
        return []

    def _complete(self, names: Names, structure: Sequence[Word], decisive: int) -> Iterator[tuple[Path, ...]]:
        """Answers with these names given, at least one word's, the others tried out where successes leave a choice."""
        words = [word for word in structure if names.keys() >= set(word)]
        paths = [tuple(names[name] for name in word) for word in words]
        if any(self.admits(path) for path in paths):
            return
        covers = [earliest_match(self.positives, path) >= 0 for path in paths]
        explained = np.sum(covers, axis=0)
        rest = np.flatnonzero(explained == 0)
        if len(words) == len(structure):
            alone = [(cover & (explained == 1)).sum() for cover in covers]
            if len(rest) <= self.tolerated(len(self.failures)) and min(alone) >= decisive:
                yield tuple(sorted(paths))
            return
        open_ = [word for word in structure if word not in words]
        word = min(open_, key=lambda word: len(set(word) - names.keys()))
        place, name = next((place, name) for place, name in enumerate(word) if name not in names)
        before = tuple(names[other] for other in word[:place] if other in names)
        behind = tuple(names[other] for other in word[place + 1 :] if other in names)
        enough = len(rest) - self.tolerated(len(self.failures)) if len(open_) == 1 else 0
        covered = segment_counts(self.positives, *self.slot(self.positives, before, behind, rest), self.num_ids)
        covered[list(names.values())] = 0
        for state in np.flatnonzero(covered >= max(enough, decisive)):
            yield from self._complete({**names, name: int(state)}, structure, decisive)


def _placements(paths: Sequence[Path], structure: Sequence[Word]) -> Iterator[Names]:
    """Names under which the paths are different words of the structure."""
    for words in permutations(structure, len(paths)):
        if [*map(len, words)] == [*map(len, paths)]:
            pairs = {pair for word, path in zip(words, paths, strict=True) for pair in zip(word, path, strict=True)}
            names = dict(pairs)
            if len(pairs) == len(names) == len(set(names.values())):
                yield names
