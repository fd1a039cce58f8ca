"""Tasks as data: a map, letters on it, a formula over some of the letters, and a horizon.

    TASKS["letter-2"]                                         # one of the paper's nine, or an extra one
    make_task(domain="letter", formula="(a;b)|c", positions={"a": (3, 2), "b": (1, 8), "c": (7, 9)}, horizon=100)

A task is checked when it is made: letters lie on free, different cells, the start reaches all of them, and the formula
can be satisfied before the horizon. The numbers the paper does not give were chosen before any result was seen.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.logic import Formula, parse
from lstoc_core.logic.fsm import DeterministicTable
from lstoc_core.worlds import maps
from lstoc_core.worlds.maps import Cell, MapError

DOMAINS = ("letter", "office", "crafter", "robot", "rooms")
OFFICE_LETTERS = {"c": "coffee", "o": "office", "m": "mailbox", "d": "desk", "p": "printer"}
ROBOT_LETTERS = {"c": "charger", "b": "board", "w": "wheel", "d": "diamond"}
CRAFTER_OBJECTS = {
    "t": "tree", "s": "sapling", "c": "coal", "d": "diamond", "e": "energy", "f": "furnace", "h": "health",
    "drink": "drink", "sand": "sand", "table": "table", "zombie": "zombie",
}  # fmt: skip
"""Crafter's symbols and what they stand for; the last four appear only in the generalization world."""

_KNOWN = {"office": OFFICE_LETTERS, "crafter": CRAFTER_OBJECTS}
_SIZE = {"letter": (10, 10), "office": (25, 19), "crafter": (20, 20), "robot": (10, 10), "rooms": (11, 5)}
_VIEW = {"letter": None, "office": 5, "crafter": 5, "robot": 5, "rooms": None}
_HORIZON = {"letter": 200, "office": 500, "crafter": 300, "robot": 200, "rooms": 200}


class TaskError(KeyError, ValueError):
    """A task that does not exist or cannot be made as asked; the message names the place and the remedy."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Task:
    """A task with hidden subgoals. Built by `make_task`; positions are read-only."""

    name: str
    domain: str
    formula: Formula
    positions: Mapping[str, Cell]
    """Cell of every letter on the map, distractors included."""
    size: tuple[int, int]
    """Width and height, in cells."""
    start: Cell | None
    """Where episodes start; None: a random free cell without a letter."""
    horizon: int
    """Steps after which an episode that has not satisfied the formula is cut off, with label 0."""
    layout_seed: int = 0
    """Seed of walls, terrain and unnamed positions; episodes have a seed of their own."""
    view: int | None = None
    """Side of the agent-centred view, an odd number of cells; None: the whole map."""
    wrap: bool = False
    """Whether opposite edges of the map are joined."""
    walls: frozenset[Cell] = frozenset()
    terrain: Mapping[Cell, str] = field(default_factory=dict)
    """What the ground of a cell looks like where it is not the default: water, stone, path (Crafter), river (Robot)."""

    def __post_init__(self) -> None:
        _check(self)

    def __hash__(self) -> int:
        return hash(
            (
                self.name,
                self.domain,
                str(self.formula),
                self.start,
                self.horizon,
                self.layout_seed,
                self.view,
                self.wrap,
            )
        )

    @property
    def letters(self) -> tuple[str, ...]:
        """All letters on the map, sorted; `formula.symbols` are those that matter."""
        return tuple(sorted(self.positions))

    @cached_property
    def sequences(self) -> tuple[tuple[str, ...], ...]:
        """The sequences of symbols that have to be discovered: the formula's minimal satisfying sequences."""
        return self.formula.minimal_sequences()

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Free cells; their order numbers the positions."""
        return maps.free_cells(self.size, self.walls)

    @cached_property
    def automaton(self) -> DeterministicTable:
        """The formula as an integer table, for stepping many episodes at once."""
        return self.formula.fsm().table()

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """Column of `automaton.next` selected at each position, [P]; 0 where there is no letter of the formula."""
        column = {self.positions[symbol]: k + 1 for k, symbol in enumerate(self.automaton.symbols)}
        return np.array([column.get(cell, 0) for cell in self.cells], np.intp)

    @cached_property
    def start_positions(self) -> NDArray[np.int32]:
        """Positions an episode may start from."""
        taken = set(self.positions.values())
        starts = [self.start] if self.start is not None else [cell for cell in self.cells if cell not in taken]
        return np.array([self.cells.index(cell) for cell in starts], np.int32)

    @cached_property
    def shortest_solution(self) -> int:
        """Fewest steps that satisfy the formula, or -1: breadth first over position and FSM state, from all starts."""
        next_position = maps.transitions(self.cells, self.size, wrap=self.wrap)
        num_states = len(self.automaton.next)
        seen = np.zeros((len(self.cells), num_states), bool)
        positions = self.start_positions
        states = np.full(len(positions), self.automaton.initial)
        for steps in range(seen.size + 1):
            if self.automaton.accepting[states].any():
                return steps
            seen[positions, states] = True
            positions = next_position[positions].ravel()
            states = self.automaton.next[np.repeat(states, len(maps.MOVES)), self.columns[positions]]
            fresh = np.unique((positions * num_states + states)[~seen[positions, states]])
            positions, states = np.divmod(fresh, num_states)
        return -1


def make_task(
    *,
    domain: str,
    formula: str | Formula,
    positions: Mapping[str, Sequence[int]] | None = None,
    name: str = "custom",
    size: Sequence[int] | None = None,
    start: Sequence[int] | str | None = "default",
    horizon: int | None = None,
    layout_seed: int = 0,
    view: int | str | None = "default",
    wrap: bool = False,
    walls: Collection[Sequence[int]] | None = None,
) -> Task:
    """A task of one's own; what is not given takes the domain's default.

    positions: cell of each letter, (x, y) from the top left; letters outside the formula are distractors. None puts the
    letters of the formula (in the Office and in Crafter: of the domain) on random cells by `layout_seed`.
    start: a cell, None for a random one in each episode, or "default" (the domain's).
    walls: cells that block; None draws the domain's own (Office: by `layout_seed`).
    """
    if domain not in DOMAINS:
        raise TaskError(f"unknown domain {domain!r}: choose one of {', '.join(DOMAINS)}")
    formula = parse(formula) if isinstance(formula, str) else formula
    shape = _pair(size if size is not None else _SIZE[domain], "size")
    if min(shape) < 1:
        raise TaskError(f"size {shape}: width and height must be positive")
    given = {letter: _pair(cell, f"the position of {letter!r}") for letter, cell in (positions or {}).items()}
    first = _default_start(domain, shape) if start == "default" else start
    begin = None if first is None else _pair(first, "start")
    try:
        # Objects that only the generalization world has do not shape the terrain: they are put on the ground as it is.
        landmarks = {cell for letter, cell in given.items() if letter in _standard_letters(domain)}
        terrain, blocked = _ground(domain, shape, layout_seed, landmarks | ({begin} if begin else set()), walls)
        if positions is None:
            letters = {*formula.symbols, *_standard_letters(domain)}
            given = maps.draw_letter_cells(domain, letters, shape, blocked, {begin} if begin else (), layout_seed)
    except MapError as error:
        raise TaskError(f"{name}: {error}") from error
    return Task(
        name=name, domain=domain, formula=formula, positions=given, size=shape, start=begin,
        horizon=_HORIZON[domain] if horizon is None else int(horizon), layout_seed=layout_seed,
        view=_VIEW[domain] if view == "default" else view,  # type: ignore[arg-type]
        wrap=wrap, walls=blocked, terrain=terrain,
    )  # fmt: skip


def _pair(value: Any, what: str) -> tuple[int, int]:
    try:
        x, y = (int(v) for v in value)
    except (TypeError, ValueError):
        raise TaskError(f"{what} is {value!r}: give a pair of integers (x, y)") from None
    return x, y


def _default_start(domain: str, size: tuple[int, int]) -> Cell:
    """The top left; in Crafter the middle of the map; in the Office the middle of the second room in the second row."""
    if domain == "crafter":
        return size[0] // 2, size[1] // 2
    return (9, 9) if domain == "office" else (0, 0)


def _standard_letters(domain: str) -> tuple[str, ...]:
    """Letters that are on the map of a domain whether the formula uses them or not."""
    return {"office": tuple("comdp"), "crafter": tuple("tscdefh")}.get(domain, ())


def _ground(
    domain: str, size: tuple[int, int], layout_seed: int, keep_free: set[Cell], walls: Collection[Sequence[int]] | None
) -> tuple[dict[Cell, str], frozenset[Cell]]:
    """Terrain and walls of a domain; walls given by the caller replace the domain's own."""
    terrain: dict[Cell, str] = {}
    if domain == "crafter" and walls is None:
        terrain = dict(maps.crafter_terrain(size, layout_seed, frozenset(keep_free)))
    if domain == "robot":
        terrain = dict.fromkeys(maps.river(size), "river")
    if walls is not None:
        blocked = frozenset(_pair(cell, "a wall") for cell in walls)
        return terrain | (dict.fromkeys(blocked, "stone") if domain == "crafter" else {}), blocked
    if domain == "office":
        return terrain, maps.office_walls(size, layout_seed)
    if domain == "rooms":
        return terrain, maps.dividing_wall(size)
    return terrain, frozenset(cell for cell, material in terrain.items() if material in maps.OBSTACLES)


def _check(task: Task) -> None:
    """Raises TaskError at the first thing that makes the task meaningless or impossible."""

    def fail(message: str) -> None:
        raise TaskError(f"task {task.name!r}: {message}")

    unplaced = sorted(set(task.formula.symbols) - set(task.positions))
    if unplaced:
        fail(
            f"{task.formula} uses {', '.join(map(repr, unplaced))} without a position; given: {', '.join(task.letters)}"
        )
    known = _KNOWN.get(task.domain)
    for letter in task.letters:
        if known is not None and letter not in known:
            fail(f"{letter!r} is not a symbol of the {task.domain} domain; it has {', '.join(known)}")
    if task.wrap and task.domain == "crafter":
        fail("Crafter's view ends at the edge of the map, so wrap=True is not for it")
    if task.view is None and task.domain == "crafter":
        fail("Crafter has no view of the whole map: give view=5")
    if task.view is not None and (task.view < 1 or task.view % 2 == 0):
        fail(f"view={task.view}: the agent is in its middle, so it must be odd")
    places = {f"the letter {letter!r}": cell for letter, cell in sorted(task.positions.items())}
    if task.start is not None:
        places["the start"] = task.start
    owner: dict[Cell, str] = {}
    for place, (x, y) in places.items():
        if not (0 <= x < task.size[0] and 0 <= y < task.size[1]):
            fail(f"{place} at {(x, y)} is outside the map: x is 0 to {task.size[0] - 1}, y is 0 to {task.size[1] - 1}")
        if (x, y) in task.walls:
            fail(f"{place} at {(x, y)} is on a {task.terrain.get((x, y), 'wall')} cell: move it to a free one")
        if (x, y) in owner:
            fail(f"{place} is at {(x, y)}, where {owner[x, y]} is: every cell holds one thing")
        owner[x, y] = place
    if not task.start_positions.size:
        fail("there is no free cell without a letter to start from")
    next_position = maps.transitions(task.cells, task.size, wrap=task.wrap)
    for start in task.start_positions[:1] if task.start else task.start_positions:
        reached = maps.reachable(next_position, int(start))
        for letter, cell in sorted(task.positions.items()):
            if not reached[task.cells.index(cell)]:
                fail(f"the letter {letter!r} at {cell} cannot be reached from {task.cells[start]}: open a wall")
    if task.horizon < task.shortest_solution:
        fail(f"horizon {task.horizon} is shorter than the shortest solution, {task.shortest_solution} steps")


_LETTER_1 = {"a": (3, 1), "b": (5, 2), "c": (7, 7), "d": (1, 6), "e": (8, 3)}
_LETTER_2 = {"a": (3, 2), "b": (1, 8), "c": (7, 9), "d": (5, 6), "e": (8, 1)}
_OFFICE = {"c": (20, 14), "o": (14, 2), "p": (3, 14), "m": (22, 3), "d": (9, 15)}
_CRAFTER = {"t": (5, 6), "s": (3, 14), "c": (16, 15), "d": (7, 17), "e": (17, 9), "f": (15, 4), "h": (10, 2)}
_NEW_OBJECTS = {"drink": (15, 12), "sand": (6, 11), "table": (13, 7), "zombie": (3, 3)}

_DEFINITIONS: dict[str, dict[str, Any]] = {
    "letter-1": dict(domain="letter", formula="a;b;c", positions=_LETTER_1),
    "letter-2": dict(domain="letter", formula="((a;b)|c);d", positions=_LETTER_2),
    "letter-3": dict(domain="letter", formula="a;((b;a)|c);d", positions=_LETTER_2),
    "office-1": dict(domain="office", formula="c;o;p", positions=_OFFICE),
    "office-2": dict(domain="office", formula="c;((o;c)|m);d", positions=_OFFICE),
    "office-3": dict(domain="office", formula="((c;o)|m);p", positions=_OFFICE),
    "crafter-1": dict(domain="crafter", formula="t;c;d", positions=_CRAFTER),
    "crafter-2": dict(domain="crafter", formula="((t;s)|c);f", positions=_CRAFTER),
    "crafter-3": dict(domain="crafter", formula="t;((c;f)|e);d", positions=_CRAFTER),
    # Generalization: learned from task 2, tested on an unseen formula over the same subgoals in a changed world.
    "office-2-walls": dict(domain="office", formula="(m|(d;o));c", positions=_OFFICE, layout_seed=1),
    "crafter-2-objects": dict(domain="crafter", formula="(f|(c;t));s", positions=_CRAFTER | _NEW_OBJECTS),
    # The motivating example and the two limitation examples.
    "robot": dict(domain="robot", formula="c;(b|w);d", positions={"c": (0, 9), "b": (3, 7), "w": (7, 1), "d": (9, 9)}),
    "rooms-corridor": dict(domain="rooms", formula="r;b;g", positions={"r": (1, 3), "b": (8, 1), "g": (9, 4)}),
    "rooms-symmetric": dict(
        domain="rooms", formula="(a;b;c)|(d;e;f)", size=(11, 7), start=(5, 3), walls=(),
        positions={"a": (3, 1), "b": (1, 3), "c": (3, 5), "d": (7, 1), "e": (9, 3), "f": (7, 5)},
    ),
}  # fmt: skip

NINE = tuple(f"{domain}-{i}" for domain in ("letter", "office", "crafter") for i in (1, 2, 3))
"""The paper's nine tasks."""


class _Tasks(Mapping[str, Task]):
    """The named tasks, each made when it is first asked for."""

    def __init__(self, definitions: Mapping[str, dict[str, Any]]) -> None:
        self._definitions = definitions
        self._made: dict[str, Task] = {}

    def __getitem__(self, name: str) -> Task:
        if name not in self._definitions:
            nearest = difflib.get_close_matches(str(name), self._definitions, n=3, cutoff=0.4) or self._definitions
            raise TaskError(f"unknown task {name!r}; did you mean {', '.join(nearest)}?")
        if name not in self._made:
            self._made[name] = make_task(name=name, **self._definitions[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._definitions)

    def __len__(self) -> int:
        return len(self._definitions)


TASKS: Mapping[str, Task] = _Tasks(_DEFINITIONS)
