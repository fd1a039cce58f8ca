"""The command line: `python -m lstoc_core COMMAND`, also installed as `lstoc`.

Exit codes: 0 done, 1 a run failed, 2 the command makes no sense or misses something to run with (nothing was run). Each
command imports what it needs, and prints before it imports something slow.
"""

import ast
import contextlib
import csv
import json
import math
import os
import subprocess
import sys
import threading
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import Positional, UseAppendAction, arg

from lstoc_core import paths
from lstoc_core.study.executors import ONE_THREAD, ExecutorError
from lstoc_core.suggestions import unknown

app = tyro.extras.SubcommandApp()


class CommandError(Exception):
    """The command line names something that does not exist or makes no sense: exit code 2."""


@app.command
def reproduce(
    profile: Annotated[Literal["smoke", "quick", "paper", "saved"], arg(aliases=["-P"])] = "quick",
    only: UseAppendAction[tuple[str, ...]] = (),
    parameter: Annotated[UseAppendAction[tuple[tuple[str, str], ...]], arg(aliases=["-p"], metavar="NAME VALUE")] = (),
    workers: int | None = None,
    scheduler: str | None = None,
) -> int:
    """Run the notebooks and draw every figure and table of the paper.

    Args:
        profile: smoke: all code, no meaning; quick: small budgets; paper: the paper's; saved: draw committed runs.
        only: A notebook (name or number) or a figure's name; may be repeated.
        parameter: Give a notebook parameter another value; may be repeated.
        workers: Processes to compute with; default: one for each core.
        scheduler: Address of a dask cluster (tcp://host:port) to compute on instead.
    """
    from lstoc_core import reproduce as driver

    if workers is not None:
        os.environ["LSTOC_WORKERS"] = str(workers)
    if scheduler is not None:
        os.environ["LSTOC_SCHEDULER"] = scheduler
    names = [name for name, _ in parameter]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise CommandError(f"parameter {repeated[0]!r} is given more than once: give it one value")
    try:
        results = driver.reproduce(profile, only, {name: _literal(value) for name, value in parameter})
    except driver.UsageError as error:
        raise CommandError(str(error)) from error
    print(f"\n{driver.summary(results)}\n\n{driver.closing(results, profile)}")
    return 0 if all(result.ok for result in results) else 1


@app.command
def run(
    experiment: Positional[str],
    profile: Annotated[Literal["smoke", "quick", "paper"], arg(aliases=["-P"])] = "quick",
    tasks: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (),
    workers: int | None = None,
    scheduler: str | None = None,
    keep_stale: bool = False,
    save: bool = False,
) -> int:
    """Compute the runs of an experiment that are missing, and say what there is.

    Args:
        experiment: Its name, as efficiency or discovery; a name that does not exist lists those that do.
        profile: Budgets. smoke: to see that it runs; quick: small; paper: the paper's.
        tasks: Only these; with all methods of the experiment, whatever the profile leaves out.
        methods: Only these, on all tasks of the profile or those given.
        seeds: Only these; default: the profile's.
        workers: Processes to compute with; default: one for each core.
        scheduler: Address of a dask cluster (tcp://host:port) to compute on instead.
        keep_stale: Keep finished runs of older code.
        save: Copy all finished runs of the profile to data/runs, to be committed; old ones there are replaced.
    """
    from lstoc_core.study import cache, experiments
    from lstoc_core.study.variants import ExperimentError

    try:
        entry = experiments.experiment(experiment)
        specs = entry.specs(profile, tasks=tasks, methods=methods, seeds=seeds)
    except ExperimentError as error:
        raise CommandError(str(error)) from error
    code = 0
    try:
        cache.compute(
            specs,
            entry.kind.measure,
            workers=workers,
            scheduler=scheduler,
            keep_stale=keep_stale,
            cost=experiments.cost,
        )
    except cache.RunsFailed as failure:
        print(failure, file=sys.stderr)
        code = 1
    with contextlib.suppress(FileNotFoundError):  # all failed, and there are none from before
        done = cache.manifests(entry.kind.name, profile).groupby(["task", "method"])
        print(done.agg(seeds=("seed", "nunique"), seconds=("wall_time", "mean")).round(1).to_string())
    print(f"{len(specs)} runs of {experiment} asked for; they are in {cache.directory(profile) / entry.kind.name}")
    if save:
        written = cache.promote(profile, entry.kind.name, replace=True)
        print(f"{len(written) // 2} runs copied to {cache.directory('saved') / profile / entry.kind.name}")
    return code


@app.command
def status(profile: Annotated[Literal["smoke", "quick", "paper"], arg(aliases=["-P"])] = "paper") -> int:
    """Say for each experiment which of its runs are committed, missing or stale, and the time they took.

    Args:
        profile: The profile whose runs are looked for in data/runs.
    """
    paths.require_checkout("lstoc status")
    from lstoc_core.study.status import overview

    print(overview(profile))
    return 0


@app.command
def claims(write: bool = False) -> int:
    """Say of each claim of the paper that runs decide whether the committed runs confirm it.

    Args:
        write: Write the page docs/claims.md instead of printing it.
    """
    paths.require_checkout("lstoc claims")
    from lstoc_core.study.claims import page

    if not write:
        print(page(), end="")
        return 0
    file = paths.ROOT / "docs" / "claims.md"
    file.write_text(page())
    print(f"written to {file}")
    return 0


@app.command
def discover(
    task: Positional[str],
    method: Literal["guided", "forward"] = "guided",
    explorer: Literal["auto", "planner", "policy"] = "auto",
    seed: int = 0,
    max_steps: int = 1_000_000,
    solve: bool = False,
    save: Path | None = None,
    gif: Path | None = None,
    png: Path | None = None,
    checkpoint: Path | None = None,
    progress: bool = True,
) -> int:
    """Find the hidden subgoals of a task, their order and their names, from success or failure alone.

    The exit code is 0 if they are exactly those of the task. Ctrl-C ends the run and shows what it has found: exit
    code 130.

    Args:
        task: Name of the task; `lstoc tasks` lists them.
        method: guided: counterexample-guided contrast (ours); forward: the paper's.
        explorer: planner: asks by plans on a map that it learns; policy: the paper's, trained by PPO; auto: the planner
            while its map predicts well, else the policy.
        seed: Seed of everything random.
        max_steps: Environment steps to give up after.
        solve: Go on until the policy completes the task.
        save: Write the result and its history there, as JSON.
        gif: Write an animation there: an episode that completes the task, and its way through the tree.
        png: Write a picture of the tree there, with what the agent saw at its key states.
        checkpoint: A directory; the run is saved there every minute, and the same command goes on from it.
        progress: Show a progress bar.
    """
    chosen = _task(task)
    for option, file, example in (("save", save, "result.json"), ("gif", gif, "episode.gif"), ("png", png, "tree.png")):
        if file is not None:
            _check_file(option, file, example)
    os.environ.update(ONE_THREAD)  # before torch is imported
    from lstoc_core.loop import discover as run
    from lstoc_core.scoring import score
    from lstoc_core.terminal import Brush, report

    try:
        found = run(
            chosen,
            method=method,
            explorer=explorer,
            seed=seed,
            max_steps=max_steps,
            solve=solve,
            progress=progress,
            checkpoint=checkpoint,
        )
    except ValueError as error:  # an argument or a checkpoint that cannot be used; the message names the remedy
        raise CommandError(str(error)) from error
    marks = score(found, chosen)
    print(report(found, chosen, marks, Brush.of(sys.stdout)))
    if save is not None:
        save.write_text(json.dumps(_plain(_result(found, chosen, marks)), indent=1, allow_nan=False) + "\n")
        print(f"  saved to {save}")
    if png is not None and found.sequences:
        _save_drawing(found, png)
        print(f"  the tree is drawn in {png}")
    if gif is not None and found.num_positives:
        found.animate(gif)
        print(f"  an episode is shown in {gif}")
    for option, file, have in (("png", png, found.sequences), ("gif", gif, found.num_positives)):
        if file is not None and not have:
            print(f"  --{option}: nothing to draw, for no {'success' if option == 'gif' else 'sequence'} was seen")
    if found.interrupted:
        print("  interrupted" + (f"; the same command goes on from {checkpoint}" if checkpoint else ""))
        return 130
    return 0 if marks.exact else 1


def _check_file(option: str, file: Path, example: str) -> None:
    """CommandError or NotWritable, with the remedy, if a file that an option names cannot be written."""
    if file.is_dir():
        raise CommandError(f"--{option} {file} is a directory: name a file in it, like {file / example}")
    suffix = Path(example).suffix
    if option != "save" and file.suffix != suffix:
        raise CommandError(f"--{option} {file}: give a file name that ends with {suffix}")
    paths.require_writable(file.parent, f"the directory of --{option},")


def _save_drawing(found: Any, file: Path) -> None:
    """Write what `Discovery.draw` draws."""
    import matplotlib.pyplot as plt

    figure = found.draw().figure
    figure.savefig(file, dpi=150, bbox_inches="tight")
    plt.close(figure)


def _result(found: Any, task: Any, marks: Any) -> dict[str, Any]:
    """What `--save` writes."""
    return {
        "task": task.name,
        "formula": str(task.formula),
        "sequences": found.sequences,
        "names": dict(found.labeling.mapping) if found.labeling else {},
        "observations": {key.index: key.observation_id for key in found.key_states},
        "score": asdict(marks),
        "missing": str(found.missing),
        **{name: getattr(found, name) for name in _SAVED},
    }


_SAVED = (
    *("method", "exploration", "seed", "finished", "num_trajectories", "num_positives"),
    *("env_steps", "success_rate", "history"),
)


@app.command
def label(sequences: Positional[tuple[str, ...]], formula: str) -> int:
    """Name the key states of discovered sequences by the formula they must satisfy.

    For example: lstoc label "0 1 3" "2 3" --formula "((a;b)|c);d"

    Args:
        sequences: Each one a string of key-state indices, separated by spaces or commas.
        formula: Temporal logic formula over the symbols.
    """
    from lstoc_core.logic import FormulaError, parse

    try:
        indices = [tuple(int(key) for key in sequence.replace(",", " ").split()) for sequence in sequences]
    except ValueError as error:
        raise CommandError(f"a sequence is written as key-state indices, like '0 1 3': {error}") from error
    if not indices or not all(indices):
        raise CommandError("give at least one sequence, and no empty one, like: '0 1 3' '2 3'")
    for sequence in indices:
        if min(sequence) < 0:
            raise CommandError(f"key state {min(sequence)} is negative: key states are numbered from 0")
        if any(one == two for one, two in pairwise(sequence)):
            shown = " → ".join(map(str, sequence))
            raise CommandError(f"the sequence {shown} visits a key state twice in a row: write it once")
    try:
        fsm = parse(formula).fsm()
    except FormulaError as error:
        raise CommandError(str(error)) from error
    print(f"{formula}: {len(fsm.symbols)} symbols, {len(indices)} sequences", flush=True)
    from lstoc_core.labeling import LabelingError
    from lstoc_core.labeling import label as solve

    try:
        print(solve(indices, fsm))
    except LabelingError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


@app.command
def bench(names: Positional[tuple[str, ...]] = (), quick: bool = False) -> int:
    """Run benchmarks, all or those named; `make bench` installs first what they compare with.

    Args:
        names: Names of benchmarks, like envs for benchmarks/bench_envs.py.
        quick: Smaller sizes: to see that they work, not to quote numbers.
    """
    paths.require_checkout("lstoc bench")
    known = {file.stem.removeprefix("bench_"): file for file in sorted((paths.ROOT / "benchmarks").glob("bench_*.py"))}
    for name in names:
        if name not in known:
            raise CommandError(unknown("benchmark", name, known))
    failed = []
    for name in names or known:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, str(known[name]), *(["--quick"] if quick else [])]).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


@app.command
def tasks(measure: bool = False, episodes: int = 20_000, seed: int = 0) -> int:
    """List the tasks: formula, horizon, shortest solution (both in steps), and how often a random walk succeeds.

    Args:
        measure: Measure the random walk again and write data/tasks.csv.
        episodes: Random-walk episodes for each task, when measuring.
        seed: Seed of the random walks.
    """
    file = paths.DATA / "tasks.csv"
    if episodes < 1 or seed < 0:
        raise CommandError(f"--episodes {episodes} --seed {seed}: give at least one episode and a seed from 0 on")
    if measure:
        paths.require_checkout("lstoc tasks --measure")
        paths.require_writable(file.parent, "the directory")
        from lstoc_core.study.facts import task_table

        task_table(episodes=episodes, seed=seed).to_csv(file, index=False)
    line = "{:18} {:8} {:16} {:>7} {:>8} {:>12}"
    print(line.format("task", "domain", "formula", "horizon", "shortest", "random walk"), flush=True)
    from lstoc_core.worlds.tasks import TASKS

    rates = _random_walks(file)
    for task in TASKS.values():
        rate = _percentage(*rates[task.name]) if task.name in rates else "-"
        formula, shortest = str(task.formula), task.shortest_solution
        print(line.format(task.name, task.domain, formula, task.horizon, shortest, rate), flush=True)
    return 0


def main(args: list[str] | None = None) -> None:
    """Parse the command line, run the command, and end the process with its exit code."""
    try:
        code = app.cli(prog="lstoc", description=__doc__.partition("\n")[0], args=args)
        sys.stdout.flush()
    except (CommandError, ExecutorError, paths.NoCheckout, paths.NotWritable) as error:
        print(f"lstoc: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("lstoc: interrupted", file=sys.stderr, flush=True)
        if threading.active_count() > 1:  # the interpreter would wait for threads of notebooks
            os._exit(130)
        code = 130
    except BrokenPipeError:  # whoever reads our output, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:  # a full disk, say, noticed only while writing; what was stored before stays
        print(f"lstoc: {error}", file=sys.stderr)
        code = 1
    sys.exit(code)


def _task(name: str) -> Any:
    from lstoc_core.worlds.tasks import TASKS, TaskError

    try:
        return TASKS[name]
    except TaskError as error:
        told = f"{error}; environments of your own are for Python: lstoc.discover({name!r})"
        raise CommandError(told) from error


def _random_walks(file: Path) -> dict[str, tuple[int, int]]:
    """Task -> successes and episodes of a random walk; empty where nothing was measured (outside a checkout)."""
    if not file.is_file():
        return {}
    with file.open(newline="") as lines:
        return {row["task"]: (int(row["random_successes"]), int(row["episodes"])) for row in csv.DictReader(lines)}


def _percentage(part: int, whole: int) -> str:
    """A share in percent; none at all is said in full, for 0.00% may be a rounded number."""
    return f"{part / whole:.2%}" if part else f"0 of {whole:,}"


def _literal(text: str) -> Any:
    """A parameter's value: a Python literal, or else the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _plain(value: Any) -> Any:
    """The value in JSON's own types: numpy's numbers as Python's, NaN as null."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and math.isnan(value) else value
