"""LSTOC: learning hidden subgoals under temporal ordering constraints in reinforcement learning.

    import lstoc_core as lstoc

    d = lstoc.discover(lstoc.TASKS["letter-1"], seed=0)
    d.tree.draw()

Names are imported on first use, so that `import lstoc_core` is quick and worlds can be used without torch.
"""

import importlib
from typing import Any

_HOME = {
    "Formula": "logic", "FormulaError": "logic", "FSM": "logic", "parse": "logic",
    "TASKS": "worlds.tasks", "Task": "worlds.tasks", "TaskError": "worlds.tasks", "make_task": "worlds.tasks",
    "World": "worlds", "make_vec": "worlds", "compile_world": "worlds",
    "InternedVectorEnv": "trajectories.interned", "TrajectoryStore": "trajectories",
    "PPO": "policies.ppo", "PPOConfig": "policies.ppo", "RewardConfig": "policies.rewards",
    "SubgoalTree": "discovery.tree",
    "Labeling": "labeling", "LabelingError": "labeling", "label": "labeling", "predict": "labeling",
    "LabelingFunction": "labeling.recognizer",
    "Discovery": "loop", "KeyState": "loop", "LSTOCConfig": "loop", "discover": "loop", "score": "scoring",
}  # fmt: skip
__all__ = sorted(_HOME)
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"lstoc_core.{_HOME[name]}"), name)
    raise AttributeError(f"module 'lstoc_core' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])


def _register_environments() -> None:
    from gymnasium.envs.registration import register

    for domain in ("Letter", "Office", "Crafter", "Robot", "Rooms"):
        register(f"lstoc/{domain}-v0", entry_point="lstoc_core.worlds:make_env", kwargs={"domain": domain.lower()})


_register_environments()
