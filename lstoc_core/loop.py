"""LSTOC: explore, discover hidden subgoals, name them, and solve the task with them (Algorithms Main and LSTOC).

    d = lstoc.discover(lstoc.TASKS["office-2"], seed=0)    # or any gymnasium.Env that ends with info["success"]
    d.sequences, d.key_states, d.labeling.mapping
    lstoc.score(d, lstoc.TASKS["office-2"]).exact

The loop collects trajectories with a recurrent PPO policy, hands all of them to the discovery method now and then, and
pays the policy to follow what is known and to look around from there. It stops by the method's own judgement, never
by the truth: given an FSM, when the trajectories prove the answer. Then the same policy goes on to learn the task, paid
to follow the discovered sequences (`Pursuit`).
"""

import json
import math
import os
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from lstoc_core.discovery.guided import Guided, GuidedConfig
from lstoc_core.discovery.published.forward import Forward, ForwardConfig
from lstoc_core.discovery.published.importance import Training, scores
from lstoc_core.discovery.tree import SubgoalTree
from lstoc_core.labeling import Labeling, LabelingError, label
from lstoc_core.logic import FSM
from lstoc_core.policies.ppo import PPO, PPOConfig
from lstoc_core.policies.pursuit import Pursuit, PursuitConfig
from lstoc_core.policies.rewards import RewardConfig
from lstoc_core.trajectories import TrajectoryStore, segment_counts
from lstoc_core.trajectories.interned import InternedVectorEnv
from lstoc_core.trajectories.representation import represent
from lstoc_core.worlds import make_vec
from lstoc_core.worlds.tasks import TASKS, Task

Method = Literal["guided", "forward"]
EnvLike = Task | str | gymnasium.Env | Callable[[], gymnasium.Env] | InternedVectorEnv
Record = dict[str, Any]
UNCHECKED = 6
"""How many times more successes decide a sequence when no FSM says what the answer looks like."""
LEAST_BONUS = 0.01
"""First-occupancy bonus of an exploration that has collapsed, if it had none."""
SAVE_EVERY = 60.0
"""Seconds between two checkpoints."""


@dataclass(frozen=True)
class LSTOCConfig:
    """Settings of the outer loop."""

    num_envs: int = 64
    """Episodes collected side by side."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    bonus: float = 0.01
    """First-occupancy bonus while exploring."""
    progress: float = 0.1
    """r_a: pay for each key state of a followed sequence, visited in order."""
    success: float = 1.0
    """Pay for a success that no decided sequence explains."""
    explained: float = 0.2
    """Pay for a success that a decided sequence explains."""
    rearm: bool = True
    """The bonus counts afresh whenever the agent advances along a known sequence."""
    patience: int | None = 1000
    """Trajectories without any news after which exploration has collapsed. Until there is news, the bonus doubles,
    at most twice, and is paid by the share of the last episodes, a quarter as many, that have missed the observation;
    explained successes pay half as much. None: never."""
    first_positives: int = 3
    """Successes before the first discovery."""
    growth: float = 1.03
    """Discovery runs again when the number of trajectories has grown by this factor."""
    guided: GuidedConfig = field(default_factory=GuidedConfig)
    forward: ForwardConfig = field(default_factory=ForwardConfig)
    train_explorer: bool = True
    """Whether the policy goes on learning after the first discovery. False: the paper's fixed-policy baseline."""
    pursuit: PursuitConfig = field(default_factory=PursuitConfig)
    """The solve phase."""


@dataclass(frozen=True)
class KeyState:
    """A discovered key state: its index in Ŝ_K and what the agent saw there."""

    index: int
    observation: NDArray
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
    """Names of the key states; None without an FSM, or when the sequences do not fit it."""
    finished: bool
    """Whether the method came to its own stop within the budget. For "guided" with an FSM and exact labels: whether the
    trajectories prove the answer."""
    missing: str
    """If not: what it still needed, in words."""
    trajectories: int
    """Trajectories, positive and negative, at the stop."""
    positives: int
    env_steps: int
    """Environment steps at the stop."""
    success_rate: float
    """Of the last episodes since the discovery; nan without one."""
    history: list[Record]
    """One record per update: env_steps, trajectories, positives, success_rate, phase, sequences, missing."""
    store: TrajectoryStore
    learner: PPO
    """The policy and everything to go on training it."""


def discover(
    env: EnvLike,
    *,
    method: Method = "guided",
    fsm: FSM | None = None,
    seed: int = 0,
    max_steps: int = 1_000_000,
    solve: bool = False,
    progress: bool = True,
    config: LSTOCConfig | None = None,
    contrast: Literal["exact", "learned"] = "exact",
    callbacks: Sequence[Callable[[Record], None]] = (),
    checkpoint: str | os.PathLike[str] | None = None,
) -> Discovery:
    """Discover the hidden subgoals of an environment, their order and, given an FSM, their names.

    env: a Task or its name; a gymnasium.Env or a factory of one whose episodes end with `info["success"]`.
    fsm: temporal dependencies of the subgoals' names; a Task brings its own.
    max_steps: budget of environment steps for exploration and solve phase together.
    solve: go on after the discovery until the policy completes the task.
    contrast: how the guided method compares states, by exact coverage or by a trained f_ω.
    callbacks: called with each update's record, the same that `history` keeps.
    checkpoint: a directory; the run is saved there every minute and goes on from it when called again.
    """
    loop = _Loop(env, method, fsm, seed, config or LSTOCConfig(), contrast)
    loop.run(max_steps, solve, progress, callbacks, Path(checkpoint) if checkpoint is not None else None)
    return loop.result()


class _Loop:
    def __init__(
        self, env: EnvLike, method: Method, fsm: FSM | None, seed: int, config: LSTOCConfig, contrast: str
    ) -> None:
        self.config, self.seed, self.method_name = config, seed, method
        self.task = task = TASKS[env] if isinstance(env, str) else env
        self.contrast = contrast
        self.fsm = fsm or (task.formula.fsm() if isinstance(task, Task) else None)
        self.env = _vectorised(task, config.num_envs, seed)
        rewards = RewardConfig(config.success, config.explained, config.progress, config.bonus, rearm=config.rearm)
        ppo = replace(config.ppo, epsilon=config.forward.epsilon) if method == "forward" else config.ppo
        shares = math.gcd(self.env.num_envs, ppo.minibatches)  # a single environment is one minibatch
        self.learner = PPO(self.env, replace(ppo, minibatches=shares), seed=seed, rewards=rewards)
        self.method: Guided | Forward
        if method == "guided":
            if self.fsm:
                settings = replace(config.guided, max_length=self.fsm.longest_path)
            else:  # with no FSM to prove the answer by, only more successes can support it
                settings = replace(config.guided, decisive=UNCHECKED * config.guided.decisive)
            structure = self.fsm.minimal_sequences() if self.fsm else ()
            self.method = Guided(settings, None if contrast == "exact" else self._learned, structure)
        elif method == "forward":
            accept = self._accept if self.fsm else None
            training = Training.as_published(self.env.observations)
            self.method = Forward(config.forward, self.fsm, accept, training, seed)
        else:
            raise ValueError(f"unknown method {method!r}: choose 'guided' or 'forward'")
        self.phase = "explore"
        self.missing = "no success was seen"
        self.stopped: tuple[int, int, int] | None = None
        self.history: list[Record] = []
        self._next_look = 0.0
        self._news: tuple[tuple[tuple[int, ...], ...], str, int] = ((), "", 0)
        self.pursuit: Pursuit | None = None

    # -- the loop --------------------------------------------------------------------------------------------------

    def run(
        self,
        max_steps: int,
        solve: bool,
        progress: bool,
        callbacks: Sequence[Callable[[Record], None]],
        checkpoint: Path | None,
    ) -> None:
        if checkpoint is not None and (checkpoint / "loop.json").exists():
            self._load(checkpoint)
        saved = time.monotonic()
        with tqdm(total=max_steps, initial=self.learner.env_steps, unit="step", disable=not progress) as bar:
            while self.learner.env_steps < max_steps and self.phase in ("explore", "solve")[: 1 + solve]:
                record = self._update()
                bar.update(self.learner.env_steps - bar.n)
                bar.set_description(self.phase)
                bar.set_postfix_str(f"{record['positives']}/{record['trajectories']} {self._shown()}")
                for callback in callbacks:
                    callback(record)
                if checkpoint is not None and time.monotonic() - saved > SAVE_EVERY:
                    self._save(checkpoint)
                    saved = time.monotonic()
        if checkpoint is not None:
            self._save(checkpoint)

    def _update(self) -> Record:
        """One update of the policy, and a discovery if one is due."""
        frozen = self.phase == "explore" and not self.config.train_explorer and bool(self.method.followed)
        stats = self.pursuit.update() if self.pursuit else self.learner.update(train=not frozen)
        store = self.learner.store
        due = len(store) >= self._next_look and int(store.labels.sum()) >= self.config.first_positives
        if self.phase == "explore" and due:
            self._look()
        if self.phase == "explore":
            self._mend()
        if self.pursuit and self.pursuit.solved:
            self.phase = "solved"
        record = {
            "env_steps": self.learner.env_steps,
            "trajectories": len(store),
            "positives": int(store.labels.sum()),
            "success_rate": stats["success_rate"],
            "episodes": stats["episodes"],
            "phase": self.phase,
            "sequences": self.method.paths,
            "missing": self.missing,
        }
        self.history.append(record)
        return record

    def _look(self) -> None:
        """Hand all trajectories to the method; steer exploration by what it says, or stop exploring."""
        store, rewards = self.learner.store, self.learner.rewards
        self._next_look = len(store) * self.config.growth
        self.missing = self.method.advance(store)
        if not self.method.finished:
            rewards.set_sequences(self.method.followed, self.method.explained)
            return
        self.stopped = (len(store), int(store.labels.sum()), self.learner.env_steps)
        self.phase = "solve"
        self.pursuit = self._pursue()

    def _pursue(self) -> Pursuit:
        """The solve phase: no randomness of the published method any more, and no pay for what was missed."""
        self.learner.config = replace(self.learner.config, epsilon=self.config.ppo.epsilon)
        self.learner.rewards.worth = np.empty(0)
        return Pursuit(self.learner, self.method.paths, self.config.pursuit)

    def _mend(self) -> None:
        """Pay for what episodes have missed of late, and less for what is known, when nothing new has come for long."""
        config, store, rewards = self.config, self.learner.store, self.learner.rewards
        if (self.method.paths, self.missing) != self._news[:2]:
            self._news = (self.method.paths, self.missing, len(store))
        level = self._silence()
        bonus = max(config.bonus, LEAST_BONUS * (level > 0)) * 2**level
        paid = replace(rewards.config, bonus=bonus, explained=config.explained / 2**level)
        if paid != rewards.config:
            rewards.config = paid
        rewards.worth = 1 - self._visited() if level else np.empty(0)

    def _visited(self) -> NDArray[np.float64]:
        """Share of the last episodes that have visited each observation, [num_ids]."""
        assert self.config.patience is not None
        store = self.learner.store
        last = store.select(np.arange(len(store))[-max(1, self.config.patience // 4) :])
        return segment_counts(last, last.offsets[:-1], last.offsets[1:], store.num_ids) / len(last)

    def _silence(self) -> int:
        """How long nothing new has come, in units of patience: 0, 1 or 2."""
        patience = self.config.patience
        return min(2, (len(self.learner.store) - self._news[2]) // patience) if patience else 0

    def _accept(self, paths: Sequence[tuple[int, ...]]) -> bool:
        """Whether the sequences are, up to names, the FSM's minimal sequences."""
        assert self.fsm is not None
        try:
            labeling = label(paths, self.fsm, explain=False)
        except LabelingError:
            return False
        named = {tuple(labeling.mapping[key] for key in path if key in labeling.mapping) for path in paths}
        return named == set(self.fsm.minimal_sequences())

    def _learned(self, positives: TrajectoryStore, refuters: TrajectoryStore) -> NDArray:
        """f_ω trained on the states of one slot, on top of o_θ where the environment has learned one."""
        encoder = getattr(getattr(self.env, "identity", None), "encoder", None)
        table = represent(encoder, self.env.observations[: positives.num_ids]) if encoder is not None else None
        return scores(positives, refuters, representation=table, seed=self.seed, training=Training(iterations=300))

    def _shown(self) -> str:
        numbers = {key: index for index, key in enumerate(self.method.key_states)}
        return " ".join("-".join(str(numbers[key]) for key in path) for path in self.method.paths)

    # -- result and checkpoints ------------------------------------------------------------------------------------

    def result(self) -> Discovery:
        numbers = {key: index for index, key in enumerate(self.method.key_states)}
        sequences = tuple(tuple(numbers[key] for key in path) for path in self.method.paths)
        labeling = label(sequences, self.fsm) if self.fsm is not None and self.method.finished else None
        observations = self.env.observations
        trajectories, positives, env_steps = self.stopped or (
            len(self.learner.store), int(self.learner.store.labels.sum()), self.learner.env_steps,
        )  # fmt: skip
        return Discovery(
            method=self.method_name,
            seed=self.seed,
            sequences=sequences,
            key_states=tuple(KeyState(index, observations[key].copy(), key) for key, index in numbers.items()),
            tree=self.method.tree if isinstance(self.method, Forward) else SubgoalTree.from_sequences(sequences),
            labeling=labeling,
            finished=self.method.finished,
            missing="" if self.method.finished else self._why(),
            trajectories=trajectories,
            positives=positives,
            env_steps=env_steps,
            success_rate=self.pursuit.recent.rate if self.pursuit else float("nan"),
            history=self.history,
            store=self.learner.store,
            learner=self.learner,
        )

    def _why(self) -> str:
        """What was seen and why it did not suffice."""
        store = self.learner.store
        seen = f"{int(store.labels.sum())} successes in {len(store)} trajectories of {self.learner.env_steps} steps"
        if not len(store):
            return f"no episode ended within {self.learner.env_steps} steps: raise max_steps or shorten the episodes"
        if not store.labels.any():
            return f"{seen}: nothing to learn from; raise max_steps or the bonus, or make the task easier to stumble on"
        if store.labels.all():
            return f"{seen}: without failures there is nothing to contrast; {self.missing}"
        if int(store.labels.sum()) < self.config.first_positives:
            return f"{seen}: fewer than the {self.config.first_positives} that the first discovery waits for"
        return f"{seen}: {self.missing}"

    def _save(self, directory: Path) -> None:
        """Policy and trajectories in one file, the loop in another that names it: a reader finds a whole state."""
        directory.mkdir(parents=True, exist_ok=True)
        learner = directory / f"learner-{self.learner.env_steps}.pt"
        self.learner.save(learner)
        state = {
            "key": self._key(),
            "learner": learner.name,
            "method": self.method.state_dict(),
            "phase": self.phase,
            "missing": self.missing,
            "stopped": self.stopped,
            "next_look": self._next_look,
            "news": self._news,
            "pursuit": self.pursuit.state_dict() if self.pursuit else None,
            "history": self.history,
        }
        temporary = directory / "loop.json.tmp"
        temporary.write_text(json.dumps(state))
        temporary.replace(directory / "loop.json")
        for old in directory.glob("learner-*.pt"):
            if old != learner:
                old.unlink()

    def _load(self, directory: Path) -> None:
        state = json.loads((directory / "loop.json").read_text())
        mine, saved = self._key(), state["key"]
        if different := [
            f"{name}={saved.get(name)!r} instead of {mine[name]!r}" for name in mine if mine[name] != saved.get(name)
        ]:
            raise ValueError(
                f"{directory} holds another run: {', '.join(different)}; choose another directory or delete it"
            )
        self.learner.load(directory / state["learner"])
        self.method.load_state_dict(state["method"], self.learner.store)
        if state["pursuit"] is not None:
            self.pursuit = self._pursue()
            self.pursuit.load_state_dict(state["pursuit"])
        self.phase, self.missing, self._next_look = state["phase"], state["missing"], state["next_look"]
        self.stopped = tuple(state["stopped"]) if state["stopped"] else None
        paths, missing, since = state["news"]
        self._news = (_tuples(paths), missing, since)
        self.history = [{**record, "sequences": _tuples(record["sequences"])} for record in state["history"]]
        self.method.finished = self.phase != "explore"

    def _key(self) -> Record:
        """What makes it the same run, as json gives it back."""
        if isinstance(self.task, Task):  # a name and a formula for the eye, and a checksum of map, start and horizon
            env = f"{self.task.name}, {self.task.formula}, {zlib.crc32(repr(self.task).encode()):08x}"
        else:
            env = f"observations of shape {self.env.observations.shape[1:]}"
        key = {"env": env, "method": self.method_name, "contrast": self.contrast, "seed": self.seed}
        return json.loads(json.dumps({**key, "fsm": repr(self.fsm), **asdict(self.config)}))


def _vectorised(env: Any, num_envs: int, seed: int) -> Any:
    """A vector environment of observation ids, whatever was given."""
    if isinstance(env, Task):
        return make_vec(env, num_envs=num_envs, seed=seed)
    if isinstance(env, InternedVectorEnv):
        return env
    if isinstance(env, gymnasium.Env):
        return InternedVectorEnv([env], seed=seed)
    if callable(env):
        return InternedVectorEnv([env] * num_envs, seed=seed)
    raise TypeError(f"cannot explore {env!r}: give a Task, its name, a gymnasium.Env, or a factory of one")


def _tuples(sequences: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(sequence) for sequence in sequences)
