"""Tasks as data: a map, letters on it, a formula over some of the letters, and a horizon.

    TASKS["letter-2"]                                         # one of the paper's nine, or an extra one
    make_task(domain="letter", formula="(a;b)|c", positions={"a": (3, 2), "b": (1, 8), "c": (7, 9)}, horizon=100)

A task is checked when it is made: letters lie on free, different cells, the start reaches all of them, and the formula
can be satisfied before the horizon. The numbers the paper does not give were chosen before any result was seen.
"""

import dataclasses
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.logic import FSM, DeterministicTable, Formula, parse
from lstoc_core.suggestions import unknown
from lstoc_core.worlds import maps
from lstoc_core.worlds.checks import complaints
from lstoc_core.worlds.domain import Default, Domain, NamedTask, Site, TaskError
from lstoc_core.worlds.maps import Cell, MapError, Size, mean_distance, transitions
from lstoc_core.worlds.registry import all_domains, find_domain

if TYPE_CHECKING:
    from lstoc_core.worlds.grid import GridVectorEnv

__all__ = ["NINE", "TASKS", "Default", "Task", "TaskError", "make_task"]

NINE = tuple(f"{domain}-{i}" for domain in ("letter", "office", "crafter") for i in (1, 2, 3))
"""The paper's nine tasks."""


@dataclass(frozen=True, repr=False)
class Task:
    """A task with hidden subgoals. Built by `make_task`; positions and terrain are read-only."""

    name: str
    domain: str
    formula: Formula
    positions: Mapping[str, Cell]
    """Cell of every letter on the map, distractors included."""
    size: Size
    """Width and height, in cells."""
    start: Cell | None
    """Where episodes start; None: a random free cell without a letter."""
    horizon: int
    """Steps after which an episode that has not satisfied the formula is cut off, with label 0."""
    layout_seed: int
    """Seed of walls, terrain and unnamed positions; episodes have a seed of their own."""
    view: int | None
    """Side of the agent-centred view, an odd number of cells; None: the whole map."""
    wrap: bool
    """Whether opposite edges of the map are joined."""
    walls: frozenset[Cell]
    """Cells that block."""
    terrain: Mapping[Cell, str]
    """What a cell looks like where it is not plain ground: water, stone, path (Crafter), river (Robot)."""

    def __post_init__(self) -> None:
        for complaint in complaints(self):
            raise TaskError(f"task {self.name!r}: {complaint}")

    def __hash__(self) -> int:
        place = (self.start, self.horizon, self.layout_seed, self.view, self.wrap)
        return hash((self.name, self.domain, str(self.formula), *place))

    @property
    def letters(self) -> tuple[str, ...]:
        """All letters on the map, sorted; `formula.symbols` are those that matter."""
        return tuple(sorted(self.positions))

    @property
    def fingerprint(self) -> str:
        """Name, formula and a checksum of everything else: two tasks that differ have different fingerprints."""
        parts = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self))
        return f"{self.name}, {self.formula}, {zlib.crc32(f'Task({parts})'.encode()):08x}"

    def __repr__(self) -> str:
        width, height = self.size
        return f"Task({self.name}: {self.formula} on {width} × {height} cells of {self.domain}, horizon {self.horizon})"

    def _repr_html_(self) -> str | None:
        """The map and the formula, for notebooks."""
        try:
            from lstoc_core.drawing.inline import task_html  # here: only who draws needs matplotlib
        except ModuleNotFoundError:  # the plain text is shown
            return None
        return task_html(self)

    @property
    def discount(self) -> float:
        """γ = 1 - 1 / (2 d), d the mean number of steps between two cells.

        Temporal geometric sampling then reaches, on average, twice as far as two cells lie apart.
        """
        return 1 - 1 / (2 * mean_distance(transitions(self.cells, self.size, wrap=self.wrap)))

    def fsm(self) -> FSM:
        """The finite-state machine of the formula: all that the agent is told about the task."""
        return self.formula.fsm()

    def vector_env(self, num_envs: int, *, seed: int) -> "GridVectorEnv":
        """Many episodes of the task at once; see `make_vec`."""
        from lstoc_core.worlds.make import make_vec

        return make_vec(self, num_envs, seed=seed)

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
        return self.fsm().table()

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
        number = {cell: i for i, cell in enumerate(self.cells)}
        return np.array([number[cell] for cell in starts], np.int32)

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
    start: Sequence[int] | Default | None = Default.OF_DOMAIN,
    horizon: int | None = None,
    layout_seed: int = 0,
    view: int | Default | None = Default.OF_DOMAIN,
    wrap: bool | None = None,
    walls: Collection[Sequence[int]] | None = None,
) -> Task:
    """A task of one's own; what is not given takes the domain's default.

    positions: cell of each letter, (x, y) from the top left. Letters outside the formula are distractors. None: random
    cells by `layout_seed` for the letters of the formula and those the domain always has (Office, Crafter).
    start: a cell; None: a random free cell in each episode.
    view: side of the agent-centred view, in cells; None: the whole map.
    walls: cells that block; None: the domain's own, where they are random by `layout_seed`.
    """
    entry = find_domain(domain)
    defaults = entry.defaults
    formula = parse(formula) if isinstance(formula, str) else formula
    shape = _pair(defaults.size if size is None else size, "size")
    if min(shape) < 1:
        raise TaskError(f"size {shape}: width and height must be positive")
    if shape[0] * shape[1] > maps.MAX_CELLS:
        raise TaskError(f"size {shape} has {shape[0] * shape[1]:,} cells: choose at most {maps.MAX_CELLS:,}")
    first = defaults.start(shape) if isinstance(start, Default) else start
    begin = None if first is None else _pair(first, "start")
    taken = frozenset[Cell]() if begin is None else frozenset({begin})
    cells = {letter: _pair(cell, f"the position of {letter!r}") for letter, cell in (positions or {}).items()}
    # Only the letters that a domain always has shape its ground: a new object is put on the ground as it is.
    landmarks = {cell for letter, cell in cells.items() if letter in entry.symbols.always}
    given_walls = None if walls is None else frozenset(_pair(cell, "a wall") for cell in walls)
    try:
        ground = entry.layout.ground(Site(shape, layout_seed, taken | landmarks, given_walls))
        if positions is None:
            letters = {*formula.symbols, *entry.symbols.always}
            cells = maps.draw_letter_cells(letters, entry.layout.places(shape, ground.walls, taken), layout_seed)
    except MapError as error:
        raise TaskError(f"task {name!r}: {error}") from error
    return Task(
        name=name,
        domain=domain,
        formula=formula,
        positions=cells,
        size=shape,
        start=begin,
        horizon=defaults.horizon if horizon is None else int(horizon),
        layout_seed=layout_seed,
        view=defaults.view if isinstance(view, Default) else view,
        wrap=defaults.wrap if wrap is None else wrap,
        walls=ground.walls,
        terrain=ground.terrain,
    )


def _pair(value: Any, what: str) -> tuple[int, int]:
    try:
        x, y = (int(v) for v in value)
    except (TypeError, ValueError):
        raise TaskError(f"{what} is {value!r}: give a pair of integers (x, y)") from None
    return x, y


class _Tasks(Mapping[str, Task]):
    """The named tasks of all domains, by group and domain; each is made when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[NamedTask, Task] = {}

    def __getitem__(self, name: str) -> Task:
        named = _named_tasks()
        if name not in named:
            raise TaskError(unknown("task", name, named))
        domain, arguments = named[name]
        if arguments not in self._made:
            self._made[arguments] = _make(domain, arguments)
        return self._made[arguments]

    def __contains__(self, name: object) -> bool:
        return name in _named_tasks()

    def __iter__(self) -> Iterator[str]:
        return iter(_named_tasks())

    def __len__(self) -> int:
        return len(_named_tasks())


def _named_tasks() -> dict[str, tuple[Domain, NamedTask]]:
    entries = [(domain, named) for domain in all_domains() for named in domain.tasks]
    return {named.name: (domain, named) for domain, named in sorted(entries, key=lambda entry: entry[1].group)}


def _make(domain: Domain, named: NamedTask) -> Task:
    """`make_task` with the arguments of a named task."""
    arguments = {field.name: getattr(named, field.name) for field in dataclasses.fields(named)}
    del arguments["group"]
    return make_task(domain=domain.name, **arguments)


TASKS: Mapping[str, Task] = _Tasks()
"""The named tasks of all domains: the paper's nine, the generalization worlds, the examples."""
