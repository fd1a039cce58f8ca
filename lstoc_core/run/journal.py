"""The state of a run: its phase, when discovery is due, when it last had news, and one record per update."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np

from lstoc_core.discovery.contradictions import Refutable
from lstoc_core.discovery.diagnosis import Exhaustible
from lstoc_core.discovery.method import DiscoveryMethod, Missing, nested_tuples
from lstoc_core.exploration.explorer import Explorer, Mapped
from lstoc_core.run.flaws import flaws
from lstoc_core.trajectories.matching import KeyPath
from lstoc_core.trajectories.store import TrajectoryStore

MOST_RECORDS = 10_000
"""Records that are kept: beyond, two become one, so that a long run takes no more memory."""


class Phase(Enum):
    """What the run is doing."""

    EXPLORE = "explore"
    SOLVE = "solve"
    SOLVED = "solved"


class Record(TypedDict):
    """One update of a run; of a run of more than MOST_RECORDS updates, several in a row."""

    env_steps: int
    trajectories: int
    positives: int
    success_rate: float
    """Of the episodes that ended in this update; NaN if none did."""
    episodes: int
    """Number of episodes that ended in this update."""
    phase: str
    """Of the run after this update."""
    sequences: tuple[KeyPath, ...]
    """As observation ids."""
    missing: str


@dataclass(frozen=True)
class Counts:
    """What a run has collected so far."""

    trajectories: int
    positives: int
    env_steps: int

    @classmethod
    def of(cls, explorer: Explorer) -> Counts:
        store = explorer.trajectories
        return cls(len(store), int(store.labels.sum()), explorer.env_steps)


@dataclass
class Journal:
    """The state of the loop itself; explorer and method keep their own."""

    phase: Phase = Phase.EXPLORE
    stopped: Counts | None = None
    """Counts when discovery finished; None before."""
    next_look: float = 0.0
    """Number of trajectories at which discovery runs again."""
    news: tuple[tuple[KeyPath, ...], Missing] | None = None
    """Sequences and missing needs, as discovery last reported them."""
    news_at: int = 0
    """Number of trajectories when it first reported them."""
    tested: int = 0
    """Episodes since the answer that could have contradicted it, and did not."""
    withdrawn: int = 0
    """Answers that a later episode contradicted."""
    refuted: int | None = None
    """Number of trajectories when no answer was left; None before."""
    history: list[Record] = field(default_factory=list)
    warnings: dict[str, str] = field(default_factory=dict)
    """What was found wrong: cause -> sentence (see `flaws`)."""

    def warn_of_flaws(self, explorer: Explorer, *, prompt: bool) -> None:
        """Warn of what is wrong, once for each cause."""
        for cause, sentence in flaws(explorer, prompt=prompt).items():
            if cause not in self.warnings:
                self.warnings[cause] = sentence
                warnings.warn(sentence, stacklevel=3)

    def due(self, store: TrajectoryStore, first_positives: int) -> bool:
        """Whether discovery should run again."""
        open_ = self.stopped is None and self.refuted is None
        return open_ and len(store) >= self.next_look and int(store.labels.sum()) >= first_positives

    def looked(self, store: TrajectoryStore, growth: float) -> None:
        """Discovery has run: the next time is when the trajectories have grown by this factor."""
        self.next_look = len(store) * growth

    def found(self, explorer: Explorer) -> None:
        """Discovery has finished: from now on, episodes test its answer (`watch`)."""
        self.stopped, self.tested = Counts.of(explorer), 0

    def watch(self, method: DiscoveryMethod, explorer: Explorer, confirm: int) -> None:
        """Test the answer by the episodes since, and withdraw it if one contradicts it.

        What is left is to solve the task once `confirm` episodes agree.
        """
        if self.stopped is None:
            return
        store, seen = explorer.trajectories, self.stopped.trajectories + self.tested
        fresh = store.select(np.arange(seen, len(store)))
        refuters = method.refuted_by(fresh) if isinstance(method, Refutable) else None
        if len(store) < seen or (refuters is not None and len(refuters)):  # fewer: the explorer began anew
            self._withdraw(method, explorer)
            return
        self.tested += len(fresh) if refuters is not None else 0
        if self.phase is Phase.EXPLORE and (refuters is None or self.tested >= confirm):
            self.phase = Phase.SOLVE

    def _withdraw(self, method: DiscoveryMethod, explorer: Explorer) -> None:
        """Back to exploration; the method searches all episodes again."""
        self.phase, self.stopped, self.tested = Phase.EXPLORE, None, 0
        self.withdrawn += 1
        method.advance(explorer.trajectories)
        if method.finished:
            self.found(explorer)

    def hopeless(self, store: TrajectoryStore, confirm: int) -> bool:
        """Whether no answer is left, and `confirm` more episodes have been gathered to say why."""
        if self.refuted is None:
            return False
        return not self.refuted <= len(store) < self.refuted + confirm  # fewer: the explorer began anew

    def diagnose(self, method: DiscoveryMethod, explorer: Explorer, confirm: int) -> None:
        """Where no answer is left, say why by all episodes, once there are enough."""
        if not (isinstance(method, Exhaustible) and method.exhausted):
            return
        store = explorer.trajectories
        self.refuted = len(store) if self.refuted is None else self.refuted
        if self.hopeless(store, confirm) and len(store) >= self.refuted:
            method.explain(store, explorer.places() if isinstance(explorer, Mapped) else None)

    def solved(self) -> None:
        """The task is solved: nothing is left."""
        self.phase = Phase.SOLVED

    def silence(self, store: TrajectoryStore) -> int:
        """Trajectories since the last news."""
        return len(store) - self.news_at

    def take_note(self, method: DiscoveryMethod, store: TrajectoryStore) -> None:
        """Remember what the method reports, if it is new."""
        said = method.paths, method.missing
        if said != self.news:
            self.news, self.news_at = said, len(store)

    def write(self, explorer: Explorer, method: DiscoveryMethod, stats: Mapping[str, float]) -> Record:
        """Add the record of an update."""
        now = Counts.of(explorer)
        record = Record(
            env_steps=now.env_steps,
            trajectories=now.trajectories,
            positives=now.positives,
            success_rate=stats["success_rate"],
            episodes=int(stats["episodes"]),
            phase=self.phase.value,
            sequences=method.paths,
            missing=str(method.missing),
        )
        self.history.append(record)
        if len(self.history) > MOST_RECORDS:
            pairs = zip(self.history[::2], self.history[1::2], strict=False)
            self.history[:] = [*(_joined(*pair) for pair in pairs), *self.history[len(self.history) & ~1 :]]
        return record

    def to_json(self) -> dict[str, Any]:
        return {
            "phase": self.phase.value,
            "stopped": vars(self.stopped) if self.stopped else None,
            "next_look": self.next_look,
            "news": [self.news[0], self.news[1].to_json()] if self.news else None,
            "news_at": self.news_at,
            "tested": self.tested,
            "withdrawn": self.withdrawn,
            "refuted": self.refuted,
            "history": self.history,
            "warnings": self.warnings,
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Journal:
        news, stopped = state["news"], state["stopped"]
        return cls(
            Phase(state["phase"]),
            Counts(**stopped) if stopped else None,
            state["next_look"],
            (nested_tuples(news[0]), Missing.from_json(news[1])) if news else None,
            state["news_at"],
            state["tested"],
            state["withdrawn"],
            state["refuted"],
            [cast(Record, {**record, "sequences": nested_tuples(record["sequences"])}) for record in state["history"]],
            dict(state.get("warnings", {})),
        )


@dataclass
class Work:
    """All that a run goes on from: explorer, method, and the state of the loop."""

    explorer: Explorer
    method: DiscoveryMethod
    journal: Journal

    @property
    def env_steps(self) -> int:
        return self.explorer.env_steps

    def save(self, path: Path) -> None:
        self.explorer.save(path)

    def load(self, path: Path) -> None:
        self.explorer.load(path)

    def state_dict(self) -> dict[str, Any]:
        return {
            "explorer": self.explorer.state_dict(),
            "method": self.method.state_dict(),
            "journal": self.journal.to_json(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.explorer.load_state_dict(state["explorer"])
        self.method.load_state_dict(state["method"])
        self.journal = Journal.from_json(state["journal"])


def _joined(one: Record, two: Record) -> Record:
    """Two records in a row as one."""
    ended = [record for record in (one, two) if record["episodes"]]
    episodes = sum(record["episodes"] for record in ended)
    successes = sum(record["episodes"] * record["success_rate"] for record in ended)
    return {**two, "episodes": episodes, "success_rate": successes / episodes if ended else float("nan")}
