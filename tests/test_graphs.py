"""Layered graphs: where nodes and edges go, and what is drawn."""

from itertools import combinations, pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.patches import FancyArrowPatch

import lstoc_core as lstoc
from lstoc_core import drawing
from lstoc_core.drawing import graphs


@pytest.fixture(autouse=True)
def _close_figures():
    plt.style.use("default")
    drawing.style()
    yield
    plt.close("all")


@st.composite
def layered_graphs(draw):
    """Nodes 0 to n-1 in layers that only grow, each but the first with an edge from a lower layer."""
    layers = [0]
    for _ in range(draw(st.integers(1, 8))):
        layers.append(draw(st.integers(max(1, layers[-1]), layers[-1] + 1)))
    edges = set()
    for node in range(1, len(layers)):
        lower = [other for other in range(node) if layers[other] < layers[node]]
        edges |= {(other, node) for other in draw(st.lists(st.sampled_from(lower), min_size=1, max_size=3))}
    return sorted(edges), dict(enumerate(layers))


@settings(max_examples=60, deadline=None, database=None)
@given(layered_graphs())
def test_layout_keeps_layers_and_distances_and_leads_edges_round_nodes(graph):
    edges, layer = graph
    position, routes = graphs.layout(edges, layer)
    for node, (x, _) in position.items():
        assert x == layer[node]
    points = {*position.items()} | {((edge, x), (x, y)) for edge in edges for x, y in routes[edge][1:-1]}
    for (_, (x1, y1)), (_, (x2, y2)) in combinations(points, 2):
        assert x1 != x2 or abs(y1 - y2) >= graphs.ROW - 1e-6  # so no edge passes through a node it does not touch
    for (source, target), route in routes.items():
        assert route[0] == position[source]
        assert route[-1] == position[target]
        assert [x for x, _ in route] == list(range(layer[source], layer[target] + 1))


def test_a_diamond_is_symmetric_and_free_of_crossings():
    edges = [("s", "b"), ("s", "a"), ("a", "t"), ("b", "t"), ("s", "t")]
    position, routes = graphs.layout(edges, {"s": 0, "b": 1, "a": 1, "t": 2})
    heights = [position["a"][1], position["b"][1], routes["s", "t"][1][1]]
    assert np.mean(heights) == pytest.approx(position["s"][1], abs=1e-3)
    assert position["s"][1] == pytest.approx(position["t"][1], abs=1e-3)


def test_crossing_edges_are_untangled():
    position, _ = graphs.layout([(0, "x"), (1, "y"), (2, "z")], {0: 0, 1: 0, 2: 0, "z": 1, "y": 1, "x": 1})
    assert [position[name][1] for name in "xyz"] == pytest.approx([position[index][1] for index in range(3)], abs=1e-3)


def crossings(routes):
    """Pairs of edge pieces between two columns that end in the other order than they start."""
    pieces = [piece for route in routes.values() for piece in pairwise(route)]
    return sum(
        a[0][0] == b[0][0] and (a[0][1] - b[0][1]) * (a[1][1] - b[1][1]) < -1e-9 for a, b in combinations(pieces, 2)
    )


FORMULAS = ["a&b&c", "a&c&b", "(a;b;c)|(d;e;f)", "a|(b;c)|(d;e;f)", "((a;b)|(c;d)|e);((f;g)|h)"]


@pytest.mark.parametrize("formula", [*FORMULAS, *sorted({str(task.formula) for task in lstoc.TASKS.values()})])
def test_machines_and_trees_are_drawn_without_crossings(formula):
    fsm, words = lstoc.parse(formula).fsm(), lstoc.parse(formula).minimal_sequences()
    nodes = dict.fromkeys(word[:length] for word in words for length in range(len(word) + 1))
    edges = list(dict.fromkeys((source, target) for source, _, target in fsm.edges))
    _, routes = graphs.layout(edges, fsm.layer)
    assert crossings(routes) == 0
    _, routes = graphs.layout([(node[:-1], node) for node in nodes if node], {node: len(node) for node in nodes})
    assert crossings(routes) == 0


def test_crossings_are_counted():
    assert crossings({"up": [(0, 0), (1, 1)], "down": [(0, 1), (1, 0)], "top": [(0, 2), (1, 2)]}) == 1


def test_branches_of_different_lengths_are_straight():
    nodes = ["", "a", "ab", "abc", "x"]
    position, _ = graphs.layout([(node[:-1], node) for node in nodes[1:]], {node: len(node) for node in nodes})
    assert position["a"][1] == position["ab"][1] == position["abc"][1] == -position["x"][1] == graphs.ROW / 2
    assert position[""][1] == 0


def test_edges_must_lead_to_the_right():
    with pytest.raises(ValueError, match="1 -> 0 must lead to a higher layer"):
        drawing.draw_layered(None, [(1, 0)], layer={0: 0, 1: 1})


def test_nodes_and_edges_look_as_asked():
    ax = drawing.draw_layered(
        None,
        [(0, 1), (1, 2)],
        layer={0: 0, 1: 1, 2: 2},
        edge_labels={(0, 1): "go"},
        accepting=[2],
        highlight=[1],
        dashed=[0],
    )
    colours = [tuple(circle.get_edgecolor()[0]) for circle in ax.collections]
    red = plt.matplotlib.colors.to_rgba(drawing.RED)
    assert [colour == red for colour in colours] == [False, True, False, False]  # node 2 has a double circle
    assert [circle.get_linestyle()[0][1] is not None for circle in ax.collections] == [True, False, False, False]
    assert len([patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]) == 2
    assert {text.get_text() for text in ax.texts} == {"0", "1", "2", "go"}


def test_edge_labels_do_not_touch_lines_or_nodes():
    edges = {("v", "a"): "a", ("v", "b"): "b", ("v", "t"): "c, d", ("a", "t"): "e", ("b", "t"): "f"}
    ax = drawing.draw_layered(None, edges, layer={"v": 0, "a": 1, "b": 1, "t": 2}, edge_labels=edges)
    ax.figure.canvas.draw()
    labels = [t for t in ax.texts if t.get_text() in edges.values() and t.get_fontsize() == 11]
    assert len(labels) == len(edges)
    lines = [arrow.get_path().vertices for arrow in ax.patches]
    for label in labels:
        box = label.get_window_extent()
        for line in lines:
            assert not any(box.contains(x, y) for x, y in ax.transData.transform(line))
    for one, other in combinations(labels, 2):
        assert not one.get_window_extent().overlaps(other.get_window_extent())


def test_tree_is_the_prefix_tree():
    ax = drawing.draw_tree([("c", "b", "d"), ("c", "w", "d")])
    shown = sorted(text.get_text() for text in ax.texts if text.get_text())
    assert shown == sorted(["$v_0$", *(rf"$\mathit{{{name}}}$" for name in "cbdwd")])
    assert len([patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]) == 5
    assert len(ax.collections) == 6 + 2  # two leaves with a double circle
    assert len(drawing.draw_tree([]).collections) == 1  # an empty tree is its root


def test_same_scale_keeps_centres():
    _, axes = plt.subplots(1, 2)
    drawing.draw_tree(["ab"], axes[0])
    drawing.draw_tree(["abcd", "xy"], axes[1])
    centres = [(np.mean(ax.get_xlim()), np.mean(ax.get_ylim())) for ax in axes]
    drawing.same_scale(axes)
    assert np.ptp([np.diff(ax.get_xlim()) for ax in axes]) == pytest.approx(0)
    assert np.ptp([np.diff(ax.get_ylim()) for ax in axes]) == pytest.approx(0)
    assert [(np.mean(ax.get_xlim()), np.mean(ax.get_ylim())) for ax in axes] == [pytest.approx(c) for c in centres]
