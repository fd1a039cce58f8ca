"""One file per domain; each defines `DOMAIN`. A file put here is a domain: there is no list to extend.

This module imports neither a domain nor numpy, so that the gymnasium ids can be registered at once.
"""

import pkgutil


def builtin_domains() -> tuple[str, ...]:
    """Names of the domains in this package, by file name; none of them is imported."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def environment_id(domain: str) -> str:
    """The name of a domain for `gymnasium.make`."""
    return f"lstoc/{domain.title()}-v0"


def register_environment(domain: str) -> None:
    """Makes a domain known to `gymnasium.make`."""
    from gymnasium.envs.registration import register  # here: listing the names stays cheap

    register(environment_id(domain), entry_point="lstoc_core.worlds:make_env", kwargs={"domain": domain})


def register_environments() -> None:
    """Makes every domain of this package known to `gymnasium.make`."""
    for name in builtin_domains():
        register_environment(name)
