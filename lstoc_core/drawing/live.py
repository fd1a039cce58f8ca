"""`discover(..., watch=True)`: the run in a notebook while it goes on.

The view is drawn twice a second, and never costs more than a few hundredths of the time: what takes long (counting the
answers, where no planner knows them) is done as seldom as that needs. Its height does not change.
"""

import os
import time
from collections.abc import Callable
from typing import Any

from lstoc_core.drawing.panes import AMBER, Panes, framed, ground, height
from lstoc_core.drawing.scene import Scene, Stage
from lstoc_core.drawing.theme import GREEN, INK, is_live
from lstoc_core.run.methods import Setting
from lstoc_core.run.state import RunState

PERIOD = 0.5
"""Seconds between two drawings."""
SHARE = 0.03
"""Most of the run's time that drawing and counting may take."""
FIRST_COUNT = 0.4
"""Seconds that the first count of the answers is taken to need."""


def notebook() -> bool:
    """Whether this code runs in a notebook, where pictures can be shown."""
    try:
        from IPython import get_ipython
    except ModuleNotFoundError:
        return False
    shell = get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


def attended() -> bool:
    """Whether somebody looks at the notebook: in a Jupyter server or Voilà, not in headless execution."""
    return is_live() or bool(os.environ.get("VOILA_KERNEL_ID"))


def heard_while_busy(button: Any) -> None:
    """Let a button act while a cell runs, where front end and kernel have subshells (JupyterLab 4.4, ipykernel 7).

    The front end sends clicks to a subshell, a thread of its own. ipykernel 7.4 would turn them back to the shell that
    made the button, and that one is busy until the cell ends: here, the front end's choice holds.
    """
    button.comm._reply_subshell_for = lambda data, chosen: chosen


class LiveView:
    """The panes of a run, drawn while it goes on.

    stop: called when the Stop button is pressed. widget: shown where somebody looks on; elsewhere only the end is.
    """

    def __init__(self, setting: Setting, stop: Callable[[], None], *, clock: Callable[[], float] = time.perf_counter):
        import ipywidgets

        self.stage = Stage(setting)
        self.panes = Panes(self.stage)
        self._clock, self._due = clock, clock()
        self._count_due = self._due + FIRST_COUNT / SHARE
        self._state: RunState | None = None
        self._stop = stop
        self.drawn = 0
        """How often the view was drawn."""
        high = f"{height(self.stage)}px"
        same = {"width": "820px", "height": high, "margin": "0", "overflow": "hidden"}
        self._ground = ipywidgets.HTML(framed(self.stage, ground(self.stage)), layout=ipywidgets.Layout(**same))
        self._change = ipywidgets.HTML(layout=ipywidgets.Layout(**{**same, "margin": f"-{high} 0 0 0"}))
        self.button = ipywidgets.Button(
            description="Stop",
            icon="stop",
            tooltip="End the run after this update; the result so far is returned. So does interrupting the kernel.",
        )
        self.button.on_click(self._on_stop)
        heard_while_busy(self.button)
        white = ipywidgets.Layout(width="820px", overflow="hidden")
        self.widget = ipywidgets.VBox([self._ground, self._change, self.button], layout=white)
        self.widget.add_class("lstoc-live")

    def _on_stop(self, _: Any) -> None:
        self.button.disabled, self.button.description = True, "Stopping"
        self._stop()

    def show(self) -> None:
        """Display the view, where somebody looks on."""
        if attended():
            from IPython.display import display

            display(self.widget)

    def __call__(self, state: RunState) -> None:
        """A callback of `discover`: draw the state, if it is time."""
        self._state, now = state, self._clock()
        if now < self._due:
            return
        head = (
            "solving the task along the discovered sequences" if state.finished else "looking for the hidden subgoals"
        )
        self._draw(self._scene(state, now), head, moving=True)
        cost = self._clock() - now
        self._due = now + max(PERIOD, cost / SHARE)

    def _scene(self, state: RunState, now: float) -> Scene:
        """The scene, with the answers if they are at hand or it is time to count them."""
        left = state.answers_at_hand
        if left is None and now >= self._count_due:
            left = state.answers
            after = self._clock()
            self._count_due = after + (after - now) / SHARE
        return self.stage.scene(state, left)

    def _draw(self, scene: Scene, head: str, *, colour: str = INK, moving: bool = False) -> None:
        self._change.value = framed(self.stage, self.panes.svg(scene, head, colour=colour, moving=moving))
        self.drawn += 1

    def conclude(self, told: str, *, done: bool) -> None:
        """Draw the end of the run: green if all that was wanted is done, else amber."""
        if self._state is None:
            return
        state, colour = self._state, GREEN if done else AMBER
        scene = self.stage.scene(state, state.answers)
        self._draw(scene, told, colour=colour)
        self.button.disabled, self.button.description = True, "Ended"
        if not attended():
            from IPython.display import HTML, display

            whole = framed(self.stage, ground(self.stage), self.panes.svg(scene, told, colour=colour))
            display(HTML(f'<div style="background:white">{whole}</div>'))
