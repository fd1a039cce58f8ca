"""Maps, trees and colours as text."""

import io
import re

import pytest

from lstoc_core.discovery.tree import SubgoalTree
from lstoc_core.terminal import Brush, map_lines, nearest, tree_lines
from lstoc_core.worlds.pictures import letter_colour
from lstoc_core.worlds.tasks import TASKS, make_task

PLAIN, COLOURED = Brush(on=False), Brush(on=True)
TASK = make_task(
    domain="letter", formula="a;b", positions={"a": (1, 0), "b": (3, 1), "e": (0, 1)}, size=(4, 3),
    walls=[(1, 2), (2, 2)], horizon=50, wrap=False,
)  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self):
        return True


def without_colours(text):
    return re.sub("\x1b\\[[0-9;]*m", "", text)


@pytest.mark.parametrize(
    ("stream", "variables", "on"),
    [
        (Terminal(), {}, True),
        (io.StringIO(), {}, False),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(monkeypatch, stream, variables, on):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Brush.of(stream).on == on


def test_a_colour_is_the_nearest_of_the_cube():
    assert [nearest(colour) for colour in ("#000000", "#FFFFFF", "#FF0000", "#5F87AF")] == [16, 231, 196, 67]


def test_the_map_shows_walls_start_letters_and_what_was_found():
    assert map_lines(TASK, {(3, 1): "b"}, PLAIN) == [" ○ a · ·", " e · ·[b]", " · ███ ·"]
    assert map_lines(TASK, {(0, 2): "?"}, PLAIN)[2] == "[?]███ ·", "a wrong place is shown where it is"


def test_colours_do_not_change_the_text():
    found = {(1, 0): "a", (3, 1): "b"}
    plain, coloured = (map_lines(TASK, found, paint) for paint in (PLAIN, COLOURED))
    assert [without_colours(line).rstrip() for line in coloured] == plain
    assert f"38;5;{nearest(letter_colour('a'))}m[a]" in coloured[0]


@pytest.mark.parametrize(
    ("sequences", "lines"),
    [
        ([(0, 1)], ["start ─── a ─── b ✓"]),
        ([(0, 1, 3), (2, 3)], ["start ─┬─ a ─── b ─── d ✓", "       └─ c ─── d ✓"]),
        (
            [(0, 1), (0, 2, 3), (0, 2, 1), (3,)],
            ["start ─┬─ a ─┬─ b ✓", "       │     └─ c ─┬─ d ✓", "       │           └─ b ✓", "       └─ d ✓"],
        ),
    ],
)
def test_the_tree_has_a_line_for_each_sequence(sequences, lines):
    tree = SubgoalTree.from_sequences(sequences)
    names = dict(enumerate("abcd"))
    assert tree_lines(tree, names, PLAIN) == lines
    assert [without_colours(line) for line in tree_lines(tree, names, COLOURED)] == lines


def test_a_key_state_without_a_name_is_a_question():
    assert tree_lines(SubgoalTree.from_sequences([(0, 1)]), {0: "a"}, PLAIN) == ["start ─── a ─── ? ✓"]


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name)
def test_no_two_letters_of_a_task_share_a_colour(task):
    assert len({letter_colour(letter) for letter in task.formula.symbols}) == len(task.formula.symbols)
