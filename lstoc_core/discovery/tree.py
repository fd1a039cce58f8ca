"""The subgoal tree: discovered key states and the order in which they must be visited.

Every node but the root is labelled with a key state: its index in Ŝ_K, the ordered set of discovered key states. The
labels from the root to a node are the node's *path*. The paths to satisfying leaves are the task's satisfying sequences
(paper, Section "Expand Subgoal Tree"). The tree grows by four small steps; `events` keeps them, `replay` repeats them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lstoc_core.extras import needed_for
from lstoc_core.logic import FSM

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = 0
Event = tuple[str, int, int]
"""(step, node, key): "expand" adds a child labelled `key` to `node`; the other steps ignore `key` (-1)."""


@dataclass(repr=False)
class SubgoalTree:
    """T_φ of the paper. Nodes are numbered in the order of their creation; node 0 is the root v0."""

    keys: list[int] = field(default_factory=lambda: [-1])
    parents: list[int] = field(default_factory=lambda: [-1])
    explored: set[int] = field(default_factory=set)
    satisfying: set[int] = field(default_factory=set)
    working_node: int = ROOT
    events: list[Event] = field(default_factory=list)

    # -- growth ----------------------------------------------------------------------------------------------------

    def expand(self, node: int, key: int) -> int:
        """Add a child labelled with key state `key` under `node` and return it (Algorithm LSTOC, line 36)."""
        self._check(node)
        if key < 0:
            raise ValueError(f"a key state's index is not negative, got {key}")
        if key in (self.keys[child] for child in self.children(node)):
            raise ValueError(f"node {node} already has a child labelled with key state {key}")
        self.keys.append(key)
        self.parents.append(node)
        self.events.append(("expand", node, key))
        return len(self.keys) - 1

    def work_on(self, node: int) -> None:
        """Make `node` the working node v_w."""
        self._check(node)
        self.working_node = node
        self.events.append(("work", node, -1))

    def mark_satisfying(self, node: int) -> None:
        """The path of `node` is a satisfying sequence: condition (*)."""
        self._check(node)
        self.satisfying.add(node)
        self.explored.add(node)
        self.events.append(("satisfying", node, -1))

    def mark_explored(self, node: int) -> None:
        """Every positive trajectory conditioned on `node` is explained: condition (**)."""
        self._check(node)
        self.explored.add(node)
        self.events.append(("explored", node, -1))

    @classmethod
    def from_sequences(cls, sequences: Iterable[Sequence[int]]) -> "SubgoalTree":
        """The prefix tree of satisfying sequences, fully explored."""
        tree = cls()
        for sequence in sequences:
            node = ROOT
            for key in sequence:
                known = {tree.keys[child]: child for child in tree.children(node)}
                node = known[key] if key in known else tree.expand(node, key)
            tree.mark_satisfying(node)
        for node in range(len(tree.keys)):
            if node not in tree.explored:
                tree.mark_explored(node)
        return tree

    def replay(self, steps: int) -> "SubgoalTree":
        """The tree as it was after its first `steps` events."""
        if not 0 <= steps <= len(self.events):
            raise ValueError(f"steps must be between 0 and {len(self.events)}, got {steps}")
        tree = SubgoalTree()
        act = {"expand": tree.expand, "work": tree.work_on, "satisfying": tree.mark_satisfying}
        for step, node, key in self.events[:steps]:
            act[step](node, key) if step == "expand" else act.get(step, tree.mark_explored)(node)  # type: ignore[operator]
        return tree

    # -- reading ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.keys)

    def children(self, node: int) -> list[int]:
        return [child for child, parent in enumerate(self.parents) if parent == node]

    def path(self, node: int) -> tuple[int, ...]:
        """ξ: the key states on the way from the unlabelled root to `node`, its own included."""
        self._check(node)
        keys = []
        while node != ROOT:
            keys.append(self.keys[node])
            node = self.parents[node]
        return tuple(reversed(keys))

    def depth(self, node: int) -> int:
        return len(self.path(node))

    @property
    def sequences(self) -> tuple[tuple[int, ...], ...]:
        """P_S: the discovered satisfying sequences, sorted."""
        return tuple(sorted(self.path(node) for node in self.satisfying))

    def inconsistency(self, fsm: FSM) -> str | None:
        """Why the tree cannot be the subgoal tree of `fsm`, or None: condition (***)."""
        longest = max(self.depth(node) for node in range(len(self)))
        if longest > fsm.longest_path:
            return f"a path of {longest} key states is longer than the FSM's longest path, {fsm.longest_path}"
        degree = max(len(self.children(node)) for node in range(len(self)))
        if degree > fsm.max_degree:
            return f"a node has {degree} children, more than the FSM's largest degree, {fsm.max_degree}"
        return None

    def fsm(self, names: Mapping[int, str] | None = None) -> FSM:
        """The machine that accepts what contains one of the satisfying sequences; its states are the nodes.

        names: of key states; unnamed ones are s0, s1, ...
        """
        given = {key: f"s{key}" for key in self.keys if key >= 0} | dict(names or {})
        if len({given[key] for key in self.keys if key >= 0}) < len({key for key in self.keys if key >= 0}):
            raise ValueError(f"two key states have the same name: {given}")
        edges = sorted((self.parents[node], given[self.keys[node]], node) for node in range(1, len(self)))
        symbols = tuple(sorted({symbol for _, symbol, _ in edges}))
        return FSM(tuple(range(len(self))), ROOT, frozenset(self.satisfying), tuple(edges), symbols)

    # -- showing and keeping ---------------------------------------------------------------------------------------

    def draw(self, ax: "Axes | None" = None, labels: Mapping[int, str] | Sequence[str] | None = None) -> "Axes":
        """Draw the tree left to right: working node red, unexplored nodes dashed, satisfying leaves doubled.

        `labels` names key states (index -> text); unnamed ones are shown as ŝ_k.
        """
        with needed_for("drawing a subgoal tree", extra="study"):
            from lstoc_core.drawing.graphs import draw_subgoal_tree  # imported here: only drawing needs matplotlib

        return draw_subgoal_tree(self, ax, labels)

    def __repr__(self) -> str:
        ways = [" → ".join(map(str, path)) for path in self.sequences]
        told = " | ".join(ways if len(ways) < 5 else [*ways[:3], f"and {len(ways) - 3} more"])
        return f"SubgoalTree({len(self)} nodes; satisfying: {told or 'none yet'})"

    def _repr_html_(self) -> str | None:
        """The drawing, for notebooks."""
        try:
            from lstoc_core.drawing.inline import drawing_html  # imported here: only drawing needs matplotlib
        except ModuleNotFoundError:  # the plain text is shown
            return None
        return drawing_html(self.draw, repr(self))

    def to_json(self) -> str:
        return json.dumps({"events": self.events})

    @classmethod
    def from_json(cls, text: str) -> "SubgoalTree":
        grown = cls()
        grown.events = [(str(step), int(node), int(key)) for step, node, key in json.loads(text)["events"]]
        return grown.replay(len(grown.events))

    def _check(self, node: int) -> None:
        if not 0 <= node < len(self.keys):
            raise ValueError(f"no node {node}: the tree has nodes 0 to {len(self.keys) - 1}")

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, SubgoalTree) and self.events == other.events
