"""Seconds to name key states and certify the answer, against the number of sequences and symbols, solver by solver.

    python benchmarks/bench_labeling.py [--quick] [--save times.csv]     # other solvers: pip install cvxopt pyscipopt

The task is a random choice of sequences of four symbols, so that nothing but the sequences tells the symbols apart; the
key states are the symbols in another order. `certificate` is `label` as it is: probing, the integer program, and the
proof that there is no other mapping. `program alone` is the integer program without probing, one mapping, no proof.
Rounds go through all solvers in turn and the best round of each counts.
"""

import argparse
import time
import warnings
from pathlib import Path

import cvxpy as cp
import numpy as np
import pandas as pd

from lstoc_core.labeling import label
from lstoc_core.labeling.program import LabelingProgram, Sequences, mip_solvers
from lstoc_core.logic import FSM, parse

OPEN_SOLVERS = ("HIGHS", "GLPK_MI", "SCIP", "CBC")
TARGET_SECONDS = 10
ALONE_LIMIT = 10
"""Seconds after which the program alone is given up."""


def instance(num_sequences: int, num_symbols: int, seed: int = 0) -> tuple[list[tuple[int, ...]], FSM]:
    """Random sequences of four different symbols, as words of key states in shuffled order, and the task's FSM."""
    rng = np.random.default_rng([seed, num_sequences, num_symbols])
    words: set[tuple[int, ...]] = set()
    while len(words) < num_sequences or len(set().union(*words)) < num_symbols:
        words.add(tuple(rng.permutation(num_symbols)[:4].tolist()))
    names = [f"s{i:02}" for i in range(num_symbols)]
    key_of = rng.permutation(num_symbols)
    fsm = parse("|".join(";".join(names[symbol] for symbol in word) for word in sorted(words))).fsm()
    return [tuple(int(key_of[symbol]) for symbol in word) for word in sorted(words)], fsm


def certificate(words: list[tuple[int, ...]], fsm: FSM, solver: str) -> float:
    begin = time.perf_counter()
    label(words, fsm, solver=solver, max_solutions=20)
    return time.perf_counter() - begin


def program_alone(words: list[tuple[int, ...]], fsm: FSM) -> float:
    """Building and solving the program once; NaN when it takes longer than the limit."""
    begin = time.perf_counter()
    task = Sequences.of(words, fsm, range(len(fsm.symbols)), fsm.symbols)
    program = LabelingProgram([task], np.ones((len(fsm.symbols),) * 2, bool))
    program.options["time_limit"] = float(ALONE_LIMIT)
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # cvxpy's word for "out of time"
            program.solve()
    except (RuntimeError, cp.SolverError):
        return float("nan")
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller instances, one round")
    parser.add_argument("--save", type=Path, help="write the table to this CSV file")
    options = parser.parse_args()
    sizes = [(n, k) for k in (6, 12) for n in (10, 40)] if options.quick else None
    sizes = sizes or [(n, k) for k in (6, 9, 12) for n in (10, 25, 50, 100, 200)]
    solvers = [solver for solver in OPEN_SOLVERS if solver in mip_solvers()]
    certificate(*instance(10, 6), "HIGHS")  # imports and caches

    rows = []
    for num_sequences, num_symbols in sizes:
        words, fsm = instance(num_sequences, num_symbols)
        size = {"sequences": num_sequences, "symbols": num_symbols, "states": len(fsm.states)}
        best = dict.fromkeys(solvers, np.inf)
        for _ in range(1 if options.quick else 2):
            for solver in solvers:
                best[solver] = min(best[solver], certificate(words, fsm, solver))
        rows += [{**size, "what": "certificate", "solver": solver, "seconds": best[solver]} for solver in solvers]
        rows += [{**size, "what": "program alone", "solver": "HIGHS", "seconds": program_alone(words, fsm)}]
        print(f"{num_sequences:4} sequences, {num_symbols:2} symbols, {len(fsm.states):3} states: ", end="")
        print("  ".join(f"{solver} {best[solver]:6.2f} s" for solver in solvers), end="")
        alone = rows[-1]["seconds"]
        print(f"   (HIGHS, program alone {alone:5.2f} s)" if alone == alone else f"   (> {ALONE_LIMIT} s)", flush=True)

    table = pd.DataFrame(rows)
    if options.save:
        table.round({"seconds": 3}).to_csv(options.save, index=False, lineterminator="\n")
    slowest = table.query("what == 'certificate' and solver == 'HIGHS'")["seconds"].max()
    print(f"target {TARGET_SECONDS} s with HiGHS: {'met' if slowest <= TARGET_SECONDS else 'MISSED'} ({slowest:.1f} s)")
    if len(solvers) == 1:
        print("no other open solver is installed: pip install cvxopt pyscipopt")


if __name__ == "__main__":
    main()
