"""What every explorer offers to the loop: trajectories now, a solved task later."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from lstoc_core.discovery.method import Request
from lstoc_core.policies.ppo import PPO
from lstoc_core.trajectories.matching import KeyPath
from lstoc_core.trajectories.store import TrajectoryStore
from lstoc_core.trajectories.vector_env import IdVectorEnv


class Explorer(Protocol):
    """Acts in an environment: first to find out what completes the task, then to complete it."""

    @property
    def env(self) -> IdVectorEnv: ...

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
        """The policy and everything to go on training it, where there is one."""
        ...

    def explore(self, request: Request, silence: int) -> dict[str, float]:
        """Collect some trajectories as discovery asks for.

        silence: trajectories since discovery last learned anything new. Gives at least `episodes` that ended and their
        `success_rate` (nan if none did).
        """
        ...

    def pursue(self, paths: Sequence[KeyPath]) -> dict[str, float]:
        """Act, and learn to act, such that one of the paths is completed; reports as `explore` does."""
        ...

    @property
    def success_rate(self) -> float:
        """Of the last episodes of the pursuit; nan before it."""
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
        """The rest of the state, as JSON can hold it."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken, after `load`."""
        ...
