"""LSTOC: learning hidden subgoals under temporal ordering constraints in reinforcement learning.

    import lstoc_core as lstoc

    d = lstoc.discover(lstoc.TASKS["letter-1"], seed=0)
    d.tree.draw()

Names are imported on first use, so that `import lstoc_core` is quick and worlds can be used without torch. Editors and
type checkers read the imports below `TYPE_CHECKING`; a test keeps both lists equal.
"""

from typing import TYPE_CHECKING

from lstoc_core.worlds.domains import register_environments

__version__ = "0.1.0"

if TYPE_CHECKING:
    from lstoc_core.config import LSTOCConfig as LSTOCConfig
    from lstoc_core.discovery.boxes import Boxes as Boxes
    from lstoc_core.discovery.boxes import boxes as boxes
    from lstoc_core.discovery.hypotheses import GuidedConfig as GuidedConfig
    from lstoc_core.discovery.landmarks import Landmark as Landmark
    from lstoc_core.discovery.tree import SubgoalTree as SubgoalTree
    from lstoc_core.labeling import Labeling as Labeling
    from lstoc_core.labeling import LabelingError as LabelingError
    from lstoc_core.labeling import label as label
    from lstoc_core.labeling import predict as predict
    from lstoc_core.labeling.recognizer import LabelingFunction as LabelingFunction
    from lstoc_core.logic import FSM as FSM
    from lstoc_core.logic import Formula as Formula
    from lstoc_core.logic import FormulaError as FormulaError
    from lstoc_core.logic import parse as parse
    from lstoc_core.loop import discover as discover
    from lstoc_core.offline import check as check
    from lstoc_core.offline import learn as learn
    from lstoc_core.policies.ppo import PPO as PPO
    from lstoc_core.policies.ppo import PPOConfig as PPOConfig
    from lstoc_core.policies.rewards import RewardConfig as RewardConfig
    from lstoc_core.result import Discovery as Discovery
    from lstoc_core.result import load as load
    from lstoc_core.run.answer import KeyState as KeyState
    from lstoc_core.run.state import AnswersLeft as AnswersLeft
    from lstoc_core.run.state import RunState as RunState
    from lstoc_core.scoring import score as score
    from lstoc_core.trajectories import TrajectoryStore as TrajectoryStore
    from lstoc_core.trajectories.door import InputError as InputError
    from lstoc_core.trajectories.interned import InternedVectorEnv as InternedVectorEnv
    from lstoc_core.trajectories.success import EpisodeEnd as EpisodeEnd
    from lstoc_core.trajectories.tiles import tiles as tiles
    from lstoc_core.worlds import World as World
    from lstoc_core.worlds import compile_world as compile_world
    from lstoc_core.worlds import make_vec as make_vec
    from lstoc_core.worlds.tasks import TASKS as TASKS
    from lstoc_core.worlds.tasks import Task as Task
    from lstoc_core.worlds.tasks import TaskError as TaskError
    from lstoc_core.worlds.tasks import make_task as make_task
else:
    import importlib

    _HOME = {
        "config": ("LSTOCConfig",),
        "discovery.boxes": ("Boxes", "boxes"),
        "discovery.hypotheses": ("GuidedConfig",),
        "discovery.landmarks": ("Landmark",),
        "discovery.tree": ("SubgoalTree",),
        "labeling": ("Labeling", "LabelingError", "label", "predict"),
        "labeling.recognizer": ("LabelingFunction",),
        "logic": ("FSM", "Formula", "FormulaError", "parse"),
        "loop": ("discover",),
        "offline": ("check", "learn"),
        "policies.ppo": ("PPO", "PPOConfig"),
        "policies.rewards": ("RewardConfig",),
        "result": ("Discovery", "load"),
        "run.answer": ("KeyState",),
        "run.state": ("AnswersLeft", "RunState"),
        "scoring": ("score",),
        "trajectories": ("TrajectoryStore",),
        "trajectories.door": ("InputError",),
        "trajectories.interned": ("InternedVectorEnv",),
        "trajectories.success": ("EpisodeEnd",),
        "trajectories.tiles": ("tiles",),
        "worlds": ("World", "compile_world", "make_vec"),
        "worlds.tasks": ("TASKS", "Task", "TaskError", "make_task"),
    }
    _MODULE = {name: f"lstoc_core.{module}" for module, names in _HOME.items() for name in names}
    __all__ = sorted(_MODULE)

    def __getattr__(name):
        if name in _MODULE:
            return getattr(importlib.import_module(_MODULE[name]), name)
        raise AttributeError(f"module 'lstoc_core' has no attribute {name!r}")

    def __dir__():
        return sorted([*globals(), *_MODULE])


register_environments()
