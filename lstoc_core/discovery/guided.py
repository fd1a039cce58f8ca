"""Counterexample-guided discovery of satisfying sequences ("guided"), from labelled trajectories alone.

The search (`hypotheses`) looks for sequences that successes share and no failure contains. A success that contains none
of them is unexplained: there must be another branch. Given an FSM, the method finishes when exactly one assignment of
its symbols to states is consistent with every episode's outcome (`consistent`, which lists the assumptions). Where the
world forces a step, several assignments stay consistent for ever. Then it finishes when they are `alike`: they differ
only in forced elements. It takes the one whose landmarks say most.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.discovery.consistent import Answer, Assignment, TooManyTries, alike, answers, proved
from lstoc_core.discovery.contradictions import contradictions
from lstoc_core.discovery.diagnosis import diagnose
from lstoc_core.discovery.hypotheses import (
    Finding,
    Findings,
    GuidedConfig,
    GuidedSearch,
    SearchStep,
    SlotScores,
)
from lstoc_core.discovery.landmarks import Branch, LandmarkSearch
from lstoc_core.discovery.method import Missing, Request, nested_tuples
from lstoc_core.discovery.tree import SubgoalTree
from lstoc_core.logic.fsm import Word
from lstoc_core.trajectories.events import EventReading
from lstoc_core.trajectories.matching import KeyPath
from lstoc_core.trajectories.store import TrajectoryStore

UNTESTED = 30
"""Fewest successes before an element that none of them omitted may count as forced."""
__all__ = ["Finding", "Findings", "Guided", "GuidedConfig", "SearchStep", "guided", "guided_steps"]


def guided(store: TrajectoryStore, config: GuidedConfig | None = None, contrast: SlotScores | None = None) -> Findings:
    """Satisfying sequences that explain the successes in `store` and have no refuters in it.

    contrast: scores the states of a slot, e.g. by a trained f_ω. None: the fraction of successes that visit a state
    there, minus the fraction of refuters.
    """
    return GuidedSearch(store, config or GuidedConfig(), contrast).findings()


def guided_steps(store: TrajectoryStore, config: GuidedConfig | None = None) -> dict[KeyPath, tuple[SearchStep, ...]]:
    """For each sequence that `guided` finds, the hypotheses that led to it, first to last, before pruning."""
    search = GuidedSearch(store, config or GuidedConfig(), None)
    return {path: search.steps_to(path) for path in search.findings().paths}


class Guided:
    """The guided method over a growing set of trajectories (a `DiscoveryMethod`).

    structure: minimal sequences of an FSM. With it, the method finishes when exactly one answer is consistent; or when
    all consistent ones have been alike while the number of trajectories doubled. Without it, the method finishes when
    its sequences are decided, explain every success, and have not changed while the number of trajectories doubled.
    reading: how trajectories are read as events; keys are then events. None: keys are observation ids.
    """

    def __init__(
        self,
        config: GuidedConfig | None = None,
        contrast: SlotScores | None = None,
        structure: Sequence[Word] = (),
        reading: EventReading | None = None,
    ) -> None:
        self.config = config or GuidedConfig()
        self.contrast, self.structure, self.reading = contrast, structure, reading
        self.findings = Findings((), 0, 0)
        self.names: Assignment | None = None
        """Symbol -> observation id, once the method has finished."""
        self.alike: dict[str, tuple[int, ...]] = {}
        """Symbol -> the states that it may have, where the answer is one of several that are alike. Else empty."""
        self.finished = False
        self.missing = Missing.one("no success was seen")
        self.exhausted = False
        """Whether no assignment is consistent with exact labels, so that no further episode can help."""
        self._since = 0
        """Number of trajectories when the sequences last changed."""
        self._alike_since: tuple[tuple[KeyPath, ...], int] = ((), 0)
        """The core that all consistent answers share, and the number of trajectories when it was first seen."""

    @property
    def paths(self) -> tuple[KeyPath, ...]:
        """Satisfying sequences, as observation ids."""
        return self.findings.paths

    @property
    def proved(self) -> bool:
        """Whether exactly one assignment is consistent with every episode, all labels being exact."""
        return self.finished and bool(self.structure) and not self.config.noise and not self.alike

    @property
    def key_states(self) -> list[int]:
        """Ŝ_K: observation ids of the key states, in the order of the sequences."""
        return list(dict.fromkeys(key for path in self.paths for key in path))

    @property
    def tree(self) -> SubgoalTree:
        """The prefix tree of the sequences."""
        number = {key: index for index, key in enumerate(self.key_states)}
        return SubgoalTree.from_sequences(tuple(number[key] for key in path) for path in self.paths)

    @property
    def request(self) -> Request:
        """Follow the sequences and the best unfinished hypothesis; decided sequences count as explained.

        Not so a single event: every step would be the last one before its end, and exploration paid for nothing
        (`RewardConfig.quiet`). What the world forces before it would then be passed no more.
        """
        fewest = 1 if self.reading is None else 2
        found = [finding.path for finding in self.findings.sequences if finding.decided]
        decided = tuple(path for path in found if len(path) >= fewest)
        return Request((*self.paths, *self.findings.pursued[:1]), decided)

    def advance(self, store: TrajectoryStore) -> Missing:
        """Search all trajectories again; what is missing afterwards."""
        store = self._as_read(store)
        before, search = self.paths, GuidedSearch(store, self.config, self.contrast)
        self.names, self.alike, self.exhausted = None, {}, False
        self.findings = search.findings()
        self.missing = self._prove(search, store) if self.structure else self.findings.missing
        if self.paths != before:
            self._since = len(store)
        if not self.missing and not self.structure and len(store) < 2 * self._since:
            self.missing = Missing.one(f"another branch may show until {2 * self._since} trajectories")
        self.finished = not self.missing
        return self.missing

    def _prove(self, search: GuidedSearch, store: TrajectoryStore) -> Missing:
        """Take the answer if exactly one is consistent, or all are alike; else, say what is open."""
        try:
            found = answers(search, self.structure, limit=2)
            several = alike(search, self.structure) if self._may_be_alike(found, search) else []
        except TooManyTries as error:
            return self.findings.missing or Missing.one(str(error))
        if proved(found, self.structure):
            return self._take(found[0], search)
        self.exhausted = not found and not self.config.noise
        if self.exhausted:
            return self._diagnosed(store)
        if not several:
            self._alike_since = (), 0
            return self._open(found)
        core = tuple(sorted({search.pruned(path) for path in several[0].paths}))
        if core != self._alike_since[0]:
            self._alike_since = core, len(store)
        if len(store) < 2 * self._alike_since[1]:
            return Missing.one(
                f"{len(several)} consistent answers differ only in what no episode has omitted; one may until "
                f"{2 * self._alike_since[1]} trajectories"
            )
        self.alike = _states(several)
        landmarks = LandmarkSearch(store, search, self.reading)
        return self._take(landmarks.choice(several, core), search)

    def explain(self, store: TrajectoryStore, places: TrajectoryStore | None) -> None:
        """Say why no answer is left, by all trajectories, and by the same as places of a map if there is one."""
        self.findings = GuidedSearch(self._as_read(store), self.config, self.contrast).findings()
        self.missing = self._diagnosed(self._as_read(store), None if self.reading is not None else places)

    def _diagnosed(self, store: TrajectoryStore, places: TrajectoryStore | None = None) -> Missing:
        """Why no answer is left."""
        unconstrained = self.paths if not self.findings.unexplained else ()
        prompt = self.config.prompt
        return diagnose(store, self.structure, unconstrained, prompt=prompt, places=places).missing()

    def _may_be_alike(self, found: Sequence[Answer], search: GuidedSearch) -> bool:
        """Whether there are several answers, and enough successes that could have omitted what they differ in."""
        return len(found) > 1 and len(search.positives) >= UNTESTED

    def _take(self, answer: Answer, search: GuidedSearch) -> Missing:
        judged = tuple(search.judge(answer.paths))
        self.findings = replace(self.findings, sequences=judged, unexplained=0, pursued=())
        self.names = answer.assignment
        return Missing()

    def landmarks(self, store: TrajectoryStore) -> tuple[Branch, ...]:
        """What the successes of each sequence pass, in order (see `landmarks`)."""
        store = self._as_read(store)
        evidence = GuidedSearch(store, self.config, None)
        return LandmarkSearch(store, evidence, self.reading).branches(self.paths)

    @property
    def verdict(self) -> str:
        """How sure the answer is, in one sentence."""
        if not self.finished:
            return f"open: {self.missing}"
        if self.alike:
            told = "; ".join(f"{name} may be any of {len(states)}" for name, states in self.alike.items())
            return (
                "unrefuted up to forced landmarks: all consistent assignments agree on what failures can test, and "
                f"differ only in what no episode has omitted or could tell apart ({told}); the one that lasts longest "
                "is taken"
            )
        if self.proved:
            return "proved: exactly one assignment of symbols to states is consistent with every episode's outcome"
        if self.structure:
            return f"unrefuted: one assignment fits, with up to {self.config.noise:.0%} of the labels flipped"
        return "unrefuted: no episode contradicts these sequences, and without an FSM nothing can prove them"

    def _open(self, found: Sequence[Answer]) -> Missing:
        """Why nothing is proved yet."""
        if not found:
            return Missing.one(
                "no assignment of the FSM's symbols to states is consistent with the episodes: check the FSM, or raise "
                "GuidedConfig.noise if more labels may be wrong"
            )
        if self.findings.missing:
            return self.findings.missing
        for answer in found:
            if not answer.complete(self.structure):
                told = f"{_places(answer)} can explain every success; the FSM has more sequences"
                if not answer.paths:
                    told = "as many labels as GuidedConfig.noise allows leave no success to explain: lower it"
                return Missing.one(told, *answer.paths)
        one, two = found[:2]
        return Missing.one(
            f"{_places(one)} and {_places(two)} are both consistent with every episode", *one.paths, *two.paths
        )

    def refuted_by(self, store: TrajectoryStore) -> NDArray[np.int64] | None:
        """Indices of the trajectories that contradict the answer; None with `noise`, where any label may be flipped."""
        if self.config.noise:
            return None
        read = EventReading(self.reading.vocabulary)(store) if self.reading else store
        return contradictions(read, self.paths, prompt=self.config.prompt)

    def _as_read(self, store: TrajectoryStore) -> TrajectoryStore:
        return self.reading(store) if self.reading is not None else store

    def state_dict(self) -> dict[str, Any]:
        """What the next `advance` depends on, in plain values."""
        return {
            "findings": asdict(self.findings),
            "since": self._since,
            "finished": self.finished,
            "exhausted": self.exhausted,
            "names": self.names,
            "alike": self.alike,
            "alike_since": self._alike_since,
            "missing": self.missing.to_json(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        findings, self._since, self.finished = state["findings"], state["since"], state["finished"]
        self.exhausted = state["exhausted"]
        self.names, self.missing = state["names"], Missing.from_json(state["missing"])
        self.alike = {name: tuple(states) for name, states in state.get("alike", {}).items()}
        self._alike_since = nested_tuples(state.get("alike_since", ((), 0)))
        self.findings = Findings(
            tuple(
                Finding(**{**each, **{name: nested_tuples(each[name]) for name in ("path", "necessity", "rivals")}})
                for each in findings["sequences"]
            ),
            findings["positives"],
            findings["unexplained"],
            nested_tuples(findings["pursued"]),
        )


def _places(answer: Answer) -> str:
    """One placeholder {} for each path of an answer (see `Need`)."""
    return " | ".join(["{}"] * len(answer.paths))


def _states(several: Iterable[Answer]) -> dict[str, tuple[int, ...]]:
    """Symbol -> its states in these answers, for the symbols that have several."""
    states: dict[str, set[int]] = {}
    for answer in several:
        for name, state in answer.assignment.items():
            states.setdefault(name, set()).add(state)
    return {name: tuple(sorted(found)) for name, found in sorted(states.items()) if len(found) > 1}
