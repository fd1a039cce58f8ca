"""What was found, in a terminal: map, tree, proof and counts, in colours.

Colours are those of the pictures, the nearest of the terminal's 256. They are left out where nobody sees them: into a
file or a pipe, with TERM=dumb, or with the environment variable NO_COLOR (https://no-color.org).
"""

import math
import os
from collections.abc import Mapping
from itertools import groupby
from typing import TextIO

from lstoc_core.discovery.tree import ROOT, SubgoalTree
from lstoc_core.result import Discovery
from lstoc_core.scoring import Score
from lstoc_core.worlds import compile_world
from lstoc_core.worlds.grid import place
from lstoc_core.worlds.maps import Cell
from lstoc_core.worlds.pictures import letter_colour
from lstoc_core.worlds.tasks import Task

GOOD, OPEN, BAD, FAINT = "#009E73", "#E69F00", "#D55E00", "#8E897D"
"""Proved or right; unfinished; wrong; of little weight."""
FLOOR, WALL, START = "·", "█", "○"


class Brush:
    """Colours text, or leaves it as it is."""

    def __init__(self, on: bool) -> None:
        self.on = on

    @classmethod
    def of(cls, stream: TextIO) -> "Brush":
        """Colours if the stream is a terminal that shows them."""
        wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(wanted and stream.isatty())

    def __call__(self, text: str, colour: str, *, bold: bool = False) -> str:
        """The text in a colour, given as #RRGGBB."""
        if not self.on:
            return text
        return f"\x1b[{'1;' * bold}38;5;{nearest(colour)}m{text}\x1b[0m"


def nearest(colour: str) -> int:
    """Number of a colour #RRGGBB in the 6 × 6 × 6 cube of the terminal's 256."""
    levels = (0, 95, 135, 175, 215, 255)
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    red, green, blue = (min(range(6), key=lambda k: abs(levels[k] - part)) for part in parts)
    return 16 + 36 * red + 6 * green + blue


def map_lines(task: Task, found: Mapping[Cell, str], paint: Brush) -> list[str]:
    """The map, a line for each row: walls, start, letters; cells that were found carry their name in brackets.

    Letters outside the formula are faint. found: cell -> name, of which the first character is shown.
    """
    width, height = task.size
    letter_at = {cell: letter for letter, cell in task.positions.items()}
    lines = []
    for y in range(height):
        marks = [(" ", "", False)] * (2 * width + 1)
        for x in range(width):
            cell = (x, y)
            letter = letter_at.get(cell, "")
            if cell in found:
                colour = letter_colour(letter) if letter in task.formula.symbols else BAD
                marks[2 * x : 2 * x + 3] = [(part, colour, True) for part in ("[", found[cell][:1], "]")]
            elif letter in task.formula.symbols:
                marks[2 * x + 1] = (letter, letter_colour(letter), False)
            elif cell in task.walls:
                broad = 1 + ((x + 1, y) in task.walls)
                marks[2 * x + 1 : 2 * x + 1 + broad] = [(WALL, FAINT, False)] * broad
            else:
                marks[2 * x + 1] = (letter[:1] or (START if cell == task.start else FLOOR), FAINT, False)
        runs = (("".join(mark[0] for mark in run), *look) for look, run in groupby(marks, key=lambda mark: mark[1:]))
        painted = (paint(text, colour, bold=bold) if colour else text for text, colour, bold in runs)
        lines.append("".join(painted).rstrip())
    return lines


def tree_lines(tree: SubgoalTree, names: Mapping[int, str], paint: Brush) -> list[str]:
    """The tree from left to right, a line for each path: names of key states, ✓ where a sequence completes the task."""

    def below(node: int) -> list[str]:
        name = "start" if node == ROOT else names.get(tree.keys[node], "?")
        shown = name if node == ROOT else paint(name, letter_colour(name), bold=True)
        shown += paint(" ✓", GOOD) if node in tree.satisfying else ""
        indent = " " * (len(name) + 2 * (node in tree.satisfying))
        children = [below(child) for child in tree.children(node)]
        lines = []
        for number, child in enumerate(children):
            last = number == len(children) - 1
            fork = "─" if len(children) == 1 else "┬" if number == 0 else "└" if last else "├"
            head = f"{shown} ─{fork}─ " if number == 0 else f"{indent}  {fork}─ "
            rest = f"{indent}  {' ' if last else '│'}  "
            lines += [head + child[0], *(rest + line for line in child[1:])]
        return lines or [shown]

    return below(ROOT)


def report(found: Discovery, task: Task, marks: Score, paint: Brush) -> str:
    """What a run on a task found: map and tree, proof or what is missing, counts, and whether it is right."""
    world = compile_world(task)
    names = found.names if found.labeling is not None else {}
    cells = {place(world, key.observation_id): names.get(key.index, "?") for key in found.key_states}
    lines = [f"{task.name}: {task.formula}", "", *map_lines(task, cells, paint), ""]
    lines += [*tree_lines(found.tree, names, paint), ""] if found.sequences else []
    if not found.finished:
        missing = found.missing.told(lambda path: " → ".join(str(place(world, state)) for state in path) or "the start")
        lines += [paint(f"not finished: {missing}", OPEN)]
    elif found.proved:
        proof = "exactly one assignment of symbols to states is consistent with every episode's outcome"
        lines += [f"{paint('proved', GOOD, bold=True)}: {proof}"]
    counts = f"{found.num_trajectories:,} trajectories, {found.num_positives:,} of them successful"
    lines += [f"{counts}; {found.env_steps:,} steps", paint(f"explored by {found.exploration}", FAINT)]
    if not math.isnan(found.success_rate):
        lines += [f"success rate of the policy {found.success_rate:.0%}"]
    right = paint(f"exact: {marks.exact}", GOOD if marks.exact else BAD)
    lines += [f"{right}; key states found: {marks.found:.0%}; names correct: {marks.labels_correct}"]
    return "\n".join("  " + line if number and line else line for number, line in enumerate(lines))
