"""The playground as a picture, for pages that have no kernel."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from lstoc_core.drawing.playground import Playground
from lstoc_core.drawing.theme import GREEN, INK, MUTED

PALE, CHOSEN = "#eceae6", "#bfc4ca"


def snapshot(play: Playground) -> Figure:
    """Tools and board on the left; formula, machine, what is known before running, and the buttons on the right."""
    columns, rows = play.width.value, play.height.value
    fig, (board, side) = plt.subplots(1, 2, figsize=(8.6, 4.4))
    board.set(xlim=(-0.6, columns - 0.4), ylim=(rows - 0.4, -1.9), aspect="equal")
    for (x, y), cell in play.cells.items():
        _box(board, x, y, cell.description, cell.style.button_color, cell.style.text_color)
    wide = columns / len(play.tool.options)
    for place, (text, value) in enumerate(play.tool.options):
        x, colour = (place + 0.5) * wide - 0.5, CHOSEN if value == play.tool.value else PALE
        _box(board, x, -1.25, text, colour, INK, width=0.92 * wide)
    machine = side.inset_axes((0, 0.42, 1, 0.4))
    if play.task is not None:
        play.task.fsm().draw(machine)
    side.set(xlim=(0, 10), ylim=(10, 0))
    side.text(0, 0.75, "formula", color=MUTED, va="center", fontsize=10)
    _box(side, 6, 0.75, play.formula.value, "white", INK, width=7.6, height=0.9, edge="#c5cbd3", size=12)
    for line, fact in enumerate(play.facts):
        side.text(0, 6.3 + 0.6 * line, fact, va="center", fontsize=9.5)
    for place, button in enumerate((play.run_button, play.pause_button, play.step_button, play.stop_button)):
        runs = button is play.run_button
        ink = "white" if runs else MUTED if button.disabled else INK
        _box(side, 1.1 + 2.5 * place, 9.3, button.description, GREEN if runs else PALE, ink, width=2.2, size=10)
    for ax in (board, machine, side):
        ax.axis("off")
    return fig


def _box(
    ax: Axes, x: float, y: float, text: str, face: str, ink: str | None, *,
    width: float = 0.92, height: float = 0.92, edge: str = "none", size: float = 11,
) -> None:  # fmt: skip
    """A rounded box with a text, both centred on a point."""
    corner = x - width / 2 + 0.08, y - height / 2 + 0.08
    shape = FancyBboxPatch(
        corner, width - 0.16, height - 0.16, boxstyle="round,pad=0.08", facecolor=face, edgecolor=edge
    )
    ax.add_patch(shape)
    ax.text(x, y, text.strip(), ha="center", va="center", fontsize=size, color=ink or INK)
