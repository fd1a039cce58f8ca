"""Faults, each tried many times: a generator yields what became of every attempt.

*survived*: refused in a sentence that names the remedy, or gone on from to the same result. *lost*: work that had been
done is gone. *wrong*: another result, a mistake that was not noticed, or a traceback.
"""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import distributed
import numpy as np
import pytest
import test_cache
import test_cli
import test_loop
import workload
from test_consistent import STRUCTURES, all_answers, episodes, stored
from test_door import LATE, OBSERVATIONS, Told
from test_limits import TOO_LARGE
from test_proof import Corridor, run
from test_tasks import BAD

import lstoc_core as lstoc
from lstoc_core import cli, paths
from lstoc_core.discovery.consistent import answers, proved
from lstoc_core.discovery.evidence import Evidence
from lstoc_core.logic import FormulaError, parse
from lstoc_core.run.checkpoint import Checkpoint, CheckpointError
from lstoc_core.study import cache, executors
from lstoc_core.trajectories import TrajectoryStore
from lstoc_core.trajectories.door import InputError
from lstoc_core.worlds.domain import TaskError

Outcome = Literal["survived", "lost", "wrong"]
Outcomes = Iterator[Outcome]
HERE = Path(__file__).parent
WITHIN = 3.0
"""Seconds in which a limit must be named."""


@contextlib.contextmanager
def elsewhere() -> Iterator[Path]:
    """A context in which runs, figures and data are in a directory of their own, and runs are done in this process."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        place = Path(name)
        patch.setattr(paths, "BUILD", place / "build")
        patch.setattr(paths, "DATA", place / "data")
        patch.setenv("LSTOC_FIGURES", str(place / "figures"))
        patch.setenv("PYTHONPATH", f"{HERE}:{paths.ROOT}")
        for variable in ("LSTOC_WORKERS", "LSTOC_SCHEDULER"):
            patch.setenv(variable, "")
        patch.setattr(cache, "with_loky", test_cache.in_process)
        yield place


# --- kills ------------------------------------------------------------------------------------------------------------


def killed_at(line: int, of: Callable[..., object], during: Callable[[], object]) -> bool:
    """Do something in a copy of this process that is killed at so many lines of a function; False if it ends before."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    passed = 0

    def trace(frame, event, _):
        nonlocal passed
        if frame.f_code is not of.__code__:
            return None
        passed += event == "line"
        if passed == line:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    try:
        sys.settrace(trace)
        during()
    finally:
        os._exit(0)


def kills_while_storing(count: int) -> Outcomes:
    """A run is killed at every line of the function that stores it: it is stored whole, or done again."""
    for line in range(1, count + 1):
        with elsewhere():
            first, second = test_cache.specs(range(2))
            compute = partial(cache.compute, function=workload.curve, progress=False)
            compute([first])
            before = first.data_path.stat().st_mtime_ns
            if not killed_at(line, cache._store, partial(compute, [second])):
                return
            again = compute([first, second])
            with elsewhere():
                same = compute([first, second]).equals(again)
            yield "wrong" if not same else "survived" if first.data_path.stat().st_mtime_ns == before else "lost"


def kills_while_saving(count: int) -> Outcomes:
    """A run is killed at every line of the function that writes its checkpoint: the state before it, or this one."""
    task, first, whole = test_loop.tiny("a;b;a"), 1_024, 3_072
    straight = test_loop.run(task, max_steps=whole)
    with tempfile.TemporaryDirectory() as place:
        begun = Path(place, "begun")
        done = len(test_loop.run(task, max_steps=first, checkpoint=begun).history)
        for line in range(1, count + 1):
            shutil.copytree(begun, killed := Path(place, str(line)))
            more = partial(test_loop.run, task, max_steps=2 * first, checkpoint=killed)
            if not killed_at(line, Checkpoint.save, more):
                return
            updates: list[object] = []
            resumed = test_loop.run(task, max_steps=whole, checkpoint=killed, callbacks=[updates.append])
            try:
                test_loop.assert_same(resumed, straight)
            except AssertionError:
                yield "wrong"
            else:
                yield "survived" if len(updates) <= len(straight.history) - done else "lost"


def kills_of_run(count: int) -> Outcomes:
    """`kill -9` of a study with processes, once so many of its runs are stored: they stay, the rest is done."""
    with tempfile.TemporaryDirectory() as place:
        study = [sys.executable, str(HERE / "workload.py")]

        def files(build: str, pattern: str) -> dict[str, tuple[bytes, int]]:
            found = Path(place, build).rglob(pattern)
            return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in found}

        def start(build: str) -> subprocess.Popen[bytes]:
            return subprocess.Popen([*study, f"{place}/{build}", "0.2", f"{place}/n"], stderr=subprocess.DEVNULL)

        assert start("whole").wait() == 0
        for number in range(count):
            build = str(number)
            process = start(build)
            while len(files(build, "*.json")) < number and process.poll() is None:
                time.sleep(0.01)
            process.kill()
            process.wait()
            time.sleep(0.7)  # orphaned workers end by themselves
            before = files(build, "*.json")
            ended = start(build).wait()
            after, whole = files(build, "*.parquet"), files("whole", "*.parquet")
            kept = before.items() <= files(build, "*.json").items()
            same = {name: data for name, (data, _) in after.items()} == {
                name: data for name, (data, _) in whole.items()
            }
            yield "lost" if ended or not kept else "survived" if same else "wrong"


REPRODUCE = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import test_reproduce
from lstoc_core import cli, paths, reproduce
from lstoc_core.drawing import gallery
place = pathlib.Path(sys.argv[2])
paths.NOTEBOOKS, paths.BUILD = place / "notebooks", place / "build"
paths.NOTEBOOKS.mkdir(parents=True, exist_ok=True)
(place / "map.md").write_text(test_reproduce.MAP)
reproduce.read_paper_map = lambda: gallery.read_paper_map(place / "map.md")
reproduce.write_thumbnails = lambda *_: []
test_reproduce.write("00_good", test_reproduce.DRAW.format(files=["first.pdf", "first.png"]))
cli.main(["reproduce", "-P", "smoke", "--only", "0"])
"""


def kills_of_reproduce(count: int) -> Outcomes:
    """`kill -9` of a reproduction: the same command makes the same figures afterwards."""
    with tempfile.TemporaryDirectory() as place:

        def start(build: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-c", REPRODUCE, str(HERE), f"{place}/{build}"]
            return subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

        def figures(build: str) -> dict[str, bytes]:
            return {file.name: file.read_bytes() for file in Path(place, build).rglob("figures/first*")}

        begin = time.monotonic()
        assert start("whole").wait() == 0
        takes = time.monotonic() - begin
        for number in range(count):
            process = start(str(number))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(takes * (number + 1) / (count + 1))
            process.kill()
            process.wait()
            ended = start(str(number)).wait()
            yield "lost" if ended else "survived" if figures(str(number)) == figures("whole") else "wrong"


# --- files, processes -------------------------------------------------------------------------------------------------


def damaged_runs(count: int) -> Outcomes:
    """Run files that are cut, edited, exchanged or half gone: noticed, moved aside, done again."""
    damages = [value for name, value in vars(test_cache).items() if name.startswith("damage_")]
    for damage in damages[:count]:
        with elsewhere():
            wanted = test_cache.specs(range(2))
            table = test_cache.compute(wanted)
            damage(wanted[1].data_path)
            if cache.state(wanted[1]) != "corrupt":
                yield "wrong"
                continue
            same = test_cache.compute(wanted).equals(table)
            aside = list(wanted[1].data_path.parent.glob("*.corrupt-1"))
            yield "survived" if same and aside else "lost" if same else "wrong"


def damaged_checkpoints(count: int) -> Outcomes:
    """Files of a checkpoint cut short or with a bit flipped: the state before is taken, or the remedy is named."""
    with tempfile.TemporaryDirectory() as place:
        for budget in (60, 120):
            run(Corridor, fsm="a;b", confirm=200, checkpoint=place, max_steps=budget)
        whole = {file: file.read_bytes() for file in sorted(Path(place).iterdir()) if file.stat().st_size}
        for number in range(count):
            for file, data in whole.items():
                file.write_bytes(data)
            file, data = [*whole.items()][number % len(whole)]
            at = len(data) * number // count
            file.write_bytes(data[:at] if number % 2 else data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            try:
                found = run(Corridor, fsm="a;b", confirm=200, checkpoint=place, max_steps=400)
            except CheckpointError as error:
                yield "survived" if "delete this one to begin anew" in str(error) else "wrong"
            else:
                yield "survived" if found.missing or found.proved else "wrong"


def two_processes(count: int) -> Outcomes:
    """Two processes that compute the same runs in one checkout: each run is done once, both end well."""
    for _ in range(count):
        with tempfile.TemporaryDirectory() as place:
            command = [sys.executable, str(HERE / "workload.py"), f"{place}/both", "0", f"{place}/count"]
            both = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2)]
            codes = [process.wait(timeout=120) for process in both]
            done = Path(place, "count").read_text().count("\n")
            yield "lost" if any(codes) else "survived" if done == 8 else "wrong"


def lost_workers(count: int) -> Outcomes:
    """Processes of a study that die, all workers of a cluster gone, one with other code: named, the others are kept."""
    ways = (_process_died, _one_of_a_cluster_died, _all_of_a_cluster_gone, _other_code)
    for way in ways[:count]:
        with elsewhere(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(cache, "with_loky", executors.with_loky)
            patch.setattr(executors, "LOOK_EVERY", 0.2)
            patch.setattr(executors, "WAIT_FOR_WORKERS", 0.5)
            yield "survived" if way() else "lost"


def _process_died() -> bool:
    wanted = test_cache.specs(range(3))
    try:
        cache.compute(wanted, workload.die_on_seed_1, progress=False, workers=2)
    except cache.RunsFailed as error:
        named = list(error.failures) == [wanted[1].name] and "process died" in str(error)
        return named and [cache.state(spec) for spec in wanted] == ["finished", "missing", "finished"]
    return False


def _one_of_a_cluster_died() -> bool:
    options = {"threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with distributed.LocalCluster(n_workers=2, **options) as cluster:
        address, results = cluster.scheduler_address, []
        for result in executors.with_dask(
            workload.first_then_sleep, [0.01, 1, 1, 1], lambda item, why: why, workers=2, scheduler=address
        ):
            if not results:
                os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
            results.append(result)
        return sorted(results) == [0.01, 1, 1, 1]


def _all_of_a_cluster_gone() -> bool:
    options = {"threads_per_worker": 1, "dashboard_address": None, "processes": False}
    with distributed.LocalCluster(n_workers=1, **options) as cluster:
        results = executors.with_dask(
            workload.first_then_sleep, [0, 9], lambda item, why: why, workers=1, scheduler=cluster.scheduler_address
        )
        first = next(results)
        cluster.scale(0)
        return first == 0 and "are gone: start some, and give the command again" in next(results)


def _other_code() -> bool:
    (spec,) = test_cache.specs([0])
    outcome = cache.execute_run(spec, functions={"e": "workload:curve"}, logs=None, expected="another")
    return "other code or libraries: install the same there" in str(outcome.error)


# --- input ------------------------------------------------------------------------------------------------------------


def bad_input(count: int) -> Outcomes:
    """Observations and labels that cannot be used: refused in a sentence, and what was collected is kept."""
    worlds = [partial(Told, space, tell) for space, tell, _ in OBSERVATIONS.values()]
    for wrong in ("False", "0", float("nan"), 0.3, None):
        worlds.append(partial(Told, label=lambda done, episode, wrong=wrong: wrong if episode >= LATE else done))
    for explorer in ("planner", "policy"):
        for world in worlds[: count // 2]:
            try:
                run(world, fsm="a;b", confirm=100, explorer=explorer)
                yield "wrong"
            except (InputError, TypeError) as error:
                kept = getattr(error, "discovery", None)
                yield "survived" if kept is not None and len(kept.trajectories) >= LATE - 2 else "lost"


def raising_worlds(count: int) -> Outcomes:
    """An environment that raises: the checkpoint has every episode before, and the same call goes on."""

    class Raising(Corridor):
        broken = True

        def step(self, action):
            if self.broken and self.episode >= at:
                raise ConnectionError("the simulator is gone")
            return super().step(action)

    for at in np.linspace(1, 12, count).astype(int).tolist():
        with tempfile.TemporaryDirectory() as place:
            Raising.broken = True
            with contextlib.suppress(ConnectionError):
                run(Raising, fsm="a;b", confirm=100, checkpoint=place)
            Raising.broken, again = False, []
            found = run(Raising, fsm="a;b", confirm=100, checkpoint=place, callbacks=[again.append])
            kept = len(found.trajectories) - sum(record["episodes"] for record in again)
            yield "wrong" if not found.proved else "survived" if kept >= at else "lost"


def mistakes(count: int) -> Outcomes:
    """Arguments and variables of the command line that make no sense: one sentence, exit code 2, no traceback."""
    asked = [({}, arguments, told) for arguments, told in test_cli.MISTAKES]
    asked += [({name: value}, arguments, told) for name, value, arguments, told in test_cli.VARIABLES]
    for variables, arguments, told in asked[:count]:
        printed = io.StringIO()
        with elsewhere(), pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            try:
                with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
                    cli.main(list(arguments))
                code = 0
            except SystemExit as ended:
                code = ended.code
            except Exception:  # a traceback is what must not be seen
                code = -1
        yield "survived" if code == 2 and told in printed.getvalue() else "wrong"


def large_work(count: int) -> Outcomes:
    """Formulas and worlds that are too large: a limit is named within seconds."""
    calls = [(FormulaError, lambda text=text: parse(text).fsm()) for text, _ in TOO_LARGE]
    calls += [(TaskError, partial(lstoc.make_task, **BAD[name][0])) for name in BAD if "too large" in name]
    calls += [(ValueError, parse(";".join(["(a|b)", "(c|d)"] * 10)).minimal_sequences)]
    for refused, call in calls[:count]:
        begin = time.process_time()
        try:
            call()
            yield "wrong"
        except refused:
            yield "survived" if time.process_time() - begin < WITHIN else "wrong"


def fuzzed(count: int) -> Outcomes:
    """Formulas of random text, and files with random bytes: read, or refused with the error that is documented."""
    rng = np.random.default_rng(0)
    found = run(Corridor, fsm="a;b", confirm=0)
    with tempfile.TemporaryDirectory() as place:
        found.trajectories.save(store := Path(place, "store.npz"))
        found.save(whole := Path(place, "found"))
        run(Corridor, fsm="a;b", confirm=0, checkpoint=(saved := Path(place, "checkpoint")))
        state = saved / "loop.json"
        resume = partial(run, Corridor, fsm="a;b", confirm=0, checkpoint=saved, max_steps=1)
        files = {file: file.read_bytes() for file in (store, whole, state)}
        readers = {store: partial(TrajectoryStore.load, store), whole: partial(lstoc.load, whole), state: resume}
        for number in range(count):
            if number % 4 == 3:
                file = [*files][number // 4 % 3]
                data = bytearray(files[file])
                for at in rng.integers(len(data), size=rng.integers(1, 9)):
                    data[at] = rng.integers(256)
                file.write_bytes(data)
                call, refused = readers[file], (InputError, CheckpointError)
            else:
                text = "".join(rng.choice([*"ab1_;&|()∧∨ \n\\é😀\0"], size=rng.integers(1, 40)))
                call, refused = partial(parse, text), (FormulaError,)
            try:
                call()
                yield "survived"
            except refused:
                yield "survived"
            except Exception:  # any other error is what must not be seen
                yield "wrong"
            for file, data in files.items():
                file.write_bytes(data)


def proofs(count: int) -> Outcomes:
    """Random instances in which the proof is compared with trying out all answers."""
    for number in range(count):
        structure = STRUCTURES[number % len(STRUCTURES)]
        _, successes, failures = episodes(number, (1, 3, 6, 12, 40)[number // len(STRUCTURES) % 5], structure)
        found = answers(Evidence(stored(successes, failures)), structure)
        expected = all_answers(successes, [*failures, *(ids[:-1] for ids in successes)], structure)
        yield "survived" if proved(found, structure) == (len(expected) == 1) else "wrong"


FAULTS: dict[str, tuple[Callable[[int], Outcomes], int, int]] = {
    "a study of several processes killed": (kills_of_run, 8, 0),
    "a reproduction killed": (kills_of_reproduce, 7, 0),
    "a run killed at a line of what stores it": (kills_while_storing, 99, 4),
    "a run killed at a line of what writes its checkpoint": (kills_while_saving, 99, 2),
    "files of a run damaged": (damaged_runs, 99, 3),
    "files of a checkpoint damaged": (damaged_checkpoints, 60, 6),
    "two processes on the same runs": (two_processes, 2, 0),
    "workers killed, gone, or with other code": (lost_workers, 4, 0),
    "observations and labels that cannot be used": (bad_input, 26, 4),
    "an environment that raises": (raising_worlds, 12, 2),
    "mistakes on the command line": (mistakes, 99, 6),
    "formulas and worlds that are too large": (large_work, 99, 3),
    "formulas of random text, files with random bytes": (fuzzed, 2_000, 60),
    "proofs against trying out all answers": (proofs, 2_000, 30),
}
"""What is tried, at most how often, and how often in the small size."""


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Warnings that say what was done about a fault are expected here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
