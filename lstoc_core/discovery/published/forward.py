"""The paper's discovery ("forward"): the subgoal tree grown node by node, as Algorithm LSTOC prescribes.

`Forward.advance` runs the algorithm on the trajectories at hand until it is finished or needs more of them, so that
whoever collects (a policy, a stored data set) stays in charge of collecting. The next key state at the working node is
the state of highest importance f_ω in what follows the node's path, by the paper's objective or by one of its two
baselines, trained or in closed form.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.discovery.published.importance import PAPER, Objective, Training, scores
from lstoc_core.discovery.tree import ROOT, SubgoalTree
from lstoc_core.logic import FSM
from lstoc_core.trajectories import TrajectoryStore, after, contains, explained_by

Accept = Callable[[Sequence[tuple[int, ...]]], bool]
"""Whether the satisfying sequences (of observation ids) can be named: the ILP of the labeling component."""


@dataclass(frozen=True)
class ForwardConfig:
    """Settings of Algorithms Main, LSTOC and Contrastive."""

    epsilon: float = 0.5
    """ε: probability of a random action while `lstoc.discover` explores, in place of `PPOConfig.epsilon`."""
    threshold: int = 80
    """N_T: unexplained successes conditioned on the working node that start a discovery there."""
    increment: int = 20
    """K_T: what N_T grows by when the tree turns out wrong."""
    objective: Objective = "lstoc"
    """"lstoc", "baseline1" (no first occupancy) or "baseline2" (all states, no temporal sampling)."""
    exact: bool = False
    """The objective's optimum in closed form instead of a trained f_ω."""
    smoothing: float = 1e-4
    """Probability added to both occupancies in closed form, so that states that no failure visits stay comparable."""
    gamma: float = 0.99
    """Discount of the temporal geometric sampling."""
    max_length: int = 8
    """Longest path of the tree where no FSM says it."""


@dataclass
class Forward:
    """One run of the paper's algorithm over a growing set of trajectories."""

    config: ForwardConfig = field(default_factory=ForwardConfig)
    fsm: FSM | None = None
    accept: Accept | None = None
    training: Training = PAPER
    """How f_ω is trained."""
    seed: int = 0

    def __post_init__(self) -> None:
        self.threshold = self.config.threshold
        self.key_states: list[int] = []
        """Ŝ_K: observation ids of the discovered key states, in order of discovery."""
        self.restarts = 0
        self.finished = False
        self.trees: list[SubgoalTree] = []
        """Abandoned trees, each found inconsistent with the FSM or impossible to name."""
        self.importances: list[NDArray[np.float64]] = []
        """Importance per observation id at each discovery since the last restart."""
        self.abandoned_nodes: tuple[tuple[int, ...], ...] = ()
        """`nodes` of the last abandoned tree."""
        self.tree = SubgoalTree()
        self._tries = 0

    @property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """P_S without sequences that contain another one: they explain nothing more. As observation ids.

        The tree may hold such a sequence: at the working node [a] of ((a;b)|c);d, successes through c after an a that
        did not matter are unexplained, and give the branch a;c;d beside c;d.
        """
        found = [self.to_ids(sequence) for sequence in self.tree.sequences]
        return tuple(path for path in found if not any(other != path and _within(other, path) for other in found))

    @property
    def nodes(self) -> tuple[tuple[int, ...], ...]:
        """All nodes of the tree but its root, each as its path in observation ids."""
        return tuple(self.to_ids(self.tree.path(node)) for node in range(1, len(self.tree)))

    @property
    def explained(self) -> tuple[tuple[int, ...], ...]:
        """Sequences through which a success teaches nothing new."""
        return self.paths

    @property
    def followed(self) -> tuple[tuple[int, ...], ...]:
        """What exploration is paid to follow: the path of the working node."""
        return (self.working_path,) if self.working_path else ()

    @property
    def working_path(self) -> tuple[int, ...]:
        """ξ_w as observation ids."""
        return self.to_ids(self.tree.path(self.tree.working_node))

    def to_ids(self, sequence: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.key_states[key] for key in sequence)

    def advance(self, store: TrajectoryStore) -> str:
        """Go on until finished (returns "") or until more trajectories are needed (returns what is missing)."""
        positives, negatives = store.select(store.positives), store.select(store.negatives)
        if not len(positives):
            return "no success was seen"
        while not self.finished:
            missing = self._step(positives, negatives)
            if missing:
                return missing
        return ""

    def _step(self, positives: TrajectoryStore, negatives: TrajectoryStore) -> str:
        """One pass of the inner loop (Algorithm LSTOC, lines 7 to 41)."""
        node, path = self.tree.working_node, self.working_path
        explained = explained_by(positives, self.paths)
        if node == ROOT and explained.all():  # lines 8 to 13
            if self.accept is None or self.accept(self.paths):
                self.finished = True
                self.tree.mark_explored(ROOT)
                return ""
            return self._restart("the sequences cannot be named")
        conditioned = contains(positives, path)
        open_ = np.flatnonzero(conditioned & ~explained)
        failed = np.flatnonzero(contains(negatives, path))
        if node != ROOT and conditioned.any() and not len(failed):  # condition (*)
            self.tree.mark_satisfying(node)
            self.tree.work_on(self.tree.parents[node])
            return ""
        if node != ROOT and not len(open_):  # condition (**)
            self.tree.mark_explored(node)
            self.tree.work_on(self.tree.parents[node])
            return ""
        if len(open_) < self.threshold:  # line 24
            return f"{len(open_)} of {self.threshold} unexplained successes follow {list(path)}"
        if not len(failed):
            return "no failure was seen: there is nothing to contrast with"
        behind, failed_behind = after(positives.select(open_), path), after(negatives.select(failed), path)
        candidates = self._candidates(behind)
        if not failed_behind.num_steps:
            return f"no failure goes on after {list(path)}: there is nothing to contrast with"
        if not candidates.any():
            return self._restart(f"nothing new follows {list(path)} in {len(open_)} unexplained successes")
        self._expand(behind, failed_behind, candidates)
        wrong = self._inconsistency()
        return self._restart(wrong) if wrong else ""

    def _candidates(self, positives: TrajectoryStore) -> NDArray[np.bool_]:
        """States [num_ids] that the successes visit after the working node and that can become a child of it."""
        node = self.tree.working_node
        visits = np.delete(positives.ids, positives.offsets[:-1])
        candidates = np.bincount(visits, minlength=positives.num_ids) > 0
        candidates[[self.key_states[self.tree.keys[child]] for child in self.tree.children(node)]] = False
        candidates[list(self.working_path[-1:])] = False  # a key state cannot follow itself
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
            gamma=self.config.gamma,
            exact=self.config.exact,
            smoothing=self.config.smoothing,
            seed=self.seed + self._tries,
            training=self.training,
        )
        self.importances.append(importance)
        new = int(np.nanargmax(np.where(candidates, importance, np.nan)))
        if new not in self.key_states:
            self.key_states.append(new)
        self.tree.work_on(self.tree.expand(self.tree.working_node, self.key_states.index(new)))

    def _inconsistency(self) -> str | None:
        """Condition (***)."""
        if self.fsm is not None:
            return self.tree.inconsistency(self.fsm)
        depth = self.tree.depth(self.tree.working_node)
        return f"a path of {depth} key states is too long" if depth > self.config.max_length else None

    def _restart(self, reason: str) -> str:
        """Begin the tree anew with a larger N_T (Algorithm Main, line 8); the trajectories are kept."""
        self.restarts += 1
        self.threshold += self.config.increment
        self.trees.append(self.tree)
        self.abandoned_nodes = self.nodes
        self.tree, self.key_states, self.importances = SubgoalTree(), [], []
        return f"restart {self.restarts}: {reason}"

    def state_dict(self) -> dict[str, Any]:
        return {
            "threshold": self.threshold,
            "key_states": list(self.key_states),
            "restarts": self.restarts,
            "tries": self._tries,
            "tree": self.tree.to_json(),
        }

    def load_state_dict(self, state: dict[str, Any], store: TrajectoryStore) -> None:
        self.threshold, self.restarts, self._tries = state["threshold"], state["restarts"], state["tries"]
        self.key_states, self.tree = list(state["key_states"]), SubgoalTree.from_json(state["tree"])
        self.finished = ROOT in self.tree.explored


def _within(short: Sequence[int], long: Sequence[int]) -> bool:
    """Whether a sequence is a subsequence of another."""
    rest = iter(long)
    return all(key in rest for key in short)
