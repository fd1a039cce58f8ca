"""One process at a time: a lock on a file, which the system releases when its holder ends, however it ends."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

try:
    import fcntl
except ModuleNotFoundError:  # a system without these locks: nothing is locked there
    fcntl = None  # type: ignore[assignment]


class Locked(OSError):
    """Another process holds the lock."""


def acquire(file: Path, *, within: float = 0.0) -> IO[str]:
    """Hold the lock until the returned file is closed; Locked if another process keeps it for so many seconds."""
    stream = file.open("a")
    deadline = time.monotonic() + within
    while fcntl is not None:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= deadline:
                stream.close()
                raise Locked(f"{file} is locked by another process") from None
            time.sleep(0.1)
    return stream


@contextmanager
def locked(files: Iterable[Path], waiting: Callable[[Path], None]) -> Iterator[None]:
    """Hold the locks inside the context; `waiting` is called for each that another process has first."""
    with ExitStack() as stack:
        for file in sorted(files):  # in one order everywhere, so that no two processes wait for each other
            try:
                stack.enter_context(acquire(file))
            except Locked:
                waiting(file)
                stack.enter_context(acquire(file, within=float("inf")))
        yield
