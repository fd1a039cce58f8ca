"""Ctrl-C as a request: what runs is finished first, so that nothing is left half done."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """While it is entered, the first Ctrl-C only sets `requested`; the second one interrupts at once.

    Outside the main thread, where Python delivers no Ctrl-C, only `request` sets it.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: Any = None

    def request(self) -> None:
        """Ask for an end, as Ctrl-C does."""
        self.requested = True

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
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
