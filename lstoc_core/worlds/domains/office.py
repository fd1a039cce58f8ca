"""Office: twelve rooms of 5×5 with wall segments between them, and one letter in some of the rooms.

Map: 25×19; openings in the walls are drawn by the layout seed so that no cell is a bottleneck. Observation: the 5×5
cells round the agent as a binary tensor with planes for coffee, office, mailbox, desk, printer, walls, and the agent.
"""

from collections.abc import Collection
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lstoc_core.worlds.domain import Defaults, Domain, Ground, Group, Layout, NamedTask, Picture, Site, Symbols
from lstoc_core.worlds.maps import WALL_STREAM, Cell, MapError, Size, is_biconnected, layout_generator
from lstoc_core.worlds.tasks import Task
from lstoc_core.worlds.views import binary_views

LETTERS = {"c": "coffee", "o": "office", "m": "mailbox", "d": "desk", "p": "printer"}
ROOM = 5
"""Side of a room, in cells; rooms are separated by one-cell walls."""


def rooms(size: Size) -> list[list[Cell]]:
    """Cells of every 5×5 room, rooms numbered row by row."""
    width, height = size
    if width % (ROOM + 1) != 1 or height % (ROOM + 1) != 1 or min(size) < 2 * (ROOM + 1) + 1:
        raise MapError(f"size {size}: an Office is at least 2×2 rooms of 5×5 with one-cell walls, e.g. (25, 19)")
    return [
        [(left + dx, top + dy) for dy in range(ROOM) for dx in range(ROOM)]
        for top in range(1, height, ROOM + 1)
        for left in range(1, width, ROOM + 1)
    ]


@lru_cache(maxsize=64)
def draw_walls(size: Size, layout_seed: int, *, closed: int = 4) -> frozenset[Cell]:
    """Outer walls, and between neighbouring rooms a wall segment with an opening of 1 to 3 cells.

    Up to `closed` segments have no opening at all, as long as the map stays biconnected.
    """
    rooms(size)  # checks the size
    rng = layout_generator(layout_seed, WALL_STREAM)
    width, height = size
    grid = {(x, y) for x in range(width) for y in range(height) if x % (ROOM + 1) == 0 or y % (ROOM + 1) == 0}
    openings = _openings(size, rng)
    while not is_biconnected(size, walls := grid.difference(*openings)):  # e.g. both doors of a room at one corner cell
        openings = _openings(size, rng)
    for i in rng.permutation(len(openings)):
        if closed and is_biconnected(size, walls | openings[i]):
            walls |= openings[i]
            closed -= 1
    return frozenset(walls)


def _openings(size: Size, rng: np.random.Generator) -> list[set[Cell]]:
    """Cells that are open in each wall segment between two rooms."""
    openings = []
    for top in range(1, size[1], ROOM + 1):
        for left in range(1, size[0], ROOM + 1):
            if left > 1:
                openings.append({(left - 1, top + i) for i in _opening(rng)})
            if top > 1:
                openings.append({(left + i, top - 1) for i in _opening(rng)})
    return openings


def _opening(rng: np.random.Generator) -> range:
    """Offsets along a wall segment that are open."""
    span = int(rng.integers(1, 4))
    first = int(rng.integers(0, ROOM - span + 1))
    return range(first, first + span)


def ground(site: Site) -> Ground:
    """The walls given, or walls drawn by the layout seed."""
    return Ground(draw_walls(site.size, site.layout_seed) if site.walls is None else site.walls)


def empty_rooms(size: Size, walls: Collection[Cell], taken: Collection[Cell]) -> list[list[Cell]]:
    """Free cells of each room in which nothing lies yet: every letter gets a room of its own."""
    free = [[cell for cell in room if cell not in walls] for room in rooms(size)]
    return [room for room in free if room and not set(room) & set(taken)]


def views(task: Task) -> NDArray[np.uint8]:
    """5×5×7 agent-centred binary tensor: letters c o m d p, wall, agent."""
    return binary_views(task, tuple(LETTERS), walls=True)


def picture(task: Task) -> Picture:
    """A floor plan; letters the formula does not use are grey."""
    from lstoc_core.worlds import pictures

    return Picture(pictures.board(task, pictures.tile), pictures.agent())


# c, o and p are where the paper has them; m and d are ours.
_POSITIONS = {"c": (20, 14), "o": (14, 2), "p": (3, 14), "m": (22, 3), "d": (9, 15)}

DOMAIN = Domain(
    name="office",
    # The start is the middle of the second room in the second row.
    defaults=Defaults(size=(25, 19), start=lambda size: (9, 9), view=5, horizon=500, wrap=False),
    symbols=Symbols(meaning=LETTERS, closed=True, always=tuple(LETTERS)),
    layout=Layout(ground=ground, places=empty_rooms),
    views=views,
    picture=picture,
    tasks=(
        NamedTask("office-1", "c;o;p", _POSITIONS, Group.BENCHMARK),
        NamedTask("office-2", "c;((o;c)|m);d", _POSITIONS, Group.BENCHMARK),
        NamedTask("office-3", "((c;o)|m);p", _POSITIONS, Group.BENCHMARK),
        NamedTask("office-2-walls", "(m|(d;o));c", _POSITIONS, Group.GENERALIZATION, layout_seed=1),
    ),
    place=2,
)
