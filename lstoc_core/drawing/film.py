"""A run of `discover` as a film: episodes on the map, where the answers left put key states, the tree, the bits left.

    film = Film()
    lstoc.discover(task, callbacks=[film])
    film.save("discovery.gif"), film.still("discovery.png")

The frames are drawn with Pillow from the run's own states. The same run gives the same bytes.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import GifImagePlugin, Image

from lstoc_core import paths
from lstoc_core.drawing.painter import Frame, Painter
from lstoc_core.drawing.scene import UNKNOWN, Scene, Stage
from lstoc_core.run.state import RunState

STEP, OUTCOME, NEWS, END = 50, 200, 340, 5_000
"""Milliseconds that a frame is shown: on the way, at the end of an episode, with its news, at the end of the film."""
FRAMES = 130
"""About so many frames show episodes under way."""
MOST = 60
"""Episodes of a longer run that are shown."""
COLOURS, TRANSPARENT = 250, 255
"""Most colours of a GIF, and the number of none."""


class Film:
    """A callback of `discover` that keeps a scene per update, and draws them afterwards."""

    def __init__(self) -> None:
        self.stage: Stage | None = None
        self.scenes: list[Scene] = []

    def __call__(self, state: RunState) -> None:
        if self.stage is None:
            self.stage = Stage(state.setting)
        if state.last_trajectories:
            self.scenes.append(self.stage.scene(state, state.answers))

    def frames(self) -> Iterator[Frame]:
        """The frames in order."""
        chosen = np.unique(np.linspace(0, len(self.scenes) - 1, MOST).astype(int))
        scenes = [self.scenes[index] for index in chosen] if len(self.scenes) > MOST else self.scenes
        per_episode = int(np.clip(FRAMES // max(1, len(scenes)), 2, 12))
        known = None
        for scene in scenes:
            known = known or _before(scene)
            steps = len(scene.last) - 1
            for part in range(1, per_episode + 1):
                until = max(1, round(steps * part / per_episode))
                yield Frame(scene, known, until, False, STEP)
            yield Frame(scene, known, steps, True, OUTCOME)
            known = scene
            yield Frame(scene, known, steps, True, END if scene is self.scenes[-1] else NEWS)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the film as a GIF that plays for ever."""
        painter, shown = self._painter(), list(self.frames())
        pictures = [painter.paint(frame) for frame in shown]
        # One palette for all frames, from some of them: the last has every letter, the others all shades.
        some = [pictures[index] for index in np.linspace(0, len(pictures) - 1, 12).astype(int)]
        sheet = Image.new("RGB", (some[0].width, sum(each.height for each in some)))
        for index, each in enumerate(some):
            sheet.paste(each, (0, index * each.height))
        palette = sheet.quantize(COLOURS, Image.Quantize.MEDIANCUT)
        flat = [each.quantize(palette=palette, dither=Image.Dither.NONE) for each in pictures]
        _write_gif(Path(path), flat, [frame.duration for frame in shown])
        return Path(path)

    def publish(self, name: str) -> None:
        """Write `name`.gif and `name`.png to the directory of figures."""
        self.save(paths.figures() / f"{name}.gif")
        self.still(paths.figures() / f"{name}.png")

    def still(self, path: str | os.PathLike[str]) -> Path:
        """Write the last frame as a PNG."""
        *_, last = self.frames()
        self._painter().paint(last).save(path, optimize=True)
        return Path(path)

    def _painter(self) -> Painter:
        if self.stage is None or not self.scenes:
            raise ValueError("no episode has ended: give the film to discover(..., callbacks=[film]) first")
        return Painter(self.stage, self.scenes)


def _before(scene: Scene) -> Scene:
    """What is known before the first episode has ended: nothing."""
    nodes = tuple(replace(node, text=UNKNOWN if node.symbol else node.text, known=False) for node in scene.nodes)
    return Scene(
        scene.labels[:0], 0, scene.last[:0], None, float("nan"), nodes, scene.edges, {}, {}, "no episode yet", False
    )


def _write_gif(path: Path, frames: list[Image.Image], durations: list[int]) -> None:
    """Write frames of one palette. Of each, only the part that changes is stored, the rest of it transparent.

    Image.save would give each frame a palette of its own and no transparency: files of twice the size.
    """
    header, _ = GifImagePlugin.getheader(frames[0].copy(), info={"loop": 0, "optimize": False})
    parts = [*header]
    before = None
    for frame, duration in zip(frames, durations, strict=True):
        now = np.asarray(frame)
        changed = now != before if before is not None else np.ones(now.shape, np.bool_)
        ys, xs = (np.flatnonzero(changed.any(axis=axis)) for axis in (1, 0))
        top, bottom, left, right = (ys[0], ys[-1] + 1, xs[0], xs[-1] + 1) if len(ys) else (0, 1, 0, 1)
        cut = np.where(changed, now, TRANSPARENT)[top:bottom, left:right].astype(np.uint8)
        part = Image.fromarray(cut, "P")
        part.putpalette(frame.getpalette() or [])
        options = {"duration": duration, "transparency": TRANSPARENT, "disposal": 1, "include_color_table": False}
        parts += GifImagePlugin.getdata(part, (int(left), int(top)), **options)
        before = now
    path.write_bytes(b"".join([*parts, b";"]))
