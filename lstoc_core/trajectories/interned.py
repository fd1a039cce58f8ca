"""Any gymnasium environments under the library's id interface: observations get their ids as they appear.

class MyEnv(gymnasium.Env): ...              # any spaces but continuous actions; info["success"] at the end
InternedVectorEnv([MyEnv] * 16)              # factories, or environments that exist already
InternedVectorEnv(SyncVectorEnv([MyEnv]))    # or a vector environment
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from lstoc_core.trajectories.cells import CellIdentity
from lstoc_core.trajectories.clusters import SAMPLE, ClusterIdentity
from lstoc_core.trajectories.door import InputError
from lstoc_core.trajectories.events import BOXES, LEARNED, EventIdentity, Events, Sight, Vocabulary
from lstoc_core.trajectories.flat import FlatObservations, ListedActions
from lstoc_core.trajectories.identity import ExactIdentity, Identity, Restorable
from lstoc_core.trajectories.same_step import SameStepVectorEnv
from lstoc_core.trajectories.success import EpisodeEnd, Success, check_success, succeeded
from lstoc_core.trajectories.vector_env import IdVectorEnv, Stateful

FEWEST_STEPS = 100
"""Fewest steps of each environment in a sample of observations."""
AnyEnv = gymnasium.Env[Any, Any]
EnvFactory = Callable[[], AnyEnv]
SIGHT = 256
"""Observations that `sight` holds per environment: four segments of PPO."""


class InternedVectorEnv(VectorEnv[Any, Any, Any]):
    """Any gymnasium environments as an `IdVectorEnv`.

    envs: environments or factories of them, all with the same spaces; or a vector environment of gymnasium.
    identity: when two observations are the same state; by default when their bytes are equal.
    seed: environment i is seeded with seed + i at the first reset.
    asynchronous: each environment in a process of its own, for slow ones; envs must then be factories.
    success: how the label of an episode is read at its end (see `Success`).
    events: key states are features of observations (see `events`), or boxes ("boxes", see `cells`). Ids are then sets
    of features, or cells; what a policy sees is a row of `sight`. "learned": ids are clusters of observations (see
    `clusters`), learned from random actions before the first reset, `sampled` steps in all.

    Observations become arrays of one shape (see `FlatObservations`), actions numbers (see `ListedActions`).
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self,
        envs: Sequence[AnyEnv | EnvFactory] | VectorEnv[Any, Any, Any],
        identity: Identity | None = None,
        *,
        seed: int | None = 0,
        asynchronous: bool = False,
        success: Success = "auto",
        events: Events | None = None,
    ) -> None:
        check_success(success)
        if events is not None and identity is not None and not isinstance(identity, Vocabulary):
            raise ValueError("events= and identity= both say what a state is: give one of them")
        self._vector: VectorEnv[Any, Any, Any]
        if isinstance(envs, VectorEnv):
            self._vector = given = SameStepVectorEnv(envs, success)
            self.flat, self.listed = given.flat, given.listed
        elif not len(envs):
            raise ValueError("no environments: give at least one, or one factory")
        else:
            self._vector = _in_processes(envs, success) if asynchronous else _in_turn(envs, success)
            self.flat, self.listed = self._vector.get_attr("spaces_given")[0]
        self.num_envs, self.num_actions = self._vector.num_envs, len(self.listed)
        self.single_observation_space = spaces.Discrete(np.iinfo(np.int32).max)  # how many there are is not known
        self.single_action_space = spaces.Discrete(self.num_actions)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.identity: Identity = identity or _identity(events, self.flat)
        self.vocabulary: Vocabulary | None = self.identity if isinstance(self.identity, Vocabulary) else None
        """The events, where key states are features."""
        box = self.flat.box
        self.sight = Sight(SIGHT * self.num_envs, box.shape, box.dtype) if self.vocabulary is not None else None
        """What a policy sees, where ids are sets of features; None: observations themselves."""
        self.successes = self.late_successes = 0
        """Episodes that succeeded, and those of them that were truncated instead of terminated."""
        self.sampled = 0
        """Steps of random actions from which clusters were learned."""
        self._seed = seed
        self._begun = False
        self._seen = False

    @property
    def observations(self) -> NDArray[Any]:
        """The distinct observations so far, [N, ...]; grows at the end. No rows before the first reset."""
        if self._seen:
            return self.identity.observations
        return np.empty((0, *self.flat.box.shape), self.flat.box.dtype)

    def representation(self, count: int) -> NDArray[np.float32] | None:
        """o_θ of the first `count` observations [count, d], if the identity is a learned one; else None."""
        return self.identity.representation(count)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.int64], dict[str, Any]]:
        seed = self._seed if seed is None and not self._begun else seed
        if isinstance(self.identity, ClusterIdentity) and not self.identity.ready:
            self.identity.learn(self._sample(seed))
        starts, _ = self._vector.reset(seed=None if seed is None else int(seed), options=options)
        self._begun = True
        return self._intern(starts), self._shown(starts, starts)

    def _sample(self, seed: int | None) -> NDArray[Any]:
        """What random actions lead to, about SAMPLE observations of FEWEST_STEPS steps at least."""
        rng = np.random.default_rng(seed)
        starts, _ = self._vector.reset(seed=None if seed is None else int(seed))
        steps = max(FEWEST_STEPS, -(-SAMPLE // self.num_envs))
        kept = [starts[:1].copy()]
        for _ in range(steps):
            seen = self._vector.step(rng.integers(self.num_actions, size=self.num_envs))[0]
            kept.append(seen[rng.permutation(self.num_envs)[: -(-SAMPLE // steps)]].copy())
        self.sampled = steps * self.num_envs
        return np.concatenate(kept)

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        if not self._begun:
            raise ResetNeeded("the environments have not begun: call reset() before step()")
        chosen = np.asarray(actions)
        if chosen.shape != (self.num_envs,) or chosen.dtype.kind not in "iu":
            raise InvalidAction(f"actions of shape {chosen.shape}, {chosen.dtype}: give {self.num_envs} integers")
        if chosen.min() < 0 or chosen.max() >= self.num_actions:
            raise InvalidAction(f"actions from {chosen.min()} to {chosen.max()}: choose 0 to {self.num_actions - 1}")
        observations, reward, terminated, truncated, info = self._vector.step(chosen)
        if "final_obs" not in info:  # no episode ended
            final = observations
            ids = final_ids = self._intern(observations)
            success = np.zeros(self.num_envs, np.bool_)
        else:
            done = terminated | truncated
            final = observations.copy()
            final[done] = np.stack(info["final_obs"][done])
            final_ids = self._intern(final)
            ids = final_ids.copy()
            ids[done] = self._intern(observations[done])
            success = info["final_info"]["success"]
            self.successes += int((success & done).sum())
            self.late_successes += int((success & done & ~terminated).sum())
        info = {"success": success, "final_obs": final_ids, **self._shown(observations, final)}
        return ids, reward.astype(np.float32), terminated, truncated, info

    def state_dict(self) -> dict[str, Any]:
        """The table of observations, and the episodes under way if the environments are `Stateful`.

        Else these are not saved: they begin anew.
        """
        state = {"observations": self.observations.copy(), "successes": [self.successes, self.late_successes]}
        if isinstance(self.identity, Restorable):
            state["identity"] = self.identity.state_dict()
        if (members := self._members()) and self._begun:
            state |= {"begun": True, "members": [member.state_dict() for member in members]}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Gives every saved observation its id again; unless the state says `begun`, `reset` must follow."""
        saved = np.asarray(state["observations"])
        if isinstance(self.identity, Restorable) and not self._seen:
            self.identity.load_state_dict(state["identity"], saved)
        elif len(saved) and (self.identity.ids(saved) != np.arange(len(saved))).any():
            raise ValueError("other observations were seen before the saved ones: load into a new InternedVectorEnv")
        self.successes, self.late_successes = state["successes"]
        self._seen |= bool(len(saved))
        self._begun = bool(state.get("begun"))
        for member, each in zip(self._members(), state.get("members", ()), strict=False):
            member.load_state_dict(each)

    def _members(self) -> list[Stateful]:
        """The environments, if all of them are in this process and can be saved, and observations are all they show."""
        if self.sight is not None or not isinstance(self._vector, SyncVectorEnv):
            return []
        envs = [each.env for each in self._vector.envs if isinstance(each, _Labelled)]
        members: list[Stateful] = [env for env in envs if isinstance(env, Stateful)]
        return members if len(members) == self.num_envs else []

    def close_extras(self, **kwargs: Any) -> None:
        self._vector.close(**kwargs)

    def _shown(self, observations: NDArray[Any], final: NDArray[Any]) -> dict[str, Any]:
        """Rows of `sight`: `seen` now, and `final_seen` before any restart; nothing without it."""
        if self.sight is None:
            return {}
        final_seen = self.sight.rows(final)
        return {
            "seen": final_seen if observations is final else self.sight.rows(observations),
            "final_seen": final_seen,
        }

    def _intern(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        self._seen = True
        return self.identity.ids(observations)


def _identity(events: Events | None, flat: FlatObservations) -> Identity:
    """What a state is, by what was given as `events`."""
    if isinstance(events, str):
        if events not in (BOXES, LEARNED):
            raise ValueError(
                f"events={events!r}: give a function of an observation, tiles(), {BOXES!r}, or {LEARNED!r}"
            )
        return CellIdentity(flat) if events == BOXES else ClusterIdentity()
    return ExactIdentity() if events is None else EventIdentity(events, flat)


class _Labelled(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Environment `index` with flat observations, numbered actions, and no info but the label at an episode's end."""

    def __init__(self, env: AnyEnv, index: int, success: Success) -> None:
        super().__init__(env)
        self.spaces_given = FlatObservations(env.observation_space), ListedActions.of(env.action_space)
        self._flat, self._listed = self.spaces_given
        self.observation_space, self.action_space = self._flat.box, spaces.Discrete(len(self._listed))
        self._index, self._success = index, success

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, _ = self.env.reset(seed=seed, options=options)
        return self._checked(observation), {}

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        given, reward, terminated, truncated, info = self.env.step(self._listed.rows[action])
        observation = self._checked(given)
        if not (terminated or truncated):
            return observation, reward, False, False, {}
        end = EpisodeEnd(given, float(reward), bool(terminated), bool(truncated), info)
        label = succeeded(self._success, end, f"environment {self._index}")
        # a copy, since the environment may write its next observation into the same memory
        return observation.copy(), reward, terminated, truncated, {"success": label}

    def _checked(self, observation: Any) -> NDArray[Any]:
        try:
            array = self._flat.row(observation)
        except InputError as error:
            raise InputError(f"environment {self._index}: {error}") from None
        if array.shape != self._flat.box.shape:
            raise InputError(
                f"environment {self._index} gave an observation of shape {array.shape}: its observation_space says "
                f"{self._flat.box.shape}; make them agree"
            )
        return array


class _Processes(AsyncVectorEnv):
    """One process per environment. A copy starts processes of its own, whose episodes begin with `reset`."""

    def __init__(self, env_fns: Sequence[EnvFactory]) -> None:
        super().__init__(env_fns, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Processes:
        return _Processes(self.env_fns)


def _in_processes(envs: Sequence[AnyEnv | EnvFactory], success: Success) -> _Processes:
    """Asynchronous environments from factories."""
    factories = [env for env in envs if not isinstance(env, gymnasium.Env)]
    if len(factories) < len(envs):
        raise TypeError("asynchronous environments are made in processes of their own: give factories")
    return _Processes([partial(_made, factory, i, success, os.getpid()) for i, factory in enumerate(factories)])


def _made(factory: EnvFactory, index: int, success: Success, parent: int) -> AnyEnv:
    if os.getpid() != parent:  # a terminal sends Ctrl-C to all processes; only the parent is to answer it
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return _Labelled(factory(), index, success)


def _in_turn(envs: Sequence[AnyEnv | EnvFactory], success: Success) -> SyncVectorEnv:
    """Environments in this process, stepped one after the other."""
    made = [env if isinstance(env, gymnasium.Env) else env() for env in envs]
    for env in made:
        if not isinstance(env, gymnasium.Env):
            raise TypeError(f"a factory gave {env!r}: it must return a gymnasium.Env")
    if len({id(env) for env in made}) < len(made):
        raise ValueError("an environment appears twice: every episode needs one of its own, so give factories")
    first = made[0]
    for i, env in enumerate(made):
        if (env.observation_space, env.action_space) != (first.observation_space, first.action_space):
            raise ValueError(f"environment {i} has other spaces than environment 0")
    factories = [partial(_Labelled, env, i, success) for i, env in enumerate(made)]
    return SyncVectorEnv(factories, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)


_CONFORMS: type[IdVectorEnv] = InternedVectorEnv  # checked by mypy
