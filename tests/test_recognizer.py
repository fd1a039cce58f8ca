"""The labeling function on worlds it was not trained in, and on made-up observations where the answer is known."""

import numpy as np
import pytest

from lstoc_core import TASKS, compile_world, make_task
from lstoc_core.labeling.recognizer import LabelingFunction
from lstoc_core.study.facts import label_accuracy

NEW_OBJECTS = ("drink", "sand", "table", "zombie")
LAYOUTS = range(100, 105)
"""Not those on which the function's one setting was chosen."""


def learned(world, *, seen=None, symbols=None):
    """The labeling function after training in a world: one observation per subgoal, and everything else seen."""
    symbols = symbols or world.task.formula.symbols
    key_ids = [world.observation_of_symbol(symbol) for symbol in symbols]
    return LabelingFunction.learn(world.observations, key_ids, dict(enumerate(symbols)), seen=seen)


def with_new_objects(layout_seed):
    """Crafter with other terrain, the known objects elsewhere, and four objects never seen in training."""
    formula = TASKS["crafter-2"].formula
    places = make_task(domain="crafter", formula=formula, layout_seed=layout_seed).positions
    plain = make_task(domain="crafter", formula=formula, layout_seed=layout_seed, positions=places)
    free = [cell for cell in plain.cells if cell not in {plain.start, *places.values()}]
    chosen = np.random.default_rng(layout_seed).choice(len(free), len(NEW_OBJECTS), replace=False)
    extra = {name: free[i] for name, i in zip(NEW_OBJECTS, chosen, strict=True)}
    task = make_task(domain="crafter", formula=formula, layout_seed=layout_seed, positions={**places, **extra})
    return compile_world(task)


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_unseen_office_layouts(share):
    """Other walls with the letters in place, and other walls with the letters elsewhere; little or everything seen."""
    world = compile_world(TASKS["office-2"])
    seen = np.random.default_rng(0).choice(world.num_observations, int(share * world.num_observations), replace=False)
    function = learned(world, seen=seen)
    formula, places = world.task.formula, world.task.positions
    tasks = [make_task(domain="office", formula=formula, positions=places, layout_seed=seed) for seed in LAYOUTS]
    tasks += [make_task(domain="office", formula=formula, layout_seed=seed) for seed in LAYOUTS]
    for task in (TASKS["office-2-walls"], *tasks):
        table = label_accuracy(function, [compile_world(task)])
        assert table["there"].eq(1).all()
        assert table[["precision", "recall"]].min(axis=None) >= 0.95


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_crafter_with_unseen_objects(share):
    world = compile_world(TASKS["crafter-2"])
    seen = np.random.default_rng(1).choice(world.num_observations, int(share * world.num_observations), replace=False)
    function = learned(world, seen=seen)
    for other in (compile_world(TASKS["crafter-2-objects"]), *map(with_new_objects, LAYOUTS)):
        table = label_accuracy(function, [other])
        assert table["there"].eq(1).all()
        assert table[["precision", "recall"]].min(axis=None) >= 0.95


def test_it_looks_under_the_agent():
    """Nobody says where: the cell in the middle of the view, found by contrast."""
    assert learned(compile_world(TASKS["office-2"])).window == (slice(2, 3), slice(2, 3))
    rows, columns = learned(compile_world(TASKS["crafter-2"])).window
    assert rows.start >= 32
    assert rows.stop <= 48
    assert columns.start >= 32
    assert columns.stop <= 48


def test_other_letters_are_not_called():
    """Standing on a letter that is no subgoal is not a subgoal: the distractor was seen, or even was not."""
    world = compile_world(TASKS["office-2"])
    printer = world.observation_of_symbol("p")
    for seen in (None, np.delete(np.arange(world.num_observations), printer)):
        assert learned(world, seen=seen)(world.observations[printer]) is None


def test_finds_the_part_that_decides():
    """Noise everywhere, one cell that tells: found, and read in fresh noise."""
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2, (200, 6, 6, 3))
    table[:, 4, 1] = 0
    table[0, 4, 1], table[1, 4, 1] = (1, 1, 0), (0, 1, 1)
    function = LabelingFunction.learn(table, [0, 1], {0: "x", 1: "y"})
    assert function.window == (slice(4, 5), slice(1, 2))
    fresh = rng.integers(0, 2, (300, 6, 6, 3))
    fresh[:, 4, 1] = 0
    fresh[:100, 4, 1], fresh[100:200, 4, 1] = (1, 1, 0), (0, 1, 1)
    assert np.array_equal(function.columns(fresh), np.repeat([0, 1, -1], 100))


def test_one_symbol_in_two_places():
    table = np.zeros((6, 3, 3, 1))
    table[np.arange(5), 0, np.arange(5) % 3] = 1  # the same surroundings again and again
    table[1, 1, 1], table[2, 1, 1], table[3, 1, 1] = 1, 0.9, 0.4
    function = LabelingFunction.learn(table, [1, 2, 3], {0: "a", 1: "a", 2: "b"})
    assert [function(observation) for observation in table] == [None, "a", "a", "b", None, None]


@pytest.mark.parametrize("shape", [(), (4,), (3, 3), (3, 3, 2, 2)])
def test_any_shape(shape):
    table = np.arange(5 * int(np.prod(shape))).reshape(5, *shape) ** 2
    function = LabelingFunction.learn(table, [2, 4], {0: "a", 1: "b"})
    assert [function(observation) for observation in table] == [None, None, "a", None, "b"]


def test_unnamed_key_states_are_contrasted():
    world = compile_world(TASKS["office-2"])
    key_ids = [world.observation_of_symbol(symbol) for symbol in "com"]
    function = LabelingFunction.learn(world.observations, key_ids, {0: "c", 2: "m"})
    assert function.symbols == ("c", "m")
    assert function(world.observations[key_ids[1]]) is None


def test_bad_input_is_named():
    table = np.zeros((3, 2, 2, 1))
    with pytest.raises(ValueError, match="names no key state"):
        LabelingFunction.learn(table, [0], {})
    with pytest.raises(ValueError, match=r"key states \[4\], but there are 1"):
        LabelingFunction.learn(table, [0], {4: "a"})
    with pytest.raises(ValueError, match="nothing to contrast"):
        LabelingFunction.learn(table, [0, 1], {0: "a", 1: "a"}, seen=[0, 1])
