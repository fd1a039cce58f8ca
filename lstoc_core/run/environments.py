"""What `discover` can explore: tasks, environments, factories, vector environments and names, all turned into ids."""

import difflib
import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

import gymnasium
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from lstoc_core.logic.fsm import FSM
from lstoc_core.trajectories.events import Events
from lstoc_core.trajectories.flat import box_like
from lstoc_core.trajectories.interned import InternedVectorEnv
from lstoc_core.trajectories.success import Success
from lstoc_core.trajectories.vector_env import IdVectorEnv


@runtime_checkable
class Problem(Protocol):
    """A task with its own environments and FSM."""

    @property
    def fingerprint(self) -> str:
        """Text that identifies the task."""
        ...

    @property
    def discount(self) -> float:
        """γ of the environment."""
        ...

    def fsm(self) -> FSM: ...

    def vector_env(self, num_envs: int, *, seed: int) -> IdVectorEnv: ...


EnvLike = Problem | str | gymnasium.Env[Any, Any] | Callable[[], gymnasium.Env[Any, Any]] | VectorEnv[Any, Any, Any]


PLAIN = bool | int | float | str | None
"""Types of values that tell one factory from another of the same name."""


def named_environment(name: str) -> Any:
    """The task of that name, or else a factory of the environment that gymnasium knows by it.

    As in `gymnasium.make`, "package:Name-v0" imports the package first.
    """
    from lstoc_core.worlds.tasks import TASKS, TaskError  # imported here: only a name needs the worlds

    if name in TASKS:
        return TASKS[name]
    package, _, env_id = name.rpartition(":")
    if package:
        importlib.import_module(package)
    if env_id not in gymnasium.registry:
        known = [*TASKS, *gymnasium.registry]
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise TaskError(
            f"unknown task or environment {name!r}; {hint}An environment of another package is known to gymnasium once "
            "the package is imported, or as 'package:Name-v0'"
        )
    return partial(gymnasium.make, env_id)


def identity_of(problem: Any) -> str:
    """Which environment this is: its `fingerprint` if it has one, its id, or the name of its class or factory.

    A factory's arguments count, and the plain values that it closes over; what else it does is not known.
    """
    fingerprint = getattr(problem, "fingerprint", None)
    if isinstance(fingerprint, str):
        return fingerprint
    if isinstance(problem, gymnasium.Env | VectorEnv):
        name = f"{type(problem.unwrapped).__module__}.{type(problem.unwrapped).__qualname__}"
        return problem.spec.id if problem.spec else name
    told: list[Any] = [problem.args, sorted(problem.keywords.items())] if isinstance(problem, partial) else []
    factory = problem.func if isinstance(problem, partial) else problem
    cells = [cell.cell_contents for cell in getattr(factory, "__closure__", None) or ()]
    told += [value for value in cells if isinstance(value, PLAIN)]
    name = f"{factory.__module__}.{getattr(factory, '__qualname__', type(factory).__qualname__)}"
    return f"{name} {told!r}" if told else name


def vector_of_ids(env: Any, num_envs: int, *, seed: int, success: Success, events: Events | None = None) -> IdVectorEnv:
    """A vector environment of observation ids, made from whatever was given."""
    if events is not None and isinstance(env, Problem | IdVectorEnv):
        raise ValueError(
            f"events= for {env!r}, which gives observation ids: give a gymnasium.Env, a factory, an id, or "
            "InternedVectorEnv(..., events=...)"
        )
    if isinstance(env, Problem):
        return _labelled_by_itself(env.vector_env(num_envs, seed=seed), success)
    if isinstance(env, gymnasium.Env):
        return InternedVectorEnv([env], seed=seed, success=success, events=events)
    if isinstance(env, IdVectorEnv) and isinstance(env, VectorEnv):
        if not isinstance(env.single_observation_space, spaces.Discrete):
            raise TypeError(f"{env!r} does not give observation ids: make it with observation='id'")
        return _labelled_by_itself(env, success)
    if isinstance(env, VectorEnv):
        return InternedVectorEnv(env, seed=seed, success=success, events=events)
    if callable(env):
        return InternedVectorEnv([env] * num_envs, seed=seed, success=success, events=events)
    raise TypeError(f"cannot explore {env!r}: give a Task, its name, a gymnasium.Env, its id, or a factory of one")


def widened(env: Any, world: IdVectorEnv, num_envs: int, *, seed: int, success: Success) -> IdVectorEnv:
    """The same environment with so many episodes side by side, if it can be made again; `world` itself if not."""
    if isinstance(env, Problem):
        return env.vector_env(num_envs, seed=seed)
    if isinstance(world, InternedVectorEnv) and callable(env) and not isinstance(env, gymnasium.Env | VectorEnv):
        return InternedVectorEnv([env] * num_envs, world.identity, seed=seed, success=success)
    return world


def _labelled_by_itself(env: IdVectorEnv, success: Success) -> IdVectorEnv:
    if success != "auto":
        raise ValueError(
            f"success={success!r}: this environment labels its episodes itself; leave success out, or give it where "
            "the environment is made, InternedVectorEnv(..., success=...)"
        )
    return env


# --- one episode at a time --------------------------------------------------------------------------------------------


class _OneOfIds(gymnasium.Env[Any, Any]):
    """The first episode of a vector environment of observation ids, as a plain environment."""

    def __init__(self, env: IdVectorEnv) -> None:
        self._env = env
        self.observation_space = box_like(env.observations)
        self.action_space = spaces.Discrete(env.num_actions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        ids, _ = self._env.reset(seed=seed)
        return self._env.observations[ids[0]], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        _, reward, terminated, truncated, info = self._env.step([int(action)])
        seen = self._env.observations[info["final_obs"][0]]
        return seen, float(reward[0]), bool(terminated[0]), bool(truncated[0]), {"success": info["success"][0]}


def single_environment(env: EnvLike) -> gymnasium.Env[Any, Any]:
    """One environment, made from a task, an environment, a factory of one, or a name."""
    given = named_environment(env) if isinstance(env, str) else env
    if isinstance(given, Problem):
        return _OneOfIds(given.vector_env(1, seed=0))
    made = given if isinstance(given, gymnasium.Env | VectorEnv) or not callable(given) else given()
    if not isinstance(made, gymnasium.Env):
        raise TypeError(f"{made!r} is not a single environment: give a Task, a gymnasium.Env, its id, or a factory")
    return made
