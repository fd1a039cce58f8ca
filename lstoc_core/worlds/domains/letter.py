"""Letter: letters on an open map.

Map: 10×10 unless the task says otherwise. It wraps round: opposite edges are joined, unless `wrap=False`. Observation:
the whole map, or with `view=5` the 5×5 cells round the agent, as a binary tensor with a plane per letter and one for
the agent.
"""

import numpy as np
from numpy.typing import NDArray

from lstoc_core.worlds.domain import Defaults, Domain, Group, NamedTask, Picture
from lstoc_core.worlds.tasks import Task
from lstoc_core.worlds.views import binary_views


def views(task: Task) -> NDArray[np.uint8]:
    """The whole map as a binary tensor, height × width × (k + 1), or the 5×5 cells round the agent (`view=5`)."""
    return binary_views(task, task.letters, walls=False)


def picture(task: Task) -> Picture:
    """Coloured letters on a light board; those the formula does not use are grey."""
    from lstoc_core.worlds import pictures

    return Picture(pictures.board(task, pictures.tile), pictures.agent())


# a, b, c of Letter 1 and a, b, c, d of Letter 2 are the paper's; the others are ours.
_POSITIONS_1 = {"a": (3, 1), "b": (5, 2), "c": (7, 7), "d": (1, 6), "e": (8, 3)}
_POSITIONS_2 = {"a": (3, 2), "b": (1, 8), "c": (7, 9), "d": (5, 6), "e": (8, 1)}

DOMAIN = Domain(
    name="letter",
    defaults=Defaults(size=(10, 10), start=lambda size: (0, 0), view=None, horizon=200, wrap=True),
    views=views,
    picture=picture,
    tasks=(
        NamedTask("letter-1", "a;b;c", _POSITIONS_1, Group.BENCHMARK),
        NamedTask("letter-2", "((a;b)|c);d", _POSITIONS_2, Group.BENCHMARK),
        NamedTask("letter-3", "a;((b;a)|c);d", _POSITIONS_2, Group.BENCHMARK),
    ),
    place=1,
)
