"""The explorers by name, and how each is made for an environment and an FSM.

An explorer of one's own is a function from a `Setting` to an `Explorer`: `discover(env, explorer=make_mine)`.
"""

from collections.abc import Callable, Mapping
from functools import partial

from lstoc_core.config import LSTOCConfig
from lstoc_core.exploration.auto import AutoExplorer
from lstoc_core.exploration.explorer import Explorer
from lstoc_core.exploration.planner import PlannerExplorer
from lstoc_core.exploration.policy import PolicyExplorer
from lstoc_core.run.methods import Setting

MakeExplorer = Callable[[Setting], Explorer]


def make_policy(setting: Setting, reason: str = "as chosen") -> PolicyExplorer:
    """The paper's: a GRU policy, trained by PPO. reason: why it was chosen."""
    return PolicyExplorer(setting.env, setting.config, seed=setting.seed, reason=reason)


def make_planner(setting: Setting) -> PlannerExplorer:
    """Plans on a map, given the FSM."""
    return PlannerExplorer(setting.env, setting.config, setting.fsm, seed=setting.seed)


def make_auto(setting: Setting) -> AutoExplorer:
    """The planner while its map predicts well, the policy otherwise."""
    widened = setting.widened or (lambda _: setting.env)
    return AutoExplorer(setting.env, widened, setting.config, setting.fsm, seed=setting.seed)


EXPLORERS: Mapping[str, MakeExplorer] = {"policy": make_policy, "planner": make_planner, "auto": make_auto}


def fitting(explorer: str | MakeExplorer, method: object, *, events: bool = False) -> str | MakeExplorer:
    """The explorer as given; the automatic choice is the policy for events, and for the paper's method."""
    if events and explorer == "planner":
        raise ValueError(
            "explorer='planner' knows no events: its map is one of observations that recur, and its beliefs put each "
            "name on one of them; use explorer='policy' or 'auto'"
        )
    if explorer == "auto" and events:
        return partial(make_policy, reason="the planner's map is one of observations that recur, not of events")
    if explorer == "auto" and method == "forward":
        return partial(make_policy, reason="the published method explores by it")
    return explorer


def num_envs(explorer: object, config: LSTOCConfig) -> int:
    """How many episodes an explorer wants side by side."""
    return config.planner.num_envs if explorer in ("planner", "auto") else config.num_envs
