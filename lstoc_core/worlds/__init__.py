"""Worlds behind one interface: `make_vec` for many episodes at once, `make_env` for one at a time.

Names are imported on first use, so that the gymnasium ids can be registered without importing a world.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lstoc_core.worlds.domain import Default as Default
    from lstoc_core.worlds.domain import Defaults as Defaults
    from lstoc_core.worlds.domain import Domain as Domain
    from lstoc_core.worlds.domain import Ground as Ground
    from lstoc_core.worlds.domain import Layout as Layout
    from lstoc_core.worlds.domain import NamedTask as NamedTask
    from lstoc_core.worlds.domain import Picture as Picture
    from lstoc_core.worlds.domain import Site as Site
    from lstoc_core.worlds.domain import Symbols as Symbols
    from lstoc_core.worlds.grid import GridEnv as GridEnv
    from lstoc_core.worlds.grid import GridVectorEnv as GridVectorEnv
    from lstoc_core.worlds.grid import World as World
    from lstoc_core.worlds.make import compile_world as compile_world
    from lstoc_core.worlds.make import make_env as make_env
    from lstoc_core.worlds.make import make_vec as make_vec
    from lstoc_core.worlds.registry import all_domains as all_domains
    from lstoc_core.worlds.registry import find_domain as find_domain
    from lstoc_core.worlds.registry import forget_domain as forget_domain
    from lstoc_core.worlds.registry import register_domain as register_domain
else:
    import importlib

    _HOME = {
        "domain": ("Default", "Defaults", "Domain", "Ground", "Layout", "NamedTask", "Picture", "Site", "Symbols"),
        "grid": ("GridEnv", "GridVectorEnv", "World"),
        "make": ("compile_world", "make_env", "make_vec"),
        "registry": ("all_domains", "find_domain", "forget_domain", "register_domain"),
    }
    _MODULE = {name: f"lstoc_core.worlds.{module}" for module, names in _HOME.items() for name in names}
    __all__ = sorted(_MODULE)

    def __getattr__(name):
        if name in _MODULE:
            return getattr(importlib.import_module(_MODULE[name]), name)
        raise AttributeError(f"module 'lstoc_core.worlds' has no attribute {name!r}")

    def __dir__():
        return sorted([*globals(), *_MODULE])
