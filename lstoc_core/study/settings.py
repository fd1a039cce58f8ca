"""What a run is told, as typed values: how its world differs from the task's own, and what learns there.

Each value turns into plain JSON (`config`), which identifies the run in its manifest. The process that does the run
turns it back (`world_of`, `settings_of`). Only differences from the defaults are written down. Heavy modules are
imported when a value is used, so that experiments can be listed without torch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict

import numpy as np

from lstoc_core.suggestions import unknown
from lstoc_core.worlds.tasks import Task

if TYPE_CHECKING:
    from lstoc_core.config import LSTOCConfig
    from lstoc_core.policies.ppo import PPO
    from lstoc_core.policies.pursuit import Pursuit
    from lstoc_core.trajectories.interned import InternedVectorEnv
    from lstoc_core.worlds.perturbed import FlippedLabels, NoisyPixels, SlipperyMoves

Contrast = Literal["exact", "learned"]
FRAMES = 2000
"""Observations of random walks on which o_θ is trained before a run on noisy pixels."""
REPRESENTATION_UPDATES = 150
"""Updates of that training."""


# --- the world --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unchanged:
    """The task's own world."""

    wrong_labels: ClassVar[float] = 0.0
    contrast: ClassVar[Contrast] = "exact"

    def config(self) -> dict[str, Any]:
        """Nothing to say."""
        return {}

    def env(self, task: Task, *, seed: int) -> Task:
        """What `discover` explores: the task itself."""
        return task


@dataclass(frozen=True)
class WrongLabels:
    """A fraction `rate` of the episodes ends with the wrong label. The method is told the rate."""

    rate: float
    contrast: ClassVar[Contrast] = "exact"

    @property
    def wrong_labels(self) -> float:
        return self.rate

    def config(self) -> dict[str, Any]:
        """The rate."""
        return {"flipped": self.rate}

    def env(self, task: Task, *, seed: int) -> "Callable[[], FlippedLabels]":
        """A factory of environments with wrong labels."""
        from lstoc_core.worlds import make_env
        from lstoc_core.worlds.perturbed import FlippedLabels

        return lambda: FlippedLabels(make_env(task=task), self.rate)


@dataclass(frozen=True)
class RandomStarts:
    """Episodes start on a random free cell without a letter."""

    wrong_labels: ClassVar[float] = 0.0
    contrast: ClassVar[Contrast] = "exact"

    def config(self) -> dict[str, Any]:
        """That starts are random."""
        return {"random_starts": True}

    def env(self, task: Task, *, seed: int) -> Task:
        """The task without a fixed start."""
        return replace(task, start=None)


@dataclass(frozen=True)
class Slippery:
    """With probability `rate`, a move is replaced by a random one. Nobody is told."""

    rate: float
    wrong_labels: ClassVar[float] = 0.0
    contrast: ClassVar[Contrast] = "exact"

    def config(self) -> dict[str, Any]:
        """The rate."""
        return {"slips": self.rate}

    def env(self, task: Task, *, seed: int) -> "Callable[[], SlipperyMoves]":
        """A factory of environments with slippery moves."""
        from lstoc_core.worlds import make_env
        from lstoc_core.worlds.perturbed import SlipperyMoves

        return lambda: SlipperyMoves(make_env(task=task), self.rate)


@dataclass(frozen=True)
class PixelNoise:
    """Every pixel is off by up to `amplitude` grey levels, so that no observation repeats.

    States are then told apart by o_θ and contrasted by f_ω.
    """

    amplitude: int
    wrong_labels: ClassVar[float] = 0.0
    contrast: ClassVar[Contrast] = "learned"

    def config(self) -> dict[str, Any]:
        """The amplitude in grey levels."""
        return {"pixel_noise": self.amplitude}

    def env(self, task: Task, *, seed: int) -> "InternedVectorEnv":
        """Environments side by side whose observations are interned by o_θ, trained on what random walks see."""
        from lstoc_core.config import LSTOCConfig
        from lstoc_core.trajectories.interned import InternedVectorEnv
        from lstoc_core.trajectories.representation import LearnedIdentity, train_representation
        from lstoc_core.worlds import make_env
        from lstoc_core.worlds.perturbed import NoisyPixels

        def make() -> NoisyPixels:
            return NoisyPixels(make_env(task=task), self.amplitude)

        frames = _random_frames(make(), seed)
        encoder = train_representation(frames, seed=seed, iterations=REPRESENTATION_UPDATES)
        return InternedVectorEnv([make] * LSTOCConfig().num_envs, LearnedIdentity(encoder), seed=seed)


def _random_frames(env: "NoisyPixels", seed: int) -> np.ndarray:
    """What a uniformly random policy sees, [FRAMES, *observation shape]."""
    rng = np.random.default_rng(seed)
    frames = [env.reset(seed=seed)[0]]
    while len(frames) < FRAMES:
        observation, _, terminated, truncated, _ = env.step(rng.integers(env.action_space.n))  # type: ignore[attr-defined]
        frames.append(env.reset()[0] if terminated or truncated else observation)
    return np.stack(frames)


WorldChange = Unchanged | WrongLabels | RandomStarts | Slippery | PixelNoise
"""How a run's world differs from the task's: `env` makes it, `wrong_labels` and `contrast` are what LSTOC is told."""


def world_of(config: Mapping[str, Any]) -> WorldChange:
    """The change of the world that a run's configuration names."""
    if "flipped" in config:
        return WrongLabels(config["flipped"])
    if "random_starts" in config:
        return RandomStarts()
    if "slips" in config:
        return Slippery(config["slips"])
    return PixelNoise(config["pixel_noise"]) if "pixel_noise" in config else Unchanged()


# --- the learner ------------------------------------------------------------------------------------------------------


class LoopChanges(TypedDict, total=False):
    """Fields of `LSTOCConfig` with another value than the default."""

    bonus: float
    explained: float
    rearm: bool
    patience: int | None
    train_explorer: bool


class ForwardChanges(TypedDict, total=False):
    """Fields of `ForwardConfig` with another value than the default."""

    objective: Literal["lstoc", "baseline1", "baseline2"]
    exact: bool
    training: Literal["converged", "printed"]
    tour: float | None


class PlannerChanges(TypedDict, total=False):
    """Fields of `PlannerConfig` with another value than the default."""

    imagined: int


@dataclass(frozen=True)
class Discovering:
    """LSTOC: discover the subgoals by `method`; with `solve`, go on until the policy completes the task."""

    method: Literal["guided", "forward"] = "guided"
    solve: bool = False
    explorer: Literal["policy", "planner", "auto"] = "policy"
    loop: LoopChanges = field(default_factory=LoopChanges)
    forward: ForwardChanges = field(default_factory=ForwardChanges)
    planner: PlannerChanges = field(default_factory=PlannerChanges)

    def config(self) -> dict[str, Any]:
        """The method, whether it goes on to solve, and what differs from the default."""
        changes = {"settings": dict(self.loop), "forward": dict(self.forward), "planner": dict(self.planner)}
        explorer = {} if self.explorer == "policy" else {"explorer": self.explorer}
        told = {"discovery": self.method, "solve": self.solve} | explorer
        return told | {name: each for name, each in changes.items() if each}

    def loop_config(self, *, wrong_labels: float = 0.0) -> "LSTOCConfig":
        """The loop's settings in a world with so many wrong labels."""
        from lstoc_core.config import LSTOCConfig

        default = LSTOCConfig()
        forward = replace(default.forward, **self.forward)
        guided = replace(default.guided, noise=wrong_labels)
        planner = replace(default.planner, **self.planner)
        return replace(default, forward=forward, guided=guided, planner=planner, **self.loop)


@dataclass(frozen=True)
class PlainPPO:
    """PPO paid for success, and a first-occupancy `bonus` if it is not 0."""

    bonus: float = 0.0

    def config(self) -> dict[str, Any]:
        """The learner's name and its bonus, if it has one."""
        return {"learner": "ppo"} | ({"bonus": self.bonus} if self.bonus else {})

    def learner(self, task: Task, *, seed: int) -> "PPO":
        """An untrained policy on the task."""
        from lstoc_core.study.learners import fresh_policy

        return fresh_policy(task, seed=seed, bonus=self.bonus)


@dataclass(frozen=True)
class Oracle:
    """PPO that is told the true sequences and paid to follow them, as LSTOC is in its solve phase."""

    def config(self) -> dict[str, Any]:
        """The learner's name."""
        return {"learner": "oracle"}

    def learner(self, task: Task, *, seed: int) -> "Pursuit":
        """An untrained policy that pursues the true sequences of the task."""
        from lstoc_core.policies.pursuit import Pursuit
        from lstoc_core.study.learners import fresh_policy, true_paths

        return Pursuit(fresh_policy(task, seed=seed, store_limit=None), true_paths(task))


Baseline = PlainPPO | Oracle
"""A learner to compare LSTOC with."""
Settings = Discovering | Baseline


def settings_of(config: Mapping[str, Any]) -> Settings:
    """The learner that a run's configuration names."""
    if "discovery" in config:
        changes = (config.get(name, {}) for name in ("settings", "forward", "planner"))
        return Discovering(config["discovery"], config["solve"], config.get("explorer", "policy"), *changes)
    learners: dict[str, Baseline] = {"ppo": PlainPPO(config.get("bonus", 0.0)), "oracle": Oracle()}
    if (name := config.get("learner")) not in learners:
        raise ValueError(f"{unknown('learner', name, learners)}; a run names a 'learner' or a 'discovery'")
    return learners[name]
