"""Figures of worlds and of the framework: motivating example, diagram of LSTOC, domains, what the agent sees."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch
from numpy.typing import NDArray

from lstoc_core.drawing.theme import BLUE, GREEN, INK, MUTED, RED, VERMILION
from lstoc_core.worlds import World, compile_world
from lstoc_core.worlds.domains.crafter import OBJECTS as CRAFTER_OBJECTS
from lstoc_core.worlds.domains.robot import LETTERS as ROBOT_LETTERS
from lstoc_core.worlds.registry import find_domain


def show_world(ax: Axes, world: World, *, position: int | None = None, title: str | None = None) -> None:
    """The whole map on axes without ticks, with the agent at a position (default: where episodes start)."""
    ax.imshow(world.render(int(world.starts[0]) if position is None else position), interpolation="lanczos")
    _frame(ax, title)


def motivating_example() -> Figure:
    """Figure tl_example: the layout (a) and the FSM (b) of c;(b∨w);d."""
    world = compile_world("robot")
    fig = plt.figure(figsize=(7.2, 3.3))
    left, right = fig.subfigures(1, 2, squeeze=False, width_ratios=(1, 1.3))[0]
    layout = left.subplots()
    show_world(layout, world)
    cell = world.render().shape[0] / world.size[1]
    for letter, (x, y) in world.task.positions.items():
        side = 1 if x < 2 else -1
        place = ((x + 0.5 + 0.65 * side) * cell, (y + 0.5) * cell)
        text = rf"{ROBOT_LETTERS[letter]} ($\mathit{{{letter}}}$)"
        layout.annotate(text, place, ha="left" if side > 0 else "right", va="center", fontsize=8)
    world.task.formula.fsm().draw(right.subplots())
    left.supxlabel("(a) Layout", fontsize=9)
    right.supxlabel("(b) FSM", fontsize=9)
    return fig


def domains(names: Sequence[str] = ("letter-2", "office-2", "crafter-2")) -> Figure:
    """Figure environments1: the maps of the three domains."""
    worlds = [compile_world(name) for name in names]
    fig, axes = _row(worlds, height=3.0)
    for ax, world, tag in zip(axes, worlds, "abcdefgh", strict=False):
        show_world(ax, world)
        ax.set_xlabel(f"({tag}) {world.task.domain.title()}, {world.size[0]}×{world.size[1]}", labelpad=6)
    return fig


def changed_worlds(names: Sequence[str]) -> Figure:
    """Maps next to each other, titled by task and formula: the generalization worlds."""
    worlds = [compile_world(name) for name in names]
    fig, axes = _row(worlds, height=2.1)
    for ax, world in zip(axes, worlds, strict=True):
        show_world(ax, world, title=f"{world.task.name}:  {world.task.formula.pretty}")
    return fig


def _row(worlds: Sequence[World], *, height: float) -> tuple[Figure, NDArray[Any]]:
    """Axes side by side that fit the maps; height in inches."""
    ratios = [world.size[0] / world.size[1] for world in worlds]
    fig, axes = plt.subplots(1, len(worlds), figsize=(height * sum(ratios), height + 0.3), width_ratios=ratios)
    return fig, np.atleast_1d(axes)


def binary_view(world: World, position: int) -> Figure:
    """What the agent receives at a position as a binary tensor, plane by plane."""
    seen = world.observations[world.observation_id[position]]
    names = _plane_names(world)
    fig, axes = plt.subplots(1, len(names), figsize=(1.35 * len(names), 1.65))
    for k, (ax, name) in enumerate(zip(axes, names, strict=True)):
        ax.pcolormesh(seen[::-1, :, k], cmap="Blues", vmin=0, vmax=1.3, edgecolors="#d9dde2", linewidth=0.5)
        ax.set_aspect("equal")
        _frame(ax, name)
    return fig


def pixel_views(world: World, symbols: Sequence[str]) -> Figure:
    """What the agent receives as pixels, beside and on each object."""
    fig, axes = plt.subplots(2, len(symbols), figsize=(1.2 * len(symbols), 2.7))
    for column, symbol in zip(axes.T, symbols, strict=True):
        here = world.position_of(world.task.positions[symbol])
        for ax, position in zip(column, (world.next_position[here, 1], here), strict=True):
            ax.imshow(world.observations[world.observation_id[position]])
            _frame(ax)
        column[0].set_title(f"{CRAFTER_OBJECTS[symbol]}", fontsize=8)
    axes[0, 0].set_ylabel("beside it", fontsize=8)
    axes[1, 0].set_ylabel("on it", fontsize=8)
    return fig


def _plane_names(world: World) -> list[str]:
    letters = list(find_domain(world.task.domain).symbols.always or world.symbols)
    walls = ["wall"] * (world.observations.shape[-1] - len(letters) - 1)
    return [*letters, *walls, "agent"]


def _frame(ax: Axes, title: str | None = None) -> None:
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set(visible=True, color="#c5cbd3", linewidth=0.8)
    if title:
        ax.set_title(title, fontsize=8)


# --- the framework ----------------------------------------------------------------------------------------------------


def framework() -> Figure:
    """Figure ground_diagram: how LSTOC learns subgoals (left) and names them (right)."""
    fig, ax = plt.subplots(figsize=(10.5, 4.7))
    ax.set(xlim=(0, 12.6), ylim=(0, 5.6), aspect="equal")
    ax.axis("off")
    _panel(ax, (0.1, 0.15, 9.1, 5.3), "Learning subgoals", "#eef4fa", BLUE)
    _panel(ax, (9.5, 0.15, 3.0, 5.3), "Labeling", "#fdf1e8", VERMILION)

    _box(ax, (0.4, 3.2, 1.7, 1.3), "Environment", "hidden subgoals,\nlabel at the end")
    _box(ax, (2.9, 3.95, 1.5, 0.72), r"$\mathcal{B}_P$", "", colour=GREEN, sign="+")
    _box(ax, (2.9, 3.03, 1.5, 0.72), r"$\mathcal{B}_N$", "", colour=RED, sign="−")
    _box(ax, (5.2, 3.2, 1.5, 1.3), r"$o_\theta$", "state\nrepresentation")
    _box(ax, (7.4, 3.2, 1.5, 1.3), r"$f_\omega$", "contrastive\nlearning on FR")
    _box(ax, (7.4, 0.75, 1.5, 1.3), r"$\hat{\mathcal{S}}_K$", "key states")
    _box(ax, (3.6, 0.55, 2.5, 1.5), "", "")
    _box(ax, (0.4, 0.75, 1.7, 1.3), r"$\pi_{\mathrm{exp}}$", "exploration policy\n(GRU, PPO)")
    _small_tree(ax, 3.95, 1.42)
    ax.text(4.85, 0.75, r"subgoal tree $\mathcal{T}_\varphi$", ha="center", va="center", fontsize=8.5)

    _box(ax, (10.2, 3.55, 1.6, 0.95), r"$\mathcal{M}_\varphi$", "FSM of the task")
    _box(ax, (10.2, 2.15, 1.6, 0.8), "ILP", "", colour=VERMILION)
    _box(ax, (10.2, 0.5, 1.6, 1.05), r"$L_\varphi$", "labeling function", colour=VERMILION)

    _arrow(ax, (2.1, 4.05), (2.9, 4.3), r"$\tau_k,\ l_k=1$", above=(2.42, 4.62))
    _arrow(ax, (2.1, 3.65), (2.9, 3.4), r"$\tau_k,\ l_k=0$", above=(2.42, 3.12))
    _arrow(ax, (4.4, 4.3), (5.2, 4.05))
    _arrow(ax, (4.4, 3.4), (5.2, 3.65))
    _arrow(ax, (6.7, 3.85), (7.4, 3.85))
    _arrow(ax, (8.15, 3.2), (8.15, 2.05), "next key state $\\hat s$", above=(8.05, 2.62), ha="right")
    _arrow(ax, (7.4, 1.4), (6.1, 1.4), "expand\nat $v_w$", above=(6.75, 1.78))
    _arrow(ax, (3.6, 1.4), (2.1, 1.4), "rewards $r_a$\nalong $\\xi_w$", above=(2.85, 1.8))
    _arrow(ax, (1.25, 2.05), (1.25, 3.2), "collects $\\tau_k$", above=(1.35, 2.62), ha="left")
    _arrow(
        ax,
        (4.3, 2.05),
        (3.75, 3.03),
        "trajectories conditioned\non the working node $v_w$",
        above=(4.25, 2.58),
        ha="left",
    )
    _arrow(ax, (11.0, 3.55), (11.0, 2.95))
    _arrow(ax, (11.0, 2.15), (11.0, 1.55))
    _elbow(ax, [(8.9, 1.6), (9.35, 1.6), (9.35, 2.7), (10.2, 2.7)])
    _elbow(ax, [(4.85, 0.55), (4.85, 0.33), (9.75, 0.33), (9.75, 2.4), (10.2, 2.4)])
    return fig


def _panel(ax: Axes, box: tuple[float, float, float, float], title: str, face: str, colour: str) -> None:
    x, y, width, height = box
    ax.add_patch(
        FancyBboxPatch(
            (x, y), width, height, boxstyle="round,pad=0,rounding_size=0.18", fc=face, ec=colour, lw=1.0, ls=(0, (5, 3))
        )
    )
    ax.text(x + 0.22, y + height - 0.3, title, color=colour, fontsize=11, fontweight="bold", va="center")


def _box(
    ax: Axes, box: tuple[float, float, float, float], name: str, note: str, *, colour: str = INK, sign: str = ""
) -> None:
    x, y, width, height = box
    shadow = FancyBboxPatch(
        (x + 0.035, y - 0.045), width, height, boxstyle="round,pad=0,rounding_size=0.1", fc="#00000018", ec="none"
    )
    ax.add_patch(shadow)
    ax.add_patch(
        FancyBboxPatch(
            (x, y), width, height, boxstyle="round,pad=0,rounding_size=0.1", fc="white", ec=colour, lw=1.2, zorder=2
        )
    )
    centre = x + width / 2 + (0.18 if sign else 0)
    size = 13 if "$" in name else 10.5
    ax.text(
        centre,
        y + height * (0.68 if note else 0.5),
        name,
        ha="center",
        va="center",
        fontsize=size,
        color=colour,
        zorder=4,
    )
    if note:
        ax.text(centre, y + height * 0.3, note, ha="center", va="center", fontsize=8, color=MUTED, zorder=4)
    if sign:
        ax.text(x + 0.36, y + height / 2, sign, ha="center", va="center", fontsize=15, color=colour, zorder=4)


def _arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    text: str = "",
    *,
    above: tuple[float, float] = (0, 0),
    ha: str = "center",
) -> None:
    arrow = FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, color=INK, lw=1.1, shrinkA=1, shrinkB=1)
    arrow.set_zorder(3)
    ax.add_patch(arrow)
    if text:
        ax.text(*above, text, ha=ha, va="center", fontsize=8.5, zorder=4)


def _elbow(ax: Axes, route: Sequence[tuple[float, float]]) -> None:
    """An arrow along straight pieces."""
    ax.plot(*zip(*route[:-1], strict=True), color=INK, linewidth=1.1, solid_joinstyle="round", zorder=3)
    _arrow(ax, route[-2], route[-1])


def _small_tree(ax: Axes, x: float, y: float) -> None:
    """The tree of the motivating example while it grows: one branch known, the working node red, one unexplored."""
    nodes = {
        "0": (x, y),
        "c": (x + 0.55, y),
        "w": (x + 1.15, y + 0.28),
        "d": (x + 1.75, y + 0.28),
        "b": (x + 1.15, y - 0.28),
    }
    for a, b in (("0", "c"), ("c", "w"), ("w", "d"), ("c", "b")):
        ax.plot(*zip(nodes[a], nodes[b], strict=True), color=INK, linewidth=1.0, zorder=3)
    for name, centre in nodes.items():
        colour = RED if name == "c" else MUTED if name == "b" else INK
        dashes = (0, (2, 1.5)) if name == "b" else "-"
        ax.add_patch(Circle(centre, 0.15, fc="white", ec=colour, lw=1.2, ls=dashes, zorder=4))
