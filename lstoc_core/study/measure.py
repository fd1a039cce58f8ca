"""One run of an experiment: from its specification to a table. `cache` stores what comes out.

- `training`: a policy learns a task, by a variant of LSTOC or a baseline: success rate over steps, and for those that
  discover subgoals what they found and when;
- `questions`: what the planner predicted before each episode, and what came;
- `accuracy`: every algorithm for subgoals on prefixes of one data set;
- `generalization`: labels learned in one world pay for progress on another task in a changed world.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lstoc_core.discovery.guided import guided
from lstoc_core.discovery.hypotheses import GuidedConfig
from lstoc_core.discovery.published.forward import Forward, ForwardConfig
from lstoc_core.discovery.published.training import TRAININGS
from lstoc_core.exploration.planner import PlannerExplorer
from lstoc_core.labeling.recognizer import LabelingFunction
from lstoc_core.loop import Discovery, discover
from lstoc_core.policies.ppo import PPO
from lstoc_core.policies.pursuit import Pursuit
from lstoc_core.run.checkpoint import CheckpointError
from lstoc_core.scoring import score
from lstoc_core.study.cache import RunSpec
from lstoc_core.study.facts import label_accuracy
from lstoc_core.study.learners import explored, fresh_policy, success_curve, train, true_paths
from lstoc_core.study.mistakes import tree_facts
from lstoc_core.study.resuming import Rows, place_of, resumed, whole_updates
from lstoc_core.study.settings import Baseline, Discovering, settings_of, world_of
from lstoc_core.trajectories import TrajectoryStore
from lstoc_core.trajectories.matching import KeyPath
from lstoc_core.worlds import compile_world
from lstoc_core.worlds.tasks import TASKS, Task

ALGORITHMS: dict[str, ForwardConfig | GuidedConfig] = {
    "guided": GuidedConfig(),
    "forward": ForwardConfig(threshold=20),
    "forward-exact": ForwardConfig(threshold=20, exact=True),
    "baseline1": ForwardConfig(threshold=20, objective="baseline1"),
    "baseline2": ForwardConfig(threshold=20, objective="baseline2"),
}
"""Algorithms for subgoals on given samples. N_T is small, so that the published ones answer as soon as they can."""
RESTARTS = 1
"""Restarts of a published algorithm on given samples; its last tree is its answer."""


# --- a policy learns a task -------------------------------------------------------------------------------------------


def training(spec: RunSpec) -> pd.DataFrame:
    """Success rate over environment steps; a discovery also says in every row what it found.

    spec.config: steps (budget), and the configuration of a `Variant`.
    """
    task, steps = TASKS[spec.task], spec.config["steps"]
    settings = settings_of(spec.config)
    if not isinstance(settings, Discovering):
        return _baseline(spec, settings, task)
    found = _discovered(spec, settings)
    assert found.explorer is not None
    solved, num_envs = found.history[-1]["phase"] == "solved", found.explorer.env.num_envs
    return success_curve(found.history, solved, task, steps, num_envs).assign(**discovery_facts(found, task))


def questions(spec: RunSpec) -> pd.DataFrame:
    """One row for each episode of the planner: the fields of `Question`; and in every row what was found.

    spec.config: as in `training`, of a variant that explores by the planner. The task is not solved.
    """
    settings = settings_of(spec.config)
    assert isinstance(settings, Discovering)
    found = _discovered(spec, replace(settings, solve=False))
    assert isinstance(found.explorer, PlannerExplorer), f"{spec.name} does not explore by the planner"
    marks = score(found, TASKS[spec.task])
    rows = pd.DataFrame([asdict(question) for question in found.explorer.questions])
    return rows.assign(episode=np.arange(1, len(rows) + 1), finished=found.finished, exact=marks.exact)


def _discovered(spec: RunSpec, settings: Discovering) -> Discovery:
    """The discovery that a run asks for."""
    task, world = TASKS[spec.task], world_of(spec.config)
    env = world.env(task, seed=spec.seed)
    call = partial(
        discover,
        env,
        method=settings.method,
        fsm=task.formula.fsm(),
        contrast=world.contrast,
        explorer=settings.explorer,
        seed=spec.seed,
        max_steps=spec.config["steps"],
        solve=settings.solve,
        progress=False,
        config=settings.loop_config(wrong_labels=world.wrong_labels),
    )
    found = _resumed(call, spec)
    _require_whole(found, spec)
    return found


def _baseline(spec: RunSpec, settings: Baseline, task: Task) -> pd.DataFrame:
    """The curve of a learner to compare with."""
    steps = spec.config["steps"]
    make = partial(settings.learner, task, seed=spec.seed)
    return success_curve(*train(make, steps, _place(spec, "train")), task, steps)


def _place(spec: RunSpec, *stage: object) -> Path:
    return place_of(spec, __name__, *stage)


def _resumed(call: Callable[..., Discovery], spec: RunSpec) -> Discovery:
    """The discovery, from its checkpoint if the run was killed before, with the same result to the bit."""
    place = _place(spec, "discover")
    try:
        with whole_updates(place):
            return call(checkpoint=place)
    except CheckpointError as error:
        print(f"begun anew, without a checkpoint: {error}")
        return call()


def _require_whole(found: Discovery, spec: RunSpec) -> None:
    """Pass an interrupt on: half a run is not to be stored."""
    if found.interrupted:
        raise KeyboardInterrupt(f"{spec.name} was interrupted")


def discovery_facts(found: Discovery, task: Task) -> dict[str, Any]:
    """How a discovery ended, by its own judgement and against the truth, and when its answer was first right."""
    marks = score(found, task)
    ids = {state.index: state.observation_id for state in found.key_states}
    answer = {tuple(ids[key] for key in sequence) for sequence in found.sequences}
    truth = answer if marks.exact else set(true_paths(task))  # a changed world has observation ids of its own
    right = [record for record in found.history if set(record["sequences"]) == truth]
    return {
        "finished": found.finished,
        "exact": marks.exact,
        "found": marks.found,
        "labels_correct": marks.labels_correct,
        "stopped_wrong": found.finished and not marks.exact,
        "trajectories": found.num_trajectories,
        "positives": found.num_positives,
        "stop_steps": found.env_steps,
        "first_right_trajectories": float(right[0]["trajectories"]) if right else float("nan"),
        "first_right_steps": float(right[0]["env_steps"]) if right else float("nan"),
        "missing": str(found.missing),
        **tree_facts(found.finder, true_paths(task)),
    }


# --- accuracy of subgoal learning on the same samples -----------------------------------------------------------------


def accuracy(spec: RunSpec) -> pd.DataFrame:
    """Every algorithm on prefixes of the samples of one exploration policy: a row for each algorithm and prefix.

    spec.config: steps (samples to collect), shares (of them, one prefix each). The policy is π_exp of the published
    method before its first discovery.
    """
    steps, task = spec.config["steps"], TASKS[spec.task]
    store = explored(task, steps, seed=spec.seed, place=_place(spec, "explore"))
    last_steps = np.cumsum(store.lengths - 1)
    with resumed(Rows, _place(spec, "rows")) as (table, save):
        for share, algorithm in [*product(spec.config["shares"], ALGORITHMS)][len(table.rows) :]:
            samples = round(share * steps)
            part = store.select(np.arange(np.searchsorted(last_steps, samples, side="right")))
            nodes, paths = learned_tree(part, task, ALGORITHMS[algorithm], seed=spec.seed)
            counts = {"trajectories": len(part), "positives": len(part.positives)}
            table.rows.append(
                {"algorithm": algorithm, "samples": samples, **counts, **tree_accuracy(nodes, paths, true_paths(task))}
            )
            save()
    return pd.DataFrame(table.rows)


def learned_tree(
    store: TrajectoryStore, task: Task, config: ForwardConfig | GuidedConfig, *, seed: int
) -> tuple[set[KeyPath], set[KeyPath]]:
    """Nodes of the learned subgoal tree, each as the path from its root, and its satisfying sequences.

    Both are observation ids. The FSM bounds length and width of the tree; symbols are not assigned.
    """
    fsm = task.formula.fsm()
    if isinstance(config, GuidedConfig):
        paths = set(guided(store, replace(config, max_length=fsm.longest_path)).paths)
        return prefixes(paths), paths
    training = TRAININGS[config.training].sized(compile_world(task).observations)
    method = Forward(config, fsm, training=training, seed=seed, gamma=task.discount)
    for _ in range(RESTARTS + 1):
        restarts = method.restarts
        method.advance(store)
        if method.restarts == restarts:
            break
    last = method.abandoned[-1].nodes if method.abandoned else ()
    return set(method.attempt.nodes or last), set(method.paths)


def tree_accuracy(nodes: set[KeyPath], paths: set[KeyPath], truth: Iterable[KeyPath]) -> dict[str, Any]:
    """A learned tree against the true one.

    accuracy: fraction of the true tree's nodes in the learned tree, so of key states found at their place in the order.
    key_states: fraction of the true key states found in any order. precision: fraction of the learned tree's nodes in
    the true one; NaN for an empty tree. exact: the satisfying sequences are the true ones.
    """
    true = prefixes(truth)
    common = len(true & nodes)
    states, found = ({key for path in tree for key in path} for tree in (true, nodes))
    return {
        "accuracy": common / len(true),
        "key_states": len(states & found) / len(states),
        "precision": common / len(nodes) if nodes else float("nan"),
        "exact": paths == set(truth),
    }


def prefixes(paths: Iterable[KeyPath]) -> set[KeyPath]:
    """Nodes of the prefix tree of the sequences, without its root."""
    return {path[:length] for path in paths for length in range(1, len(path) + 1)}


# --- generalization ---------------------------------------------------------------------------------------------------


def generalization(spec: RunSpec) -> pd.DataFrame:
    """Success rate over steps on an unseen task in a changed world: with rewards from learned labels, or a baseline.

    spec.config: steps (in the test world); either train_task and train_steps, to learn labels first, or a baseline.
    With labels, every row also says whether they were learned and how good they are in the test world.
    """
    config, task = spec.config, TASKS[spec.task]
    steps = config["steps"]
    if "train_task" not in config:
        settings = settings_of(config)
        if isinstance(settings, Discovering):
            raise ValueError(f"{spec.name}: labels are learned in a training world; name its 'train_task'")
        return _baseline(spec, settings, task)
    fresh = partial(fresh_policy, task, seed=spec.seed, store_limit=None)
    learner: Callable[[], PPO | Pursuit] = fresh
    budget = config["train_steps"]
    found = _resumed(
        partial(
            discover, TASKS[config["train_task"]], explorer="policy", seed=spec.seed, max_steps=budget, progress=False
        ),
        spec,
    )
    _require_whole(found, spec)
    facts: dict[str, Any] = {"labels_learned": found.labeling is not None, "train_steps": found.env_steps}
    if found.labeling is not None:
        function = labeling_function(found)
        table = label_accuracy(function, [compile_world(task)])
        facts |= {"label_precision": table.precision.min(), "label_recall": table.recall.min()}
        paths = tuple(labelled_paths(function, compile_world(task).observations, task.sequences))

        def learner() -> Pursuit:
            return Pursuit(fresh(), paths)

    return success_curve(*train(learner, steps, _place(spec, "train")), task, steps).assign(**facts)


def labeling_function(found: Discovery) -> LabelingFunction:
    """L, from the key states that a discovery has found and named, and everything else it has seen."""
    assert found.labeling is not None
    return LabelingFunction.learn(
        found.observations,
        [key.observation_id for key in found.key_states],
        found.labeling.mapping,
        seen=found.trajectories.ids,
    )


def labelled_paths(
    function: LabelingFunction, observations: np.ndarray, sequences: Iterable[Sequence[str]]
) -> Iterator[KeyPath]:
    """The satisfying sequences of a task's FSM as observation ids, wherever the labeling function sees their symbols.

    observations: the world's table. The function judges each observation alone, so asking about all at once gives what
    asking on each visit would. A symbol that is seen nowhere drops its sequences; one seen in several observations
    multiplies them.
    """
    columns = function.columns(observations)
    ids = {symbol: np.flatnonzero(columns == column).tolist() for column, symbol in enumerate(function.symbols)}
    for sequence in sequences:
        yield from product(*(ids.get(symbol, []) for symbol in sequence))
