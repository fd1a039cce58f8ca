"""The search behind `label`: consistent mappings, or a smallest set of sequences that no mapping explains."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from lstoc_core.labeling.program import LabelingProgram, Sequences, have_runs, possible_names
from lstoc_core.logic import FSM

KeySequence = tuple[int, ...]
"""Key states in the order of their visits."""
Names = dict[int, str]
"""Key state -> symbol."""


@dataclass(frozen=True)
class MappingSearch:
    """The evidence, and the search for mappings consistent with it. Each word comes with the FSM of its task."""

    keys: tuple[int, ...]
    symbols: tuple[str, ...]
    accepted: tuple[tuple[FSM, KeySequence], ...]
    rejected: tuple[tuple[FSM, KeySequence], ...]
    known: Mapping[int, str | None]
    many: bool
    solver: str
    seed: int

    def program(self, chosen: Collection[int] | None = None, **probing: int) -> LabelingProgram | None:
        """The integer program of the chosen accepted words, or of all; None if probing shows it to be infeasible."""
        runs = self.tasks(range(len(self.accepted)) if chosen is None else chosen)
        required = np.array([[self.known.get(key) == symbol for symbol in self.symbols] for key in self.keys])
        allowed = required | np.array([[key not in self.known] for key in self.keys])
        if not self.many:
            allowed &= required | ~required.any(axis=0)
        allowed = possible_names(runs, allowed, many=self.many, **probing)
        if not allowed.any(axis=0).all():
            return None
        return LabelingProgram(runs, allowed, required=required, many=self.many, solver=self.solver, seed=self.seed)

    def tasks(self, chosen: Collection[int]) -> list[Sequences]:
        """The chosen accepted words, task by task."""
        tasks: dict[FSM, list[KeySequence]] = {}
        for machine, word in (self.accepted[place] for place in chosen):
            tasks.setdefault(machine, []).append(word)
        return [Sequences.of(words, machine, self.keys, self.symbols) for machine, words in tasks.items()]

    def solve(self, program: LabelingProgram | None, chosen: Collection[int] | None = None) -> Names | None:
        """The program's next mapping that accepts no rejected word; each one that does adds a cut."""
        while program is not None and (pairs := program.solve()) is not None:
            names = {self.keys[key]: self.symbols[symbol] for key, symbol in pairs}
            wrong = set(self.unexplained(names))
            if wrong := wrong if chosen is None else wrong.intersection(chosen):
                raise RuntimeError(f"{self.solver} gave {names}, which the FSM rejects on {len(wrong)} sequences")
            if (refuted := self.refuted(names)) is None:
                return names
            program.forbid(self.pairs(refuted))
        return None

    def refuted(self, names: Names) -> Names | None:
        """The part of the mapping by which a rejected word would be accepted, or None."""
        runs = (_accepting_run(fsm, word, names) for fsm, word in self.rejected)
        return next((run for run in runs if run is not None), None)

    def unexplained(self, names: Names) -> list[int]:
        """Indices of the accepted words that the mapping does not explain, by running the FSM."""
        words = enumerate(self.accepted)
        return [place for place, (fsm, word) in words if not fsm.accepts(names.get(key) for key in word)]

    def first_mapping(self) -> Names:
        """The first mapping in order: for each key state in turn, the first symbol that some mapping gives it."""
        program = self.program()
        names = self.solve(program)
        if program is None or names is None:
            raise ValueError("there is no mapping")
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

    def unexplainable(self, rounds: int = 40) -> tuple[list[int], bool]:
        """A smallest set of accepted words that no mapping explains together, as indices in `accepted`, and True.

        Such a set shares a word with what any mapping leaves unexplained. So take a smallest set that hits all
        left-overs so far: if no mapping explains it, no smaller set is unexplainable. If `rounds` do not suffice, an
        irreducible set (every part of it has a mapping), and False.
        """
        chosen: list[int] = []
        left_over: list[list[int]] = []
        for _ in range(rounds):
            names = self.solve(self.program(chosen, most_probes=200), chosen)
            if names is None:
                return chosen, True
            left_over.append(self.unexplained(self.improved(names, chosen)))
            chosen = _smallest_meeting(left_over, len(self.accepted), self.solver)
        return sorted(self.needed([], list(range(len(self.accepted))))), False

    def needed(self, given: list[int], words: list[int]) -> list[int]:
        """An irreducible subset of the words that no mapping explains together with the given ones (QuickXplain).

        Empty if no mapping explains the given ones. Otherwise a single word is needed, and more are split in halves.
        """
        if given and self.solve(self.program(given), given) is None:
            return []
        if len(words) == 1:
            return words
        one, two = words[: len(words) // 2], words[len(words) // 2 :]
        of_two = self.needed(given + one, two)
        return self.needed(given + of_two, one) + of_two

    def improved(self, names: Names, chosen: Collection[int]) -> Names:
        """Local search by exchanging two key states: explains the chosen words and more of the others."""
        tasks, keys = self.tasks(range(len(self.accepted))), [key for key in self.keys if key not in self.known]
        wanted = self.tasks(chosen)
        best = -1
        while True:
            ways = [names, *(_exchanged(names, a, b) for a, b in combinations(keys, 2) if a in names or b in names)]
            open_ = np.zeros((len(ways), len(self.keys), len(self.symbols)), bool)
            for way, pairs in enumerate(map(self.pairs, ways)):
                open_[(way, *np.array(pairs).T)] = True
            explained = sum(have_runs(task, open_).sum(axis=1) for task in tasks)
            keeps = np.all([have_runs(task, open_).all(axis=1) for task in wanted], axis=0) if wanted else True
            way = int(np.argmax(np.where(keeps, explained, -1)))
            if explained[way] <= best or self.refuted(ways[way]) is not None:
                return names
            names, best = ways[way], explained[way]

    def pairs(self, names: Names) -> list[tuple[int, int]]:
        """The mapping as (row, column) pairs of the program."""
        return [(self.keys.index(key), self.symbols.index(symbol)) for key, symbol in names.items()]

    def order(self, names: Names) -> tuple[int, ...]:
        """Sort key: the symbols of the key states in turn, no symbol last."""
        return tuple(self.symbols.index(names[key]) if key in names else len(self.symbols) for key in self.keys)


def _accepting_run(fsm: FSM, word: KeySequence, names: Names) -> Names | None:
    """The part of `names` that an accepting run on the word uses; None if the word is rejected."""
    used: dict[int, Names] = {fsm.initial: {}}
    for key in word:
        for state, names_so_far in list(used.items()):
            for symbol, target in fsm.leaving[state]:
                if symbol == names.get(key) and target not in used:
                    used[target] = {**names_so_far, key: symbol}
    return min((used[state] for state in fsm.accepting if state in used), key=len, default=None)


def _exchanged(names: Names, one: int, other: int) -> Names:
    """The mapping with the symbols of two key states exchanged; one of them may carry none."""
    swapped = {key: symbol for key, symbol in names.items() if key not in (one, other)}
    return swapped | {b: names[a] for a, b in ((one, other), (other, one)) if a in names}


def _smallest_meeting(sets: Sequence[Collection[int]], size: int, solver: str) -> list[int]:
    """A smallest hitting set: a subset of range(size) that meets each of the sets."""
    import cvxpy as cp  # imported here: slow

    member = np.array([[place in one for place in range(size)] for one in sets], float)
    chosen = cp.Variable(size, boolean=True)
    cp.Problem(cp.Minimize(cp.sum(chosen)), [member @ chosen >= 1]).solve(solver=solver)
    return [int(place) for place in np.flatnonzero(np.asarray(chosen.value) > 0.5)]
