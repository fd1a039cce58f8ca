"""The live view: what it shows, how often, at which cost, and that it never changes the run."""

import math
import os
import re
import sys
import time
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from jupyter_client.manager import start_new_kernel
from test_loop import Corridor, tiny

import lstoc_core as lstoc
from lstoc_core.drawing import live
from lstoc_core.drawing.panes import height

TASK = tiny("(a;b)|c", start=(2, 2))


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def notebook(monkeypatch):
    """A notebook at which somebody looks; the views that were made, and what was displayed."""
    made, shown = [], []

    class Seen(live.LiveView):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            made.append(self)

    monkeypatch.setattr(live, "notebook", lambda: True)
    monkeypatch.setattr(live, "LiveView", Seen)
    monkeypatch.setattr("IPython.display.display", shown.append)
    monkeypatch.setenv("JPY_SESSION_NAME", "a notebook")
    return made, shown


def watched(env=TASK, **options):
    return lstoc.discover(env, seed=0, watch=True, **options)


def texts(view):
    """Everything that the view says; the SVG is well formed."""
    found = ET.fromstring(view._change.value).iter()
    return [element.text or "" for element in found if element.tag.endswith("text")]


def test_the_view_reaches_proved(notebook, capsys):
    made, shown = notebook
    found = watched()
    (view,) = made
    assert shown == [view.widget]
    assert texts(view)[0] == f"proved after {found.num_trajectories} trajectories, {found.num_positives} successes"
    assert "proved: 1 answer left" in texts(view)
    for symbol in "abc":
        assert f"at {TASK.positions[symbol]}" in texts(view)
    assert "?" not in texts(view)
    assert view.button.disabled
    assert capsys.readouterr().err == "", "the view takes the place of the progress bar"


def test_watching_does_not_change_the_run(notebook):
    plain = lstoc.discover(TASK, seed=0, progress=False)
    assert np.array_equal(watched().trajectories.ids, plain.trajectories.ids)


def test_stop_returns_what_was_found_so_far(notebook):
    made, _ = notebook
    found = watched(callbacks=[lambda state: made[0].button.click() if state["trajectories"] == 2 else None])
    assert (found.interrupted, found.finished, found.num_trajectories) == (True, False, 2)
    assert texts(made[0])[0] == "stopped"


def test_headless_execution_shows_the_end_alone(notebook, monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME")
    _, shown = notebook
    watched()
    (page,) = shown
    assert "proved after" in page.data
    assert page.data.count("<svg") == 1


def test_outside_of_a_notebook_the_bar_tells(monkeypatch, capsys):
    with pytest.warns(UserWarning, match="the progress bar tells instead"):
        found = watched()
    assert found.finished
    assert "proved after" in capsys.readouterr().err


@pytest.mark.parametrize("options", [{"fsm": "a;b"}, {"fsm": None}])
def test_any_environment_can_be_watched(notebook, options):
    made, _ = notebook
    found = watched(Corridor, max_steps=600, **options)
    told = texts(made[0])
    assert told[0].startswith(("proved after", "found after") if found.finished else "budget used")
    assert not re.search(r"\[\d", " ".join(told)), "ids"


def test_two_drawings_a_second_of_the_same_height(notebook):
    """A state every 0.1 s, for 10 s: the view is drawn every half second, each time at the same size."""
    clock, sizes = Clock(), []
    states = []
    lstoc.discover(TASK, seed=0, progress=False, callbacks=[states.append], max_steps=200)
    view = live.LiveView(states[-1].setting, lambda: None, clock=clock)
    for tick in range(100):
        clock.now = tick / 10
        before = view.drawn
        view(states[-1])
        if view.drawn > before:
            sizes.append((ET.fromstring(view._change.value).get("height"), tick))
    assert [tick for _, tick in sizes] == list(range(0, 100, 5))
    assert {size for size, _ in sizes} == {str(height(view.stage))}
    assert view._change.layout.height == f"{height(view.stage)}px"


def test_slow_drawings_are_made_less_often(notebook, monkeypatch):
    clock, states = Clock(), []
    lstoc.discover(TASK, seed=0, progress=False, callbacks=[states.append], max_steps=200)
    view = live.LiveView(states[-1].setting, lambda: None, clock=clock)
    draw = view._draw

    def slow(*arguments, **options):
        draw(*arguments, **options)
        clock.now += 0.3

    monkeypatch.setattr(view, "_draw", slow)
    spent = 0
    for _ in range(1_000):
        clock.now += 0.1
        before = view.drawn
        view(states[-1])
        spent += 0.3 * (view.drawn - before)
    assert view.drawn >= 3
    assert spent / clock.now < 0.04


def test_without_widgets_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "lstoc_core.drawing.live", None)
    monkeypatch.delattr("lstoc_core.drawing.live")
    with pytest.raises(ModuleNotFoundError, match=r"watch=True needs .*lstoc-core\[notebooks\]"):
        watched()


WATCHED = """
import lstoc_core as lstoc
d = lstoc.discover("letter-1", seed=0, watch=True, confirm=1_000_000, max_steps=100_000_000)
print("interrupted", d.interrupted)
"""
"""A run whose answer a million episodes are to confirm."""


def test_a_click_is_heard_while_the_cell_runs():
    """In a real kernel: the click comes by a subshell, as JupyterLab sends it, while the main shell is busy."""
    manager, client = start_new_kernel(env={**os.environ, "JPY_SESSION_NAME": "a notebook", "OMP_NUM_THREADS": "1"})
    try:
        client.control_channel.send(client.session.msg("create_subshell_request", {}))
        subshell = client.get_control_msg(timeout=60)["content"]["subshell_id"]
        run, clicked, button = client.execute(WATCHED), math.inf, None
        while (message := client.get_iopub_msg(timeout=120))["content"].get("name") != "stdout":
            content = message["content"]
            assert message["msg_type"] != "error", content["traceback"]
            assert (message["parent_header"].get("msg_id"), content.get("execution_state")) != (run, "idle")
            state = content.get("data", {}).get("state", {})
            if message["msg_type"] == "comm_open" and state.get("description") == "Stop":
                button = content["comm_id"]
            assert time.monotonic() < clicked + 60, "the click was not heard"
            if "episodes done" in str(state.get("value")) and clicked == math.inf:
                click = {"comm_id": button, "data": {"method": "custom", "content": {"event": "click"}}}
                sent = client.session.msg("comm_msg", click)
                sent["header"]["subshell_id"] = subshell
                client.shell_channel.send(sent)
                clicked = time.monotonic()
        assert message["content"]["text"] == "interrupted True\n"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
