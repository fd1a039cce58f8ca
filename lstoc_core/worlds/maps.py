"""Maps: which cells are free, and where a move leads.

A cell is (x, y) with the origin at the top left. This file knows the geometry of the five domains and nothing about
formulas or observations. Every layout that is drawn at random comes from its own seed (`layout_seed`), apart from the
seed of the episodes, and its free cells form a *biconnected* graph: all cells reach one another, and no single cell has
to be passed by everybody. Bottlenecks look like subgoals to the agent (the paper's first limitation), so only the world
made to show that limitation, the corridor between two rooms, has one.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

import networkx as nx
import numpy as np
from numpy.typing import NDArray

Cell = tuple[int, int]

ACTIONS = ("up", "right", "down", "left")
MOVES: tuple[Cell, ...] = ((0, -1), (1, 0), (0, 1), (-1, 0))

ROOM = 5
"""Side of an Office room, in cells; rooms are separated by one-cell walls."""

_WALL_STREAM, _LETTER_STREAM, _TERRAIN_STREAM = range(3)


class MapError(ValueError):
    """A map that cannot be drawn as asked."""


def free_cells(size: tuple[int, int], walls: Collection[Cell]) -> tuple[Cell, ...]:
    """The cells an agent can stand on, row by row. Their order numbers the positions of a world."""
    width, height = size
    return tuple((x, y) for y in range(height) for x in range(width) if (x, y) not in walls)


def transitions(cells: Sequence[Cell], size: tuple[int, int], *, wrap: bool = False) -> NDArray[np.int32]:
    """Next position for each position and action, [P, 4]; a blocked move stays put. `wrap` joins opposite edges."""
    width, height = size
    index = {cell: i for i, cell in enumerate(cells)}
    table = np.empty((len(cells), len(MOVES)), np.int32)
    for i, (x, y) in enumerate(cells):
        for action, (dx, dy) in enumerate(MOVES):
            target = ((x + dx) % width, (y + dy) % height) if wrap else (x + dx, y + dy)
            table[i, action] = index.get(target, i)
    return table


def reachable(next_position: NDArray[np.int32], start: int) -> NDArray[np.bool_]:
    """Which positions can be reached from `start`, [P]."""
    seen = np.zeros(len(next_position), bool)
    frontier = np.array([start])
    while frontier.size:
        seen[frontier] = True
        neighbours = np.unique(next_position[frontier])
        frontier = neighbours[~seen[neighbours]]
    return seen


def is_biconnected(size: tuple[int, int], walls: Collection[Cell]) -> bool:
    """Whether all free cells reach one another, and still do after any one of them is taken away."""
    cells = set(free_cells(size, walls))
    edges = [((x, y), (x + dx, y + dy)) for x, y in cells for dx, dy in ((1, 0), (0, 1)) if (x + dx, y + dy) in cells]
    graph = nx.Graph(edges)
    graph.add_nodes_from(cells)
    return bool(nx.is_biconnected(graph))


def rooms_of_office(size: tuple[int, int]) -> list[list[Cell]]:
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
def office_walls(size: tuple[int, int], layout_seed: int, *, closed: int = 4) -> frozenset[Cell]:
    """Walls of an Office: outer walls, and between neighbouring rooms a wall segment with an opening of 1 to 3 cells.

    Up to `closed` segments have no opening at all, as long as the map stays biconnected.
    """
    rooms_of_office(size)  # checks the size
    rng = np.random.default_rng([layout_seed, _WALL_STREAM])
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


def _openings(size: tuple[int, int], rng: np.random.Generator) -> list[set[Cell]]:
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


@lru_cache(maxsize=64)
def crafter_terrain(size: tuple[int, int], layout_seed: int, keep_grass: frozenset[Cell]) -> dict[Cell, str]:
    """Crafter's own materials on the grass: water and stone (obstacles, 6 % each) and paths (walkable, 15 %).

    Smooth noise puts them in patches as in the game. Cells of `keep_grass` and their neighbours get no obstacle; one
    that would cut the map or make a bottleneck is left out. Sand and trees are not terrain: they are objects of tasks.
    """
    rng = np.random.default_rng([layout_seed, _TERRAIN_STREAM])
    area = size[0] * size[1]
    near = {(x + dx, y + dy) for x, y in keep_grass for dx in (-1, 0, 1) for dy in (-1, 0, 1)}
    terrain: dict[Cell, str] = {}
    for material, share in (("water", 0.06), ("stone", 0.06)):
        wanted = round(share * area)
        for cell in _by_smooth_noise(size, rng):
            if wanted and cell not in terrain and cell not in near and is_biconnected(size, {*terrain, cell}):
                terrain[cell] = material
                wanted -= 1
    paths = [cell for cell in _by_smooth_noise(size, rng) if cell not in terrain and cell not in keep_grass]
    return terrain | dict.fromkeys(paths[: round(0.15 * area)], "path")


OBSTACLES = frozenset({"water", "stone"})
"""Terrain that blocks the agent."""


def _by_smooth_noise(size: tuple[int, int], rng: np.random.Generator) -> list[Cell]:
    """All cells, those with the highest smooth noise first."""
    width, height = size
    noise = rng.random((width, height))
    for _ in range(2):
        padded = np.pad(noise, 1, mode="edge")
        noise = np.mean([padded[i : i + width, j : j + height] for i in range(3) for j in range(3)], axis=0)
    order = np.argsort(-noise, axis=None, kind="stable")
    return [(int(i) // height, int(i) % height) for i in order]


def dividing_wall(size: tuple[int, int]) -> frozenset[Cell]:
    """The wall between two rooms side by side, with a corridor of one cell in its middle."""
    width, height = size
    if width < 3 or height < 3:
        raise MapError(f"size {size}: two rooms and a wall between them need at least (3, 3)")
    return frozenset((width // 2, y) for y in range(height) if y != height // 2)


def river(size: tuple[int, int]) -> tuple[Cell, ...]:
    """The river of the motivating example, round the bottom right corner from the right edge to the bottom."""
    width, height = size
    x, y = width - 1, height // 2 - 1
    course = [(x, y)]
    while y < height - 1 and x > 0:
        x, y = (x - 1, y) if len(course) % 2 and x > width // 2 else (x, y + 1)
        course.append((x, y))
    return tuple(course)


def draw_letter_cells(
    domain: str,
    letters: Iterable[str],
    size: tuple[int, int],
    walls: Collection[Cell],
    taken: Collection[Cell],
    layout_seed: int,
) -> dict[str, Cell]:
    """Random cells for letters whose positions are not given; in the Office each in a room of its own."""
    rng = np.random.default_rng([layout_seed, _LETTER_STREAM])
    letters = sorted(letters)
    if domain == "office":
        rooms = [[cell for cell in room if cell not in walls] for room in rooms_of_office(size)]
        empty = [room for room in rooms if room and not set(room) & set(taken)]
        choices = [empty[i] for i in rng.permutation(len(empty))]
    else:
        free = [cell for cell in free_cells(size, walls) if cell not in taken]
        choices = [[free[i]] for i in rng.permutation(len(free))]
    if len(choices) < len(letters):
        raise MapError(f"size {size}: no place for {len(letters)} letters ({', '.join(letters)})")
    return {letter: cells[int(rng.integers(len(cells)))] for letter, cells in zip(letters, choices, strict=False)}
