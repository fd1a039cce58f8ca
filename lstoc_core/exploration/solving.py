"""The planner's solve phase: walks on the map until they complete the task, then a policy trained on the map."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.config import PlannerConfig
from lstoc_core.discovery.method import nested_tuples
from lstoc_core.policies.ppo import PPO
from lstoc_core.policies.pursuit import Pursuit, Recent
from lstoc_core.trajectories.matching import KeyPath

MakePursuit = Callable[[tuple[KeyPath, ...]], Pursuit]
"""An untrained policy on the map, for these paths."""


class Solving:
    """How far the solve phase has come. solved: the success rate at which the walks count as right."""

    def __init__(self, settings: PlannerConfig, solved: float) -> None:
        self._settings, self._solved = settings, solved
        self.forget()

    def forget(self) -> None:
        """Begin anew: the answer was withdrawn."""
        self.recent = Recent(window=self._settings.walks)
        self._pursuit: Pursuit | None = None

    @property
    def learner(self) -> PPO | None:
        """The policy trained on the map; None before."""
        return self._pursuit.learner if self._pursuit else None

    @property
    def walking(self) -> bool:
        """Whether to walk: the walks do not succeed yet, or training takes too many steps and is given up."""
        gave_up = self._pursuit is not None and self._pursuit.env_steps >= self._settings.imagined
        return not self._walks_solve or (gave_up and not self._trained)

    def train(self, paths: tuple[KeyPath, ...], make: MakePursuit) -> dict[str, float]:
        """One update of the policy on the map."""
        if self._pursuit is None:
            self._pursuit = make(paths)
        self._pursuit.update()
        return {"episodes": 0, "success_rate": float("nan")}

    @property
    def _walks_solve(self) -> bool:
        return self.recent.episodes >= self._settings.walks and self.recent.rate >= self._solved

    @property
    def _trained(self) -> bool:
        return not self._settings.imagined or (self._pursuit is not None and self._pursuit.solved)

    @property
    def solved(self) -> bool:
        """Whether the walks complete the task, and so does the policy on the map, if one is trained."""
        return self._walks_solve and self._trained

    # --- state ---

    def policy_file(self, beside: Path) -> NDArray[np.uint8] | None:
        """The policy as the bytes of a file; None without one. beside: where a file may be written for a moment."""
        if self._pursuit is None:
            return None
        part = beside.with_name(beside.name + ".policy")
        self._pursuit.learner.save(part)
        content = np.frombuffer(part.read_bytes(), np.uint8)
        part.unlink()
        return content

    def state_dict(self) -> dict[str, Any]:
        """All but the policy, in JSON types."""
        pursuit = self._pursuit
        return {
            "recent": self.recent.records,
            "pursuit": {"paths": pursuit.paths, **pursuit.state_dict()} if pursuit else None,
        }

    def load_state_dict(self, state: Mapping[str, Any], policy: NDArray[np.uint8], make: MakePursuit) -> None:
        """Restore what `state_dict` and `policy_file` returned."""
        self.recent, self._pursuit = Recent(state["recent"], window=self._settings.walks), None
        if state["pursuit"] is not None:
            self._pursuit = make(nested_tuples(state["pursuit"]["paths"]))
            with tempfile.TemporaryDirectory() as directory:
                part = Path(directory) / "policy.pt"
                part.write_bytes(policy.tobytes())
                self._pursuit.learner.load(part)
            self._pursuit.load_state_dict(state["pursuit"])
