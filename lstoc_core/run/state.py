"""What callbacks of `discover` get: the state of the run after an update.

    def report(state: RunState) -> None:
        for ids, label in state.last_trajectories: ...
        if state.answers is not None:
            print(state["trajectories"], state.answers.bits, state.answers.settled)

    lstoc.discover(task, callbacks=[report])

Nothing is computed before it is asked for, and asking never changes the run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.discovery.method import DiscoveryMethod, Missing
from lstoc_core.discovery.tree import SubgoalTree
from lstoc_core.exploration.auto import AutoExplorer
from lstoc_core.exploration.beliefs import Beliefs
from lstoc_core.exploration.explorer import Explorer
from lstoc_core.exploration.outcomes import Assignments, Words
from lstoc_core.exploration.planner import PlannerExplorer
from lstoc_core.logic.fsm import FSM
from lstoc_core.run.journal import Record
from lstoc_core.run.methods import Setting
from lstoc_core.trajectories.cells import CellIdentity
from lstoc_core.trajectories.events import EventReading
from lstoc_core.trajectories.store import TrajectoryStore
from lstoc_core.trajectories.vector_env import vocabulary_of

ENOUGH = 200
"""A sample of answers of at least this size speaks for all of them: what 2 % of them say is missed in 2 % of cases."""
STREAM = 2
"""Of the random numbers by which answers are sampled; the run has its own."""


@dataclass(frozen=True, eq=False)
class AnswersLeft:
    """The assignments of symbols to states that are consistent with every episode so far: all, or a uniform sample."""

    symbols: tuple[str, ...]
    assignments: Assignments
    """[K, symbols]: observation id of each symbol; with events, the event."""
    share: float
    """Probability of a consistent assignment to be among them; 1 if all are."""
    reading: EventReading | None = None
    """The events; None where key states are observations."""

    @property
    def complete(self) -> bool:
        """Whether these are all."""
        return self.share == 1.0

    @property
    def count(self) -> float:
        """Number of consistent assignments; an estimate unless `complete`."""
        return len(self.assignments) / self.share

    @property
    def bits(self) -> float:
        """log2 of the number: what is left to learn."""
        return float(np.log2(self.count))

    @property
    def certain(self) -> bool:
        """Whether what all of these agree on holds for all: they are all, or many."""
        return self.complete or len(self.assignments) >= ENOUGH

    @cached_property
    def possible(self) -> dict[str, NDArray[np.int32]]:
        """Symbol -> observation ids, or events, that it may be, sorted."""
        return {symbol: np.unique(column) for symbol, column in zip(self.symbols, self.assignments.T, strict=True)}

    @cached_property
    def settled(self) -> dict[str, int]:
        """Symbol -> observation id, or event, for the symbols about which all answers agree."""
        if not self.certain:
            return {}
        return {symbol: int(states[0]) for symbol, states in self.possible.items() if len(states) == 1}

    def heat(self, num_ids: int) -> NDArray[np.float64]:
        """Share of the answers that put some symbol at each observation id, [num_ids].

        An event is at the first observation in which it holds.
        """
        ids: NDArray[np.integer[Any]] = self.assignments.ravel()
        if self.reading is not None:
            events, which = np.unique(ids, return_inverse=True)
            ids = np.array([self.reading.state_of(event) for event in events.tolist()], np.int64)[which]
        return np.bincount(ids, minlength=num_ids) / len(self.assignments)


class Census:
    """Counts the answers left of one run, whatever its explorer."""

    def __init__(self, fsm: FSM, setting: Setting) -> None:
        self.words, self._setting = Words.of(fsm.minimal_sequences()), setting
        vocabulary = vocabulary_of(setting.env)
        self.reading = EventReading(vocabulary) if vocabulary is not None else None
        """How trajectories are read; None: key states are observations."""
        self._own, self._seen = self._fresh(), 0

    @classmethod
    def of(cls, fsm: FSM | None, setting: Setting) -> "Census | None":
        """None without an FSM, and where key states are boxes, whose answers cannot be counted."""
        boxes = isinstance(vocabulary_of(setting.env), CellIdentity)
        return cls(fsm, setting) if fsm is not None and not boxes else None

    def _fresh(self) -> Beliefs:
        config, rng = self._setting.config, np.random.default_rng([self._setting.seed, STREAM])
        guided, reading = config.guided, self.reading
        return Beliefs(self.words, config.planner, rng=rng, noise=guided.noise, prompt=guided.prompt, reading=reading)

    def answers(self, explorer: Explorer) -> AnswersLeft | None:
        """The answers left; None if a sample has caught none, or there is none.

        A planner's beliefs are used as they are, if they suffice; otherwise answers are drawn here.
        """
        if (known := self.at_hand(explorer)) is not None and known.certain:
            return known
        store = explorer.trajectories
        if len(store) < self._seen:  # the explorer began anew
            self._own = self._fresh()
        self._seen = len(store)
        self._own.update(store, self._known(store))
        return self._told(self._own)

    def _known(self, store: TrajectoryStore) -> NDArray[np.int64]:
        """The keys that symbols may have."""
        if self.reading is None:
            return np.unique(store.ids).astype(np.int64)
        return np.arange(1, self.reading.vocabulary.num_events)

    def _told(self, beliefs: Beliefs) -> AnswersLeft | None:
        left = beliefs.assignments
        return AnswersLeft(self.words.symbols, left, beliefs.share, self.reading) if len(left) else None

    def at_hand(self, explorer: Explorer) -> AnswersLeft | None:
        """The answers left according to a planner's beliefs, which may be a small sample; None if it has none."""
        beliefs = _beliefs(explorer)
        left = beliefs.left(explorer.trajectories) if beliefs is not None else None
        if beliefs is None or left is None or not len(left):
            return None
        return AnswersLeft(self.words.symbols, left, beliefs.share, self.reading)


def _beliefs(explorer: Explorer) -> Beliefs | None:
    """Those of a planner; None if another explorer is in use."""
    chosen = explorer.chosen if isinstance(explorer, AutoExplorer) else explorer
    return chosen.beliefs if isinstance(chosen, PlannerExplorer) else None


@dataclass(frozen=True, eq=False)
class RunState(Mapping[str, Any]):
    """A run after an update. As a mapping it is the update's record: `state["trajectories"]`, `dict(state)`.

    The parts describe the run at the time of the callback: take from them what is to be kept.
    """

    record: Record
    """The numbers of this update, as kept in `Discovery.history`."""
    setting: Setting
    """Environment, FSM, settings and seed of the run."""
    explorer: Explorer
    method: DiscoveryMethod
    census: Census | None
    """Counts the answers left; None without an FSM, and where key states are boxes."""

    def __getitem__(self, name: str) -> Any:
        return self.record[name]  # type: ignore[literal-required]

    def __iter__(self) -> Iterator[str]:
        return iter(self.record)

    def __len__(self) -> int:
        return len(self.record)

    @property
    def trajectories(self) -> TrajectoryStore:
        """All finished episodes so far."""
        return self.explorer.trajectories

    @property
    def last_trajectories(self) -> list[tuple[NDArray[np.int32], bool]]:
        """Observation ids [T + 1] and label of each episode that ended in this update, oldest first."""
        store = self.trajectories
        first = max(0, len(store) - self.record["episodes"])
        return [(store.trajectory(index), bool(store.labels[index])) for index in range(first, len(store))]

    @cached_property
    def answers(self) -> AnswersLeft | None:
        """The assignments that are consistent with every episode so far.

        None without an FSM, before the first episode has ended, or if they are too rare for the sample.
        """
        return self.census.answers(self.explorer) if self.census is not None and len(self.trajectories) else None

    @property
    def answers_at_hand(self) -> AnswersLeft | None:
        """The same, if they take a few milliseconds: the planner knows them. None otherwise."""
        return self.census.at_hand(self.explorer) if self.census is not None and len(self.trajectories) else None

    @property
    def tree(self) -> SubgoalTree:
        """The subgoal tree so far, over the indices of the key states."""
        return self.method.tree

    @property
    def names(self) -> Mapping[str, int] | None:
        """The assignment that was found, symbol -> observation id; None before."""
        return self.method.names

    @property
    def missing(self) -> Missing:
        """What the method still needs; empty when it has finished."""
        return self.method.missing

    @property
    def finished(self) -> bool:
        """Whether the method has an answer, and no later episode has contradicted it."""
        return self.method.finished
