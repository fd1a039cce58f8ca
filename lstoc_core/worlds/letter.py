"""Letter: letters on an open map.

Map: 10×10 unless the task says otherwise; with `wrap` opposite edges are joined. Observation: the whole map, or with
`view=5` the 5×5 cells round the agent, as a binary tensor with a plane per letter and one for the agent.
"""

import numpy as np
from numpy.typing import NDArray

from lstoc_core.worlds import pictures
from lstoc_core.worlds.tasks import Task
from lstoc_core.worlds.views import binary_views


def views(task: Task) -> NDArray[np.uint8]:
    """The whole map as a binary tensor, height × width × (k + 1), or the 5×5 cells round the agent (`view=5`)."""
    return binary_views(task, task.letters, walls=False)


def picture(task: Task) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Coloured letters on a light board; those the formula does not use are grey."""
    return pictures.board(task, pictures.tile), pictures.agent()
