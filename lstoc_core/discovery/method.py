"""The interface of discovery methods, and the values that pass between them and the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lstoc_core.discovery.tree import SubgoalTree
from lstoc_core.trajectories.matching import KeyPath
from lstoc_core.trajectories.store import TrajectoryStore


def _as_ids(path: KeyPath) -> str:
    return str(list(path))


@dataclass(frozen=True)
class Need:
    """One thing that the trajectories leave open. The sentence has one placeholder {} per path."""

    sentence: str
    paths: tuple[KeyPath, ...] = ()

    def told(self, spell: Callable[[KeyPath], str] = _as_ids) -> str:
        """The sentence, each path written by `spell`."""
        return self.sentence.format(*map(spell, self.paths))


@dataclass(frozen=True)
class Missing:
    """What a method still needs before it can finish; false if empty."""

    needs: tuple[Need, ...] = ()
    seen: str = ""
    """What was seen so far, in words; stands before the needs."""

    @classmethod
    def one(cls, sentence: str, *paths: KeyPath) -> Missing:
        """A single need."""
        return cls((Need(sentence, paths),))

    def __bool__(self) -> bool:
        return bool(self.needs)

    def told(self, spell: Callable[[KeyPath], str] = _as_ids) -> str:
        """All needs in words, each path written by `spell`."""
        needs = "; ".join(need.told(spell) for need in self.needs)
        return f"{self.seen}: {needs}" if self.seen else needs

    def __str__(self) -> str:
        return self.told()

    def to_json(self) -> list[Any]:
        return [[need.sentence, need.paths] for need in self.needs]

    @classmethod
    def from_json(cls, needs: Sequence[Any]) -> Missing:
        return cls(tuple(Need(sentence, nested_tuples(paths)) for sentence, paths in needs))


@dataclass(frozen=True)
class Request:
    """What a method asks of exploration."""

    follow: tuple[KeyPath, ...] = ()
    """Paths to visit in order, and to explore from."""
    explained: tuple[KeyPath, ...] = ()
    """Settled sequences: a success that contains one teaches nothing new."""
    epsilon: float | None = None
    """ε: probability of a random action while collecting; None: the explorer's default."""
    success_share: float | None = None
    """Successes are worth nothing while at least this fraction of recent episodes succeeds; None: they always pay."""
    tour: float | None = None
    """Most that an episode earns by looking around, in successes; None: no bound."""
    testing: bool = False
    """Whether an answer is found, and episodes are to put it to the test: by ways that it says are no successes."""


class DiscoveryMethod(Protocol):
    """Finds satisfying sequences in a growing set of trajectories, and decides when to stop."""

    @property
    def paths(self) -> tuple[KeyPath, ...]:
        """P_S: the satisfying sequences so far, as observation ids."""
        ...

    @property
    def key_states(self) -> Sequence[int]:
        """Ŝ_K: observation ids of the key states. A key state's index is its place here."""
        ...

    @property
    def names(self) -> Mapping[str, int] | None:
        """The assignment, symbol -> observation id, if the method has found one; else None."""
        ...

    @property
    def tree(self) -> SubgoalTree:
        """T_φ over the indices of the key states."""
        ...

    @property
    def request(self) -> Request:
        """What exploration should do next."""
        ...

    @property
    def finished(self) -> bool: ...

    @property
    def missing(self) -> Missing:
        """What it still needs; empty when finished."""
        ...

    def advance(self, store: TrajectoryStore) -> Missing:
        """Search all trajectories so far; returns what is missing afterwards."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What the next `advance` depends on beside the trajectories, in JSON types."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        ...


def nested_tuples(value: Any) -> Any:
    """Nested lists, as JSON returns them, turned into tuples."""
    return tuple(nested_tuples(each) for each in value) if isinstance(value, list | tuple) else value
