"""The engine of all domains: a world is a handful of integer tables, and episodes are look-ups in them.

`World` numbers the free cells and the distinct observations. `GridEnv` (one episode at a time) and `GridVectorEnv`
(many at once) read the same tables. Position and FSM state are folded into one integer, the *situation*, so that a step
of a thousand episodes is one `take`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from lstoc_core.worlds import maps
from lstoc_core.worlds.domain import Picture
from lstoc_core.worlds.tasks import Task

NUM_ACTIONS = len(maps.ACTIONS)


@dataclass(frozen=True, eq=False)
class World:
    """A task compiled to tables: P positions (the free cells, row by row), N distinct observations, 4 actions."""

    task: Task
    next_position: NDArray[np.int32]
    """[P, 4]; a blocked move stays put."""
    observation_id: NDArray[np.int32]
    """[P]; row of `observations` that is seen at a position."""
    observations: NDArray[np.uint8]
    """[N, *observation shape]; no two rows are equal."""
    picture: Callable[[], Picture]
    """Draws the map and the agent."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, in cells."""
        return self.task.size

    @property
    def symbols(self) -> tuple[str, ...]:
        """All letters on the map, sorted."""
        return self.task.letters

    @property
    def starts(self) -> NDArray[np.int32]:
        """Positions an episode may start from."""
        return self.task.start_positions

    @property
    def num_positions(self) -> int:
        """P, the number of free cells."""
        return len(self.next_position)

    @property
    def num_observations(self) -> int:
        """N, the number of distinct observations."""
        return len(self.observations)

    @cached_property
    def coordinates(self) -> NDArray[np.int32]:
        """(x, y) of each position, [P, 2]."""
        return np.array(self.task.cells, np.int32)

    @cached_property
    def symbol(self) -> NDArray[np.int16]:
        """[P]; index into `symbols`, -1 where there is no letter."""
        letter = {cell: self.symbols.index(name) for name, cell in self.task.positions.items()}
        return np.array([letter.get(cell, -1) for cell in self.task.cells], np.int16)

    def position_of(self, cell: maps.Cell) -> int:
        """Number of a free cell."""
        return self.task.cells.index(tuple(cell))

    def observation_of_symbol(self, symbol: str) -> int:
        """What is seen where a letter is: the key state of the subgoal. For scoring only."""
        return int(self.observation_id[self.position_of(self.task.positions[symbol])])

    def values_on_map(self, values: ArrayLike) -> NDArray[np.float64]:
        """A value per observation id [N] as a map [height, width]; NaN on walls."""
        grid = np.full(self.size[::-1], np.nan)
        x, y = self.coordinates.T
        grid[y, x] = np.asarray(values, float)[self.observation_id]
        return grid

    @cached_property
    def _canvas(self) -> Picture:
        return self.picture()

    @property
    def agent(self) -> NDArray[np.uint8]:
        """Picture of the agent, [cell, cell, 4]; the last channel is its opacity."""
        return self._canvas.agent

    def render(self, position: int | None = None) -> NDArray[np.uint8]:
        """Picture of the whole map, [h, w, 3], with the agent at a position (None: without it)."""
        background, agent = self._canvas
        image = background.copy()
        if position is not None:
            side = agent.shape[0]
            x, y = self.coordinates[position] * side
            cell = image[y : y + side, x : x + side]
            alpha = agent[..., 3:] / 255.0
            cell[:] = np.rint(alpha * agent[..., :3] + (1 - alpha) * cell).astype(np.uint8)
        return image

    @cached_property
    def situations(self) -> "Situations":
        """The tables that the environments step with."""
        return Situations.of(self)


def place(world: World, observation_id: int) -> tuple[int, int]:
    """(x, y) of the first position at which an observation is seen."""
    x, y = world.coordinates[np.flatnonzero(world.observation_id == observation_id)[0]]
    return int(x), int(y)


@dataclass(frozen=True, eq=False)
class Situations:
    """Position and FSM state as one integer, position · S + state, and tables of what a step does to it."""

    next: NDArray[np.int64]
    """[P · S · 4]; the situation after an action, at index situation · 4 + action."""
    success: NDArray[np.bool_]
    """[P · S]; whether the formula is satisfied."""
    observation_id: NDArray[np.int64]
    """[P · S]; what is seen."""
    starts: NDArray[np.int64]
    """Situations an episode may start in."""
    num_states: int

    @classmethod
    def of(cls, world: World) -> "Situations":
        automaton = world.task.automaton
        num_states = len(automaton.next)
        state = np.arange(num_states)
        # The letter of the cell that is entered moves the FSM on: [P, S, 4]
        position = world.next_position[:, None, :]
        following = automaton.next[state[None, :, None], world.task.columns[position]]
        return cls(
            next=(position * num_states + following).astype(np.int64).ravel(),
            success=np.tile(automaton.accepting, world.num_positions),
            observation_id=np.repeat(world.observation_id, num_states).astype(np.int64),
            starts=world.starts.astype(np.int64) * num_states + automaton.initial,
            num_states=num_states,
        )


def intern_rows(observations: NDArray[np.uint8]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Id of each row by its exact bytes, in order of first appearance, and the distinct rows."""
    number: dict[bytes, int] = {}
    ids = np.array([number.setdefault(row.tobytes(), len(number)) for row in observations], np.int32)
    _, first = np.unique(ids, return_index=True)
    return ids, np.ascontiguousarray(observations[first])


def _observation_space(world: World, observation: str) -> spaces.Space[Any]:
    if observation == "id":
        return spaces.Discrete(world.num_observations)
    if observation == "array":
        high = 1 if world.observations.max(initial=0) <= 1 else 255
        return spaces.Box(0, high, world.observations.shape[1:], np.uint8)
    raise ValueError(f"observation={observation!r}: choose 'id' (integers) or 'array' (the observations themselves)")


class GridEnv(gymnasium.Env[Any, np.int64]):
    """One episode at a time in a `World`.

    Actions: 0 up, 1 right, 2 down, 3 left; a blocked move stays put.
    Observation: "array": what the domain shows (uint8); "id": its number among the distinct ones.
    Reward: 1 at the step that first satisfies the formula, else 0.
    Termination: the formula is satisfied. Truncation: the horizon. `info["success"]` is the label.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, world: World, *, observation: str = "array", render_mode: str | None = None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode={render_mode!r}: choose None or 'rgb_array'")
        self.world = world
        self.task = world.task
        self.render_mode = render_mode
        self.observation = observation
        self.observation_space = _observation_space(world, observation)
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self._tables = world.situations
        self._situation = -1
        self._time = 0
        self._over = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        starts = self._tables.starts
        self._situation = int(starts[0] if len(starts) == 1 else starts[self.np_random.integers(len(starts))])
        self._time = 0
        self._over = False
        return self._observe(), {"success": False}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise ResetNeeded("the episode has not begun or is over: call reset() before step()")
        if not self.action_space.contains(action):
            raise InvalidAction(f"action {action!r}: choose 0 up, 1 right, 2 down or 3 left")
        self._situation = int(self._tables.next[self._situation * NUM_ACTIONS + int(action)])
        self._time += 1
        success = bool(self._tables.success[self._situation])
        truncated = not success and self._time >= self.task.horizon
        self._over = success or truncated
        return self._observe(), float(success), success, truncated, {"success": success}

    @property
    def position(self) -> int:
        """Where the agent stands; -1 before the first reset."""
        return -1 if self._situation < 0 else self._situation // self._tables.num_states

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on exactly here."""
        rng = self.np_random.bit_generator.state
        return {"situation": self._situation, "time": self._time, "over": self._over, "rng": rng}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state_dict` of the same task."""
        self._situation, self._time, self._over = state["situation"], state["time"], state["over"]
        self.np_random.bit_generator.state = state["rng"]

    def render(self) -> NDArray[np.uint8] | None:
        if self.render_mode is None:
            return None
        return self.world.render(None if self.position < 0 else self.position)

    def _observe(self) -> Any:
        number = self._tables.observation_id[self._situation]
        return np.int64(number) if self.observation == "id" else self.world.observations[number].copy()


class GridVectorEnv(VectorEnv[Any, Any, Any]):
    """Many episodes at once in a `World`, stepped by table look-ups; a finished episode starts again in the same step.

    Environment i with seed s plays exactly as `GridEnv` does after `reset(seed=s + i)` and unseeded resets afterwards.

    observation="id": `reset` and `step` give int64 ids [E]; `info["final_obs"]` holds the ids before any reset, valid
    for every environment.
    observation="array": they give the observations [E, ...]; where episodes ended, `info["final_obs"]` and
    `info["_final_obs"]` are gymnasium's object array and mask.
    `info["success"]` [E] is True where the formula was satisfied in this step.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self,
        world: World,
        num_envs: int = 128,
        *,
        seed: int | None = 0,
        observation: str = "id",
        render_mode: str | None = None,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs={num_envs}: at least one environment is needed")
        self.world = world
        self.task = world.task
        self.num_envs = num_envs
        self.num_actions = NUM_ACTIONS
        self.observation = observation
        self.render_mode = render_mode
        self.single_observation_space = _observation_space(world, observation)
        self.single_action_space = spaces.Discrete(NUM_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._tables = world.situations
        self._seed = seed
        self._generators: list[np.random.Generator] = []
        self._situation = np.full(num_envs, -1, np.int64)
        self._time = np.zeros(num_envs, np.int64)
        self._begun = False

    @property
    def observations(self) -> NDArray[np.uint8]:
        """The distinct observations, [N, ...]; ids are rows of it."""
        return self.world.observations

    def representation(self, count: int) -> None:
        """None: bytes tell the observations apart, nothing is learned about them."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        if seed is not None or not self._begun:
            self._seed_streams(self._seed if seed is None else seed)
        self._begun = True
        self._situation[:] = self._start(np.arange(self.num_envs))
        self._time[:] = 0
        ids = self._tables.observation_id[self._situation]
        return self._show(ids), {}

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        if not self._begun:
            raise ResetNeeded("the environments have not begun: call reset() before step()")
        tables, situation = self._tables, self._situation
        index = situation * NUM_ACTIONS + self._checked(actions)
        tables.next.take(index, out=situation, mode="clip")  # indices are valid; "clip" is the fastest mode
        self._time += 1
        terminated = tables.success.take(situation)
        final_ids = tables.observation_id.take(situation)
        truncated = self._time >= self.task.horizon
        truncated &= ~terminated
        done = terminated | truncated
        ended = done.nonzero()[0]
        ids = final_ids
        if ended.size:
            situation[ended] = self._start(ended)
            self._time[ended] = 0
            ids = final_ids.copy()
            ids[ended] = tables.observation_id[situation[ended]]
        info: dict[str, Any] = {"success": terminated.copy()}
        if self.observation == "id":
            info["final_obs"] = final_ids
        elif ended.size:
            final = np.full(self.num_envs, None, object)
            for i in ended:
                final[i] = self.observations[final_ids[i]].copy()
            info |= {"final_obs": final, "_final_obs": done}
        return self._show(ids), terminated.astype(np.float32), terminated, truncated, info

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """One picture per environment."""
        if self.render_mode is None:
            return None
        return tuple(self.world.render(int(s) // self._tables.num_states if s >= 0 else None) for s in self._situation)

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to resume exactly here: arrays, and generator states that json can hold."""
        return {
            "situation": self._situation.copy(),
            "time": self._time.copy(),
            "begun": self._begun,
            "generators": [generator.bit_generator.state for generator in self._generators],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes from a `state_dict` of the same task and number of environments."""
        situation = np.asarray(state["situation"], np.int64)
        if situation.shape != (self.num_envs,) or situation.max(initial=0) >= len(self._tables.success):
            raise ValueError(
                f"a state of {len(situation)} environments cannot be loaded into {self.num_envs} of task"
                f" {self.task.name!r}: use the task and num_envs it was saved with"
            )
        self._situation[:] = situation
        self._time[:] = state["time"]
        self._begun = bool(state["begun"])
        self._generators = [np.random.default_rng() for _ in state["generators"]]
        for generator, saved in zip(self._generators, state["generators"], strict=True):
            generator.bit_generator.state = saved

    def _checked(self, actions: ArrayLike) -> NDArray[np.integer[Any]]:
        array = np.asarray(actions)
        if array.shape != (self.num_envs,) or array.dtype.kind not in "iu":
            raise InvalidAction(f"actions of shape {array.shape} and type {array.dtype}: give {self.num_envs} integers")
        if (array >> 2).any():  # one pass finds negatives and anything above 3
            bad = int(np.flatnonzero(array >> 2)[0])
            raise InvalidAction(f"action {array[bad]} of environment {bad}: choose 0 up, 1 right, 2 down or 3 left")
        return array

    def _seed_streams(self, seed: int | None) -> None:
        """One generator per environment, seeded as gymnasium does; none if there is only one start."""
        if len(self._tables.starts) > 1:
            seeds = [None if seed is None else seed + i for i in range(self.num_envs)]
            self._generators = [gymnasium.utils.seeding.np_random(s)[0] for s in seeds]

    def _start(self, envs: NDArray[np.intp]) -> NDArray[np.int64] | np.int64:
        """Where these environments start: the only start, or one drawn for each."""
        starts = self._tables.starts
        if len(starts) == 1:
            return np.int64(starts[0])
        drawn: NDArray[np.int64] = starts[[self._generators[i].integers(len(starts)) for i in envs]]
        return drawn

    def _show(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        return ids if self.observation == "id" else self.observations.take(ids, axis=0)
