"""What is refused at the door: observations, labels and files that would do harm unnoticed.

A NaN turns every weight of a policy NaN, a number outside its Discrete space becomes the id of another state, and the
text "False" is true. Each is refused in one sentence that names the cause and the remedy.
"""

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

LARGEST = 1e9
"""Largest magnitude of a number in an observation: beyond it, 32-bit networks lose all other entries."""


class InputError(ValueError):
    """What an environment or a file gave cannot be used.

    discovery: the `Discovery` so far, where `discover` raised this: what was collected is not lost. None elsewhere.
    """

    def __init__(self, message: str, discovery: Any = None) -> None:
        super().__init__(message)
        self.discovery = discovery

    def __str__(self) -> str:
        return str(self.args[0])


class LabelError(InputError, TypeError):
    """A label that is neither True nor False."""


class UnlabelledError(InputError, KeyError):
    """An episode that ended without its label."""


def boolean(value: Any, what: str) -> bool:
    """True or False, also as the numbers 1 and 0. what: begins the error's sentence."""
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "biuf" or array.reshape(()) not in (0, 1):
        raise LabelError(f"{what} {value!r}: a label is True or False (1 or 0)")
    return bool(array.reshape(()))


def booleans(labels: ArrayLike) -> NDArray[np.bool_]:
    """Labels as True and False, also from the numbers 1 and 0."""
    given = np.asarray(labels)
    if given.dtype != np.bool_ and given.size:
        wrong = given[~np.isin(given, (0, 1))] if given.dtype.kind in "iuf" else given.reshape(-1)
        if len(wrong):
            raise LabelError(f"a label is {wrong[0]!r}: give True or False (1 or 0) for each trajectory")
    return given.astype(np.bool_)


def numbers(observations: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Observations as an array of that type; numbers that it, or a network, cannot hold are refused."""
    given = np.asarray(observations)
    if given.dtype.kind not in "biuf":
        raise InputError(f"an observation is {observations!r}: give an array of numbers, as the space says")
    array = given
    if given.dtype != dtype:
        with np.errstate(all="ignore"):  # what was lost is seen below
            array = given.astype(dtype)
        if dtype.kind != "f" and (array != given).any():
            lost = given[array != given].flat[0]
            raise InputError(f"an observation holds {lost}, which is no {dtype}: correct it or the observation_space")
    if dtype.kind == "f" and not (np.abs(array) <= LARGEST).all():  # so is a comparison with NaN
        wrong = given[~(np.abs(array) <= LARGEST)].flat[0]
        raise InputError(
            f"an observation holds {wrong}: give finite numbers up to {LARGEST:.0e}, scaled or clipped by a "
            "gymnasium.wrappers.TransformObservation"
        )
    return array + array.dtype.type(0) if dtype.kind == "f" else array  # -0.0 becomes 0.0: bytes tell states apart


def check_members(space: spaces.Space[Any], observation: Any) -> None:
    """Refuse what is outside a Discrete, MultiDiscrete, MultiBinary or Text space, also within Dicts and Tuples."""
    if isinstance(space, spaces.Dict):
        for name, part in space.spaces.items():
            check_members(part, observation[name])
    elif isinstance(space, spaces.Tuple):
        for part, one in zip(space.spaces, observation, strict=False):
            check_members(part, one)
    elif isinstance(space, spaces.Box):
        numbers(observation, np.dtype(space.dtype))
    elif isinstance(space, spaces.Text):
        if not space.contains(observation):
            raise _outside(space, observation)
    else:
        given = np.asarray(observation)
        whole = given.dtype.kind in "biu" and given.shape == space.shape
        low = getattr(space, "start", 0)
        high = 2 if isinstance(space, spaces.MultiBinary) else low + getattr(space, "nvec", getattr(space, "n", 0))
        if not whole or not ((low <= given) & (given < high)).all():
            raise _outside(space, observation)


def _outside(space: spaces.Space[Any], observation: Any) -> InputError:
    return InputError(f"an observation is {observation!r}: it is not in {space}; correct it or the observation_space")
