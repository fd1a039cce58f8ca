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
from lstoc_core.trajectories.cells import CellIdentity
from lstoc_core.trajectories.vector_env import vocabulary_of

MakeExplorer = Callable[[Setting], Explorer]


def make_policy(setting: Setting, reason: str = "as chosen") -> PolicyExplorer:
    """The paper's: a GRU policy, trained by PPO. reason: why it was chosen."""
    return PolicyExplorer(setting.env, setting.config, seed=setting.seed, reason=reason)


def make_planner(setting: Setting) -> Explorer:
    """Plans on a map, given the FSM."""
    if isinstance(vocabulary_of(setting.env), CellIdentity):
        return _of_boxes("planner")(setting)
    return PlannerExplorer(setting.env, setting.config, setting.fsm, seed=setting.seed)


def make_auto(setting: Setting) -> Explorer:
    """The planner while its map predicts well, the policy otherwise."""
    if isinstance(vocabulary_of(setting.env), CellIdentity):
        return _of_boxes("auto")(setting)
    widened = setting.widened or (lambda _: setting.env)
    return AutoExplorer(setting.env, widened, setting.config, setting.fsm, seed=setting.seed)


EXPLORERS: Mapping[str, MakeExplorer] = {"policy": make_policy, "planner": make_planner, "auto": make_auto}


def fitting(explorer: str | MakeExplorer, method: object, *, boxes: bool = False) -> str | MakeExplorer:
    """The explorer as given; the automatic choice is the policy for boxes, and for the paper's method."""
    if explorer in ("planner", "auto") and boxes:
        return _of_boxes(explorer)
    if explorer == "auto" and method == "forward":
        return partial(make_policy, reason="the published method explores by it")
    return explorer


def _of_boxes(explorer: str | MakeExplorer) -> MakeExplorer:
    """The explorer where key states are boxes, which move while the run goes on."""
    if explorer == "planner":
        raise ValueError(
            "explorer='planner' knows no boxes: its map is one of what recurs, and a cell of a grid does not tell what "
            "an action leads to; use explorer='policy' or 'auto'"
        )
    return partial(make_policy, reason="the planner's map is one of what recurs, not of boxes")


def num_envs(explorer: object, config: LSTOCConfig) -> int:
    """How many episodes an explorer wants side by side."""
    return config.planner.num_envs if explorer in ("planner", "auto") else config.num_envs
