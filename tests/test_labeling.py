"""Labeling against brute force over all mappings, against the FSM's automorphisms, and on the paper's examples."""

from collections import Counter
from functools import partialmethod
from itertools import combinations, permutations, product

import cvxpy as cp
import numpy as np
import pytest

from lstoc_core import TASKS, compile_world, make_vec
from lstoc_core.discovery.guided import guided
from lstoc_core.labeling import Labeling, LabelingError, certify, label, predict, rejected_words
from lstoc_core.labeling.program import LabelingProgram, Sequences, mip_solvers, possible_names
from lstoc_core.labeling.search import MappingSearch
from lstoc_core.logic import parse
from lstoc_core.trajectories import TrajectoryStore, random_walks
from lstoc_core.worlds.tasks import NINE

INSTANCES, CHUNKS = 510, 6


# --- the oracle -------------------------------------------------------------------------------------------------------


def agrees(names, words, fsm, rejected=()):
    """Whether a mapping explains all words and no rejected one, by the FSM's own `accepts`."""
    accepted = [fsm.accepts([names.get(key) for key in word]) for word in words]
    return all(accepted) and not any(fsm.accepts([names.get(key) for key in word]) for word in rejected)


def all_mappings(words, fsm):
    """Every way to give each symbol a key state of its own."""
    keys = sorted({key for word in words for key in word})
    symbols = [symbol for symbol in fsm.symbols if symbol not in fsm.unlearnable]
    return [dict(zip(chosen, symbols, strict=True)) for chosen in permutations(keys, len(symbols))]


def brute_force(words, fsm, *, many=False, rejected=()):
    """Every mapping, by trying all. With `many`, those of which no smaller one does."""
    if not many:
        return [names for names in all_mappings(words, fsm) if agrees(names, words, fsm, rejected)]
    keys = sorted({key for word in words for key in word})
    symbols = [symbol for symbol in fsm.symbols if symbol not in fsm.unlearnable]
    candidates = [
        {key: symbol for key, symbol in zip(keys, chosen, strict=True) if symbol}
        for chosen in product((*symbols, None), repeat=len(keys))
        if set(symbols) <= set(chosen)
    ]
    good = [names for names in candidates if agrees(names, words, fsm, rejected)]
    return [names for names in good if not any(other.items() < names.items() for other in good)]


def order(names, keys, symbols):
    return [symbols.index(names[key]) if key in names else len(symbols) for key in keys]


def random_fsm(rng, letters):
    """A random choice of short sequences as a formula."""
    while True:
        sequences = []
        for _ in range(rng.integers(1, 4)):
            word = [rng.choice(list(letters)) for _ in range(rng.integers(1, 5))]
            sequences.append(";".join(g for g, before in zip(word, [None, *word], strict=False) if g != before))
        fsm = parse("|".join(sequences)).fsm()
        if len(fsm.symbols) - len(fsm.unlearnable) >= 2:
            return fsm


def random_instance(rng):
    """Words of key states that are true, true with bottlenecks in between, only part of the truth, or made up."""
    while True:
        fsm = random_fsm(rng, "abcd"[: rng.integers(2, 5)])
        symbols = [symbol for symbol in fsm.symbols if symbol not in fsm.unlearnable]
        key_of = dict(zip(symbols, rng.permutation(len(symbols) + 2).tolist(), strict=False))
        words = [[key_of[symbol] for symbol in word] for word in fsm.minimal_sequences()]
        kind = rng.choice(["true", "bottleneck", "part", "made up"])
        if kind == "bottleneck":
            for word in words:
                word.insert(rng.integers(0, len(word) + 1), max(key_of.values()) + 1)
        elif kind == "part":
            words = [word for word in words if rng.random() < 0.6] + [list(key_of.values())]
        elif kind == "made up":
            words = [
                rng.permutation(len(symbols) + 1)[: rng.integers(1, 5)].tolist() for _ in range(rng.integers(1, 4))
            ]
        if len({key for word in words for key in word}) >= len(symbols):
            return [tuple(word) for word in words], fsm


def kinds_of(count):
    return "infeasible" if count == 0 else "unique" if count == 1 else "ambiguous"


# --- equality with brute force ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_equals_brute_force(chunk):
    rng = np.random.default_rng(chunk)
    seen = Counter()
    for instance in range(INSTANCES // CHUNKS):
        words, fsm = random_instance(rng)
        while len(expected := brute_force(words, fsm)) > 16:  # each costs a solve; smaller ones suffice
            words, fsm = random_instance(rng)
        seen[kinds_of(len(expected))] += 1
        if not expected:
            with pytest.raises(LabelingError, match="no mapping") as caught:
                label(words, fsm)
            assert_smallest(caught.value.sequences, words, fsm)
            continue
        found = label(words, fsm)
        expected.sort(key=lambda names: order(names, found.keys, found.symbols))
        assert list(found.mappings) == expected
        assert found.unique == (len(expected) == 1)
        assert found.redundant == tuple(key for key in found.keys if not any(key in names for names in expected))
        if instance % 5 == 0:
            assert_evidence_decides(found, words, fsm)
    assert min(seen[kind] for kind in ("infeasible", "unique", "ambiguous")) >= 5, seen


def assert_smallest(culprits, words, fsm):
    """The set cannot be explained, and every smaller set of the sequences can. Names are needed for all symbols."""
    mappings = all_mappings(words, fsm)
    assert culprits
    assert set(culprits) <= set(words)
    assert not any(agrees(names, culprits, fsm) for names in mappings)
    for smaller in combinations(set(words), len(culprits) - 1):
        assert any(agrees(names, smaller, fsm) for names in mappings)


def assert_evidence_decides(found: Labeling, words, fsm):
    """Whichever mapping is the true one: the answers, and the further task, leave it alone; less would not."""
    assert found.questions is not None
    for asked in combinations(found.keys, max(len(found.questions) - 1, 0)):
        if found.questions:
            answers = Counter(tuple(names.get(key) for key in asked) for names in found.mappings)
            assert max(answers.values()) > 1
    if found.unique:
        assert (found.questions, found.formula) == ((), "")
        return
    taught = found.formula.split(";")
    truth = found.mappings[len(words) % len(found.mappings)]
    key_of = {symbol: key for key, symbol in truth.items()}
    answered = label(words, fsm, known={key: truth.get(key) for key in found.questions})
    also = label(words, fsm, also=[([[key_of[symbol] for symbol in taught]], parse(found.formula).fsm())])
    assert answered.unique
    assert also.unique
    assert answered.mapping == also.mapping == truth
    for fewer in combinations(found.symbols, len(taught) - 1):  # two mappings agree on them: no formula tells which
        places = [{symbol: key for key, symbol in names.items()} for names in found.mappings]
        assert len({tuple(place[symbol] for symbol in fewer) for place in places}) < len(places)


def test_rejected_words_equal_brute_force():
    rng = np.random.default_rng(7)
    fewer = 0
    for _ in range(60):
        words, fsm = random_instance(rng)
        keys = sorted({key for word in words for key in word})
        candidates = brute_force(words, fsm)
        if not 2 <= len(candidates) <= 16:
            continue
        truth = candidates[rng.integers(len(candidates))]
        tried = [tuple(rng.permutation(keys)[: rng.integers(1, len(keys) + 1)].tolist()) for _ in range(6)]
        rejected = [word for word in tried if not fsm.accepts([truth.get(key) for key in word])]
        expected = brute_force(words, fsm, rejected=rejected)
        found = label(words, fsm, rejected=rejected)
        assert sorted(map(str, found.mappings)) == sorted(str(dict(sorted(names.items()))) for names in expected)
        fewer += len(expected) < len(candidates)
    assert fewer >= 5


def test_rejected_words_add_nothing_to_all_minimal_sequences():
    """Proved in the docstring of `label`; here on random FSMs with every word of up to four symbols."""
    rng = np.random.default_rng(3)
    for _ in range(15):
        fsm = random_fsm(rng, "abcd")
        symbols = predict(fsm).symbols
        words = [[symbols.index(symbol) for symbol in word] for word in fsm.minimal_sequences()]
        everything = [w for n in range(1, 5) for w in product(range(len(symbols)), repeat=n)]
        rejected = [word for word in everything if not fsm.accepts([symbols[key] for key in word])]
        assert label(words, fsm, rejected=rejected).mappings == label(words, fsm).mappings


def test_several_key_states_for_one_symbol_equal_brute_force():
    rng = np.random.default_rng(11)
    shared = 0
    for _ in range(40):
        fsm = random_fsm(rng, "abc")
        symbols = predict(fsm).symbols
        copies = {symbol: [i, i + len(symbols)][: rng.integers(1, 3)] for i, symbol in enumerate(symbols)}
        words = [w for word in fsm.minimal_sequences() for w in product(*(copies[symbol] for symbol in word))]
        words = sorted(set(words))[:6]
        if len({key for word in words for key in word}) > 5:
            continue
        expected = brute_force(words, fsm, many=True)
        found = label(words, fsm, many=True)
        assert sorted(map(str, found.mappings)) == sorted(str(dict(sorted(names.items()))) for names in expected)
        shared += any(len(names) > len(symbols) for names in expected)
    assert shared >= 10


def test_two_places_of_one_symbol():
    fsm = parse("a;b").fsm()
    with pytest.raises(LabelingError, match="together the 2 sequences"):
        label([(0, 2), (1, 2)], fsm)
    assert label([(0, 2), (1, 2)], fsm, many=True).mapping == {0: "a", 1: "a", 2: "b"}
    assert label([(0, 2), (1, 2)], fsm, many=True, known={0: "a", 1: "a"}).unique


def test_probing_loses_no_mapping():
    rng = np.random.default_rng(5)
    removed = 0
    for _ in range(100):
        words, fsm = random_instance(rng)
        keys = sorted({key for word in words for key in word})
        symbols = predict(fsm).symbols
        task = Sequences.of(words, fsm, keys, symbols)
        possible = possible_names([task], np.ones((len(keys), len(symbols)), bool))
        for names in brute_force(words, fsm):
            assert all(possible[keys.index(key), symbols.index(symbol)] for key, symbol in names.items())
        removed += int((~possible).sum())
    assert removed > 100


# --- the paper's tasks and examples -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NINE)
def test_nine_tasks_are_unique_and_correct(name):
    task = TASKS[name]
    fsm = task.formula.fsm()
    rng = np.random.default_rng(0)
    key_of = dict(zip(task.formula.symbols, rng.permutation(20).tolist(), strict=False))
    words = [[key_of[symbol] for symbol in word] for word in task.sequences]
    found = label([words[i] for i in rng.permutation(len(words))], fsm)
    assert found.unique
    assert found.mapping == {key: symbol for symbol, key in key_of.items()}
    assert predict(fsm).unique


def test_certifying_known_names_equals_solving():
    """Whichever of the mappings is known: the same result as the integer program's, alternatives included."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        fsm = random_fsm(rng, "abcd")
        symbols = sorted({symbol for word in fsm.minimal_sequences() for symbol in word})
        number = dict(zip(symbols, rng.permutation(len(symbols)).tolist(), strict=True))
        words = [tuple(number[symbol] for symbol in word) for word in fsm.minimal_sequences()]
        solved = label(words, fsm)
        for mapping in solved.mappings:
            assert certify(words, fsm, mapping) == solved


def test_names_that_do_not_fit_are_not_certified():
    fsm = parse("a;b").fsm()
    for words, mapping in (([(0, 1)], {0: "b", 1: "a"}), ([(0, 1)], {0: "a"}), ([(0, 2, 1)], {0: "a", 1: "b"})):
        with pytest.raises(LabelingError, match="use label"):
            certify(words, fsm, mapping)


@pytest.mark.parametrize("name", ["letter-1", "letter-2", "letter-3"])
def test_discovered_sequences_are_named_correctly(name):
    """From labelled random walks to names, without the truth on the way."""
    store = random_walks(make_vec(name, 64), 4000)
    found = label(guided(store).paths, TASKS[name].formula.fsm())
    assert found.unique
    world = compile_world(TASKS[name])
    assert found.mapping == {world.observation_of_symbol(s): s for s in TASKS[name].formula.symbols}


@pytest.mark.parametrize(
    ("formula", "groups", "count"),
    [
        ("(a;b;c)|(d;e;f)", (("a", "d"), ("b", "e"), ("c", "f")), 2),
        ("c;(b|w);d", (("b", "w"),), 2),
        ("(a|b|c);d", (("a", "b", "c"),), 6),
        ("a&b", (("a", "b"),), 2),
        ("a;b;c", (), 1),
    ],
)
def test_symmetric_formulas(formula, groups, count):
    """The certificate finds what the FSM's automorphisms predict, and the evidence it asks for decides."""
    fsm = parse(formula).fsm()
    expected = predict(fsm)
    words = [[expected.symbols.index(symbol) for symbol in word] for word in fsm.minimal_sequences()]
    found = label(words, fsm)
    assert found == expected
    assert found.interchangeable == groups == fsm.interchangeable()
    assert len(found.mappings) == count
    assert_evidence_decides(found, words, fsm)


def test_corridor_is_ambiguous_until_failures_are_heard():
    """Paper, limitation 1 (r;b;g and a bottleneck): not decided by the sequences, decided by failed trajectories."""
    fsm = parse("r;b;g").fsm()
    found = label([(0, 1, 2, 3)], fsm)
    assert not found.unique
    assert found.candidates[1] == ("b", "r", None)
    assert found.candidates[2] == ("b", "g", None)
    failures = [(0, 1, 3), (1, 2, 3), (0, 1, 2)]  # blue missed, red missed, green missed
    decided = label([(0, 1, 2, 3)], fsm, rejected=failures)
    assert decided.unique
    assert decided.mapping == {0: "r", 2: "b", 3: "g"}
    assert decided.redundant == (1,)


def test_program_as_printed_is_infeasible():
    """label5 for all k and l: infeasible on a;b;c with the true sequence. With the repair it is feasible."""
    fsm = parse("a;b;c").fsm()
    task = Sequences.of([(0, 1, 2)], fsm, range(3), fsm.symbols)
    everything = np.ones((3, 3), bool)
    assert LabelingProgram([task], everything, as_printed=True).solve() is None
    assert LabelingProgram([task], everything).solve() == [(0, 0), (1, 1), (2, 2)]


def test_unlearnable_symbols_are_left_out():
    found = label([(0,)], parse("a|(a;b)").fsm())
    assert (found.mapping, found.unlearnable, found.unique) == ({0: "a"}, ("b",), True)


def test_more_than_the_limit():
    fsm = parse("(a|b|c|d);e").fsm()
    found = label([(0, 4), (1, 4), (2, 4), (3, 4)], fsm, max_solutions=5)
    assert not found.complete
    assert not found.unique
    assert len(found.mappings) == 5
    assert found.mapping == {0: "a", 1: "b", 2: "c", 3: "d", 4: "e"}
    assert found.questions is None
    assert found.formula is None
    assert "more than 5 mappings" in str(found)


@pytest.mark.parametrize("solver", sorted(set(mip_solvers()) & {"GLPK_MI", "HIGHS", "SCIP", "SCIPY", "CBC"}))
def test_solvers_agree(solver):
    for formula in ("a;((b;a)|c);d", "(a;b;c)|(d;e;f)"):
        fsm = parse(formula).fsm()
        symbols = predict(fsm).symbols
        words = [[symbols.index(symbol) for symbol in word] for word in fsm.minimal_sequences()]
        assert label(words, fsm, solver=solver) == label(words, fsm)


def test_many_random_sequences_over_twelve_symbols():
    rng = np.random.default_rng(0)
    words = {tuple(rng.permutation(12)[:4].tolist()) for _ in range(200)}
    text = "|".join(";".join("abcdefghijkl"[key] for key in word) for word in sorted(words))
    found = label(sorted(words), parse(text).fsm())
    assert found.unique
    assert found.mapping == dict(enumerate("abcdefghijkl"))


# --- failed trajectories ----------------------------------------------------------------------------------------------


def test_rejected_words_of_trajectories():
    store = TrajectoryStore(num_ids=10)
    store.append(
        [[0, 5, 1, 5, 2, 6, 2, 9], [0, 6, 5, 6, 0], [5, 1, 6], [0, 5, 6], [0, 1, 2]],
        [8, 5, 3, 3, 3],
        [False, False, False, True, False],
    )
    # Key states 0, 1, 2 are seen as 5, 6, 9. The third starts on one; the fourth succeeds with its last step.
    assert rejected_words(store, [5, 6, 9]) == ((0,), (0, 1, 2), (1, 0, 1))


# --- bad input --------------------------------------------------------------------------------------------------------

ABC = parse("a;b;c").fsm()


@pytest.mark.parametrize(
    ("sequences", "options", "message"),
    [
        ([], {}, "there is no sequence to explain"),
        ([(0, 1, 2), ()], {}, "sequence 1 is empty"),
        ([(0, 1, 1, 2)], {}, "visits key state 1 twice in a row"),
        ([(0, -1, 2)], {}, "negative index -1"),
        ([("x", "y", "z")], {}, "indices of key states"),
        ([(0, 1)], {}, r"3 symbols \(a, b, c\) cannot be placed on 2 key states \(0, 1\)"),
        ([(0, 1, 2)], {"known": {7: "a"}}, "key state 7, which is in no sequence"),
        ([(0, 1, 2)], {"known": {0: "z"}}, "calls key state 0 'z'; the symbols to place are a, b, c"),
        ([(0, 1, 2)], {"known": {0: "a", 1: "a"}}, "gives a to several key states"),
        ([(0, 1, 2)], {"known": {0: "b"}}, "no mapping .* given the known names"),
        ([(0, 1, 2)], {"rejected": [(0, 1, 2)]}, "no mapping .* given 1 rejected words"),
        ([(0, 1, 2)], {"solver": "NOPE"}, "'NOPE' is not installed; installed: .*HIGHS"),
        ([(0, 1, 2)], {"max_solutions": 0}, "at least 1"),
        ([(0, 1, 2)], {"also": [([], ABC)]}, r"no sequence of also\[0\]"),
        ([(0, 1, 2)], {"also": [([(0,)], "a")]}, "'a' is not an FSM"),
        ([(0, 1, 2), (2, 1, 0)], {}, r"together the 2 sequences \(0, 1, 2\), \(2, 1, 0\)"),
    ],
)
def test_bad_input_is_named(sequences, options, message):
    with pytest.raises(LabelingError, match=message):
        label(sequences, ABC, **options)


def test_culprits_without_time_for_the_smallest_set(monkeypatch):
    """Then none of them can be left out, and the message does not claim more."""
    monkeypatch.setattr(MappingSearch, "unexplainable", partialmethod(MappingSearch.unexplainable, rounds=1))
    rng = np.random.default_rng(1)
    checked = 0
    while checked < 15:
        words, fsm = random_instance(rng)
        if len(set(words)) < 3 or brute_force(words, fsm):
            continue
        with pytest.raises(LabelingError, match="but all but any one of these") as caught:
            label(words, fsm)
        culprits = caught.value.sequences
        mappings = all_mappings(words, fsm)
        assert not any(agrees(names, culprits, fsm) for names in mappings)
        for left_out in culprits:
            assert any(agrees(names, [word for word in culprits if word != left_out], fsm) for names in mappings)
        checked += 1


def test_no_explanation_on_request():
    with pytest.raises(LabelingError, match="explains the 2 sequences") as caught:
        label([(0, 1, 2), (2, 1, 0)], ABC, explain=False)
    assert caught.value.sequences == ()


def test_other_solver_states_do_not_count(monkeypatch):
    monkeypatch.setattr(cp.Problem, "status", property(lambda problem: cp.OPTIMAL_INACCURATE))
    with pytest.raises(RuntimeError, match="optimal_inaccurate"):
        label([(0, 1, 2)], ABC)


def test_a_solver_that_errs_is_caught(monkeypatch):
    monkeypatch.setattr(LabelingProgram, "solve", lambda program: [(0, 2), (1, 1), (2, 0)])
    with pytest.raises(RuntimeError, match="which the FSM rejects"):
        label([(0, 1, 2)], ABC)


def test_words():
    text = str(label([(0, 1, 2), (3, 4, 5)], parse("(a;b;c)|(d;e;f)").fsm()))
    assert "ambiguous: 2 mappings" in text
    assert "a/d, b/e, c/f" in text
    assert "name key state 0, or learn one more task: a" in text
    assert str(label([(0, 1, 2)], ABC)) == "unique: 0 = a, 1 = b, 2 = c"
