"""How hard the tasks are, and how well a labeling function does in their worlds."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from lstoc_core.labeling.recognizer import LabelingFunction
from lstoc_core.study.stats import wilson
from lstoc_core.worlds.grid import GridVectorEnv, World
from lstoc_core.worlds.make import compile_world
from lstoc_core.worlds.maps import ACTIONS
from lstoc_core.worlds.tasks import TASKS, Task


def random_successes(world: World, episodes: int, *, seed: int = 0, num_envs: int = 1000) -> int:
    """How many of so many episodes of a uniform random policy satisfy the formula before the horizon.

    Every environment plays its own share of the episodes to the end, so that early successes are not favoured.
    """
    if episodes < 1:
        raise ValueError(f"episodes={episodes}: at least one is needed")
    num_envs = min(num_envs, episodes)
    share = np.full(num_envs, episodes // num_envs)
    share[: episodes % num_envs] += 1
    env = GridVectorEnv(world, num_envs, seed=seed)
    env.reset()
    rng = np.random.default_rng([seed, episodes])
    successes = 0
    while share.any():
        _, _, terminated, truncated, _ = env.step(rng.integers(len(ACTIONS), size=num_envs))
        counted = share > 0
        successes += int((terminated & counted).sum())
        share -= (terminated | truncated) & counted
    return successes


def task_table(episodes: int = 20_000, seed: int = 0, *, tasks: Iterable[Task | str] = tuple(TASKS)) -> pd.DataFrame:
    """One row per task: formula, sizes, horizon, shortest solution, and the random policy's successes of `episodes`.

    `low` and `high` are the 95 % Wilson interval of the random policy's success rate.
    """
    rows = []
    for world in map(compile_world, tasks):
        successes = random_successes(world, episodes, seed=seed)
        rate = wilson(successes, episodes)
        rows.append(
            {
                "task": world.task.name,
                "formula": str(world.task.formula),
                "cells": world.num_positions,
                "observations": world.num_observations,
                "shape": "×".join(map(str, world.observations.shape[1:])),
                "horizon": world.task.horizon,
                "shortest": world.task.shortest_solution,
                "episodes": episodes,
                "random_successes": successes,
                "low": round(float(rate.low), 6),
                "high": round(float(rate.high), 6),
            }
        )
    return pd.DataFrame(rows)


def label_accuracy(function: LabelingFunction, worlds: Sequence[World]) -> pd.DataFrame:
    """Precision and recall per symbol over all positions of the worlds: one row per symbol, counts included.

    A position is found when the function gives its true symbol to what the agent sees there; for scoring only.
    """
    counts = {symbol: np.zeros(3, int) for symbol in function.symbols}  # shown and there, shown, there
    for world in worlds:
        given = function.columns(world.observations)[world.observation_id]
        for column, symbol in enumerate(function.symbols):
            shown = given == column
            there = world.symbol == (world.symbols.index(symbol) if symbol in world.symbols else -2)
            counts[symbol] += [(shown & there).sum(), shown.sum(), there.sum()]
    rows: list[dict[str, Any]] = [
        {"symbol": symbol, "precision": both / shown if shown else 0.0, "recall": both / there if there else np.nan,
         "shown": shown, "there": there}
        for symbol, (both, shown, there) in counts.items()
    ]  # fmt: skip
    return pd.DataFrame(rows).set_index("symbol").assign(positions=sum(world.num_positions for world in worlds))
