"""A playground: build a task by clicks and a formula, and watch it being found.

    play = Playground()
    play.widget            # in a notebook
    play.task              # what was built; `play.code.value` is the line that builds it

Everything works without a browser, too: widgets are set and buttons clicked from Python.
"""

import threading
import time
from html import escape
from typing import Any

import ipywidgets as widgets

from lstoc_core.drawing.live import PERIOD, heard_while_busy
from lstoc_core.drawing.panes import AMBER, Panes, framed, ground
from lstoc_core.drawing.scene import Scene, Stage
from lstoc_core.drawing.theme import GREEN, INK, RED
from lstoc_core.logic import FormulaError, parse
from lstoc_core.loop import discover
from lstoc_core.result import Discovery
from lstoc_core.run.state import RunState
from lstoc_core.worlds.chance import random_walk_chance
from lstoc_core.worlds.make import compile_world
from lstoc_core.worlds.maps import Cell
from lstoc_core.worlds.pictures import letter_colour
from lstoc_core.worlds.tasks import TASKS, Task, TaskError, make_task

LETTERS = tuple("abcdef")
WALL_TOOL, START_TOOL, ERASER = "wall", "start", "erase"
OWN = "my own"
"""The choice of a task that is not one of the named ones."""
DOMAIN = "letter"
"""Of tasks that are built here."""
FIRST = "letter-2"
EMPTY = "\u00a0"
"""Text of an empty cell: browsers leave a button as it was if its text becomes nothing."""
EXPLORERS = ("auto", "planner", "policy")


class Playground:
    """Widgets to build a task, run it, pause it, and look at what is known.

    The run goes on in a thread of its own, so that every button works meanwhile.
    """

    def __init__(self) -> None:
        self.letters: dict[str, Cell] = {}
        self.walls: set[Cell] = set()
        self.start: Cell = (0, 0)
        self.task: Task | None = None
        """The task as built; None if it cannot be made as it stands."""
        self.facts: tuple[str, ...] = ()
        """What can be said of it before it is run."""
        self.discovery: Discovery | None = None
        """The result of the last run."""
        self.thread: threading.Thread | None = None
        self._ended = True
        """Whether no run is under way."""
        self._go, self._once, self._stop = threading.Event(), threading.Event(), threading.Event()
        self._state: RunState | None = None
        self._shown: tuple[Stage, Panes, Scene, str, str] | None = None
        self._drawn_at = 0.0
        self._quiet = False
        self._make_widgets()
        self.choose(FIRST)

    # --- the widgets ---

    def _make_widgets(self) -> None:
        wide = widgets.Layout(width="360px")
        self.named = widgets.Dropdown(options=[*_playable(), OWN], value=FIRST, description="task", layout=wide)
        self.width = widgets.BoundedIntText(10, min=2, max=14, description="columns", layout={"width": "170px"})
        self.height = widgets.BoundedIntText(10, min=2, max=14, description="rows", layout={"width": "170px"})
        self.horizon = widgets.BoundedIntText(200, min=1, max=2_000, description="horizon", layout=wide)
        self.wrap = widgets.Checkbox(True, description="edges are joined", indent=True, layout=wide)
        tools = [*((letter, letter) for letter in LETTERS), ("■", WALL_TOOL), ("▢", START_TOOL), ("✕", ERASER)]
        tips = [*(f"letter {letter}" for letter in LETTERS), WALL_TOOL, START_TOOL, ERASER]
        self.tool = widgets.ToggleButtons(options=tools, tooltips=tips, value="a", style={"button_width": "42px"})
        self.formula = widgets.Text(description="formula", continuous_update=True, layout=wide)
        self.machine, self.told = widgets.HTML(), widgets.HTML()
        self.code = widgets.Textarea(disabled=True, layout={"width": "820px", "height": "52px", "margin": "8px 2px"})
        self.board = widgets.GridBox()
        self.cells: dict[Cell, widgets.Button] = {}
        self.seed = widgets.BoundedIntText(
            0, min=0, max=10**6, description="seed", layout={"width": "120px"}, style={"description_width": "40px"}
        )
        self.explorer = widgets.Dropdown(
            options=EXPLORERS, description="explorer", layout={"width": "160px"}, style={"description_width": "64px"}
        )
        self.reveal = widgets.Checkbox(False, description="reveal the truth", indent=False, layout={"width": "150px"})
        narrow = widgets.Layout(width="90px")
        self.run_button = widgets.Button(description="Run", icon="play", button_style="success", layout=narrow)
        self.pause_button = widgets.Button(description="Pause", icon="pause", disabled=True, layout=narrow)
        self.step_button = widgets.Button(description="Step", icon="step-forward", layout=narrow)
        self.stop_button = widgets.Button(description="Stop", icon="stop", disabled=True, layout=narrow)
        self.view = widgets.HTML(layout={"width": "820px"})

        self.named.observe(self._on_named, "value")
        for widget in (self.width, self.height):
            widget.observe(self._on_size, "value")
        for widget in (self.horizon, self.wrap, self.formula):
            widget.observe(self._on_edit, "value")
        self.reveal.observe(lambda _: self._draw(), "value")
        self.run_button.on_click(lambda _: self.run())
        self.pause_button.on_click(lambda _: self.pause())
        self.step_button.on_click(lambda _: self.step())
        self.stop_button.on_click(lambda _: self.stop())

        sizes = widgets.HBox([self.width, self.height])
        left = widgets.VBox([self.named, self.tool, self.board], layout={"width": "430px"})
        right = widgets.VBox([self.formula, sizes, self.horizon, self.wrap, self.machine, self.told])
        buttons = [self.run_button, self.pause_button, self.step_button, self.stop_button]
        for button in buttons:
            heard_while_busy(button)  # a cell may `wait`
        controls = widgets.HBox([*buttons, self.seed, self.explorer, self.reveal])
        self.widget = widgets.VBox([widgets.HBox([left, right]), self.code, controls, self.view])
        self.widget.add_class("lstoc-playground")

    def _rebuild_board(self) -> None:
        """A button per cell."""
        width, height = self.width.value, self.height.value
        self.cells = {}
        for y in range(height):
            for x in range(width):
                button = widgets.Button(
                    tooltip=f"{x}, {y}", layout={"width": "36px", "height": "30px", "margin": "1px"}
                )
                button.on_click(lambda _, cell=(x, y): self.click(cell))
                self.cells[x, y] = button
        self.board.children = tuple(self.cells.values())
        self.board.layout = widgets.Layout(grid_template_columns=f"repeat({width}, 38px)", width=f"{40 * width}px")
        self._paint_board()

    def _paint_board(self) -> None:
        at = {cell: letter for letter, cell in self.letters.items()}
        for cell, button in self.cells.items():
            letter = at.get(cell, "")
            text = letter or ("■" if cell in self.walls else "▢" if cell == self.start else EMPTY)
            colour = letter_colour(letter) if letter in LETTERS else "#49525e" if cell in self.walls else "#f4f2ee"
            if button.description != text:
                button.description = text
            if button.style.button_color != colour:
                button.style.button_color = colour
                button.style.text_color = "white" if letter or cell in self.walls else INK

    # --- building a task ---

    def choose(self, name: str) -> None:
        """Start from a named task."""
        task = TASKS[name]
        self._quiet = True
        self.letters, self.walls = dict(task.positions), set(task.walls)
        self.start = task.start or (0, 0)
        self.width.value, self.height.value = task.size
        self.horizon.value, self.wrap.value = task.horizon, task.wrap
        self.formula.value, self.named.value = str(task.formula), name
        self._quiet = False
        self._rebuild_board()
        self._refresh()

    def click(self, cell: Cell) -> None:
        """Put what the tool says on a cell: a letter moves there, a wall comes or goes."""
        tool = self.tool.value
        was_wall = cell in self.walls
        self.letters = {letter: at for letter, at in self.letters.items() if at != cell and letter != tool}
        self.walls.discard(cell)
        if tool == WALL_TOOL and not was_wall:
            self.walls.add(cell)
        elif tool == START_TOOL:
            self.start = cell
        elif tool in LETTERS:
            self.letters[tool] = cell
        self._paint_board()
        self._edited()

    def _on_named(self, change: Any) -> None:
        if not self._quiet and change["new"] != OWN:
            self.choose(change["new"])

    def _on_size(self, _: Any) -> None:
        if self._quiet:
            return
        inside = {(x, y) for x in range(self.width.value) for y in range(self.height.value)}
        self.letters = {letter: cell for letter, cell in self.letters.items() if cell in inside}
        self.walls &= inside
        self.start = self.start if self.start in inside else (0, 0)
        self._rebuild_board()
        self._edited()

    def _on_edit(self, _: Any) -> None:
        if not self._quiet:
            self._edited()

    def _edited(self) -> None:
        """The task is no longer a named one."""
        self._quiet = True
        self.named.value = OWN
        self._quiet = False
        self._refresh()

    def _arguments(self) -> dict[str, Any]:
        return {
            "domain": DOMAIN,
            "formula": self.formula.value,
            "positions": dict(sorted(self.letters.items())),
            "size": (self.width.value, self.height.value),
            "start": self.start,
            "horizon": self.horizon.value,
            "wrap": self.wrap.value,
            "walls": sorted(self.walls),
        }

    def _refresh(self) -> None:
        """Make the task, and say what is to be known before running it: errors, machine, chance, names, code."""
        arguments = self._arguments()
        self.task, self.facts, self.code.value = None, (), ""
        try:
            formula = parse(arguments["formula"])
            self.machine.value = formula.fsm()._repr_html_() or ""
            self.task = make_task(**arguments)
        except (FormulaError, TaskError) as error:
            text = escape(str(error)).replace("\n", "<br>").replace(" ", "&nbsp;")
            if isinstance(error, FormulaError):
                self.machine.value = ""
            self.told.value = f'<div style="color:{RED};font-family:monospace;line-height:1.3">{text}</div>'
        else:
            self.facts = _facts(self.task)
            self.told.value = f'<div style="line-height:1.4">{"<br>".join(map(escape, self.facts))}</div>'
            self.code.value = f"lstoc.make_task({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
        self._enable()

    # --- running ---

    @property
    def running(self) -> bool:
        return not self._ended

    def run(self) -> None:
        """Start a run, or let a paused one go on."""
        self._go.set()
        self._begin()
        self._enable()

    def pause(self) -> None:
        """Halt before the next update."""
        self._go.clear()
        self._enable()

    def step(self) -> None:
        """One update, then pause."""
        self._go.clear()
        self._once.set()
        self._begin()
        self._enable()

    def stop(self) -> None:
        """End the run; what was found so far is kept."""
        self._stop.set()
        self._once.set()

    def wait(self) -> Discovery | None:
        """Wait until the run has ended; its result. None if there was no run."""
        if (thread := self.thread) is not None:
            thread.join()
        return self.discovery

    def _begin(self) -> None:
        if self.running or self.task is None:
            return
        self._stop.clear()
        self.discovery, self._ended = None, False
        self.thread = threading.Thread(target=self._work, args=(self.task,), daemon=True)
        self.thread.start()

    def _work(self, task: Task) -> None:
        try:
            found = discover(
                task, seed=self.seed.value, explorer=self.explorer.value, progress=False, callbacks=[self._on_state]
            )
        except Exception as error:  # in a thread nobody else would tell
            self.view.value = f'<pre style="color:{RED}">{escape(f"{type(error).__name__}: {error}")}</pre>'
            raise
        finally:
            self._ended = True
            self._once.clear()
            self._enable()
        self.discovery = found
        if self._shown is not None and self._state is not None:
            counts = f"after {found.num_trajectories} episodes, {found.num_positives} of them done"
            head, colour = (f"proved {counts}", GREEN) if found.proved else (f"stopped {counts}", AMBER)
            stage, panes = self._shown[:2]
            self._shown = (stage, panes, stage.scene(self._state, self._state.answers), head, colour)
            self._draw()

    def _on_state(self, state: RunState) -> bool | None:
        """Draw the state, then wait if the run is paused. False ends the run."""
        self._state = state
        fresh = self._shown is None or self._shown[0].env is not state.setting.env
        stage = Stage(state.setting) if fresh or self._shown is None else self._shown[0]
        panes = Panes(stage) if fresh or self._shown is None else self._shown[1]
        waiting = not self._go.is_set()
        if waiting or fresh or state.finished or time.perf_counter() - self._drawn_at > PERIOD:
            left = state.answers if waiting or state.finished else state.answers_at_hand
            self._shown = (stage, panes, stage.scene(state, left), "looking for the hidden subgoals", INK)
            self._draw()
        self._once.clear()
        while not (self._go.is_set() or self._once.is_set() or self._stop.is_set() or state.finished):
            time.sleep(0.02)
        return False if self._stop.is_set() else None

    def _draw(self) -> None:
        if self._shown is None:
            return
        stage, panes, scene, head, colour = self._shown
        revealed = self.reveal.value
        drawn = panes.svg(scene, head, colour=colour, revealed=revealed)
        self.view.value = framed(stage, ground(stage, revealed=revealed), drawn)
        self._drawn_at = time.perf_counter()

    def _enable(self) -> None:
        """Buttons that make sense now."""
        self.run_button.disabled = self.task is None or (self.running and self._go.is_set())
        self.pause_button.disabled = not (self.running and self._go.is_set())
        self.step_button.disabled = self.task is None
        self.stop_button.disabled = not self.running


def _playable() -> list[str]:
    """Names of the tasks that can be built here."""
    return [name for name, task in TASKS.items() if task.domain == DOMAIN]


def _facts(task: Task) -> tuple[str, ...]:
    """What can be said of a task before it is run."""
    chance = random_walk_chance(compile_world(task))
    alike = task.fsm().interchangeable()
    names = "; ".join(" and ".join(group) for group in alike)
    return (
        f"A random walk completes it with probability {chance:.2%}." if chance >= 5e-5 else
        "A random walk practically never completes it.",
        f"The shortest way takes {task.shortest_solution} steps.",
        f"Names are not unique: {names} can be exchanged." if alike else "Names are unique: each can be learned.",
    )  # fmt: skip
