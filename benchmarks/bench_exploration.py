"""Exploration: CPU seconds, trajectories and steps of both explorers until the answer is proved.

    python benchmarks/bench_exploration.py [--quick] [--tasks letter-2 office-2] [--seeds 0 1]

The outside reference is L* of AALpy (`pip install aalpy`), where the questions can be posed to it: a query is a word of
observations, visited in this order and nothing else in between, and the answer says after which of them the task was
done. A walk in the world cannot ask that: it passes other places on its way. L* does not know the FSM; on the other
hand it is told for nothing whether its machine is right, and by which word it is not. Its queries are counted as
trajectories, the letters of its words as steps.
"""

import argparse
import os
import time
from collections import deque
from importlib.util import find_spec

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

import lstoc_core as lstoc
from lstoc_core.worlds import compile_world


def by_explorer(task: str, explorer: str, seed: int, max_steps: int) -> tuple[bool, int, int]:
    """Whether the answer is exact and proved, trajectories and steps."""
    found = lstoc.discover(task, explorer=explorer, seed=seed, max_steps=max_steps, progress=False)
    return found.finished and lstoc.score(found, task).exact, found.num_trajectories, found.env_steps


def by_queries(task: str) -> tuple[bool, int, int]:
    """The same of L*: whether its machine accepts what the task accepts, queries and letters."""
    from aalpy.base import SUL, Oracle
    from aalpy.learning_algs import run_Lstar

    world = compile_world(task)
    table = world.task.automaton
    column = dict(zip(world.observation_id.tolist(), world.task.columns.tolist(), strict=True))
    column |= {world.observation_of_symbol(symbol): place + 1 for place, symbol in enumerate(table.symbols)}
    letters = sorted(column)

    def following(state: int, letter: int) -> int:
        """The task's state after a visit; a task that is done stays done."""
        return state if table.accepting[state] else int(table.next[state, column[letter]])

    class Visits(SUL):
        def pre(self) -> None:
            self.state = table.initial

        def post(self) -> None:
            pass

        def step(self, letter: int | None) -> bool:
            self.state = self.state if letter is None else following(self.state, letter)
            return bool(table.accepting[self.state])

    class Told(Oracle):
        """Finds a word on which machine and task differ by walking through both side by side; asks no query."""

        def find_cex(self, hypothesis):
            begin = (hypothesis.initial_state, table.initial)
            words, open_ = {(begin[0].state_id, begin[1]): ()}, deque([begin])
            while open_:
                machine, state = open_.popleft()
                word = words[machine.state_id, state]
                if machine.is_accepting != bool(table.accepting[state]):
                    return word
                for letter in letters:
                    pair = machine.transitions[letter], following(state, letter)
                    if (pair[0].state_id, pair[1]) not in words:
                        words[pair[0].state_id, pair[1]] = (*word, letter)
                        open_.append(pair)
            return None

    asked = Visits()
    oracle = Told(letters, asked)
    machine = run_Lstar(letters, asked, oracle, "dfa", print_level=0)
    return oracle.find_cex(machine) is None, asked.num_queries, asked.num_steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="letter-1 alone")
    parser.add_argument("--tasks", nargs="+", default=["letter-2", "office-2", "crafter-3"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--explorers", nargs="*", default=["planner", "policy"])
    parser.add_argument("--max-steps", type=int, default=2_000_000)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'task':12}{'explorer':10}{'seed':>5}{'exact':>7}{'trajectories':>14}{'steps':>10}{'CPU s':>8}")

    def show(task, explorer, seed, run):
        begin = time.process_time()
        exact, trajectories, steps = run()
        seconds = time.process_time() - begin
        counts = f"{trajectories:>14,}{steps:>10,}{seconds:>8.1f}"
        print(f"{task:12}{explorer:10}{seed:>5}{exact!s:>7}{counts}", flush=True)

    for task in ["letter-1"] if args.quick else args.tasks:
        for explorer in args.explorers:
            for seed in args.seeds:
                show(task, explorer, seed, lambda: by_explorer(task, explorer, seed, args.max_steps))  # noqa: B023
        if find_spec("aalpy"):
            show(task, "AALpy L*", "-", lambda: by_queries(task))  # noqa: B023
    if not find_spec("aalpy"):
        print("for L* of AALpy as a reference: pip install aalpy")


if __name__ == "__main__":
    main()
