"""One process at a time: a lock on a file, which the system releases when its holder ends, however it ends."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
def locked(file: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock inside the context; `waiting` is called once if another process has it first."""
    try:
        stream = acquire(file)
    except Locked:
        waiting()
        stream = acquire(file, within=float("inf"))
    with stream:
        yield
