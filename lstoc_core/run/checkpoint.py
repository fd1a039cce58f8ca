"""A run on disk: saved regularly, resumed by the same call."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lstoc_core.discovery.method import DiscoveryMethod
from lstoc_core.exploration.explorer import Explorer
from lstoc_core.run.journal import Journal

SAVE_EVERY = 60.0
"""Seconds between two saves."""


class CheckpointError(ValueError):
    """A directory that cannot be used for this run; the message names the remedy."""


@dataclass
class Checkpoint:
    """The state of one run in a directory: one file for the explorer, and `loop.json`, which names it, for the rest.

    key: identifies the run, in JSON types. A directory that holds another run is refused.
    """

    directory: Path
    key: Mapping[str, Any]
    _saved: float = field(default_factory=time.monotonic, init=False)

    def __post_init__(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {self.directory} cannot be a directory ({error.strerror}): name another one"
            ) from error

    @property
    def due(self) -> bool:
        """Whether it is time to save again."""
        return time.monotonic() - self._saved > SAVE_EVERY

    def save(self, explorer: Explorer, method: DiscoveryMethod, journal: Journal) -> None:
        """Write the state. At every moment the directory holds a complete one, the old or the new."""
        large = self.directory / f"explorer-{explorer.env_steps}.pt"
        explorer.save(large)
        state = {
            "key": self.key,
            "file": large.name,
            "explorer": explorer.state_dict(),
            "method": method.state_dict(),
            "journal": journal.to_json(),
        }
        temporary = self.directory / "loop.json.tmp"
        temporary.write_text(json.dumps(state))
        temporary.replace(self.directory / "loop.json")
        for old in self.directory.glob("explorer-*.pt"):
            if old != large:
                old.unlink()
        self._saved = time.monotonic()

    def load(self, explorer: Explorer, method: DiscoveryMethod) -> Journal | None:
        """Restore explorer and method, and return the journal; None if nothing was saved."""
        if not (self.directory / "loop.json").exists():
            return None
        state = json.loads((self.directory / "loop.json").read_text())
        saved = state["key"]
        if different := [
            f"{name}={saved.get(name)!r} instead of {mine!r}"
            for name, mine in self.key.items()
            if mine != saved.get(name)
        ]:
            raise CheckpointError(
                f"{self.directory} holds another run: {', '.join(different)}; choose another directory or delete it"
            )
        explorer.load(self.directory / state["file"])
        explorer.load_state_dict(state["explorer"])
        method.load_state_dict(state["method"])
        return Journal.from_json(state["journal"])
