"""Naming key states: the mapping from discovered key states to symbols, and a certificate of its uniqueness.

    f = parse("(a;b;c)|(d;e;f)")
    labeling = label([(0, 1, 2), (3, 4, 5)], f.fsm())      # satisfying sequences of key states, as discovered
    labeling.mapping            # {0: 'a', 1: 'b', 2: 'c', 3: 'd', 4: 'e', 5: 'f'}: the first in alphabetical order
    labeling.unique             # False: exchanging the branches explains the sequences as well
    labeling.interchangeable    # (('a', 'd'), ('b', 'e'), ('c', 'f'))
    labeling.questions          # (0,): once someone says what key state 0 is, all is known
    labeling.formula            # 'a': once this task is learned too, all is known

The mapping solves the paper's integer program (`program`). For the certificate, the program is solved again with every
mapping found so far excluded, until none is left. The certificate says what the binary labels leave open and what would
decide it; the paper (appendix, "Limitation") stops at "cannot be determined".
"""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import chain, combinations, pairwise, permutations

import numpy as np

from lstoc_core.labeling.program import mip_solvers
from lstoc_core.labeling.search import KeySequence, MappingSearch, Names
from lstoc_core.logic import FSM
from lstoc_core.trajectories import TrajectoryStore


class LabelingError(ValueError):
    """Nothing to solve, or no mapping exists.

    sequences: a smallest set that no mapping explains. If that takes too long to find, an irreducible set: every part
    of it has a mapping. The message says which.
    """

    def __init__(self, message: str, sequences: Iterable[Sequence[int]] = ()):
        super().__init__(message)
        self.sequences = tuple(tuple(sequence) for sequence in sequences)


@dataclass(frozen=True, repr=False)
class Labeling:
    """The labeling function on key states, {index: symbol}, and every other mapping that explains the same evidence.

    Two mappings differ if some key state carries another symbol, or a symbol in one and none in the other. Of nested
    mappings (only with many=True) the smallest count. They are ordered by the key states' symbols in turn, no symbol
    last: `mapping` is the first, `alternatives` are the others.
    """

    mapping: Names
    alternatives: tuple[Names, ...]
    keys: tuple[int, ...]
    """All key states of the sequences, sorted."""
    symbols: tuple[str, ...]
    """All symbols that were to be placed, sorted."""
    complete: bool = True
    """False if there are more mappings than the limit; then `alternatives` holds only some."""
    unlearnable: tuple[str, ...] = ()
    """Symbols of the FSM on which no outcome depends: no data can place them, so they are left out."""
    learned: tuple[tuple[str, ...], ...] = ()
    """Tasks of a single sequence that were given: to learn one of them again would decide nothing."""

    @property
    def unique(self) -> bool:
        """Whether this is the only mapping that explains the evidence."""
        return self.complete and not self.alternatives

    @property
    def mappings(self) -> tuple[Names, ...]:
        """`mapping` and the alternatives."""
        return (self.mapping, *self.alternatives)

    @cached_property
    def candidates(self) -> dict[int, tuple[str | None, ...]]:
        """Key state -> its symbols over all mappings; None for "no symbol", last."""
        return {
            key: tuple(sorted({names.get(key) for names in self.mappings}, key=lambda name: (name is None, name or "")))
            for key in self.keys
        }

    @property
    def redundant(self) -> tuple[int, ...]:
        """Key states that carry a symbol in no mapping: bottlenecks of the world, not subgoals."""
        return tuple(key for key, names in self.candidates.items() if names == (None,))

    @cached_property
    def interchangeable(self) -> tuple[tuple[str, ...], ...]:
        """Groups of symbols that cannot be told apart, sorted: linked by key states that may carry either."""
        groups: list[set[str]] = []
        for names in self.candidates.values():
            group = {name for name in names if name is not None}
            touching = [other for other in groups if other & group]
            groups = [other for other in groups if not other & group] + [group.union(*touching)]
        return tuple(sorted(tuple(sorted(group)) for group in groups if len(group) > 1))

    @cached_property
    def questions(self) -> tuple[int, ...] | None:
        """A smallest set of key states to ask about: whatever the answers, `label(…, known=answers)` is unique.

        None if not all mappings are known.
        """
        distinct = (
            asked
            for size in range(len(self.keys) + 1)
            for asked in combinations(self.keys, size)
            if len({tuple(names.get(key) for key in asked) for names in self.mappings}) == len(self.mappings)
        )
        return next(distinct) if self.complete else None

    @cached_property
    def formula(self) -> str | None:
        """A shortest formula whose task, once learned too, makes the labeling unique whichever mapping is true.

        Use it as `label(…, also=[(its sequences, its FSM)])`. It is a sequence of symbols, none that was `learned`, and
        fixes exactly their key states. Fewer symbols do not suffice: two mappings that agree on all symbols of a
        formula look the same to it. "" if nothing is left to decide. None if not all mappings are known, or no new
        sequence decides.
        """
        carriers = [[frozenset(k for k in n if n[k] == s) for s in self.symbols] for n in self.mappings]
        for size in range(len(self.symbols) + 1) if self.complete else ():
            for taught in combinations(range(len(self.symbols)), size):
                shown = {tuple(of_symbol[i] for i in taught) for of_symbol in carriers}
                if len(shown) == len(carriers) and not any(_within(a, b) for a, b in permutations(shown, 2)):
                    orders = permutations(self.symbols[i] for i in taught)
                    if (word := next((order for order in orders if order not in self.learned), None)) is not None:
                        return ";".join(word)
        return None

    def __repr__(self) -> str:
        others = f"{len(self.alternatives)} alternatives" if self.alternatives else "unique"
        return f"Labeling({self.mapping}, {others if self.complete else 'more than ' + others})"

    def _repr_html_(self) -> str:
        """A table of the key states and the symbols that each may carry, then what is to be said about it."""
        rows = "".join(
            f"<tr><td>{key}</td><td>{' or '.join(escape(name or 'no subgoal') for name in names)}</td></tr>"
            for key, names in self.candidates.items()
        )
        told = "<br>".join(map(escape, str(self).splitlines()))
        return f"<table><tr><th>key state</th><th>symbol</th></tr>{rows}</table><div>{told}</div>"

    def __str__(self) -> str:
        first = ", ".join(f"{key} = {symbol}" for key, symbol in self.mapping.items())
        lines = [f"unique: {first}"]
        if not self.unique:
            more = len(self.mappings) if self.complete else f"more than {len(self.mappings)}"
            lines = [f"ambiguous: {more} mappings, the first {first}"]
            lines += [f"cannot be told apart: {', '.join('/'.join(group) for group in self.interchangeable)}"]
            unsure = {key: names for key, names in self.candidates.items() if len(names) > 1 and None in names}
            lines += [f"key state {k} may be {' or '.join(n or 'no subgoal' for n in ns)}" for k, ns in unsure.items()]
            if self.questions:
                lines += [f"to decide it, name key state{'s'[: len(self.questions) > 1]} {_listed(self.questions)}"]
                lines[-1] += f", or learn one more task: {self.formula}" if self.formula else ""
        if self.redundant:
            lines += [f"no subgoal: key state{'s'[: len(self.redundant) > 1]} {_listed(self.redundant)}"]
        if self.unlearnable:
            lines += [f"decides no label, hence not placed: {_listed(self.unlearnable)}"]
        return "\n".join(lines)


def label(
    sequences: Iterable[Sequence[int]],
    fsm: FSM,
    *,
    also: Iterable[tuple[Iterable[Sequence[int]], FSM]] = (),
    rejected: Iterable[Sequence[int]] = (),
    known: Mapping[int, str | None] | None = None,
    many: bool = False,
    max_solutions: int = 100,
    explain: bool = True,
    solver: str = "HIGHS",
    seed: int = 0,
) -> Labeling:
    """Name the key states such that the FSM accepts every satisfying sequence (paper, Section "Labeling").

    sequences: of key-state indices, each known to satisfy the FSM's task.
    also: (sequences, FSM) of further tasks over the same key states.
    rejected: words of key states after which the task was *not* done (`rejected_words`).
    known: {key state: its symbol, or None for no symbol}.
    many: several key states may carry one symbol (two places "a" on a map) instead of exactly one.
    explain: if there is no mapping, find a smallest set of sequences to blame. False: only say so, at once.

    Rejected words tell a bottleneck from a subgoal: some failure visits the bottleneck and misses the subgoal. They add
    nothing once all minimal sequences are known: automorphisms keep accepted and rejected words apart.

    LabelingError names what is wrong with the input, or the sequences that no mapping explains.
    """
    if solver not in mip_solvers():
        raise LabelingError(f"solver {solver!r} is not installed; installed: {_listed(mip_solvers())}")
    if max_solutions < 1:
        raise LabelingError(f"max_solutions is {max_solutions}: it must be at least 1")
    accepted: list[tuple[FSM, KeySequence]] = []
    tasks = ((sequences, fsm), *also)
    for number, (words, machine) in enumerate(tasks):
        if not isinstance(machine, FSM):
            raise LabelingError(f"{machine!r} is not an FSM: pass parse(…).fsm()")
        task = f" of also[{number - 1}]" if number else ""
        found_words = [(machine, _checked_word(word, f"sequence {i}{task}")) for i, word in enumerate(words)]
        if not found_words:
            raise LabelingError(f"there is no sequence{task} to explain: discover a satisfying sequence first")
        accepted += found_words
    keys = tuple(sorted(set(chain.from_iterable(word for _, word in accepted))))
    unlearnable = set(chain.from_iterable(machine.unlearnable for _, machine in tasks))
    symbols = tuple(sorted(set(chain.from_iterable(machine.symbols for _, machine in tasks)) - unlearnable))
    if len(symbols) > len(keys):
        raise LabelingError(
            f"{len(symbols)} symbols ({_listed(symbols)}) cannot be placed on {len(keys)} key states "
            f"({_listed(keys)}): discover more key states, or check that this is the task's FSM"
        )
    _checked_known(known or {}, keys, symbols, many)
    # A key state that is in no satisfying sequence carries no symbol, so visits to it say nothing.
    negatives = sorted({tuple(key for key in word if key in keys) for word in rejected} - {()})
    evidence = MappingSearch(
        keys, symbols, tuple(dict.fromkeys(accepted)), tuple((fsm, word) for word in negatives),
        dict(known or {}), many, solver, seed,
    )  # fmt: skip
    found: list[Names] = []
    program = evidence.program()
    while len(found) <= max_solutions and program and (names := evidence.solve(program)) is not None:
        found.append(names)
        program.forbid(evidence.pairs(names))
    if not found and not explain:
        raise LabelingError(f"no mapping to {_listed(symbols)} explains the {len(evidence.accepted)} sequences")
    if not found:
        raise _complaint(evidence)
    found.sort(key=evidence.order)
    complete = len(found) <= max_solutions
    if not complete and not many:  # those found need not include the first in order
        first = evidence.first_mapping()
        found = [first, *(names for names in found if names != first)]
    others = tuple(found[1:max_solutions])
    learned = _single_sequences(machine for _, machine in tasks)
    return Labeling(found[0], others, keys, symbols, complete, tuple(sorted(unlearnable)), learned)


def certify(sequences: Iterable[Sequence[int]], fsm: FSM, mapping: Names, *, max_solutions: int = 100) -> Labeling:
    """What `label` returns for sequences whose mapping is known: the same result, without solving.

    The named sequences must be all minimal sequences of the FSM. Then the other mappings are those that its
    automorphisms give (theorem at `FSM.automorphisms`).
    """
    words = [tuple(sequence) for sequence in sequences]
    keys = tuple(sorted({key for word in words for key in word}))
    named = {tuple(mapping.get(key) for key in word) for word in words}
    if named != set(fsm.minimal_sequences()):
        raise LabelingError("the mapping does not turn the sequences into the FSM's minimal sequences: use label()")
    symbols = tuple(sorted({symbol for word in fsm.minimal_sequences() for symbol in word}))
    renamings = fsm.automorphisms(max_solutions)
    mappings = sorted(
        ({key: renaming[mapping[key]] for key in keys} for renaming in renamings),
        key=lambda names: tuple(symbols.index(names[key]) for key in keys),
    )
    learned = _single_sequences([fsm])
    return Labeling(mappings[0], tuple(mappings[1:]), keys, symbols, unlearnable=fsm.unlearnable, learned=learned)


def predict(fsm: FSM, *, max_solutions: int = 1000) -> Labeling:
    """What `label` will return once all minimal sequences are known, from the FSM alone, before any data exists.

    Key state i stands for the i-th learnable symbol. Theorem and proof: `FSM.automorphisms`, which raises when there
    are more than max_solutions.
    """
    symbols = tuple(symbol for symbol in fsm.symbols if symbol not in fsm.unlearnable)
    renamings = fsm.automorphisms(max_solutions)
    mappings = [{i: renaming[symbol] for i, symbol in enumerate(symbols)} for renaming in renamings]
    keys, learned = tuple(range(len(symbols))), _single_sequences([fsm])
    return Labeling(mappings[0], tuple(mappings[1:]), keys, symbols, unlearnable=fsm.unlearnable, learned=learned)


def rejected_words(store: TrajectoryStore, key_ids: Sequence[int]) -> tuple[KeySequence, ...]:
    """The different words of key states after which the task was not done, sorted: for `label(rejected=…)`.

    key_ids: observation id of each key state. Words come from failures, and from successes minus their last step
    (episodes end at their first success). Trajectories that start on a key state are left out: the start is no visit,
    yet that symbol cannot come first.
    """
    index = np.full(max(store.num_ids, *key_ids) + 1, -1)
    index[list(key_ids)] = np.arange(len(key_ids))
    words = set()
    for trajectory, succeeded in enumerate(store.labels):
        visits = index[store.trajectory(trajectory)]
        if visits[0] < 0:
            word = visits[: len(visits) - succeeded]
            word = word[word >= 0]
            words.add(tuple(word[np.flatnonzero(np.diff(word, prepend=-1))].tolist()))
    return tuple(sorted(words - {()}))


def _single_sequences(machines: Iterable[FSM]) -> tuple[tuple[str, ...], ...]:
    """The sequences of those machines that have just one, sorted."""
    return tuple(sorted({words[0] for machine in machines if len(words := machine.minimal_sequences()) == 1}))


def _within(one: Sequence[frozenset[int]], other: Sequence[frozenset[int]]) -> bool:
    """Whether each set is a subset of its counterpart: the second mapping then explains all that the first does."""
    return all(small <= large for small, large in zip(one, other, strict=True))


def _complaint(evidence: MappingSearch) -> LabelingError:
    """Why there is no mapping."""
    places, smallest = evidence.unexplainable()
    words = [evidence.accepted[place][1] for place in places]
    given = [f"{len(evidence.rejected)} rejected words"] * bool(evidence.rejected) + ["the known names"] * bool(
        evidence.known
    )
    beside = f", given {' and '.join(given)}" if given else ""
    if not words:
        return LabelingError(f"no mapping exists even without any sequence{beside}: the evidence contradicts itself")
    what = "the sequence" if len(words) == 1 else f"together the {len(words)} sequences"
    return LabelingError(
        f"no mapping to {_listed(evidence.symbols)} explains {what} {_listed(words)}{beside}, but "
        f"{'each smaller set of sequences' if smallest else 'all but any one of these'}: one of them is wrong, or this "
        "is not the task's FSM",
        words,
    )


# --- the input --------------------------------------------------------------------------------------------------------


def _checked_word(word: Sequence[int], where: str) -> KeySequence:
    """The sequence as a tuple of indices, or a LabelingError that names it."""
    try:
        keys = tuple(operator.index(key) for key in word)
    except TypeError:
        raise LabelingError(f"{where} is {word!r}: give the indices of key states") from None
    if not keys:
        raise LabelingError(f"{where} is empty: a satisfying sequence visits at least one key state")
    if min(keys) < 0:
        raise LabelingError(f"{where} {keys} has the negative index {min(keys)}: key states are numbered from 0")
    if twice := [key for key, following in pairwise(keys) if key == following]:
        raise LabelingError(f"{where} {keys} visits key state {twice[0]} twice in a row: that is a single visit")
    return keys


def _checked_known(known: Mapping[int, str | None], keys: KeySequence, symbols: Sequence[str], many: bool) -> None:
    """Raises a LabelingError that names what cannot be known."""
    for key, symbol in known.items():
        if key not in keys:
            raise LabelingError(f"known names key state {key}, which is in no sequence; there are {_listed(keys)}")
        if symbol is not None and symbol not in symbols:
            raise LabelingError(f"known calls key state {key} {symbol!r}; the symbols to place are {_listed(symbols)}")
    given = [symbol for symbol in known.values() if symbol is not None]
    if not many and (twice := sorted(symbol for symbol in set(given) if given.count(symbol) > 1)):
        raise LabelingError(f"known gives {_listed(twice)} to several key states; many=True would allow it")


def _listed(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))
