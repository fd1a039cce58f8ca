"""Scoring: a discovery compared with the truth, which only the task, or the user, knows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lstoc_core.logic import parse
from lstoc_core.result import Discovery
from lstoc_core.run.answer import KeyState
from lstoc_core.trajectories.flat import FlatObservations
from lstoc_core.worlds import compile_world
from lstoc_core.worlds.tasks import TASKS, Task


@dataclass(frozen=True)
class Score:
    """How well a discovery matches the task's truth."""

    exact: bool
    """The discovered sequences are exactly the task's minimal satisfying sequences."""
    found: float
    """Fraction of the task's key states that were discovered."""
    labels_correct: bool
    """Every key state of the discovered sequences has its true name."""

    def _repr_html_(self) -> str:
        """A line per part, with a tick where it is as the truth."""
        parts = {
            "sequences are exactly the truth": self.exact,
            f"{self.found:.0%} of the key states were found": self.found == 1,
            "every name is right": self.labels_correct,
        }
        return "".join(f"<div>{'✓' if right else '✗'} {told}</div>" for told, right in parts.items())


Place = ArrayLike | Mapping[str, Any] | Callable[[Any], bool]
"""Where a subgoal is: its observation, or a function that says whether an observation is there."""


def score(
    discovery: Discovery,
    truth: Task | str | Mapping[str, Place],
    sequences: str | Iterable[Sequence[str]] | None = None,
) -> Score:
    """Compare a discovery with the truth.

    truth: a Task or its name. Or, for an environment of one's own, the name of each subgoal with its observation, as
    the environment gives it or as in `KeyState.observation`; or with a function from what the environment gives to True
    or False. (A discovery that was loaded from a file knows arrays only: its functions get `KeyState.observation`.)
    sequences: with such names, a formula, or the satisfying sequences; a Task knows its own.

    score(d, {"key": has_key, "door": at_door}, "key;door")
    """
    if isinstance(truth, Mapping):
        if sequences is None:
            raise ValueError("sequences are missing: give a formula over the names, or a list of sequences of names")
        words = parse(sequences).minimal_sequences() if isinstance(sequences, str) else sequences
        wanted = {tuple(word) for word in words}
        if not any(wanted):
            raise ValueError("there are no sequences to compare with: give at least one, of at least one name")
        if unplaced := sorted({name for word in wanted for name in word} - set(truth)):
            raise ValueError(f"the sequences name {unplaced}, the truth does not: say where they are")
        flat = getattr(getattr(discovery.explorer, "env", None), "flat", None)
        found = {state.index: _name(state, truth, flat) for state in discovery.key_states}
        return _compared(discovery, found, wanted)
    if sequences is not None:
        raise ValueError("a Task knows its own sequences: leave them out")
    return _against_task(discovery, TASKS[truth] if isinstance(truth, str) else truth)


def _name(state: KeyState, truth: Mapping[str, Any], flat: FlatObservations | None) -> str | None:
    """The name of the subgoal that a key state is; None if it is none. flat: how its observation became an array."""
    seen = state.observation if flat is None else flat.unflat(state.observation)
    names = [name for name, place in truth.items() if (place(seen) if callable(place) else _same(place, state, flat))]
    if len(names) > 1:
        raise ValueError(f"key state {state.index} is {' and '.join(names)} at once: make the truth tell them apart")
    return names[0] if names else None


def _same(place: Any, state: KeyState, flat: FlatObservations | None) -> bool:
    """Whether a place, as the environment gives it or as an array, is that of a key state."""
    if flat is not None and (isinstance(place, Mapping | tuple) or np.shape(place) != state.observation.shape):
        place = flat.row(place)
    if np.shape(place) != state.observation.shape:
        raise ValueError(
            f"the truth has an observation of shape {np.shape(place)}, key states have {state.observation.shape}: give "
            "it as in KeyState.observation"
        )
    return np.array_equal(place, state.observation)


def _against_task(discovery: Discovery, task: Task) -> Score:
    """A key state counts as the place with the nearest observation, so noise in observations does no harm."""
    world = compile_world(task)
    places = {world.observation_of_symbol(symbol): symbol for sequence in task.sequences for symbol in sequence}
    table = world.observations.reshape(len(world.observations), -1).astype(np.int16)
    found: dict[int, str | None] = {}
    for state in discovery.key_states:
        nearest = np.abs(table - state.observation.reshape(-1).astype(np.int16)).sum(1, dtype=np.int64).argmin()
        found[state.index] = places.get(int(nearest))
    return _compared(discovery, found, set(task.sequences))


def _compared(discovery: Discovery, found: Mapping[int, str | None], wanted: set[tuple[str, ...]]) -> Score:
    """found: key state -> its true name. wanted: the true sequences."""
    places = {name for word in wanted for name in word}
    named = discovery.labeling.mapping if discovery.labeling is not None else {}
    used = {key for sequence in discovery.sequences for key in sequence}
    return Score(
        exact={tuple(found[key] for key in sequence) for sequence in discovery.sequences} == wanted,
        found=len(places & set(found.values())) / len(places),
        labels_correct=bool(used) and all(found[key] is not None and named.get(key) == found[key] for key in used),
    )
