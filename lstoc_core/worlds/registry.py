"""All domains: those with a file in `lstoc_core/worlds/domains`, and those added by `register_domain`."""

from functools import lru_cache
from importlib import import_module

from lstoc_core.suggestions import unknown
from lstoc_core.worlds import domains as package
from lstoc_core.worlds.domain import Domain, TaskError

_added: dict[str, Domain] = {}


@lru_cache(maxsize=1)
def _builtin() -> tuple[Domain, ...]:
    found = []
    for name in package.builtin_domains():
        domain: Domain = import_module(f"{package.__name__}.{name}").DOMAIN
        if domain.name != name:
            raise TaskError(f"domains/{name}.py defines the domain {domain.name!r}: file and domain share one name")
        found.append(domain)
    return tuple(found)


def all_domains() -> tuple[Domain, ...]:
    """Every domain, by place and name."""
    return tuple(sorted((*_builtin(), *_added.values()), key=lambda domain: (domain.place, domain.name)))


def find_domain(name: str) -> Domain:
    """The domain of that name."""
    known = {domain.name: domain for domain in all_domains()}
    if name not in known:
        raise TaskError(unknown("domain", name, known))
    return known[name]


def register_domain(domain: Domain) -> None:
    """Adds a domain that is defined elsewhere, its named tasks and its gymnasium id."""
    for other in all_domains():
        if other.name == domain.name:
            raise TaskError(
                f"there is a domain {domain.name!r} already: choose another name, or forget_domain it first"
            )
        taken = {task.name for task in other.tasks} & {task.name for task in domain.tasks}
        if taken:
            raise TaskError(f"domain {other.name!r} has a task {min(taken)!r} already: choose another name")
    _added[domain.name] = domain
    package.register_environment(domain.name)


def forget_domain(name: str) -> None:
    """Takes back `register_domain`, for example to define the domain anew in a notebook."""
    from gymnasium.envs.registration import registry

    if name not in _added:
        raise TaskError(unknown("added domain", name, _added))
    del _added[name]
    del registry[package.environment_id(name)]
