"""A whole domain in one file: what somebody who adds a domain writes, and nothing else.

Garden: flowers and a well on a lawn with a hedge across it. Map: 7×5. Observation: the three numbers (column, row, what
grows here). Put into `lstoc_core/worlds/domains`, or given to `register_domain`, it is a domain like the others.
"""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from lstoc_core.worlds import Defaults, Domain, Ground, Layout, NamedTask, Picture, Site, Symbols
from lstoc_core.worlds.maps import Cell, Size
from lstoc_core.worlds.tasks import Task

PLANTS = {"r": "rose", "t": "tulip", "w": "well"}
PIXELS = 8
"""Side of a cell in the picture."""


def ground(site: Site) -> Ground:
    """A hedge across the middle, open at both ends."""
    width, height = site.size
    hedge = frozenset((x, height // 2) for x in range(1, width - 1)) if site.walls is None else site.walls
    return Ground(hedge, dict.fromkeys(hedge, "hedge"))


def columns(size: Size, walls: Collection[Cell], taken: Collection[Cell]) -> list[list[Cell]]:
    """Each column holds one plant at most."""
    free = [[(x, y) for y in range(size[1]) if (x, y) not in {*walls, *taken}] for x in range(size[0])]
    return [column for column in free if column]


def views(task: Task) -> NDArray[np.uint8]:
    """Column, row, and the number of the plant (0: none), [P, 3]."""
    plant = {task.positions[letter]: k for k, letter in enumerate(task.letters, 1)}
    return np.array([(x, y, plant.get((x, y), 0)) for x, y in task.cells], np.uint8)


def picture(task: Task) -> Picture:
    """A green lawn, a dark hedge, coloured plants; the gardener is a brown square."""
    cells = np.full((*task.size[::-1], 3), (120, 200, 100), np.uint8)
    for x, y in task.walls:
        cells[y, x] = (20, 80, 30)
    for k, letter in enumerate(task.letters):
        x, y = task.positions[letter]
        cells[y, x] = (220, 60 * k, 120)
    gardener = np.full((PIXELS, PIXELS, 4), (110, 70, 30, 255), np.uint8)
    return Picture(cells.repeat(PIXELS, 0).repeat(PIXELS, 1), gardener)


def objection(task: Task) -> str | None:
    """The gardener knows the column and the row, so there is no view to choose."""
    return None if task.view is None else f"view={task.view}: the garden has none, so give view=None"


DOMAIN = Domain(
    name="garden",
    defaults=Defaults(size=(7, 5), start=lambda size: (0, size[1] - 1), view=None, horizon=60, wrap=False),
    symbols=Symbols(meaning=PLANTS, closed=True, always=("w",)),
    layout=Layout(ground=ground, places=columns),
    views=views,
    picture=picture,
    tasks=(NamedTask("garden-1", "w;(r|t)", {"w": (6, 4), "r": (2, 0), "t": (5, 1)}),),
    objection=objection,
)
