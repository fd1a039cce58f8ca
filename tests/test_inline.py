"""Objects show themselves: short plain text, HTML with pictures, and a progress bar that tells how the run ended."""

import base64
import builtins
import io
import re
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from test_loop import Corridor, tiny

import lstoc_core as lstoc
from lstoc_core import loop
from lstoc_core.discovery.tree import SubgoalTree
from lstoc_core.drawing.inline import Folded
from lstoc_core.logic import parse
from lstoc_core.result import shortened

TASK = tiny("(a;b)|c")


@pytest.fixture(scope="module")
def found():
    return lstoc.discover(TASK, explorer="planner", seed=0, progress=False)


@pytest.fixture(scope="module")
def few():
    return lstoc.discover(TASK, explorer="planner", seed=0, progress=False, max_steps=30)


def pictures(html):
    """The pictures inside, and their alternative texts."""
    images = [Image.open(io.BytesIO(base64.b64decode(code))) for code in re.findall(r'base64,([^"]+)"', html)]
    return images, re.findall(r'alt="([^"]+)"', html)


# --- plain text -------------------------------------------------------------------------------------------------------


def test_a_discovery_is_short(found, few):
    for discovery in (found, few):
        assert 2 <= len(repr(discovery).splitlines()) <= 5
    assert "  a → b\n  c" in repr(found)
    assert f"finished after {found.num_trajectories} trajectories" in repr(found)
    assert "missing" not in repr(found)
    assert "open after" in repr(few)
    assert "missing: " in repr(few)


def test_many_sequences_stay_short(found):
    many = replace(found, sequences=((0, 1),) * 40, missing=loop.Missing.one("a\nb " * 300))
    assert len(repr(many).splitlines()) == 5
    assert "and 38 more" in repr(many)
    assert max(map(len, repr(many).splitlines())) < 220


def test_parts_are_one_line(found):
    for part in (found.tree, found.labeling, TASK, TASK.fsm(), TASK.formula, *found.key_states):
        assert len(repr(part).splitlines()) == 1
    tree = SubgoalTree.from_sequences([(k,) for k in range(30)])
    assert repr(tree) == "SubgoalTree(31 nodes; satisfying: 0 | 1 | 2 | and 27 more)"
    assert repr(SubgoalTree()) == "SubgoalTree(1 nodes; satisfying: none yet)"
    labeling = lstoc.label([(0,), (1,)], parse("a|b").fsm())
    assert repr(labeling) == "Labeling({0: 'a', 1: 'b'}, 1 alternatives)"


def test_the_fingerprint_tells_tasks_apart_although_their_texts_are_equal():
    other = replace(TASK, positions={**TASK.positions, "a": TASK.positions["b"], "b": TASK.positions["a"]})
    assert repr(other) == repr(TASK)
    assert other.fingerprint != TASK.fingerprint
    assert lstoc.TASKS["office-2"].fingerprint == "office-2, c;((o;c)|m);d, 38ab4a9d"  # caches depend on it


@given(st.text(), st.integers(2, 50))
def test_shortened_is_one_line_of_that_length(text, most):
    line = shortened(text, most)
    assert len(line) <= most
    assert len(line.splitlines()) <= 1
    whole = " ".join(text.split())
    assert line == whole if len(whole) <= most else whole.startswith(line[:-1])


# --- HTML -------------------------------------------------------------------------------------------------------------


def test_a_discovery_in_a_grid_shows_the_map_with_its_key_states(found):
    before = plt.get_fignums()
    html = found._repr_html_()
    images, texts = pictures(html)
    assert len(images) == len(texts) == 2
    for name, cell in TASK.positions.items():
        if name in TASK.formula.symbols:
            assert f"{name} at {cell}" in html
    assert texts[1] == "subgoal tree: a → b or c"
    assert "exactly one assignment of symbols to states is consistent" in html
    red = np.all(np.abs(np.asarray(images[0].convert("RGB")).astype(int) - (200, 16, 46)) < 40, axis=2)
    assert red.sum() > 100
    assert plt.get_fignums() == before


def test_what_is_missing_is_told_in_coordinates(found):
    first, second = (key.observation_id for key in found.key_states[:2])
    some = replace(found, finished=False, missing=loop.Missing.one("{} is open", (first, second)), labeling=None)
    a, b = TASK.positions["a"], TASK.positions["b"]
    assert f"Missing: {a} → {b} is open" in some._repr_html_()
    assert "exactly one assignment" not in some._repr_html_()


def test_elsewhere_a_discovery_shows_pictures(found):
    loaded = replace(found, explorer=None)
    images, texts = pictures(loaded._repr_html_())
    assert len(images) == 1
    assert texts == ["subgoal tree: a → b or c"]
    nothing = lstoc.discover(Corridor(), fsm="a", success="reward", progress=False, max_steps=64)
    assert "Key states: " in nothing._repr_html_()


def test_tasks_machines_and_trees_are_drawn(found):
    for thing in (TASK, TASK.fsm(), found.tree):
        images, texts = pictures(thing._repr_html_())
        assert len(images) == len(texts) == 1
        assert np.asarray(images[0].convert("L")).std() > 5, "the picture is empty"
    assert TASK.formula.pretty in TASK._repr_html_()


def test_a_long_table_is_folded_and_keeps_its_text():
    folded = Folded("all < of them", pd.DataFrame({"found": [1, 2]}))
    assert folded._repr_html_().startswith("<details><summary>all &lt; of them</summary><table")
    assert "found" in repr(folded)


def test_formulas_labelings_and_scores_show_themselves(found):
    images, _ = pictures(TASK.formula._repr_html_())
    assert len(images) == 1
    assert TASK.formula.pretty in TASK.formula._repr_html_()
    exchanged = lstoc.label([(0, 1), (0, 2)], parse("a;(b|c)").fsm())._repr_html_()
    assert "<td>1</td><td>b or c</td>" in exchanged
    assert "cannot be told apart: b/c" in exchanged
    assert found.labeling._repr_html_().count("<tr>") == 4
    assert lstoc.score(found, TASK)._repr_html_().count("✓") == 3
    wrong = lstoc.scoring.Score(exact=False, found=0.5, labels_correct=False)._repr_html_()
    assert (wrong.count("✗"), "50%" in wrong) == (3, True)


def test_plain_texts_have_at_most_five_lines(found, few):
    shown = (found, few, TASK, TASK.fsm(), TASK.formula, found.labeling, found.tree, lstoc.score(found, TASK))
    assert [len(repr(thing).splitlines()) for thing in shown if len(repr(thing).splitlines()) > 5] == []


def test_plot_counts_the_successes(found):
    for discovery, panels in ((found, 3), (replace(found, explorer=None), 2)):
        fig = discovery.plot()
        assert len(fig.axes) == panels
        (line, *_) = fig.axes[-1].get_lines()
        assert line.get_ydata()[-1] == found.trajectories.labels.sum()
        assert f"proved after {found.num_trajectories}" in fig.axes[-1].get_title()
        plt.close(fig)


def test_names_cannot_break_out_of_the_html():
    task = replace(TASK, name="<script>")
    assert "<script>" not in task._repr_html_()


def test_without_matplotlib_the_plain_text_is_shown(found, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("lstoc_core.drawing"):
            raise ModuleNotFoundError("no matplotlib", name="matplotlib")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert [thing._repr_html_() for thing in (found, TASK, TASK.fsm(), found.tree)] == [None] * 4


# --- the progress bar -------------------------------------------------------------------------------------------------


class Bar:
    """What is told to a progress bar."""

    def __init__(self, n, total):
        self.n, self.total, self.colour, self.text = n, total, None, ""

    def set_postfix_str(self, text, refresh):
        assert text == ""

    def set_description_str(self, text):
        self.text = text


def test_a_proved_run_ends_green_and_full(found):
    bar = Bar(300, 1000)
    loop._conclude(bar, found, loop._ending(found, "proved", False, done=True), done=True)
    assert (bar.colour, bar.total) == ("green", 300)
    assert bar.text == f"proved after {found.num_trajectories} trajectories, {found.num_positives} successes"


@pytest.mark.parametrize(("steps", "total"), [(1010, 1010), (40, 1000)])
def test_an_open_run_ends_amber_with_what_is_missing(few, steps, total):
    bar = Bar(steps, 1000)
    ended = replace(few, interrupted=steps < 1000)
    loop._conclude(bar, ended, loop._ending(ended, "proved", False, done=False), done=False)
    assert (bar.colour, bar.total) == ("#e69f00", total)
    assert bar.text.startswith("stopped; still" if steps < 1000 else "budget used; still missing: ")
    assert few.missing.needs[0].told()[:60] in bar.text


def test_a_discovery_whose_policy_fails_is_not_called_done(found):
    bar = Bar(1010, 1000)
    loop._conclude(bar, found, loop._ending(found, "proved", False, done=False), done=False)
    assert bar.colour == "#e69f00"
    assert "still missing: a policy that completes the task" in bar.text


def test_the_bar_of_a_run_ends_with_the_verdict(capsys):
    lstoc.discover(TASK, explorer="planner", seed=0)
    assert re.search(r"proved after \d+ trajectories, \d+ successes: 100%", capsys.readouterr().err)
