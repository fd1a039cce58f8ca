"""Robot: the paper's motivating example. Get power, then a board or a wheel, then cross the river to the diamond.

The formula c;(b|w);d is the river's rule: arriving at the diamond counts only after charger and board or wheel. The
robot sees what is near it but not the river, as in the paper ("it is not aware of the river"), so the river is drawn in
pictures and never blocks a move.
"""

import numpy as np
from numpy.typing import NDArray

from lstoc_core.worlds import pictures
from lstoc_core.worlds.tasks import Task
from lstoc_core.worlds.views import binary_views


def views(task: Task) -> NDArray[np.uint8]:
    """5×5 agent-centred binary tensor: the letters, walls (the map's edge), the agent."""
    return binary_views(task, task.letters, walls=True)


def picture(task: Task) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The layout of the paper's first figure, with icons."""
    return pictures.board(task, pictures.icon), pictures.agent()
