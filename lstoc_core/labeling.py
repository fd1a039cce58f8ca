"""Naming key states: the mapping from discovered key states to symbols, and a certificate of how sure it is.

    f = parse("(a;b;c)|(d;e;f)")
    labeling = label([(0, 1, 2), (3, 4, 5)], f.fsm())      # satisfying sequences of key states, as discovered
    labeling.mapping            # {0: 'a', 1: 'b', 2: 'c', 3: 'd', 4: 'e', 5: 'f'}: the first in alphabetical order
    labeling.unique             # False: exchanging the branches explains the sequences as well
    labeling.interchangeable    # (('a', 'd'), ('b', 'e'), ('c', 'f'))
    labeling.questions          # (0,): once someone says what key state 0 is, all is known
    labeling.formula            # 'a': once this task is learned too, all is known

The mapping comes from the paper's integer program (labeling_program.py), the certificate from solving it again with
every mapping found so far cut off, until there is none. What the binary labels cannot decide the certificate says, and
also what would decide it: the paper (appendix, "Limitation") stops at "cannot be determined".
"""

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, pairwise, permutations

import cvxpy as cp
import numpy as np

from lstoc_core.labeling_program import LabelingProgram, Sequences, mip_solvers, possible_names
from lstoc_core.logic import FSM
from lstoc_core.trajectories import TrajectoryStore

KeyWord = Sequence[int]
Word = tuple[int, ...]
Names = dict[int, str]


class LabelingError(ValueError):
    """Nothing to solve, or no mapping exists. `sequences`: the smallest set of them that no mapping explains."""

    def __init__(self, message: str, sequences: Iterable[KeyWord] = ()):
        super().__init__(message)
        self.sequences = tuple(tuple(sequence) for sequence in sequences)


@dataclass(frozen=True)
class Labeling:
    """The labeling function on key states, {index: symbol}, and every other mapping that explains the same evidence.

    Two mappings are different when some key state carries another symbol, or a symbol in one and none in the other. Of
    mappings that contain each other (possible only with many=True) only the smallest count. The first in the order of
    the key states' symbols is `mapping`, no symbol coming last; `alternatives` are the others in the same order.
    """

    mapping: Names
    alternatives: tuple[Names, ...]
    keys: tuple[int, ...]
    """All key states of the sequences, sorted."""
    symbols: tuple[str, ...]
    """All symbols that were to be placed, sorted."""
    complete: bool = True
    """False when there are more mappings than the limit; then `alternatives` is a part of them."""
    unlearnable: tuple[str, ...] = ()
    """Symbols of the FSM that decide no label: no data can place them, so they are left out."""

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
        """Key state -> what it may be, over all mappings; None for "no symbol", last."""
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
        """Groups of symbols that some key state carries in turn, sorted: their names cannot be told apart."""
        groups: list[set[str]] = []
        for names in self.candidates.values():
            group = {name for name in names if name is not None}
            touching = [other for other in groups if other & group]
            groups = [other for other in groups if not other & group] + [group.union(*touching)]
        return tuple(sorted(tuple(sorted(group)) for group in groups if len(group) > 1))

    @cached_property
    def questions(self) -> tuple[int, ...] | None:
        """A smallest set of key states to ask about: whatever the answers, `label(…, known=answers)` is unique.

        None when not all mappings are known.
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
        """A shortest formula over the symbols that, learned as well, makes the labeling unique whichever is true.

        `label(…, also=[(its sequences, its FSM)])`. It is a sequence of symbols Q, and so fixes exactly the key states
        of Q. No formula does with fewer symbols: it cannot tell two mappings that agree on all the symbols it has.
        "" when nothing is left to decide; None when not all mappings are known or no sequence decides (only many=True).
        """
        carriers = [[frozenset(k for k in n if n[k] == s) for s in self.symbols] for n in self.mappings]
        for size in range(len(self.symbols) + 1) if self.complete else ():
            for taught in combinations(range(len(self.symbols)), size):
                shown = {tuple(of_symbol[i] for i in taught) for of_symbol in carriers}
                if len(shown) == len(carriers) and not any(_within(a, b) for a, b in permutations(shown, 2)):
                    return ";".join(self.symbols[i] for i in taught)
        return None

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
    sequences: Iterable[KeyWord],
    fsm: FSM,
    *,
    also: Iterable[tuple[Iterable[KeyWord], FSM]] = (),
    rejected: Iterable[KeyWord] = (),
    known: Mapping[int, str | None] | None = None,
    many: bool = False,
    max_solutions: int = 100,
    solver: str = "HIGHS",
    seed: int = 0,
) -> Labeling:
    """Name the key states such that every satisfying sequence is accepted by the FSM (paper, Section "Labeling").

    sequences: of key states (indices), each known to satisfy the task of the FSM. Further evidence, all optional:
    also: (sequences, FSM) of further tasks over the same key states; rejected: words of key states after which the task
    was *not* done (`rejected_words`); known: {key state: its symbol, or None for no symbol}, said by someone.
    many: several key states may carry one symbol (two places "a" on a map) instead of exactly one.
    Negative evidence adds nothing to all minimal sequences of the true key states (then the labeling is unique up to
    automorphisms, which keep accepted and rejected words apart), but it tells a bottleneck from a subgoal: some failed
    trajectory went through the bottleneck and missed the subgoal.

    LabelingError names what is wrong with the input, or the smallest set of sequences that cannot be explained.
    """
    if solver not in mip_solvers():
        raise LabelingError(f"solver {solver!r} is not installed; installed: {_listed(mip_solvers())}")
    if max_solutions < 1:
        raise LabelingError(f"max_solutions is {max_solutions}: it must be at least 1")
    accepted: list[tuple[FSM, Word]] = []
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
    evidence = _Evidence(
        keys, symbols, tuple(dict.fromkeys(accepted)), tuple((fsm, word) for word in negatives),
        dict(known or {}), many, solver, seed,
    )  # fmt: skip
    found: list[Names] = []
    program = evidence.program()
    while len(found) <= max_solutions and program and (names := evidence.solve(program)) is not None:
        found.append(names)
        program.forbid(evidence.pairs(names))
    if not found:
        raise evidence.complaint()
    found.sort(key=evidence.order)
    complete = len(found) <= max_solutions
    if not complete and not many:  # what the solver happened to find need not hold the first one
        first = evidence.first_mapping()
        found = [first, *(names for names in found if names != first)]
    others = tuple(found[1:max_solutions])
    return Labeling(found[0], others, keys, symbols, complete, tuple(sorted(unlearnable)))


def predict(fsm: FSM, *, max_solutions: int = 1000) -> Labeling:
    """What `label` will say once all minimal sequences are known, from the FSM alone, before any data exists.

    Key state i stands for the i-th learnable symbol. Theorem and proof: `FSM.automorphisms`, which raises when there
    are more than max_solutions.
    """
    symbols = tuple(symbol for symbol in fsm.symbols if symbol not in fsm.unlearnable)
    renamings = fsm.automorphisms(max_solutions)
    mappings = [{i: renaming[symbol] for i, symbol in enumerate(symbols)} for renaming in renamings]
    return Labeling(mappings[0], tuple(mappings[1:]), tuple(range(len(symbols))), symbols, unlearnable=fsm.unlearnable)


def rejected_words(store: TrajectoryStore, key_ids: Sequence[int]) -> tuple[Word, ...]:
    """The different words of key states after which the task was not done, sorted: for `label(rejected=…)`.

    key_ids: observation id of each key state. These are the words of failed trajectories, and those of successes up to
    their last step (episodes end at the first success). Trajectories that start on a key state say less, since the
    start is not a visit and bars that symbol from coming first; they are left out.
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


# --- the search -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Evidence:
    """Everything a mapping has to agree with, and the search for those that do. Words go with the FSM they speak of."""

    keys: tuple[int, ...]
    symbols: tuple[str, ...]
    accepted: tuple[tuple[FSM, Word], ...]
    rejected: tuple[tuple[FSM, Word], ...]
    known: Mapping[int, str | None]
    many: bool
    solver: str
    seed: int

    def program(self, chosen: Collection[int] | None = None) -> LabelingProgram | None:
        """The integer program (of the chosen accepted words only); None when probing shows that nothing is possible."""
        tasks: dict[FSM, list[Word]] = {}
        for machine, word in self.accepted if chosen is None else [self.accepted[place] for place in chosen]:
            tasks.setdefault(machine, []).append(word)
        runs = [Sequences.of(words, machine, self.keys, self.symbols) for machine, words in tasks.items()]
        required = np.array([[self.known.get(key) == symbol for symbol in self.symbols] for key in self.keys])
        allowed = required | np.array([[key not in self.known] for key in self.keys])
        if not self.many:
            allowed &= required | ~required.any(axis=0)
        allowed = possible_names(runs, allowed, many=self.many)
        if not allowed.any(axis=0).all():
            return None
        return LabelingProgram(runs, allowed, required=required, many=self.many, solver=self.solver, seed=self.seed)

    def solve(self, program: LabelingProgram | None, chosen: Collection[int] | None = None) -> Names | None:
        """The program's next mapping that accepts no rejected word; each rejected word it does accept tells a cut."""
        while program is not None and (pairs := program.solve()) is not None:
            names = {self.keys[key]: self.symbols[symbol] for key, symbol in pairs}
            if wrong := set(self.unexplained(names)).intersection(
                range(len(self.accepted)) if chosen is None else chosen
            ):
                raise RuntimeError(f"{self.solver} gave {names}, which the FSM rejects on {len(wrong)} sequences")
            runs = (_accepting_run(fsm, word, names) for fsm, word in self.rejected)
            if (refuted := next((run for run in runs if run is not None), None)) is None:
                return names
            program.forbid(self.pairs(refuted))
        return None

    def unexplained(self, names: Names) -> list[int]:
        """Places of the accepted words that the mapping fails, in plain Python."""
        words = enumerate(self.accepted)
        return [place for place, (fsm, word) in words if not fsm.accepts(names.get(key) for key in word)]

    def first_mapping(self) -> Names:
        """The first mapping in order: key state by key state, the first symbol with which a mapping still exists."""
        program = self.program()
        names = self.solve(program)
        if program is None or names is None:
            raise self.complaint()
        for row in range(len(self.keys)):
            allowed = np.array(program.allowed.value)
            for symbol in np.flatnonzero(allowed[row]):
                only = allowed.copy()
                only[row], only[:, symbol] = False, False
                only[row, symbol] = True
                program.allowed.value = only
                if (found := self.solve(program)) is not None:
                    names = found
                    break
            else:
                allowed[row] = False
                program.allowed.value = allowed
        return names

    def smallest_unexplainable(self) -> list[int]:
        """The smallest set of accepted words that no mapping explains together, as places in `accepted`.

        Whatever mapping one takes, an unexplainable set holds a word that it leaves unexplained. So take the smallest
        set that meets all left-overs so far: when no mapping explains it, nothing smaller is unexplainable.
        """
        chosen: list[int] = []
        left_over: list[list[int]] = []
        while (names := self.solve(self.program(chosen), chosen)) is not None:
            left_over.append(self.unexplained(names))
            chosen = _smallest_meeting(left_over, len(self.accepted), self.solver)
        return chosen

    def complaint(self) -> LabelingError:
        """Why there is no mapping."""
        words = [self.accepted[place][1] for place in self.smallest_unexplainable()]
        given = [f"{len(self.rejected)} rejected words"] * bool(self.rejected) + ["the known names"] * bool(self.known)
        beside = f", given {' and '.join(given)}" if given else ""
        if not words:
            return LabelingError(
                f"no mapping exists even without any sequence{beside}: the evidence contradicts itself"
            )
        what = "the sequence" if len(words) == 1 else f"together the {len(words)} sequences"
        return LabelingError(
            f"no mapping to {_listed(self.symbols)} explains {what} {_listed(words)}{beside}; no smaller set of the "
            f"{len(self.accepted)} is to blame: a sequence is wrong, or this is not the task's FSM",
            words,
        )

    def pairs(self, names: Names) -> list[tuple[int, int]]:
        """The mapping as (row, column) pairs of the program."""
        return [(self.keys.index(key), self.symbols.index(symbol)) for key, symbol in names.items()]

    def order(self, names: Names) -> tuple[int, ...]:
        """Sorting key: the symbols of the key states in turn, no symbol last."""
        return tuple(self.symbols.index(names[key]) if key in names else len(self.symbols) for key in self.keys)


def _accepting_run(fsm: FSM, word: Word, names: Names) -> Names | None:
    """The names that an accepting run on the word uses (as few as possible), or None when the word is rejected."""
    used: dict[int, Names] = {fsm.initial: {}}
    for key in word:
        for state, names_so_far in list(used.items()):
            for symbol, target in fsm.leaving[state]:
                if symbol == names.get(key) and target not in used:
                    used[target] = {**names_so_far, key: symbol}
    return min((used[state] for state in fsm.accepting if state in used), key=len, default=None)


def _within(one: Sequence[frozenset[int]], other: Sequence[frozenset[int]]) -> bool:
    """Whether each of the sets is part of its counterpart: what the first mapping shows, the second explains."""
    return all(small <= large for small, large in zip(one, other, strict=True))


def _smallest_meeting(sets: Sequence[Collection[int]], size: int, solver: str) -> list[int]:
    """A smallest subset of range(size) that has an element in common with each of the sets."""
    member = np.array([[place in one for place in range(size)] for one in sets], float)
    chosen = cp.Variable(size, boolean=True)
    cp.Problem(cp.Minimize(cp.sum(chosen)), [member @ chosen >= 1]).solve(solver=solver)
    return [int(place) for place in np.flatnonzero(np.asarray(chosen.value) > 0.5)]


# --- the input --------------------------------------------------------------------------------------------------------


def _checked_word(word: KeyWord, where: str) -> Word:
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


def _checked_known(known: Mapping[int, str | None], keys: Word, symbols: Sequence[str], many: bool) -> None:
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
