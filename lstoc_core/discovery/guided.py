"""Counterexample-guided discovery of satisfying sequences ("guided"), from labelled trajectories alone.

The search (`hypotheses`) looks for sequences that successes share and no failure contains. A success that contains none
of them is unexplained: there must be another branch. Given an FSM, the method finishes when exactly one assignment of
its symbols to states is consistent with every episode's outcome (`consistent`, which lists the assumptions).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.discovery.consistent import Answer, Assignment, TooManyTries, answers, proved
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
from lstoc_core.discovery.method import Missing, Request, nested_tuples
from lstoc_core.discovery.tree import SubgoalTree
from lstoc_core.logic.fsm import Word
from lstoc_core.trajectories.matching import KeyPath
from lstoc_core.trajectories.store import TrajectoryStore

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

    structure: minimal sequences of an FSM. With it, the method finishes when exactly one answer is consistent.
    Without it, the method finishes when its sequences are decided, explain every success, and have not changed while
    the number of trajectories doubled.
    """

    def __init__(
        self, config: GuidedConfig | None = None, contrast: SlotScores | None = None, structure: Sequence[Word] = ()
    ) -> None:
        self.config = config or GuidedConfig()
        self.contrast, self.structure = contrast, structure
        self.findings = Findings((), 0, 0)
        self.names: Assignment | None = None
        """Symbol -> observation id, once the answer is proved."""
        self.finished = False
        self.missing = Missing.one("no success was seen")
        self.exhausted = False
        """Whether no assignment is consistent with exact labels, so that no further episode can help."""
        self._since = 0
        """Number of trajectories when the sequences last changed."""

    @property
    def paths(self) -> tuple[KeyPath, ...]:
        """Satisfying sequences, as observation ids."""
        return self.findings.paths

    @property
    def proved(self) -> bool:
        """Whether exactly one assignment is consistent with every episode, all labels being exact."""
        return self.finished and bool(self.structure) and not self.config.noise

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
        """Follow the sequences and the best unfinished hypothesis; decided sequences count as explained."""
        decided = tuple(finding.path for finding in self.findings.sequences if finding.decided)
        return Request((*self.paths, *self.findings.pursued[:1]), decided)

    def advance(self, store: TrajectoryStore) -> Missing:
        """Search all trajectories again; what is missing afterwards."""
        before, search = self.paths, GuidedSearch(store, self.config, self.contrast)
        self.names, self.exhausted = None, False
        self.findings = search.findings()
        self.missing = self._prove(store, search) if self.structure else self.findings.missing
        if self.paths != before:
            self._since = len(store)
        if not self.missing and not self.structure and len(store) < 2 * self._since:
            self.missing = Missing.one(f"another branch may show until {2 * self._since} trajectories")
        self.finished = not self.missing
        return self.missing

    def _prove(self, store: TrajectoryStore, search: GuidedSearch) -> Missing:
        """Take the answer if exactly one is consistent; else, say what is open."""
        try:
            found = answers(search, self.structure, limit=2)
        except TooManyTries as error:
            return self.findings.missing or Missing.one(str(error))
        self.exhausted = not found and not self.config.noise
        if self.exhausted:
            unconstrained = self.paths if not self.findings.unexplained else ()
            return diagnose(store, self.structure, unconstrained, prompt=self.config.prompt).missing()
        if not proved(found, self.structure):
            return self._open(found)
        judged = tuple(search.judge(found[0].paths))
        self.findings = replace(self.findings, sequences=judged, unexplained=0, pursued=())
        self.names = found[0].assignment
        return Missing()

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
                told = "{} can explain every success; the FSM has more sequences"
                return Missing.one(told.replace("{}", _places(answer), 1), *answer.paths)
        one, two = found[:2]
        return Missing.one(
            f"{_places(one)} and {_places(two)} are both consistent with every episode", *one.paths, *two.paths
        )

    def refuted_by(self, store: TrajectoryStore) -> NDArray[np.int64] | None:
        """Indices of the trajectories that contradict the answer; None with `noise`, where any label may be flipped."""
        return None if self.config.noise else contradictions(store, self.paths, prompt=self.config.prompt)

    def state_dict(self) -> dict[str, Any]:
        """What the next `advance` depends on, in plain values."""
        return {
            "findings": asdict(self.findings),
            "since": self._since,
            "finished": self.finished,
            "exhausted": self.exhausted,
            "names": self.names,
            "missing": self.missing.to_json(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        findings, self._since, self.finished = state["findings"], state["since"], state["finished"]
        self.exhausted = state["exhausted"]
        self.names, self.missing = state["names"], Missing.from_json(state["missing"])
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
