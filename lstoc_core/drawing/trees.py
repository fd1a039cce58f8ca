"""Figures of discovery at work: a subgoal tree as it grows, what it is grown from, and what can be dropped from it.

Key states are numbers to the method. The figures put their true symbols beside them, for the reader only.
"""

import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from lstoc_core.discovery.consistent import TooManyTries, answers, proved
from lstoc_core.discovery.evidence import Evidence
from lstoc_core.discovery.hypotheses import SearchStep
from lstoc_core.discovery.method import Missing
from lstoc_core.discovery.published.forward import Attempt
from lstoc_core.discovery.tree import ROOT, SubgoalTree
from lstoc_core.drawing.embedded import slider
from lstoc_core.drawing.graphs import draw_tree, same_scale
from lstoc_core.drawing.maps import draw_grid
from lstoc_core.drawing.theme import BLUE, INK, MUTED, ORANGE, RED
from lstoc_core.logic.fsm import FSM
from lstoc_core.trajectories import TrajectoryStore, earliest_match
from lstoc_core.worlds import World, compile_world
from lstoc_core.worlds.grid import place
from lstoc_core.worlds.tasks import Task

if TYPE_CHECKING:
    from IPython.display import HTML


def symbols_of(task: Task | str) -> dict[int, str]:
    """The symbol at each observation id that has one; ids of other places are missing."""
    world = compile_world(task)
    return {world.observation_of_symbol(symbol): symbol for symbol in world.task.positions}


def spelled(task: Task | str, path: Sequence[int]) -> str:
    """Observation ids as symbols, or as coordinates where there is none: c;d;(4, 1)."""
    world, symbols = compile_world(task), symbols_of(task)
    return ";".join(symbols.get(key) or str(place(world, key)) for key in path) or "v0"


# --- the tree as it grows ---------------------------------------------------------------------------------------------


def moments(tree: SubgoalTree) -> list[int]:
    """Numbers of events after which the tree shows something new: the root, each move of the working node, the end."""
    moves = [count for count, (step, _, _) in enumerate(tree.events, start=1) if step == "work"]
    return sorted({0, *moves, len(tree.events)})


def describe(tree: SubgoalTree, events: int) -> str:
    """What led to the moment after so many events, in words."""
    if events == 0:
        return "begin at $v_0$"
    done = {step: node for step, node, _ in tree.events[max(0, events - 2) : events]}
    if ROOT in tree.replay(events).explored:
        return "every success is explained"
    if "expand" in done:
        return "a new key state"
    return "satisfying: condition (*)" if "satisfying" in done else "explored: condition (**)"


def draw_moment(ax: Axes, tree: SubgoalTree, events: int, names: Sequence[str]) -> None:
    """The tree after so many events, with Ŝ_K in the upper left corner; names: of the key states, by index."""
    then = tree.replay(events)
    then.draw(ax)
    known = sorted({key for key in then.keys if key >= 0})
    listed = ", ".join(rf"\hat s_{{{key}}}\!=\!{names[key]}" for key in known)
    text = rf"$\hat{{\mathcal{{S}}}}_K=\{{{listed}\}}$" if known else r"$\hat{\mathcal{S}}_K=\varnothing$"
    ax.annotate(text, (0, 1), xycoords="axes fraction", ha="left", va="top", fontsize=9)


def growth_figure(
    tree: SubgoalTree, names: Sequence[str], fsm: FSM | None = None, *, shown: Sequence[int] | None = None
) -> Figure:
    """The paper's figure fsm_exp: the tree at several moments (default: all), row by row, and last the FSM."""
    shown = moments(tree) if shown is None else list(shown)
    panels = len(shown) + (fsm is not None)
    rows = -(-panels // 6)
    columns = -(-panels // rows)
    fig, grid = plt.subplots(rows, columns, figsize=(2.05 * columns, 1.75 * rows), squeeze=False)
    for ax in grid.flat:
        ax.axis("off")
    for number, (ax, events) in enumerate(zip(grid.flat, shown, strict=False)):
        draw_moment(ax, tree, events, names)
        _caption(ax, f"({chr(ord('a') + number)}) {describe(tree, events)}")
    if fsm is not None:
        fsm.draw(grid.flat[len(shown)])
        _caption(grid.flat[len(shown)], r"FSM $\mathcal{M}_\varphi$")
    same_scale(grid.flat[:panels])
    for ax in grid.flat[:panels]:
        ax.set_ylim(top=ax.get_ylim()[1] + 0.4)  # room for Ŝ_K
    return fig


def replay(tree: SubgoalTree, names: Sequence[str]) -> "HTML":
    """A slider over the growth of the tree. It needs no kernel: all moments are in the page."""
    from IPython.display import HTML

    at = moments(tree)
    axes = [plt.subplots(figsize=(5.2, 2.6))[1] for _ in at]
    for ax, events in zip(axes, at, strict=True):
        draw_moment(ax, tree, events, names)
    same_scale(axes)
    frames = []
    for ax, events in zip(axes, at, strict=True):
        ax.set_ylim(top=ax.get_ylim()[1] + 0.4)
        _caption(ax, describe(tree, events))
        known = ", ".join(names[key] for key in sorted({key for key in tree.replay(events).keys if key >= 0}))
        alt = f"subgoal tree, {describe(tree, events).replace('$', '')}; key states so far: {known or 'none'}"
        frames.append((ax.figure.get_figure(root=True), alt))
    return HTML(slider(frames, "moment"))


# --- a trajectory conditioned on a working node -----------------------------------------------------------------------


def trajectory_figure(
    world: World, trajectory: NDArray[np.integer], path: Sequence[int], tree: SubgoalTree, names: Sequence[str]
) -> Figure:
    """The paper's figure traj_exp: a trajectory on the map, blue until the path is visited, red after; and the tree.

    The line drifts a little from the upper left to the lower right of the cells, so that later visits stay visible.
    Where the map wraps round, it leaves over one edge and comes back over the opposite one.
    """
    store = TrajectoryStore(world.num_observations)
    store.append([trajectory], None, [True])
    match = int(earliest_match(store, path)[0])
    if match < 0:
        raise ValueError(f"the trajectory does not visit {list(path)} in order")
    size = np.array(world.size)
    scale = 4.2 / size[1]  # inches per cell
    fig, (ax, right) = plt.subplots(1, 2, figsize=(scale * size[0] + 2.6, 4.3), width_ratios=(scale * size[0], 2.4))
    ax.imshow(world.render(), extent=(-0.5, size[0] - 0.5, size[1] - 0.5, -0.5), interpolation="lanczos")
    cells = np.array([place(world, key) for key in trajectory], float)
    drift = np.linspace(-0.26, 0.26, len(cells))[:, None]
    line = cells + drift
    for part, colour in ((slice(0, match + 1), BLUE), (slice(match, None), RED)):
        x, y = (_over_edges(line[part], size) if world.task.wrap else line[part]).T
        ax.plot(x, y, color=colour, linewidth=1.4, alpha=0.9, solid_joinstyle="round")
        moved = np.flatnonzero(np.hypot(np.diff(x), np.diff(y)) > 0.5)[::3]
        ax.quiver(
            (x[moved] + x[moved + 1]) / 2, (y[moved] + y[moved + 1]) / 2, np.diff(x)[moved], np.diff(y)[moved],
            color=colour, angles="xy", pivot="mid", scale=30, width=0.004, headwidth=7, headlength=7, headaxislength=6,
        )  # fmt: skip
    ax.plot(*line[0], "o", color="white", markeredgecolor=BLUE, markersize=6)
    ax.plot(*line[match], "o", color=RED, markeredgecolor="white", markersize=7)
    ax.plot(*line[-1], "s", color="white", markeredgecolor=RED, markersize=6)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color="#c5cbd3")
    tree.draw(right, labels=[rf"$\hat s_{{{key}}}$" for key in range(len(names))])
    xi = ", ".join(rf"\hat s_{{{key}}}" for key in tree.path(tree.working_node))
    _caption(right, rf"$\xi_w = [{xi}]$")
    return fig


# --- side by side: what each method looks at --------------------------------------------------------------------------


def comparison_figure(
    task: Task, forward: Attempt, missing: Missing, steps: Mapping[tuple[int, ...], Sequence[SearchStep]]
) -> Figure:
    """Forward above, guided below: maps of what each step was chosen by, then the tree that came out.

    forward: a tree of the paper's algorithm, abandoned or not. missing: what its `advance` returned then.
    steps: of `guided_steps`.
    """
    world, tree = compile_world(task), forward.tree
    found = [
        (forward.to_ids(tree.path(node)), forward.key_states[key])
        for step, node, key in tree.events
        if step == "expand"
    ]
    inserted = [
        (before.path, _added(before.path, after.path), after)
        for chain in steps.values()
        for before, after in pairwise(chain)
    ]
    columns = max(len(inserted), len(found)) + 1
    side = 1.75  # inches
    wide = [1.0] * (columns - 1) + [1.9]
    fig, axes = plt.subplots(2, columns, figsize=(side * sum(wide), 2 * side + 1.3), squeeze=False, width_ratios=wide)
    for ax in axes.flat:
        ax.axis("off")
    for ax, (path, new), importance in zip(axes[0], found, forward.importances, strict=False):
        _heat(ax, world, importance, chosen=new, path=path)
        ax.set_title(f"after {spelled(task, path)}:\nhighest at {spelled(task, [new])}", fontsize=8.5)
    for ax, (path, new, step) in zip(axes[1], inserted, strict=False):
        assert step.separation is not None
        _heat(ax, world, step.separation, chosen=new, path=path)
        ax.set_title(f"{spelled(task, path)} → {spelled(task, step.path)}\n{step.refuters:,} refuters", fontsize=8.5)
    last = axes[0, len(found)]
    tree.draw(last, labels=[f"${spelled(task, [state])}$" for state in forward.key_states])
    draw_tree([spelled(task, path).split(";") for path in steps], axes[1, -1])
    outcome = missing.told(partial(spelled, task)) if missing else "finished"
    for ax, text in ((last, outcome), (axes[1, -1], "no refuter, no rival, all explained")):
        _caption(ax, textwrap.fill(text, 26))
    for row, name in ((axes[0], "forward: $f$ after the working node"), (axes[1], "guided: separation in a slot")):
        row[0].annotate(name, (-0.08, 0.5), xycoords="axes fraction", rotation=90, ha="right", va="center", fontsize=9)
    return fig


# --- what the trajectories leave open ---------------------------------------------------------------------------------


def answers_figure(task: Task, store: TrajectoryStore, sizes: Sequence[int]) -> Figure:
    """Where the answers consistent with the first trajectories put key states, for growing numbers of trajectories."""
    world, structure = compile_world(task), task.formula.fsm().minimal_sequences()
    fig, axes = plt.subplots(1, len(sizes), figsize=(2.1 * len(sizes), 2.6), squeeze=False)
    for ax, size in zip(axes.flat, sizes, strict=True):
        part = store.select(np.arange(size))
        try:
            found = answers(Evidence(part), structure)
            text = f"{len(found):,} answer{'s' * (len(found) != 1)}"
            if not all(answer.complete(structure) for answer in found):
                text = "a branch is unseen"
        except TooManyTries:
            found, text = [], "too many to try out"
        share = np.zeros(world.num_observations)
        for answer in found:
            share[list({key for path in answer.paths for key in path})] += 1 / len(found)
        _heat(ax, world, share)
        won = len(part.positives)
        ax.set_title(f"{size} trajectories,\n{won} success{'es' * (won != 1)}: {text}", fontsize=8.5)
    return fig


def proved_after(task: Task, store: TrajectoryStore, every: int) -> float:
    """Trajectories that prove the answer, in steps of `every`; NaN if even the full store does not prove it."""
    structure = task.formula.fsm().minimal_sequences()
    for size in range(every, len(store) + 1, every):
        try:
            if proved(answers(Evidence(store.select(np.arange(size))), structure, limit=2), structure):
                return size
        except TooManyTries:
            continue
    return float("nan")


def corridor_figure(
    world: World, importance: NDArray[np.floating], admitted: Mapping[str, int], bottleneck: int
) -> Figure:
    """Left: importance over the map, the bottleneck framed. Right: refuters that dropping each element would admit."""
    fig, (ax, bars) = plt.subplots(1, 2, figsize=(8.2, 2.3), width_ratios=(1.7, 1))
    _heat(ax, world, importance, chosen=bottleneck)
    rank = int((importance > importance[bottleneck]).sum()) + 1
    ax.set_title(f"importance after $r$: the corridor is number {rank} of {int(np.isfinite(importance).sum())}")
    bars.barh(list(admitted), list(admitted.values()), color=[RED if not n else BLUE for n in admitted.values()])
    for row, count in enumerate(admitted.values()):
        bars.text(count, row, f" {count:,}", va="center", fontsize=8)
    bars.invert_yaxis()
    bars.set(xlabel="failures that follow the sequence without it", xlim=(0, 1.2 * max(admitted.values())))
    bars.tick_params(left=False)
    return fig


def _over_edges(line: NDArray[np.floating], size: NDArray[np.integer]) -> NDArray[np.floating]:
    """The line [T, 2] with each step over an edge of the map as two parts: out of it, and in on the opposite side."""
    steps = np.rint(np.diff(line, axis=0))
    across = (np.abs(steps) == size - 1) & (steps[:, ::-1] == 0) & (size > 2)
    over = np.flatnonzero(across.any(axis=1))
    way = np.sign(steps[over])
    out, back = (np.clip(ends, -0.5, size - 0.5) for ends in (line[over] - way, line[over + 1] + way))
    parts = np.stack([out, np.full_like(out, np.nan), back], axis=1).reshape(-1, 2)
    return np.insert(line, np.repeat(over + 1, 3), parts, axis=0)


def _added(before: Sequence[int], after: Sequence[int]) -> int:
    """The state that was inserted."""
    index = next((i for i, (one, two) in enumerate(zip(before, after, strict=False)) if one != two), len(before))
    return after[index]


def _heat(
    ax: Axes, world: World, values: NDArray[np.floating], *, chosen: int | None = None, path: Sequence[int] = ()
) -> None:
    """Values per observation id on the map; the chosen state framed in red, those of the path in orange."""
    ax.axis("on")
    walls = np.ones(world.size[::-1], np.bool_)
    walls[world.coordinates[:, 1], world.coordinates[:, 0]] = False
    draw_grid(ax, world.values_on_map(values), annotate=False, walls=walls, cmap="Blues")
    box = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    for symbol in world.task.formula.symbols:
        x, y = world.task.positions[symbol]
        ax.text(x, y, symbol, ha="center", va="center_baseline", fontsize=8, color=INK, bbox=box)
    for key, colour in [*((key, ORANGE) for key in path), *((key, RED) for key in (chosen,) if key is not None)]:
        x, y = place(world, key)
        ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor=colour, linewidth=2, zorder=4))


def _caption(ax: Axes, text: str) -> None:
    ax.text(0.5, -0.02, text, transform=ax.transAxes, ha="center", va="top", fontsize=8.5, color=MUTED)
