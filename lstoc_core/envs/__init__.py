"""The five worlds behind one interface: `make_vec` for many episodes at once, `make_env` for one at a time."""

from typing import Any

from lstoc_core.envs.grid import GridEnv, GridVectorEnv, World
from lstoc_core.envs.interned import ExactIdentity, Identity, InternedVectorEnv
from lstoc_core.envs.worlds import compile_world, make_env, make_vec

__all__ = [
    "ExactIdentity", "GridEnv", "GridVectorEnv", "Identity", "InternedVectorEnv", "World",
    "compile_world", "make_env", "make_vec", "random_successes", "task_table",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("random_successes", "task_table"):  # on first use, so that worlds start without pandas
        from lstoc_core.envs import facts

        return getattr(facts, name)
    raise AttributeError(f"module 'lstoc_core.envs' has no attribute {name!r}")
