"""Formulas of any text and size: built, or refused at once with a limit that the error names."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lstoc_core.logic import FormulaError, parse


def nested(depth):
    text = "a"
    for level in range(depth):
        text = f"({text};b{level}|c{level})"
    return text


TOO_LARGE = [
    ("&".join(f"s{i}" for i in range(24)), "its FSM needs more than 16,000 states"),
    ("&".join(f"s{i}" for i in range(90)), "use fewer & or fewer symbols"),
    ("&".join(f"s{i}" for i in range(5000)), "nested deeper than 100 operators"),
    (nested(300), "nested deeper than 100 operators: write it flatter"),
    (nested(2000), "nested deeper than 100 operators"),
]


@pytest.mark.parametrize(("text", "message"), TOO_LARGE)
def test_a_formula_that_is_too_large_is_refused_at_once(text, message):
    start = time.perf_counter()
    with pytest.raises(FormulaError, match=message):
        parse(text).fsm()
    assert time.perf_counter() - start < 3


def test_brackets_that_say_nothing_may_be_as_deep_as_one_likes():
    assert parse("(" * 3000 + "a" + ")" * 3000) == parse("a")


def test_formulas_up_to_the_limits_are_built_and_used():
    assert len(parse("&".join(f"s{i}" for i in range(11))).fsm().states) == 2048
    deep = parse(nested(49))
    assert deep.fsm().longest_path == 50
    assert parse(str(deep)) == deep
    assert deep.satisfied_by([None, "c48"])


def test_sequences_beyond_the_limit_are_refused_at_once_and_fewer_are_listed():
    def choices(count):
        return parse(";".join("(a|b)" if i % 2 else "(c|d)" for i in range(count)))

    with pytest.raises(ValueError, match="524,288 paths lead to acceptance, more than the limit of 100,000: use fewer"):
        choices(19).minimal_sequences()
    assert len(choices(13).minimal_sequences()) == 2**13


@given(st.text(alphabet="ab1_;&|()∧∨ \n\t\\é😀\0", max_size=40))
def test_any_text_is_a_formula_or_refused_with_a_formula_error(text):
    """A formula that is read prints as one that means the same; anything else is refused in words."""
    try:
        formula = parse(text)
    except FormulaError:
        return
    assert parse(str(formula)) == formula
    assert set(formula.fsm().symbols) <= set(formula.symbols)
