"""Pictures of whole maps, drawn with Pillow: 32 pixels per cell, letters in the colours of a colour-blind safe palette."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from lstoc_core.tasks import Task

CELL = 32
_FINE = 4
"""Everything is drawn this many times larger and scaled down, for smooth edges."""
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def board(task: Task, *, letters: Sequence[str], icons: bool = False, balls: bool = False) -> NDArray[np.uint8]:
    raise NotImplementedError


def agent() -> NDArray[np.uint8]:
    raise NotImplementedError
