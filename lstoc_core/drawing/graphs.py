"""Layered graphs from left to right: FSMs and subgoal trees."""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from lstoc_core.discovery.tree import ROOT, SubgoalTree
from lstoc_core.drawing.theme import INK, RED
from lstoc_core.logic import FSM

Node = TypeVar("Node", bound=Hashable)

NODE_RADIUS = 10.5  # points, as all sizes below: drawings keep their proportions at any figure size
ROW = 0.62  # distance of two nodes of a layer, in units of the distance of two layers


def draw_layered(
    ax: Axes | None,
    edges: Iterable[tuple[Node, Node]],
    *,
    layer: Mapping[Node, int],
    labels: Mapping[Node, str] | None = None,
    edge_labels: Mapping[tuple[Node, Node], str] | None = None,
    initial: Collection[Node] = (),
    accepting: Collection[Node] = (),
    highlight: Collection[Node] = (),
    dashed: Collection[Node] = (),
    title: str | None = None,
) -> Axes:
    """Draw a graph without loops from left to right, as textbooks do.

    layer: each node's column; edges go from lower to higher ones (an edge over several columns bends round the nodes
    between). initial nodes get an incoming arrow, accepting ones a double circle, highlighted ones are red (the working
    node), dashed ones are unexplored. With ax None a figure of fitting size is made. Returns the axes.
    """
    edges = list(dict.fromkeys(edges))
    position, routes = layout(edges, layer)
    points = np.array([*position.values(), *(point for route in routes.values() for point in route)])
    (left, bottom), (right, top) = points.min(axis=0), points.max(axis=0)
    if ax is None:
        _, ax = plt.subplots(figsize=(0.95 * (right - left + 1), 0.95 * (top - bottom + 0.75) + 0.3 * bool(title)))
    ax.set(xlim=(left - 0.5, right + 0.35), ylim=(bottom - 0.38, top + 0.38), aspect="equal")
    ax.axis("off")
    if title:
        ax.set_title(title)
    for edge in edges:
        _draw_edge(ax, np.array(routes[edge]), (edge_labels or {}).get(edge, ""), _label_side(edge, edges, routes))
    for node, place in position.items():
        _draw_node(
            ax,
            place,
            str(node) if labels is None else labels.get(node, ""),
            colour=RED if node in highlight else INK,
            double=node in accepting,
            dashed=node in dashed,
        )
    for node in initial:
        ax.annotate(
            "",
            xy=position[node],
            xytext=(-2.6 * NODE_RADIUS, 0),
            textcoords="offset points",
            arrowprops={"arrowstyle": "-|>", "color": INK, "shrinkA": 0, "shrinkB": NODE_RADIUS, "lw": 1},
        )
    return ax


def draw_tree(
    sequences: Iterable[Sequence[Any]],
    ax: Axes | None = None,
    *,
    labels: Mapping[tuple[Any, ...], str] | None = None,
    highlight: Collection[tuple[Any, ...]] = (),
    dashed: Collection[tuple[Any, ...]] = (),
    title: str | None = None,
) -> Axes:
    """Draw the subgoal tree of the sequences (the paper's figure fsm_tree): their prefix tree, v0 at the left.

    A node is named by its prefix, the root is (); it shows its last element unless `labels` says otherwise. A node
    where a sequence ends has a double circle.
    """
    words = [tuple(sequence) for sequence in sequences]
    nodes = list(dict.fromkeys(word[:length] for word in words for length in range(len(word) + 1))) or [()]
    shown = {node: f"${_math(node[-1])}$" if node else "$v_0$" for node in nodes} | dict(labels or {})
    return draw_layered(
        ax,
        [(node[:-1], node) for node in nodes if node],
        layer={node: len(node) for node in nodes},
        labels=shown,
        initial=[()],
        accepting=set(words) - {()},
        highlight=highlight,
        dashed=dashed,
        title=title,
    )


def draw_fsm(fsm: FSM, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draw a machine from left to right: v0 with an incoming arrow, v_T with a double circle."""
    texts: dict[tuple[int, int], list[str]] = defaultdict(list)
    for source, symbol, target in fsm.edges:
        texts[source, target].append(symbol)
    return draw_layered(
        ax,
        texts,
        layer=fsm.layer,
        labels={state: r"$v_T$" if {state} == fsm.accepting else f"$v_{{{state}}}$" for state in fsm.layer},
        edge_labels={pair: symbol_text(symbols) for pair, symbols in texts.items()},
        initial=[fsm.initial],
        accepting=fsm.accepting,
        title=title,
    )


def draw_subgoal_tree(
    tree: SubgoalTree, ax: Axes | None = None, labels: Mapping[int, str] | Sequence[str] | None = None
) -> Axes:
    """Draw a tree from left to right: working node red, unexplored nodes dashed, satisfying leaves doubled.

    `labels` names key states (index -> text); unnamed ones are shown as ŝ_k.
    """
    names = dict(enumerate(labels)) if isinstance(labels, Sequence) else dict(labels or {})
    nodes = range(len(tree))
    return draw_layered(
        ax,
        [(tree.parents[node], node) for node in nodes if node != ROOT],
        layer={node: tree.depth(node) for node in nodes},
        labels={
            node: "$v_0$" if node == ROOT else names.get(tree.keys[node], rf"$\hat s_{{{tree.keys[node]}}}$")
            for node in nodes
        },
        initial=(ROOT,),
        accepting=tuple(tree.satisfying),
        highlight=() if ROOT in tree.explored else (tree.working_node,),
        dashed=tuple(node for node in nodes if node not in tree.explored and node != tree.working_node),
    )


def same_scale(axes: Iterable[Axes]) -> None:
    """Give several layered drawings of one figure the same scale, each in the middle of its axes."""
    axes = list(axes)
    extents = [(ax.get_xlim(), ax.get_ylim()) for ax in axes]
    width = max(right - left for (left, right), _ in extents) / 2
    height = max(top - bottom for _, (bottom, top) in extents) / 2
    for ax, (x, y) in zip(axes, extents, strict=True):
        ax.set(xlim=np.mean(x) + np.array([-width, width]), ylim=np.mean(y) + np.array([-height, height]))


def symbol_text(symbols: Iterable[Any]) -> str:
    """Symbols for an edge, as mathematics: b, w."""
    return "$" + r",\,".join(_math(symbol) for symbol in symbols) + "$"


def _math(symbol: Any) -> str:
    return r"\mathit{" + symbol.replace("_", r"\_") + "}" if isinstance(symbol, str) else str(symbol)


def layout(
    edges: Sequence[tuple[Node, Node]], layer: Mapping[Node, int]
) -> tuple[dict[Node, tuple[float, float]], dict[tuple[Node, Node], list[tuple[float, float]]]]:
    """Places of the nodes, and for each edge the points it passes.

    The items of a layer stand at equal distances, sorted by `_ordered`. An edge over several layers has a bend in each
    layer between, which takes up room like a node. Behind a leaf, a place is kept empty in every later layer: so
    branches of different lengths stay straight.
    """
    last = max(layer.values())
    graph = nx.DiGraph()
    columns: dict[int, list[Hashable]] = {index: [] for index in range(min(layer.values()), last + 1)}
    for node in layer:
        graph.add_node(node)
        columns[layer[node]].append(node)

    def room(kind: str, of: Hashable, layers: range) -> list[Hashable]:
        items: list[Hashable] = [(kind, of, index) for index in layers]
        for index, item in zip(layers, items, strict=True):
            columns[index].append(item)
        return items

    chains: dict[tuple[Node, Node], list[Hashable]] = {}
    for edge in edges:
        source, target = edge
        if layer[source] >= layer[target]:
            raise ValueError(f"edge {source!r} -> {target!r} must lead to a higher layer than {layer[source]}")
        chains[edge] = [source, *room("bend", edge, range(layer[source] + 1, layer[target])), target]
        nx.add_path(graph, chains[edge])
    for leaf in [node for node in layer if not graph.succ[node]]:
        nx.add_path(graph, [leaf, *room("empty", leaf, range(layer[leaf] + 1, last + 1))])
    ordered = _ordered(list(columns.values()), graph)
    place = {
        item: (float(x), ROW * ((len(column) - 1) / 2 - row))
        for x, column in zip(columns, ordered, strict=True)
        for row, item in enumerate(column)
    }
    return {node: place[node] for node in layer}, {edge: [place[item] for item in chains[edge]] for edge in edges}


def _ordered(columns: list[list[Hashable]], graph: nx.DiGraph) -> list[list[Hashable]]:
    """The columns, each sorted from top to bottom such that few edges cross (barycentre sweeps, the best is kept)."""

    def crossings(columns: list[list[Hashable]]) -> int:
        row = {item: index for column in columns for index, item in enumerate(column)}
        count = 0
        for column in columns:
            lines = [(row[item], row[other]) for item in column for other in graph.succ[item]]
            count += sum((a - c) * (b - d) < 0 for i, (a, b) in enumerate(lines) for c, d in lines[:i])
        return count

    best = columns
    for sweep in range(8):
        neighbours = graph.succ if sweep % 2 else graph.pred
        row = {item: index / len(column) for column in columns for index, item in enumerate(column)}
        sorted_columns = []
        for column in reversed(columns) if sweep % 2 else columns:
            centre = {item: np.mean([row[other] for other in neighbours[item]] or [row[item]]) for item in column}
            column = sorted(column, key=centre.__getitem__)
            row.update((item, index / len(column)) for index, item in enumerate(column))
            sorted_columns.append(column)
        columns = sorted_columns[::-1] if sweep % 2 else sorted_columns
        best = min(best, columns, key=crossings)
    return best


class _Through:
    """Connection style of an arrow that passes the given points (data coordinates) in a smooth curve."""

    def __init__(self, ax: Axes, points: NDArray[np.float64]):
        self.ax, self.points = ax, points

    def __call__(self, start: Any, end: Any, *, shrinkA: float, shrinkB: float, **_: Any) -> Path:
        points = self.ax.transData.transform(_curve(self.points))
        (x0, y0), (x1, y1) = points[0], points[-1]
        away = np.hypot(points[:, 0] - x0, points[:, 1] - y0) >= shrinkA
        return Path(points[away & (np.hypot(points[:, 0] - x1, points[:, 1] - y1) >= shrinkB)])


def _curve(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The points of a smooth curve that goes steadily to the right and never overshoots a given height."""
    x = np.linspace(points[0, 0], points[-1, 0], 400)
    return np.column_stack([x, PchipInterpolator(*points.T)(x)])


def _draw_edge(ax: Axes, points: NDArray[np.float64], text: str, side: int) -> None:
    arrow = FancyArrowPatch(
        tuple(points[0]),
        tuple(points[-1]),
        connectionstyle=_Through(ax, points),  # type: ignore[arg-type]
        arrowstyle="-|>",
        mutation_scale=9,
        shrinkA=NODE_RADIUS + 0.5,
        shrinkB=NODE_RADIUS + 1,
        color=INK,
        linewidth=1,
        zorder=1,
    )
    ax.add_patch(arrow)
    if not text:
        return
    curve = _curve(points)
    middle, ahead = curve[len(curve) // 2], curve[len(curve) // 2 + 1]
    normal = np.array([middle[1] - ahead[1], ahead[0] - middle[0]])  # upwards, since edges go to the right
    normal *= side / np.hypot(*normal)
    width, height = TextPath((0, 0), text, size=11).get_extents().width, 7.0  # points; one height, so one baseline
    shift = normal * (5 + (abs(normal[0]) * width + abs(normal[1]) * height) / 2) - (0, height / 2)
    ax.annotate(text, tuple(middle), tuple(shift), textcoords="offset points", ha="center", va="baseline", fontsize=11)


def _label_side(edge: tuple[Node, Node], edges: Sequence[tuple[Node, Node]], routes: Mapping[Any, Any]) -> int:
    """1 to write above the edge, -1 below: on the outer side of edges that fan out or in, else above."""
    heights = [height for _, height in routes[edge]]
    rise = heights[-1] - heights[0]
    if len(heights) > 2:
        outwards = float(np.mean(heights[1:-1])) - (heights[0] + heights[-1]) / 2
    elif sum(source == edge[0] for source, _ in edges) > 1:
        outwards = rise
    elif sum(target == edge[1] for _, target in edges) > 1:
        outwards = -rise
    else:
        outwards = 0
    return -1 if outwards < -0.02 else 1


def _draw_node(ax: Axes, place: tuple[float, float], text: str, *, colour: str, double: bool, dashed: bool) -> None:
    for radius in (NODE_RADIUS, NODE_RADIUS - 2.2)[: 1 + double]:
        ax.scatter(
            *place,
            s=(2 * radius) ** 2,
            facecolor="#fbe3e6" if colour == RED else "white",
            edgecolor=colour,
            linewidth=1.1,
            linestyle=(0, (3, 2)) if dashed else "-",
            clip_on=False,
            zorder=2,
        )
    fitting = 1.5 * NODE_RADIUS / max(TextPath((0, 0), text, size=1).get_extents().width, 0.1) if text.strip() else 1.0
    ax.annotate(text, place, ha="center", va="center", fontsize=min(10.5, fitting), color=colour, zorder=3)
