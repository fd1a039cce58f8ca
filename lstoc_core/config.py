"""All settings of a run of `discover` in one value."""

from dataclasses import dataclass, field

from lstoc_core.discovery.hypotheses import GuidedConfig
from lstoc_core.discovery.published.forward import ForwardConfig
from lstoc_core.policies.ppo import PPOConfig
from lstoc_core.policies.pursuit import PursuitConfig


@dataclass(frozen=True)
class PlannerConfig:
    """Settings of the planner explorer."""

    num_envs: int = 1
    """Episodes side by side. Plans do not know how episodes under way will end, so more of them cost trajectories."""
    mapping: int = 4
    """Steps per known observation and action that may be spent on gaps of the map before planned episodes begin."""
    rows: int = 600_000
    """Most assignments tried at a time when beliefs are drawn."""
    held: int = 100_000
    """Most assignments held as beliefs."""
    few: int = 2_000
    """A sample of beliefs smaller than this is drawn anew."""
    candidates: int = 36
    """Plans made at first."""
    variations: int = 24
    """Plans made from the best ones, per round."""
    rounds: int = 8
    """Rounds of variation."""
    best: int = 8
    """Best plans that are varied."""
    judges: int = 1_500
    """Assignments by which plans are judged."""
    slipped: int = 3
    """Walks by which a plan is judged where steps slip."""
    rejudged: int = 24
    """Walks by which the best plan is judged again there, for its predicted probability of success."""
    walks: int = 64
    """Episodes of the solve phase by which walks on the map are judged."""
    imagined: int = 1_000_000
    """Most steps on the map to train a policy in the solve phase; 0: none is trained."""


@dataclass(frozen=True)
class LSTOCConfig:
    """Settings of the loop; each of its parts has a field of its own."""

    num_envs: int = 64
    """Episodes collected side by side."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    bonus: float = 0.01
    """First-occupancy bonus while exploring."""
    progress: float = 0.1
    """r_a: reward for each key state of a followed sequence, visited in order."""
    success: float = 1.0
    """Reward for a success that no decided sequence explains."""
    explained: float = 0.2
    """Reward for a success that a decided sequence explains."""
    rearm: bool = True
    """Whether all observations count as new again when the agent advances along a known sequence."""
    patience: int | None = 1000
    """Trajectories without news from discovery after which exploration counts as collapsed; None: never. The bonus is
    then doubled, at most twice. It is scaled, per observation, by the fraction of the last `patience // 4` episodes
    that never visited it. Explained successes pay half as much, halved at most twice. News undoes all of this."""
    first_positives: int = 3
    """Fewest successes for the first discovery."""
    growth: float = 1.03
    """Discovery runs again when the number of trajectories has grown by this factor."""
    guided: GuidedConfig = field(default_factory=GuidedConfig)
    forward: ForwardConfig = field(default_factory=ForwardConfig)
    train_explorer: bool = True
    """Whether the policy goes on learning after the first discovery. False: the paper's fixed-policy baseline."""
    pursuit: PursuitConfig = field(default_factory=PursuitConfig)
    """The solve phase."""
    planner: PlannerConfig = field(default_factory=PlannerConfig)
    """The planner explorer."""
