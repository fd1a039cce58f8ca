"""The integer linear program that names discovered key states (paper, appendix "Labeling Component of LSTOC").

Given satisfying sequences of key states and the task's FSM, choose a symbol for each key state (binary v[k, l]) such
that every sequence, element by element, walks the FSM from its first state to an accepting one (u). Three things
differ from the page, each because the page cannot be meant as printed:

* label5 is printed u[m,n,i,j] ≤ δ(i,l,j) v[k,l] *for all* k and l. Then one symbol without an edge i → j forbids the
  step, whatever the key state is called: no program with two symbols is feasible (`as_printed=True` shows it). Meant is
  the key state k(m,n) that the element visits, and *some* l. We give each edge (i, l, j) its own u and write
  Σ_ij u[m,n,i,l,j] ≤ v[k(m,n),l]: the same mappings, fewer rows, and a tighter relaxation.
* Waiting, u[m,n,i,i], is always allowed: the FSM has no loops of its own, key states without a symbol (bottlenecks)
  must be passed somehow, and visits to other symbols are harmless in the paper's semantics.
* The objective label7 is constant under label4. It begins to count when several key states may carry one symbol.

For a given v the u's are a unit flow in a layered graph with 0/1 capacities, so they may be continuous: only the
|Ŝ_K|·|G| mapping variables are integer. `possible_names` removes names that no mapping can use before that.

cvxpy takes a second to import, so it is imported where a program is built or solved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lstoc_core.logic import FSM
from lstoc_core.trajectories.store import Bools

if TYPE_CHECKING:
    import cvxpy as cp
    import scipy.sparse as sp

Ints = NDArray[np.intp]
Pairs = Iterable[tuple[int, int]]
"""(row of a key state, column of a symbol): "this key state carries this symbol"."""


@dataclass(frozen=True)
class Sequences:
    """One task's satisfying sequences P_S as rows of key states, with its FSM's edges as (state, column, state)."""

    words: tuple[tuple[int, ...], ...]
    edges: tuple[tuple[int, int, int], ...]
    num_states: int
    initial: int
    accepting: tuple[int, ...]

    @classmethod
    def of(cls, words: Sequence[Sequence[int]], fsm: FSM, keys: Sequence[int], symbols: Sequence[str]) -> Sequences:
        """The same with indices into `keys` and `symbols`; edges that carry another symbol are left out."""
        row, column = {key: i for i, key in enumerate(keys)}, {symbol: i for i, symbol in enumerate(symbols)}
        state = {name: i for i, name in enumerate(fsm.states)}
        return cls(
            words=tuple(tuple(row[key] for key in word) for word in dict.fromkeys(map(tuple, words))),
            edges=tuple((state[i], column[g], state[j]) for i, g, j in fsm.edges if g in column),
            num_states=len(state),
            initial=state[fsm.initial],
            accepting=tuple(sorted(state[name] for name in fsm.accepting)),
        )


class LabelingProgram:
    """The program of one or more tasks over the same key states and symbols; no-good cuts can be added.

    allowed: bool [keys, symbols], the names a key state may carry. required: bool [keys, symbols], names that are
    given. many: several key states may carry one symbol.
    """

    def __init__(
        self,
        tasks: Iterable[Sequences],
        allowed: Bools,
        *,
        required: Bools | None = None,
        many: bool = False,
        as_printed: bool = False,
        solver: str = "HIGHS",
        seed: int = 0,
    ):
        import cvxpy as cp

        self.solver, self.options = solver, {"random_seed": seed, "threads": 1} if solver == cp.HIGHS else {}
        self.allowed = cp.Parameter(allowed.shape, value=allowed.astype(float))
        self.v = v = cp.Variable(allowed.shape, boolean=True)
        self.constraints = [
            cp.sum(v, axis=1) <= 1,  # label3: a key state carries at most one symbol
            cp.sum(v, axis=0) >= 1 if many else cp.sum(v, axis=0) == 1,  # label4: a symbol has one key state
            v <= self.allowed,
        ]
        if required is not None:
            self.constraints += [v >= required]
        for task in tasks:
            self.constraints += _runs(task, v, allowed, as_printed)
        self._make_room(16)

    def _make_room(self, cuts: int) -> None:
        """(Re)build the problem with room for this many cuts: parameters, so that solving again compiles nothing."""
        import cvxpy as cp

        self.cuts, self.used = np.zeros((cuts, self.v.size)), 0
        self._cuts = cp.Parameter(self.cuts.shape)
        self._most = cp.Parameter(cuts)
        no_good = self._cuts @ cp.vec(self.v, order="C") <= self._most
        self.problem = cp.Problem(cp.Minimize(cp.sum(self.v)), [*self.constraints, no_good])  # label7

    def forbid(self, pairs: Pairs) -> None:
        """No-good cut: not all of these pairs together, Σ v[k, l] ≤ |pairs| - 1."""
        if self.used == len(self.cuts):
            old = self.cuts
            self._make_room(2 * len(old))
            self.cuts[: len(old)], self.used = old, len(old)
        key, symbol = np.array(list(pairs)).T
        self.cuts[self.used, key * self.v.shape[1] + symbol] = 1
        self.used += 1

    def solve(self) -> list[tuple[int, int]] | None:
        """The pairs of an optimal mapping, None when there is none; any other status of the solver is an error."""
        import cvxpy as cp

        self._cuts.value, self._most.value = self.cuts, np.maximum(self.cuts.sum(axis=1) - 1, 0)
        self.problem.solve(solver=self.solver, **self.options)
        if self.problem.status == cp.INFEASIBLE:
            return None
        if self.problem.status != cp.OPTIMAL:
            raise RuntimeError(f"{self.solver} ended with status {self.problem.status!r}; try one of {mip_solvers()}")
        return [(int(k), int(g)) for k, g in np.argwhere(np.asarray(self.v.value) > 0.5)]


def mip_solvers() -> tuple[str, ...]:
    """Names of the installed solvers that can solve the program, sorted."""
    from cvxpy.reductions.solvers.defines import INSTALLED_MI_SOLVERS

    return tuple(sorted(INSTALLED_MI_SOLVERS))


def _runs(task: Sequences, v: cp.Variable, allowed: Bools, as_printed: bool) -> list[cp.Constraint]:
    """label0, 1, 2, 5 and 6: every word of the task has a run u through the FSM that v permits.

    An element is one visit (m, n), numbered through all words. A step is an edge i -l-> j, or waiting in i (l = -1).
    An element and a step get a u only if they can lie on an accepting run: i can be reached with the elements before,
    acceptance can be reached from j with the elements left, and the key state may carry symbol l.
    """
    import cvxpy as cp
    import scipy.sparse as sp

    lengths = np.array([len(word) for word in task.words])
    key = np.array([k for word in task.words for k in word])
    word = np.repeat(np.arange(len(lengths)), lengths)
    before = np.arange(len(key)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    left = lengths[word] - 1 - before
    waits = [(state, -1, state) for state in range(task.num_states)]
    source, symbol, target = np.array([*task.edges, *waits]).T
    named = np.column_stack([allowed[key], np.ones(len(key), bool)])  # the last column is for -1: waiting
    from_start, to_end = _distances(task)
    open_ = (from_start[source] <= before[:, None]) & (to_end[target] <= left[:, None]) & named[:, symbol]
    element, step = np.nonzero(open_)
    i, l, j = source[step], symbol[step], target[step]  # noqa: E741 (the paper's indices)
    m, n, last = word[element], before[element], left[element] == 0
    u = cp.Variable(len(element), nonneg=True)

    def total(group: Ints, where: Bools, groups: int) -> sp.csr_array:
        """Matrix that sums, for each group, the u's for which `where` holds."""
        at = np.flatnonzero(where)
        return sp.csr_array((np.ones(len(at)), (group[at], at)), shape=(groups, len(element)))

    every, moves = np.ones(len(element), bool), l >= 0
    places, slots = len(key) * task.num_states, len(key) * v.shape[1]
    arrive = total(element * task.num_states + j, ~last, places)
    depart = total((element - 1) * task.num_states + i, n > 0, places)
    used = np.unique((arrive + depart).nonzero()[0])
    constraints = [
        total(element, every, len(key)) @ u == 1,  # label0: each element makes one step
        total(m, (n == 0) & (i == task.initial), len(lengths)) @ u == 1,  # label1: the first one leaves v0
        arrive[used] @ u == depart[used] @ u,  # label2: a step begins where the previous one ended
        total(m, last & np.isin(j, task.accepting), len(lengths)) @ u == 1,  # label6: the last one ends in U_F
    ]
    if not as_printed:
        carries = cp.vec(v[key], order="C")
        constraints += [total(element * v.shape[1] + l, moves, slots) @ u <= carries]  # label5: Σ_ij u ≤ v[k(m,n), l]
    else:
        edges = set(task.edges)
        delta = np.array([[(a, g, b) in edges for g in range(v.shape[1])] for a, b in zip(i, j, strict=True)], float)
        constraints += [u <= delta[:, g] * v[k, g] for k, g in np.ndindex(v.shape)]  # label5 as printed
    return constraints


def _distances(task: Sequences) -> tuple[Ints, Ints]:
    """Fewest edges from v0 to each state, and from each state to an accepting one."""
    far = task.num_states + 1  # more than any path has
    from_start, to_end = np.full(task.num_states, far), np.full(task.num_states, far)
    from_start[task.initial], to_end[list(task.accepting)] = 0, 0
    source, _, target = np.array(task.edges).T
    for _ in range(task.num_states):
        np.minimum.at(from_start, target, from_start[source] + 1)
        np.minimum.at(to_end, source, to_end[target] + 1)
    return from_start, to_end


# --- names that no mapping can use ------------------------------------------------------------------------------------


def possible_names(
    tasks: Sequence[Sequences], allowed: Bools, *, many: bool = False, most_probes: int = 20_000
) -> Bools:
    """Of the allowed names those that may occur in a mapping, bool [keys, symbols]; no mapping is lost.

    Probing: assume that a key state carries a symbol, and exclude the names that label3 and label4 then forbid. The
    assumption survives if every word still has a run while the other key states may carry any open name. First every
    name is probed alone; then partial mappings are extended key state by key state, as long as there are at most
    `most_probes` of them. This prunes more than the linear relaxation, which spreads a word's flow over all names
    (measured in benchmarks/bench_labeling.py).
    """
    while True:
        pairs = np.argwhere(allowed)
        alive = _survivors(tasks, [_assume(allowed, key, symbol, many) for key, symbol in pairs])
        if alive.all():
            break
        allowed = np.zeros_like(allowed)
        allowed[tuple(pairs[alive].T)] = True
    ways = [allowed]
    for key in _order(tasks, len(allowed)):
        tried = [_assume(way, key, symbol, many) for way in ways for symbol in (*np.flatnonzero(way[key]), None)]
        if len(tried) > most_probes:
            break
        ways = [way for way, survives in zip(tried, _survivors(tasks, tried), strict=True) if survives]
    return np.any(ways, axis=0) if ways else np.zeros_like(allowed)


def _order(tasks: Sequence[Sequences], num_keys: int) -> list[int]:
    """Key states in the order to probe: the next one shares the most words with those before it."""
    words = [set(word) for task in tasks for word in task.words]
    order: list[int] = []
    while len(order) < num_keys:
        shared = {k: (sum(len(w.intersection(order)) + 1 for w in words if k in w), -k) for k in range(num_keys)}
        order.append(max((k for k in range(num_keys) if k not in order), key=shared.__getitem__))
    return order


def _assume(allowed: Bools, key: int, symbol: int | None, many: bool) -> Bools:
    """The names that stay open once the key state carries this symbol, or none."""
    left = allowed.copy()
    left[key] = False
    if symbol is not None:
        if not many:
            left[:, symbol] = False
        left[key, symbol] = True
    return left


def _survivors(tasks: Sequence[Sequences], probes: Sequence[Bools]) -> Bools:
    """bool [probes]: whether the open names of a probe leave a key state for each symbol and a run for each word."""
    if not len(probes):
        return np.zeros(0, bool)
    open_ = np.array(probes)
    survives = np.array([way.any(axis=0).all() and way.any(axis=1).sum() >= way.shape[1] for way in probes], bool)
    for task in tasks:
        alive = np.flatnonzero(survives)
        survives[alive] = have_runs(task, open_[alive]).all(axis=1)
    return survives


def have_runs(task: Sequences, open_: Bools) -> Bools:
    """Which words have an accepting run with these open names, [probes, words] from [probes, keys, symbols].

    64 words are stepped at once, as the bits of an integer.
    """
    length, num_words = max(map(len, task.words)), len(task.words)
    visits = np.zeros((length, open_.shape[1], -(-num_words // 64) * 64), bool)  # element, key, word
    for index, word in enumerate(task.words):
        visits[np.arange(len(word)), word, index] = True
    masks = np.packbits(visits, axis=-1).view(np.uint64)
    chunk = max(1, 2**20 // (task.num_states * masks.shape[-1]))  # keeps `reached` in the cache
    finished = [_finished(task, open_[at : at + chunk], masks) for at in range(0, len(open_), chunk)]
    if not finished:
        return np.zeros((0, num_words), bool)
    return np.unpackbits(np.concatenate(finished).view(np.uint8), axis=1, count=num_words).astype(bool)


def _finished(task: Sequences, open_: Bools, masks: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The words that can end in an accepting state, as bits [probes, words / 64].

    masks: bits [elements, keys, words / 64], set where a word's element visits the key state.
    """
    reached = np.zeros((task.num_states, len(open_), masks.shape[-1]), np.uint64)  # the words that can be in a state
    reached[task.initial] = np.iinfo(np.uint64).max
    for mask in masks:
        steps = [
            np.bitwise_or.reduce(np.where(named[..., None], mask, 0), axis=1) for named in np.moveaxis(open_, 2, 0)
        ]
        before = reached.copy()
        for i, g, j in task.edges:
            reached[j] |= before[i] & steps[g]
    finished: NDArray[np.uint64] = np.bitwise_or.reduce(reached[list(task.accepting)], axis=0)
    return finished
