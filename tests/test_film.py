"""Films of runs: scenes tell the truth, files are small, whole and the same each time."""

import io
import re
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image, ImageSequence
from test_loop import Corridor, tiny

import lstoc_core as lstoc
from lstoc_core import paths
from lstoc_core.drawing.film import Film
from lstoc_core.drawing.scene import counted, strides, walked
from lstoc_core.worlds import compile_world

TASK = tiny("(a;b)|c", start=(2, 2))
WORLD = compile_world(TASK)


def filmed(env, **options):
    film = Film()
    found = lstoc.discover(env, seed=0, progress=False, callbacks=[film], **options)
    return found, film


@pytest.fixture(scope="module")
def run():
    return filmed(TASK)


# --- scenes -----------------------------------------------------------------------------------------------------------


def test_question_marks_become_letters(run):
    found, film = run
    first, last = film.scenes[0], film.scenes[-1]
    assert [node.text for node in first.nodes].count("?") > 0
    assert sorted(node.text for node in last.nodes) == ["", "a", "b", "c"]
    assert [node.last for node in last.nodes if node.text in "bc" and node.text] == [True, True]
    assert [scene.finished for scene in film.scenes] == [False] * (len(film.scenes) - 1) + [True]
    assert last.settled == {symbol: WORLD.observation_of_symbol(symbol) for symbol in "abc"}
    assert len(film.scenes) == found.num_trajectories


def test_what_is_settled_is_right_and_stays_so(run):
    """The truth is consistent with every episode, so nothing that all answers say can be wrong."""
    _, film = run
    for before, after in pairwise(film.scenes):
        assert before.settled.items() <= after.settled.items()
    assert all(scene.settled.items() <= film.scenes[-1].settled.items() for scene in film.scenes)


def test_sentences_speak_of_letters_and_coordinates(run):
    _, film = run
    last = film.scenes[-1].sentence
    assert last == ", ".join(f"{symbol} at {TASK.positions[symbol]}" for symbol in "abc")
    for scene in film.scenes:
        told = re.findall(r"([abc])(?: at \((\d+), (\d+)\)|: (\d+) places?)", scene.sentence)
        assert told or scene.sentence == "no success yet", scene.sentence
        for symbol, x, y, count in told:
            assert (int(x), int(y)) == TASK.positions[symbol] if x else int(count) == scene.places[symbol]


def test_heat_and_number_agree(run):
    _, film = run
    for scene in film.scenes:
        if scene.heat is not None:
            assert scene.heat.sum() == pytest.approx(3)
            assert scene.heat.max() <= 1
            assert 2**scene.bits == pytest.approx(scene.count)
    assert (film.scenes[-1].count, film.scenes[-1].bits) == (1, 0)


@pytest.mark.parametrize("name", ["office-2", "letter-1", "robot"])
def test_a_walk_is_read_back_from_what_was_seen(name):
    """A random walk, recorded as observations, some of which belong to several cells."""
    world, rng = compile_world(name), np.random.default_rng(0)
    positions = [int(world.starts[0])]
    for action in rng.integers(4, size=200):
        positions.append(int(world.next_position[positions[-1], action]))
    cells = walked(world, world.observation_id[positions])
    number = {tuple(cell): index for index, cell in enumerate(world.coordinates.tolist())}
    read = [number[tuple(cell)] for cell in cells.tolist()]
    assert (world.observation_id[read] == world.observation_id[positions]).all()
    assert all(two in world.next_position[one] for one, two in pairwise(read))
    if world.num_observations == world.num_positions:
        assert read == positions


def test_a_walk_that_is_impossible_is_refused():
    with pytest.raises(ValueError, match="no walk on this map"):
        walked(WORLD, [int(WORLD.observation_id[0]), int(WORLD.observation_id[-1])])


def test_a_step_over_an_edge_leaves_and_comes_back():
    world = compile_world("letter-1")
    assert strides(world, np.array([[0, 3], [9, 3]])) == [((0, 3), (-0.5, 3)), ((9.5, 3), (9, 3))]
    assert strides(world, np.array([[4, 3], [4, 3], [5, 3]])) == [((4, 3), (5, 3))]


@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "1 answer left"), (1543, "1,543 answers left"), (3.2e6, "3 million answers left"), (float("nan"), "many")],
)
def test_numbers_in_words(count, text):
    assert counted(count).startswith(text)


# --- files ------------------------------------------------------------------------------------------------------------


def test_the_same_run_gives_the_same_bytes(run, tmp_path):
    _, film = run
    _, again = filmed(TASK)
    for suffix, write in (("gif", Film.save), ("png", Film.still)):
        one, two = write(film, tmp_path / f"one.{suffix}"), write(again, tmp_path / f"two.{suffix}")
        assert one.read_bytes() == two.read_bytes()


def test_a_gif_shows_every_frame_as_it_was_painted(run, tmp_path):
    """Frames are stored as differences: each must come out whole."""
    _, film = run
    frames = list(film.frames())
    with Image.open(film.save(tmp_path / "film.gif")) as gif:
        shown = [
            (np.asarray(each.convert("RGB"), np.int16), each.info["duration"]) for each in ImageSequence.Iterator(gif)
        ]
    assert [duration for _, duration in shown] == [frame.duration for frame in frames]
    painter = film._painter()
    for index in (0, len(frames) // 2, len(frames) - 1):
        away = np.abs(shown[index][0] - np.asarray(painter.paint(frames[index]), np.int16)).max(axis=2)
        assert (away > 60).mean() < 0.002, "only colours may be rounded"


def test_a_film_without_a_run_says_so(tmp_path):
    with pytest.raises(ValueError, match="callbacks="):
        Film().save(tmp_path / "none.gif")


@pytest.mark.parametrize("fsm", [None, "a;b"])
def test_other_worlds_are_shown_by_what_the_agent_sees(fsm, tmp_path):
    _, film = filmed(Corridor, fsm=fsm, max_steps=600)
    assert film.stage.world is None
    with Image.open(film.still(tmp_path / "still.png")) as still:
        assert np.asarray(still.convert("L")).std() > 5
    assert not re.search(r"\[\d", film.scenes[-1].sentence), "ids"


@pytest.mark.parametrize("name", ["discovery", "discovery_office", "discovery_crafter"])
def test_the_committed_films_are_small_and_legible(name):
    data = (paths.ROOT / "figures" / f"{name}.gif").read_bytes()
    assert len(data) < 1_000_000
    with Image.open(io.BytesIO(data)) as gif, Image.open(paths.ROOT / "figures" / f"{name}.png") as still:
        assert gif.size[0] == still.size[0] == 800
        assert gif.n_frames > 50
        assert gif.info["loop"] == 0
