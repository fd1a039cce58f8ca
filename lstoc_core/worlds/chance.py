"""How likely a random walk completes a task: computed, not sampled."""

import numpy as np
from numpy.typing import NDArray

from lstoc_core.worlds.grid import NUM_ACTIONS, World


def random_walk_chance(world: World) -> float:
    """Probability that an episode of uniformly random actions satisfies the formula before the horizon."""
    tables = world.situations
    weight: NDArray[np.float64] = np.zeros(len(tables.success))
    np.add.at(weight, tables.starts, 1 / len(tables.starts))
    following, chance = tables.next.reshape(-1, NUM_ACTIONS), 0.0
    for _ in range(world.task.horizon):
        weight = np.bincount(following.ravel(), np.repeat(weight / NUM_ACTIONS, NUM_ACTIONS), len(weight)).astype(float)
        chance += float(weight[tables.success].sum())
        weight[tables.success] = 0
    return chance
