"""Maps: which cells are free, where a move leads, and where letters may lie.

A cell is (x, y) with the origin at the top left. This file knows grids; what is special to a domain is in its own file.

Whatever a layout draws at random comes from its `layout_seed`, which is apart from the seed of the episodes. The free
cells of the random layouts form a *biconnected* graph: all cells reach one another, and none is a bottleneck. To the
agent a bottleneck looks like a subgoal (the paper's first limitation), so only the world that shows this limitation,
two rooms and a corridor, has one.
"""

from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Cell = tuple[int, int]
Size = tuple[int, int]
"""Width and height, in cells."""

ACTIONS = ("up", "right", "down", "left")
MOVES: tuple[Cell, ...] = ((0, -1), (1, 0), (0, 1), (-1, 0))

MAX_CELLS = 4_096
"""Largest map, 64 × 64 as the game Crafter's: every cell has an observation, which may be as large as the map."""

WALL_STREAM, LETTER_STREAM, TERRAIN_STREAM = range(3)
"""One random stream per thing that is drawn, so that a change in one leaves the others as they are."""


class MapError(ValueError):
    """A map that cannot be drawn as asked."""


def layout_generator(layout_seed: int, stream: int) -> np.random.Generator:
    """The random numbers of one stream of a layout."""
    return np.random.default_rng([layout_seed, stream])


def free_cells(size: Size, walls: Collection[Cell]) -> tuple[Cell, ...]:
    """The cells an agent can stand on, row by row. Their order numbers the positions of a world."""
    width, height = size
    return tuple((x, y) for y in range(height) for x in range(width) if (x, y) not in walls)


def transitions(cells: Sequence[Cell], size: Size, *, wrap: bool) -> NDArray[np.int32]:
    """Next position for each position and action, [P, 4]; a blocked move stays put. `wrap` joins opposite edges."""
    width, height = size
    index = {cell: i for i, cell in enumerate(cells)}
    table = np.empty((len(cells), len(MOVES)), np.int32)
    for i, (x, y) in enumerate(cells):
        for action, (dx, dy) in enumerate(MOVES):
            target = ((x + dx) % width, (y + dy) % height) if wrap else (x + dx, y + dy)
            table[i, action] = index.get(target, i)
    return table


def mean_distance(next_position: NDArray[np.int32]) -> float:
    """Fewest steps between two different positions, on average over all pairs that are connected."""
    from scipy.sparse import csr_array  # here: worlds start without it
    from scipy.sparse.csgraph import shortest_path

    positions, actions = next_position.shape
    source = np.repeat(np.arange(positions), actions)
    moves = csr_array((np.ones(source.size), (source, next_position.ravel())), (positions, positions))
    steps = shortest_path(moves, unweighted=True)
    return float(steps[np.isfinite(steps) & (steps > 0)].mean())


def reachable(next_position: NDArray[np.int32], start: int) -> NDArray[np.bool_]:
    """Which positions can be reached from `start`, [P]."""
    seen = np.zeros(len(next_position), bool)
    frontier = np.array([start])
    while frontier.size:
        seen[frontier] = True
        neighbours = np.unique(next_position[frontier])
        frontier = neighbours[~seen[neighbours]]
    return seen


def is_biconnected(size: Size, walls: Collection[Cell]) -> bool:
    """Whether all free cells reach one another, and still do after any one of them is taken away."""
    import networkx as nx  # here: only random layouts need it, and it is slow to import

    cells = set(free_cells(size, walls))
    edges = [((x, y), (x + dx, y + dy)) for x, y in cells for dx, dy in ((1, 0), (0, 1)) if (x + dx, y + dy) in cells]
    graph = nx.Graph(edges)
    graph.add_nodes_from(cells)
    return bool(nx.is_biconnected(graph))


def stays_biconnected(size: Size, walls: Collection[Cell], cell: Cell) -> bool:
    """Whether a map that is biconnected still is after one more of its free cells has become a wall.

    It is if, in a window round the cell, its free neighbours lie on a common biconnected component: then every way
    through the cell has two ways round it that share no cell. Only where they do not is the whole map searched.
    """
    import networkx as nx  # here, as above

    x, y = cell
    window = {
        place
        for place in ((x + dx, y + dy) for dx in range(-4, 5) for dy in range(-4, 5))
        if 0 <= place[0] < size[0] and 0 <= place[1] < size[1] and place not in walls and place != cell
    }
    neighbours = {(x + dx, y + dy) for dx, dy in MOVES} & window
    edges = [((a, b), (a + dx, b + dy)) for a, b in window for dx, dy in ((1, 0), (0, 1)) if (a + dx, b + dy) in window]
    if any(neighbours <= component for component in nx.biconnected_components(nx.Graph(edges))):
        return True
    return is_biconnected(size, {*walls, cell})


def single_cells(size: Size, walls: Collection[Cell], taken: Collection[Cell]) -> list[list[Cell]]:
    """The free cells that hold nothing yet, each a place of its own for a letter."""
    return [[cell] for cell in free_cells(size, walls) if cell not in taken]


def draw_letter_cells(letters: Iterable[str], places: Sequence[Sequence[Cell]], layout_seed: int) -> dict[str, Cell]:
    """A random place for each letter, no place twice, and a random cell of that place."""
    letters = sorted(letters)
    if len(places) < len(letters):
        raise MapError(
            f"there is no place for {len(letters)} letters ({', '.join(letters)}), only for {len(places)}:"
            " choose a larger size"
        )
    rng = layout_generator(layout_seed, LETTER_STREAM)
    chosen = [places[i] for i in rng.permutation(len(places))]
    return {letter: cells[int(rng.integers(len(cells)))] for letter, cells in zip(letters, chosen, strict=False)}
