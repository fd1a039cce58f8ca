"""From a task to its world and environments: `make_vec` for many episodes at once, `make_env` for one at a time."""

import dataclasses
from functools import lru_cache, partial
from typing import TypedDict, Unpack

from lstoc_core.worlds import maps
from lstoc_core.worlds.domain import Domain
from lstoc_core.worlds.grid import GridEnv, GridVectorEnv, World, intern_rows
from lstoc_core.worlds.registry import find_domain
from lstoc_core.worlds.tasks import TASKS, Task, TaskError


class WorldOptions(TypedDict, total=False):
    """What of a task may be changed without making another task."""

    view: int | None
    wrap: bool
    start: maps.Cell | None
    horizon: int


def compile_world(task: Task | str, **options: Unpack[WorldOptions]) -> World:
    """The tables of a task, given itself or by name.

    Options take the place of the task's own values. Worlds are kept: compiling the same task again is free.
    """
    task = TASKS[task] if isinstance(task, str) else task
    if options:
        fixed = sorted(set(options) - set(WorldOptions.__annotations__))
        if fixed:
            changeable = ", ".join(WorldOptions.__annotations__)
            raise TaskError(f"{fixed[0]!r} cannot be changed in task {task.name!r}, only {changeable}: use make_task")
        start = options.get("start")
        if start is not None:
            options["start"] = (start[0], start[1])
        task = dataclasses.replace(task, **options)
    return _compile(find_domain(task.domain), task)


@lru_cache(maxsize=32)
def _compile(domain: Domain, task: Task) -> World:
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
    **options: Unpack[WorldOptions],
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
    **options: Unpack[WorldOptions],
) -> GridEnv:
    """One episode of a task at a time: what `gymnasium.make("lstoc/Letter-v0", task="letter-1")` calls.

    Without a task, the first of the domain.
    """
    if task is None:
        task = _first_task(domain)
    world = compile_world(task, **options)
    if domain is not None and world.task.domain != domain:
        raise TaskError(f"task {world.task.name!r} is of the {world.task.domain} domain, not {domain}")
    return GridEnv(world, observation=observation, render_mode=render_mode)


def _first_task(domain: str | None) -> str:
    """Name of the first task of a domain (None: of all)."""
    if domain is None:
        return next(iter(TASKS))
    tasks = find_domain(domain).tasks
    if not tasks:
        raise TaskError(f"the {domain} domain has no named task: give task=make_task(domain={domain!r}, …)")
    return tasks[0].name
