"""Crafter: navigation in the world of the real `crafter` package, drawn by its engine with its textures.

Only the engine is used (World, Textures, LocalView, Player): the package's Env draws random numbers while it renders.
Daylight is fixed, so rendering draws none. The objects are ground the player can walk on, and the player always faces
down, so that what is seen is a function of where the player stands.

Map: 20×20; water and stone block. Observation: the 5×5 cells round the player, 16×16 pixels each, 80×80×3.
"""

from functools import lru_cache

import numpy as np
from crafter import constants, engine, objects
from numpy.typing import NDArray

from lstoc_core.worlds.tasks import CRAFTER_OBJECTS, Task

PIXELS = 16
"""Side of a cell in an observation."""
PICTURE_PIXELS = 32
"""Side of a cell in a picture of the map."""
TEXTURE = CRAFTER_OBJECTS | {"s": "plant"}
"""Texture of each object. The game draws a sapling in the world as "plant"; "sapling" is its inventory icon."""
_MATERIALS = ("grass", "water", "stone", "path", *TEXTURE.values())


class _GroundTextures(engine.Textures):
    """Crafter's textures; see-through ones (plant, energy, health, drink, zombie) lie on grass."""

    def get(self, name: str | None, size: NDArray[np.int_]) -> NDArray[np.uint8]:
        texture = super().get(name, size)
        if name in TEXTURE.values() and texture.shape[-1] == 4 and texture[..., 3].min() < 255:
            ground = super().get("grass", size)[..., :3].copy()
            engine._draw_alpha(ground, (0, 0), texture)
            return ground
        return texture


@lru_cache(maxsize=1)
def textures() -> _GroundTextures:
    """The textures of the installed crafter package."""
    return _GroundTextures(constants.root / "assets")


def build(task: Task) -> engine.World:
    """The task's map as a crafter world in full daylight, without the player."""
    world = engine.World(task.size, list(_MATERIALS), (12, 12))
    world.daylight = 1.0
    for x in range(task.size[0]):
        for y in range(task.size[1]):
            world[x, y] = task.terrain.get((x, y), "grass")
    for symbol, cell in task.positions.items():
        world[cell] = TEXTURE[symbol]
    return world


def views(task: Task) -> NDArray[np.uint8]:
    """The 5×5 cells round the player as the game draws them, 80×80×3; grey outside the map."""
    assert task.view is not None
    world = build(task)
    player = objects.Player(world, task.cells[0])
    world.add(player)
    look = engine.LocalView(world, textures(), (task.view, task.view))
    images = []
    for cell in task.cells:
        if tuple(player.pos) != cell:  # the engine refuses to move onto the cell one stands on
            world.move(player, cell)
        images.append(look(player, (PIXELS, PIXELS)).astype(np.uint8).transpose(1, 0, 2))
    return np.stack(images)


def picture(task: Task) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The whole map, and the player, as the game draws them."""
    world = build(task)
    unit = np.array((PICTURE_PIXELS, PICTURE_PIXELS))
    canvas = np.zeros((task.size[0] * PICTURE_PIXELS, task.size[1] * PICTURE_PIXELS, 3), np.uint8)
    for x in range(task.size[0]):
        for y in range(task.size[1]):
            engine._draw(canvas, np.array((x, y)) * unit, textures().get(world[x, y][0], unit))
    player = textures().get("player-down", unit)
    return canvas.transpose(1, 0, 2).copy(), player.transpose(1, 0, 2).copy()
