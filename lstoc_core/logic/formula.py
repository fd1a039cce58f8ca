"""The temporal logic language TL: formulas, satisfaction, finite-state machines, identifiability.

A formula says which places must be visited, and in which order (the paper's Section "Temporal Logic Language"):

    f = parse("c;(b|w);d")                     # charger, then board or wheel, then diamond
    f.satisfied_by([None, "c", None, "w", "d"])   # True: other visits in between are harmless
    f.minimal_sequences()                      # (("c", "b", "d"), ("c", "w", "d"))
    f.fsm().automorphisms()                    # b and w can be swapped: their names cannot be learned

Three facts carry the whole file:

* Every place carries at most one symbol, so a formula is a finite set of *satisfying sequences* of symbols.
* A trace satisfies the formula if it contains a satisfying sequence as a subsequence, its first place left out, and if
  that first place does not carry the sequence's first symbol.
* `;` shares the middle place, so no satisfying sequence repeats a symbol immediately: `a;a` would need a place that
  carries `a` and does not.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import chain
from typing import Any, TypeAlias

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from lstoc_core.logic.fsm import FSM, DeterministicTable, Edge, Word

__all__ = ["FSM", "DeterministicTable", "Formula", "FormulaError", "parse"]

MAX_NESTING = 100
"""Deepest formula: operators inside operators, where n times & in a row counts n."""
MAX_SYMBOLS = 16_000
"""Most written symbols of a formula in which each φ∧ψ is written out as (φ;ψ)∨(ψ;φ): each & doubles their number."""
MAX_ARROWS = 500_000
"""Most pairs of written symbols that may follow each other."""


class FormulaError(ValueError):
    """A formula that cannot be parsed or can never be satisfied; the message marks the place in the text.

    Attributes: `text`, `reason` in plain words, and `position` (index into text; None when the whole text is meant).
    """

    def __init__(self, text: str, reason: str, position: int | None = None):
        self.text, self.reason, self.position = text, reason, position
        line = "".join(" " if c.isspace() else c for c in text)  # one line, one column per character
        marked = f"\n  {line}" if position is None else f"\n  {line}\n  {' ' * position}^"
        super().__init__(reason + (marked if text.strip() else ""))


# --- syntax -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Symbol:
    """A single subgoal g."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Then:
    """φ1;φ2;…: one after the other. Associative, hence flat."""

    parts: tuple["Node", ...]

    def __str__(self) -> str:
        return ";".join(f"({p})" if isinstance(p, Or | And) else str(p) for p in self.parts)


@dataclass(frozen=True)
class Or:
    """φ1∨φ2∨…: one of them. Associative, hence flat."""

    parts: tuple["Node", ...]

    def __str__(self) -> str:
        # Parentheses around ; and & are not needed, only kind to the reader.
        return "|".join(str(p) if isinstance(p, Symbol) else f"({p})" for p in self.parts)


@dataclass(frozen=True)
class And:
    """φ1∧φ2 = (φ1;φ2)∨(φ2;φ1): both, in either order, without interleaving. Not associative, hence binary."""

    left: "Node"
    right: "Node"

    def __str__(self) -> str:
        left = f"({self.left})" if isinstance(self.left, Or | Then) else str(self.left)
        right = str(self.right) if isinstance(self.right, Symbol) else f"({self.right})"
        return f"{left}&{right}"


Node: TypeAlias = Symbol | Then | Or | And

_GRAMMAR = r"""
    ?alternatives: both (_OR both)*
    ?both: sequence (_AND sequence)*
    ?sequence: operand (_THEN operand)*
    ?operand: SYMBOL | "(" alternatives ")"
    SYMBOL: /[A-Za-z][A-Za-z0-9_]*/
    _THEN: ";"
    _AND: "&" | "∧"
    _OR: "|" | "∨"
    %ignore /\s+/
"""


class _Build(Transformer[Token, Node]):
    """Turns the parser's reductions into nodes, bottom up."""

    def SYMBOL(self, token: Token) -> Node:
        return Symbol(str(token))

    def sequence(self, parts: list[Node]) -> Node:
        return Then(tuple(chain.from_iterable(p.parts if isinstance(p, Then) else (p,) for p in parts)))

    def both(self, parts: list[Node]) -> Node:
        node = parts[0]
        for part in parts[1:]:
            node = And(node, part)
        return node

    def alternatives(self, parts: list[Node]) -> Node:
        return Or(tuple(chain.from_iterable(p.parts if isinstance(p, Or) else (p,) for p in parts)))


_PARSER = Lark(_GRAMMAR, parser="lalr", start="alternatives", transformer=_Build())


def parse(text: str) -> "Formula":
    """Read a formula: symbols `[A-Za-z][A-Za-z0-9_]*`, `;` then, `&` or `∧` and, `|` or `∨` or, parentheses.

    `;` binds tightest, then `&`, then `|`; all are left-associative. FormulaError marks the first bad character, or
    says that the formula can never be satisfied (such as `a;a`).
    """
    if not text.strip():
        raise FormulaError(text, 'the formula is empty: write at least one symbol, as in "a;b"')
    try:
        root: Any = _PARSER.parse(text)
    except UnexpectedInput as error:
        raise _explain(text, error) from None
    if _nesting(root) > MAX_NESTING:
        raise FormulaError(text, f"the formula is nested deeper than {MAX_NESTING} operators: write it flatter")
    if not _ends(root):
        reason = "no sequence can satisfy this formula: `;` shares the middle place, so no symbol can follow itself"
        raise FormulaError(text, reason)
    return Formula(root)


def _nesting(root: Node) -> int:
    """Operators on the longest way down to a symbol; without recursion, so that any depth can be counted."""
    depth, level = 0, [root]
    while level := [part for node in level for part in _operands(node)]:
        depth += 1
    return depth


def _operands(node: Node) -> tuple[Node, ...]:
    match node:
        case Symbol():
            return ()
        case And(left, right):
            return left, right
        case _:
            return node.parts


def _explain(text: str, error: UnexpectedInput) -> FormulaError:
    """The parser's complaint in plain words, with the position."""
    at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    position = len(text.rstrip()) if at_end else error.pos_in_stream or 0
    open_parentheses: list[int] = []
    for index, character in enumerate(text[:position]):
        if character == "(":
            open_parentheses.append(index)
        elif character == ")":
            open_parentheses.pop()
    operand = "SYMBOL" in getattr(error, "allowed" if isinstance(error, UnexpectedCharacters) else "expected")
    wanted = "a symbol or '('" if operand else "';', '&' or '|'" + (" or ')'" if open_parentheses else "")
    if at_end:
        if operand:
            return FormulaError(text, f"the formula ends after {text.rstrip()[-1]!r}: expected {wanted} here", position)
        return FormulaError(text, "this '(' is never closed: expected a matching ')'", open_parentheses[-1])
    found = text[position]
    if found == ")" and not open_parentheses:
        return FormulaError(text, "this ')' closes no '('", position)
    if isinstance(error, UnexpectedCharacters):
        wanted += "; a symbol starts with a letter and goes on with letters, digits and '_'"
    return FormulaError(text, f"unexpected {found!r}: expected {wanted}", position)


def _ends(node: Node) -> frozenset[tuple[str, str]]:
    """(first, last) symbols of the node's satisfying sequences, without enumerating them; empty = unsatisfiable."""
    match node:
        case Symbol(name):
            return frozenset({(name, name)})
        case Or(parts):
            return frozenset(chain.from_iterable(map(_ends, parts)))
        case And(left, right):
            one, two = _ends(left), _ends(right)
            return _join(one, two) | _join(two, one)
        case Then(parts):
            ends = _ends(parts[0])
            for part in parts[1:]:
                ends = _join(ends, _ends(part))
            return ends


def _join(one: frozenset[tuple[str, str]], two: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    return frozenset((first, last) for first, middle in one for start, last in two if middle != start)


# --- meaning ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Formula:
    """A task description φ. Made by `parse`; equal when written the same up to needless parentheses."""

    root: Node

    def __str__(self) -> str:
        return str(self.root)

    def __repr__(self) -> str:
        return f"parse({str(self)!r})"

    @property
    def pretty(self) -> str:
        """The formula in mathematical signs, for titles: c ; (b ∨ w) ; d."""
        return str(self).replace(";", " ; ").replace("|", " ∨ ").replace("&", " ∧ ")

    @cached_property
    def symbols(self) -> Word:
        """Symbols that are written in the formula, sorted."""
        return tuple(sorted(set(re.findall(r"\w+", str(self)))))

    def satisfied_by(self, trace: Iterable[str | None]) -> bool:
        """Whether some prefix of the trace satisfies φ, literally as the paper defines it.

        The trace is the symbol of each visited place, the start place included; None or "" is a place without a symbol,
        and symbols that are not in the formula are harmless. Cost: at most formula size × trace length squared.
        """
        return bool(_Satisfaction([place or None for place in trace]).ends(self.root))

    def satisfying_sequences(self) -> tuple[Word, ...]:
        """All sequences of symbols the formula asks for, sorted; none repeats a symbol immediately."""
        return self.fsm().sequences()

    def minimal_sequences(self) -> tuple[Word, ...]:
        """The satisfying sequences that contain no other one as a subsequence, sorted.

        Only these can be learned from labels: a trace that contains a longer sequence contains a minimal one, too.
        """
        return self.fsm().minimal_sequences()

    def fsm(self) -> FSM:
        """The finite-state machine M_φ (non-deterministic in general), the same for the same formula."""
        return self._fsm

    @cached_property
    def _fsm(self) -> FSM:
        return _construct(self)

    def _repr_html_(self) -> str | None:
        """The formula in mathematical signs, and its machine, for notebooks."""
        machine = self.fsm()._repr_html_()
        return f"<div>{escape(self.pretty)}<br>{machine}</div>" if machine is not None else None


class _Satisfaction:
    """The satisfaction relation on one trace: between which places a subformula is satisfied.

    Of a set of start places only two are decisive: the earliest, and the earliest that carries another symbol. The
    second one serves subformulas that begin with the symbol of the first. So the distinct questions are few, and each
    is answered once.
    """

    def __init__(self, trace: list[str | None]):
        self.trace = trace
        self.answers: dict[tuple[int, tuple[int, ...]], tuple[int, ...]] = {}
        self.places: dict[str | None, list[int]] = defaultdict(list)
        for index, symbol in enumerate(trace):
            self.places[symbol].append(index)

    def ends(self, node: Node, starts: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """The decisive last places (at most two) of the parts of the trace from `starts` on that satisfy the node."""
        starts = (0,) * bool(self.trace) if starts is None else starts
        if not starts:
            return ()
        key = id(node), starts
        if key not in self.answers:
            self.answers[key] = self._ends(node, starts)
        return self.answers[key]

    def _ends(self, node: Node, starts: tuple[int, ...]) -> tuple[int, ...]:
        match node:
            case Symbol(name):
                start = next((place for place in starts if self.trace[place] != name), len(self.trace))
                places = self.places.get(name, [])
                index = bisect_right(places, start)
                return tuple(places[index : index + 1])
            case Then(parts):
                for part in parts:
                    starts = self.ends(part, starts)
                return starts
            case Or(parts):
                return self._decisive(chain.from_iterable(self.ends(part, starts) for part in parts))
            case And(left, right):
                one, two = self.ends(right, self.ends(left, starts)), self.ends(left, self.ends(right, starts))
                return self._decisive(one + two)

    def _decisive(self, places: Iterable[int]) -> tuple[int, ...]:
        earliest: dict[str | None, int] = {}
        for place in sorted(places):
            earliest.setdefault(self.trace[place], place)
        return tuple(earliest.values())[:2]


# --- construction of the finite-state machine ------------------------------------------------------------------------


def _construct(formula: Formula) -> FSM:
    """The formula's FSM: one state per written symbol (Glushkov's construction), then merged.

    An edge enters the state of each symbol that may come next; a symbol that would follow itself directly gets none.
    Merging states with equal leaving edges, or with equal entering edges, keeps the set of words and gives the textbook
    picture: c;(b|w);d has the states v0 -c-> v1 -b,w-> v2 -d-> vT.
    """
    symbol_of: dict[int, str] = {}
    follows: set[tuple[int, int]] = set()

    def link(lasts: list[int], firsts: list[int]) -> None:
        if len(symbol_of) > MAX_SYMBOLS or len(follows) + len(lasts) * len(firsts) > MAX_ARROWS:
            reason = (
                f"its FSM needs more than {MAX_SYMBOLS:,} states or {MAX_ARROWS:,} edges, since each & doubles them"
            )
            raise FormulaError(str(formula), f"the formula is too large: {reason}; use fewer & or fewer symbols")
        follows.update((u, v) for u in lasts for v in firsts if symbol_of.get(u) != symbol_of[v])

    def build(node: Node) -> tuple[list[int], list[int]]:
        """Add the node's states; its first and last ones."""
        match node:
            case Symbol(name):
                state = len(symbol_of) + 1
                symbol_of[state] = name
                return [state], [state]
            case Then(parts):
                firsts, lasts = build(parts[0])
                for part in parts[1:]:
                    middle = build(part)
                    link(lasts, middle[0])
                    lasts = middle[1]
                return firsts, lasts
            case Or(parts):
                ends = [build(part) for part in parts]
                return list(chain(*(first for first, _ in ends))), list(chain(*(last for _, last in ends)))
            case And(left, right):
                return build(Or((Then((left, right)), Then((right, left)))))

    firsts, lasts = build(formula.root)
    link([0], firsts)
    useful = _closure({0}, follows) & _closure(set(lasts), {(v, u) for u, v in follows})
    edges = {(u, symbol_of[v], v) for u, v in follows if u in useful and v in useful}
    accepting = useful & set(lasts)
    while twins := _twins(edges):
        edges = {(twins.get(u, u), symbol, twins.get(v, v)) for u, symbol, v in edges}
        accepting = {twins.get(state, state) for state in accepting}
    return _numbered(edges, accepting, formula.symbols)


def _closure(states: set[int], arrows: set[tuple[int, int]]) -> set[int]:
    """The states and all that can be reached from them."""
    targets = defaultdict(list)
    for source, target in arrows:
        targets[source].append(target)
    reached, waiting = set(states), list(states)
    while waiting:
        new = set(targets[waiting.pop()]) - reached
        reached |= new
        waiting += new
    return reached


def _twins(edges: set[Edge]) -> dict[int, int]:
    """State -> the state it can be merged into: equal leaving edges first (all last states: v_T), then entering."""
    leaving, entering = defaultdict(set), defaultdict(set)
    for source, symbol, target in edges:
        leaving[source].add((symbol, target))
        entering[target].add((symbol, source))
    for edges_of in leaving, entering:
        same: dict[frozenset[tuple[str, int]], int] = {}
        twins = {state: same.setdefault(frozenset(edges_of[state]), state) for state in sorted(entering)}
        if twins := {state: twin for state, twin in twins.items() if state != twin}:
            return twins
    return {}


def _numbered(edges: set[Edge], accepting: set[int], symbols: Word) -> FSM:
    """The FSM with states numbered 0, 1, … layer by layer, within a layer in the order of their entering edges."""
    states = tuple(sorted({0}.union(*((u, v) for u, _, v in edges))))
    raw = FSM(states, 0, frozenset(accepting), tuple(sorted(edges)), symbols)
    number = {0: 0}
    into: dict[int, list[Edge]] = defaultdict(list)
    for edge in edges:
        into[raw.layer[edge[2]]].append(edge)
    for layer in range(1, raw.longest_path + 1):
        for *_, state in sorted((number[u], symbol, v) for u, symbol, v in into[layer]):
            number.setdefault(state, len(number))
    return FSM(
        states=tuple(sorted(number.values())),
        initial=0,
        accepting=frozenset(number[state] for state in accepting),
        edges=tuple(sorted((number[u], symbol, number[v]) for u, symbol, v in edges)),
        symbols=symbols,
    )
