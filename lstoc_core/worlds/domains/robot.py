"""Robot: the paper's motivating example. Get power, then a board or a wheel, then cross the river to the diamond.

The formula c;(b|w);d is the river's rule: the diamond counts only after the charger and after board or wheel. The robot
sees what is near it but not the river, as in the paper ("it is not aware of the river"). So the river is drawn in
pictures and never blocks a move.
"""

import numpy as np
from numpy.typing import NDArray

from lstoc_core.worlds.domain import Defaults, Domain, Ground, Layout, NamedTask, Picture, Site, Symbols
from lstoc_core.worlds.maps import Cell, Size
from lstoc_core.worlds.tasks import Task
from lstoc_core.worlds.views import binary_views

LETTERS = {"c": "charger", "b": "board", "w": "wheel", "d": "diamond"}


def river(size: Size) -> tuple[Cell, ...]:
    """Cells of the river, round the bottom right corner from the right edge to the bottom."""
    width, height = size
    x, y = width - 1, height // 2 - 1
    course = [(x, y)]
    while y < height - 1 and x > 0:
        x, y = (x - 1, y) if len(course) % 2 and x > width // 2 else (x, y + 1)
        course.append((x, y))
    return tuple(course)


def ground(site: Site) -> Ground:
    """The river, and the walls given."""
    return Ground(site.walls or frozenset(), dict.fromkeys(river(site.size), "river"))


def views(task: Task) -> NDArray[np.uint8]:
    """5×5 agent-centred binary tensor: the letters, walls (the map's edge), the agent."""
    return binary_views(task, task.letters, walls=True)


def picture(task: Task) -> Picture:
    """The layout of the paper's first figure, with icons."""
    from lstoc_core.worlds import pictures

    return Picture(pictures.board(task, pictures.icon), pictures.agent())


DOMAIN = Domain(
    name="robot",
    defaults=Defaults(size=(10, 10), start=lambda size: (0, 0), view=5, horizon=200, wrap=False),
    symbols=Symbols(meaning=LETTERS),
    layout=Layout(ground=ground),
    views=views,
    picture=picture,
    tasks=(NamedTask("robot", "c;(b|w);d", {"c": (0, 9), "b": (3, 7), "w": (7, 1), "d": (9, 9)}),),
    place=4,
)
