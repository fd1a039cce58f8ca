"""Crafter: navigation in the world of the real `crafter` package, drawn by its engine with its textures.

Only the engine is used (World, Textures, LocalView, Player): the package's Env draws random numbers while it renders.
Daylight is fixed, so rendering draws none. The objects are ground the player can walk on, and the player always faces
down, so that what is seen is a function of where the player stands.

Map: 20×20; water and stone block. Observation: the 5×5 cells round the player, 16×16 pixels each, 80×80×3.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lstoc_core.extras import needed_for
from lstoc_core.worlds.domain import Defaults, Domain, Ground, Group, Layout, NamedTask, Picture, Site, Symbols
from lstoc_core.worlds.maps import TERRAIN_STREAM, Cell, Size, layout_generator, stays_biconnected
from lstoc_core.worlds.tasks import Task

OBJECTS = {
    "t": "tree", "s": "sapling", "c": "coal", "d": "diamond", "e": "energy", "f": "furnace", "h": "health",
    "drink": "drink", "sand": "sand", "table": "table", "zombie": "zombie",
}  # fmt: skip
"""Symbols and what they stand for; the last four appear only in the generalization world."""
STANDARD = tuple("tscdefh")
"""Objects of every random map."""
OBSTACLES = frozenset({"water", "stone"})
"""Terrain that blocks the agent."""
PIXELS = 16
"""Side of a cell in an observation."""
PICTURE_PIXELS = 32
"""Side of a cell in a picture of the map."""
TEXTURE = OBJECTS | {"s": "plant"}
"""Texture of each object. The game draws a sapling in the world as "plant"; "sapling" is its inventory icon."""
_MATERIALS = ("grass", "water", "stone", "path", *TEXTURE.values())


@lru_cache(maxsize=64)
def draw_terrain(size: Size, layout_seed: int, keep_grass: frozenset[Cell]) -> dict[Cell, str]:
    """Crafter's own materials on the grass: water and stone (obstacles, 6 % each) and paths (walkable, 15 %).

    Smooth noise puts them in patches as in the game. Cells of `keep_grass` and their neighbours get no obstacle; one
    that would cut the map or make a bottleneck is left out. Sand and trees are not terrain: they are objects of tasks.
    """
    rng = layout_generator(layout_seed, TERRAIN_STREAM)
    area = size[0] * size[1]
    near = {(x + dx, y + dy) for x, y in keep_grass for dx in (-1, 0, 1) for dy in (-1, 0, 1)}
    terrain: dict[Cell, str] = {}
    for material, share in (("water", 0.06), ("stone", 0.06)):
        wanted = round(share * area) if min(size) > 1 else 0  # on a map of one row any obstacle is in the way
        for cell in _by_smooth_noise(size, rng):
            if wanted and cell not in terrain and cell not in near and stays_biconnected(size, terrain, cell):
                terrain[cell] = material
                wanted -= 1
    paths = [cell for cell in _by_smooth_noise(size, rng) if cell not in terrain and cell not in keep_grass]
    return terrain | dict.fromkeys(paths[: round(0.15 * area)], "path")


def _by_smooth_noise(size: Size, rng: np.random.Generator) -> list[Cell]:
    """All cells, those with the highest smooth noise first."""
    width, height = size
    noise = rng.random((width, height))
    for _ in range(2):
        padded = np.pad(noise, 1, mode="edge")
        noise = np.mean([padded[i : i + width, j : j + height] for i in range(3) for j in range(3)], axis=0)
    order = np.argsort(-noise, axis=None, kind="stable")
    return [(int(i) // height, int(i) % height) for i in order]


def ground(site: Site) -> Ground:
    """Water, stone and paths drawn by the layout seed; walls that are given are stone on a map of grass."""
    if site.walls is not None:
        return Ground(site.walls, dict.fromkeys(site.walls, "stone"))
    terrain = dict(draw_terrain(site.size, site.layout_seed, site.keep_free))
    return Ground(frozenset(cell for cell, material in terrain.items() if material in OBSTACLES), terrain)


def _game() -> Any:
    """The crafter package, imported when a world of this domain is first compiled or drawn."""
    with needed_for("the crafter domain", extra="worlds"):
        import crafter
    return crafter


class _GroundTextures:
    """The textures of the crafter package; see-through ones (plant, energy, health, drink, zombie) lie on grass."""

    def __init__(self) -> None:
        self._textures = _game().engine.Textures(_game().constants.root / "assets")

    def get(self, name: str | None, size: NDArray[np.int_]) -> NDArray[np.uint8]:
        """A texture by name, as large as asked, in pixels; the engine calls it for every cell."""
        texture: NDArray[np.uint8] = self._textures.get(name, size)
        if name in TEXTURE.values() and texture.shape[-1] == 4 and texture[..., 3].min() < 255:
            on_grass: NDArray[np.uint8] = self._textures.get("grass", size)[..., :3].copy()
            _game().engine._draw_alpha(on_grass, (0, 0), texture)
            return on_grass
        return texture


@lru_cache(maxsize=1)
def _textures() -> _GroundTextures:
    return _GroundTextures()


def build(task: Task) -> Any:
    """The task's map as a `crafter.engine.World` in full daylight, without the player."""
    world = _game().engine.World(task.size, list(_MATERIALS), (12, 12))
    world.daylight = 1.0
    for x in range(task.size[0]):
        for y in range(task.size[1]):
            world[x, y] = task.terrain.get((x, y), "grass")
    for symbol, cell in task.positions.items():
        world[cell] = TEXTURE[symbol]
    return world


def views(task: Task) -> NDArray[np.uint8]:
    """The 5×5 cells round the player as the game draws them, 80×80×3; grey outside the map."""
    assert task.view is not None  # see `objection`
    world = build(task)
    player = _game().objects.Player(world, task.cells[0])
    world.add(player)
    look = _game().engine.LocalView(world, _textures(), (task.view, task.view))
    images = []
    for cell in task.cells:
        if tuple(player.pos) != cell:  # the engine refuses to move onto the cell one stands on
            world.move(player, cell)
        images.append(look(player, (PIXELS, PIXELS)).astype(np.uint8).transpose(1, 0, 2))
    return np.stack(images)


def picture(task: Task) -> Picture:
    """The whole map, and the player, as the game draws them."""
    world = build(task)
    unit = np.array((PICTURE_PIXELS, PICTURE_PIXELS))
    canvas = np.zeros((task.size[0] * PICTURE_PIXELS, task.size[1] * PICTURE_PIXELS, 3), np.uint8)
    for x in range(task.size[0]):
        for y in range(task.size[1]):
            _game().engine._draw(canvas, np.array((x, y)) * unit, _textures().get(world[x, y][0], unit))
    player = _textures().get("player-down", unit)
    return Picture(canvas.transpose(1, 0, 2).copy(), player.transpose(1, 0, 2).copy())


def objection(task: Task) -> str | None:
    """The engine draws the cells round the player, and nothing beyond the edge of the map."""
    if task.wrap:
        return "wrap=True: Crafter's view ends at the edge of the map, so give wrap=False"
    if task.view is None:
        return "view=None: Crafter has no view of the whole map, so give view=5"
    return None


_POSITIONS = {"t": (5, 6), "s": (3, 14), "c": (16, 15), "d": (7, 17), "e": (17, 9), "f": (15, 4), "h": (10, 2)}
_NEW_OBJECTS = {"drink": (15, 12), "sand": (6, 11), "table": (13, 7), "zombie": (3, 3)}

DOMAIN = Domain(
    name="crafter",
    defaults=Defaults(size=(20, 20), start=lambda size: (size[0] // 2, size[1] // 2), view=5, horizon=300, wrap=False),
    symbols=Symbols(meaning=OBJECTS, closed=True, always=STANDARD),
    layout=Layout(ground=ground),
    views=views,
    picture=picture,
    tasks=(
        NamedTask("crafter-1", "t;c;d", _POSITIONS, Group.BENCHMARK),
        NamedTask("crafter-2", "((t;s)|c);f", _POSITIONS, Group.BENCHMARK),
        NamedTask("crafter-3", "t;((c;f)|e);d", _POSITIONS, Group.BENCHMARK),
        NamedTask("crafter-2-objects", "(f|(c;t));s", _POSITIONS | _NEW_OBJECTS, Group.GENERALIZATION),
    ),
    objection=objection,
    place=3,
)
