"""Work on disk: saved regularly, resumed by the same call."""

import hashlib
import json
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from lstoc_core.run.lock import Locked, acquire

SAVE_EVERY = 60.0
"""Seconds between two saves."""
WAIT_FOR_LOCK = 5.0
"""Seconds that a process which is just ending has to leave the directory."""
NEWEST, OLDER = "loop.json", "loop.previous.json"
"""The two generations that are kept."""
REMEDY = "name another directory, or delete this one to begin anew"


class CheckpointError(ValueError):
    """A directory that cannot be used for this run; the message names the remedy."""


class Resumable(Protocol):
    """Work that goes on from what was saved: a file for its arrays, and plain values in JSON types."""

    @property
    def env_steps(self) -> int:
        """Steps done so far."""
        ...

    def save(self, path: Path) -> None:
        """Write the arrays."""
        ...

    def load(self, path: Path) -> None:
        """Read what `save` wrote; `load_state_dict` follows."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All that is not in the arrays' file."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        ...


@dataclass
class Checkpoint:
    """The state of one run in a directory: a file for its arrays, and `loop.json`, which names it, for the rest.

    key: identifies the run, in JSON types. A directory that holds another run, or is in use, is refused. Checksums tell
    a damaged state, and the one saved before it is kept to fall back to. `close` lets another process have it.
    """

    directory: Path
    key: Mapping[str, Any]
    _saved: float = field(default_factory=time.monotonic, init=False)
    _number: int = field(default=0, init=False)
    """Of the newest whole state; 0 before there is one."""
    _older: bool = field(default=False, init=False)
    """Whether that state is under the name of the older one, the newer one being damaged."""
    _lock: IO[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.directory) as file:
                file.write(b"a disk may be full")
            self._lock = acquire(self.directory / "lock", within=WAIT_FOR_LOCK)
        except Locked:
            raise CheckpointError(
                f"checkpoint {self.directory} is in use by another process: wait for it, or name another directory"
            ) from None
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {self.directory} cannot be a directory that is written to ({error.strerror}): "
                "name another one"
            ) from error

    def close(self) -> None:
        """Let other processes use the directory."""
        self._lock.close()

    @contextmanager
    def kept(self, work: Resumable) -> Iterator[None]:
        """A context at whose end the state is saved, also if something inside it raises, and the directory is left."""
        try:
            yield
            self.save(work)
        except Exception:
            with suppress(Exception):  # what was raised first says more
                self.save(work)
            raise
        finally:
            self.close()

    @property
    def due(self) -> bool:
        """Whether it is time to save again."""
        return time.monotonic() - self._saved > SAVE_EVERY

    def save(self, work: Resumable) -> None:
        """Write the state. At every moment the directory holds a complete one, the old or the new."""
        number = self._number + 1
        large = self.directory / f"explorer-{work.env_steps}-{number}.pt"
        work.save(large)
        state = {
            "key": self.key,
            "number": number,
            "file": large.name,
            "file_sha256": _sha256(large.read_bytes()),
            "work": work.state_dict(),
        }
        text = json.dumps(state)
        temporary = self.directory / f"{NEWEST}.tmp"
        with temporary.open("w") as file:
            json.dump({"sha256": _sha256(text.encode()), "state": text}, file)
            file.flush()
            os.fsync(file.fileno())
        newest, older = self.directory / NEWEST, self.directory / OLDER
        kept = {large}
        if self._number:
            if not self._older:
                newest.replace(older)
            kept |= set(self.directory.glob(f"explorer-*-{self._number}.pt"))
        temporary.replace(newest)
        self._number, self._older, self._saved = number, False, time.monotonic()
        for old in (*self.directory.glob("explorer-*.pt"), *self.directory.glob("*.tmp")):
            if old not in kept:
                old.unlink()

    def load(self, work: Resumable) -> bool:
        """Restore what was saved; whether there was something."""
        try:
            return self._load(work)
        except CheckpointError:
            self.close()
            raise

    def _load(self, work: Resumable) -> bool:
        state = self._newest_whole()
        if state is None:
            return False
        saved: Mapping[str, Any] = state["key"]
        if different := [
            f"{name}={saved.get(name)!r} instead of {self.key.get(name)!r}"
            for name in dict.fromkeys((*self.key, *saved))
            if self.key.get(name) != saved.get(name)
        ]:
            raise CheckpointError(f"{self.directory} holds another run: {', '.join(different)}; {REMEDY}")
        try:
            work.load(self.directory / state["file"])
            work.load_state_dict(state["work"])
        except Exception as error:  # whatever a state of another making leads to
            raise CheckpointError(f"{self.directory} cannot be resumed ({error}): {REMEDY}") from error
        self._number = state["number"]
        return True

    def _newest_whole(self) -> dict[str, Any] | None:
        """The newest state that is not damaged; None if none was saved."""
        damage = ""
        for name in (NEWEST, OLDER):
            if not (self.directory / name).exists():
                continue
            try:
                found = self._read(self.directory / name)
            except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
                damage = damage or f"{name} is damaged or of another version ({error})"
                continue
            self._older = name == OLDER
            if damage:
                warnings.warn(f"{self.directory}: {damage}; going on from the state saved before it", stacklevel=4)
            return found
        if damage:
            raise CheckpointError(f"{self.directory}: {damage}; {REMEDY}")
        return None

    def _read(self, file: Path) -> dict[str, Any]:
        """The state in a file, after checking that it and the arrays' are whole."""
        content = json.loads(file.read_text())
        state: dict[str, Any] = json.loads(content["state"])
        if content["sha256"] != _sha256(content["state"].encode()):
            raise ValueError("another checksum")
        if state["file_sha256"] != _sha256((self.directory / state["file"]).read_bytes()):
            raise ValueError(f"{state['file']} has another checksum")
        return state


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
