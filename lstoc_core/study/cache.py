"""Expensive runs, computed once: one immutable file each, checked before it is trusted, redone when it is stale.

    specs = [RunSpec("efficiency", task, "guided", seed, "quick", {"steps": 100_000}) for …]
    table = compute(specs, run_efficiency)          # only what is missing or stale, in parallel
    table = load("efficiency", "quick")             # what is there, without computing

A run is a module-level function from its `RunSpec` to a DataFrame. Its data goes to a parquet file, and then a manifest
(configuration, versions, commit, wall time, hashes) beside it says that the file is whole. A file is corrupt if its
manifest is missing, unreadable or of another hash. A run is stale if its configuration or code has changed. Both are
moved aside and the run is done again. Nothing is ever overwritten.
"""

import contextlib
import importlib
import io
import json
import os
import platform
import re
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from tqdm.auto import tqdm

from lstoc_core import paths
from lstoc_core.run.lock import locked
from lstoc_core.study.executors import cluster_address, processes, with_dask, with_loky
from lstoc_core.study.provenance import code_key, commit, sha256, versions
from lstoc_core.study.specs import RUN_COLUMNS, SAVED, RunSpec, canonical, checkpoint_place, directory

State = Literal["finished", "missing", "stale", "corrupt"]


RunFunction = Callable[[RunSpec], pd.DataFrame]
Function = RunFunction | str
"""A function at the top level of a module, or its path "package.module:name"."""


class RunsFailed(RuntimeError):
    """Some runs failed; the others are stored. `failures` maps each failed run's name to its traceback."""

    def __init__(self, failures: Mapping[str, str], total: int) -> None:
        self.failures = dict(failures)
        name, text = next(iter(self.failures.items()))
        super().__init__(
            f"{len(self.failures)} of {total} runs failed: {', '.join(self.failures)}.\n"
            f"The others are stored and will not be redone; logs lie beside them. Traceback of {name}:\n{text}"
        )


class CorruptRunError(RuntimeError):
    """A stored run is damaged or half-written."""


# --- computing -------------------------------------------------------------------------------------------------------


def compute(
    specs: Iterable[RunSpec],
    function: Function | Mapping[str, Function],
    *,
    executor: Literal["loky", "dask"] | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    keep_stale: bool = False,
    raise_failures: bool = True,
    progress: bool = True,
    cost: Callable[[RunSpec], float] = lambda spec: 1.0,
) -> pd.DataFrame:
    """Compute the runs that are missing or stale, and return the table of all of them (see `load`), in their order.

    function: what does a run, or one for each `spec.experiment`.
    executor: each run has a process of one thread, either loky's on all cores or a worker of a dask cluster. The
        results are the same to the bit.
    workers: number of processes; default LSTOC_WORKERS, else the number of cores.
    scheduler: address of a dask cluster; default LSTOC_SCHEDULER. Without one, "dask" starts a cluster here.
    keep_stale: keep finished runs of older code; their configuration must be the same.
    raise_failures: report failed runs at the end by `RunsFailed`, instead of leaving them out of the table. Their
        tracebacks are in their logs.
    cost: time of a run relative to the others, for the time left that is shown.
    """
    specs = list(specs)
    if len({spec.profile for spec in specs}) > 1:
        raise ValueError("compute takes the runs of one profile at a time")
    names = [spec.name for spec in specs]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"each run may be asked for once; repeated: {', '.join(repeated)}")
    functions = function if isinstance(function, Mapping) else {spec.experiment: function for spec in specs}
    origins = {name: _origin(functions[name]) for name in dict.fromkeys(spec.experiment for spec in specs)}
    scheduler, workers = cluster_address(scheduler), processes(workers)
    distributed = executor == "dask" or (executor is None and scheduler)
    for experiment in origins:
        paths.require_writable(directory(specs[0].profile) / experiment, "the directory of runs")

    failures: dict[str, str] = {}
    waiting = partial(print, "waiting for another process that computes the same runs:", file=sys.stderr)
    with locked({spec.data_path.with_name(".lock") for spec in specs}, waiting):
        pending = [
            spec
            for spec in specs
            if not _is_usable(spec, origins[spec.experiment]["code_sha256"], keep_stale=keep_stale)
        ]
        if pending:
            # A worker of a cluster may not see this machine's files: it sends its log back. Here it is written live.
            functions_by_path = {name: origin["function"] for name, origin in origins.items()}
            logs = None if distributed else directory(pending[0].profile)
            call = partial(execute_run, functions=functions_by_path, logs=logs)
            identity = partial(_identity, *sorted(functions_by_path.values()))
            if distributed:
                _identity.cache_clear()
                call = partial(call, expected=identity())
            outcomes = (
                with_dask(call, pending, Outcome.lost, workers=workers, scheduler=scheduler, identity=identity)
                if distributed
                else with_loky(call, pending, Outcome.lost, workers=workers)
            )
            for outcome in _watched(outcomes, pending, len(specs), progress, cost):
                if outcome.log:
                    outcome.spec.data_path.with_suffix(".log").write_text(outcome.log)
                if outcome.error is None:
                    _store(outcome, origins[outcome.spec.experiment])
                    _remove_checkpoints(outcome.spec)
                else:
                    failures[outcome.spec.name] = outcome.error
    if failures and raise_failures:
        raise RunsFailed(failures, len(specs))
    return _table([_read(spec.data_path) for spec in specs if spec.name not in failures])


def _origin(function: Function) -> dict[str, Any]:
    """What a manifest says of the code behind a run."""
    path = function if isinstance(function, str) else function_path(function)
    code = sha256(f"{path} {code_key(path.partition(':')[0])}".encode())
    return {"function": path, "code_sha256": code, "commit": commit()}


@cache
def _identity(*paths_of_functions: str) -> str:
    """One hash over libraries and the code behind functions, as this process found them when it first asked.

    By it the workers of a cluster are checked, also those that join late.
    """
    keys = [code_key(path.partition(":")[0]) for path in paths_of_functions]
    return sha256(canonical({"code": keys, "versions": versions()}).encode())


@dataclass(frozen=True)
class Outcome:
    """What comes back from a worker: the data as parquet bytes, or a traceback; and the log where it wrote none."""

    spec: RunSpec
    data: bytes = b""
    rows: int = 0
    error: str | None = None
    started: str = ""
    wall_time: float = 0.0
    cpu_time: float = 0.0
    log: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the libraries in the process that did it."""

    @classmethod
    def lost(cls, spec: RunSpec, reason: str) -> "Outcome":
        """The outcome of a run that did not come back."""
        return cls(spec, error=f"{spec.name}: {reason}\n", log=reason)


def execute_run(
    spec: RunSpec, *, functions: Mapping[str, str], logs: Path | None, expected: str | None = None
) -> Outcome:
    """Do one run in this process; all it prints goes to its file under `logs`, or else into the outcome.

    expected: what `_identity` must give here; a worker with other code or libraries does no run.
    """
    if expected is not None and _identity(*sorted(functions.values())) != expected:
        return Outcome.lost(spec, f"the worker {platform.node()} has other code or libraries: install the same there")
    started = datetime.now(UTC).isoformat(timespec="seconds")
    clock, cpu_clock = time.perf_counter(), time.process_time()
    path, data, rows, error = functions[spec.experiment], b"", 0, None
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((logs / f"{spec.name}.log").open("w", buffering=1)) if logs else io.StringIO()
        stack.enter_context(contextlib.redirect_stdout(log))
        stack.enter_context(contextlib.redirect_stderr(log))
        print(f"{spec.name}  profile {spec.profile}  {path}  started {started}\n{canonical(spec.config)}")
        try:
            module, _, name = path.partition(":")
            function = getattr(importlib.import_module(module), name)
            if "torch" in sys.modules:
                sys.modules["torch"].set_num_threads(1)
            frame = function(spec)
            rows, data = len(frame), _to_parquet(frame)
        except Exception:
            error = traceback.format_exc()
            print(error)
        wall_time, cpu_time = time.perf_counter() - clock, time.process_time() - cpu_clock
        print(f"{'failed' if error else 'finished'} after {wall_time:.1f} s")
        text = log.getvalue() if isinstance(log, io.StringIO) else ""
    return Outcome(spec, data, rows, error, started, wall_time, cpu_time, text, versions())


def _watched(
    outcomes: Iterable[Outcome],
    pending: Sequence[RunSpec],
    total: int,
    progress: bool,
    cost: Callable[[RunSpec], float],
) -> Iterator[Outcome]:
    """Live progress over all runs, with the time left by their cost."""
    name = "/".join(dict.fromkeys(spec.experiment for spec in pending))
    left, done, failed = sum(map(cost, pending)), 0.0, 0
    start = time.perf_counter()
    shown = "{desc}: {n_fmt} of {total_fmt} runs |{bar}| {elapsed}{postfix}"
    initial = total - len(pending)
    with tqdm(total=total, initial=initial, desc=name, bar_format=shown, mininterval=0, disable=not progress) as bar:
        for outcome in outcomes:
            failed += outcome.error is not None
            done += cost(outcome.spec)
            rest = tqdm.format_interval((time.perf_counter() - start) / done * (left - done))
            bar.set_postfix_str(f"{rest} left{f', {failed} failed' * bool(failed)}", refresh=False)
            bar.update()
            yield outcome


# --- storing and reading ---------------------------------------------------------------------------------------------


def state(spec: RunSpec, code: str | None = None, *, data_path: Path | None = None) -> State:
    """Whether the run is stored whole; "stale" if its configuration (or `code`, when given, or a library) changed.

    data_path: where to look; default: where the run is computed.
    """
    data_path = data_path or spec.data_path
    manifest_path = _manifest_path(data_path)
    if not data_path.exists() and not manifest_path.exists():
        return "missing"
    try:
        manifest = _verified_manifest(data_path)
    except CorruptRunError:
        return "corrupt"
    if _run_columns(manifest) != {column: getattr(spec, column) for column in RUN_COLUMNS}:
        return "corrupt"
    fresh = manifest["config_sha256"] == sha256(canonical(spec.config).encode())
    same_code = code is None or (code, versions()) == (manifest["code_sha256"], manifest["versions"])
    return "finished" if fresh and same_code else "stale"


def load(experiment: str, profile: str = SAVED) -> pd.DataFrame:
    """All stored runs of an experiment in one tidy table: the run's columns first, then the data's; sorted by run.

    Profile "saved" reads the committed runs; the column `profile` says which one computed each.
    """
    return _table([_read(path) for path in _stored(experiment, profile)])


def manifests(experiment: str, profile: str = SAVED) -> pd.DataFrame:
    """One row for each stored run: its columns, wall and CPU time in seconds (NaN if unknown), commit, versions."""
    rows = []
    for path in _stored(experiment, profile):
        manifest = _verified_manifest(path)
        columns = ("started", "wall_time", "rows", "commit")
        times = {"cpu_time": manifest.get("cpu_time", float("nan"))}
        rows.append(_run_columns(manifest) | {c: manifest[c] for c in columns} | times | manifest["versions"])
    return pd.DataFrame(rows)


def promote(profile: str, experiment: str, *, replace: bool = False) -> list[Path]:
    """Copy the whole runs of a profile to `data/runs`, to be committed. Other data there is kept unless `replace`."""
    written = []
    for source in _stored(experiment, profile):
        _verified_manifest(source)
        target = directory(SAVED) / profile / experiment / source.name
        if target.exists() and target.read_bytes() != source.read_bytes() and not replace:
            raise FileExistsError(f"{target} holds other data; pass replace=True to put the new run in its place")
        target.parent.mkdir(parents=True, exist_ok=True)
        for file, copy in ((source, target), (_manifest_path(source), _manifest_path(target))):
            shutil.copyfile(file, part := _partial(copy))
            os.replace(part, copy)
            written.append(copy)
    return written


def _stored(experiment: str, profile: str) -> list[Path]:
    """Data files of an experiment, sorted. One half of a pair alone counts too, so that reading it complains."""
    home = directory(profile)
    found = home.glob(f"*/{experiment}/*") if profile == SAVED else home.glob(f"{experiment}/*")
    stored = {}
    for path in found:
        if name := re.fullmatch(r"(.+--.+)--(\d+)\.(parquet|json)", path.name):
            stored[path.parent, name[1], int(name[2])] = path.with_suffix(".parquet")
    if not stored:
        raise FileNotFoundError(
            f"no runs of {experiment!r} under {home}; compute them: python -m lstoc_core reproduce --profile quick"
        )
    return [stored[run] for run in sorted(stored)]


def _is_usable(spec: RunSpec, code: str, *, keep_stale: bool) -> bool:
    """True for a finished run; one that is damaged or stale is moved aside first, to be redone."""
    for leftover in spec.data_path.parent.glob(f"{spec.data_path.stem}.*.partial-*"):
        leftover.unlink(missing_ok=True)
    now = state(spec, None if keep_stale else code)
    if now in ("corrupt", "stale"):
        _move_aside(spec.data_path, now)
    return now == "finished"


def _move_aside(data_path: Path, reason: str) -> None:
    number = 1
    files = [data_path, _manifest_path(data_path)]
    while any(Path(f"{file}.{reason}-{number}").exists() for file in files):
        number += 1
    for file in files:
        if file.exists():
            os.rename(file, f"{file}.{reason}-{number}")


def _store(outcome: Outcome, origin: Mapping[str, Any]) -> None:
    """Write data, then manifest, each under its name only once it is whole on the disk."""
    spec = outcome.spec
    manifest = {
        "run": {column: getattr(spec, column) for column in RUN_COLUMNS},
        "config": dict(spec.config),
        "rows": outcome.rows,
        "data_sha256": sha256(outcome.data),
        "config_sha256": sha256(canonical(spec.config).encode()),
        "started": outcome.started,
        "wall_time": round(outcome.wall_time, 3),
        "cpu_time": round(outcome.cpu_time, 3),
        "versions": dict(outcome.versions),
        **origin,
    }
    if spec.data_path.exists():  # another process finished it in the meantime
        _move_aside(spec.data_path, "superseded")
    for file, content in (
        (spec.data_path, outcome.data),
        (_manifest_path(spec.data_path), json.dumps(manifest, indent=1, sort_keys=True).encode()),
    ):
        with (part := _partial(file)).open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, file)


def _remove_checkpoints(spec: RunSpec) -> None:
    """A stored run needs none."""
    pattern = checkpoint_place(spec, "*")
    for place in pattern.parent.glob(pattern.name):
        shutil.rmtree(place, ignore_errors=True)


def _verified_manifest(data_path: Path) -> dict[str, Any]:
    """The manifest of a stored run, after checking that the data is what it says."""
    remedy = "computing again moves it aside and redoes it; a committed one comes back with git checkout"
    try:
        manifest = json.loads(_manifest_path(data_path).read_text())
        whole = manifest["data_sha256"] == sha256(data_path.read_bytes()) and set(manifest["run"]) == set(RUN_COLUMNS)
        manifest["config_sha256"], manifest["code_sha256"], manifest["versions"]
        run = manifest["run"]
        name = run["experiment"], f"{run['task']}--{run['method']}--{run['seed']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptRunError(f"{data_path} is half-written or damaged ({error!r}); {remedy}") from error
    if not whole:
        raise CorruptRunError(f"{data_path} does not have the hash in its manifest; {remedy}")
    if name != (data_path.parent.name, data_path.stem):
        raise CorruptRunError(f"{data_path} holds another run by its manifest, {run}; {remedy}")
    return manifest


def _read(data_path: Path) -> pd.DataFrame:
    manifest = _verified_manifest(data_path)
    frame = pd.read_parquet(data_path)
    for position, (column, value) in enumerate(_run_columns(manifest).items()):
        frame.insert(position, column, value)
    return frame


def _run_columns(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {column: manifest["run"][column] for column in RUN_COLUMNS}


def _table(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(RUN_COLUMNS))


def _to_parquet(frame: pd.DataFrame) -> bytes:
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"a run returns a pandas DataFrame, not {type(frame).__name__}")
    if clash := set(frame.columns) & set(RUN_COLUMNS):
        raise ValueError(f"columns {sorted(clash)} are added by cache.load; leave them out of the run's data")
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False, compression="zstd", compression_level=9)
    return buffer.getvalue()


def _manifest_path(data_path: Path) -> Path:
    return data_path.with_suffix(".json")


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial-{os.getpid()}")


def function_path(function: RunFunction) -> str:
    """ "package.module:name", by which another process finds the function."""
    path = f"{function.__module__}:{function.__qualname__}"
    if function.__module__ == "__main__" or "<" in function.__qualname__:
        raise ValueError(f"{path} cannot be found by another process: define it at the top level of a module")
    return path
