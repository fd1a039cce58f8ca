"""The paper's discovery ("forward"): the subgoal tree grown node by node, as Algorithm LSTOC prescribes.

`Forward.advance` runs the algorithm on the given trajectories until it finishes or needs more. Collecting them is left
to the caller. The next key state at the working node is the state with the highest importance f_ω after the node's
path. The objective is the paper's or one of its two baselines; f_ω is trained, or the optimum in closed form.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.discovery.method import Missing, Need, Request, nested_tuples
from lstoc_core.discovery.published.importance import GAMMA, Objective, scores
from lstoc_core.discovery.published.training import TRAININGS, Fit, Training
from lstoc_core.discovery.tree import ROOT, SubgoalTree
from lstoc_core.logic import FSM
from lstoc_core.trajectories.events import NOTHING, EventReading
from lstoc_core.trajectories.matching import KeyPath, after, contains, explained_by
from lstoc_core.trajectories.store import TrajectoryStore

Accept = Callable[[Sequence[KeyPath]], Mapping[str, int] | None]
"""Names satisfying sequences of observation ids by the labeling ILP: symbol -> observation id, or None if it fails."""


@dataclass(frozen=True)
class ForwardConfig:
    """Settings of Algorithms Main, LSTOC and Contrastive."""

    epsilon: float = 0.5
    """ε: probability of a random action while exploring; overrides the explorer's default."""
    success_share: float | None = 0.5
    """Successes pay π_exp only while a smaller fraction of recent episodes succeeds, so that failures go on coming."""
    tour: float | None = None
    """Most that an episode of π_exp earns by its first-occupancy bonus, in successes; None: no bound. Where a tour of
    the world pays more than the task, the policy takes the tour."""
    threshold: int = 80
    """N_T: a discovery at the working node waits for this many unexplained successes conditioned on it."""
    increment: int = 20
    """K_T: added to N_T at each restart."""
    keep: bool = True
    """Whether a restart keeps the trajectories of earlier trees; False: its buffers begin empty."""
    longest_wait: int = 3
    """A path is given up, and the tree with it, if it stays rare among this many times N_T unexplained successes."""
    objective: Objective = "lstoc"
    """"lstoc", "baseline1" (no first occupancy) or "baseline2" (all states, no temporal sampling)."""
    exact: bool = False
    """Use the objective's exact optimum instead of a trained f_ω."""
    smoothing: float = 1e-4
    """Probability added to both occupancies in the exact optimum, so that states no failure visits stay finite."""
    gamma: float | None = None
    """Discount of temporal geometric sampling; None: the environment's, 0.99 if it names none."""
    training: Fit = "converged"
    """How f_ω is trained: until it converges, or with one positive per step as printed; see TRAININGS."""
    max_length: int = 8
    """Longest path of the tree without an FSM."""


@dataclass
class Attempt:
    """One tree, from its root to the end or to the next restart."""

    tree: SubgoalTree = field(default_factory=SubgoalTree)
    key_states: list[int] = field(default_factory=list)
    """Ŝ_K: observation ids of the discovered key states, in order of discovery."""
    importances: list[NDArray[np.float64]] = field(default_factory=list)
    """Importance per observation id [num_ids] at each discovery."""

    @property
    def paths(self) -> tuple[KeyPath, ...]:
        """P_S as observation ids, minimal sequences only: one that contains another explains nothing more.

        The tree may hold others. For ((a;b)|c);d, some successes through c happen to visit a first. At working node
        [a] they are unexplained and give the branch a;c;d beside c;d.
        """
        found = [self.to_ids(sequence) for sequence in self.tree.sequences]
        return tuple(path for path in found if not any(other != path and _within(other, path) for other in found))

    @property
    def nodes(self) -> tuple[KeyPath, ...]:
        """Paths of all nodes but the root, as observation ids."""
        return tuple(self.to_ids(self.tree.path(node)) for node in range(1, len(self.tree)))

    @property
    def working_path(self) -> KeyPath:
        """ξ_w as observation ids."""
        return self.to_ids(self.tree.path(self.tree.working_node))

    def to_ids(self, sequence: Sequence[int]) -> KeyPath:
        return tuple(self.key_states[key] for key in sequence)

    def to_json(self) -> dict[str, Any]:
        """Tree and key states; importances are not kept."""
        return {"tree": self.tree.to_json(), "key_states": list(self.key_states)}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> "Attempt":
        return cls(SubgoalTree.from_json(told["tree"]), list(told["key_states"]))


class Forward:
    """One run of the paper's algorithm over a growing set of trajectories (a `DiscoveryMethod`).

    fsm: the tree must be consistent with it (condition (***)). accept: names the sequences at the end.
    gamma: the environment's discount. training: how f_ω is trained; None: as the config says.
    reading: how trajectories are read as events; keys are then events, and time counts events. None: keys are ids.
    """

    def __init__(
        self,
        config: ForwardConfig | None = None,
        fsm: FSM | None = None,
        accept: Accept | None = None,
        training: Training | None = None,
        seed: int = 0,
        *,
        gamma: float = GAMMA,
        reading: EventReading | None = None,
    ) -> None:
        self.config, self.reading = config or ForwardConfig(), reading
        self.fsm, self.accept, self.seed = fsm, accept, seed
        self.training = training or TRAININGS[self.config.training]
        self.gamma = gamma if self.config.gamma is None else self.config.gamma
        self.threshold = self.config.threshold
        self.attempt = Attempt()
        self.abandoned: list[Attempt] = []
        """One per restart; those from before a resumed run have no importances."""
        self.restarts = 0
        self.finished = False
        self.names: Mapping[str, int] | None = None
        self.missing = Missing.one("no success was seen")
        self._tries = 0
        self._first = 0
        """Trajectories before the last restart."""
        self._waiting: tuple[KeyPath, int] = ((), 0)
        """The path that waits for successes, and how many unexplained ones there were when it began to."""

    @property
    def tree(self) -> SubgoalTree:
        """T_φ as far as it has grown."""
        return self.attempt.tree

    @property
    def key_states(self) -> list[int]:
        """Ŝ_K: observation ids of the discovered key states, in order of discovery."""
        return self.attempt.key_states

    @property
    def paths(self) -> tuple[KeyPath, ...]:
        """P_S as observation ids."""
        return self.attempt.paths

    @property
    def request(self) -> Request:
        """Follow the path of the working node; a success through a satisfying sequence teaches nothing new."""
        path = self.attempt.working_path
        config = self.config
        return Request((path,) if path else (), self.paths, config.epsilon, config.success_share, config.tour)

    def advance(self, store: TrajectoryStore) -> Missing:
        """Run the algorithm until it finishes or needs more trajectories; what is missing then."""
        store = self.reading(store) if self.reading is not None else store
        used = store if self.config.keep else store.select(np.arange(self._first, len(store)))
        positives, negatives = used.select(used.positives), used.select(used.negatives)
        self.missing = Missing() if len(positives) else Missing.one("no success was seen")
        restarts = self.restarts
        while not self.finished and not self.missing:
            self.missing = self._step(positives, negatives)
        if self.restarts > restarts:
            self._first = len(store)
        return self.missing

    def _step(self, positives: TrajectoryStore, negatives: TrajectoryStore) -> Missing:
        """One pass of the inner loop (Algorithm LSTOC, lines 7 to 41)."""
        node, path = self.tree.working_node, self.attempt.working_path
        explained = explained_by(positives, self.paths)
        if node == ROOT and explained.all():  # lines 8 to 13
            return self._finish()
        conditioned = contains(positives, path)
        open_ = np.flatnonzero(conditioned & ~explained)
        failed = np.flatnonzero(contains(negatives, path))
        if node != ROOT and conditioned.any() and not len(failed):  # condition (*)
            self.tree.mark_satisfying(node)
            self.tree.work_on(self.tree.parents[node])
            return Missing()
        if node != ROOT and not len(open_):  # condition (**)
            self.tree.mark_explored(node)
            self.tree.work_on(self.tree.parents[node])
            return Missing()
        if len(open_) < self.threshold:  # line 24
            few = Need(f"{len(open_)} of {self.threshold} unexplained successes follow {{}}", (path,))
            return self._restart(few) if self._waited_too_long(int((~explained).sum())) else Missing((few,))
        if not len(failed):
            return Missing.one("no failure was seen: there is nothing to contrast with")
        behind, failed_behind = after(positives.select(open_), path), after(negatives.select(failed), path)
        candidates = self._candidates(behind)
        if not failed_behind.num_steps:
            return Missing.one("no failure goes on after {}: there is nothing to contrast with", path)
        if not candidates.any():
            return self._restart(Need(f"nothing new follows {{}} in {len(open_)} unexplained successes", (path,)))
        self._expand(behind, failed_behind, candidates)
        wrong = self._inconsistency()
        return self._restart(Need(wrong)) if wrong else Missing()

    def _waited_too_long(self, unexplained: int) -> bool:
        """Whether so many unexplained successes came while the path of the working node waited that it must be wrong.

        r_a pays for following the path, so a right one does not stay rare. The root's is never wrong.
        """
        path = self.attempt.working_path
        if path != self._waiting[0]:
            self._waiting = path, unexplained
        return bool(path) and unexplained - self._waiting[1] >= self.config.longest_wait * self.threshold

    def _finish(self) -> Missing:
        """Every success is explained: name the sequences, or collect more (lines 8 to 13, then 24)."""
        self.names = self.accept(self.paths) if self.accept is not None else None
        if self.accept is not None and self.names is None:
            return Missing.one("every success is explained, but the sequences cannot be named")
        self.finished = True
        self.tree.mark_explored(ROOT)
        return Missing()

    def _candidates(self, positives: TrajectoryStore) -> NDArray[np.bool_]:
        """Possible new children of the working node, [num_ids]: states that the successes visit after it."""
        node = self.tree.working_node
        visits = np.delete(positives.ids, positives.offsets[:-1])
        candidates = np.bincount(visits, minlength=positives.num_ids) > 0
        candidates[[self.key_states[self.tree.keys[child]] for child in self.tree.children(node)]] = False
        candidates[list(self.attempt.working_path[-1:])] = False  # a key state cannot follow itself
        if self.reading is not None:
            candidates[NOTHING] = False
        return candidates

    def _expand(self, positives: TrajectoryStore, negatives: TrajectoryStore, candidates: NDArray[np.bool_]) -> None:
        """Discover the next key state at the working node and add it to the tree (lines 32 to 41).

        positives, negatives: the trajectories' parts after the path of the working node.
        """
        self._tries += 1
        importance = scores(
            positives,
            negatives,
            objective=self.config.objective,
            gamma=self.gamma,
            exact=self.config.exact,
            smoothing=self.config.smoothing,
            seed=self.seed + self._tries,
            training=self.training,
        )
        self.attempt.importances.append(importance)
        new = int(np.nanargmax(np.where(candidates, importance, np.nan)))
        if new not in self.key_states:
            self.key_states.append(new)
        self.tree.work_on(self.tree.expand(self.tree.working_node, self.key_states.index(new)))

    def _inconsistency(self) -> str | None:
        """Why the tree cannot be right, or None: condition (***)."""
        if self.fsm is not None:
            return self.tree.inconsistency(self.fsm)
        depth = self.tree.depth(self.tree.working_node)
        return f"a path of {depth} key states is too long" if depth > self.config.max_length else None

    def _restart(self, reason: Need) -> Missing:
        """Start a new tree with a larger N_T (Algorithm Main, line 8)."""
        self.restarts += 1
        self.threshold += self.config.increment
        self.abandoned.append(self.attempt)
        self.attempt = Attempt()
        self._waiting = (), 0
        return Missing.one(f"restart {self.restarts}: {reason.sentence}", *reason.paths)

    def state_dict(self) -> dict[str, Any]:
        """What the next `advance` depends on, in plain values."""
        return {
            "threshold": self.threshold,
            "attempt": self.attempt.to_json(),
            "abandoned": [attempt.to_json() for attempt in self.abandoned],
            "restarts": self.restarts,
            "tries": self._tries,
            "waiting": self._waiting,
            "first": self._first,
            "finished": self.finished,
            "names": dict(self.names) if self.names is not None else None,
            "missing": self.missing.to_json(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.threshold, self.restarts, self._tries = state["threshold"], state["restarts"], state["tries"]
        self.attempt = Attempt.from_json(state["attempt"])
        self.abandoned = [Attempt.from_json(told) for told in state["abandoned"]]
        self._waiting, self._first = nested_tuples(state["waiting"]), state["first"]
        self.finished, self.names = state["finished"], state["names"]
        self.missing = Missing.from_json(state["missing"])


def _within(short: Sequence[int], long: Sequence[int]) -> bool:
    """Whether `short` is a subsequence of `long`."""
    rest = iter(long)
    return all(key in rest for key in short)
