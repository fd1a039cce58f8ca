"""How often an answer is wrong where an assumption of the proof does not hold: `discover` with its defaults.

python tests/faults.py violations       # computes what is missing or stale, and writes docs/faults.md
"""

from collections import Counter
from dataclasses import asdict, dataclass

import pandas as pd
import torch
from violations import NAMED, VIOLATIONS, WorldEnv, predicts, violated

import lstoc_core as lstoc
from lstoc_core import paths
from lstoc_core.loop import CONFIRM
from lstoc_core.study import cache

WORLDS, BLOCK = 200, 20
"""Worlds of each kind, and how many of them one stored run judges."""
STEPS = 8_000
"""Budget of each run in environment steps."""
FURTHER = 200
"""Episodes that a wrong answer must survive to count as one that still stands."""
FILE = paths.DATA / "violations.csv"


@dataclass(frozen=True)
class Verdict:
    """What became of one world."""

    kind: str
    world: int
    """Its seed."""
    finished: bool
    right: bool
    """Whether it finished, and the answer predicts every walk."""
    stands: bool
    """Whether it finished wrongly, and FURTHER more episodes do not contradict the answer."""
    withdrawn: int
    """Answers that a later episode contradicted."""
    suspects: str
    """Names of the suspects, where no answer was left."""


def judge(kind: str, seed: int) -> Verdict:
    """Discover in one world, and see whether a wrong answer survives."""
    torch.set_num_threads(1)
    world = violated(kind, seed)

    def found(confirm=None, max_steps=STEPS):
        return lstoc.discover(
            lambda: WorldEnv(world), fsm=world.told, seed=seed, max_steps=max_steps, confirm=confirm, progress=False
        )

    def right(discovery):
        seen = {key.index: int(key.observation.argmax()) for key in discovery.key_states}
        return predicts(world, {tuple(seen[key] for key in path) for path in discovery.sequences})

    first = found()
    good = first.finished and right(first)
    stands = False
    if first.finished and not good:
        later = found(CONFIRM + FURTHER, 2 * STEPS)  # the same run, and more episodes
        stands = later.finished and not right(later)
    suspects = [part.split(":")[0] for part in str(first.missing).partition("suspects: ")[2].split("; ")]
    known = set(NAMED.values())
    return Verdict(
        kind, seed, first.finished, good, stands, first.withdrawn, "; ".join(name for name in suspects if name in known)
    )


def judged(spec: cache.RunSpec) -> pd.DataFrame:
    """A block of worlds of one kind: one row each."""
    first, kind = spec.seed * BLOCK, spec.config["kind"]
    return pd.DataFrame([asdict(judge(kind, seed)) for seed in range(first, first + BLOCK)])


def survey(worlds: int = WORLDS) -> pd.DataFrame:
    """All kinds, as many worlds each. What was judged before by the same code is not judged again."""
    specs = [
        cache.RunSpec("violations", f"v{number}", "planner", block, "faults", {"kind": kind, "steps": STEPS})
        for block in range(worlds // BLOCK)
        for number, kind in enumerate(VIOLATIONS)
    ]
    table = cache.compute(specs, "survey:judged")
    return table[[*Verdict.__annotations__]].sort_values(
        "kind", key=lambda names: names.map([*VIOLATIONS].index), kind="stable"
    )


COLUMNS = (
    "Violated", "Worlds", "Right", "Withdrawn", "Wrong at the end", f"Wrong after {FURTHER} more", "No answer left",
    "Named among the suspects", "Undecided", "First suspects",
)  # fmt: skip


def row(verdicts: pd.DataFrame) -> list[str]:
    """One kind as cells of the table."""
    kind = verdicts.kind.iloc[0]
    wrong = verdicts.finished & ~verdicts.right
    ended = verdicts[verdicts.suspects != ""].suspects.str.split("; ")
    named = [NAMED.get(kind) in names for names in ended]
    first = Counter(names[0] for names in ended)
    cells = (
        kind,
        len(verdicts),
        verdicts.right.sum(),
        verdicts.withdrawn.sum(),
        wrong.sum(),
        verdicts.stands.sum(),
        len(ended),
        sum(named),
        (~verdicts.finished).sum() - len(ended),
        ", ".join(f"{name} {count}" for name, count in first.most_common()) or "–",
    )
    return [str(cell) for cell in cells]
