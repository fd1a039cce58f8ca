"""Whether an episode completed the hidden task: the label, read from what an environment says at the episode's end.

discover(env)                                              # info["success"] or info["is_success"]
discover(env, success="reward")                            # reward > 0 on the last step
discover(env, success=lambda end: end.info["coins"] == 3)  # a rule of one's own on an `EpisodeEnd`
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lstoc_core.suggestions import unknown
from lstoc_core.trajectories.door import InputError, UnlabelledError, boolean


@dataclass(frozen=True)
class EpisodeEnd:
    """What an environment says with the last step of an episode."""

    observation: Any
    """The final observation, as the environment gives it."""
    reward: float
    """Of the last step."""
    terminated: bool
    truncated: bool
    info: Mapping[str, Any]


Success = Literal["auto", "info", "is_success", "reward"] | Callable[[EpisodeEnd], bool]
"""How the label is read. "info": `info["success"]`. "is_success": `info["is_success"]`. "reward": reward > 0 on the
last step. "auto": whichever of both keys the info has. Or a function of the `EpisodeEnd`."""
RULES = ("auto", "info", "is_success", "reward")
REMEDY = (
    "say how success is known: success='reward' if the last reward is positive exactly then, 'info' or 'is_success' "
    "for info['success'] or info['is_success'] of the last step, or a function of an EpisodeEnd"
)


def check_success(rule: object) -> None:
    """Raise an error that names the remedy if this is no rule."""
    if not callable(rule) and rule not in RULES:
        raise ValueError(f"{unknown('success', rule, RULES)}, or give a function of an EpisodeEnd")


def succeeded(rule: Success, end: EpisodeEnd, where: str) -> bool:
    """The label of an episode. where: names the environment or episode in errors."""
    if callable(rule):
        return boolean(rule(end), f"the function success= gave for {where}")
    if rule == "reward":
        if math.isnan(end.reward):
            raise InputError(f"the last reward of {where} is nan: with success='reward' it must be a number")
        return end.reward > 0
    wanted = {"info": ("success",), "is_success": ("is_success",)}.get(rule, ("success", "is_success"))
    said = {key: boolean(end.info[key], f"info[{key!r}] of {where} is") for key in wanted if key in end.info}
    if not said:
        keys = " and ".join(f"info[{key!r}]" for key in wanted)
        raise UnlabelledError(f"{where} ended an episode without {keys}: {REMEDY}")
    if len(set(said.values())) > 1:
        raise InputError(f'{where} ended an episode with {said}: choose success="info" or success="is_success"')
    return said[wanted[0]] if wanted[0] in said else said[wanted[-1]]
