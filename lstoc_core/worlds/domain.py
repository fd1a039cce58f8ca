"""What a domain is: symbols, defaults, layout, views, picture and named tasks, as one typed value.

A domain is one file in `lstoc_core/worlds/domains` that defines `DOMAIN = Domain(...)`, or a value given to
`register_domain`. Nothing else has to change: `make_task`, `TASKS`, `make_vec` and `gymnasium.make` know it at once.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lstoc_core.worlds.maps import Cell, Size, single_cells

if TYPE_CHECKING:
    from lstoc_core.worlds.tasks import Task


class TaskError(KeyError, ValueError):
    """A domain or task that does not exist or cannot be made as asked; the message names the input and the remedy."""

    def __str__(self) -> str:
        return str(self.args[0])


class Default(Enum):
    """Stands for a value that is not given where None has a meaning of its own."""

    OF_DOMAIN = "of domain"


@dataclass(frozen=True)
class Symbols:
    """The letters of a domain."""

    meaning: Mapping[str, str] = field(default_factory=dict)
    """What each known letter stands for."""
    closed: bool = False
    """Whether only the letters in `meaning` are allowed."""
    always: tuple[str, ...] = ()
    """Letters that are on every random map, used by the formula or not. They are the landmarks of the domain."""


@dataclass(frozen=True)
class Defaults:
    """What a task of the domain has where nothing else is given."""

    size: Size
    start: Callable[[Size], Cell | None]
    """Where episodes start on a map of a given size; None: on a random free cell."""
    view: int | None
    """Side of the agent-centred view, in cells; None: the whole map."""
    horizon: int
    """Steps per episode."""
    wrap: bool
    """Whether opposite edges of the map are joined."""


@dataclass(frozen=True)
class Site:
    """What a layout is built on."""

    size: Size
    layout_seed: int
    keep_free: frozenset[Cell]
    """Cells of the start and of the landmarks that are given; no obstacle may be drawn there."""
    walls: frozenset[Cell] | None
    """Walls that take the place of the domain's own; None: the domain draws its own."""


@dataclass(frozen=True)
class Ground:
    """The map without its letters."""

    walls: frozenset[Cell] = frozenset()
    """Cells that block, whatever they look like."""
    terrain: Mapping[Cell, str] = field(default_factory=dict)
    """What a cell looks like where it is not plain ground."""


def open_ground(site: Site) -> Ground:
    """A map without walls, except those given."""
    return Ground(site.walls or frozenset())


@dataclass(frozen=True)
class Layout:
    """How the maps of a domain are drawn."""

    ground: Callable[[Site], Ground] = open_ground
    places: Callable[[Size, Collection[Cell], Collection[Cell]], list[list[Cell]]] = single_cells
    """Groups of cells for letters without a given position, from size, walls and cells taken; one letter per group."""


class Picture(NamedTuple):
    """A drawing of a whole map. Both parts have the same number of pixels per cell."""

    background: NDArray[np.uint8]
    """The map without the agent, [h, w, 3]."""
    agent: NDArray[np.uint8]
    """The agent, [cell, cell, 4]; the last channel is its opacity."""


class Group(IntEnum):
    """What a named task is for. `TASKS` lists them in this order."""

    BENCHMARK = 0
    """One of the paper's nine."""
    GENERALIZATION = 1
    """An unseen formula over known subgoals in a changed world."""
    EXAMPLE = 2


@dataclass(frozen=True, eq=False)
class NamedTask:
    """The arguments of `make_task` under a name. The task is made when it is first asked for."""

    name: str
    formula: str
    positions: Mapping[str, Cell] | None = None
    group: Group = Group.EXAMPLE
    size: Size | None = None
    start: Cell | Default | None = Default.OF_DOMAIN
    view: int | Default | None = Default.OF_DOMAIN
    horizon: int | None = None
    wrap: bool | None = None
    walls: Collection[Cell] | None = None
    layout_seed: int = 0


def no_objection(task: "Task") -> str | None:
    """For domains in which every task is possible."""
    return None


@dataclass(frozen=True, eq=False)
class Domain:
    """A kind of world. Two domains are equal only if they are the same object."""

    name: str
    """Lower case; `gymnasium.make` knows it as `lstoc/<Name>-v0`."""
    defaults: Defaults
    views: "Callable[[Task], NDArray[np.uint8]]"
    """What the agent sees at each position of a task, [P, ...]."""
    picture: "Callable[[Task], Picture]"
    """Draws the map of a task."""
    symbols: Symbols = Symbols()
    layout: Layout = Layout()
    tasks: tuple[NamedTask, ...] = ()
    objection: "Callable[[Task], str | None]" = no_objection
    """Why the domain cannot play a task, with the remedy; None if it can."""
    place: int = 100
    """Domains are listed by their place, then by name."""

    def __post_init__(self) -> None:
        if not re.fullmatch("[a-z][a-z0-9_]*", self.name):
            raise TaskError(f"domain name {self.name!r}: use lower-case letters, digits and _, e.g. 'maze'")
        names = [task.name for task in self.tasks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise TaskError(f"domain {self.name!r} has two tasks named {twice[0]!r}: rename one")
