"""Discovery without a simulator: from episodes that were recorded elsewhere.

    d = lstoc.learn(episodes, labels)                  # a list of arrays [T + 1, ...], and whether each was a success
    d = lstoc.learn(episodes, labels, fsm="a;(b|c);d") # and the names of the subgoals
    d = lstoc.learn(minari.load_dataset("..."), success="reward")

An episode holds all observations, from the start observation to the final one.
"""

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from lstoc_core.config import LSTOCConfig
from lstoc_core.discovery.contradictions import contradictions
from lstoc_core.discovery.hypotheses import GuidedConfig
from lstoc_core.discovery.method import Missing, Need
from lstoc_core.logic import FSM, parse
from lstoc_core.result import Discovery
from lstoc_core.run.answer import answer_of
from lstoc_core.run.methods import guided_for
from lstoc_core.trajectories.clusters import SAMPLE, ClusterIdentity
from lstoc_core.trajectories.door import InputError, booleans, numbers
from lstoc_core.trajectories.events import LEARNED, EventIdentity, EventReading, NameEvents
from lstoc_core.trajectories.flat import FlatObservations, box_like
from lstoc_core.trajectories.identity import ExactIdentity, Identity
from lstoc_core.trajectories.store import TrajectoryStore
from lstoc_core.trajectories.success import EpisodeEnd, Success, check_success, succeeded


@runtime_checkable
class EpisodeDataset(Protocol):
    """Recorded episodes, as in Minari: each has observations, rewards, terminations, truncations and infos."""

    def iterate_episodes(self) -> Iterator[Any]: ...


Trajectories = Sequence[ArrayLike] | TrajectoryStore | EpisodeDataset


def learn(
    trajectories: Trajectories,
    labels: ArrayLike | None = None,
    fsm: FSM | str | None = None,
    *,
    success: Success = "auto",
    events: NameEvents | Literal["learned"] | None = None,
    observations: NDArray[Any] | None = None,
    config: GuidedConfig | LSTOCConfig | None = None,
    seed: int = 0,
) -> Discovery:
    """Discover hidden subgoals, their order and, given an FSM, their names, in recorded episodes.

    trajectories: a list of arrays [T + 1, ...], one row per observation; a TrajectoryStore; or a Minari dataset.
    labels: whether each episode completed the task. A TrajectoryStore brings its own; those of a dataset are read by
    the rule `success` (see `discover`) unless they are given.
    events: key states are features: a function from an observation to the names of what holds in it; or "learned":
    clusters of noisy observations (see `discover`).
    observations: of a TrajectoryStore, the table of its ids, for `key_states`. None: the ids themselves.
    config: of the guided method, `lstoc.GuidedConfig(prompt=False)` if episodes may go on after a success; of an
    LSTOCConfig, as `discover` takes it, the part `guided` counts.

    With an FSM, it has finished if exactly one answer is consistent with every episode; or if all that are differ only
    in forced landmarks, also in a random half of the episodes, which `seed` draws. Without one, if its sequences are
    decided, explain every success, and come out of such a half, too.
    """
    fsm = parse(fsm).fsm() if isinstance(fsm, str) else fsm
    if fsm is not None and not isinstance(fsm, FSM):
        raise TypeError(f"fsm is {fsm!r}: give a formula, 'a;b', or an FSM, as from parse('a;b').fsm()")
    if isinstance(config, LSTOCConfig):
        config = config.guided
    elif not isinstance(config, GuidedConfig | None):
        raise TypeError(f"config is {config!r}: give a GuidedConfig, or an LSTOCConfig that holds one")
    check_success(success)
    if not (events is None or events == LEARNED or callable(events)):
        raise ValueError(f"events={events!r} of recorded episodes: give a function or 'learned'; boxes() finds boxes")
    store, table, seed = *_given(trajectories, labels, success, observations), operator.index(seed)
    reading = None
    if isinstance(events, str):
        store, table = _clustered(store, table, seed)
    elif events is not None:
        states = EventIdentity(events, _flat(trajectories, table))
        store, table, reading = _with_states(store, table, states), states.observations, EventReading(states)
    method = guided_for(fsm, config or GuidedConfig(), reading=reading)
    if store.labels.any() and not store.labels.all():
        if fsm is not None:
            method.advance(store)
        if not method.finished:  # it must come out of half of the episodes, too
            method = guided_for(fsm, config or GuidedConfig(), reading=reading)
            half = np.random.default_rng(seed).permutation(len(store))[: len(store) // 2]
            method.advance(store.select(half))
            method.advance(store)
    return Discovery(
        **answer_of(method, fsm, table, store),
        method="guided",
        seed=seed,
        missing=Missing() if method.finished else _shortfall(store, method.missing),
        tested=0,
        withdrawn=0,
        warnings=(),
        interrupted=False,
        num_trajectories=len(store),
        num_positives=len(store.positives),
        env_steps=store.num_steps,
        success_rate=float("nan"),
        exploration="none: the episodes were given",
        history=[],
        trajectories=store,
        policy=None,
        explorer=None,
        finder=method,
    )


def check(
    discovery: Discovery,
    trajectories: Trajectories,
    labels: ArrayLike | None = None,
    *,
    success: Success = "auto",
    events: NameEvents | Literal["learned"] | None = None,
    prompt: bool = True,
) -> NDArray[np.int64]:
    """Indices of the recorded episodes that contradict a discovery: its sequences do not predict their outcome.

    trajectories, labels, success: as for `learn`; the ids of a TrajectoryStore are rows of `discovery.observations`.
    events: the same that the discovery was made with.
    prompt: a success must also end where it first contains a sequence. False: only the label counts.
    """
    if not discovery.sequences:
        raise ValueError(f"no sequence was discovered, so there is nothing to test: {discovery.missing}")
    check_success(success)
    if any(key.bounds for key in discovery.key_states):
        raise ValueError(
            "key states are boxes, which predict most episodes and not all: no single one contradicts them"
        )
    if isinstance(events, str):
        raise ValueError("learned states are not kept with a discovery: give events= as a function, here and there")
    if (events is not None) != any(key.event for key in discovery.key_states):
        raise ValueError("events= must be what the discovery was made with: a function if it was one, else None")
    store, table = _given(trajectories, labels, success, None)
    if events is not None:
        if isinstance(trajectories, TrajectoryStore):
            raise ValueError("events= are of observations, a TrajectoryStore has ids: give arrays or a dataset")
        states = EventIdentity(events, _flat(trajectories, table))
        read = EventReading(states)(_with_states(store, table, states))
        numbers = [states.event_number(key.event) for key in discovery.key_states]
        return contradictions(
            read, [tuple(numbers[key] for key in path) for path in discovery.sequences], prompt=prompt
        )
    keys = np.array([key.observation_id for key in discovery.key_states])
    if not isinstance(trajectories, TrajectoryStore):
        store, keys = _same_ids(store, table, np.stack([key.observation for key in discovery.key_states]))
    return contradictions(store, [tuple(keys[[*path]].tolist()) for path in discovery.sequences], prompt=prompt)


def _clustered(store: TrajectoryStore, table: NDArray[Any], seed: int) -> tuple[TrajectoryStore, NDArray[Any]]:
    """The trajectories in clusters of their observations, which are learned from a sample."""
    chosen = np.random.default_rng(seed).permutation(len(table))[:SAMPLE]
    identity = ClusterIdentity()
    identity.learn(table[np.sort(chosen)])
    return _with_states(store, table, identity), identity.observations


def _with_states(store: TrajectoryStore, table: NDArray[Any], identity: Identity) -> TrajectoryStore:
    """The trajectories in ids of another identity."""
    renamed = TrajectoryStore()
    renamed.append_flat(identity.ids(table)[store.ids], store.lengths, store.labels)
    return renamed


def _flat(trajectories: Trajectories, table: NDArray[Any]) -> FlatObservations:
    """How the rows of the table were flattened."""
    space = getattr(trajectories, "observation_space", None)
    return FlatObservations(space if isinstance(space, spaces.Dict | spaces.Tuple) else box_like(table))


def _same_ids(
    store: TrajectoryStore, table: NDArray[Any], keys: NDArray[Any]
) -> tuple[TrajectoryStore, NDArray[np.int64]]:
    """The trajectories and the key states `keys` in ids of one table."""
    if table.shape[1:] != keys.shape[1:]:
        raise ValueError(
            f"the episodes have observations of shape {table.shape[1:]}, the discovery of {keys.shape[1:]}: "
            "make them agree"
        )
    identity, dtype = ExactIdentity(), np.result_type(table.dtype, keys.dtype)
    renamed = _with_states(store, table.astype(dtype), identity)
    return renamed, identity.ids(keys.astype(dtype))


def _given(
    trajectories: Trajectories, labels: ArrayLike | None, success: Success, observations: NDArray[Any] | None
) -> tuple[TrajectoryStore, NDArray[Any]]:
    """The trajectories as ids, and the table of their observations."""
    if isinstance(trajectories, TrajectoryStore):
        if labels is not None:
            raise ValueError("a TrajectoryStore has its own labels: leave labels out")
        table = np.arange(trajectories.num_ids) if observations is None else np.asarray(observations)
        if len(table) < trajectories.num_ids:
            raise ValueError(f"{len(table)} observations for {trajectories.num_ids} ids: give one row for each id")
        return trajectories, table
    if observations is not None:
        raise ValueError("observations is the table of a TrajectoryStore: these trajectories hold their own")
    if isinstance(trajectories, EpisodeDataset):
        rows, read = _of_dataset(trajectories, None if labels is not None else success)
    else:
        if labels is None:
            raise ValueError(
                "labels are missing: give True or False for each trajectory, whether it completed the task"
            )
        rows, read = [np.asarray(episode) for episode in trajectories], []
    return _interned(rows, _booleans(read if labels is None else labels, len(rows)))


def _interned(episodes: Sequence[NDArray[Any]], labels: NDArray[np.bool_]) -> tuple[TrajectoryStore, NDArray[Any]]:
    if not len(episodes):
        raise ValueError("no trajectories: give at least one success and one failure")
    first = episodes[0]
    for i, episode in enumerate(episodes):
        if episode.dtype.kind not in "biuf" or episode.ndim < 1 or not len(episode):
            raise ValueError(f"trajectory {i} is {episode!r}: give an array with one row of numbers per observation")
        if episode.shape[1:] != first.shape[1:]:
            raise ValueError(
                f"trajectory {i} has observations of shape {episode.shape[1:]}, trajectory 0 of {first.shape[1:]}: "
                "make them agree"
            )
    identity, dtype = ExactIdentity(), np.result_type(*{episode.dtype for episode in episodes})
    store = TrajectoryStore()
    store.append([identity.ids(_numbers(i, episode, dtype)) for i, episode in enumerate(episodes)], None, labels)
    return store, identity.observations


def _numbers(index: int, episode: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        return numbers(episode, dtype)
    except InputError as error:
        raise InputError(f"trajectory {index}: {error}") from None


def _of_dataset(dataset: EpisodeDataset, success: Success | None) -> tuple[list[NDArray[Any]], list[bool]]:
    """The observations of each episode, flat if they are composed, and the labels by the rule, if there is one."""
    episodes, labels = [], []
    flat = None
    for i, episode in enumerate(dataset.iterate_episodes()):
        seen, steps = episode.observations, len(episode.rewards)
        if isinstance(seen, dict | tuple):
            flat = flat or FlatObservations(dataset.observation_space)  # type: ignore[attr-defined]
            seen = flat.rows(seen, steps + 1)
        episodes.append(np.asarray(seen))
        if success is not None:
            end = EpisodeEnd(
                observation=episodes[-1][-1],
                reward=float(episode.rewards[-1]),
                terminated=bool(episode.terminations[-1]),
                truncated=bool(episode.truncations[-1]),
                info=_last(getattr(episode, "infos", None) or {}),
            )
            labels.append(succeeded(success, end, f"episode {i}"))
    return episodes, labels


def _last(infos: dict[str, Any]) -> dict[str, Any]:
    """The last of stacked infos."""
    return {key: _last(value) if isinstance(value, dict) else value[-1] for key, value in infos.items() if len(value)}


def _booleans(labels: ArrayLike | Iterable[bool], count: int) -> NDArray[np.bool_]:
    given = np.asarray(labels)
    if given.shape != (count,):
        raise ValueError(f"labels of shape {given.shape} for {count} trajectories: give one for each")
    return booleans(given)


def _shortfall(store: TrajectoryStore, missing: Missing) -> Missing:
    """What was given, and why it does not suffice."""
    positives = len(store.positives)
    needs = missing.needs
    if not positives:
        needs = (Need("nothing to learn from; give episodes that complete the task, too, or check the labels"),)
    elif positives == len(store):
        needs = (Need("without failures there is nothing to contrast"),)
    return Missing(needs, seen=f"{positives} successes in {len(store)} trajectories of {store.num_steps} steps")
