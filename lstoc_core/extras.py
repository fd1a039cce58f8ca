"""Libraries that only an extra of this package installs: imported where they are used, missed with a remedy."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needed_for(what: str, *, extra: str) -> Iterator[None]:
    """An import inside that fails says what needs the library, and the extra that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        message = f"{what} needs the package {error.name!r}: pip install 'lstoc-core[{extra}]'"
        raise ModuleNotFoundError(message, name=error.name) from error
