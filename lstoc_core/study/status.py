"""Which runs of a profile are committed, which are missing or stale, and how long they took.

    print(overview("paper"))                           # what `python -m lstoc_core status` prints

A committed run is stale if its configuration is not the one its experiment asks for today. Its code is not compared:
a later commit may have changed it without a change of results, which only the run itself can tell.
"""

import json
from itertools import groupby

import pandas as pd

from lstoc_core.study import cache
from lstoc_core.study.experiments import EXPERIMENTS, experiment
from lstoc_core.study.specs import RunSpec

TOTAL = "all, each run once"
"""Name of the last row: experiments share runs, so it is less than the sum of the others."""


def states(profile: str) -> pd.DataFrame:
    """One row for each run that an experiment asks for: its state in `data/runs`, and seconds if it is there.

    Seconds are of the CPU, or of the clock where no CPU time was noted.
    """
    seen: dict[str, tuple[str, float]] = {}
    rows = []
    for name in EXPERIMENTS:
        for spec in experiment(name).specs(profile):
            if spec.name not in seen:
                seen[spec.name] = _look(spec)
            rows.append((name, spec.name, spec.task, spec.method, spec.seed, *seen[spec.name]))
    return pd.DataFrame(rows, columns=["experiment", "run", "task", "method", "seed", "state", "seconds"])


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Runs by state and their hours, a row for each experiment and one for all; the table is that of `states`."""
    once = table.drop_duplicates("run").assign(experiment=TOTAL)
    parts = [*table.groupby("experiment", sort=False), (TOTAL, once)]
    rows = []
    for name, part in parts:
        count = part.state.value_counts()
        found = {"asked": len(part), "present": int(count.get("finished", 0))}
        rest = {state: int(count.get(state, 0)) for state in ("missing", "stale", "corrupt")}
        rows.append({"experiment": name, **found, **rest, "hours": round(part.seconds.sum() / 3600, 2)})
    return pd.DataFrame(rows).set_index("experiment")


def overview(profile: str) -> str:
    """The summary, then by name what is not present: task, method and seeds."""
    table = states(profile)
    lines = [f"committed runs of profile {profile}; hours are of one core", summary(table).to_string()]
    absent = table[table.state != "finished"].drop_duplicates("run")
    for state, part in absent.groupby("state"):
        lines.append(f"\n{state}:")
        seeds = part.groupby(["task", "method"], sort=False).seed.agg(lambda some: _ranges(sorted(set(some))))
        for (task, some), methods in seeds.reset_index().groupby(["task", "seed"]):
            lines.append(f"  {task}, seeds {some}: {', '.join(methods.method)}")
    return "\n".join(lines)


def _look(spec: RunSpec) -> tuple[str, float]:
    """State of a committed run, and the seconds it took."""
    path = spec.committed_path
    state = cache.state(spec, data_path=path)
    if state in ("missing", "corrupt"):
        return state, 0.0
    manifest = json.loads(path.with_suffix(".json").read_text())
    return state, float(manifest.get("cpu_time", manifest["wall_time"]))


def _ranges(seeds: list[int]) -> str:
    """Sorted numbers in words: 0 to 3, 5."""
    parts = []
    for _, run in groupby(enumerate(seeds), key=lambda place_and_seed: place_and_seed[1] - place_and_seed[0]):
        group = [seed for _, seed in run]
        parts.append(str(group[0]) if len(group) == 1 else f"{group[0]} to {group[-1]}")
    return ", ".join(parts)
