"""Office: twelve rooms of 5×5 with wall segments between them, and one letter in some of the rooms."""

import numpy as np
from numpy.typing import NDArray

from lstoc_core.envs import pictures
from lstoc_core.envs.views import binary_views
from lstoc_core.tasks import OFFICE_LETTERS, Task


def views(task: Task) -> NDArray[np.uint8]:
    """5×5×7 agent-centred binary tensor: letters c o m d p, wall, agent."""
    return binary_views(task, tuple(OFFICE_LETTERS), walls=True)


def picture(task: Task) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A floor plan; letters the formula does not use are grey."""
    return pictures.board(task, pictures.tile), pictures.agent()
