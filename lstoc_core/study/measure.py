"""One run of an experiment: from its specification to a table. What takes hours is here; `runs` stores what comes out.

- `training`: a policy learns a task, by LSTOC, one of its variants, or a baseline: success rate over steps, and for
  those that discover subgoals what they found and when;
- `accuracy`: every way to learn subgoals on prefixes of one data set;
- `generalization`: labels learned in one world pay for progress on another task in a changed world.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from lstoc_core.discovery.guided import GuidedConfig, guided
from lstoc_core.discovery.published.forward import Forward, ForwardConfig
from lstoc_core.discovery.published.importance import Training
from lstoc_core.labeling.recognizer import LabelingFunction
from lstoc_core.loop import Discovery, LSTOCConfig, Record, discover
from lstoc_core.policies.ppo import PPO
from lstoc_core.policies.pursuit import Pursuit, Recent
from lstoc_core.policies.rewards import RewardConfig
from lstoc_core.scoring import score
from lstoc_core.study.cache import RunSpec
from lstoc_core.study.facts import label_accuracy
from lstoc_core.trajectories import TrajectoryStore
from lstoc_core.trajectories.interned import InternedVectorEnv
from lstoc_core.trajectories.representation import LearnedIdentity, train_representation
from lstoc_core.worlds import compile_world, make_env, make_vec
from lstoc_core.worlds.perturbed import FlippedLabels, NoisyPixels
from lstoc_core.worlds.tasks import TASKS, Task

Path = tuple[int, ...]

POINTS = 100
"""Most points of a stored curve."""
ALGORITHMS: dict[str, ForwardConfig | GuidedConfig] = {
    "guided": GuidedConfig(),
    "forward": ForwardConfig(threshold=20),
    "forward-exact": ForwardConfig(threshold=20, exact=True),
    "baseline1": ForwardConfig(threshold=20, objective="baseline1"),
    "baseline2": ForwardConfig(threshold=20, objective="baseline2"),
}
"""Ways to learn subgoals from given samples. N_T is small, so that the forward ones answer as soon as they can."""
RESTARTS = 1
"""Restarts of a forward method on given samples; its last tree is its answer."""


def measure(spec: RunSpec) -> pd.DataFrame:
    """One run, of the kind that its experiment names."""
    kinds = {"training": training, "accuracy": accuracy, "generalization": generalization}
    return kinds[spec.experiment](spec)


# --- a policy learns a task -------------------------------------------------------------------------------------------


def training(spec: RunSpec) -> pd.DataFrame:
    """Success rate over environment steps; methods that discover subgoals also say what they found, in every row.

    spec.config: steps (budget), and for a discovery: discovery ("guided" or "forward"), solve (go on after it), and
    where they differ from the default, settings (fields of LSTOCConfig) and forward (fields of ForwardConfig); flipped
    (share of wrong labels) or pixel_noise (grey levels by which pixels are off) make the world harder.
    """
    config, task = spec.config, TASKS[spec.task]
    if "discovery" not in config:
        learner = baseline(task, spec.method, seed=spec.seed)
        return success_curve(*train(learner, config["steps"]), task, config["steps"])
    found = discover(
        hardened(task, config, spec.seed),
        method=config["discovery"],
        fsm=task.formula.fsm(),
        contrast="learned" if "pixel_noise" in config else "exact",
        seed=spec.seed,
        max_steps=config["steps"],
        solve=config["solve"],
        progress=False,
        config=loop_config(config),
    )
    solved = found.history[-1]["phase"] == "solved"
    return success_curve(found.history, solved, task, config["steps"]).assign(**discovery_facts(found, task))


def loop_config(config: Mapping[str, Any]) -> LSTOCConfig:
    """Default settings of the loop with the changes that a run's configuration names."""
    default = LSTOCConfig()
    forward = replace(default.forward, **config.get("forward", {}))
    guided = replace(default.guided, noise=config.get("flipped", 0.0))
    return replace(default, forward=forward, guided=guided, **config.get("settings", {}))


def hardened(task: Task, config: Mapping[str, Any], seed: int) -> Any:
    """The task, or environments in which some of its labels are wrong, or no observation repeats.

    In the last case o_θ is trained on what random walks see, and tells the states apart from then on.
    """
    if "flipped" in config:
        return lambda: FlippedLabels(make_env(task=task), config["flipped"])
    if "pixel_noise" not in config:
        return task

    def make() -> NoisyPixels:
        return NoisyPixels(make_env(task=task), config["pixel_noise"])

    env = make()
    rng = np.random.default_rng(seed)
    frames = [env.reset(seed=seed)[0]]
    while len(frames) < 2000:
        observation, _, terminated, truncated, _ = env.step(rng.integers(env.action_space.n))  # type: ignore[attr-defined]
        frames.append(env.reset()[0] if terminated or truncated else observation)
    encoder = train_representation(np.stack(frames), seed=seed, iterations=150)
    return InternedVectorEnv([make] * LSTOCConfig().num_envs, LearnedIdentity(encoder), seed=seed)


def baseline(task: Task, method: str, *, seed: int) -> PPO | Pursuit:
    """A learner to compare LSTOC with.

    "ppo" is paid the label alone, "ppo+bonus" also first occupancy. "oracle" is told the true sequences and paid to
    follow them as LSTOC is in its solve phase.
    """
    if method == "oracle":
        return Pursuit(fresh_policy(task, seed=seed, store_limit=None), true_paths(task))
    bonuses = {"ppo": 0.0, "ppo+bonus": LSTOCConfig().bonus}
    if method not in bonuses:
        raise ValueError(f"unknown baseline {method!r}: choose one of {', '.join(bonuses)}, oracle")
    return fresh_policy(task, seed=seed, bonus=bonuses[method])


def fresh_policy(task: Task, *, seed: int, bonus: float = 0.0, store_limit: int | None = 0) -> PPO:
    """An untrained policy with LSTOC's own settings, paid the label and a first-occupancy bonus."""
    config = LSTOCConfig()
    env = make_vec(task, num_envs=config.num_envs, seed=seed)
    settings = replace(config.ppo, store_limit=store_limit)
    return PPO(env, settings, seed=seed, rewards=RewardConfig(bonus=bonus))


def train(learner: PPO | Pursuit, steps: int) -> tuple[list[Record], bool]:
    """Train until the task is solved, by the rule of LSTOC's solve phase, or the budget used up; and whether it is."""
    config = LSTOCConfig()
    history: list[Record] = []
    recent = Recent()
    while learner.env_steps < steps:
        history.append(learner.update())
        recent.add(history[-1])
        if recent.above(config.pursuit.solved, config.num_envs):
            return history, True
    return history, False


def success_curve(history: Sequence[Record], solved: bool, task: Task, steps: int) -> pd.DataFrame:
    """Columns env_steps, success_rate, solved, budget: the rate of the episodes that ended in each window of steps.

    All environments start together, so a window is long enough that in each of them an episode ends: in a shorter one
    at the start only successes could. A run that has solved the task ends there; its last row holds the rate by which
    it was judged.
    """
    config = LSTOCConfig()
    window = max(steps // POINTS, config.num_envs * (task.horizon + config.ppo.segment_length))
    table = pd.DataFrame(history, columns=["env_steps", "episodes", "success_rate"])
    none_ended = table.tail(1).assign(episodes=1, success_rate=0.0)  # then none has succeeded
    table = table[table.episodes > 0] if table.episodes.any() else none_ended
    table = table.astype({"env_steps": "int64", "episodes": "int64"})
    table["successes"] = table.episodes * table.success_rate
    last = max(table.env_steps.max() // window - 1, 0)  # what is left of a window at the end belongs to the last one
    windows = table.groupby(((table.env_steps - 1) // window).clip(upper=last))
    sums = windows[["episodes", "successes"]].sum()
    rate = (sums.successes / sums.episodes).to_numpy(float, copy=True)
    if solved:
        rate[-1] = Recent((record["episodes"], record["success_rate"]) for record in history if record["episodes"]).rate
    ends = windows.env_steps.max().to_numpy()
    return pd.DataFrame({"env_steps": ends, "success_rate": rate, "solved": solved, "budget": steps})


def discovery_facts(found: Discovery, task: Task) -> dict[str, Any]:
    """How a discovery ended, by its own judgement and by the truth; and when its answer was first right."""
    marks = score(found, task)
    ids = {state.index: state.observation_id for state in found.key_states}
    answer = {tuple(ids[key] for key in sequence) for sequence in found.sequences}
    truth = answer if marks.exact else set(true_paths(task))  # a hardened world has observation ids of its own
    right = [record for record in found.history if set(record["sequences"]) == truth]
    return {
        "finished": found.finished,
        "exact": marks.exact,
        "found": marks.found,
        "labels_correct": marks.labels_correct,
        "stopped_wrong": found.finished and not marks.exact,
        "trajectories": found.trajectories,
        "positives": found.positives,
        "stop_steps": found.env_steps,
        "first_right_trajectories": float(right[0]["trajectories"]) if right else float("nan"),
        "first_right_steps": float(right[0]["env_steps"]) if right else float("nan"),
        "missing": found.missing,
    }


def true_paths(task: Task) -> tuple[Path, ...]:
    """The minimal satisfying sequences as observation ids: the truth, for scoring and for the oracle."""
    world = compile_world(task)
    return tuple(tuple(world.observation_of_symbol(symbol) for symbol in sequence) for sequence in task.sequences)


# --- accuracy of subgoal learning on the same samples -----------------------------------------------------------------


def accuracy(spec: RunSpec) -> pd.DataFrame:
    """Every algorithm on prefixes of the samples of one exploration policy: a row for each algorithm and prefix.

    spec.config: steps (samples to collect), shares (of them, one prefix each). The policy is that of "ppo+bonus".
    """
    steps, task = spec.config["steps"], TASKS[spec.task]
    learner = fresh_policy(task, seed=spec.seed, bonus=LSTOCConfig().bonus, store_limit=None)
    while learner.env_steps < steps:
        learner.update()
    store = learner.store
    last_steps = np.cumsum(store.lengths - 1)
    rows = []
    for share in spec.config["shares"]:
        samples = round(share * steps)
        part = store.select(np.arange(np.searchsorted(last_steps, samples, side="right")))
        for algorithm, config in ALGORITHMS.items():
            nodes, paths = learned_tree(part, task, config, seed=spec.seed)
            counts = {"trajectories": len(part), "positives": len(part.positives)}
            rows.append(
                {"algorithm": algorithm, "samples": samples, **counts, **tree_accuracy(nodes, paths, true_paths(task))}
            )
    return pd.DataFrame(rows)


def learned_tree(
    store: TrajectoryStore, task: Task, config: ForwardConfig | GuidedConfig, *, seed: int
) -> tuple[set[Path], set[Path]]:
    """Nodes of the learned subgoal tree, as paths from its root, and its satisfying sequences; all as observation ids.

    The FSM says how long and how wide a tree may be; names are not asked for.
    """
    fsm = task.formula.fsm()
    if isinstance(config, GuidedConfig):
        paths = set(guided(store, replace(config, max_length=fsm.longest_path)).paths)
        return prefixes(paths), paths
    training = Training.as_published(compile_world(task).observations)
    method = Forward(config, fsm, training=training, seed=seed)
    for _ in range(RESTARTS + 1):
        restarts = method.restarts
        method.advance(store)
        if method.restarts == restarts:
            break
    return set(method.nodes or method.abandoned_nodes), set(method.paths)


def tree_accuracy(nodes: set[Path], paths: set[Path], truth: Iterable[Path]) -> dict[str, Any]:
    """A learned tree against the true one.

    accuracy: share of the true tree's nodes that are in the learned tree, that is, of key states found in their right
    place in the order. key_states: share of the true key states found at all, in whatever order. precision: share of
    the learned tree's nodes that are in the true one. exact: the satisfying sequences are the true ones.
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


def prefixes(paths: Iterable[Path]) -> set[Path]:
    """Nodes of the prefix tree of the sequences, without its root."""
    return {path[:length] for path in paths for length in range(1, len(path) + 1)}


# --- generalization ---------------------------------------------------------------------------------------------------


def generalization(spec: RunSpec) -> pd.DataFrame:
    """Success rate over steps on an unseen task in a changed world: with rewards from learned labels, or a baseline.

    spec.config: steps (in the test world); for "lstoc" also train_task and train_steps, to learn the labels. Then every
    row also says whether that worked and how good the labels are in the test world.
    """
    config, task = spec.config, TASKS[spec.task]
    if "train_task" not in config:
        learner = baseline(task, spec.method, seed=spec.seed)
        return success_curve(*train(learner, config["steps"]), task, config["steps"])
    learner = policy = fresh_policy(task, seed=spec.seed, store_limit=None)
    found = discover(TASKS[config["train_task"]], seed=spec.seed, max_steps=config["train_steps"], progress=False)
    facts: dict[str, Any] = {"labels_learned": found.labeling is not None, "train_steps": found.env_steps}
    if found.labeling is not None:
        function = labeling_function(found)
        table = label_accuracy(function, [compile_world(task)])
        facts |= {"label_precision": table.precision.min(), "label_recall": table.recall.min()}
        learner = Pursuit(policy, labelled_paths(function, policy.env.observations, task.sequences))
    return success_curve(*train(learner, config["steps"]), task, config["steps"]).assign(**facts)


def labeling_function(found: Discovery) -> LabelingFunction:
    """L, from the key states that a discovery has found and named, and everything else it has seen."""
    assert found.labeling is not None
    return LabelingFunction.learn(
        found.learner.env.observations,
        [key.observation_id for key in found.key_states],
        found.labeling.mapping,
        seen=found.store.ids,
    )


def labelled_paths(
    function: LabelingFunction, observations: np.ndarray, sequences: Iterable[Sequence[str]]
) -> Iterator[Path]:
    """The satisfying sequences of a task's FSM as observation ids, wherever the labeling function sees their symbols.

    observations: the world's table. The function looks at each observation by itself, so it makes no difference that it
    is asked about all of them at once and not when the agent meets them. A symbol may be seen in several observations,
    or in none: then sequences with it pay nothing.
    """
    columns = function.columns(observations)
    ids = {symbol: np.flatnonzero(columns == column).tolist() for column, symbol in enumerate(function.symbols)}
    for sequence in sequences:
        yield from product(*(ids.get(symbol, []) for symbol in sequence))
