"""What a run learned, and what can be done with it: keep it, act by it, draw it, hand it to other programs."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from lstoc_core.discovery.landmarks import Landmark
from lstoc_core.discovery.method import DiscoveryMethod, Missing, nested_tuples
from lstoc_core.discovery.tree import SubgoalTree
from lstoc_core.exploration.explorer import Explorer
from lstoc_core.extras import needed_for
from lstoc_core.labeling import Labeling
from lstoc_core.logic.fsm import FSM
from lstoc_core.policies.ppo import PPO
from lstoc_core.policies.predictor import Predictor
from lstoc_core.run.answer import KeyState
from lstoc_core.run.environments import EnvLike
from lstoc_core.run.journal import Record
from lstoc_core.run.rollout import Rollout, rollouts
from lstoc_core.trajectories.door import InputError
from lstoc_core.trajectories.store import TrajectoryStore
from lstoc_core.trajectories.success import Success

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRIES = 10
"""Most episodes that are played for an animation."""
FORMAT = 1
"""Version of the files that `Discovery.save` writes."""
LATER: dict[str, Any] = {"proved": False, "tested": 0, "withdrawn": 0, "verdict": ""}
"""What older files of that version do not say, and what is taken for it."""


@dataclass(repr=False)
class Discovery:
    """What a run learned, and how."""

    method: str
    seed: int
    sequences: tuple[tuple[int, ...], ...]
    """P_S: satisfying sequences of key-state indices."""
    key_states: tuple[KeyState, ...]
    """Ŝ_K, in order of discovery."""
    tree: SubgoalTree
    fsm: FSM | None
    """Temporal dependencies of the names, as given."""
    labeling: Labeling | None
    """Names of the key states; None without an FSM, before the method has finished, or if its sequences do not fit."""
    finished: bool
    """Whether the method finished within the budget, and no later episode contradicted its answer."""
    proved: bool
    """Whether exactly one assignment of the FSM's symbols to states is consistent with every episode's outcome. Only
    "guided" with an FSM and exact labels proves; `lstoc_core.discovery.consistent` lists what the proof assumes."""
    verdict: str
    """How sure the answer is, in one sentence: proved, unrefuted, or open."""
    landmarks: tuple[tuple[Landmark, ...], ...]
    """What every success passes, in order, for each sequence: required (its omission was seen to fail) or forced (no
    episode ever omitted it, so it cannot be tested). Only "guided" reports them."""
    alike: dict[str, tuple[int, ...] | tuple[str, ...]]
    """Symbol -> the observation ids, or names of events, among which no episode could choose, where the answer is one
    of several that differ only in forced landmarks. Else empty."""
    tested: int
    """Episodes since the answer was found that could have contradicted it, and did not."""
    withdrawn: int
    """Answers that a later episode contradicted, so that the run went on without them."""
    missing: Missing
    """What the method still needed; empty if it finished."""
    warnings: tuple[str, ...]
    """What the run found wrong by itself, one sentence each: the cause, and the argument that mends it."""
    interrupted: bool
    """Whether Ctrl-C or a callback ended the run."""
    num_trajectories: int
    """Trajectories, positive and negative, when discovery finished; all of them if it did not."""
    num_positives: int
    """Successes among them."""
    env_steps: int
    """Environment steps until then."""
    success_rate: float
    """Of the last episodes of the solve phase; NaN without one."""
    exploration: str
    """Which explorer was used, and why."""
    history: list[Record]
    """One record per update; in very long runs, of several updates each."""
    trajectories: TrajectoryStore
    """All finished episodes, the solve phase included."""
    observations: NDArray[Any]
    """The distinct observations [N, ...]: row i is what the trajectories call i."""
    policy: Predictor | None
    """What the run has learned to do: with `solve`, to complete the task. None if nothing was trained."""
    explorer: Explorer | None
    """What collected the trajectories; None if they were given, or the result was loaded."""
    finder: DiscoveryMethod | None
    """What searched them, with all that it tried; None if the result was loaded."""

    @property
    def learner(self) -> PPO | None:
        """The policy and its training state; None if there is none."""
        return self.explorer.learner if self.explorer is not None else None

    @property
    def error_bound(self) -> float:
        """Share of episodes whose outcome the answer may predict wrongly, at 95 % confidence (rule of three).

        It holds for episodes like those that tested it. 1 if none did.
        """
        return min(1.0, 3 / self.tested) if self.tested else 1.0

    @property
    def names(self) -> dict[int, str]:
        """Key state -> its name; where it has none, that of its event, or s0, s1, ..."""
        known = self.labeling.mapping if self.labeling is not None else {}
        return {key.index: known.get(key.index, key.event or f"s{key.index}") for key in self.key_states}

    def __repr__(self) -> str:
        """At most five lines: how far it came, what was found, what is missing."""
        counts = f"{self.num_trajectories:,} trajectories, {self.num_positives:,} successes, {self.env_steps:,} steps"
        state = "finished" if self.finished else "open"
        lines = [f"Discovery ({self.method}, seed {self.seed}): {state} after {counts}"]
        ways = [" → ".join(self.names[key] for key in sequence) for sequence in self.sequences]
        lines += [f"  {way}" for way in (ways if len(ways) < 4 else [*ways[:2], f"and {len(ways) - 2} more"])]
        for branch in self.landmarks[: 4 - len(lines)] if self.finished else ():
            if any(not landmark.required for landmark in branch):
                lines.append(f"  every success passes {shortened(' → '.join(map(str, branch)))}")
        return "\n".join([*lines, *([f"  missing: {shortened(str(self.missing))}"] if self.missing else [])])

    def _repr_html_(self) -> str | None:
        """Map or pictures of the key states, tree, names, proof and counts, for notebooks."""
        try:
            from lstoc_core.drawing.inline import discovery_html  # imported here: only drawing needs matplotlib
        except ModuleNotFoundError:  # the plain text is shown
            return None
        return discovery_html(self)

    # --- acting ---

    def rollout(
        self,
        env: EnvLike,
        episodes: int = 1,
        *,
        success: Success = "auto",
        deterministic: bool = False,
        seed: int | None = None,
    ) -> list[Rollout]:
        """Let the policy play episodes in an environment: a Task, a gymnasium.Env, its id, or a factory of one.

        success: how their labels are read. seed: of the first episode. deterministic: always the most probable action.
        The policy was trained to draw its actions, and may get stuck if it does not.
        """
        policy = self._acting()
        return [*rollouts(policy, env, episodes, success=success, deterministic=deterministic, seed=seed)]

    def _acting(self) -> Predictor:
        if self.policy is None:
            raise ValueError(
                "there is no policy to act by: the trajectories were given, or the explorer trained none; "
                "discover(..., solve=True) trains one"
            )
        return self.policy

    # --- other programs ---

    def machine(self) -> FSM:
        """The discovered sequences as a machine over the names of the key states."""
        if not self.sequences:
            raise ValueError(f"no sequence was discovered, so there is no machine: {self.missing}")
        return SubgoalTree.from_sequences(self.sequences).fsm(self.names)

    def to_reward_machine(self, reward: float = 1) -> str:
        """The discovered task as a reward machine, in the text format of the reward-machine repositories."""
        return self.machine().to_reward_machine(reward)

    # --- pictures ---

    def draw(self, ax: Axes | None = None) -> Axes:
        """Draw the tree, each node with a picture of what the agent saw there."""
        with needed_for("drawing a discovery", extra="study"):
            from lstoc_core.drawing.episodes import draw_pictured_tree  # imported here: only drawing needs matplotlib

        return draw_pictured_tree(self, ax)

    def plot(self) -> Figure:
        """A figure of the run: the key states on the map, if there is one, the tree, successes over trajectories."""
        with needed_for("plotting a discovery", extra="study"):
            from lstoc_core.drawing.inline import discovery_figure  # imported here: only drawing needs matplotlib

        return discovery_figure(self)

    def animate(
        self, path: str | os.PathLike[str], env: EnvLike | None = None, *, success: Success = "auto", fps: int = 6
    ) -> Path:
        """Write a GIF or MP4 of an episode that completes the task, with the tree beside it and the progress marked.

        env: where the policy plays until it succeeds, at most TRIES episodes; shown as the environment renders RGB
        arrays, or else as observations. None: the last success among the trajectories is shown. success: how labels are
        read in `env`. MP4 needs ffmpeg.
        """
        with needed_for("an animation", extra="study"):
            from lstoc_core.drawing.episodes import animate  # imported here: only drawing needs matplotlib

        played = None
        for played in rollouts(self._acting(), env, TRIES, success=success) if env is not None else ():
            if played.success:
                break
        return animate(self, Path(path), played, fps=fps)

    # --- files ---

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything but explorer and finder to one file, a zip of JSON, npz and weights; `load` reads it back.

        Nothing in it is pickled but the tensors of torch, which are read with `weights_only`.
        """
        arrays, weights = io.BytesIO(), io.BytesIO()
        np.savez_compressed(
            arrays,
            ids=self.trajectories.ids,
            lengths=self.trajectories.lengths,
            labels=self.trajectories.labels,
            observations=self.observations,
            key_states=np.stack([key.observation for key in self.key_states]) if self.key_states else np.empty(0),
            landmarks=np.array([landmark.observation for branch in self.landmarks for landmark in branch]),
        )
        if self.policy is not None:
            torch.save(self.policy.network.state_dict(), weights)
        facts = json.dumps(self._facts(), indent=1)
        temporary = Path(f"{os.fspath(path)}.{os.getpid()}.tmp")
        try:
            with zipfile.ZipFile(temporary, "w") as file:
                file.writestr("discovery.json", facts)
                file.writestr("arrays.npz", arrays.getvalue())
                if self.policy is not None:
                    file.writestr("weights.pt", weights.getvalue())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def _facts(self) -> dict[str, Any]:
        """All that is not an array, in JSON types."""
        plain = (
            "method",
            "seed",
            "sequences",
            "finished",
            "proved",
            "verdict",
            "alike",
            "tested",
            "withdrawn",
            "warnings",
        )
        counts = (
            "interrupted",
            "num_trajectories",
            "num_positives",
            "env_steps",
            "success_rate",
            "exploration",
            "history",
        )
        labeling, fsm = self.labeling, self.fsm
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in (*plain, *counts)},
            "key_ids": [key.observation_id for key in self.key_states],
            "key_events": [key.event for key in self.key_states],
            "key_bounds": [np.array(key.bounds).tolist() if key.bounds else None for key in self.key_states],
            "landmarks": [[_told(landmark) for landmark in branch] for branch in self.landmarks],
            "tree": self.tree.to_json(),
            "fsm": {**asdict(fsm), "accepting": sorted(fsm.accepting)} if fsm is not None else None,
            "labeling": {**vars_of(labeling), "mappings": [list(names.items()) for names in labeling.mappings]}
            if labeling is not None
            else None,
            "missing": {"needs": self.missing.to_json(), "seen": self.missing.seen},
            "policy": self.policy.to_json() if self.policy is not None else None,
        }


def shortened(text: str, most: int = 200) -> str:
    """The text in one line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def vars_of(labeling: Labeling) -> dict[str, Any]:
    """The fields of a labeling but its mappings."""
    return {name: getattr(labeling, name) for name in ("keys", "symbols", "complete", "unlearnable", "learned")}


def load(path: str | os.PathLike[str]) -> Discovery:
    """Read what `Discovery.save` wrote."""
    try:
        return _read_discovery(path)
    except (InputError, FileNotFoundError):
        raise
    except Exception as error:  # whatever a damaged file leads to
        raise InputError(
            f"{path} was not written by Discovery.save, or is damaged ({type(error).__name__}: {error}): save it again"
        ) from error


def _read_discovery(path: str | os.PathLike[str]) -> Discovery:
    with zipfile.ZipFile(path) as file:
        facts = json.loads(file.read("discovery.json"))
        arrays = dict(np.load(io.BytesIO(file.read("arrays.npz")), allow_pickle=False))
        told = facts["policy"]
        weights = torch.load(io.BytesIO(file.read("weights.pt")), weights_only=True) if told else None
    if facts["format"] != FORMAT:
        raise InputError(f"{path} has format {facts['format']}, this version reads {FORMAT}: use the one that wrote it")
    store = TrajectoryStore.from_arrays({**arrays, "num_ids": np.array(0)}, str(path))
    if max(store.num_ids - 1, *facts["key_ids"], 0) >= len(arrays["observations"]):
        raise InputError(f"{path} has ids beyond its {len(arrays['observations'])} observations: save it again")
    if not {key for sequence in facts["sequences"] for key in sequence} <= set(range(len(facts["key_ids"]))):
        raise InputError(f"{path} has sequences of other key states than its {len(facts['key_ids'])}: save it again")
    plain = ("method", "seed", "finished", "interrupted", "num_trajectories", "num_positives", "env_steps")
    return Discovery(
        **{name: facts[name] for name in (*plain, "success_rate", "exploration")},
        **{name: facts.get(name, unsaid) for name, unsaid in LATER.items()},
        sequences=nested_tuples(facts["sequences"]),
        landmarks=_read_landmarks(facts.get("landmarks", []), arrays.get("landmarks")),
        warnings=tuple(facts.get("warnings", ())),
        alike={name: tuple(keys) for name, keys in facts.get("alike", {}).items()},
        key_states=tuple(
            KeyState(index, np.asarray(observation), key, event, bounds and (np.array(bounds[0]), np.array(bounds[1])))
            for index, (key, observation, event, bounds) in enumerate(
                zip(
                    facts["key_ids"],
                    arrays["key_states"],
                    facts.get("key_events", [""] * len(facts["key_ids"])),
                    facts.get("key_bounds", [None] * len(facts["key_ids"])),
                    strict=True,
                )
            )
        ),
        tree=SubgoalTree.from_json(facts["tree"]),
        fsm=_fsm(facts["fsm"]) if facts["fsm"] else None,
        labeling=_read_labeling(facts["labeling"]) if facts["labeling"] else None,
        missing=replace(Missing.from_json(facts["missing"]["needs"]), seen=facts["missing"]["seen"]),
        history=[cast(Record, {**each, "sequences": nested_tuples(each["sequences"])}) for each in facts["history"]],
        trajectories=store,
        observations=arrays["observations"],
        policy=Predictor.from_json(told, weights, seed=facts["seed"]) if weights is not None else None,
        explorer=None,
        finder=None,
    )


def _told(landmark: Landmark) -> dict[str, Any]:
    """A landmark without its observation, in JSON types."""
    return {name: value for name, value in vars(landmark).items() if name != "observation"}


def _read_landmarks(
    branches: Sequence[Sequence[Mapping[str, Any]]], observations: NDArray[Any] | None
) -> tuple[tuple[Landmark, ...], ...]:
    rows = iter(observations if observations is not None else ())
    return tuple(tuple(Landmark(**told, observation=next(rows)) for told in branch) for branch in branches)


def _fsm(told: Mapping[str, Any]) -> FSM:
    parts = {name: nested_tuples(value) for name, value in told.items()}
    return FSM(**{**parts, "accepting": frozenset(parts["accepting"])})


def _read_labeling(told: Mapping[str, Any]) -> Labeling:
    first, *others = ({int(key): str(name) for key, name in names} for names in told["mappings"])
    parts = {name: nested_tuples(value) for name, value in told.items() if name != "mappings"}
    return Labeling(mapping=first, alternatives=tuple(others), **parts)
