"""Machines as text for other programs, read back by small readers of the formats' own definitions."""

import re
from itertools import chain, combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lstoc_core as lstoc
from lstoc_core.discovery.tree import SubgoalTree
from lstoc_core.logic import FormulaError

ANYTHING = "t"
FORMULAS = ["a", "a;b;c", "((a;b)|c);d", "a;((b;a)|c);d", "(a;b;c)|(d;e;f)", "a&b", "(a;b)|(b;c)", "(a;b)|a"]


def formulas():
    """Random formulas over few symbols that some word satisfies."""
    joined = st.recursive(
        st.sampled_from("abc"),
        lambda inner: st.builds("({}{}{})".format, inner, st.sampled_from(";|&"), inner),
        max_leaves=4,
    )
    return joined.map(parsed).filter(bool)


def parsed(text):
    try:
        formula = lstoc.parse(text)
        formula.fsm()
        return formula
    except (FormulaError, ValueError):
        return None


def subsets(symbols):
    return [set(chosen) for size in range(len(symbols) + 1) for chosen in combinations(symbols, size)]


def holds(formula, true):
    """A formula of !, & and |, without parentheses, in disjunctive normal form."""
    return formula == ANYTHING or any(
        all((part[1:] not in true) if part[0] == "!" else (part in true) for part in clause.split("&"))
        for clause in formula.replace(" ", "").split("|")
    )


class Machine:
    """States, edges with formulas over names, and the accepting states."""

    def __init__(self, initial, accepting, edges):
        self.state, self.initial, self.accepting, self.edges = initial, initial, set(accepting), edges

    def following(self, state, true):
        (target,) = [v for u, v, formula in self.edges if u == state and holds(formula, true)]  # exactly one
        return target

    def accepts(self, word):
        state = self.initial
        for symbol in word:
            if state in self.accepting:
                return True
            state = self.following(state, {symbol} - {None})
        return state in self.accepting


def read_reward_machine(text):
    first, second, *rest = text.splitlines()
    initial, terminal = int(first.split("#")[0]), [int(n) for n in re.findall(r"\d+", second.split("#")[0])]
    edges, rewards = [], {}
    for line in rest:
        source, target, formula, reward = re.fullmatch(
            r"\((\d+),(\d+),'([^']+)',ConstantRewardFunction\(([-\d.]+)\)\)", line
        ).groups()
        edges.append((int(source), int(target), formula))
        rewards[int(source), int(target)] = float(reward)
    return Machine(initial, terminal, edges), rewards


def read_hoa(text):
    header, body = text.split("--BODY--")
    assert header.startswith("HOA: v1\n")
    assert body.rstrip().endswith("--END--")
    items = dict(line.split(": ", 1) for line in header.strip().splitlines())
    assert items["Acceptance"] == "1 Inf(0)"
    assert items["acc-name"] == "Buchi"
    count, *names = re.findall(r'\d+|"[^"]*"', items["AP"])
    names = [name.strip('"') for name in names]
    assert len(names) == int(count)
    edges, accepting, state = [], [], None
    for line in body.replace("--END--", "").strip().splitlines():
        if line.startswith("State: "):
            state, marked = re.fullmatch(r"State: (\d+)( \{0\})?", line).groups()
            accepting += [int(state)] if marked else []
        else:
            formula, target = re.fullmatch(r"\[(.+)\] (\d+)", line).groups()
            formula = re.sub(r"\d+", lambda m: names[int(m[0])], formula)
            edges.append((int(state), int(target), formula))
    assert {u for u, *_ in edges} == set(range(int(items["States"])))
    return Machine(int(items["Start"]), accepting, edges), items["properties"].split(), names


def words(symbols, longest):
    return chain(*(product((None, *symbols), repeat=length) for length in range(longest + 1)))


@pytest.mark.parametrize("text", FORMULAS)
def test_a_reward_machine_pays_when_the_task_is_done(text):
    formula = lstoc.parse(text)
    machine, rewards = read_reward_machine(formula.fsm().to_reward_machine(reward=2.5))
    for edge, reward in rewards.items():
        assert reward == (2.5 if edge[1] in machine.accepting else 0)
    for state in {u for u, *_ in machine.edges}:
        for true in subsets(formula.symbols):
            machine.following(state, true)  # exactly one edge, whatever is seen
    for word in words(formula.symbols, 4):
        assert machine.accepts(word) == formula.satisfied_by([None, *word]), word


@settings(max_examples=40, deadline=None)
@given(formulas())
def test_machines_in_the_hanoi_format_accept_what_the_formula_does(formula):
    machine, properties, names = read_hoa(formula.fsm().to_hoa('it\'s "it"'))
    assert {"deterministic", "complete", "state-acc"} <= set(properties)
    assert sorted(names) == sorted(formula.symbols)
    (terminal,) = machine.accepting
    assert [edge for edge in machine.edges if edge[0] == terminal] == [(terminal, terminal, ANYTHING)]
    for state in {u for u, *_ in machine.edges} - {terminal}:
        for true in subsets(names):
            machine.following(state, true)
    for word in words(formula.symbols, 4):
        assert machine.accepts(word) == formula.satisfied_by([None, *word]), word


def test_several_symbols_at_once_take_the_first():
    machine, _ = read_reward_machine(lstoc.parse("(a;b)|c").fsm().to_reward_machine())
    assert machine.following(0, {"a", "c"}) == machine.following(0, {"a"}) != machine.following(0, {"c"})


@pytest.mark.parametrize("text", FORMULAS)
def test_dot_has_every_state_and_edge(text):
    fsm = lstoc.parse(text).fsm()
    dot = fsm.to_dot()
    edges = re.findall(r'^  (\d+) -> (\d+) \[label="(\w+)"\];$', dot, re.MULTILINE)
    assert sorted((int(u), symbol, int(v)) for u, v, symbol in edges) == sorted(fsm.edges)
    assert {int(state) for state in re.findall(r"(\d+) \[shape=doublecircle\]", dot)} == set(fsm.accepting)
    assert re.search(r"start -> (\d+);", dot)[1] == str(fsm.initial)
    assert dot.count("{") == dot.count("}") == 1


def test_a_tree_is_a_machine_too():
    tree = SubgoalTree.from_sequences([(0, 1), (2,), (0, 2, 1)])
    fsm = tree.fsm({0: "key", 2: "goal"})
    assert fsm.symbols == ("goal", "key", "s1")
    for word in words(("key", "s1", "goal"), 3):
        visited = iter(word)
        in_order = all(symbol in visited for symbol in ("key", "s1"))
        assert fsm.accepts(word) == ("goal" in word or in_order)
    assert read_hoa(fsm.to_hoa())[0].accepts(("key", None, "s1"))
    with pytest.raises(ValueError, match="same name"):
        tree.fsm({0: "key", 1: "key"})
    with pytest.raises(ValueError, match="no path leads"):
        SubgoalTree().fsm()


def test_names_that_other_programs_cannot_read_are_made_plain():
    tree = SubgoalTree.from_sequences([(0, 1), (2, 1)])
    lines = tree.fsm({0: "('at', 5)", 1: "it's", 2: "(at|, 5)"}).to_reward_machine().splitlines()
    formulas = [line.split(",")[2] for line in lines[2:]]
    assert all(re.fullmatch(r"'[\w!&|]+'", formula) for formula in formulas)
    names = {name for formula in formulas for name in re.findall(r"\w+", formula)}
    assert len(names) == 3, "no two alike"


def test_states_are_numbered_from_zero():
    for text in FORMULAS:
        machine, _ = read_reward_machine(lstoc.parse(text).fsm().to_reward_machine())
        states = {u for u, *_ in machine.edges} | {v for _, v, _ in machine.edges}
        assert states == set(np.arange(len(states)))
        assert machine.accepting == {max(states)}
