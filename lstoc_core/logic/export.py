"""Machines as text that other programs read: reward machines, DOT, and the Hanoi omega-automata format (HOA).

A reward machine and a HOA automaton say for every set of symbols seen at once what comes next. Both are made from the
smallest deterministic machine of the FSM. If several symbols that lead on are seen at once, the first in alphabetical
order counts.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lstoc_core.logic.fsm import FSM

Guard = tuple[tuple[str, bool], ...]
"""Symbols that must be seen (True) or not (False), all of them."""


def guarded(fsm: "FSM") -> tuple[int, int, Mapping[int, Mapping[int, tuple[Guard, ...]]]]:
    """The deterministic machine: initial state, terminal state, and source -> target -> guards.

    States are numbered from 0, the terminal one last; it has no edges. In every other state, exactly one guard holds
    for each set of symbols.
    """
    table = fsm.table()
    reached, moves = [table.initial], {}
    for state in reached:  # grows while it is read
        if table.accepting[state]:
            continue
        order = sorted(range(len(table.symbols)), key=lambda k: table.symbols[k])
        onward = [(table.symbols[k], int(table.next[state, k + 1])) for k in order if table.next[state, k + 1] != state]
        moves[state] = onward
        reached += dict.fromkeys(target for _, target in onward if target not in reached)
    number = {state: i for i, state in enumerate(sorted(reached, key=lambda s: (bool(table.accepting[s]), s)))}
    edges: dict[int, dict[int, tuple[Guard, ...]]] = {}
    for state in sorted(moves, key=number.__getitem__):
        waiting: Guard = tuple((symbol, False) for symbol, _ in moves[state])
        targets: dict[int, tuple[Guard, ...]] = {number[state]: (waiting,)}
        for i, (symbol, target) in enumerate(moves[state]):
            guard = (*waiting[:i], (symbol, True))
            targets[number[target]] = (*targets.get(number[target], ()), guard)
        edges[number[state]] = targets
    return number[table.initial], len(number) - 1, edges


def reward_machine(fsm: "FSM", reward: float = 1) -> str:
    """The text format of the reward-machine repositories (Toro Icarte et al.): completing the task pays `reward`.

    First line: the initial state. Second: the terminal states. Then the edges (source, target, formula, reward).
    Programs evaluate each line and take formulas apart at !, & and |, so other signs in a symbol become _.
    """
    initial, terminal, edges = guarded(fsm)
    names = _plain(fsm.symbols)
    lines = [f"{initial} # initial state", f"[{terminal}] # terminal state"]
    for source, targets in edges.items():
        for target, guards in targets.items():
            formula = "|".join("&".join("!" * (not seen) + names[symbol] for symbol, seen in guard) for guard in guards)
            pays = reward if target == terminal else 0
            lines.append(f"({source},{target},'{formula}',ConstantRewardFunction({pays}))")
    return "\n".join(lines) + "\n"


def _plain(symbols: Iterable[str]) -> dict[str, str]:
    """A name of letters, digits and _ for each symbol, no two alike."""
    names: dict[str, str] = {}
    for symbol in symbols:
        name = re.sub(r"\W", "_", symbol)
        while name in names.values():
            name += "_"
        names[symbol] = name
    return names


def hoa(fsm: "FSM", name: str = "") -> str:
    """The machine in the HOA format, version 1: deterministic, complete, accepting by its states.

    The one accepting state is never left. So a finite word completes the task if and only if it ends there, and an
    infinite one is accepted (Büchi) if and only if a prefix of it completes the task.
    """
    initial, terminal, edges = guarded(fsm)
    index = {symbol: i for i, symbol in enumerate(fsm.symbols)}
    lines = [
        "HOA: v1",
        *([f"name: {json.dumps(name)}"] if name else []),
        f"States: {terminal + 1}",
        f"Start: {initial}",
        f"AP: {len(index)} {' '.join(json.dumps(symbol) for symbol in index)}",
        "acc-name: Buchi",
        "Acceptance: 1 Inf(0)",
        "properties: trans-labels explicit-labels state-acc complete deterministic terminal",
        "--BODY--",
    ]
    for source, targets in edges.items():
        lines.append(f"State: {source}")
        for target, guards in targets.items():
            texts = ("&".join(f"{'' if seen else '!'}{index[symbol]}" for symbol, seen in guard) for guard in guards)
            lines.append(f"[{' | '.join(texts)}] {target}")
    return "\n".join([*lines, f"State: {terminal} {{0}}", f"[t] {terminal}", "--END--", ""])


def dot(fsm: "FSM", name: str = "") -> str:
    """The machine for Graphviz, from left to right: accepting states have a double circle."""
    lines = [f"digraph {json.dumps(name or 'fsm')} {{", "  rankdir=LR;", "  node [shape=circle];"]
    lines += ['  start [shape=point, label=""];', f"  start -> {fsm.initial};"]
    lines += [f"  {state} [shape=doublecircle];" for state in sorted(fsm.accepting)]
    lines += [f"  {source} -> {target} [label={json.dumps(symbol)}];" for source, symbol, target in fsm.edges]
    return "\n".join([*lines, "}", ""])
