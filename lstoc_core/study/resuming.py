"""Runs of an experiment that were killed go on from where they were, with the same table to the bit.

Each stage of a run has a checkpoint beside the run's files; `cache` removes them once the run is stored. A checkpoint's
name holds all that the result depends on, so that other code leaves it alone.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from lstoc_core.run.checkpoint import NEWEST, Checkpoint, CheckpointError, Resumable
from lstoc_core.study.provenance import code_key, sha256, versions
from lstoc_core.study.specs import RunSpec, canonical, checkpoint_place

Work = TypeVar("Work", bound=Resumable)


def place_of(spec: RunSpec, module: str, *stage: object) -> Path:
    """Directory of the checkpoint of a stage of a run, which a function of `module` does."""
    depends = {"code": code_key(module), "config": spec.config, "versions": versions(), "stage": [*map(str, stage)]}
    return checkpoint_place(spec, sha256(canonical(depends).encode())[:16])


@contextmanager
def resumed(make: Callable[[], Work], place: Path | None) -> Iterator[tuple[Work, Callable[[], None]]]:
    """What `make` gives, as it was saved in the directory; and a function that saves it there when it is time to.

    place: None to keep nothing. Where the directory cannot be used, the work begins anew, and a line says why.
    """
    work, checkpoint = make(), None
    if place is not None:
        try:
            checkpoint = Checkpoint(place, {"place": place.name})
            checkpoint.load(work)
        except CheckpointError as error:
            print(f"begun anew, without a checkpoint: {error}")
            work, checkpoint = make(), None

    def save() -> None:
        if checkpoint is not None and checkpoint.due:
            checkpoint.save(work)

    with (
        whole_updates(place) if place is not None else nullcontext(),
        checkpoint.kept(work) if checkpoint is not None else nullcontext(),
    ):
        yield work, save


@contextmanager
def whole_updates(place: Path) -> Iterator[None]:
    """A context in which an error leaves no checkpoint of half an update: the one before it stays, if there is one.

    A checkpoint is saved when something raises, to lose nothing. The same table to the bit asks for whole updates.
    """
    try:
        yield
    except CheckpointError:
        raise
    except Exception:
        (place / NEWEST).unlink(missing_ok=True)
        raise


@dataclass
class Rows:
    """Rows of a table that are computed one after the other; a `Resumable`. All values are plain."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def env_steps(self) -> int:
        return len(self.rows)

    def save(self, path: Path) -> None:
        """There are no arrays."""
        path.touch()

    def load(self, path: Path) -> None:
        """There are no arrays."""

    def state_dict(self) -> dict[str, Any]:
        return {"rows": self.rows}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.rows = list(state["rows"])
