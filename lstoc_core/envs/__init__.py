"""The five worlds behind one interface: `make_vec` for many episodes at once, `make_env` for one at a time."""

from lstoc_core.envs.grid import GridEnv, GridVectorEnv, World
from lstoc_core.envs.interned import ExactIdentity, Identity, InternedVectorEnv
from lstoc_core.envs.worlds import compile_world, make_env, make_vec

__all__ = [
    "ExactIdentity", "GridEnv", "GridVectorEnv", "Identity", "InternedVectorEnv", "World",
    "compile_world", "make_env", "make_vec",
]  # fmt: skip
