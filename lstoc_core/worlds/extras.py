"""Packages that only some worlds need: installed by the extra `worlds`, imported where they are used."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needed_for(what: str) -> Iterator[None]:
    """Imports inside that fail say what needs the package and how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        message = f"{what} needs the package {error.name!r}: pip install 'lstoc-core[worlds]'"
        raise ModuleNotFoundError(message, name=error.name) from error
