"""Office: twelve rooms of 5×5 with wall segments between them, and one letter in some of the rooms.

Map: 25×19; openings in the walls are drawn by the layout seed so that no cell is a bottleneck. Observation: the 5×5
cells round the agent as a binary tensor with planes for coffee, office, mailbox, desk, printer, walls, and the agent.
"""

import numpy as np
from numpy.typing import NDArray

from lstoc_core.worlds import pictures
from lstoc_core.worlds.tasks import OFFICE_LETTERS, Task
from lstoc_core.worlds.views import binary_views


def views(task: Task) -> NDArray[np.uint8]:
    """5×5×7 agent-centred binary tensor: letters c o m d p, wall, agent."""
    return binary_views(task, tuple(OFFICE_LETTERS), walls=True)


def picture(task: Task) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A floor plan; letters the formula does not use are grey."""
    return pictures.board(task, pictures.tile), pictures.agent()
