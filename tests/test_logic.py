"""Formulas and finite-state machines against oracles: the paper's definition, automata-lib, and plain enumeration."""

import subprocess
import sys
from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from automata.fa.dfa import DFA
from automata.fa.nfa import NFA
from hypothesis import given, settings
from hypothesis import strategies as st

from lstoc_core.logic import FSM, FormulaError, fsm, parse

ALPHABET = "abcd"
NINE_TASKS = {
    "a;b;c": ["abc"],
    "((a;b)|c);d": ["abd", "cd"],
    "a;((b;a)|c);d": ["abad", "acd"],
    "c;o;p": ["cop"],
    "c;((o;c)|m);d": ["cmd", "cocd"],
    "((c;o)|m);p": ["cop", "mp"],
    "t;c;d": ["tcd"],
    "((t;s)|c);f": ["cf", "tsf"],
    "t;((c;f)|e);d": ["tcfd", "ted"],
}

# A formula as nested tuples, for oracles that share nothing with the parser: "a" or (operator, left, right).
formulas = st.recursive(
    st.sampled_from(ALPHABET), lambda inner: st.tuples(st.sampled_from(";&|"), inner, inner), max_leaves=5
)
traces = st.lists(st.sampled_from([None, *ALPHABET]), max_size=8)


def written(formula):
    if isinstance(formula, str):
        return formula
    operator, left, right = formula
    return f"({written(left)}{operator}{written(right)})"


def parsed(formula):
    """The parsed formula, or None where it cannot be satisfied (its text is always well-formed)."""
    try:
        return parse(written(formula))
    except FormulaError:
        return None


def models(trace, formula):
    """τ ⊨ φ, word for word from the paper's Section "Temporal Logic Language"."""
    if isinstance(formula, str):
        return len(trace) >= 2 and trace[0] != formula and trace[-1] == formula
    operator, left, right = formula
    if operator == "|":
        return models(trace, left) or models(trace, right)
    if operator == "&":
        return models(trace, (";", left, right)) or models(trace, (";", right, left))
    return any(models(trace[:j], left) and models(trace[j - 1 :], right) for j in range(1, len(trace)))


def is_subsequence(short, long):
    rest = iter(long)
    return all(symbol in rest for symbol in short)


# --- satisfaction -----------------------------------------------------------------------------------------------------


def test_satisfied_by_is_the_papers_definition():
    outcomes = []

    @settings(max_examples=2500, deadline=None, database=None)
    @given(formulas, traces)
    def check(formula, trace):
        expected = any(models(trace[:end], formula) for end in range(len(trace) + 1))
        f = parsed(formula)
        assert (f is not None and f.satisfied_by(trace)) == expected
        outcomes.append(expected)

    check()
    assert len(outcomes) >= 2000
    assert 0.1 < np.mean(outcomes) < 0.9  # both answers are put to the test


@pytest.mark.parametrize(
    ("formula", "trace", "satisfied"),
    [
        ("a", [None, "a"], True),
        ("a", ["", "", "a", ""], True),  # a prefix satisfies
        ("a", ["a"], False),
        ("a", ["a", None, "a"], False),  # starts on a
        ("a;b", ["b", "a", "b"], True),  # starting on b harms only a first b
        ("a;b", [None, "a", "x", None, "b"], True),  # other places are harmless, also unknown ones
        ("a;b", [None, "b", "a"], False),
        ("a;b;a", [None, "a", "b", "a"], True),
        ("a;(a|b)", [None, "a", "a"], False),  # `;` shares the middle place
        ("a&b", [None, "b", "a"], True),
        ("(a;b)&c", [None, "a", "c", "b"], False),  # no interleaving
        ("a", [], False),
    ],
)
def test_satisfaction_examples(formula, trace, satisfied):
    assert parse(formula).satisfied_by(trace) is satisfied


def test_satisfaction_of_deep_formulas_is_not_exponential():
    names = [f"s{index}" for index in range(40)]
    f = parse("&".join(names))  # 2^39 satisfying sequences
    assert f.satisfied_by([None, *reversed(names)])
    assert not f.satisfied_by([None, *names[1:], *names[2:]])


# --- syntax -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a|b&c;d", "a|(b&(c;d))"),
        ("a;b|c", "(a;b)|c"),
        ("a&b&c", "(a&b)&c"),
        ("a;(b;c)", "(a;b);c"),
        ("a ∧ (b ∨ c)", "a&(b|c)"),
        (" ( ( a ) ) ", "a"),
    ],
)
def test_precedence_and_notation(text, same):
    assert parse(text) == parse(same)


def test_and_is_not_associative():
    assert parse("a&(b&c)") != parse("a&b&c")
    assert ("b", "c", "a") in parse("a&(b&c)").satisfying_sequences()
    assert ("b", "c", "a") not in parse("a&b&c").satisfying_sequences()


def test_symbols_may_be_words():
    f = parse("key_1;(door|Window2)")
    assert f.symbols == ("Window2", "door", "key_1")
    assert f.satisfied_by([None, "key_1", "door"])


@settings(max_examples=300, deadline=None, database=None)
@given(formulas)
def test_text_reads_back_as_the_same_formula(formula):
    f = parsed(formula)
    if f is not None:
        assert parse(str(f)) == f
        assert parse(f.pretty) == f
        assert hash(parse(str(f))) == hash(f)


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("", None, "empty"),
        ("  ", None, "empty"),
        ("a;;b", 2, "expected a symbol or '('"),
        ("a;", 2, "ends after ';'"),
        ("a | ", 3, "ends after '|'"),
        ("&a", 0, "expected a symbol or '('"),
        ("a b", 2, "expected ';', '&' or '|'"),
        ("(a b)", 3, "expected ';', '&' or '|' or ')'"),
        ("a;(b|c", 2, "never closed"),
        ("((a)", 0, "never closed"),
        ("a)", 1, "closes no '('"),
        ("a;()", 3, "expected a symbol or '('"),
        ("a;3b", 2, "a symbol starts with a letter"),
        ("a@b", 1, "unexpected '@'"),
        ("a;a", None, "no sequence can satisfy"),
        ("(a|b);c&(c;c)", None, "no sequence can satisfy"),
    ],
)
def test_errors_mark_the_place(text, position, words):
    with pytest.raises(FormulaError) as caught:
        parse(text)
    assert caught.value.position == position
    assert words in str(caught.value)
    if position is not None:
        *_, shown, caret = str(caught.value).splitlines()
        assert shown[2:] == text
        assert caret.index("^") == position + 2


# --- sequences and machines -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("formula", "sequences"), NINE_TASKS.items())
def test_the_nine_tasks(formula, sequences):
    f = parse(formula)
    assert f.minimal_sequences() == tuple(map(tuple, sequences))
    assert f.fsm().automorphisms() == ({symbol: symbol for symbol in f.symbols},)  # exactly one correct labeling
    assert f.fsm().interchangeable() == ()
    assert f.fsm().unlearnable == ()
    assert f.fsm().longest_path == max(map(len, sequences))


@pytest.mark.parametrize(
    ("formula", "edges"),
    [
        ("c;(b|w);d", ["0c1", "1b2", "1w2", "2d3"]),
        ("(a;b)|(b;c)", ["0a1", "0b2", "1b3", "2c3"]),  # the paper's figure fsm_exp
        ("((a;b)|c);d", ["0a1", "0c2", "1b2", "2d3"]),
        ("(a;b)|(a;c)", ["0a1", "1b2", "1c2"]),
        ("(a|b);(a|c)", ["0a1", "0b2", "1c3", "2a3", "2c3"]),  # no a directly after a
        ("a|(a;b)", ["0a1", "0a2", "1b2"]),  # non-deterministic, v_T is not left
        ("(a;a)|b", ["0b1"]),
    ],
)
def test_machines_are_the_textbooks(formula, edges):
    machine = parse(formula).fsm()
    assert machine.edges == tuple((int(u), symbol, int(v)) for u, symbol, v in edges)
    assert machine.initial == 0
    assert machine.accepting == {machine.states[-1]}
    assert machine.symbols == parse(formula).symbols


def waiting_nfa(machine, waiting=True):
    """The machine in automata-lib; with explicit waiting in every state, or as drawn."""
    transitions = {state: {} for state in machine.states}
    for source, symbol, target in machine.edges:
        transitions[source].setdefault(symbol, set()).add(target)
    for state in machine.states if waiting else ():
        for symbol in ALPHABET:
            transitions[state].setdefault(symbol, set()).add(state)
    return NFA(
        states=set(machine.states),
        input_symbols=set(ALPHABET),
        transitions=transitions,
        initial_state=machine.initial,
        final_states=set(machine.accepting),
    )


def regular_expression(formula, gap=""):
    if isinstance(formula, str):
        return formula
    operator, left, right = formula
    one, two = regular_expression(left, gap), regular_expression(right, gap)
    both = f"(({one}){gap}({two}))"
    return {";": both, "|": f"(({one})|({two}))", "&": f"({both}|(({two}){gap}({one})))"}[operator]


def no_immediate_repeat():
    """Words in which no symbol directly follows itself: the state is the last symbol."""
    return NFA(
        states={"start", *ALPHABET},
        input_symbols=set(ALPHABET),
        transitions={state: {s: {s} for s in ALPHABET if s != state} for state in ("start", *ALPHABET)},
        initial_state="start",
        final_states={"start", *ALPHABET},
    )


@settings(max_examples=150, deadline=None, database=None)
@given(formulas)
def test_machine_agrees_with_automata_lib(formula):
    f = parsed(formula)
    plain = NFA.from_regex(regular_expression(formula), input_symbols=set(ALPHABET))
    oracle = DFA.from_nfa(plain.intersection(no_immediate_repeat()))
    if f is None:
        assert oracle.isempty()
        return
    machine = f.fsm()
    assert DFA.from_nfa(waiting_nfa(machine, waiting=False)) == oracle
    assert f.satisfying_sequences() == tuple(sorted(tuple(word) for word in oracle))
    assert machine.longest_path == oracle.maximum_word_length()


@settings(max_examples=150, deadline=None, database=None)
@given(formulas, st.lists(traces, min_size=8, max_size=8))
def test_table_is_the_smallest_machine_and_steps_like_satisfied_by(formula, many):
    f = parsed(formula)
    if f is None:
        return
    table = f.fsm().table()
    index = {None: 0} | {symbol: column + 1 for column, symbol in enumerate(table.symbols)}
    for trace in filter(None, many):
        columns = [index.get(symbol, 0) for symbol in trace]
        state = table.start[columns[0]]
        for column in columns[1:]:
            state = table.next[state, column]
        assert table.accepting[state] == f.satisfied_by(trace)
        if trace[0] is None:
            assert f.fsm().accepts(trace[1:]) == f.satisfied_by(trace)

    assert table.next.dtype == np.int32
    assert table.initial == table.start[0] == 0
    states = np.arange(len(table.next))
    assert (table.next[:, 0] == states).all()  # a place without a symbol changes nothing
    assert (table.next[table.accepting] == states[table.accepting, None]).all()
    reached = {table.initial}
    while not reached >= (further := {int(target) for state in reached for target in table.next[state]}):
        reached |= further
    smallest = DFA.from_nfa(waiting_nfa(f.fsm()), minify=True)
    assert len(reached) == len(smallest.states)


def test_a_table_that_grows_too_large_is_refused(monkeypatch):
    assert len(parse("a&b&c&d&e").fsm().table().next) == 595
    monkeypatch.setattr(fsm, "MAX_TABLE", 500)
    with pytest.raises(ValueError, match="more than 500 deterministic states"):
        parse("a&b&c&d&e").fsm().table()


@settings(max_examples=200, deadline=None, database=None)
@given(formulas)
def test_minimal_sequences_and_tree_bounds(formula):
    f = parsed(formula)
    if f is None:
        return
    everything = f.satisfying_sequences()
    minimal = [w for w in everything if not any(v != w and is_subsequence(v, w) for v in everything)]
    assert list(f.minimal_sequences()) == minimal
    machine = f.fsm()
    children = {}
    for word in everything:
        for length in range(len(word)):
            children.setdefault(word[:length], set()).add(word[length])
    assert machine.max_degree == max(map(len, children.values()))  # no correct tree has more
    assert set(machine.unlearnable) == set(f.symbols) - {symbol for word in minimal for symbol in word}
    for v in machine.states:  # what labeling relies on: no symbol both enters and leaves a state
        assert not {g for _, g, w in machine.edges if w == v} & {g for u, g, _ in machine.edges if u == v}


def test_symbols_that_can_never_be_learned():
    machine = parse("(a;b)|(a;c;b)").fsm()
    assert machine.unlearnable == ("c",)
    assert machine.automorphisms() == ({"a": "a", "b": "b"},)


def test_too_many_sequences_are_refused():
    names = iter(f"s{index}" for index in range(100))
    machine = parse(";".join(f"({next(names)}|{next(names)})" for _ in range(25))).fsm()
    assert len(machine.states) == 26
    assert machine.longest_path == 25
    with pytest.raises(ValueError, match="33,554,432 paths"):
        machine.sequences()


@pytest.mark.parametrize(
    ("edges", "accepting", "words"),
    [
        ([(0, "a", 1), (1, "b", 2), (2, "c", 1)], {2}, "loop"),
        ([(0, "a", 1), (1, "a", 2)], {2}, "entered and left by 'a'"),
        ([(0, "a", 3)], {1}, r"states \[3\]"),
        ([(0, "a", 1), (0, "z", 2)], {2}, "'z'"),
        ([(0, "a", 1)], {2}, "no path leads"),
    ],
)
def test_a_wrong_hand_made_machine_is_refused(edges, accepting, words):
    with pytest.raises(ValueError, match=words):
        FSM(states=(0, 1, 2), initial=0, accepting=frozenset(accepting), edges=tuple(edges), symbols=("a", "b", "c"))


# --- identifiability --------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None, database=None)
@given(formulas)
def test_automorphisms_are_exactly_the_namings_the_machine_accepts(formula):
    """The theorem in the docstring of `FSM.automorphisms`, by trying all permutations."""
    f = parsed(formula)
    if f is None:
        return
    machine, minimal = f.fsm(), f.minimal_sequences()
    learnable = [symbol for symbol in f.symbols if symbol not in machine.unlearnable]
    namings = [dict(zip(learnable, image, strict=True)) for image in permutations(learnable)]
    consistent = [n for n in namings if all(machine.accepts(map(n.__getitem__, word)) for word in minimal)]
    keeping = [n for n in namings if {tuple(map(n.__getitem__, word)) for word in minimal} == set(minimal)]
    assert consistent == keeping == list(machine.automorphisms())
    orbits = {tuple(sorted({n[symbol] for n in keeping})) for symbol in learnable}
    assert set(machine.interchangeable()) == {orbit for orbit in orbits if len(orbit) > 1}


@pytest.mark.parametrize(
    ("formula", "count", "groups"),
    [
        ("(a;b;c)|(d;e;f)", 2, ["ad", "be", "cf"]),
        ("c;(b|w);d", 2, ["bw"]),
        ("(a;b)|(b;c)|(c;a)", 3, ["abc"]),  # a cycle: no two can be swapped alone
        ("a|b|c|d|e|f", 720, ["abcdef"]),
        ("(a;b;c;d;e;f)|(g;h;i;j;k;l)", 2, ["ag", "bh", "ci", "dj", "ek", "fl"]),
        ("a;b;c;d;e;f;g;h;i;j;k;l", 1, []),
    ],
)
def test_known_symmetries(formula, count, groups):
    machine = parse(formula).fsm()
    found = machine.automorphisms()
    assert len(found) == count
    assert all(symbol == image for symbol, image in found[0].items())  # the identity comes first
    assert machine.interchangeable() == tuple(map(tuple, groups))


def test_a_huge_group_is_refused_but_its_orbits_are_known():
    machine = parse("|".join("abcdefghijkl")).fsm()
    with pytest.raises(ValueError, match="interchangeable"):
        machine.automorphisms(limit=1000)
    assert machine.interchangeable() == (tuple("abcdefghijkl"),)


def test_logic_starts_without_matplotlib():
    code = "import sys, lstoc_core.logic; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# --- drawing ----------------------------------------------------------------------------------------------------------


def test_drawing_merges_parallel_edges_and_marks_both_ends():
    ax = parse("c;(b|w);d").fsm().draw(title="a title")
    shown = [text.get_text() for text in ax.texts]
    assert sorted(text for text in shown if text.startswith("$v")) == ["$v_T$", "$v_{0}$", "$v_{1}$", "$v_{2}$"]
    assert r"$\mathit{b},\,\mathit{w}$" in shown
    assert ax.get_title() == "a title"
    plt.close(ax.figure)
