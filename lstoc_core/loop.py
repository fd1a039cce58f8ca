"""LSTOC: explore, discover hidden subgoals, name them, and solve the task with them (Algorithms Main and LSTOC).

    d = lstoc.discover(lstoc.TASKS["office-2"], seed=0)    # or any gymnasium.Env that ends with info["success"]
    d.sequences, d.key_states, d.labeling.mapping
    lstoc.score(d, lstoc.TASKS["office-2"]).exact

An explorer collects trajectories. From time to time, a discovery method searches all of them and says what to explore
next. The method decides when to stop; it never sees the truth. Then, with `solve`, the explorer learns to complete the
task along the discovered sequences.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import gymnasium
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from tqdm.auto import tqdm

from lstoc_core.config import LSTOCConfig
from lstoc_core.discovery.method import DiscoveryMethod, Missing, Need
from lstoc_core.discovery.tree import SubgoalTree
from lstoc_core.exploration.explorer import Explorer
from lstoc_core.labeling import Labeling, LabelingError, certify, label
from lstoc_core.logic.fsm import FSM
from lstoc_core.policies.ppo import PPO
from lstoc_core.run.checkpoint import Checkpoint
from lstoc_core.run.explorers import EXPLORERS, MakeExplorer, num_envs
from lstoc_core.run.interrupt import Interrupt
from lstoc_core.run.journal import Counts, Journal, Phase, Record
from lstoc_core.run.methods import METHODS, MakeMethod, Setting
from lstoc_core.suggestions import unknown
from lstoc_core.trajectories.interned import InternedVectorEnv
from lstoc_core.trajectories.store import TrajectoryStore
from lstoc_core.trajectories.vector_env import IdVectorEnv

__all__ = ["Discovery", "KeyState", "LSTOCConfig", "Phase", "Problem", "Record", "discover"]


@runtime_checkable
class Problem(Protocol):
    """A task with its own environments and FSM."""

    @property
    def fingerprint(self) -> str:
        """Text that identifies the task."""
        ...

    def fsm(self) -> FSM: ...

    def vector_env(self, num_envs: int, *, seed: int) -> IdVectorEnv: ...


EnvLike = Problem | str | gymnasium.Env[Any, Any] | Callable[[], gymnasium.Env[Any, Any]] | VectorEnv[Any, Any, Any]
Callback = Callable[[Record], bool | None]
"""Called with the record of each update; returning False ends the run."""


@dataclass(frozen=True)
class KeyState:
    """A discovered key state: its index in Ŝ_K and what the agent saw there."""

    index: int
    observation: NDArray[Any]
    observation_id: int


@dataclass
class Discovery:
    """What a run learned, and how."""

    method: str
    seed: int
    sequences: tuple[tuple[int, ...], ...]
    """P_S: satisfying sequences of key-state indices."""
    key_states: tuple[KeyState, ...]
    """Ŝ_K, in order of discovery."""
    tree: SubgoalTree
    labeling: Labeling | None
    """Names of the key states; None without an FSM, before the method has finished, or if its sequences do not fit."""
    finished: bool
    """Whether the method finished within the budget. For "guided" with an FSM and exact labels: whether exactly one
    assignment of its symbols to states is consistent with every episode's outcome."""
    missing: Missing
    """What the method still needed; empty if it finished."""
    interrupted: bool
    """Whether Ctrl-C or a callback ended the run."""
    num_trajectories: int
    """Trajectories, positive and negative, when discovery finished; all of them if it did not."""
    num_positives: int
    """Successes among them."""
    env_steps: int
    """Environment steps until then."""
    success_rate: float
    """Of the last episodes of the solve phase; NaN without one."""
    history: list[Record]
    """One record per update."""
    trajectories: TrajectoryStore
    """All finished episodes, the solve phase included."""
    explorer: Explorer

    @property
    def exploration(self) -> str:
        """Which way of exploring was used, and why."""
        return self.explorer.account

    @property
    def learner(self) -> PPO | None:
        """The policy and its training state; None if the explorer has none."""
        return self.explorer.learner


def discover(
    env: EnvLike,
    *,
    method: Literal["guided", "forward"] | MakeMethod = "guided",
    fsm: FSM | None = None,
    seed: int = 0,
    max_steps: int = 1_000_000,
    solve: bool = False,
    progress: bool = True,
    config: LSTOCConfig | None = None,
    contrast: Literal["exact", "learned"] = "exact",
    explorer: Literal["policy", "planner", "auto"] | MakeExplorer = "policy",
    callbacks: Sequence[Callback] = (),
    checkpoint: str | os.PathLike[str] | None = None,
) -> Discovery:
    """Discover the hidden subgoals of an environment, their order and, given an FSM, their names.

    env: a Task or its name; a gymnasium.Env or a factory of one whose episodes end with `info["success"]`.
    method: "guided" (ours), "forward" (the paper's), or a function that makes one for a `Setting`.
    fsm: temporal dependencies of the subgoals' names; a Task brings its own.
    max_steps: budget of environment steps for exploration and solve phase together.
    solve: go on after the discovery until the policy completes the task.
    contrast: how the guided method compares states, by exact coverage or by a trained f_ω.
    explorer: "policy" (the paper's GRU policy, trained by PPO), "planner" (asks by plans on a map that it learns),
        "auto" (the planner while its map predicts well, else the policy), or a function that makes one for a `Setting`.
    callbacks: called with the record of each update, as kept in `history`; one that returns False ends the run.
    checkpoint: a directory. The run is saved there every minute; the same call resumes it.

    Ctrl-C ends the run after the current update: the result so far is returned, and the checkpoint is saved.
    """
    config = config or LSTOCConfig()
    _check(config, fsm, seed, max_steps, callbacks)
    problem = _problem(env)
    fsm = fsm or (problem.fsm() if isinstance(problem, Problem) else None)
    world = _vector_env(problem, num_envs(explorer, config), seed)
    setting = Setting(world, fsm, config, seed, contrast, lambda width: _widened(problem, world, width, seed))
    finder = _chosen("method", method, METHODS)(setting)
    scout = _chosen("explorer", explorer, EXPLORERS)(setting)
    name = _name(method, finder)
    journal, saved = Journal(), None
    if checkpoint is not None:
        told = {"method": name, "explorer": _name(explorer, scout), "contrast": contrast, "seed": int(seed)}
        saved = Checkpoint(Path(checkpoint), _key(problem, world, fsm, config) | told)
        journal = saved.load(scout, finder) or journal

    wanted = (Phase.EXPLORE, Phase.SOLVE) if solve else (Phase.EXPLORE,)
    with Interrupt() as interrupt, _bar(max_steps, scout, shown=progress) as bar:
        while journal.phase in wanted and scout.env_steps < max_steps and not interrupt.requested:
            if journal.phase is Phase.EXPLORE:
                # Collect trajectories, guided by what is known (Algorithm LSTOC, lines 24 to 31).
                stats = scout.explore(finder.request, journal.silence(scout.trajectories))
                if journal.due(scout.trajectories, config.first_positives):
                    # Grow what is known from all of them (lines 7 to 23 and 32 to 41).
                    journal.looked(scout.trajectories, config.growth)
                    finder.advance(scout.trajectories)
                    if finder.finished:
                        journal.found(scout)
                journal.take_note(finder, scout.trajectories)
            else:
                # The sequences are known: learn to complete the task.
                stats = scout.pursue(finder.paths)
                if scout.solved:
                    journal.solved()
            record = journal.write(scout, finder, stats)
            _show(bar, record, finder)
            if False in [callback(record) for callback in callbacks]:
                interrupt.request()
            if saved is not None and saved.due:
                saved.save(scout, finder, journal)
    if saved is not None:
        saved.save(scout, finder, journal)
    return _result(name, seed, fsm, config, scout, finder, journal, interrupt.requested)


# --- what is given ----------------------------------------------------------------------------------------------------


def _check(config: LSTOCConfig, fsm: FSM | None, seed: int, max_steps: int, callbacks: Sequence[Callback]) -> None:
    """Raise an error that names the remedy where an argument makes no sense."""
    if not isinstance(config, LSTOCConfig):
        raise TypeError(f"config is {config!r}: give an LSTOCConfig")
    if fsm is not None and not isinstance(fsm, FSM):
        raise TypeError(f"fsm is {fsm!r}: give an FSM, as from parse('a;b').fsm()")
    if seed < 0:
        raise ValueError(f"seed is {seed}: give a number that is not negative")
    if max_steps < 1:
        raise ValueError(f"max_steps is {max_steps}: give at least 1")
    if callable(callbacks):
        raise TypeError("callbacks is a function: give a list of them, callbacks=[...]")


def _problem(env: EnvLike) -> Any:
    """The task of that name; anything else as it is."""
    if not isinstance(env, str):
        return env
    from lstoc_core.worlds.tasks import TASKS  # imported here: only a task's name needs the worlds

    return TASKS[env]


def _vector_env(env: Any, num_envs: int, seed: int) -> IdVectorEnv:
    """A vector environment of observation ids, made from whatever was given."""
    if isinstance(env, Problem):
        return env.vector_env(num_envs, seed=seed)
    if isinstance(env, gymnasium.Env):
        return InternedVectorEnv([env], seed=seed)
    if isinstance(env, VectorEnv):
        return _of_ids(env)
    if callable(env):
        return InternedVectorEnv([env] * num_envs, seed=seed)
    raise TypeError(f"cannot explore {env!r}: give a Task, its name, a gymnasium.Env, or a factory of one")


def _widened(env: Any, world: IdVectorEnv, num_envs: int, seed: int) -> IdVectorEnv:
    """The same environment with so many episodes side by side, if it can be made again; `world` itself if not."""
    if isinstance(env, Problem):
        return env.vector_env(num_envs, seed=seed)
    if isinstance(world, InternedVectorEnv) and callable(env):
        return InternedVectorEnv([env] * num_envs, world.identity, seed=seed)
    return world


def _of_ids(env: VectorEnv[Any, Any, Any]) -> IdVectorEnv:
    """The environment, if it gives observation ids."""
    if not isinstance(env, IdVectorEnv) or not isinstance(env.single_observation_space, spaces.Discrete):
        raise TypeError(
            f"{env!r} does not give observation ids: give a factory of its single environment, "
            "or InternedVectorEnv([factory] * n)"
        )
    return env


def _chosen(what: str, given: Any, known: Mapping[str, Any]) -> Any:
    """The factory of that name, or the factory that was given."""
    if callable(given):
        return given
    if given not in known:
        raise ValueError(unknown(what, given, known))
    return known[given]


def _name(given: Any, made: object) -> str:
    """What a method or explorer is called: its name as given, the factory's, or the class of what it made."""
    if isinstance(given, str):
        return given
    name = getattr(given, "__name__", "<lambda>")
    return type(made).__name__ if name == "<lambda>" else name


def _key(problem: Any, world: IdVectorEnv, fsm: FSM | None, config: LSTOCConfig) -> dict[str, Any]:
    """What the run is about, in JSON types."""
    shape = f"{world.num_envs} × observations of shape {world.observations.shape[1:]}, {world.num_actions} actions"
    env = problem.fingerprint if isinstance(problem, Problem) else shape
    restored: dict[str, Any] = json.loads(json.dumps({"env": env, "fsm": repr(fsm), **asdict(config)}))
    return restored


# --- what is shown and given back -------------------------------------------------------------------------------------


def _bar(max_steps: int, explorer: Explorer, *, shown: bool) -> Any:
    return tqdm(total=max_steps, initial=explorer.env_steps, unit="step", disable=not shown)


def _show(bar: Any, record: Record, method: DiscoveryMethod) -> None:
    """Phase, successes, trajectories and sequences so far, on the progress bar."""
    number = {key: index for index, key in enumerate(method.key_states)}
    sequences = " ".join("-".join(str(number[key]) for key in path) for path in method.paths)
    bar.update(record["env_steps"] - bar.n)
    bar.set_description(record["phase"])
    bar.set_postfix_str(f"{record['positives']}/{record['trajectories']} {sequences}")


def _result(
    name: str,
    seed: int,
    fsm: FSM | None,
    config: LSTOCConfig,
    explorer: Explorer,
    method: DiscoveryMethod,
    journal: Journal,
    interrupted: bool,
) -> Discovery:
    number = {key: index for index, key in enumerate(method.key_states)}
    sequences = tuple(tuple(number[key] for key in path) for path in method.paths)
    counts = journal.stopped or Counts.of(explorer)
    observations = explorer.env.observations
    return Discovery(
        method=name,
        seed=seed,
        sequences=sequences,
        key_states=tuple(KeyState(index, observations[key].copy(), key) for key, index in number.items()),
        tree=method.tree,
        labeling=_labeling(sequences, fsm, method.names, number) if fsm is not None and method.finished else None,
        finished=method.finished,
        missing=Missing() if method.finished else _shortfall(explorer, method, config.first_positives),
        interrupted=interrupted,
        num_trajectories=counts.trajectories,
        num_positives=counts.positives,
        env_steps=counts.env_steps,
        success_rate=explorer.success_rate,
        history=journal.history,
        trajectories=explorer.trajectories,
        explorer=explorer,
    )


def _labeling(
    sequences: Sequence[tuple[int, ...]], fsm: FSM, names: Mapping[str, int] | None, number: Mapping[int, int]
) -> Labeling | None:
    """Names of the key states: the method's assignment, certified, or else the integer program's; None if none fit."""
    try:
        if names is not None:
            return certify(sequences, fsm, {number[key]: symbol for symbol, key in names.items()})
    except ValueError:  # some key states carry no name, or there are too many mappings
        pass
    try:
        return label(sequences, fsm)
    except LabelingError:
        return None


def _shortfall(explorer: Explorer, method: DiscoveryMethod, first_positives: int) -> Missing:
    """What was seen, and why it does not suffice."""
    store, steps = explorer.trajectories, explorer.env_steps
    if not len(store):
        return Missing.one(f"no episode ended within {steps} steps: raise max_steps or shorten the episodes")
    positives = int(store.labels.sum())
    needs = method.missing.needs
    if not positives:
        advice = "nothing to learn from; raise max_steps or the bonus, or make the task easier to stumble on"
        needs = (Need(advice),)
    elif positives < first_positives:
        needs = (Need(f"the first discovery waits for {first_positives} successes; raise max_steps"),)
    if positives == len(store):
        needs = (Need("without failures there is nothing to contrast"), *needs)
    return Missing(needs, seen=f"{positives} successes in {len(store)} trajectories of {steps} steps")
