"""Counterexample-guided discovery of satisfying sequences ("guided"), from labelled trajectories alone.

The label is exact, so a sequence h of key states is satisfying if and only if no trajectory visits h in order and still
fails. Trajectories that do are the *refuters* of h. Starting from the state on which successes end, one key state after
the other is inserted into h where it best separates the successes that contain h from the refuters of h, until no
refuter is left; then whatever can be removed without admitting a refuter is removed. Successes that contain none of the
sequences found so far are unexplained and ask for another branch. Given an FSM, it is finished when the trajectories
prove its answer (`answers`).

Two more facts are used. An episode ends at its first success, so a success without its last step is a failure, and an
especially good counterexample: it visits the same places. And data may leave several answers open: a *rival* of h has
one key state exchanged, has no refuters either, and covers the same successes. Sequences without rivals are *decided*.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.discovery.consistent import TooManyTries, Word, answers, proved
from lstoc_core.discovery.evidence import Counts, Evidence, Path
from lstoc_core.trajectories import TrajectoryStore, earliest_match, explained_by, segment_counts, segments

Contrast = Callable[[TrajectoryStore, TrajectoryStore], NDArray[np.float64]]
"""Scores [num_ids] of observations from the parts of successes and of refuters that lie in one slot."""


@dataclass(frozen=True)
class GuidedConfig:
    """Settings of the guided method."""

    min_support: int = 2
    """Successes that a hypothesis needs to be worth following."""
    min_share: float = 0.1
    """The same, as a share of the unexplained successes."""
    decisive: int = 5
    """Successes that only this sequence explains, for it to be decided."""
    max_length: int = 8
    """Longest sequence considered; with an FSM, its longest path."""
    noise: float = 0.0
    """Share of labels that may be flipped. 0: labels are exact."""
    prompt: bool = True
    """Episodes end at their first success, flipped label or not. False: the label speaks of the episode as a whole."""
    beam: int = 3
    """Hypotheses pursued at a time."""
    slack: int = 3
    """Elements by which a hypothesis may exceed `max_length` on the way: states that turn out superfluous go later."""


@dataclass(frozen=True)
class Finding:
    """One satisfying sequence and what the data says of it."""

    path: Path
    support: int
    """Successes that contain it."""
    unique_support: int
    """Successes that contain it and no other sequence found."""
    necessity: tuple[int, ...]
    """For each element, the refuters that its removal would admit."""
    rivals: tuple[Path, ...]
    """Sequences with one element exchanged that the data cannot tell from this one."""
    decided: bool
    """Whether it has no rivals and enough successes of its own."""


@dataclass(frozen=True)
class Findings:
    """What the trajectories so far say."""

    sequences: tuple[Finding, ...]
    positives: int
    unexplained: int
    """Successes that contain none of the sequences."""
    pursued: tuple[Path, ...] = ()
    """The best unfinished hypotheses about the unexplained successes: worth following while collecting more."""

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(finding.path for finding in self.sequences)

    @property
    def missing(self) -> str:
        """What the data does not decide, in words; empty when everything is explained and decided."""
        if not self.positives:
            return "no success was seen"
        needs = [f"{self.unexplained} successes are unexplained"] if self.unexplained else []
        for finding in self.sequences:
            if finding.rivals:
                more = f" and {len(finding.rivals) - 1} more" if len(finding.rivals) > 1 else ""
                needs.append(f"{list(finding.path)} cannot be told from {list(finding.rivals[0])}{more}")
            elif not finding.decided:
                needs.append(f"{list(finding.path)} alone explains only {finding.unique_support} successes")
        return "; ".join(needs)


def guided(store: TrajectoryStore, config: GuidedConfig | None = None, contrast: Contrast | None = None) -> Findings:
    """Satisfying sequences that explain the successes in `store` and that nothing in it refutes.

    contrast: scores the states of a slot, e.g. by a trained f_ω; None compares exactly in which share of the successes
    and of the refuters a state occurs.
    """
    return _Guided(store, config or GuidedConfig(), contrast).findings()


@dataclass(frozen=True)
class _Hypothesis:
    path: Path
    support: Counts
    """Indices of the considered successes that contain the path."""
    refuters: Counts
    """Indices of the failures that contain the path."""
    parent: "_Hypothesis | None" = None
    separation: NDArray[np.float64] | None = None
    """Share of the parent's successes minus share of its refuters that visit each state in the slot, [num_ids]."""


@dataclass(frozen=True)
class Step:
    """One hypothesis on the way to a sequence."""

    path: Path
    support: int
    """Successes that contain it."""
    refuters: int
    """Failures that contain it."""
    separation: NDArray[np.float64] | None
    """How well each state [num_ids] separated successes from refuters in the slot it filled; None at the start."""


def guided_steps(store: TrajectoryStore, config: GuidedConfig | None = None) -> dict[Path, tuple[Step, ...]]:
    """For each sequence that `guided` finds, the hypotheses that led to it, first to last, before pruning."""
    search = _Guided(store, config or GuidedConfig(), None)
    return {path: search.steps_to(path) for path in search.findings().paths}


class _Guided(Evidence):
    def __init__(self, store: TrajectoryStore, config: GuidedConfig, contrast: Contrast | None) -> None:
        super().__init__(store, prompt=config.prompt, noise=config.noise)
        self.config, self.contrast = config, contrast
        self._origins: dict[Path, _Hypothesis] = {}

    def findings(self) -> Findings:
        paths: list[Path] = []
        pursued: tuple[Path, ...] = ()
        unexplained = np.arange(len(self.positives))
        while len(unexplained) > self.doubtful:
            best, pursued = self._search(unexplained)
            if best is None:
                break
            paths = self._without_superfluous([*paths, best])
            rest = np.flatnonzero(~explained_by(self.positives, paths))
            if len(rest) == len(unexplained):
                break
            unexplained = rest
        unexplained = np.flatnonzero(~explained_by(self.positives, paths))
        pursued = tuple(path for path in pursued if path not in paths) if len(unexplained) else ()
        open_ = len(unexplained) if len(unexplained) > self.doubtful else 0
        return Findings(tuple(self.judge(paths)), len(self.positives), open_, pursued)

    def steps_to(self, path: Path) -> tuple[Step, ...]:
        steps, hypothesis = [], self._origins.get(path)
        while hypothesis is not None:
            counts = len(hypothesis.support), len(hypothesis.refuters)
            steps.append(Step(hypothesis.path, *counts, hypothesis.separation))
            hypothesis = hypothesis.parent
        return tuple(reversed(steps))

    # -- one sequence ----------------------------------------------------------------------------------------------

    def _search(self, successes: Counts) -> tuple[Path | None, tuple[Path, ...]]:
        """The best sequence for these successes, and the best unfinished hypotheses if there is none."""
        frontier = self._roots(successes)
        refuters = max((len(root.refuters) for root in frontier), default=0)

        def rank(hypothesis: _Hypothesis) -> tuple[float, Path]:
            share, admitted = len(hypothesis.support) / len(successes), len(hypothesis.refuters) / max(refuters, 1)
            return admitted - share, hypothesis.path

        finished: dict[Path, int] = {}
        pursued: tuple[Path, ...] = ()
        while frontier:
            open_ = []
            for hypothesis in frontier:
                if self._refuted(hypothesis):
                    open_.append(hypothesis)
                elif hypothesis.path:
                    path = self._improve(self._prune(hypothesis.path), successes)
                    if len(path) <= self.config.max_length:
                        finished[path] = self.supported(path, successes)
                        self._origins.setdefault(path, hypothesis)
            reached = max(finished.values(), default=0)
            open_ = [hypothesis for hypothesis in open_ if len(hypothesis.support) > reached]  # support only shrinks
            pursued = tuple(hypothesis.path for hypothesis in open_ if hypothesis.path) or pursued
            children = {
                child.path: child
                for hypothesis in open_
                if len(hypothesis.path) < self.config.max_length + self.config.slack
                for child in self._insertions(hypothesis, successes)
            }
            frontier = sorted(children.values(), key=rank)[: self.config.beam]
        if not finished:
            return None, pursued
        return min(finished, key=lambda path: (-finished[path], len(path), path)), pursued

    def _roots(self, successes: Counts) -> list[_Hypothesis]:
        """Where the search begins: at the states on which successes end; without `prompt`, at the empty sequence."""
        if not self.config.prompt:
            return [_Hypothesis((), successes, np.arange(len(self.failures)))]
        last = self.positives.ids[self.positives.offsets[1:][successes] - 1]
        ends, counts = np.unique(last, return_counts=True)
        return [
            _Hypothesis((int(end),), successes[last == end], np.flatnonzero(earliest_match(self.failures, [end]) >= 0))
            for end in ends[counts >= self._needed(successes)]
        ]

    def _insertions(self, hypothesis: _Hypothesis, successes: Counts) -> list[_Hypothesis]:
        """The hypotheses with one more state: for every slot, the states that separate best."""
        path, children = hypothesis.path, []
        for slot in range(len(path) + (not self.config.prompt or not path)):
            inside = self.slot(self.positives, path[:slot], path[slot:], hypothesis.support)
            outside = self.slot(self.failures, path[:slot], path[slot:], hypothesis.refuters)
            covered = segment_counts(self.positives, *inside, self.num_ids)
            admitted = segment_counts(self.failures, *outside, self.num_ids)
            separation = covered / len(hypothesis.support) - admitted / len(hypothesis.refuters)
            allowed = covered >= self._needed(successes)
            allowed[list(path[max(slot - 1, 0) : slot + 1])] = False  # no immediate repeats
            ids = np.flatnonzero(allowed & (separation > 0))
            if not len(ids):
                continue
            score = separation if self.contrast is None else self._learned(inside, outside)
            for state in ids[np.argsort(-score[ids], kind="stable")[: self.config.beam]]:
                children.append(self._hypothesis((*path[:slot], int(state), *path[slot:]), hypothesis, separation))
        return children

    def _learned(self, inside: tuple[Counts, Counts], outside: tuple[Counts, Counts]) -> NDArray[np.float64]:
        assert self.contrast is not None
        scores = self.contrast(segments(self.positives, *inside), segments(self.failures, *outside))
        return np.nan_to_num(scores, nan=-np.inf)

    def _prune(self, path: Path) -> Path:
        """Drop, from the front, the elements that can go without admitting a refuter: bottlenecks fall out here."""
        for index in range(len(path) - self.config.prompt):
            shorter = path[:index] + path[index + 1 :]
            if _no_repeat(shorter) and not self.admits(shorter):
                return self._prune(shorter)
        return path

    def _improve(self, path: Path, successes: Counts) -> Path:
        """Exchange single elements as long as more successes are covered and nothing refutes it."""
        best = self.supported(path, successes)
        for index in range(len(path) - self.config.prompt):
            for state, covered in self._exchanges(path, index, successes, best + 1):
                other = (*path[:index], state, *path[index + 1 :])
                if _no_repeat(other) and not self.admits(other):
                    assert covered > best
                    return self._improve(self._prune(other), successes)
        return path

    # -- the set of sequences --------------------------------------------------------------------------------------

    def _without_superfluous(self, paths: list[Path]) -> list[Path]:
        """Without sequences that only explain what the others explain; the least supported goes first."""
        covers = {path: earliest_match(self.positives, path) >= 0 for path in paths}
        kept = sorted(covers, key=lambda path: (-covers[path].sum(), len(path), path))
        for path in reversed(kept.copy()):
            others = [covers[other] for other in kept if other != path]
            if others and not (covers[path] & ~np.any(others, axis=0)).any():
                kept.remove(path)
        return kept

    def judge(self, paths: Sequence[Path]) -> list[Finding]:
        """Support, necessity and rivals of every sequence."""
        findings = []
        for path in sorted(paths):
            contained = earliest_match(self.positives, path) >= 0
            unique = np.flatnonzero(contained & ~explained_by(self.positives, [p for p in paths if p != path]))
            necessity = tuple(self.refuters(path[:i] + path[i + 1 :]) for i in range(len(path)))
            rivals = self._rivals(path, unique)
            decided = not rivals and len(unique) >= self.config.decisive
            findings.append(Finding(path, int(contained.sum()), len(unique), necessity, rivals, decided))
        return findings

    def _rivals(self, path: Path, successes: Counts) -> tuple[Path, ...]:
        """Sequences with one element exchanged that explain the same successes and that nothing refutes."""
        enough = max(1, len(successes) - self.tolerated(len(successes)))
        rivals = [
            other
            for index in range(len(path) - self.config.prompt)
            for state, _ in self._exchanges(path, index, successes, enough)
            if _no_repeat(other := (*path[:index], state, *path[index + 1 :])) and not self.admits(other)
        ]
        return tuple(rivals)

    # -- counting --------------------------------------------------------------------------------------------------

    def _exchanges(self, path: Path, index: int, successes: Counts, enough: int) -> list[tuple[int, int]]:
        """States that could stand at `index` of the path in at least `enough` of the successes, and in how many."""
        if len(successes) < enough:
            return []
        covered = self.visits(self.positives, path[:index], path[index + 1 :], successes)
        covered[path[index]] = 0
        states = np.flatnonzero(covered >= enough)
        return [(int(state), int(covered[state])) for state in states[np.argsort(-covered[states], kind="stable")]]

    def _hypothesis(self, path: Path, parent: _Hypothesis, separation: NDArray[np.float64]) -> _Hypothesis:
        within = earliest_match(self.positives, path)[parent.support] >= 0
        refuting = earliest_match(self.failures, path)[parent.refuters] >= 0
        return _Hypothesis(path, parent.support[within], parent.refuters[refuting], parent, separation)

    def _refuted(self, hypothesis: _Hypothesis) -> bool:
        return not hypothesis.path or (
            len(hypothesis.refuters) > 0 and (not self.noise or self.admits(hypothesis.path))
        )

    def _needed(self, successes: Counts) -> int:
        return max(self.config.min_support, int(np.ceil(self.config.min_share * len(successes))))


def _no_repeat(path: Path) -> bool:
    return all(a != b for a, b in pairwise(path))


@dataclass
class Guided:
    """The guided method over a growing set of trajectories: decides by itself when it has seen enough.

    structure: the minimal sequences of an FSM. Then it is finished when one answer alone agrees with the trajectories.
    Without one, a set of sequences that is decided and explains every success is final once the number of trajectories
    has doubled since it was first found.
    """

    config: GuidedConfig = field(default_factory=GuidedConfig)
    contrast: Contrast | None = None
    structure: Sequence[Word] = ()

    def __post_init__(self) -> None:
        self.findings = Findings((), 0, 0)
        self.finished = False
        self._since = 0

    @property
    def paths(self) -> tuple[Path, ...]:
        """Satisfying sequences, as observation ids."""
        return self.findings.paths

    @property
    def key_states(self) -> list[int]:
        """Ŝ_K: observation ids of the key states, in the order of the sequences."""
        return list(dict.fromkeys(key for path in self.paths for key in path))

    @property
    def explained(self) -> tuple[Path, ...]:
        """The decided sequences: a success through one of them teaches nothing new."""
        return tuple(finding.path for finding in self.findings.sequences if finding.decided)

    @property
    def followed(self) -> tuple[Path, ...]:
        """What exploration should be paid to follow: the sequences and the best hypothesis about the unexplained."""
        return (*self.paths, *self.findings.pursued[:1])

    def advance(self, store: TrajectoryStore) -> str:
        """Judge all trajectories anew. Returns what is missing, in words; empty when finished."""
        before, search = self.paths, _Guided(store, self.config, self.contrast)
        self.findings = search.findings()
        missing = self._prove(search) if self.structure else self.findings.missing
        if self.paths != before:
            self._since = len(store)
        if not missing and not self.structure and len(store) < 2 * self._since:
            missing = f"another branch may show until {2 * self._since} trajectories"
        self.finished = not missing
        return missing

    def _prove(self, search: _Guided) -> str:
        """Take the one answer of the FSM's structure that agrees with the trajectories; else, what leaves it open."""
        try:
            found = answers(search, self.structure, limit=2)
        except TooManyTries as error:
            return self.findings.missing or str(error)
        if proved(found, self.structure):
            judged = tuple(search.judge(found[0]))
            self.findings = replace(self.findings, sequences=judged, unexplained=0, pursued=())
            return ""
        if not found:
            return "no way to give the FSM's names to states agrees with all trajectories"
        opened = [answer for answer in found if len(answer) < len(self.structure)]
        if opened:
            open_ = f"{_shown(opened[0])} can explain every success; the FSM has more sequences"
        else:
            open_ = f"{_shown(found[0])} and {_shown(found[1])} both agree with all trajectories"
        return self.findings.missing or open_

    def state_dict(self) -> dict[str, Any]:
        """What the next judgement depends on, in plain values."""
        return {"findings": asdict(self.findings), "since": self._since, "finished": self.finished}

    def load_state_dict(self, state: dict[str, Any], store: TrajectoryStore) -> None:
        """Go on where `state_dict` was taken, with the trajectories of then."""
        findings, self._since, self.finished = state["findings"], state["since"], state["finished"]
        self.findings = Findings(
            tuple(
                Finding(**{**each, **{name: _nested_tuple(each[name]) for name in ("path", "necessity", "rivals")}})
                for each in findings["sequences"]
            ),
            findings["positives"],
            findings["unexplained"],
            _nested_tuple(findings["pursued"]),
        )


def _shown(paths: Sequence[Path]) -> str:
    return " | ".join(str(list(path)) for path in paths)


def _nested_tuple(value: Any) -> Any:
    """Lists, as JSON gives them back, as tuples."""
    return tuple(_nested_tuple(each) for each in value) if isinstance(value, list | tuple) else value
