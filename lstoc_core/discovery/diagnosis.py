"""Why no answer is consistent: the nearest answer, the episodes that contradict it, and what they speak against.

With exact labels, an answer that one episode contradicts stays contradicted. So when none is left, no further episode
can help: one of the assumptions in `consistent` does not hold. Each is dropped in turn, to see which one would let an
answer agree.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Protocol, runtime_checkable

import numpy as np

from lstoc_core.discovery.consistent import MAX_WORK, Answer, TooManyTries, answers
from lstoc_core.discovery.contradictions import contradictions
from lstoc_core.discovery.evidence import Evidence, Indices
from lstoc_core.discovery.method import Missing
from lstoc_core.discovery.places import sides, told_apart
from lstoc_core.logic.fsm import Word
from lstoc_core.trajectories.matching import KeyPath, earliest_match
from lstoc_core.trajectories.store import TrajectoryStore

PARTS = 6
"""Parts of the episodes whose own consistent answers are candidates for the nearest one."""
SAMPLE = 1_000
"""Most episodes by which candidates are compared."""
WORK, NOISY = MAX_WORK // 20, MAX_WORK // 8
"""Budget of each search; of one that allows for wrong labels."""
MOST_NAMES = 4
"""Most names that are tried at a second place, or at one with another."""
PASSES = 5
"""Fewest passages by which a group of neighbours counts as a place of its own."""
LOOKED_AT = 40
"""Observations of contradicting episodes that may look like two places, the most visited ones."""
TRIES = 12
"""Most ways in which two places are told apart."""
RATES = (0.02, 0.05, 0.1, 0.2)
"""Rates of wrong labels for which an answer is sought."""
LATE = 0.9
"""Least share of successes that go on, for episodes to be suspected of running past success."""
SHARE = 0.25
"""Largest share of contradicting episodes that wrong labels are suspected of."""
SHOWN = 5
"""Most episodes that are listed."""


@runtime_checkable
class Exhaustible(Protocol):
    """A discovery method that may find out that no answer is left."""

    @property
    def exhausted(self) -> bool:
        """Whether no further episode can help."""
        ...

    def explain(self, store: TrajectoryStore, places: TrajectoryStore | None) -> None:
        """Say again why, by all trajectories, and by the same as places of a map if there is one."""
        ...


@dataclass(frozen=True)
class Suspect:
    """An assumption that may not hold."""

    name: str
    explains: int
    """Contradicting episodes that it would explain."""
    sentence: str


@dataclass(frozen=True)
class Diagnosis:
    """What is known where no answer is consistent."""

    nearest: tuple[KeyPath, ...]
    """Paths of the answer that the fewest episodes contradict, among those that were looked at."""
    contradicting: tuple[int, ...]
    """Indices of these episodes."""
    episodes: int
    suspects: tuple[Suspect, ...]
    """Those that explain most first."""

    def missing(self) -> Missing:
        """In words."""
        shown = ", ".join(map(str, self.contradicting[:SHOWN])) + (", …" if len(self.contradicting) > SHOWN else "")
        places = " | ".join(["{}"] * len(self.nearest))
        near = f"; nearest is {places}, contradicted by {len(self.contradicting)} of {self.episodes} episodes ({shown})"
        return Missing.one(
            "no assignment of the FSM's symbols to states is consistent with every episode, and no further episode can "
            f"change that{near if self.nearest else ''}; suspects: "
            + "; ".join(f"{suspect.name}: {suspect.sentence}" for suspect in self.suspects),
            *self.nearest,
        )


def diagnose(
    store: TrajectoryStore,
    structure: Sequence[Word],
    unconstrained: Sequence[KeyPath],
    *,
    prompt: bool,
    places: TrajectoryStore | None = None,
) -> Diagnosis:
    """The nearest answer and the suspects, where no answer is consistent with the trajectories.

    unconstrained: sequences that explain every success and no failure without regard to the structure, if there are.
    places: the same trajectories as places of a map instead of observations, if there is one.
    """
    nearest = _nearest(store, structure, prompt)
    wrong = contradictions(store, nearest.paths, prompt=prompt)
    found = [
        *_running_on(store, structure, prompt, wrong),
        *_start_counts(store, structure, prompt, wrong),
        *_two_places(store, structure, prompt, wrong),
        *_keys_alike(store, structure, prompt, wrong),
        *_alike(store, structure, prompt, nearest, wrong, places),
        *_wrong_labels(store, wrong),
        _other_fsm(unconstrained, wrong),
    ]
    found.sort(key=lambda suspect: -suspect.explains)
    return Diagnosis(nearest.paths, tuple(wrong.tolist()), len(store), tuple(found))


# --- the nearest answer -----------------------------------------------------------------------------------------------


def _consistent(
    store: TrajectoryStore, structure: Sequence[Word], prompt: bool, limit: int, noise: float = 0.0
) -> list[Answer]:
    """Some answers that are consistent with the trajectories; none if the search takes too long."""
    try:
        return answers(Evidence(store, prompt=prompt, noise=noise), structure, limit, work=NOISY if noise else WORK)
    except TooManyTries:
        return []


def _nearest(store: TrajectoryStore, structure: Sequence[Word], prompt: bool) -> Answer:
    """Of the answers that parts of the episodes, or most labels, agree with: the one that the fewest contradict."""
    size = max(len(store) // PARTS, 1)
    candidates: dict[tuple[KeyPath, ...], Answer] = {}
    for first in range(0, len(store), size):
        part = np.arange(first, min(first + size, len(store)))[:SAMPLE]
        for answer in _consistent(store.select(part), structure, prompt, limit=20):
            candidates.setdefault(answer.paths, answer)
    for rate in RATES:  # of the answers that the fewest labels contradict, one will do
        if noisy := _consistent(store, structure, prompt, limit=1, noise=rate):
            candidates.setdefault(noisy[0].paths, noisy[0])
            break
    sample = store.select(np.unique(np.linspace(0, len(store) - 1, SAMPLE).astype(np.int64)))
    return min(
        candidates.values(),
        key=lambda answer: (len(contradictions(sample, answer.paths, prompt=prompt)), answer.paths),
        default=Answer((), {}),
    )


# --- suspects ---------------------------------------------------------------------------------------------------------


def _running_on(store: TrajectoryStore, structure: Sequence[Word], prompt: bool, wrong: Indices) -> Iterator[Suspect]:
    """Do episodes go on after their success? Then an answer agrees with the labels alone."""
    for answer in _consistent(store, structure, False, limit=1) if prompt else ():
        successes = store.select(store.positives)
        ends = np.array([earliest_match(successes, path) for path in answer.paths])
        early = ((ends >= 0) & (ends < successes.offsets[1:] - 1)).any(axis=0)
        if early.mean() < LATE:
            return
        yield Suspect(
            "episodes that run past success",
            len(wrong),
            "without regard to where they end, an answer agrees; end them at the success, or set "
            "GuidedConfig(prompt=False)",
        )


def _start_counts(store: TrajectoryStore, structure: Sequence[Word], prompt: bool, wrong: Indices) -> Iterator[Suspect]:
    """Is the start a visit? Then an answer agrees once a step is put before it."""
    before = TrajectoryStore()
    places = store.offsets[:-1]
    before.append_flat(np.insert(store.ids, places, store.num_ids), store.lengths + 1, store.labels)
    starts = set(store.ids[places[wrong]].tolist())
    for answer in _consistent(before, structure, prompt, limit=1):
        if not starts & set(answer.assignment.values()):
            return
        yield Suspect(
            "a start that counts", len(wrong), "with the start as a visit, an answer agrees; start at another place"
        )


def _two_places(store: TrajectoryStore, structure: Sequence[Word], prompt: bool, wrong: Indices) -> Iterator[Suspect]:
    """Does a name stand for two places? Then an answer agrees that has another name for the second one."""
    for name in _names(structure):
        second = f"{name}'"
        for answer in _consistent(store, _with_second(structure, name, second), prompt, limit=1):
            places = [answer.assignment[each] for each in (name, second) if each in answer.assignment]
            yield Suspect(
                "a name at two places",
                len(wrong),
                f"with {name} at {' and at '.join(map(str, places))}, an answer agrees; give each place its own name",
            )
            return


def _with_second(structure: Sequence[Word], name: str, second: str) -> list[Word]:
    """The words, with the name or the second one at each of its places."""
    words: list[Word] = []
    for word in structure:
        ways: list[Word] = [()]
        for symbol in word:
            ways = [(*way, each) for way in ways for each in ((name, second) if symbol == name else (symbol,))]
        words += ways
    return words


def _keys_alike(store: TrajectoryStore, structure: Sequence[Word], prompt: bool, wrong: Indices) -> Iterator[Suspect]:
    """Do two key states look alike? Then an answer agrees that has one state for both."""
    for one, two in combinations(_names(structure), 2):
        merged = [tuple(one if symbol == two else symbol for symbol in word) for word in structure]
        for answer in _consistent(store, merged, prompt, limit=1):
            yield Suspect(
                "aliasing",
                len(wrong),
                f"if {one} and {two} are both observation {answer.assignment.get(one)}, an answer agrees; add to the "
                "observation what tells them apart",
            )
            return


def _names(structure: Sequence[Word]) -> list[str]:
    """The symbols, at most MOST_NAMES of them."""
    return list(dict.fromkeys(symbol for word in structure for symbol in word))[:MOST_NAMES]


def _alike(
    store: TrajectoryStore,
    structure: Sequence[Word],
    prompt: bool,
    nearest: Answer,
    wrong: Indices,
    places: TrajectoryStore | None,
) -> Iterator[Suspect]:
    """Do two places look alike? Then an answer agrees once they are told apart, by the map or by their neighbours.

    Where none does, an observation is suspected all the same if who comes to it from one side never leaves on another.
    """
    visited = np.bincount(store.select(wrong).ids, minlength=store.num_ids) if len(wrong) else np.zeros(store.num_ids)
    keys = [*dict.fromkeys(key for path in nearest.paths for key in path)]
    states = [*dict.fromkeys((*keys, *np.argsort(-visited, kind="stable").tolist()[:LOOKED_AT]))]
    ways = ((state, *way) for state in states for way in told_apart(store, state, places))
    for state, apart, one, two in islice(ways, TRIES):
        if _consistent(apart, structure, prompt, limit=1):
            yield _two_alike(state, len(wrong), one, two, "told apart, an answer agrees; ")
            return
    for state in states:
        passed = [side.neighbours for side in sides(store, state) if side.passages >= PASSES]
        if len(passed) > 1:
            holding = sum(bool((store.trajectory(int(index)) == state).any()) for index in wrong[:SAMPLE])
            yield _two_alike(state, holding, passed[0], passed[1], "")
            return


def _two_alike(state: int, explains: int, one: Iterable[int], two: Iterable[int], found: str) -> Suspect:
    return Suspect(
        "aliasing",
        explains,
        f"observation {state} looks like two places, one beside {sorted(one)}, one beside {sorted(two)}; {found}add to "
        "the observation what tells them apart",
    )


def _wrong_labels(store: TrajectoryStore, wrong: Indices) -> Iterator[Suspect]:
    """Are some labels wrong? Then few episodes contradict the nearest answer."""
    share, successes = len(wrong) / len(store), int(store.labels[wrong].sum())
    if 0 < share <= SHARE and successes < store.labels.sum():  # else it would be all of them
        kinds = f"{successes} successes and {len(wrong) - successes} failures"
        rate = np.ceil(100 * share) / 100
        yield Suspect(
            "noise",
            len(wrong) if share < SHARE / 5 else len(wrong) // 2,
            f"if {kinds} are labelled wrongly, or hidden conditions decide them, {share:.1%} of the labels are; set "
            f"GuidedConfig(noise={rate:.2f})",
        )


def _other_fsm(unconstrained: Sequence[KeyPath], wrong: Indices) -> Suspect:
    """Is it another task? Then sequences that the FSM does not have explain every success."""
    if unconstrained:
        ways = " | ".join(str(list(path)) for path in unconstrained[:SHOWN])
        return Suspect("FSM", len(wrong), f"without it, {ways} explain every success and no failure; check it")
    return Suspect("FSM", 0, "it may describe another task; check it")
