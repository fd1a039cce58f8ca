"""Events of MiniGrid-like images: which objects are there, in which state, where, and what is carried or gone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

DOOR, AGENT = 4, 10
KINDS = {DOOR: "door", 5: "key", 6: "ball", 7: "box", 8: "goal", 9: "lava", AGENT: "agent"}
"""MiniGrid's numbers of objects. Unseen and empty cells, walls and floor are none."""
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
STATES = ("open", "closed", "locked")
"""Of a door."""
MOVABLE = (5, 6, 7)
"""Objects that can be taken away: key, ball, box."""


@dataclass(frozen=True)
class Tiles:
    """See `tiles`."""

    places: bool = True
    colours: bool = True

    def __call__(self, observation: Any) -> list[str]:
        image = self._image(observation)
        kinds = image[..., 0]
        own = None if (kinds == AGENT).any() else (image.shape[0] // 2, image.shape[1] - 1)
        names: dict[str, None] = {}
        for x, y in np.argwhere(kinds >= DOOR).tolist():
            name = self._name(*image[x, y].tolist())
            names[f"carries {name}" if (x, y) == own else name] = None
            if self.places and (x, y) != own:
                names[f"{name} at {x},{y}"] = None
        return [*names, *self._gone(set(map(tuple, image.reshape(-1, 3).tolist())))]

    def _image(self, observation: Any) -> NDArray[Any]:
        image = np.asarray(observation["image"] if isinstance(observation, dict) else observation)
        if image.ndim != 3 or image.shape[2] != 3 or image.max(initial=0) > 20:
            raise ValueError(
                f"tiles() of an observation of shape {image.shape}, values up to {image.max(initial=0)}: it reads "
                "images [width, height, 3] of objects, colours and states, as MiniGrid gives them; write your own"
            )
        return image

    def _name(self, kind: int, colour: int, state: int) -> str:
        if kind == AGENT:
            return "agent"
        name = KINDS.get(kind, f"object {kind}")
        if self.colours:
            name = f"{COLOURS[colour] if colour < len(COLOURS) else f'colour {colour}'} {name}"
        return f"{name} {STATES[state] if state < len(STATES) else state}" if kind == DOOR else name

    def _gone(self, there: set[tuple[int, int, int]]) -> Iterator[str]:
        """Objects that are nowhere, and doors that are nowhere closed or locked, by their names without a place."""
        shown = {self._name(*each) for each in there if each[0] >= DOOR}
        for colour in range(len(COLOURS) if self.colours else 1):
            for kind, state in (*((kind, 0) for kind in MOVABLE), (DOOR, 1), (DOOR, 2)):
                if (name := self._name(kind, colour, state)) not in shown:
                    yield f"no {name}"


def tiles(*, places: bool = True, colours: bool = True) -> Tiles:
    """Events of images [width, height, 3] of objects, colours and states, as MiniGrid gives them.

    Each object with its colour, and a door with its state, somewhere ("yellow door open") and, with `places`, at its
    place ("yellow door open at 2,3"); the agent ("agent at 3,3"); movable objects that are gone ("no yellow key"), and
    doors that are no longer closed or locked ("no yellow door locked"), also while the agent hides them. In a view
    without the agent, the object on its own cell is carried ("carries yellow key"). colours=False leaves the colours
    out, where they change with every episode ("no key").

    Use MiniGrid's FullyObsWrapper where the task ends on a place: in its partial view, the agent hides what it stands
    on. Use the partial view where it ends on picking something up: the full view does not show what is carried, and a
    box that was opened is gone as well.
    """
    return Tiles(places, colours)
