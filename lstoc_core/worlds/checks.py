"""What makes a task meaningless or impossible, each with its place and its remedy."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lstoc_core.suggestions import unknown
from lstoc_core.worlds import maps
from lstoc_core.worlds.maps import Cell
from lstoc_core.worlds.registry import find_domain

if TYPE_CHECKING:
    from lstoc_core.worlds.tasks import Task


def complaints(task: "Task") -> Iterator[str]:
    """All that is wrong with a task. Later checks rely on the earlier ones, so trust only the first complaint."""
    yield from _symbols(task)
    yield from _view(task)
    yield from _places(task)
    yield from _ways(task)
    if task.horizon < task.shortest_solution:
        yield f"horizon {task.horizon} is shorter than the shortest solution, {task.shortest_solution} steps: raise it"


def _symbols(task: "Task") -> Iterator[str]:
    """The formula's letters have positions, and the domain has the letters."""
    unplaced = sorted(set(task.formula.symbols) - set(task.positions))
    if unplaced:
        given = ", ".join(task.letters)
        yield f"{task.formula} uses {', '.join(map(repr, unplaced))} without a position; given: {given}"
    symbols = find_domain(task.domain).symbols
    for letter in task.letters:
        if symbols.closed and letter not in symbols.meaning:
            yield unknown(f"symbol of the {task.domain} domain", letter, symbols.meaning)


def _view(task: "Task") -> Iterator[str]:
    """The domain can show the task."""
    objection = find_domain(task.domain).objection(task)
    if objection is not None:
        yield objection
    if task.view is not None and (task.view < 1 or task.view % 2 == 0):
        yield f"view={task.view}: the agent is in its middle, so it must be odd"
    if task.view is not None and task.view > 2 * max(task.size) + 1:
        yield f"view={task.view} is more than twice the map: choose at most {2 * max(task.size) + 1}, or None for all"


def _places(task: "Task") -> Iterator[str]:
    """Letters and start lie on free, different cells of the map."""
    things = {f"the letter {letter!r}": cell for letter, cell in sorted(task.positions.items())}
    if task.start is not None:
        things["the start"] = task.start
    owner: dict[Cell, str] = {}
    for thing, (x, y) in things.items():
        if not (0 <= x < task.size[0] and 0 <= y < task.size[1]):
            yield f"{thing} at {(x, y)} is outside the map: x is 0 to {task.size[0] - 1}, y is 0 to {task.size[1] - 1}"
        if (x, y) in task.walls:
            yield f"{thing} at {(x, y)} is on a {task.terrain.get((x, y), 'wall')} cell: move it to a free one"
        if (x, y) in owner:
            yield f"{thing} is at {(x, y)}, where {owner[x, y]} is: every cell holds one thing"
        owner[x, y] = thing
    if not task.start_positions.size:
        yield "there is no free cell without a letter to start from: choose a larger size"


def _ways(task: "Task") -> Iterator[str]:
    """Every start reaches every letter. Moves can be undone, so one look from the first start answers for all."""
    next_position = maps.transitions(task.cells, task.size, wrap=task.wrap)
    reached = maps.reachable(next_position, int(task.start_positions[0]))
    away = task.start_positions[~reached[task.start_positions]]
    for letter, cell in sorted(task.positions.items()):
        if not reached[task.cells.index(cell)] or away.size:
            start = task.cells[away[0] if reached[task.cells.index(cell)] else task.start_positions[0]]
            yield f"the letter {letter!r} at {cell} cannot be reached from {start}: open a wall"
