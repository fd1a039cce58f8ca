"""Binary views of a map: one plane per letter, one for walls where there are any, one for the agent."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lstoc_core.worlds.tasks import Task


def binary_views(task: Task, letters: Sequence[str], *, walls: bool) -> NDArray[np.uint8]:
    """What the agent sees at each position, [P, rows, columns, planes]: the whole map, or the cells round the agent.

    Planes are the letters in the order given, the walls if asked for (outside the map all is wall), and the agent.
    """
    width, height = task.size
    planes = len(letters) + walls
    ground = np.zeros((height, width, planes), np.uint8)
    for k, letter in enumerate(letters):
        if letter in task.positions:
            x, y = task.positions[letter]
            ground[y, x, k] = 1
    if walls:
        for x, y in task.walls:
            ground[y, x, -1] = 1
    if task.view is None:
        views = np.zeros((len(task.cells), height, width, planes + 1), np.uint8)
        views[..., :planes] = ground
        for view, (x, y) in zip(views, task.cells, strict=True):
            view[y, x, -1] = 1
        return views
    side, reach = task.view, task.view // 2
    if task.wrap:
        ground = np.pad(ground, ((reach, reach), (reach, reach), (0, 0)), mode="wrap")
    else:
        ground = np.pad(ground, ((reach, reach), (reach, reach), (0, 0)))
        if walls:
            outside = np.ones(ground.shape[:2], bool)
            outside[reach : reach + height, reach : reach + width] = False
            ground[outside, -1] = 1
    views = np.zeros((len(task.cells), side, side, planes + 1), np.uint8)
    for view, (x, y) in zip(views, task.cells, strict=True):
        view[..., :planes] = ground[y : y + side, x : x + side]
    views[:, reach, reach, -1] = 1
    return views
