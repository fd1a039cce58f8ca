"""Tasks: the nine are what the paper states, and what cannot work is refused with the place named."""

import json
import subprocess
import sys
from itertools import pairwise

import networkx as nx
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lstoc_core import paths
from lstoc_core.study.facts import random_successes, task_table
from lstoc_core.worlds import maps
from lstoc_core.worlds.make import compile_world
from lstoc_core.worlds.tasks import NINE, TASKS, Task, TaskError, make_task

SEQUENCES = {
    "letter-1": {"abc"},
    "letter-2": {"abd", "cd"},
    "letter-3": {"abad", "acd"},
    "office-1": {"cop"},
    "office-2": {"cocd", "cmd"},
    "office-3": {"cop", "mp"},
    "crafter-1": {"tcd"},
    "crafter-2": {"tsf", "cf"},
    "crafter-3": {"tcfd", "ted"},
}


@pytest.mark.parametrize("name", NINE)
def test_the_nine_tasks_have_the_sequences_of_their_formulas_and_one_labeling(name):
    task = TASKS[name]
    assert {"".join(sequence) for sequence in task.sequences} == SEQUENCES[name]
    assert len(task.formula.fsm().automorphisms()) == 1


def test_the_ambiguous_tasks_have_interchangeable_symbols():
    for name in ("robot", "rooms-symmetric"):
        assert len(TASKS[name].formula.fsm().automorphisms()) > 1


def test_positions_of_the_paper():
    at = {name: TASKS[name].positions for name in TASKS}
    assert [at["letter-1"][s] for s in "abc"] == [(3, 1), (5, 2), (7, 7)]
    assert [at["letter-2"][s] for s in "abcd"] == [(3, 2), (1, 8), (7, 9), (5, 6)]
    assert [at["office-1"][s] for s in "cop"] == [(20, 14), (14, 2), (3, 14)]
    assert [at["robot"][s] for s in "cbwd"] == [(0, 9), (3, 7), (7, 1), (9, 9)]


def test_generalization_worlds_change_one_thing():
    walls, learned = TASKS["office-2-walls"], TASKS["office-2"]
    assert walls.positions == learned.positions
    assert walls.walls != learned.walls
    added, learned_from = TASKS["crafter-2-objects"], TASKS["crafter-2"]
    assert set(added.positions) - set(learned_from.positions) == {"drink", "sand", "table", "zombie"}
    assert added.terrain == learned_from.terrain
    for test, train in ((walls, learned), (added, learned_from)):
        assert set(test.formula.symbols) == set(train.formula.symbols)
        assert str(test.formula) != str(train.formula)


def product_graph_distance(task: Task) -> int:
    """Shortest solution by networkx over (cell, position in a satisfying sequence): an independent way to count."""
    cells = set(task.cells)
    grid = nx.Graph()
    for x, y in cells:
        for right, down in ((x + 1, y), (x, y + 1)):
            beside = (right % task.size[0], down % task.size[1]) if task.wrap else (right, down)
            if beside in cells:
                grid.add_edge((x, y), beside)
    best = []
    for sequence in task.sequences:
        stops = [task.start, *(task.positions[symbol] for symbol in sequence)]
        best.append(sum(nx.shortest_path_length(grid, a, b) for a, b in pairwise(stops)))
    return min(best)


@pytest.mark.parametrize("name", list(TASKS))
def test_shortest_solution(name):
    assert TASKS[name].shortest_solution == product_graph_distance(TASKS[name]) <= TASKS[name].horizon


LETTERS = {"a": (3, 2), "b": (1, 8), "c": (7, 9)}
BAD = {
    "unknown domain": (dict(domain="maze", formula="a"), "maze.*letter, office"),
    "symbol without a place": (dict(domain="letter", formula="a;z", positions=LETTERS), "'z' without a position"),
    "unknown Office symbol": (
        dict(domain="office", formula="c;q", positions={"c": (2, 2), "q": (8, 2)}),
        "office domain 'q'; choose",
    ),
    "outside": (dict(domain="letter", formula="a", positions={"a": (10, 2)}), r"'a' at \(10, 2\) is outside.*0 to 9"),
    "not a pair": (dict(domain="letter", formula="a", positions={"a": (1, 2, 3)}), r"'a' is \(1, 2, 3\)"),
    "colliding": (dict(domain="letter", formula="a;b", positions={"a": (1, 1), "b": (1, 1)}), r"'b' is at.*letter 'a'"),
    "letter on start": (dict(domain="letter", formula="a", positions={"a": (0, 0)}), r"start is at \(0, 0\).*'a'"),
    "on a wall": (dict(domain="office", formula="c;o", positions={"c": (6, 0), "o": (2, 2)}), r"'c' at \(6, 0\).*wall"),
    "on water": (
        dict(domain="crafter", formula="t;drink", positions={"t": (5, 6), "drink": (8, 0)}),
        r"'drink' at \(8, 0\) is on a (water|stone) cell",
    ),
    "start on a wall": (dict(domain="letter", formula="a", positions=LETTERS, walls=[(0, 0)]), "start .* wall"),
    "unreachable": (
        dict(domain="letter", formula="a", positions={"a": (0, 5)}, walls=[(x, 4) for x in range(10)], wrap=False),
        r"'a' at \(0, 5\) cannot be reached from \(0, 0\)",
    ),
    "unreachable from some start": (
        dict(domain="letter", formula="a", positions={"a": (0, 5)}, walls=[(1, 0), (0, 1)], start=None, wrap=False),
        r"'a' at \(0, 5\) cannot be reached from \(0, 0\)",
    ),
    "horizon": (
        dict(domain="letter", formula="a;b;c", positions=LETTERS, horizon=19, wrap=False),
        "horizon 19 .* 20 steps",
    ),
    "even view": (dict(domain="letter", formula="a", positions=LETTERS, view=4), "view=4.*odd"),
    "Crafter that wraps": (dict(domain="crafter", formula="t", wrap=True), "wrap=True"),
    "view of all of Crafter": (dict(domain="crafter", formula="t", view=None), "view=5"),
    "Office size": (dict(domain="office", formula="c", size=(20, 20)), r"\(25, 19\)"),
    "size": (dict(domain="letter", formula="a", size=(0, 4)), "positive"),
    "too large": (dict(domain="letter", formula="a", size=(10**9, 10**9)), "cells: choose at most 4,096"),
    "too large for Crafter": (dict(domain="crafter", formula="t", size=(200, 200)), "40,000 cells"),
    "view": (dict(domain="letter", formula="a", view=10**9 + 1), "choose at most 21, or None"),
    "no place": (dict(domain="office", formula="c", size=(13, 13)), "no place for 5 letters"),
}


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_new_wall_is_judged_as_by_the_whole_map(data):
    """The shortcut of `stays_biconnected` against the search of the whole map, walls added one after the other."""
    size = data.draw(st.tuples(st.integers(2, 12), st.integers(2, 12)))
    walls = set()
    for cell in data.draw(st.permutations(maps.free_cells(size, ())))[:30]:
        whole = maps.is_biconnected(size, {*walls, cell})
        assert maps.stays_biconnected(size, walls, cell) == whole
        walls |= {cell} if whole else set()


@pytest.mark.parametrize("what", list(BAD))
def test_bad_tasks_name_the_place(what):
    arguments, message = BAD[what]
    with pytest.raises(TaskError, match=message):
        make_task(**arguments)


def test_unknown_task_names_the_nearest():
    with pytest.raises(TaskError, match=r"unknown task 'leter-2'; did you mean .*letter-2"):
        TASKS["leter-2"]
    with pytest.raises(KeyError):
        TASKS["nothing like it"]
    assert "letter-1" in TASKS
    assert "letter-9" not in TASKS


def test_wrapping_makes_the_way_shorter():
    arguments = dict(domain="letter", formula="c", positions=LETTERS)
    assert make_task(**arguments).shortest_solution == 3 + 1
    assert make_task(**arguments, wrap=False).shortest_solution == 16


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31))
def test_every_office_layout_is_connected_without_bottlenecks_and_has_one_letter_per_room(layout_seed):
    task = make_task(domain="office", formula="c;o;p", layout_seed=layout_seed)
    cells = set(task.cells)
    graph = nx.Graph(
        ((x, y), (x + dx, y + dy)) for x, y in cells for dx, dy in ((0, 1), (1, 0)) if (x + dx, y + dy) in cells
    )
    assert set(graph) == cells
    assert nx.is_connected(graph)
    assert not list(nx.articulation_points(graph))
    rooms = [(x // 6, y // 6) for x, y in task.positions.values()]
    assert sorted(task.positions) == sorted("comdp")
    assert len(set(rooms)) == len(rooms)
    assert all(x % 6 and y % 6 for x, y in task.positions.values())


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**31))
def test_every_crafter_terrain_is_connected_without_bottlenecks(layout_seed):
    task = make_task(domain="crafter", formula="t;c;d", layout_seed=layout_seed)
    assert maps.is_biconnected(task.size, task.walls)
    assert task.walls == {cell for cell, ground in task.terrain.items() if ground in ("water", "stone")}


def test_layouts_differ_by_seed_and_repeat_in_another_process():
    code = (
        "import json; from lstoc_core.worlds.tasks import make_task\n"
        "t = make_task(domain='crafter', formula='t;c', layout_seed=5)\n"
        "o = make_task(domain='office', formula='c;o', layout_seed=5)\n"
        "print(json.dumps([sorted(x) for x in (t.terrain.items(), t.positions.items(), o.walls, o.positions.items())]))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": h}
        )
        for h in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout
    here = make_task(domain="office", formula="c;o", layout_seed=5)
    assert json.loads(runs[0].stdout)[2] == [list(cell) for cell in sorted(here.walls)]
    assert here.walls != make_task(domain="office", formula="c;o", layout_seed=6).walls


def test_the_committed_table_of_task_facts():
    saved = pd.read_csv(paths.DATA / "tasks.csv")
    assert list(saved["task"]) == list(TASKS)
    assert (saved["episodes"] == 20_000).all()
    exact = saved[["cells", "observations", "shape", "horizon", "shortest", "formula"]]
    again = task_table(10)[exact.columns]
    pd.testing.assert_frame_equal(exact, again, check_dtype=False)
    for name in ("letter-3", "rooms-symmetric"):
        row = saved.set_index("task").loc[name]
        assert random_successes(compile_world(name), 20_000) == row["random_successes"]


def test_random_successes_count_every_environment_s_share():
    """Two steps to the letter, horizon 2: exactly one of 16 equally likely action pairs succeeds."""
    task = make_task(domain="letter", formula="a", positions={"a": (2, 0)}, size=(3, 3), horizon=2, wrap=False)
    successes = random_successes(compile_world(task), 20_000)
    assert abs(successes - 20_000 / 16) < 5 * (20_000 / 16) ** 0.5
    with pytest.raises(ValueError, match="episodes=0"):
        random_successes(compile_world(task), 0)
