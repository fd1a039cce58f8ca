"""The search of the guided method: hypotheses about a satisfying sequence, grown one key state at a time.

Successes that contain a hypothesis *support* it; failures that contain it are its *refuters*. The search starts with
the state on which successes end. It inserts the states that best separate successes from refuters until no refuter is
left. Then it drops every state whose removal admits no refuter.

A *rival* of a sequence differs in one key state, has no refuters and explains the same successes: the data cannot tell
them apart. A sequence is *decided* when it has no rivals and enough successes that no other sequence explains.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from lstoc_core.discovery.evidence import Evidence, Indices, no_repeat
from lstoc_core.discovery.method import Missing, Need
from lstoc_core.trajectories.matching import (
    KeyPath,
    earliest_match,
    explained_by,
    latest_match,
    segment_counts,
    segments,
)
from lstoc_core.trajectories.store import TrajectoryStore

SlotScores = Callable[[TrajectoryStore, TrajectoryStore], NDArray[np.float64]]
"""Scores [num_ids] of observations, from the parts of successes and of refuters within one slot."""


@dataclass(frozen=True)
class GuidedConfig:
    """Settings of the guided method."""

    min_support: int = 2
    """Fewest successes that support a hypothesis worth following."""
    min_share: float = 0.1
    """The same as a fraction of the unexplained successes; the larger of both counts."""
    decisive: int = 5
    """Fewest successes that no other sequence explains, for a sequence to be decided."""
    max_length: int = 8
    """Longest sequence considered; with an FSM, its longest path."""
    noise: float = 0.0
    """Fraction of labels that may be flipped. 0: labels are exact."""
    prompt: bool = True
    """Episodes end at their first success, even if its label is flipped. False: the label is for the whole episode."""
    beam: int = 3
    """Beam width: hypotheses kept after each insertion."""
    slack: int = 3
    """States by which a hypothesis may exceed `max_length` during the search; superfluous ones are pruned later."""

    def __post_init__(self) -> None:
        if not isinstance(self.noise, Real) or not 0 <= self.noise < 0.5:
            raise ValueError(f"noise is {self.noise!r}: give the fraction of flipped labels, from 0 to below 0.5")


@dataclass(frozen=True)
class Finding:
    """One satisfying sequence and its evidence."""

    path: KeyPath
    support: int
    """Successes that contain it."""
    unique_support: int
    """Successes that contain it and no other sequence found."""
    necessity: tuple[int, ...]
    """For each element, the refuters that its removal would admit."""
    rivals: tuple[KeyPath, ...]
    """Sequences with one element exchanged that the data cannot tell from this one."""
    decided: bool
    """Whether it has no rivals and enough unique support."""


@dataclass(frozen=True)
class Findings:
    """What the search found in the trajectories so far."""

    sequences: tuple[Finding, ...]
    positives: int
    unexplained: int
    """Successes that contain none of the sequences."""
    pursued: tuple[KeyPath, ...] = ()
    """The best unfinished hypotheses about the unexplained successes; exploration may follow them."""

    @property
    def paths(self) -> tuple[KeyPath, ...]:
        return tuple(finding.path for finding in self.sequences)

    @property
    def missing(self) -> Missing:
        """What the data leaves open; empty if every success is explained and every sequence decided."""
        if not self.positives:
            return Missing.one("no success was seen")
        needs = [Need(f"{self.unexplained} successes are unexplained")] if self.unexplained else []
        for finding in self.sequences:
            if finding.rivals:
                more = f" and {len(finding.rivals) - 1} more" if len(finding.rivals) > 1 else ""
                needs.append(Need(f"{{}} cannot be told from {{}}{more}", (finding.path, finding.rivals[0])))
            elif not finding.decided:
                needs.append(Need(f"{{}} alone explains only {finding.unique_support} successes", (finding.path,)))
        return Missing(tuple(needs))


@dataclass(frozen=True)
class _Hypothesis:
    path: KeyPath
    support: Indices
    """Indices of the considered successes that contain the path."""
    refuters: Indices
    """Indices of the failures that contain the path."""
    parent: "_Hypothesis | None" = None
    separation: NDArray[np.float64] | None = None
    """Fraction of the parent's successes minus that of its refuters that visit a state in the slot, [num_ids]."""


@dataclass(frozen=True)
class SearchStep:
    """One hypothesis that led to a sequence."""

    path: KeyPath
    support: int
    """Successes that contain it."""
    refuters: int
    """Failures that contain it."""
    separation: NDArray[np.float64] | None
    """Per state [num_ids], how well it separated successes from refuters in the slot just filled; None at the start."""


class GuidedSearch(Evidence):
    """The search over one set of trajectories. contrast: see `guided`."""

    def __init__(self, store: TrajectoryStore, config: GuidedConfig, contrast: SlotScores | None) -> None:
        super().__init__(store, prompt=config.prompt, noise=config.noise)
        self.config, self.contrast = config, contrast
        self._origins: dict[KeyPath, _Hypothesis] = {}

    def findings(self) -> Findings:
        """Search for sequences one by one until they explain every success, or no further one is found."""
        paths: list[KeyPath] = []
        pursued: tuple[KeyPath, ...] = ()
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

    def steps_to(self, path: KeyPath) -> tuple[SearchStep, ...]:
        """The hypotheses that led to a sequence, first to last, before pruning."""
        steps, hypothesis = [], self._origins.get(path)
        while hypothesis is not None:
            counts = len(hypothesis.support), len(hypothesis.refuters)
            steps.append(SearchStep(hypothesis.path, *counts, hypothesis.separation))
            hypothesis = hypothesis.parent
        return tuple(reversed(steps))

    # -- one sequence ----------------------------------------------------------------------------------------------

    def _search(self, successes: Indices) -> tuple[KeyPath | None, tuple[KeyPath, ...]]:
        """The best sequence for these successes, and the best unfinished hypotheses if there is none."""
        frontier = self._roots(successes)
        refuters = max((len(root.refuters) for root in frontier), default=0)

        def rank(hypothesis: _Hypothesis) -> tuple[float, KeyPath]:
            share, admitted = len(hypothesis.support) / len(successes), len(hypothesis.refuters) / max(refuters, 1)
            return admitted - share, hypothesis.path

        finished: dict[KeyPath, int] = {}
        pursued: tuple[KeyPath, ...] = ()
        while frontier:
            open_ = []
            for hypothesis in frontier:
                if self._refuted(hypothesis):
                    open_.append(hypothesis)
                elif hypothesis.path:
                    path = self._improve(self.pruned(hypothesis.path), successes)
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

    def _roots(self, successes: Indices) -> list[_Hypothesis]:
        """Where the search starts: the states on which successes end; without `prompt`, the empty sequence."""
        if not self.config.prompt:
            return [_Hypothesis((), successes, np.arange(len(self.failures)))]
        begin, behind = self.positives.last_steps(successes)
        counts = segment_counts(self.positives, begin - 1, behind, self.num_ids)
        return [
            _Hypothesis(
                (end,),
                successes[latest_match(self.positives, (end,))[successes] >= begin],
                np.flatnonzero(earliest_match(self.failures, (end,)) >= 0),
            )
            for end in np.flatnonzero(counts >= self._needed(successes)).tolist()
        ]

    def _insertions(self, hypothesis: _Hypothesis, successes: Indices) -> list[_Hypothesis]:
        """Hypotheses with one more state: for every slot, the states that best separate successes from refuters."""
        path, children = hypothesis.path, []
        for slot in range(len(path) + (not self.config.prompt or not path)):
            inside = self.slot(self.positives, path[:slot], path[slot:], hypothesis.support)
            outside = self.slot(self.failures, path[:slot], path[slot:], hypothesis.refuters)
            covered = segment_counts(self.positives, *inside, self.num_ids)
            admitted = segment_counts(self.failures, *outside, self.num_ids)
            separation = covered / len(hypothesis.support) - admitted / max(len(hypothesis.refuters), 1)
            allowed = covered >= self._needed(successes)
            allowed[list(path[max(slot - 1, 0) : slot + 1])] = False  # no immediate repeats
            ids = np.flatnonzero(allowed & (separation > 0))
            if not len(ids):
                continue
            score = separation if self.contrast is None else self._learned(inside, outside)
            for state in ids[np.argsort(-score[ids], kind="stable")[: self.config.beam]]:
                children.append(self._hypothesis((*path[:slot], int(state), *path[slot:]), hypothesis, separation))
        return children

    def _learned(self, inside: tuple[Indices, Indices], outside: tuple[Indices, Indices]) -> NDArray[np.float64]:
        """Scores [num_ids] by `contrast`; states without a score come last."""
        assert self.contrast is not None
        scores = self.contrast(segments(self.positives, *inside), segments(self.failures, *outside))
        return np.nan_to_num(scores, nan=-np.inf)

    def _improve(self, path: KeyPath, successes: Indices) -> KeyPath:
        """Exchange single elements while this adds support and admits no refuter."""
        best = self.supported(path, successes)
        for index in range(len(path) - self.config.prompt):
            for state, covered in self._exchanges(path, index, successes, best + 1):
                other = (*path[:index], state, *path[index + 1 :])
                if no_repeat(other) and not self.admits(other):
                    assert covered > best
                    return self._improve(self.pruned(other), successes)
        return path

    # -- the set of sequences --------------------------------------------------------------------------------------

    def _without_superfluous(self, paths: list[KeyPath]) -> list[KeyPath]:
        """Drop sequences that explain no success of their own, least supported first."""
        covers = {path: earliest_match(self.positives, path) >= 0 for path in paths}
        kept = sorted(covers, key=lambda path: (-covers[path].sum(), len(path), path))
        for path in reversed(kept.copy()):
            others = [covers[other] for other in kept if other != path]
            if others and not (covers[path] & ~np.any(others, axis=0)).any():
                kept.remove(path)
        return kept

    def judge(self, paths: Sequence[KeyPath]) -> list[Finding]:
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

    def _rivals(self, path: KeyPath, successes: Indices) -> tuple[KeyPath, ...]:
        """Sequences with one element exchanged that explain the same successes, at other moments, without refuters."""
        enough = max(1, len(successes) - self.tolerated(len(successes)))
        rivals = [
            other
            for index in range(len(path) - self.config.prompt)
            for state, _ in self._exchanges(path, index, successes, enough)
            if no_repeat(other := (*path[:index], state, *path[index + 1 :])) and not self.admits(other)
        ]
        return tuple(other for other in rivals if not self.same_moments(path, other))

    # -- counting --------------------------------------------------------------------------------------------------

    def _exchanges(self, path: KeyPath, index: int, successes: Indices, enough: int) -> list[tuple[int, int]]:
        """States that fit at `index` of the path in at least `enough` of the successes, each with that number."""
        if len(successes) < enough:
            return []
        covered = self.visits(self.positives, path[:index], path[index + 1 :], successes)
        covered[path[index]] = 0
        states = np.flatnonzero(covered >= enough)
        return [(int(state), int(covered[state])) for state in states[np.argsort(-covered[states], kind="stable")]]

    def _hypothesis(self, path: KeyPath, parent: _Hypothesis, separation: NDArray[np.float64]) -> _Hypothesis:
        within = earliest_match(self.positives, path)[parent.support] >= 0
        refuting = earliest_match(self.failures, path)[parent.refuters] >= 0
        return _Hypothesis(path, parent.support[within], parent.refuters[refuting], parent, separation)

    def _refuted(self, hypothesis: _Hypothesis) -> bool:
        """Whether it is empty, or has more refuters than noise explains."""
        return not hypothesis.path or (
            len(hypothesis.refuters) > 0 and (not self.noise or self.admits(hypothesis.path))
        )

    def _needed(self, successes: Indices) -> int:
        """Fewest of the successes that must support a hypothesis."""
        return max(self.config.min_support, int(np.ceil(self.config.min_share * len(successes))))
