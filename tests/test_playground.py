"""The playground, driven from Python: what is clicked is built, told, run and exported."""

import time

import matplotlib.pyplot as plt
import pytest
from test_loop import tiny

import lstoc_core as lstoc
from lstoc_core.drawing.playground import OWN, Playground
from lstoc_core.drawing.snapshot import snapshot
from lstoc_core.trajectories import random_walks
from lstoc_core.worlds import compile_world
from lstoc_core.worlds.chance import random_walk_chance


@pytest.fixture
def play():
    made = Playground()
    yield made
    made.stop()


def built(play):
    """The task that the exported line builds."""
    return eval(play.code.value, {"lstoc": lstoc})


def place(play, tool, cell):
    play.tool.value = tool
    play.cells[cell].click()


def small(play, formula="a;b"):
    """A task on a map of 4 × 4 cells, made by clicks."""
    play.width.value = play.height.value = 4
    play.formula.value = formula
    for letter, cell in {"a": (3, 0), "b": (0, 3), "c": (3, 3), "d": (1, 2), "e": (2, 1)}.items():
        place(play, letter, cell)


def ended(play):
    found = play.wait()
    assert not play.running
    return found


def test_it_begins_with_a_task_that_is_proved(play):
    assert built(play).positions == lstoc.TASKS["letter-2"].positions
    play.run_button.click()
    found = ended(play)
    assert lstoc.score(found, play.task) == lstoc.scoring.Score(exact=True, found=1.0, labels_correct=True)
    assert "proved after" in play.view.value
    assert not play.run_button.disabled


def test_clicks_place_letters_walls_and_the_start(play):
    small(play)
    assert play.named.value == OWN
    place(play, "a", (2, 3))
    place(play, "wall", (1, 1))
    place(play, "wall", (0, 1))
    place(play, "wall", (0, 1))
    place(play, "start", (0, 0))
    place(play, "erase", (3, 3))
    assert play.cells[2, 3].description == "a"
    assert play.cells[3, 0].description.isspace(), "a letter is at one place"
    assert play.task.positions == {"a": (2, 3), "b": (0, 3), "d": (1, 2), "e": (2, 1)}
    assert play.task.walls == {(1, 1)}
    assert built(play) == play.task


@pytest.mark.parametrize(
    ("formula", "told"),
    [("a;", "a;"), ("a;a", "a"), ("a;q", "'q' without a position"), ("a;$", "$")],
)
def test_errors_are_told_in_place_and_nothing_can_be_run(play, formula, told):
    play.formula.value = formula
    assert told in play.told.value.replace("&nbsp;", " ").replace("&#x27;", "'")
    assert "color:#c8102e" in play.told.value
    assert (play.task, play.code.value, play.run_button.disabled) == (None, "", True)
    play.formula.value = "a;b"
    assert "base64" in play.machine.value
    assert not play.run_button.disabled


def test_what_is_told_before_running(play):
    small(play, "a;(b|c);d")
    assert "b and c can be exchanged" in play.told.value
    chance = random_walk_chance(compile_world(play.task))
    assert f"probability {chance:.2%}" in play.told.value
    play.formula.value = "a;b"
    assert "Names are unique" in play.told.value


def test_the_chance_of_a_random_walk_is_right():
    task = tiny("a;b", horizon=40)
    walks = random_walks(task.vector_env(500, seed=0), 4_000, seed=0)
    assert random_walk_chance(compile_world(task)) == pytest.approx(walks.labels.mean(), abs=0.02)


def test_step_pause_run_and_stop(play):
    small(play, "(a;b)|c")

    def episodes():
        return 0 if play._shown is None else len(play._shown[2].labels)

    def until(count):
        deadline = time.monotonic() + 30
        while episodes() < count and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.1)
        return episodes()

    play.step_button.click()
    assert until(1) == 1
    play.step_button.click()
    assert until(2) == 2
    assert play.running
    play.stop_button.click()
    found = ended(play)
    assert (found.interrupted, found.num_trajectories) == (True, 2)
    assert "stopped after 2 episodes" in play.view.value


def test_a_stopped_run_shows_its_last_episode(play):
    small(play, "(a;b)|c")
    play.step_button.click()
    play.stop_button.click()
    found = ended(play)
    assert len(play._shown[2].labels) == found.num_trajectories
    assert f"episode {found.num_trajectories}<" in play.view.value


def test_the_picture_shows_what_is_built(play):
    small(play)
    place(play, "wall", (1, 1))
    fig = snapshot(play)
    shown = {(text.get_text(), text.get_position()) for ax in fig.axes for text in ax.texts}
    assert {(letter, cell) for letter, cell in play.letters.items()} <= shown
    assert ("■", (1, 1)) in shown
    assert {"a;b", "Names are unique: each can be learned.", "Run"} <= {text for text, _ in shown}
    play.formula.value = "a;"
    assert "a;" in {text.get_text() for ax in snapshot(play).axes for text in ax.texts}, "also what cannot be made"
    plt.close("all")


def test_the_truth_is_hidden_until_it_is_revealed(play):
    small(play)
    play.run_button.click()
    ended(play)
    assert "<image" not in play.view.value
    play.reveal.value = True
    assert "<image" in play.view.value


def test_seed_and_explorer_are_those_of_the_run(play):
    small(play)
    play.seed.value, play.explorer.value = 3, "planner"
    play.run_button.click()
    found = ended(play)
    assert found.seed == 3
    assert found.exploration.startswith("planner")
