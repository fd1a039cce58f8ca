"""What a method found, as the fields of a `Discovery`: key states with what the agent saw there, names, landmarks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.discovery.guided import Guided
from lstoc_core.discovery.method import DiscoveryMethod
from lstoc_core.discovery.published.forward import Forward
from lstoc_core.discovery.regions import Regions
from lstoc_core.labeling import Labeling, LabelingError, certify, label
from lstoc_core.logic.fsm import FSM
from lstoc_core.trajectories.cells import Bounds
from lstoc_core.trajectories.events import EventReading
from lstoc_core.trajectories.store import TrajectoryStore


@dataclass(frozen=True)
class KeyState:
    """A discovered key state: its index in Ŝ_K and what the agent saw there."""

    index: int
    observation: NDArray[Any]
    """With `events=`, the first observation seen in which the feature holds."""
    observation_id: int
    event: str = ""
    """The name of the feature, with `events=`; else empty."""
    bounds: Bounds | None = field(default=None, compare=False)
    """Lowest and highest value in each dimension, with `events="boxes"`; else None."""

    def __repr__(self) -> str:
        if self.event:
            return f"KeyState({self.index}, event {self.event!r})"
        return f"KeyState({self.index}, observation {self.observation_id} of shape {self.observation.shape})"


def answer_of(
    method: DiscoveryMethod, fsm: FSM | None, observations: NDArray[Any], store: TrajectoryStore
) -> dict[str, Any]:
    """The fields of a `Discovery` that say what a method found. observations: the table of ids."""
    number = {key: index for index, key in enumerate(method.key_states)}
    sequences = tuple(tuple(number[key] for key in path) for path in method.paths)
    guided = method if isinstance(method, Guided) else None
    reading = method.reading if isinstance(method, Guided | Regions | Forward) else None
    bounds = method.cells.bounds if isinstance(method, Regions) else lambda _: None
    branches = guided.landmarks(store) if guided is not None and method.paths else ()
    labeling = _labeling(sequences, fsm, method.names, number) if fsm is not None and method.finished else None
    return {
        "sequences": sequences,
        "landmarks": tuple(
            tuple(
                replace(
                    each, observation=np.array(observations[_state(reading, each.key)]), name=_spelt(reading, each.key)
                )
                for each in branch
            )
            for branch in branches
        ),
        "alike": {
            name: tuple(map(reading.event_name, keys)) if reading is not None else keys
            for name, keys in (guided.alike.items() if guided is not None else ())
        },
        "verdict": _verdict(method, labeling),
        "key_states": tuple(
            KeyState(
                index, np.array(observations[state]), state, reading.event_name(key) if reading else "", bounds(key)
            )
            for key, index in number.items()
            for state in [_state(reading, key)]
        ),
        "tree": method.tree,
        "fsm": fsm,
        "labeling": labeling,
        "finished": method.finished,
        "proved": guided is not None and guided.proved,
        "observations": observations,
    }


def _verdict(method: DiscoveryMethod, labeling: Labeling | None) -> str:
    """How sure the answer is, by the method itself where it says so; and which names the FSM leaves open."""
    if isinstance(method, Guided | Regions):
        alike = labeling.interchangeable if labeling is not None else ()
        told = "; ".join(" and ".join(group) for group in alike)
        return (
            f"{method.verdict}, up to exchanging names that the FSM cannot tell apart: {told}"
            if told
            else method.verdict
        )
    return "finished" if method.finished else "open"


def _state(reading: EventReading | None, key: int) -> int:
    """The observation id of a key; of an event, the first one in which it holds."""
    return reading.state_of(key) if reading is not None else key


def _spelt(reading: EventReading | None, key: int) -> str:
    return reading.event_name(key) if reading is not None else str(key)


def _labeling(
    sequences: Sequence[tuple[int, ...]], fsm: FSM, names: Mapping[str, int] | None, number: Mapping[int, int]
) -> Labeling | None:
    """Names of the key states: the method's assignment, certified, or else the integer program's; None if none fit."""
    try:
        if names is not None:
            return certify(sequences, fsm, {number[key]: symbol for symbol, key in names.items()})
    except ValueError:  # some key states carry no name, or there are too many mappings
        pass
    try:
        return label(sequences, fsm)
    except LabelingError:
        return None
