"""The five worlds behind one interface: `make_vec` for many episodes at once, `make_env` for one at a time."""

from lstoc_core.worlds.grid import GridEnv, GridVectorEnv, World
from lstoc_core.worlds.make import compile_world, make_env, make_vec

__all__ = ["GridEnv", "GridVectorEnv", "World", "compile_world", "make_env", "make_vec"]
