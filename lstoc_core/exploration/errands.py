"""What the planner does and why: errands under way, and the question that each episode asks."""

from dataclasses import dataclass, replace
from typing import Any

NAN = float("nan")


@dataclass(frozen=True)
class Errand:
    """A plan under way: what to do, and what should be seen."""

    actions: tuple[int, ...]
    ids: tuple[int, ...]
    """Observation ids before each action, and at the end."""
    waypoints: tuple[int, ...] = ()
    arrivals: tuple[int, ...] = ()
    """When each way-point is reached, in actions."""
    judged: bool = False
    """Whether the beliefs have judged it."""

    def ahead(self, done: int) -> tuple[int, ...]:
        """Way-points that are left after so many actions."""
        return tuple(state for state, when in zip(self.waypoints, self.arrivals, strict=True) if when >= done)


@dataclass(frozen=True)
class Question:
    """One episode of the planner: what was known before it, what it was expected to tell, and the answer.

    NaN where the beliefs were not asked: the episode only filled gaps of the map, or there is no FSM.
    """

    success: float = NAN
    """Predicted probability of success."""
    gain: float = NAN
    """Expected information, in bits."""
    left: float = NAN
    """log2 of the number of consistent assignments before the episode."""
    counted: bool = False
    """Whether `left` is exact; an estimate otherwise."""
    limit: float = NAN
    """log2 of the number of possible outcomes: no episode can tell more bits."""
    error_rate: float = NAN
    """Fraction of the map's last predictions that were wrong, at the end of the episode."""
    places: int = 0
    """Places on the map then."""
    answer: bool = False
    """The label of the episode."""
    came_true: bool = False
    """Whether the plan that was judged succeeded. An episode that goes on after it may succeed without it."""
    env_steps: int = 0
    """Steps in the world at its end."""

    def answered(self, answer: bool, *, on_plan: bool, **known: Any) -> "Question":
        """The question with its answer. on_plan: the plan was still under way; known: fields about map and time."""
        return replace(self, answer=answer, came_true=answer and on_plan, **known)
