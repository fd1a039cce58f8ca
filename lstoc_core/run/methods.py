"""The discovery methods by name, and how each is made for an environment and an FSM.

A method of one's own is a function from a `Setting` to a `DiscoveryMethod`: `discover(env, method=make_mine)`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lstoc_core.config import LSTOCConfig
from lstoc_core.discovery.guided import Guided
from lstoc_core.discovery.hypotheses import GuidedConfig, SlotScores
from lstoc_core.discovery.method import DiscoveryMethod
from lstoc_core.discovery.published.forward import Forward
from lstoc_core.discovery.published.importance import GAMMA, scores
from lstoc_core.discovery.published.training import CONVERGED, TRAININGS
from lstoc_core.discovery.regions import Regions
from lstoc_core.labeling import LabelingError, label
from lstoc_core.logic.fsm import FSM, Word
from lstoc_core.suggestions import unknown
from lstoc_core.trajectories.cells import CellIdentity
from lstoc_core.trajectories.events import EventReading
from lstoc_core.trajectories.matching import KeyPath
from lstoc_core.trajectories.store import TrajectoryStore
from lstoc_core.trajectories.vector_env import IdVectorEnv, vocabulary_of

UNCHECKED = 6
"""Without an FSM, a sequence needs this many times more successes of its own to be decided."""


@dataclass(frozen=True)
class Setting:
    """What a discovery method or an explorer is made for."""

    env: IdVectorEnv
    fsm: FSM | None
    """Temporal dependencies of the subgoals' names, if known."""
    config: LSTOCConfig
    seed: int
    contrast: str = "exact"
    """How states are scored: by "exact" coverage, or by a "learned" f_ω."""
    discount: float = GAMMA
    """γ of the environment."""
    widened: Callable[[int], IdVectorEnv] | None = None
    """Makes the environment again with so many episodes side by side; the ids stay, where they can."""

    def __post_init__(self) -> None:
        if self.contrast not in ("exact", "learned"):
            raise ValueError(unknown("contrast", self.contrast, ("exact", "learned")))


MakeMethod = Callable[[Setting], DiscoveryMethod]


def make_guided(setting: Setting) -> Guided | Regions:
    """Ours. With an FSM, it finishes when exactly one answer is consistent with the trajectories.

    Where key states are boxes, it finishes when they predict the episodes that come after them.
    """
    vocabulary = vocabulary_of(setting.env)
    if isinstance(vocabulary, CellIdentity):
        return Regions(vocabulary, _only_sequence(setting.fsm), seed=setting.seed)
    contrast = _LearnedContrast(setting) if setting.contrast == "learned" else None
    reading = EventReading(vocabulary) if vocabulary else None
    return guided_for(setting.fsm, setting.config.guided, contrast, reading)


def _only_sequence(fsm: FSM | None) -> Word | None:
    """The FSM's only minimal sequence, of different symbols; None without an FSM."""
    if fsm is None:
        return None
    first, *others = fsm.minimal_sequences()
    if others or len(set(first)) < len(first):
        raise ValueError(
            "events='boxes' with an FSM of several sequences, or with a symbol that comes twice: boxes are sought for "
            "one sequence; say what recurs by events=, a function of an observation"
        )
    return first


def guided_for(
    fsm: FSM | None,
    config: GuidedConfig,
    contrast: SlotScores | None = None,
    reading: EventReading | None = None,
) -> Guided:
    """The guided method, with or without an FSM."""
    if fsm is None:  # nothing can prove the answer, so ask for more support
        return Guided(replace(config, decisive=UNCHECKED * config.decisive), contrast, reading=reading)
    return Guided(replace(config, max_length=fsm.longest_path), contrast, fsm.minimal_sequences(), reading)


def make_forward(setting: Setting) -> Forward:
    """The paper's. With an FSM, it finishes when the sequences of its tree can be named."""
    fsm, config = setting.fsm, setting.config.forward
    vocabulary = vocabulary_of(setting.env)
    if isinstance(vocabulary, CellIdentity):
        raise ValueError(
            "method='forward' knows no boxes: it rates states one by one, and a box is sought among many; use "
            "method='guided', or give events= as a function"
        )
    reading = EventReading(vocabulary) if vocabulary else None
    accept = partial(named, fsm=fsm) if fsm else None
    training = TRAININGS[config.training].sized(setting.env.observations)
    return Forward(config, fsm, accept, training, setting.seed, gamma=setting.discount, reading=reading)


def named(paths: Sequence[KeyPath], fsm: FSM) -> Mapping[str, int] | None:
    """Symbol -> observation id, if the sequences are, up to names, the FSM's minimal sequences; else None."""
    try:
        mapping = label(paths, fsm, explain=False).mapping
    except LabelingError:
        return None
    words = {tuple(mapping[key] for key in path if key in mapping) for path in paths}
    return {symbol: key for key, symbol in mapping.items()} if words == set(fsm.minimal_sequences()) else None


METHODS: Mapping[str, MakeMethod] = {"guided": make_guided, "forward": make_forward}


@dataclass(frozen=True)
class _LearnedContrast:
    """f_ω trained on the states of one slot, on top of o_θ where the environment has learned one."""

    setting: Setting

    def __call__(self, positives: TrajectoryStore, refuters: TrajectoryStore) -> NDArray[np.float64]:
        table = self.setting.env.representation(positives.num_ids)
        training = replace(CONVERGED, iterations=300)
        return scores(positives, refuters, representation=table, seed=self.setting.seed, training=training)
