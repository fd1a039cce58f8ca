"""What there is to see of a run: the last episode on the map, where key states may be, the tree, what is missing.

A `Stage` is made once per run, a `Scene` per update. Films and the live view draw the same scenes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.drawing.graphs import ROW, layout
from lstoc_core.drawing.trees import place
from lstoc_core.run.methods import Setting
from lstoc_core.run.state import AnswersLeft, RunState
from lstoc_core.worlds import World
from lstoc_core.worlds.grid import GridVectorEnv
from lstoc_core.worlds.pictures import letter_colour

UNKNOWN = "?"
"""At nodes of the tree whose place is open."""


@dataclass(frozen=True)
class SceneNode:
    """A node of the tree: where it stands (columns and rows from the top left, as fractions), and what it shows."""

    x: float
    y: float
    text: str
    symbol: str
    """The FSM's symbol; "" at the root, and without an FSM."""
    known: bool
    """Whether its place is settled."""
    last: bool
    """Whether a satisfying sequence ends here."""


@dataclass(frozen=True, eq=False)
class Scene:
    """A moment of a run."""

    labels: NDArray[np.bool_]
    """Of all episodes so far."""
    steps: int
    last: NDArray[np.int32]
    """Observation ids of the last episode; empty before the first has ended."""
    heat: NDArray[np.float64] | None
    """Share of the answers left that put a key state at each observation id; None if there is no telling."""
    count: float
    """Number of answers left; NaN if there is no telling."""
    nodes: tuple[SceneNode, ...]
    edges: tuple[tuple[int, int], ...]
    settled: Mapping[str, int]
    """Symbol -> observation id, where all answers agree."""
    places: Mapping[str, int]
    """Symbol -> number of states at which it may be; empty if there is no telling."""
    sentence: str
    """What is missing, or what was found, in letters and coordinates."""
    finished: bool

    @property
    def bits(self) -> float:
        """log2 of the number of answers left."""
        return math.log2(self.count) if self.count > 0 else math.nan


class Stage:
    """What stays the same during a run: its world, the shape of its tree, its symbols."""

    def __init__(self, setting: Setting) -> None:
        self.env = env = setting.env
        self.world: World | None = env.world if isinstance(env, GridVectorEnv) else None
        """The grid world in which the run takes place; None if it is another kind of world."""
        self.words = setting.fsm.minimal_sequences() if setting.fsm is not None else ()
        self.symbols = setting.fsm.symbols if setting.fsm is not None else ()
        self._settled: dict[str, int] = {}
        self._left: AnswersLeft | None = None
        """Both as of the last scene."""

    def colour(self, symbol: str) -> str:
        return letter_colour(symbol)

    def scene(self, state: RunState, left: AnswersLeft | None) -> Scene:
        """The moment that a state describes. left: its answers; None if there is no telling."""
        store = state.trajectories
        left = left or self._left  # answers only become fewer: the last that were counted are not far off
        if state.names is not None:  # one answer is left, up to symbols that can be exchanged
            proved = np.array([list(state.names.values())], np.int32)
            left = AnswersLeft(tuple(state.names), proved, 1.0, state.census.reading if state.census else None)
        self._left, self._settled = left, self._settlement(left)
        ids = store.trajectory(len(store) - 1) if len(store) else np.zeros(0, np.int32)
        settled = self._settled
        nodes, edges = self._tree(state, settled)
        return Scene(
            labels=store.labels.copy(),
            steps=state.record["env_steps"],
            last=ids.copy(),
            heat=left.heat(len(state.explorer.env.observations)) if left is not None else None,
            count=left.count if left is not None else math.nan,
            nodes=nodes,
            edges=edges,
            settled=settled,
            places={symbol: len(states) for symbol, states in left.possible.items()} if left is not None else {},
            sentence=self._sentence(state, left, settled),
            finished=state.finished,
        )

    def _settlement(self, left: AnswersLeft | None) -> dict[str, int]:
        """What the answers agree on. What was settled stays so unless an answer disagrees, however small the sample."""
        if left is None:
            return self._settled
        agreed = {symbol: int(states[0]) for symbol, states in left.possible.items() if len(states) == 1}
        return left.settled | {name: key for name, key in agreed.items() if self._settled.get(name) == key}

    # --- the tree ---

    def _tree(
        self, state: RunState, settled: Mapping[str, int]
    ) -> tuple[tuple[SceneNode, ...], tuple[tuple[int, int], ...]]:
        """Given an FSM, its tree, with a question mark where the place is open; else the tree so far."""
        if self.words:
            paths: list[tuple[Any, ...]] = [word[:end] for word in self.words for end in range(len(word) + 1)]
            ends: set[tuple[Any, ...]] = set(self.words)
        else:
            tree = state.tree
            paths, ends = [tree.path(node) for node in range(len(tree))], set(tree.sequences)
        paths = list(dict.fromkeys(paths))
        number = {path: index for index, path in enumerate(paths)}
        edges = tuple((number[path[:-1]], number[path]) for path in paths if path)
        spots, _ = layout(edges, {index: len(path) for path, index in number.items()})
        x, y = np.array([spots[index] for index in range(len(paths))]).T
        wide, high = max(1.0, np.ptp(x)), max(2 * ROW, np.ptp(y))
        middle = (y.min() + y.max()) / 2
        nodes = []
        for path, index in number.items():
            symbol = path[-1] if path and self.words else ""
            known = symbol in settled if self.words else bool(path)
            text = "" if not path else (symbol if known else UNKNOWN) if self.words else f"s{path[-1]}"
            spot = float(x[index] / wide), float(0.5 - (y[index] - middle) / high)
            nodes.append(SceneNode(*spot, text, symbol, known, path in ends))
        return tuple(nodes), edges

    # --- words ---

    def _sentence(self, state: RunState, left: AnswersLeft | None, settled: Mapping[str, int]) -> str:
        if state.finished and self.words:
            return self._where(settled)
        if not state["positives"]:
            return "no success yet"
        if left is None:
            return state.missing.told(lambda path: self.spelled(path, state.method.key_states))
        open_ = {symbol: len(states) for symbol, states in left.possible.items() if symbol not in settled}
        parts = [self._where(settled)] if settled else []
        parts += (
            [", ".join(f"{symbol}: {count} place{'s' * (count != 1)}" for symbol, count in open_.items())]
            if open_
            else []
        )
        return "; ".join(parts)

    def told(self, symbol: str, scene: Scene) -> str:
        """Where a symbol is, or at how many places it may be."""
        if symbol in scene.settled:
            return f"at {place(self.world, scene.settled[symbol])}" if self.world is not None else "found"
        count, kind = scene.places.get(symbol), "place" if self.world is not None else "state"
        return f"{count:,} {kind}{'s' * (count != 1)}" if count else "anywhere"

    def _where(self, settled: Mapping[str, int]) -> str:
        if self.world is None:
            return f"{', '.join(settled)} found"
        return ", ".join(f"{symbol} at {place(self.world, key)}" for symbol, key in sorted(settled.items()))

    def spelled(self, path: Sequence[int], key_states: Sequence[int]) -> str:
        """Observation ids as coordinates; without a map, as key states, or words for what is none."""
        if self.world is not None:
            return " → ".join(str(place(self.world, key)) for key in path) or "the start"
        known = {key: f"s{index}" for index, key in enumerate(key_states)}
        return " → ".join(known.get(key, "another state") for key in path) or "the start"


def walked(world: World, ids: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    """Cells (x, y) of an episode given as observation ids, [T + 1, 2].

    Where one observation is seen at several cells, the moves before and after tell which. Of several walks that fit,
    one is returned; ValueError if none does.
    """
    fits = [world.starts[world.observation_id[world.starts] == ids[0]]]
    for observation in ids[1:]:
        following = np.unique(world.next_position[fits[-1]])
        fits.append(following[world.observation_id[following] == observation])
    if not all(map(len, fits)):
        raise ValueError(f"no walk on this map shows the observations {list(map(int, ids[:10]))}…")
    walk = [int(fits[-1][0])]
    for before in reversed(fits[:-1]):
        walk.append(int(before[(world.next_position[before] == walk[-1]).any(axis=1)][0]))
    return world.coordinates[walk[::-1]]


def strides(world: World, cells: NDArray[np.integer[Any]]) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """The lines of a walk, in cells: one per step that moves, two where it goes over an edge of the map."""
    size = np.array(world.size)
    lines = []
    for one, two in zip(cells[:-1].astype(float), cells[1:].astype(float), strict=True):
        step = two - one
        if not step.any():
            continue
        if world.task.wrap and np.abs(step).max() > 1:
            way = -np.sign(step)
            out, back = np.clip(one + way, -0.5, size - 0.5), np.clip(two - way, -0.5, size - 0.5)
            lines += [(tuple(one), tuple(out)), (tuple(back), tuple(two))]
        else:
            lines.append((tuple(one), tuple(two)))
    return lines


def counted(count: float) -> str:
    """A number of answers in words: exact while it is small, rounded where it is an estimate of many."""
    if math.isnan(count):
        return "many answers left"
    if count >= 1e6:
        for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
            if count >= size:
                return f"{count / size:,.0f} {word} answers left"
    return f"{count:,.0f} answer{'s' * (round(count) != 1)} left"
