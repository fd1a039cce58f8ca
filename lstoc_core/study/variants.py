"""The variants of LSTOC and the baselines: each with its name, title, colour, world and settings, declared once.

A variant changes one thing against `lstoc`, which has the default settings. To add one, add an entry here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from lstoc_core.study.settings import (
    Discovering,
    Oracle,
    PixelNoise,
    PlainPPO,
    RandomStarts,
    Settings,
    Slippery,
    Unchanged,
    WorldChange,
    WrongLabels,
)
from lstoc_core.suggestions import unknown

NEUTRAL = "#7b8794"
"""Colour of a variant that is never drawn beside others by colour alone."""


class ExperimentError(ValueError):
    """An experiment, task, method or profile that does not exist. Nothing has been run."""


@dataclass(frozen=True)
class Variant:
    """One way to learn a task, and how it looks in tables and figures."""

    name: str
    """Part of file names and of the column `method`."""
    title: str
    """How it is called in tables and figures."""
    colour: str = NEUTRAL
    """Its colour in all figures; the main ones have Okabe and Ito's, safe for colour-blind readers."""
    world: WorldChange = field(default_factory=Unchanged)
    """How its world differs from the task's."""
    settings: Settings | None = None
    """What learns. None: an algorithm that is only tried on the samples of another run (see `measure.accuracy`)."""

    def __post_init__(self) -> None:
        if self.world != Unchanged() and not isinstance(self.settings, Discovering):
            raise ValueError(f"variant {self.name!r}: only a discovery runs in a changed world; leave `world` out")

    def config(self) -> dict[str, Any]:
        """Plain JSON that identifies world and settings; `settings_of` and `world_of` read it back."""
        if self.settings is None:
            raise ExperimentError(f"{self.name!r} cannot be trained by itself: it is compared on given samples only")
        return self.settings.config() | self.world.config()


_LSTOC = Variant("lstoc", "guided, PPO explorer", "#0072b2", settings=Discovering(solve=True))
# Walks on the map solve the task; a policy trained on the map would touch the world no more.
_PLANNER = Variant(
    "planner",
    "guided, planner",
    "#009e73",
    settings=Discovering(solve=True, explorer="planner", planner={"imagined": 0}),
)
_ASKING = Discovering(explorer="planner")
_PUBLISHED = "LSTOC as published"
_EXACT = f"{_PUBLISHED}, exact optimum"

VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in (
        _LSTOC,
        replace(_LSTOC, name="guided", title="guided", settings=None),
        _PLANNER,
        replace(_LSTOC, name="labels", title="PPO + learned labels", settings=None),
        Variant("fixed", "guided, fixed policy", "#999933", settings=Discovering(loop={"train_explorer": False})),
        Variant("published", f"{_PUBLISHED}, then solving", "#56b4e9", settings=Discovering("forward", solve=True)),
        Variant("forward", _PUBLISHED, "#56b4e9", settings=Discovering("forward")),
        Variant("forward-exact", _EXACT, "#56b4e9", settings=Discovering("forward", forward={"exact": True})),
        Variant(
            "forward-printed",
            f"{_PUBLISHED}, one positive per step",
            settings=Discovering("forward", forward={"training": "printed"}),
        ),
        Variant(
            "forward-fixed",
            f"{_PUBLISHED}, fixed policy",
            "#999933",
            settings=Discovering("forward", loop={"train_explorer": False}),
        ),
        Variant(
            "baseline1",
            "Baseline 1 (no first occupancy)",
            "#e69f00",
            settings=Discovering("forward", forward={"objective": "baseline1"}),
        ),
        Variant(
            "baseline2",
            "Baseline 2 (all states)",
            "#882255",
            settings=Discovering("forward", forward={"objective": "baseline2"}),
        ),
        Variant("ppo", "PPO", "#d55e00", settings=PlainPPO()),
        Variant("ppo+bonus", "PPO + first-occupancy bonus", "#cc79a7", settings=PlainPPO(bonus=0.01)),
        Variant("oracle", "oracle (true symbols)", "#4d4d4d", settings=Oracle()),
        Variant("no-rearm", "without re-arming", settings=Discovering(loop={"rearm": False})),
        # A collapsed exploration would get the bonus back: patience None rules that out.
        Variant("no-bonus", "without bonus", settings=Discovering(loop={"bonus": 0.0, "patience": None})),
        Variant("explained-0", "explained success pays 0", settings=Discovering(loop={"explained": 0.0})),
        Variant("explained-1", "explained success pays 1", settings=Discovering(loop={"explained": 1.0})),
        Variant("flipped", "2 % of labels wrong", world=WrongLabels(0.02), settings=Discovering()),
        Variant("flipped-planner", "2 % of labels wrong, planner", world=WrongLabels(0.02), settings=_ASKING),
        Variant("starts", "random starts", world=RandomStarts(), settings=Discovering()),
        Variant("starts-planner", "random starts, planner", world=RandomStarts(), settings=_ASKING),
        Variant("slips", "10 % of moves slip", world=Slippery(0.1), settings=Discovering()),
        Variant("slips-planner", "10 % of moves slip, planner", world=Slippery(0.1), settings=_ASKING),
        Variant("pixels", "pixels that never repeat", world=PixelNoise(3), settings=Discovering()),
    )
}
"""All variants by name, in their order in tables and legends."""

CURVES = ("published", "lstoc", "planner", "ppo", "ppo+bonus", "oracle")
ABLATIONS = ("lstoc", "no-rearm", "no-bonus", "explained-0", "explained-1")
TRANSFERS = ("lstoc", "ppo", "ppo+bonus")
"""Runs of the generalization experiment; what it shows of the first is the policy that is paid by labels."""
SHOWN_TRANSFERS = ("labels", "ppo", "ppo+bonus")
ROBUSTNESS = ("flipped", "flipped-planner", "starts", "starts-planner", "slips", "slips-planner", "pixels")
FORWARD = ("forward", "forward-exact", "forward-fixed", "baseline1", "baseline2")
DISCOVERIES = ("lstoc", "planner", "fixed", *FORWARD)
OFFLINE = ("guided", "forward", "forward-exact", "baseline1", "baseline2")


def variant(name: str) -> Variant:
    """The variant of that name."""
    known([name], VARIANTS, "method")
    return VARIANTS[name]


def known(names: Iterable[str], choices: Iterable[str], what: str) -> None:
    """Raise an ExperimentError for the first name that is not among the choices."""
    choices = list(choices)
    for name in names:
        if name not in choices:
            raise ExperimentError(unknown(what, name, choices))
