"""A map of the world, learned online from observation ids and actions: a graph whose nodes predict what is seen next.

Different places may look the same (*aliased* ids). An id that is not aliased is an *anchor*: seeing it tells the place.
On an aliased id, the place is known by the way from the last anchor, or from the start of the episode. An id counts as
an anchor until two visits, followed by the same actions, lead to different observations. In a deterministic world only
ids that are aliased can do so; so the map splits exactly what must be split, as deep as needed.

Ways that end in the same place are merged: two nodes with the same id are one if the same action leads from both to the
same third place, and no action tells them apart. (The third must be known to be another place: a step that was blocked
proves nothing.)

If even the same actions from the same start lead to different observations, the world is *stochastic*, or episodes
start in places that look the same. It counts as stochastic once this has happened a few times though all starts look
the same, or once many ids have been split and there are still surprises. Then nodes are the ids themselves, and the map
expects the most frequent successor.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.exploration.step_log import StepLog
from lstoc_core.trajectories.recorder import Ids
from lstoc_core.trajectories.store import Bools, TrajectoryStore

Links = NDArray[np.int32]
"""[places, actions]: the expected next place; -1 where it is unknown."""
WINDOW = 1000
"""The error rate is over this many predictions, the last ones."""
MOST_SPLIT = 0.3
"""Fraction of the ids that may be split before a surprise on a way from the start counts as chance."""
MOST_NODES = 3
"""Nodes per id that tell the same: splitting only makes more of them."""
MOST_SURPRISES = 2
"""Surprises on ways from the start that count as chance where all starts look the same."""
MOST_WALKED = 100_000
"""Most steps of each environment that are walked again on the map."""
START = -1
"""Root of the nodes that are known by the way from an episode's start."""


class WorldMap:
    """What follows what. Nodes are made as they are seen; *places* are nodes as merged by `refresh`."""

    def __init__(self, num_envs: int, num_actions: int) -> None:
        self.num_envs, self.num_actions = num_envs, num_actions
        self.stochastic = False
        self.aliased: set[int] = set()
        self.known_ids: set[int] = set()
        self.recent: deque[bool] = deque(maxlen=WINDOW)
        """Whether each of the last predictions was wrong."""
        self.blind: deque[bool] = deque(maxlen=WINDOW)
        """The same, of those steps only that changed what is seen, or were expected to."""
        self.novel: deque[bool] = deque(maxlen=WINDOW)
        """Whether each of the last steps led to an observation never seen before."""
        self.ids = np.zeros(0, np.int32)
        """Observation id of each place."""
        self.links: Links = np.zeros((0, num_actions), np.int32)
        self._log = StepLog(num_envs, 5)
        """Of each step: action, id after it, whether the episode ended, id of the next one's start, and whether places
        were merged before."""
        self._merged_now = False
        self._first = np.zeros(num_envs, np.int32)
        self._forget()

    def _forget(self) -> None:
        """Empty the graph; what was recorded stays."""
        self._number: dict[tuple[int, int, int], int] = {}
        self._id: list[int] = []
        self._parent: list[int] = []
        """Union-find: the node with which a node was merged, or itself."""
        self._out: list[list[dict[int, int]]] = []
        """How often each node followed, per node and action."""
        self._blame: dict[tuple[int, int], int] = {}
        """The anchor before the first step from a node by an action."""
        self._suspects: set[int] = set()
        self._surprises = 0
        """How often a way from the start has led to another observation than before."""
        self._start_ids: set[int] = set()
        self._place: dict[int, int] = {}
        self._ways: list[int] = []
        """Nodes that are known by the way to them."""
        self._changed = self._mergeable = True
        self._touched: set[int] = set()
        """Nodes whose successors are not in `links` yet."""
        self._built = 0
        """Nodes that are places, one by one; 0 if the places must be made anew."""

    # --- recording ---

    def begin(self, ids: Ids) -> None:
        """Episodes begin in all environments; those under way are cut off."""
        if len(self._log):
            self._log.last[:, 2], self._log.last[:, 3] = True, ids
        else:
            self._first[:] = ids
        self._begin(ids.tolist())

    def _begin(self, ids: list[int]) -> None:
        self._start_ids.update(ids)
        self.at = [self._enter(START, START, each) for each in ids]
        """Node of each environment."""
        self._anchor = [self._anchor_of(START, each) for each in ids]
        """The last anchor that each environment has passed."""

    def _anchor_of(self, last: int, seen: int) -> int:
        return last if seen in self.aliased else seen

    def step(self, actions: Ids, final_ids: Ids, done: Bools, next_ids: Ids) -> Bools:
        """Record one step of every environment; where the map's prediction was wrong, [E]."""
        row = self._log.append()
        row[:, 0], row[:, 1], row[:, 2], row[:, 3], row[:, 4] = actions, final_ids, done, next_ids, self._merged_now
        self._merged_now = False
        wrong = np.zeros(self.num_envs, np.bool_)
        for env, (action, seen, *_) in enumerate(row.tolist()):
            before, expected = self._id[self._find(self.at[env])], self.expected(env, action)
            self.novel.append(seen not in self.known_ids)
            if expected >= 0:
                wrong[env] = expected != seen
                self.recent.append(bool(wrong[env]))
                if before != expected or before != seen:
                    self.blind.append(bool(wrong[env]))
        self._take(row.tolist())
        return wrong

    def _take(self, row: list[list[int]]) -> None:
        """Put one step of every environment into the graph."""
        for env, (action, seen, ended, start, _) in enumerate(row):
            self.at[env] = self._advance(env, self._find(self.at[env]), action, seen)
            self._anchor[env] = self._anchor_of(self._anchor[env], seen)
            if ended:
                self._start_ids.add(start)
                self.at[env] = self._enter(START, START, start)
                self._anchor[env] = self._anchor_of(START, start)

    def expected(self, env: int, action: int) -> int:
        """Observation id that the map predicts for an action, -1 if it knows none."""
        out = self._out[self._find(self.at[env])][action]
        return self._id[max(out, key=out.__getitem__)] if out else -1

    def place(self, env: int) -> int:
        """Place of an environment as of the last `refresh`, -1 if its node is newer."""
        return self._place.get(self._find(self.at[env]), -1)

    @property
    def nbytes(self) -> int:
        """Bytes that the recorded steps take."""
        return self._log.nbytes

    @property
    def starts(self) -> NDArray[np.int64]:
        """Place in which each episode has started."""
        ids = self._first.tolist()
        for steps in self._log.blocks():
            ids += steps[..., 3][steps[..., 2] > 0].tolist()
        return np.array([self._place[self._enter(START, START, start)] for start in ids])

    def walked(self, episodes: TrajectoryStore) -> TrajectoryStore | None:
        """The finished episodes as places, as of the last `refresh`, without labels.

        None in a stochastic world, if there were too many steps, or if others were recorded than these.
        """
        if self.stochastic or len(self._log) > MOST_WALKED:
            return None
        store = TrajectoryStore()
        walks = [[self._enter(START, START, each)] for each in self._first.tolist()]
        for steps in self._log.blocks():
            for row in steps.tolist():
                for walk, (action, seen, ended, start, _) in zip(walks, row, strict=True):
                    walk.append(self._enter(walk[-1], action, seen))
                    if ended:
                        store.append([[self._place[node] for node in walk]], None, [False])
                        walk[:] = [self._enter(START, START, start)]
        return store if np.array_equal(self.ids[store.ids], episodes.ids) else None

    @property
    def anchored(self) -> Bools:
        """Whether each place is known by what is seen there, [places]."""
        return ~np.isin(self.ids, list(self.aliased))

    @property
    def promise(self) -> NDArray[np.float64]:
        """How likely an action tells where one is, [places, actions], from 0 to 1.

        Judged by the places that look the same: an action that leads to an anchor tells, one that changes nothing seen
        does not.
        """
        known = self.links >= 0
        tells = known & self.anchored[self.links]
        idle = known & (self.ids[self.links] == self.ids[:, None])
        counts = np.zeros((2, int(self.ids.max()) + 1, self.num_actions))
        np.add.at(counts[0], self.ids, tells)
        np.add.at(counts[1], self.ids, idle)
        odds: NDArray[np.float64] = (1 + counts[0]) / (2 + counts[0] + counts[1])
        return odds[self.ids]

    @property
    def error_rate(self) -> float:
        """Fraction of the last predictions that were wrong; NaN before the first."""
        return float(np.mean(self.recent)) if self.recent else float("nan")

    @property
    def blind_rate(self) -> float:
        """The same over the steps that changed what is seen, or were expected to; 1 before the first.

        Where little is told apart, most steps change nothing, and to expect that is no merit.
        """
        return float(np.mean(self.blind)) if self.blind else 1.0

    @property
    def novelty(self) -> float:
        """Fraction of the last steps that led to an observation never seen before; NaN before the first."""
        return float(np.mean(self.novel)) if self.novel else float("nan")

    def _enter(self, node: int, action: int, seen: int) -> int:
        """Node in which an observation is made, after an action in another node."""
        self.known_ids.add(seen)
        anchor = seen not in self.aliased
        if not anchor and node != START:
            for following in self._out[node][action]:
                if self._id[following] == seen:
                    return self._find(following)
        key = (START, START - 1, seen) if anchor else (node, action, seen)
        found = self._number.get(key)
        if found is None:
            found = self._number[key] = len(self._id)
            self._id.append(seen)
            self._parent.append(found)
            self._out.append([{} for _ in range(self.num_actions)])
            self._changed = True
            if not anchor:
                self._ways.append(found)
        return self._find(found)

    def _advance(self, env: int, node: int, action: int, seen: int) -> int:
        """Note what followed an action, and move on."""
        following = self._enter(node, action, seen)
        out = self._out[node][action]
        key = next((each for each in out if self._id[each] == seen), following)
        if key not in out:
            self._changed = True
            self._mergeable |= self._id[node] in self.aliased
            before = self._blame.setdefault((node, action), self._anchor[env])
            if out and not self.stochastic:
                self._surprises += START in (before, self._anchor[env])
                self._suspects |= {before, self._anchor[env]} - {START}
        out[key] = out.get(key, 0) + 1
        self._touched.add(node)
        self._changed |= len(out) > 1
        return following

    # --- places ---

    def refresh(self) -> bool:
        """Split what has proved to be aliased, and merge nodes to places; whether places or links have changed."""
        while self._suspects:
            self.aliased |= self._suspects
            if self._chance:
                self.stochastic, self.aliased = True, set()
            self._replay()
        if not self._changed:
            return False
        self._merge()
        self._merged_now, self._changed = True, False
        before = self.ids, self.links
        if self._built and not self._ways:
            self._extend()
        else:
            self._rebuild()
        return not (np.array_equal(before[0], self.ids) and np.array_equal(before[1], self.links))

    def _rebuild(self) -> None:
        """Places and links from all nodes."""
        nodes = [node for node, parent in enumerate(self._parent) if node == parent]
        self._place = {node: place for place, node in enumerate(nodes)}
        self.ids = np.array([self._id[node] for node in nodes], np.int32)
        self.links = np.array([self._row(node) for node in nodes], np.int32)
        self._built = 0 if self._ways else len(nodes)
        self._touched.clear()

    def _extend(self) -> None:
        """The same where nodes are places: only what has changed since."""
        nodes = range(self._built, len(self._id))
        self._place.update(zip(nodes, nodes, strict=True))
        self.ids = np.append(self.ids, np.array(self._id[self._built :], np.int32))
        unknown = np.full((len(nodes), self.num_actions), -1, np.int32)
        self.links = np.concatenate([self.links, unknown])
        for node in self._touched:
            self.links[node] = self._row(node)
        self._built = len(self._id)
        self._touched.clear()

    def _row(self, node: int) -> list[int]:
        """The places that follow a node."""
        return [self._place[self._find(max(out, key=out.__getitem__))] if out else -1 for out in self._out[node]]

    @property
    def _chance(self) -> bool:
        """Whether surprises show that steps depend on chance."""
        told_apart = len(self._start_ids) == 1 and self._surprises >= MOST_SURPRISES
        hopeless = self._surprises > 0 or len(self._id) > MOST_NODES * len(self.known_ids)
        return told_apart or (hopeless and len(self.aliased) > MOST_SPLIT * len(self.known_ids))

    def _replay(self) -> None:
        """Make the graph anew from all that was recorded."""
        self._forget()
        self._begin(self._first.tolist())
        for steps in self._log.blocks():
            for row in steps.tolist():
                if row[0][4]:
                    self._merge()
                self._take(row)

    def renamed(self, names: NDArray[np.int64]) -> "WorldMap":
        """The map that would have been learned from the same steps in other ids. names: the new id of each old one."""
        other = WorldMap(self.num_envs, self.num_actions)
        other.begin(names[self._first])
        for steps in self._log.blocks():
            for row in steps:
                done = row[:, 2] > 0
                other.step(row[:, 0], names[row[:, 1]], done, names[row[:, 3]])
                if done.any():
                    other.refresh()
        other.refresh()
        return other

    def _find(self, node: int) -> int:
        """The node that stands for all that were merged with this one: the first of them."""
        parent = self._parent
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    def _merge(self) -> None:
        """Merge nodes from which the same action leads to the same other place, until there are none."""
        again, self._mergeable = self._mergeable, False
        while again:
            again = False
            self._ways = [node for node in self._ways if self._parent[node] == node]
            known: dict[tuple[int, int, int], int] = {}
            for start in self._ways:
                node = self._find(start)
                for action, out in enumerate(self._out[node]):
                    for successor in [self._find(each) for each in out]:
                        twin = self._find(known.setdefault((self._id[node], action, successor), node))
                        node = self._find(node)
                        if twin == node or not (self._apart(successor, node) and self._apart(successor, twin)):
                            continue
                        if (pairs := self._same(twin, node)) is not None:
                            for one, two in pairs:
                                self._unite(self._find(one), self._find(two))
                            again = True

    def _apart(self, one: int, two: int) -> bool:
        """Whether two nodes are known to be different places."""
        return self._id[one] != self._id[two] or self._same(one, two) is None

    def _same(self, one: int, two: int) -> list[tuple[int, int]] | None:
        """Pairs of nodes that become one if these two do; None if what follows them tells them apart."""
        pairs, open_ = {(one, two)}, [(one, two)]
        while open_:
            for mine, other in zip(*(self._out[node] for node in open_.pop()), strict=True):
                if not mine or not other:
                    continue
                pair = self._find(next(iter(mine))), self._find(next(iter(other)))
                if self._id[pair[0]] != self._id[pair[1]]:
                    return None
                if pair[0] != pair[1] and pair not in pairs:
                    pairs.add(pair)
                    open_.append(pair)
        return sorted(pairs)

    def _unite(self, one: int, two: int) -> None:
        first, second = min(one, two), max(one, two)
        if first == second:
            return
        self._parent[second] = first
        for action, (mine, other) in enumerate(zip(self._out[first], self._out[second], strict=True)):
            if other:
                self._blame.setdefault((first, action), self._blame[second, action])
            for successor, count in other.items():
                same = next((each for each in mine if self._id[each] == self._id[successor]), successor)
                mine[same] = mine.get(same, 0) + count

    # --- state ---

    def state_dict(self) -> dict[str, Any]:
        """All that was recorded, and how the map reads it."""
        return {
            "log": self._log.state_dict(),
            "first": self._first.copy(),
            "aliased": np.array(sorted(self.aliased), np.int64),
            "stochastic": self.stochastic,
            "recent": np.array(self.recent, np.bool_),
            "blind": np.array(self.blind, np.bool_),
            "novel": np.array(self.novel, np.bool_),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; `refresh` must follow."""
        self._log.load_state_dict(state["log"])
        self._first = state["first"].copy()
        self.aliased, self.stochastic = set(state["aliased"].tolist()), bool(state["stochastic"])
        self.recent.extend(state["recent"].tolist())
        self.blind.extend(state["blind"].tolist())
        self.novel.extend(state["novel"].tolist())
        self._replay()
