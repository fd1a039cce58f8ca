"""Every figure of the paper from one command: run the notebooks headless with papermill, and check what they drew.

Each notebook runs in a fresh kernel with the chosen profile. Its executed copy goes to `build/<profile>/notebooks`, its
figures go to `figures/`; those of the profile "smoke" mean nothing and go to `build/smoke/figures`. The runs of the
experiments that the notebooks declare are computed first, in one pool; then the notebooks run side by side.
"""

import ast
import contextlib
import csv
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lstoc_core import paths
from lstoc_core.drawing.gallery import Item, Notebook, read_paper_map, record_origin, write_gallery
from lstoc_core.drawing.thumbnails import write_thumbnails
from lstoc_core.study import experiments
from lstoc_core.study.cache import SAVED, RunsFailed
from lstoc_core.study.executors import ONE_THREAD, ExecutorError, cluster_address, processes
from lstoc_core.study.provenance import commit, sha256
from lstoc_core.suggestions import unknown

PROFILES = ("smoke", "quick", "paper", "saved")
"""Budgets: every code path in minutes; small; the paper's own; nothing computed, only the committed runs drawn."""
CELL_WITHIN = 3600
"""Seconds after which a cell counts as hanging; the runs of experiments are computed before, outside the notebooks."""
STOP_WITHIN = 2.0
"""Seconds that notebooks have to end after Ctrl-C."""


class UsageError(ValueError):
    """The request cannot be carried out as it stands; nothing has been run."""


@dataclass(frozen=True)
class Result:
    """What became of one notebook: seconds it took, figures found of those promised, and why it failed if it did."""

    notebook: str
    seconds: float
    figures: int
    promised: int
    status: str
    error: str = ""
    changed: tuple[str, ...] = ()
    """Files of figures that are not, byte for byte, what they were before."""

    @property
    def ok(self) -> bool:
        return self.status == "ok"


def reproduce(
    profile: str = "quick", only: Sequence[str] = (), parameters: Mapping[str, Any] | None = None
) -> list[Result]:
    """Run the notebooks in order, all or those that `only` names, and write the gallery and a summary.

    `only` holds notebook names or numbers, or names of figures. Beyond `profile`, `parameters` must be known to every
    notebook that runs. A notebook that fails does not keep the others from running.
    """
    if profile not in PROFILES:
        raise UsageError(unknown("profile", profile, PROFILES))
    if "profile" in (parameters or {}):
        raise UsageError("the parameter 'profile' is given by --profile, for all notebooks: leave it out of -p")
    try:
        cluster_address()
        processes()
    except ExecutorError as error:
        raise UsageError(str(error)) from error
    items = read_paper_map()
    notebooks = select(sorted(paths.NOTEBOOKS.glob("[0-9]*.ipynb")), only, items)
    values = {"profile": profile, **(parameters or {})}
    for notebook in notebooks:
        check_parameters(notebook, values)
        declared_experiments(notebook)

    build = paths.BUILD / profile
    figures = figures_of(profile)
    for directory in (build / "notebooks", figures):
        paths.require_writable(directory, "the directory")
    results = []
    kernels = Kernels()

    def run(notebook: Path) -> tuple[Result, list[str]]:
        promised = [item for item in items if item.notebook == notebook.stem and item.files]
        return run_notebook(notebook, build / "notebooks" / notebook.name, values, figures, promised, kernels)

    compute_runs(notebooks, profile)
    pool = ThreadPoolExecutor(os.cpu_count())
    with (
        _environment(ONE_THREAD | {"LSTOC_FIGURES": str(figures)}),
        tqdm(total=len(notebooks), desc=f"profile {profile}", unit="notebook") as bar,
    ):
        jobs = [pool.submit(run, notebook) for notebook in notebooks]
        with kernels.ended_on_interrupt(jobs):
            for result, made in (job.result() for job in jobs):
                results.append(result)
                bar.update()
                tqdm.write(f"{result.notebook}: {result.status}, {result.seconds:.1f} s")
                origin = {"notebook": result.notebook, "profile": profile, "commit": commit()}
                record_origin(figures, made, origin | {"date": datetime.now(UTC).date().isoformat()})
    pool.shutdown()
    write_gallery(figures, items)
    write_thumbnails(figures, notebooks)
    _write_summary(build / "summary.csv", results)
    return results


def figures_of(profile: str) -> Path:
    """Directory of the figures that a profile draws."""
    return paths.BUILD / profile / "figures" if profile == "smoke" else paths.figures()


def compute_runs(notebooks: Sequence[Path], profile: str) -> None:
    """Compute the runs of the experiments that the notebooks declare, all in one pool.

    Failed runs are only printed here: the notebook that reads them fails and says so.
    """
    if profile == SAVED:
        return
    asked = dict.fromkeys(name for notebook in notebooks for name in declared_experiments(notebook))
    try:
        experiments.compute(asked, profile)
    except RunsFailed as failure:
        print(failure, file=sys.stderr)


def declared_experiments(notebook: Path) -> tuple[str, ...]:
    """The parameter `experiments` of a notebook: names of the experiments whose runs it reads; empty without it."""
    declared = _parameters(notebook).get("experiments", ())
    for name in declared:
        if name not in experiments.EXPERIMENTS:
            raise UsageError(f"{notebook.name}: {unknown('experiment', name, experiments.EXPERIMENTS)}")
    return tuple(declared)


def select(notebooks: Sequence[Path], only: Sequence[str], items: Sequence[Item]) -> list[Path]:
    """The notebooks that names stand for: a stem ("04_contrastive"), a number ("4"), or the name of a paper item."""
    if not notebooks:
        raise UsageError(f"no notebooks in {paths.NOTEBOOKS}")
    meaning: dict[str, str] = {}
    for notebook in notebooks:
        number, _, title = notebook.stem.partition("_")
        meaning |= dict.fromkeys((notebook.stem, number, str(int(number)), title), notebook.stem)
    stems = {notebook.stem for notebook in notebooks}
    meaning |= {item.name: item.notebook for item in items if item.notebook in stems}
    for name in only:
        if name not in meaning:
            raise UsageError(unknown("notebook or figure", name, meaning))
    wanted = {meaning[name] for name in only} or stems
    return [notebook for notebook in notebooks if notebook.stem in wanted]


def check_parameters(notebook: Path, values: Mapping[str, Any]) -> None:
    """Raise if the notebook does not know a parameter: papermill itself would only warn, and run with the default."""
    known = _parameters(notebook)
    if not known:
        raise UsageError(f"{notebook.name} has no cell tagged 'parameters', or no parameter in it")
    for name, value in values.items():
        if name not in known:
            raise UsageError(
                f"{notebook.name} has no parameter {name!r}, it has {', '.join(known)}; "
                "choose the notebooks that have it with --only"
            )
        default = known[name]
        if default is not None and not isinstance(value, (int, float) if isinstance(default, float) else type(default)):
            raise UsageError(f"{notebook.name}: {name} is {type(default).__name__} (now {default!r}), not {value!r}")


def _parameters(notebook: Path) -> dict[str, Any]:
    """Parameters of a notebook with their default values."""
    import papermill

    return {
        name: ast.literal_eval(parameter["default"])
        for name, parameter in papermill.inspect_notebook(str(notebook)).items()
    }


class Kernels:
    """The processes that notebooks run in, to be ended with the command."""

    def __init__(self) -> None:
        self._managers: list[Any] = []

    def manager(self) -> type:
        """A class of kernel managers whose kernels are remembered here."""
        from jupyter_client import AsyncKernelManager

        managers = self._managers

        class Remembered(AsyncKernelManager):
            def __init__(self, **options: Any) -> None:
                super().__init__(**options)
                managers.append(self)

        return Remembered

    @contextlib.contextmanager
    def ended_on_interrupt(self, jobs: Sequence[Future[Any]]) -> Iterator[None]:
        """A context in which Ctrl-C starts no further job, and ends the kernels of those that run."""
        try:
            yield
        except KeyboardInterrupt:
            deadline = time.monotonic() + STOP_WITHIN
            for job in jobs:
                job.cancel()
            while any(job.running() for job in jobs) and time.monotonic() < deadline:
                self._kill()  # again and again: a kernel may just be starting
                time.sleep(0.05)
            raise

    def _kill(self) -> None:
        for manager in self._managers:
            if manager.has_kernel and manager.provisioner.pgid != os.getpgrp():  # it leads a group of its own
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(manager.provisioner.pgid, signal.SIGKILL)


def run_notebook(
    notebook: Path,
    copy: Path,
    values: Mapping[str, Any],
    figures: Path,
    promised: Sequence[Item],
    kernels: Kernels | None = None,
) -> tuple[Result, list[str]]:
    """Run one notebook; the result, and the files of figures that it wrote anew, promised or not."""
    import papermill
    from papermill.exceptions import PapermillExecutionError

    before, content = _states(notebook, figures, promised)
    start = time.perf_counter()
    error = ""
    try:
        papermill.execute_notebook(
            str(notebook),
            str(copy),
            parameters=dict(values),
            kernel_name="python3",
            cwd=str(notebook.parent),
            execution_timeout=CELL_WITHIN,
            kernel_manager_class=(kernels or Kernels()).manager(),
            extra_arguments=["--log-level=CRITICAL"],  # kernels talk of their transport on the terminal
            progress_bar={"desc": notebook.stem, "leave": False, "position": 1, "disable": None},
        )
    except PapermillExecutionError as failure:
        error = f"cell [{failure.exec_count}] of {copy}:{failure}"
    except Exception as failure:  # a kernel that died, say: one notebook must not keep the others from running
        error = f"{type(failure).__name__}: {failure}"
    seconds = time.perf_counter() - start
    now, new_content = _states(notebook, figures, promised)
    made = [file for file, time in now.items() if time not in (None, before.get(file))]
    missing = [file for item in promised for file in item.files if file not in made]
    changed = tuple(file for file in made if new_content[file] != content.get(file))
    drawn = sum(set(item.files) <= set(made) for item in promised)
    status = "failed" if error else "figures missing" if missing else "ok"
    error = error or ("not drawn: " + ", ".join(missing) if missing else "")
    return Result(notebook.stem, round(seconds, 1), drawn, len(promised), status, error, changed), made


def summary(results: Sequence[Result]) -> str:
    """A table of notebook, time, figures and status, and after it what went wrong."""
    width = max(len(result.notebook) for result in results)
    lines = [f"{'notebook':{width}}  {'time':>8}  {'figures':>7}  status"]
    for result in results:
        drawn = f"{result.figures}/{result.promised}"
        lines.append(f"{result.notebook:{width}}  {result.seconds:6.1f} s  {drawn:>7}  {result.status}")
    failures = [f"\n{result.notebook}: {result.status}: {result.error}" for result in results if not result.ok]
    return "\n".join([*lines, *failures])


def closing(results: Sequence[Result], profile: str) -> str:
    """Which figures changed, and where all of them are shown."""
    changed = sorted({Path(file).stem for result in results for file in result.changed})
    told = f"{len(changed)} figures changed: {', '.join(changed)}" if changed else "no figure changed"
    return f"{told}\ngallery: {figures_of(profile) / 'index.html'}"


def _write_summary(file: Path, results: Sequence[Result]) -> None:
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(asdict(results[0])))
        writer.writeheader()
        writer.writerows(asdict(result) | {"changed": " ".join(result.changed)} for result in results)


def _states(notebook: Path, figures: Path, promised: Sequence[Item]) -> tuple[dict[str, int | None], dict[str, str]]:
    """Of each file that the notebook is to make or makes: when it was written, None if never, and its checksum."""
    home = Notebook(notebook)
    names = [file for item in promised for file in item.files]
    names += [file.name for file in sorted(figures.iterdir()) if file.name not in names and home.drew(file)]
    files = {name: figures / name for name in names}
    times = {name: file.stat().st_mtime_ns if file.exists() else None for name, file in files.items()}
    return times, {name: sha256(file.read_bytes()) for name, file in files.items() if file.exists()}


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for the kernels that start meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
