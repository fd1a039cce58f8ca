"""Landmarks: what every success of a branch passes, in order.

A sequence found by contrast holds only what failures have tested. Where the world itself forces a step (a door opens
with its key alone), no failure can test it, and the contrast drops it. It is still a subgoal, so it is reported here. A
landmark is

- *required* if its omission was seen to fail: some failure visits the rest of the sequence in order without it;
- *forced* if no episode that visits the rest ever omitted it. That cannot be tested, and it is harmless.

What holds from the start of a success was not brought about there, so it is no forced landmark. That every failure
passes one, too, does not matter: each of them was once on its way to it.

Where several answers differ only in forced landmarks, one is chosen (`LandmarkSearch.choice`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.discovery.consistent import Answer
from lstoc_core.discovery.evidence import Evidence, Indices, no_repeat
from lstoc_core.trajectories.events import EventReading
from lstoc_core.trajectories.matching import KeyPath, contains, earliest_match, explained_by, segment_counts
from lstoc_core.trajectories.store import TrajectoryStore


@dataclass(frozen=True)
class Landmark:
    """What every success of a branch passes, and the evidence for it."""

    key: int
    """Observation id; with `events=`, the event's number."""
    required: bool
    """Whether its omission was seen to fail. Else it is forced: no episode ever omitted it."""
    evidence: int
    """Required: failures that visit the rest of the sequence in order without it. Forced: successes that pass it."""
    missed: float
    """Fraction of the failed episodes that never pass it; NaN if none failed."""
    change: float
    """How lasting the change is, from 0 to 1. Of an observation: the fraction of what is seen around it that is seen
    only before or only after its first visit. Of an event: the fraction of the steps since it first happened in which
    it holds, ten steps at least, as the mean over the successes."""
    name: str = ""
    observation: NDArray[Any] | None = field(default=None, compare=False, repr=False)
    """What the agent saw there."""

    def __str__(self) -> str:
        told = f"required: {self.evidence} failures omit it" if self.required else f"forced: {self.evidence} of "
        return f"{self.name} ({told if self.required else told + f'{self.evidence} successes pass it'})"


Branch = tuple[Landmark, ...]
"""The landmarks of one satisfying sequence, in order."""


class LandmarkSearch:
    """Landmarks of satisfying sequences in all trajectories of a store.

    reading: of a store of events, what it was read from; None: ids are observations.
    """

    def __init__(self, store: TrajectoryStore, evidence: Evidence, reading: EventReading | None = None) -> None:
        self.store, self.evidence, self.reading = store, evidence, reading
        self._missed: dict[int, float] = {}
        self._change: dict[int, float] = {}
        self._firsts: dict[int, bytes] = {}

    def branches(self, paths: Sequence[KeyPath]) -> tuple[Branch, ...]:
        """The landmarks of each sequence."""
        return tuple(self._branch(path, paths) for path in paths)

    def _branch(self, path: KeyPath, paths: Sequence[KeyPath]) -> Branch:
        evidence = self.evidence
        own = contains(evidence.positives, path)
        alone = own & ~explained_by(evidence.positives, [other for other in paths if other != path])
        successes = np.flatnonzero(alone if alone.any() else own)
        refuters = [evidence.refuters(path[:i] + path[i + 1 :]) for i in range(len(path))]
        chain, tested = path, dict(zip(range(len(path)), refuters, strict=True))
        for key in self._candidates(path, successes):
            slot = self._slot(chain, key, successes)
            if slot is not None:
                chain = (*chain[:slot], key, *chain[slot:])
                tested = {index + (index >= slot): count for index, count in tested.items()}
        return tuple(self._landmark(key, tested.get(index, 0), len(successes)) for index, key in enumerate(chain))

    def _landmark(self, key: int, refuters: int, successes: int) -> Landmark:
        return Landmark(key, refuters > 0, refuters or successes, self.missed(key), self.change(key))

    def _candidates(self, path: KeyPath, successes: Indices) -> list[int]:
        """One state for each moment that all of these successes pass and none was given, the most telling first."""
        evidence = self.evidence
        enough = len(successes) - evidence.tolerated(len(successes))
        visited = evidence.visits(evidence.positives, (), (), successes)
        keys = np.flatnonzero(visited >= max(1, enough)).tolist()
        named = {self._first(key) for key in path}
        moments = self.moments(key for key in keys if not self.given(key))
        free = [alike for first, alike in moments.items() if first not in named]
        free.sort(key=lambda alike: max(map(self.telling, alike)), reverse=True)
        return [max(alike, key=self.specific) for alike in free]

    def _slot(self, chain: KeyPath, key: int, successes: Indices) -> int | None:
        """The first slot of the chain into which the key fits, so that all of these successes contain it; else None."""
        enough = len(successes) - self.evidence.tolerated(len(successes))
        for slot in range(len(chain) + (not self.evidence.prompt)):
            longer = (*chain[:slot], key, *chain[slot:])
            if no_repeat(longer) and self.evidence.supported(longer, successes) >= max(1, enough):
                return slot
        return None

    def moments(self, keys: Iterable[int]) -> dict[bytes, list[int]]:
        """Different moments, and which of the keys name each: those that all successes first pass in the same step.

        That a door is open and that it is no longer locked begin together, and say the same.
        """
        found: dict[bytes, list[int]] = {}
        for key in keys:
            found.setdefault(self._first(key), []).append(key)
        return found

    def _first(self, key: int) -> bytes:
        """The step in which each success first passes a key, as bytes."""
        if key not in self._firsts:
            store = self.evidence.positives
            self._firsts[key] = store.first_of(earliest_match(store, (key,))).tobytes()
        return self._firsts[key]

    def choice(self, several: Sequence[Answer], core: Iterable[KeyPath]) -> Answer:
        """Of answers that differ only in forced landmarks, the one that says most.

        It names the most different moments. Of such answers, it is the one whose least telling moment beyond the core
        tells most. Each moment has the most specific of its names.
        """
        every = self.moments({key for answer in several for key in answer.assignment.values()})
        telling = {first: max(map(self.telling, alike)) for first, alike in every.items()}
        specific = {key: self.specific(key) for alike in every.values() for key in alike}
        tested = self.moments(key for path in core for key in path)

        def says(answer: Answer) -> tuple[Any, ...]:
            keys = [key for _, key in sorted(answer.assignment.items())]
            named = self.moments(keys)
            forced = sorted(telling[first] for first in named.keys() - tested.keys())
            return len(named), forced, [specific[key] for key in keys]

        return max(several, key=says)

    def telling(self, key: int) -> tuple[bool, float, float, int]:
        """Whether it is brought about, how lasting it is, how many failures miss it; of equals, the one seen first."""
        missed = self.missed(key)
        return not self.given(key), self.change(key), 0.0 if np.isnan(missed) else missed, -key

    def specific(self, key: int) -> tuple[float, int]:
        """How specific a name is: the one that successes see least often says most; of equals, the one seen first."""
        return -self.reading.share(key) if self.reading is not None else 0.0, -key

    def given(self, key: int) -> bool:
        """Whether an event holds at the start of a success. A start observation is no visit, so none is given."""
        if self.reading is None:
            return False
        return self.reading.given(key) > self.evidence.tolerated(len(self.evidence.positives))

    def missed(self, key: int) -> float:
        """Fraction of the failed episodes that never visit a state; NaN if none failed."""
        if key not in self._missed:
            failed = ~self.store.labels
            visited = contains(self.store, (key,))
            self._missed[key] = float((~visited[failed]).mean()) if failed.any() else float("nan")
        return self._missed[key]

    def change(self, key: int) -> float:
        """How lasting the change is that comes with a key (see `Landmark.change`)."""
        if key not in self._change:
            self._change[key] = self.reading.lasting(key) if self.reading is not None else self._only_on_one_side(key)
        return self._change[key]

    def _only_on_one_side(self, key: int) -> float:
        """Fraction of the states that are visited only before, or only from the first visit of this one on."""
        store, match = self.store, earliest_match(self.store, (key,))
        chosen = np.flatnonzero(match >= 0)
        first = match[chosen]
        before = segment_counts(store, store.offsets[chosen], first, store.num_ids) > 0
        behind = segment_counts(store, first - 1, store.offsets[chosen + 1], store.num_ids) > 0
        seen = int((before | behind).sum())
        return 1 - int((before & behind).sum()) / seen if seen else 0.0
