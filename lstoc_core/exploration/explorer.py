"""The interface of explorers: they collect trajectories, and later solve the task."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from lstoc_core.discovery.method import Request
from lstoc_core.policies.ppo import PPO
from lstoc_core.trajectories.matching import KeyPath
from lstoc_core.trajectories.store import TrajectoryStore
from lstoc_core.trajectories.vector_env import IdVectorEnv


class Explorer(Protocol):
    """Acts in an environment: first to find what completes the task, then to complete it."""

    @property
    def env(self) -> IdVectorEnv: ...

    @property
    def account(self) -> str:
        """Which way of exploring is in use, and why."""
        ...

    @property
    def env_steps(self) -> int:
        """Environment steps so far, over all environments."""
        ...

    @property
    def trajectories(self) -> TrajectoryStore:
        """All finished episodes so far."""
        ...

    @property
    def learner(self) -> PPO | None:
        """The policy and its training state, if there is one."""
        ...

    def explore(self, request: Request, silence: int) -> dict[str, float]:
        """Collect some trajectories, as discovery asks.

        silence: trajectories since discovery last had news. Returns at least `episodes`, the number that ended, and
        their `success_rate` (NaN if none did).
        """
        ...

    def pursue(self, paths: Sequence[KeyPath]) -> dict[str, float]:
        """Learn to complete one of the paths; reports as `explore` does."""
        ...

    @property
    def success_rate(self) -> float:
        """Of the last episodes of the pursuit; NaN before it."""
        ...

    @property
    def solved(self) -> bool:
        """Whether the pursuit has learned to complete the task."""
        ...

    def save(self, path: Path) -> None:
        """Write the large part of the state to a file."""
        ...

    def load(self, path: Path) -> None:
        """Read what `save` wrote."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """The rest of the state, in JSON types."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, after `load`."""
        ...


@runtime_checkable
class Mapped(Protocol):
    """An explorer that may know where it was."""

    def places(self) -> TrajectoryStore | None:
        """The finished episodes as places of its map instead of observations; None if the map does not tell."""
        ...
