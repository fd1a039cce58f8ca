"""Scoring: a discovery compared with the truth, which only the task knows."""

from dataclasses import dataclass

import numpy as np

from lstoc_core.loop import Discovery
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


def score(discovery: Discovery, task: Task | str) -> Score:
    """Compare a discovery with the task's truth.

    A key state counts as the place with the nearest observation, so noise in observations does no harm.
    """
    task = TASKS[task] if isinstance(task, str) else task
    world = compile_world(task)
    places = {world.observation_of_symbol(symbol): symbol for sequence in task.sequences for symbol in sequence}
    table = world.observations.reshape(len(world.observations), -1).astype(np.int16)
    found: dict[int, str | None] = {}
    for state in discovery.key_states:
        nearest = np.abs(table - state.observation.reshape(-1).astype(np.int16)).sum(1, dtype=np.int64).argmin()
        found[state.index] = places.get(int(nearest))
    named = discovery.labeling.mapping if discovery.labeling is not None else {}
    used = {key for sequence in discovery.sequences for key in sequence}
    return Score(
        exact={tuple(found[key] for key in sequence) for sequence in discovery.sequences} == set(task.sequences),
        found=len(set(places.values()) & set(found.values())) / len(places),
        labels_correct=bool(used) and all(found[key] is not None and named.get(key) == found[key] for key in used),
    )
