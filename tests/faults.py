"""Faults tried on purpose, and what became of them: data/faults.csv, data/violations.csv, docs/faults.md.

    python tests/faults.py                      # `make faults`: the faults of `fault_kinds`, minutes
    python tests/faults.py violations           # what a proof is worth where assumptions fail (`survey`), 15 minutes
    python tests/faults.py page                 # the page alone, from the data as it is

The page also tells data/endless.csv, which `lstoc bench endless --save data/endless.csv` writes.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import survey
from fault_kinds import FAULTS, quietly

from lstoc_core import paths

PAGE = paths.ROOT / "docs" / "faults.md"
FILE, ENDLESS = paths.DATA / "faults.csv", paths.DATA / "endless.csv"
OUTCOMES = ("survived", "lost", "wrong")


def tallied(name: str, *, small: bool = False) -> dict[str, object]:
    """Try one kind of fault: how often it was tried, and what became of it."""
    attempts, count, few = FAULTS[name]
    tries = few if small else count
    with quietly():
        outcomes = Counter(attempts(tries) if tries else ())
    return {"fault": name, "tried": outcomes.total(), **{each: outcomes[each] for each in OUTCOMES}}


def keep(row: dict[str, object]) -> None:
    """Put a row in its place in the file, so that kinds can be tried one by one."""
    rows = {str(old["fault"]): old for old in pd.read_csv(FILE).to_dict("records")} if FILE.exists() else {}
    rows[str(row["fault"])] = row
    pd.DataFrame([rows[name] for name in FAULTS if name in rows]).to_csv(FILE, index=False)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in (head, ["---"] * len(head), *rows))


def page() -> str:
    """The page, from the data."""
    faults, endless = pd.read_csv(FILE), pd.read_csv(ENDLESS)
    judged = pd.read_csv(survey.FILE, keep_default_na=False)
    half = endless[endless.steps <= endless.steps.max() / 2].iloc[-1]
    last = endless.iloc[-1]
    return TEXT.format(
        faults=table(["Fault", "Tried", *(each.capitalize() for each in OUTCOMES)], faults.to_numpy().tolist()),
        violations=table(survey.COLUMNS, [survey.row(part) for _, part in judged.groupby("kind", sort=False)]),
        worlds=judged.groupby("kind").size().max(),
        further=survey.FURTHER,
        confirm=survey.CONFIRM,
        budget=survey.STEPS,
        steps=int(last.steps),
        episodes=int(last.episodes),
        look=endless.longest_look.max(),
        half=half.memory,
        end=last.memory,
        slope=(last.memory - half.memory) * 2**20 / (last.steps - half.steps),
        store=(4 * (last.steps + last.episodes) + 9 * last.episodes) / 2**20,
    )


TEXT = """# Faults tried on purpose

Written by `make faults` from `data/faults.csv`, `data/violations.csv` and `data/endless.csv`.

*Survived*: refused in a sentence that names the remedy, or gone on from to the same result. *Lost*: work that had been
done is gone. *Wrong*: another result, a mistake that was not noticed, or a traceback. Each kind is a function in
`tests/fault_kinds.py`; the unit tests try a few of each.

{faults}

## Where an assumption of the proof does not hold

`make faults ARGS=violations`: `discover` with its defaults and {budget:,} steps in {worlds} random worlds of 4 × 4
cells for each assumption that `lstoc_core.discovery.consistent` lists, violated alone. An answer is *right* if it
predicts every walk within the horizon, tried out exhaustively. *Withdrawn* counts answers that a later episode
contradicted. *Wrong at the end*: finished, confirmed by {confirm} episodes, and wrong. *Wrong after {further} more*:
still so after {further} more episodes of the run. Where *no answer is left*, the run ends and lists suspects; the ones
listed first are in the last column. *Undecided*: the budget was used up, and the run says what is missing.

{violations}

Undecided, with two keys that look alike or a wrong FSM: the FSM has a sequence that the world lacks, and no episode can
say so. Without a violation: a key state that can be reached alone only through the place where episodes end; the
planner closes no gap of its map there before it has an answer to test.

Before a run without an answer ends, it gathers {confirm} more episodes to say why. Each assumption is then dropped in
turn, and is suspected if an answer agrees without it. Places that look alike are told apart by the planner's map, or by
what is beside them; they go unnamed where episodes end before both are passed often enough.

In our own worlds the assumptions hold, and no further episodes are asked for (`confirm=0`): runs on the nine tasks take
the same trajectories to the bit as without any of this. `confirm=60` there means 60 more.

## A run that cannot finish

`lstoc bench endless`: its FSM has a branch that the world lacks. In {steps:,} steps ({episodes:,} episodes) the
longest look of discovery took {look:.2f} s of CPU time. The process had {half:.0f} MB after half of the steps and
{end:.0f} MB at the end, {slope:.0f} bytes for each step of the second half. Steps of the map are kept in compressed
blocks, less than a byte each. What grows is the result itself, the episodes: four bytes for each observation and nine
for each episode, {store:.0f} MB here; and what a look over all of them needs for a moment.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["faults", "violations", "page"], default="faults")
    parser.add_argument("--only", nargs="+", default=list(FAULTS), choices=FAULTS, metavar="FAULT")
    parser.add_argument("--worlds", type=int, default=survey.WORLDS, help="of each kind; a multiple of 20")
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), str(paths.ROOT)])  # for worker processes
    failed = False
    for name in given.only if given.what == "faults" else ():
        row = tallied(name)
        print(*row.values(), sep="  ", flush=True)
        keep(row)
        failed |= row["tried"] != row["survived"]
    if given.what == "violations":
        survey.survey(given.worlds).to_csv(survey.FILE, index=False)
    PAGE.write_text(page())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
