"""Which answers are consistent with the trajectories, given the structure of the answer: an FSM with its symbols.

An *assignment* gives each symbol in the FSM's minimal sequences a state of its own. It is *consistent* if it predicts
every episode's outcome: no failure contains one of its sequences, and every success contains one, first at its end.

If the truth is consistent and exactly one assignment is, it is the truth. If several are, nothing in these trajectories
tells them apart. So it is sound to stop when one is left, and no sound rule can stop earlier on the same data.

The truth is consistent under these assumptions:

- labels are exact;
- the label depends on the visits of key states alone, and the start observation is no visit;
- each key state's observation belongs to one place, and each name to one place;
- with `prompt`, an episode ends at its first success;
- the FSM describes the task.

Where one of them fails, a wrong answer can be proved. Later episodes then contradict it sooner or later
(`contradictions`), and `discover` withdraws it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lstoc_core.discovery.evidence import Evidence, Indices
from lstoc_core.logic.fsm import Word
from lstoc_core.trajectories.matching import KeyPath

Assignment = dict[str, int]
"""Symbol -> observation id of its state."""
MAX_WORK = 1_000_000_000
"""Budget of one search, in `Evidence.work`: about a second."""


@dataclass(frozen=True, order=True)
class Answer:
    """The FSM's sequences as paths of states.

    With fewer paths than the FSM has sequences it is *open*. Its paths already explain every success, so the
    trajectories do not constrain the other sequences.
    """

    paths: tuple[KeyPath, ...]
    """Sorted."""
    assignment: Assignment = field(compare=False)
    """One assignment that gives these paths; there are others if symbols are interchangeable."""

    def complete(self, structure: Sequence[Word]) -> bool:
        """Whether it has a path for every sequence."""
        return len(self.paths) == len(structure)


class TooManyTries(RuntimeError):
    """The search was given up: the trajectories exclude too few assignments."""


def answers(
    evidence: Evidence, structure: Sequence[Word], limit: int | None = None, *, work: int | None = None
) -> list[Answer]:
    """The consistent answers, sorted; `limit` of them if there are more. TooManyTries after so much work (MAX_WORK).

    With `evidence.noise`, an answer may disagree with as many labels as chance explains.
    """
    found: dict[tuple[KeyPath, ...], Answer] = {}
    for answer in _Search(evidence, structure, MAX_WORK if work is None else work).answers({}):
        found.setdefault(answer.paths, answer)
        if len(found) == limit:
            break
    return sorted(found.values())


def proved(found: Sequence[Answer], structure: Sequence[Word]) -> bool:
    """Whether exactly one answer is consistent, and it is complete. found: all answers, or at least two of them."""
    return len(found) == 1 and found[0].complete(structure)


def alike(evidence: Evidence, structure: Sequence[Word]) -> list[Answer]:
    """All consistent answers, if they differ only in *forced* elements, which no episode has ever omitted; else none.

    The *core* of an answer is its paths without the elements whose removal admits no refuter. The answers are alike if
    they are complete and have the same core, or cores of the same moments: then no episode says anything about where
    they differ.
    """
    found: dict[tuple[KeyPath, ...], Answer] = {}
    first: list[KeyPath] | None = None
    for answer in _Search(evidence, structure, MAX_WORK).answers({}):
        found.setdefault(answer.paths, answer)
        core = sorted({evidence.pruned(path) for path in answer.paths})
        first = core if first is None else first
        if not answer.complete(structure) or not _same_core(evidence, first, core):
            return []
    return sorted(found.values())


def _same_core(evidence: Evidence, first: Sequence[KeyPath], core: Sequence[KeyPath]) -> bool:
    return len(first) == len(core) and all(
        path in core or any(evidence.same_moments(path, other) for other in core) for path in first
    )


class _Search:
    """Depth-first search. A success that no assigned sequence explains must contain one of the open sequences."""

    def __init__(self, evidence: Evidence, structure: Sequence[Word], work: int) -> None:
        self.evidence, self.structure = evidence, structure
        self.positives, self.failures = evidence.positives, evidence.failures
        self.most = evidence.work + work
        """Work after which the search is given up."""
        self.done: set[frozenset[tuple[str, int]]] = set()
        """Partial assignments already searched. Different successes lead to the same ones."""

    def answers(self, names: Assignment) -> Iterator[Answer]:
        """Answers that extend this partial assignment; none if it was searched before."""
        if (key := frozenset(names.items())) in self.done:
            return
        self.done.add(key)
        open_ = [word for word in self.structure if not names.keys() >= set(word)]
        paths = [_path(word, names) for word in self.structure if word not in open_]
        if any(self.evidence.admits(path) for path in paths):
            return
        explained = [self.evidence.match(self.positives, path) >= 0 for path in paths]
        rest = np.flatnonzero(~np.any(explained, axis=0)) if paths else np.arange(len(self.positives))
        if len(rest) <= self.evidence.doubtful:
            yield Answer(tuple(sorted(paths)), names)
            return
        short = rest[np.argsort(self.positives.lengths[rest], kind="stable")]
        for success in short[: self.evidence.doubtful + 1]:  # at most `doubtful` labels are wrong
            for word in sorted(open_, key=lambda word: len(set(word) - names.keys())):
                for more in self._namings(names, word, success, rest, open_):
                    yield from self.answers(more)

    def _namings(
        self, names: Assignment, word: Word, success: int, rest: Indices, open_: Sequence[Word]
    ) -> Iterator[Assignment]:
        """Extensions of `names` to all symbols of the word such that the success contains it."""
        free = [name for name in dict.fromkeys(reversed(word)) if name not in names]
        if not free:
            if self.evidence.supported(_path(word, names), np.array([success])):
                yield names
            return
        shared = [name for name in free if all(name in other for other in open_)]
        name = word[-1] if word[-1] in free else (shared or free)[0]
        place = len(word) - 1 - word[::-1].index(name)
        slot = _path(word[:place], names), _path(word[place + 1 :], names)
        possible = self._possible(place == len(word) - 1, slot, success)
        if name in shared:  # all open sequences contain it, so every unexplained success visits it
            slot_of_all = slot if len(open_) == 1 else ((), ())
            possible &= self.evidence.visits(self.positives, *slot_of_all, rest) >= len(rest) - self.evidence.doubtful
        if len(free) == word.count(name) == 1 and possible.any():
            refuters = self.evidence.visits(self.failures, *slot, np.arange(len(self.failures)))
            possible &= refuters <= self.evidence.tolerated(refuters + len(self.positives))
        possible[list(names.values())] = False
        for state in np.flatnonzero(possible):
            if self.evidence.work > self.most:
                raise TooManyTries("the trajectories exclude too little: more assignments than can be tried")
            yield from self._namings({**names, name: int(state)}, word, success, rest, open_)

    def _possible(self, last: bool, slot: tuple[KeyPath, KeyPath], success: int) -> NDArray[np.bool_]:
        """States [num_ids] that the success visits in the slot; with `prompt`, it ends on the last of its sequence."""
        possible: NDArray[np.bool_]
        if last and self.evidence.prompt:
            possible = np.zeros(self.evidence.num_ids, np.bool_)
            begin, end = self.positives.last_steps(np.array([success]))
            possible[self.positives.ids[begin[0] : end[0]]] = True
        else:
            possible = self.evidence.visits(self.positives, *slot, np.array([success])) > 0
        return possible


def _path(word: Word, names: Assignment) -> KeyPath:
    """States of the word's assigned symbols, in order."""
    return tuple(names[name] for name in word if name in names)
