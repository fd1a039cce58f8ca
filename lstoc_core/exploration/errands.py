"""What the planner does and why: errands under way, and the question that each episode asks."""

from dataclasses import dataclass, replace

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
    env_steps: int = 0
    """Steps in the world at its end."""

    def answered(self, answer: bool, *, error_rate: float, places: int, env_steps: int) -> "Question":
        """The question with its answer, and what the map was like."""
        return replace(self, answer=answer, error_rate=error_rate, places=places, env_steps=env_steps)
