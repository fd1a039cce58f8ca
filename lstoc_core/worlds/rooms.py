"""Rooms: the paper's limitation examples. A corridor every solution passes; a formula with symmetric branches.

Map: two rooms and a wall with a corridor of one cell, or the walls the task gives. Observation: the whole map as a
binary tensor with a plane per letter, one for the walls and one for the agent.
"""

import numpy as np
from numpy.typing import NDArray

from lstoc_core.worlds import pictures
from lstoc_core.worlds.tasks import Task
from lstoc_core.worlds.views import binary_views


def views(task: Task) -> NDArray[np.uint8]:
    """The whole map as a binary tensor, height × width × (letters, walls, agent)."""
    return binary_views(task, task.letters, walls=True)


def picture(task: Task) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Balls of different colours in the rooms."""
    return pictures.board(task, pictures.ball), pictures.agent()
