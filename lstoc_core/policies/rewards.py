"""Rewards of the policy: the task's label, progress along key states, first occupancy, and approach.

The paper (Section "Exploration Policy") pays the label at the end of an episode, and an auxiliary reward r_a for
visiting the key states of the working path in order. We add a *first-occupancy bonus* for each observation that is new
in the episode; without it, the larger maps show no success. Once the sequences are known, *approach* pays each step
that shortens the way to the end of one, as measured in past trajectories.

All rewards depend only on the episode so far and on the plan. They are computed for all environments at once, on a
prefix tree of the sequences held as arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.trajectories.events import Vocabulary
from lstoc_core.trajectories.matching import KeyPath
from lstoc_core.trajectories.recorder import Ids, RunningEpisodes
from lstoc_core.trajectories.store import Bools

Ways = Mapping[int, NDArray[np.float64]]
"""Key state -> fewest steps to it from each observation (`shortest_ways`); infinite if no way is known."""


@dataclass(frozen=True)
class RewardConfig:
    """How much each event pays."""

    success: float = 1.0
    """An episode that completes the task."""
    explained: float = 1.0
    """Paid instead of `success` if the episode contains an explained sequence."""
    progress: float = 0.0
    """r_a: one more key state of a path is visited in order, for the first time in the episode."""
    bonus: float = 0.0
    """Each observation that is new in the episode, scaled by `RewardPlan.worth`."""
    approach: float = 0.0
    """A step after which the end of a path is nearer than has been paid for. It counts as one step nearer, even if it
    seems to gain more: different places may look the same."""
    rearm: bool = True
    """Whether all observations count as new again when the agent advances along a path or an explained sequence."""
    quiet: bool = True
    """Whether only the label pays once a single key state is missing to complete an explained sequence."""


@dataclass(frozen=True, eq=False)
class RewardPlan:
    """Everything the rewards depend on beside the episode itself."""

    config: RewardConfig = RewardConfig()
    paths: tuple[KeyPath, ...] = ()
    """Sequences along which r_a and approach are paid."""
    explained: tuple[KeyPath, ...] = ()
    """A success that contains one of these pays `config.explained`; see also `config.quiet`."""
    ways: Ways = field(default_factory=dict)
    """Shortest ways to the key states of the paths, for approach."""
    worth: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """Factor of the bonus for observation ids below N, [N]; it is 1 for all others."""
    places: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)
    """Key state -> the observation ids in which it holds, for approach, where it is an event."""

    def same_rules(self, other: RewardPlan) -> bool:
        """Whether running episodes need no replay when one plan replaces the other."""
        mine, theirs = ((plan.config, plan.paths, plan.explained) for plan in (self, other))
        return mine == theirs and (self.ways is other.ways or not (self.ways or other.ways))

    def state_dict(self) -> dict[str, Any]:
        """The plan as arrays and plain values."""
        sequences = {name: [list(path) for path in getattr(self, name)] for name in ("paths", "explained")}
        return {
            "config": asdict(self.config),
            **sequences,
            "ways": dict(self.ways),
            "places": dict(self.places),
            "worth": self.worth,
        }

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> RewardPlan:
        """The plan whose `state_dict` this is."""
        paths, explained = (tuple(tuple(path) for path in state[name]) for name in ("paths", "explained"))
        return cls(RewardConfig(**state["config"]), paths, explained, state["ways"], state["worth"], state["places"])


class PrefixTree:
    """The sequences as arrays over the nodes of their prefix tree. Node 0 is the root, where every episode begins."""

    def __init__(self, plan: RewardPlan) -> None:
        nodes: dict[KeyPath, int] = {(): 0}
        for path in plan.paths + plan.explained:
            for length in range(1, len(path) + 1):
                nodes.setdefault(path[:length], len(nodes))
        prefixes = list(nodes)[1:]
        self.parent = np.array([nodes[prefix[:-1]] for prefix in prefixes], np.intp)
        self.key = np.array([prefix[-1] for prefix in prefixes], np.int64)
        self.depth = np.array([len(prefix) for prefix in prefixes], np.int64)
        on_path = {path[:length] for path in plan.paths for length in range(1, len(path) + 1)}
        self.paid_depth = self.depth * np.array([prefix in on_path for prefix in prefixes], np.int64)
        self.ends = np.array(sorted({nodes[path] for path in plan.explained}), np.intp)
        self.before_end = np.array(sorted({nodes[path[:-1]] for path in plan.explained if path}), np.intp)
        self.remaining = self._remaining({nodes[path] for path in plan.paths}, plan.ways, plan.places)

    def _remaining(self, ends: set[int], ways: Ways, places: Mapping[int, NDArray[np.int64]]) -> NDArray[np.float64]:
        """Fewest steps from each observation to the end of a path once a node is reached, [nodes, ids + 1].

        Infinite if no way is known. The last column stands for all other observations.
        """
        size = max((len(steps) for steps in ways.values()), default=0)
        remaining = np.full((1 + len(self.key), size + 1), np.inf)
        for node in range(len(self.key), 0, -1):  # children before their parents
            key, parent = int(self.key[node - 1]), int(self.parent[node - 1])
            there = np.minimum(places.get(key, np.array([key])), size)
            onward = 0.0 if node in ends else remaining[node, there].min(initial=np.inf)
            if key in ways:
                steps = ways[key] + onward
                remaining[parent, : len(steps)] = np.minimum(remaining[parent, : len(steps)], steps)
        remaining[sorted(ends)] = 0.0
        return remaining


class RewardModel:
    """Rewards of `num_envs` environments side by side.

    An episode *reaches* a node of the prefix tree when it has visited the keys on the way to it in order. Other visits
    in between are harmless; the start observation is not a visit. The episode *advances* when the depth of its deepest
    node grows, at most by one per step. So r_a is paid once per depth: a second branch pays only where it gets further
    than the first. A key state visited too early pays nothing.

    With a vocabulary, ids are states and the keys are events. A key is visited when the event happens, and the bonus is
    paid for a step in which an event happens for the first time.
    """

    def __init__(
        self,
        num_envs: int,
        plan: RewardPlan | None = None,
        running: RunningEpisodes | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        """running: episodes under way, to be replayed."""
        self.num_envs, self.vocabulary = num_envs, vocabulary
        self._before = np.full(num_envs, -1, np.int64)
        """State before the step; -1 in the first step of an episode."""
        self.plan = plan or RewardPlan()
        self._rows = np.arange(num_envs)
        self._depth = np.zeros(num_envs, np.int64)
        self._paid_depth = np.zeros(num_envs, np.int64)
        self._left = np.full(num_envs, np.inf)
        # An observation has been seen if its stamp is the environment's current one; a new stamp forgets all at once.
        self._stamp = np.ones(num_envs, np.int32)
        self._stamps = np.zeros((num_envs, 64), np.int32)
        self._tree = PrefixTree(self.plan)
        self._reached = np.ones((num_envs, 1 + len(self._tree.key)), np.bool_)
        if running is not None:
            self._replay(running)

    def follow(self, plan: RewardPlan, running: RunningEpisodes) -> None:
        """Use this plan from now on.

        Running episodes are replayed as if the plan had always been this one. Rewards already paid stay paid.
        """
        replay = not plan.same_rules(self.plan)
        self.plan = plan
        if replay:
            self._tree = PrefixTree(plan)
            self._replay(running)

    def reset(self, ids: Ids) -> None:
        """Begin an episode in every environment, on observations `ids` [E]."""
        self._begin(np.ones(self.num_envs, np.bool_), np.asarray(ids))

    def step(self, final_ids: Ids, done: Bools, success: Bools, next_ids: Ids) -> NDArray[np.float32]:
        """Rewards [E] of one step.

        final_ids: observation after the step, before any reset. next_ids: the same, or the first observation of the
        next episode where `done`. success: the label, read only where `done`.
        """
        reward = self._visit(final_ids)
        if done.any():
            explained = self._reached[:, self._tree.ends].any(1)
            label = np.where(explained, self.plan.config.explained, self.plan.config.success)
            reward += label * (success & done)
            self._begin(done, next_ids)
        return reward.astype(np.float32)

    def _begin(self, envs: Bools, ids: Ids) -> None:
        self._reached[envs, 1:] = False
        self._depth[envs] = self._paid_depth[envs] = 0
        if self.plan.config.approach:
            self._left[envs] = self._remaining(ids)[envs]
        self._stamp += envs
        if self.vocabulary is not None:
            self._before[envs] = -1
        else:
            self._mark_seen(self._rows, np.where(envs, ids, -1))

    def _visit(self, ids: Ids) -> NDArray[np.float64]:
        """Rewards [E] for visiting `ids`, without the label; marks what is reached and seen."""
        reward = np.zeros(self.num_envs)
        advanced = None
        envs, keys, visited = self._rows, ids, self._tree.key == ids[:, None]
        if self.vocabulary is not None:
            envs, keys = self._events(ids, self.vocabulary)
            visited = np.zeros((self.num_envs, len(self._tree.key)), np.bool_)
            np.logical_or.at(visited, envs, self._tree.key == keys[:, None])
        fresh = visited & self._reached[:, self._tree.parent] & ~self._reached[:, 1:]
        if fresh.any():
            self._reached[:, 1:] |= fresh
            depth = np.maximum(self._depth, (fresh * self._tree.depth).max(1))
            paid_depth = np.maximum(self._paid_depth, (fresh * self._tree.paid_depth).max(1))
            reward += self.plan.config.progress * (paid_depth > self._paid_depth)
            advanced = depth > self._depth
            self._depth, self._paid_depth = depth, paid_depth
        if self.plan.config.approach:
            remaining = self._remaining(ids)
            nearer = (remaining < self._left) & np.isfinite(self._left)
            reward += self.plan.config.approach * nearer
            self._left = np.where(np.isfinite(self._left), self._left - nearer, remaining)
        if self.plan.config.bonus:
            reward += self.plan.config.bonus * self._mark_seen(envs, keys) * self._worth_of(ids)
            if advanced is not None and self.plan.config.rearm:
                self._stamp += advanced
                self._mark_seen(envs, keys)
        if self.plan.config.quiet and len(self._tree.before_end):
            reward[self._reached[:, self._tree.before_end].any(1)] = 0
        return reward

    def _worth_of(self, ids: Ids) -> NDArray[np.float64] | float:
        worth = self.plan.worth
        return np.append(worth, 1.0)[np.minimum(ids, len(worth))] if len(worth) else 1.0

    def _remaining(self, ids: Ids) -> NDArray[np.float64]:
        """Fewest steps left to the end of a path [E], from observations `ids`; infinite for id -1, no observation."""
        known = self._reached & (ids >= 0)[:, None]
        left: NDArray[np.float64] = np.where(known, self._tree.remaining[:, self._columns(ids)].T, np.inf).min(1)
        return left

    def _columns(self, ids: Ids) -> Ids:
        """Columns of the observations in the tree's `remaining`: the last one for unknown ids and for -1."""
        return np.where(ids < self._tree.remaining.shape[1], ids, -1)

    def _events(self, ids: Ids, vocabulary: Vocabulary) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """The events of this step: the environment and the number of each. Id -1, no observation, has none."""
        envs: list[int] = []
        keys: list[int] = []
        for env, (before, state) in enumerate(zip(self._before.tolist(), ids.tolist(), strict=True)):
            begun = vocabulary.begun(before, state) if state >= 0 and before != state else ()
            envs += [env] * len(begun)
            keys += begun
        self._before = np.where(ids >= 0, ids, self._before)
        return np.array(envs, np.intp), np.array(keys, np.int64)

    def _mark_seen(self, envs: NDArray[np.intp], keys: Ids) -> Bools:
        """Mark keys, each in its environment, as seen; in which environments [E] one was new.

        Key -1, no observation, goes to the spare last column.
        """
        new = np.zeros(self.num_envs, np.bool_)
        if not self.plan.config.bonus or not len(keys):
            return new
        while keys.max() + 1 >= self._stamps.shape[1]:
            self._stamps[:, -1] = 0
            self._stamps = np.concatenate([self._stamps, np.zeros_like(self._stamps)], axis=1)
        new[envs[self._stamps[envs, keys] != self._stamp[envs]]] = True
        self._stamps[envs, keys] = self._stamp[envs]
        return new

    def _replay(self, running: RunningEpisodes) -> None:
        """Recompute what the running episodes have reached and seen."""
        ids, lengths = running.ids, running.lengths
        self._reached = np.zeros((self.num_envs, 1 + len(self._tree.key)), np.bool_)
        self._reached[:, 0] = True
        self._depth[:] = self._paid_depth[:] = 0
        self._left = self._remaining(ids[:, 0])
        self._stamp += 1
        if self.vocabulary is not None:
            self._before[:] = -1
        else:
            self._mark_seen(self._rows, ids[:, 0])
        for time in range(1, int(lengths.max())):
            self._visit(np.where(time < lengths, ids[:, time], -1))
