"""Ctrl-C as a request: the current update is finished first, so that the state stays consistent."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """A context in which the first Ctrl-C only sets `requested`, and the second interrupts at once.

    Python delivers Ctrl-C to the main thread only. In other threads, only `request` sets it.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: Any = None

    def request(self) -> None:
        """Ask the run to end, as Ctrl-C does."""
        self.requested = True

    def __enter__(self) -> "Interrupt":
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as in a background job of a shell
        if threading.current_thread() is threading.main_thread() and not ignored:
            self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
