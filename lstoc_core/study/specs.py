"""What identifies a run, and where its files are."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lstoc_core import paths

RUN_COLUMNS = ("experiment", "task", "method", "seed", "profile")
SAVED = "saved"
"""The profile that reads the committed runs in `data/runs`, whatever profile computed them."""


@dataclass(frozen=True)
class RunSpec:
    """What identifies one run. `config` holds everything else that decides its result, as plain JSON values."""

    experiment: str
    task: str
    method: str
    seed: int
    profile: str
    config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for column in ("experiment", "task", "method", "profile"):
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", value := getattr(self, column)) or "--" in value:
                raise ValueError(
                    f"{column} {value!r} cannot be part of a file name: use letters, digits, single - _ . +"
                )
        if self.seed < 0:
            raise ValueError(f"a seed is not negative, got {self.seed}")
        if self.profile == SAVED:
            raise ValueError("runs are computed under a profile of their own and become 'saved' by promote()")
        object.__setattr__(self, "config", json.loads(canonical(self.config)))

    @property
    def name(self) -> str:
        """What its files are called, under the profile's directory: data .parquet, manifest .json, log .log."""
        return f"{self.experiment}/{self.task}--{self.method}--{self.seed}"

    @property
    def data_path(self) -> Path:
        return directory(self.profile) / f"{self.name}.parquet"

    @property
    def committed_path(self) -> Path:
        """Where its data is once it is committed."""
        return directory(SAVED) / self.profile / f"{self.name}.parquet"


def directory(profile: str) -> Path:
    """Where the runs of a profile are: `data/runs` (committed) for "saved", `build/<profile>/runs` otherwise."""
    return paths.DATA / "runs" if profile == SAVED else paths.BUILD / profile / "runs"


def checkpoint_place(spec: RunSpec, version: str) -> Path:
    """Directory of the checkpoint of a run under way; version "*": a pattern for those of all versions of the code."""
    return spec.data_path.with_name(f"{spec.data_path.stem}.{version}.checkpoint")


def canonical(config: Mapping[str, Any]) -> str:
    """A configuration as text, the same for the same values."""
    try:
        return json.dumps(dict(config), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the configuration must hold plain JSON values: {error}") from error
