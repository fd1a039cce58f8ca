"""Finite-state machines of tasks: what they accept, the tree bounds, an integer table, and identifiability.

`Formula.fsm()` (formula.py) makes them; nothing here knows about formulas. A machine has no loops: waiting in a state
is implicit, so a visit that no edge takes is harmless.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lstoc_core.extras import needed_for
from lstoc_core.logic import export

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Word: TypeAlias = tuple[str, ...]
"""Symbols in the order of their visits."""
Edge: TypeAlias = tuple[int, str, int]
"""Source state, symbol, target state."""
MAX_TABLE = 100_000
"""Most deterministic states a table may need: a&b&c&d needs 74, a&b&c&d&e 595, a&b&c&d&e&f 11,722."""
MAX_SEQUENCES = 100_000
"""Most satisfying sequences that are listed."""


@dataclass(frozen=True)
class DeterministicTable:
    """An FSM as one integer table, for stepping many episodes at once: `state = table.next[state, symbol_index + 1]`.

    next: int32 [S, K+1], column 0 for a place without a symbol of the formula, column k+1 for symbols[k].
    start: int32 [K+1], the state after the start place (same columns); `initial` is start[0]. A symbol at the start
    place counts: a satisfying sequence cannot begin with it there. accepting: bool [S]; no accepting state is left.
    """

    next: NDArray[np.int32]
    start: NDArray[np.int32]
    accepting: NDArray[np.bool_]
    symbols: Word

    @property
    def initial(self) -> int:
        return int(self.start[0])


@dataclass(frozen=True)
class FSM:
    """The finite-state machine M_φ = (V, E, I, F) without loops: waiting in a state is implicit.

    The words along its paths from v0 to an accepting state are exactly the satisfying sequences. edges are sorted
    (source, symbol, target); symbols are those of the formula. `Formula.fsm()` makes one; a hand-made one is checked.
    """

    states: tuple[int, ...]
    initial: int
    accepting: frozenset[int]
    edges: tuple[Edge, ...]
    symbols: Word

    def __post_init__(self) -> None:
        mentioned = {self.initial, *self.accepting}.union(*((source, target) for source, _, target in self.edges))
        if unknown := sorted(mentioned - set(self.states)):
            raise ValueError(f"the FSM mentions states {unknown} that are not among its states {self.states}")
        if unnamed := sorted({symbol for _, symbol, _ in self.edges} - set(self.symbols)):
            raise ValueError(f"the FSM's edges carry {unnamed}, which are not among its symbols {self.symbols}")
        for _, symbol, state in self.edges:
            if symbol in dict(self.leaving[state]):
                raise ValueError(f"state {state} is entered and left by {symbol!r}: no place can serve for both")
        if not self.accepting & set(self.layer) - {self.initial}:
            raise ValueError(f"no path leads from state {self.initial} to an accepting one, {sorted(self.accepting)}")

    @cached_property
    def leaving(self) -> Mapping[int, tuple[tuple[str, int], ...]]:
        """State -> its (symbol, target) pairs, sorted."""
        leaving: dict[int, list[tuple[str, int]]] = {state: [] for state in self.states}
        for source, symbol, target in self.edges:
            leaving[source].append((symbol, target))
        return {state: tuple(sorted(pairs)) for state, pairs in leaving.items()}

    @cached_property
    def layer(self) -> Mapping[int, int]:
        """State -> number of edges on the longest path from v0 to it (reachable states only, in topological order)."""
        sources: dict[int, set[int]] = {state: set() for state in self.states}
        for source, _, target in self.edges:
            sources[target].add(source)
        try:
            order = tuple(TopologicalSorter(sources).static_order())
        except CycleError as error:
            raise ValueError(f"the FSM has a loop through states {error.args[1]}; only waiting is implicit") from None
        layer = {self.initial: 0}
        for state in order:
            if reached := [layer[source] for source in sources[state] if source in layer]:
                layer[state] = 1 + max(reached)
        return layer

    def accepts(self, word: Iterable[str | None]) -> bool:
        """Whether visiting these symbols, after a start place without one, completes the task (in some prefix)."""
        return self._fewest_steps(word) is not None

    def _fewest_steps(self, word: Iterable[str | None]) -> int | None:
        """Length of the shortest satisfying sequence the word contains as a subsequence, or None."""
        steps = {self.initial: 0}
        for visited in word:
            advanced = [
                (target, count + 1)
                for state, count in steps.items()
                for symbol, target in self.leaving[state]
                if symbol == visited
            ]
            for target, count in advanced:
                steps[target] = min(count, steps.get(target, count))
        return min((count for state, count in steps.items() if state in self.accepting), default=None)

    @property
    def longest_path(self) -> int:
        """Number of edges of the longest path from v0 to an accepting state."""
        return max(self.layer[state] for state in self.accepting if state in self.layer)

    @cached_property
    def max_degree(self) -> int:
        """The largest number of different symbols that can come next after the same beginning of a sequence.

        It is the largest number of children of a node in the tree of all satisfying sequences, and so the bound of the
        paper's condition (***): no correct subgoal tree exceeds it. It can exceed the out-degree of every state, since
        a non-deterministic FSM may be in several states after the same beginning.
        """
        largest, seen, waiting = 0, {frozenset({self.initial})}, [frozenset({self.initial})]
        while waiting:
            together = waiting.pop()
            following: dict[str, set[int]] = defaultdict(set)
            for symbol, target in chain.from_iterable(self.leaving[state] for state in together):
                following[symbol].add(target)
            largest = max(largest, len(following))
            new = {frozenset(targets) for targets in following.values()} - seen
            seen |= new
            waiting += new
        return largest

    def sequences(self, limit: int | None = None) -> tuple[Word, ...]:
        """All satisfying sequences, sorted; ValueError when there are more than `limit` paths (MAX_SEQUENCES)."""
        limit = MAX_SEQUENCES if limit is None else limit
        count: dict[int, int] = {}
        words: dict[int, set[Word]] = {}
        for state in reversed(self.layer):
            count[state] = (state in self.accepting) + sum(count[target] for _, target in self.leaving[state])
        if count[self.initial] > limit:
            raise ValueError(
                f"{count[self.initial]:,} paths lead to acceptance, more than the limit of {limit:,}: "
                "use fewer | and & in the formula"
            )
        for state in reversed(self.layer):
            words[state] = {(symbol, *rest) for symbol, target in self.leaving[state] for rest in words[target]}
            words[state] |= {()} if state in self.accepting else set()
        return tuple(sorted(words[self.initial]))

    def minimal_sequences(self) -> tuple[Word, ...]:
        """The satisfying sequences that contain no other one as a subsequence, sorted."""
        return self._minimal_sequences

    @cached_property
    def _minimal_sequences(self) -> tuple[Word, ...]:
        words = self.sequences()
        shortest = min(map(len, words))
        return tuple(word for word in words if len(word) == shortest or self._fewest_steps(word) == len(word))

    @cached_property
    def unlearnable(self) -> Word:
        """Symbols that occur in no minimal sequence: no label depends on them, so they cannot be learned."""
        return tuple(sorted(set(self.symbols).difference(*self.minimal_sequences())))

    def automorphisms(self, limit: int = 100_000) -> tuple[dict[str, str], ...]:
        """Renamings of the learnable symbols that map the set M of minimal sequences onto itself; the identity first.

        Theorem: given all minimal sequences over unnamed key states, the namings under which this FSM accepts each of
        them are exactly the true naming followed by an automorphism, so the labeling is unique iff there is only one.
        Proof: let σ rename the symbols of M such that every word of σ(M) is accepted, and L be the accepted words, the
        upward closure of M under "is a subsequence of". Closures commute with renaming, so σ(M) ⊆ L gives σ(L) ⊆ L;
        σ has a finite order n, so L = σⁿ(L) ⊆ … ⊆ σ(L) ⊆ L, hence σ(L) = L; and M is the set of minimal elements of L,
        hence σ(M) = M. The converse is clear. ∎
        """
        found = list(islice(_symmetries(self.minimal_sequences()), limit + 1))
        if len(found) > limit:
            raise ValueError(f"there are more than {limit:,} automorphisms; interchangeable() gives their orbits")
        return tuple(sorted(found, key=lambda renaming: tuple(renaming.values())))

    def interchangeable(self) -> tuple[Word, ...]:
        """Groups of two and more symbols whose names cannot be told apart (the orbits of the automorphisms), sorted."""
        groups: list[list[str]] = []
        for symbol in sorted(set(chain(*self.minimal_sequences()))):
            for group in groups:
                if next(_symmetries(self.minimal_sequences(), {group[0]: -1}, {symbol: -1}), None):
                    group.append(symbol)
                    break
            else:
                groups.append([symbol])
        return tuple(tuple(group) for group in groups if len(group) > 1)

    def table(self) -> DeterministicTable:
        """The smallest deterministic machine for whole traces, as integer arrays (ValueError beyond MAX_TABLE)."""
        return self._table

    @cached_property
    def _table(self) -> DeterministicTable:
        # A deterministic state: the states reached so far without those that others outdo, and the start place's symbol
        # (it is barred as a first step) as long as v0 is one of them.
        columns, done = (None, *self.symbols), (None, self.accepting)
        outdoes, index = self._outdoes, {state: i for i, state in enumerate(self.states)}
        subsets = [(barred, frozenset({self.initial})) for barred in columns]
        number = {subset: i for i, subset in enumerate(subsets)}
        rows: list[list[int]] = []
        for barred, reached in subsets:  # grows while it is read
            rows.append([number[barred, reached]] * len(columns))
            edges = [(g, v) for u in reached for g, v in self.leaving[u] if (u, g) != (self.initial, barred)]
            for column, visited in enumerate(columns):
                advanced = reached.union(target for symbol, target in edges if symbol == visited)
                if advanced == reached:
                    continue
                places = [index[state] for state in advanced]
                needed = ~outdoes[np.ix_(places, places)].max(axis=0)
                kept = frozenset(self.states[place] for place in np.array(places)[needed])
                following = done if kept & self.accepting else (barred if self.initial in kept else None, kept)
                if following not in number:
                    number[following] = len(subsets)
                    subsets.append(following)
                rows[-1][column] = number[following]
            if len(subsets) > MAX_TABLE:
                raise ValueError(f"the FSM needs more than {MAX_TABLE:,} deterministic states; use fewer or smaller &")
        table = np.array(rows)
        accepting = np.array([subset == done for subset in subsets])
        # Moore's refinement: states stay together as long as they accept alike and lead to states that are together.
        classes, count = accepting.astype(np.int64), 0
        while count < (count := len(np.unique(classes))):
            signature = np.column_stack([classes, classes[table]])
            _, first, classes = np.unique(signature, axis=0, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))  # number the classes as they were met, so that the start comes first
        members, classes = np.sort(first), rank[classes]
        return DeterministicTable(
            next=classes[table[members]].astype(np.int32),
            start=classes[: len(columns)].astype(np.int32),
            accepting=accepting[members],
            symbols=self.symbols,
        )

    @cached_property
    def _outdoes(self) -> NDArray[np.bool_]:
        """bool [other, state]: `other` simulates `state`, so every word that completes the task from it does so there.

        Of two states that simulate each other, only the one with the lower number outdoes the other. v0 outdoes none,
        since one of its edges may be barred.
        """
        index = {state: i for i, state in enumerate(self.states)}
        accepting = np.array([state in self.accepting for state in self.states])
        sources, targets = defaultdict(list), defaultdict(list)
        for source, symbol, target in self.edges:
            sources[symbol].append(index[source])
            targets[symbol].append(index[target])
        covers = np.eye(len(self.states), dtype=bool)
        for state in reversed(self.layer):
            column = np.full(len(self.states), state not in self.accepting)
            for symbol, target in self.leaving[state]:
                after = covers[:, index[target]]
                waits_or_goes = after.copy()
                np.logical_or.at(waits_or_goes, sources[symbol], after[targets[symbol]])
                column &= waits_or_goes
            covers[:, index[state]] |= column | accepting
        number = np.array(self.states)
        covers[index[self.initial]] = False
        return covers & ~(covers.T & (number[:, None] >= number))

    def draw(self, ax: "Axes | None" = None, title: str | None = None) -> "Axes":
        """Draw the machine from left to right: v0 with an incoming arrow, v_T with a double circle."""
        with needed_for("drawing an FSM", extra="study"):
            from lstoc_core.drawing.graphs import draw_fsm  # here: only who draws needs matplotlib

        return draw_fsm(self, ax, title)

    def _repr_html_(self) -> str | None:
        """The drawing, for notebooks."""
        try:
            from lstoc_core.drawing.inline import drawing_html  # here: only who draws needs matplotlib
        except ModuleNotFoundError:  # the plain text is shown
            return None
        return drawing_html(self.draw, f"machine of {len(self.states)} states over {', '.join(self.symbols)}")

    def to_reward_machine(self, reward: float = 1) -> str:
        """The text of a reward machine that pays `reward` for completing the task (see `export`)."""
        return export.reward_machine(self, reward)

    def to_hoa(self, name: str = "") -> str:
        """The machine in the Hanoi omega-automata format (see `export`)."""
        return export.hoa(self, name)

    def to_dot(self, name: str = "") -> str:
        """The machine for Graphviz."""
        return export.dot(self, name)


# --- identifiability --------------------------------------------------------------------------------------------------


def _symmetries(
    sequences: tuple[Word, ...], left: Mapping[str, int] | None = None, right: Mapping[str, int] | None = None
) -> Iterator[dict[str, str]]:
    """Renamings that map the set of sequences onto itself and each symbol to one of its colour (`left` to `right`).

    Individualization and refinement, as in graph isomorphism solvers: a symbol's colour says where in which sequences
    it occurs, only symbols of equal colour can be exchanged, and fixing one pair refines the colours of all others.
    """
    codes: dict[Any, int] = {}
    symbols = sorted(set(chain(*sequences)))
    places = [
        (s, w, tuple(i for i, other in enumerate(word) if other == s))
        for w, word in enumerate(sequences)
        for s in dict.fromkeys(word)
    ]

    def code(signature: Any) -> int:
        return codes.setdefault(signature, len(codes))

    def refine(colours: dict[str, int]) -> dict[str, int]:
        while True:
            patterns = [code(tuple(map(colours.__getitem__, word))) for word in sequences]
            seen: dict[str, list[int]] = {symbol: [] for symbol in symbols}
            for symbol, word, positions in places:
                seen[symbol].append(code((patterns[word], positions)))
            finer = {symbol: code((colours[symbol], tuple(sorted(seen[symbol])))) for symbol in symbols}
            if len(set(finer.values())) == len(set(colours.values())):
                return finer
            colours = finer

    def search(left: dict[str, int], right: dict[str, int]) -> Iterator[dict[str, str]]:
        left, right = refine(left), refine(right)
        sizes = Counter(left.values())
        if sizes != Counter(right.values()):
            return
        undecided = next((symbol for symbol in symbols if sizes[left[symbol]] > 1), None)
        if undecided is None:
            symbol_with = {colour: symbol for symbol, colour in right.items()}
            renaming = {symbol: symbol_with[left[symbol]] for symbol in symbols}
            if {tuple(map(renaming.__getitem__, sequence)) for sequence in sequences} == set(sequences):
                yield renaming
            return
        for candidate in symbols:
            if right[candidate] == left[undecided]:
                yield from search({**left, undecided: -1}, {**right, candidate: -1})

    plain = dict.fromkeys(symbols, 0)
    return search({**plain, **(left or {})}, {**plain, **(right or {})})
