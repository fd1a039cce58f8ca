"""From a task to its world and environments: `make_vec` for many episodes at once, `make_env` for one at a time."""

import dataclasses
from functools import lru_cache, partial
from types import ModuleType
from typing import Any

from lstoc_core.worlds import crafter, letter, maps, office, robot, rooms
from lstoc_core.worlds.grid import GridEnv, GridVectorEnv, World, intern_rows
from lstoc_core.worlds.tasks import TASKS, Task, TaskError

_DOMAIN: dict[str, ModuleType] = {
    "letter": letter,
    "office": office,
    "crafter": crafter,
    "robot": robot,
    "rooms": rooms,
}

_OPTIONS = ("view", "wrap", "start", "horizon")


def compile_world(task: Task | str, **options: Any) -> World:
    """The tables of a task, given itself or by name.

    Options (view, wrap, start, horizon) take the place of the task's. Worlds are kept: compiling the same task again is
    free.
    """
    task = TASKS[task] if isinstance(task, str) else task
    if options:
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown:
            raise TaskError(
                f"{unknown[0]!r} cannot be changed in task {task.name!r}, only {', '.join(_OPTIONS)}: use make_task"
            )
        if options.get("start") is not None:
            options["start"] = tuple(options["start"])
        task = dataclasses.replace(task, **options)
    return _compile(task)


@lru_cache(maxsize=32)
def _compile(task: Task) -> World:
    domain = _DOMAIN[task.domain]
    observation_id, observations = intern_rows(domain.views(task))
    return World(
        task=task,
        next_position=maps.transitions(task.cells, task.size, wrap=task.wrap),
        observation_id=observation_id,
        observations=observations,
        picture=partial(domain.picture, task),
    )


def make_vec(
    task: Task | str,
    num_envs: int = 128,
    *,
    seed: int | None = 0,
    observation: str = "id",
    render_mode: str | None = None,
    **options: Any,
) -> GridVectorEnv:
    """Many episodes of a task at once, as a gymnasium VectorEnv with same-step autoreset; see `GridVectorEnv`."""
    return GridVectorEnv(
        compile_world(task, **options), num_envs, seed=seed, observation=observation, render_mode=render_mode
    )


def make_env(
    domain: str | None = None,
    *,
    task: Task | str | None = None,
    observation: str = "array",
    render_mode: str | None = None,
    **options: Any,
) -> GridEnv:
    """One episode of a task at a time: what `gymnasium.make("lstoc/Letter-v0", task="letter-1")` calls.

    Without a task, the first of the domain.
    """
    if task is None:
        task = next((name for name in TASKS if domain is None or name.split("-")[0] == domain), "")
    world = compile_world(task, **options)
    if domain is not None and world.task.domain != domain:
        raise TaskError(f"task {world.task.name!r} is of the {world.task.domain} domain, not {domain}")
    return GridEnv(world, observation=observation, render_mode=render_mode)
