"""The subgoal tree: growth, replay, condition (***), and its picture."""

import matplotlib.pyplot as plt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lstoc_core.discovery.tree import ROOT, SubgoalTree
from lstoc_core.logic import parse

sequences = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple), min_size=1, max_size=5)


@given(sequences)
def test_prefix_tree_gives_back_its_sequences(given_sequences):
    tree = SubgoalTree.from_sequences(given_sequences)
    assert tree.sequences == tuple(sorted(set(given_sequences)))
    prefixes = {sequence[:n] for sequence in given_sequences for n in range(len(sequence) + 1)}
    assert {tree.path(node) for node in range(len(tree))} == prefixes
    assert len(tree) == len(prefixes)


@given(sequences)
def test_json_and_replay_give_back_every_moment(given_sequences):
    tree = SubgoalTree.from_sequences(given_sequences)
    back = SubgoalTree.from_json(tree.to_json())
    assert back == tree
    assert back.sequences == tree.sequences
    assert back.explored == tree.explored
    sizes = [len(tree.replay(steps)) for steps in range(len(tree.events) + 1)]
    assert sizes[0] == 1
    assert sizes == sorted(sizes)
    assert sizes[-1] == len(tree)


def test_the_papers_walk_through():
    """(a;b)∨(b;c): expand at v0, go down, come back to the parent for the alternative branch."""
    tree = SubgoalTree()
    tree.work_on(tree.expand(ROOT, 0))
    tree.work_on(tree.expand(1, 1))
    assert tree.path(tree.working_node) == (0, 1)
    tree.mark_satisfying(2)
    tree.work_on(1)
    tree.mark_explored(1)
    tree.work_on(ROOT)
    tree.work_on(tree.expand(ROOT, 1))
    tree.work_on(tree.expand(3, 2))
    tree.mark_satisfying(4)
    assert tree.sequences == ((0, 1), (1, 2))
    assert tree.inconsistency(parse("(a;b)|(b;c)").fsm()) is None
    assert "longer than the FSM's longest path" in str(tree.inconsistency(parse("a|b").fsm()))
    assert "children" in str(tree.inconsistency(parse("a;b").fsm()))


@pytest.mark.parametrize("formula", ["a;b;c", "((a;b)|c);d", "a;((b;a)|c);d", "c;((o;c)|m);d", "(a;b)|(b;c)"])
def test_the_true_tree_is_never_called_inconsistent(formula):
    fsm = parse(formula).fsm()
    number = {symbol: index for index, symbol in enumerate(fsm.symbols)}
    tree = SubgoalTree.from_sequences([[number[s] for s in sequence] for sequence in fsm.minimal_sequences()])
    assert tree.inconsistency(fsm) is None


def test_bad_input_is_named():
    tree = SubgoalTree()
    with pytest.raises(ValueError, match="no node 7"):
        tree.expand(7, 0)
    with pytest.raises(ValueError, match="not negative"):
        tree.expand(ROOT, -1)
    tree.expand(ROOT, 3)
    with pytest.raises(ValueError, match="already has a child labelled with key state 3"):
        tree.expand(ROOT, 3)
    with pytest.raises(ValueError, match="between 0 and 1"):
        tree.replay(2)


def test_drawing_shows_every_node():
    tree = SubgoalTree.from_sequences([(0, 1), (2,)])
    fig, ax = plt.subplots()
    tree.draw(ax, labels={0: "c", 1: "b", 2: "w"})
    texts = {text.get_text() for text in ax.texts}
    assert {"c", "b", "w"} <= texts
    plt.close(fig)
