"""Rooms: the paper's limitation examples. A corridor every solution passes; a formula with symmetric branches.

Map: two rooms and a wall with a corridor of one cell, or the walls the task gives. Observation: the whole map as a
binary tensor with a plane per letter, one for the walls and one for the agent.
"""

import numpy as np
from numpy.typing import NDArray

from lstoc_core.worlds.domain import Defaults, Domain, Ground, Layout, NamedTask, Picture, Site
from lstoc_core.worlds.maps import Cell, MapError, Size
from lstoc_core.worlds.tasks import Task
from lstoc_core.worlds.views import binary_views


def dividing_wall(size: Size) -> frozenset[Cell]:
    """The wall between two rooms side by side, with a corridor of one cell in its middle."""
    width, height = size
    if width < 3 or height < 3:
        raise MapError(f"size {size}: two rooms and a wall between them need at least (3, 3)")
    return frozenset((width // 2, y) for y in range(height) if y != height // 2)


def ground(site: Site) -> Ground:
    """The walls given, or the wall between two rooms."""
    return Ground(dividing_wall(site.size) if site.walls is None else site.walls)


def views(task: Task) -> NDArray[np.uint8]:
    """The whole map as a binary tensor, height × width × (letters, walls, agent)."""
    return binary_views(task, task.letters, walls=True)


def picture(task: Task) -> Picture:
    """Balls of different colours in the rooms."""
    from lstoc_core.worlds import pictures

    return Picture(pictures.board(task, pictures.ball), pictures.agent())


_SYMMETRIC = {"a": (3, 1), "b": (1, 3), "c": (3, 5), "d": (7, 1), "e": (9, 3), "f": (7, 5)}

DOMAIN = Domain(
    name="rooms",
    defaults=Defaults(size=(11, 5), start=lambda size: (0, 0), view=None, horizon=200, wrap=False),
    layout=Layout(ground=ground),
    views=views,
    picture=picture,
    tasks=(
        NamedTask("rooms-corridor", "r;b;g", {"r": (1, 3), "b": (8, 1), "g": (9, 4)}),
        NamedTask("rooms-symmetric", "(a;b;c)|(d;e;f)", _SYMMETRIC, size=(11, 7), start=(5, 3), walls=()),
    ),
    place=5,
)
