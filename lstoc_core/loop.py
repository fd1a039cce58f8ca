"""LSTOC: explore, discover hidden subgoals, name them, and solve the task with them (Algorithms Main and LSTOC).

    d = lstoc.discover(lstoc.TASKS["office-2"], seed=0)    # or any gymnasium.Env, see `discover`
    d.sequences, d.key_states, d.labeling.mapping
    lstoc.score(d, lstoc.TASKS["office-2"]).exact

An explorer collects trajectories. From time to time, a discovery method searches all of them and says what to explore
next. The method decides when to stop; it never sees the truth. Then, with `solve`, the explorer learns to complete the
task along the discovered sequences.
"""

import json
import operator
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from tqdm.auto import tqdm

from lstoc_core.config import LSTOCConfig
from lstoc_core.discovery.method import DiscoveryMethod, Missing, Need
from lstoc_core.discovery.published.importance import GAMMA
from lstoc_core.exploration.explorer import Explorer
from lstoc_core.extras import needed_for
from lstoc_core.logic import FSM, parse
from lstoc_core.policies.predictor import Predictor
from lstoc_core.result import Discovery, shortened
from lstoc_core.run.answer import KeyState, answer_of
from lstoc_core.run.checkpoint import Checkpoint
from lstoc_core.run.environments import EnvLike, Problem, identity_of, named_environment, vector_of_ids, widened
from lstoc_core.run.explorers import EXPLORERS, MakeExplorer, fitting, num_envs
from lstoc_core.run.interrupt import Interrupt
from lstoc_core.run.journal import Counts, Journal, Phase, Record, Work
from lstoc_core.run.methods import METHODS, MakeMethod, Setting
from lstoc_core.run.state import Census, RunState
from lstoc_core.suggestions import unknown
from lstoc_core.trajectories.door import InputError
from lstoc_core.trajectories.events import BOXES, Events
from lstoc_core.trajectories.success import Success, check_success
from lstoc_core.trajectories.vector_env import IdVectorEnv

__all__ = ["Discovery", "KeyState", "LSTOCConfig", "Phase", "Problem", "Record", "RunState", "discover"]


CONFIRM = 60
"""Episodes that must confirm an answer where the environment is not ours."""
Callback = Callable[[RunState], bool | None]
"""Called with the state of the run after each update; returning False ends the run."""


def discover(
    env: EnvLike,
    *,
    method: Literal["guided", "forward"] | MakeMethod = "guided",
    fsm: FSM | str | None = None,
    success: Success = "auto",
    events: Events | None = None,
    seed: int = 0,
    max_steps: int = 1_000_000,
    solve: bool = False,
    confirm: int | None = None,
    progress: bool = True,
    watch: bool = False,
    config: LSTOCConfig | None = None,
    contrast: Literal["exact", "learned"] = "exact",
    explorer: Literal["auto", "planner", "policy"] | MakeExplorer = "auto",
    callbacks: Sequence[Callback] = (),
    checkpoint: str | os.PathLike[str] | None = None,
) -> Discovery:
    """Discover the hidden subgoals of an environment, their order and, given an FSM, their names.

    env: a Task or its name; a gymnasium.Env, a factory of one, or its id ("FrozenLake-v1", "minigrid:MiniGrid-..."); a
    vector environment of gymnasium. Observations may be Box, Discrete, MultiDiscrete, MultiBinary, Text, or Dict and
    Tuple of them; actions Discrete, MultiDiscrete or MultiBinary. A factory or id gives as many as needed.
    method: "guided" (ours), "forward" (the paper's), or a function that makes one for a `Setting`.
    fsm: temporal dependencies of the subgoals' names, as an FSM or a formula ("a;(b|c);d"); a Task brings its own.
    success: how an episode's end says whether the task was done. "info": `info["success"]`; "is_success":
    `info["is_success"]`; "reward": the last reward is positive; or a function from an `EpisodeEnd` to True or False.
    "auto": the one of both keys that the info has.
    events: key states are features of observations: a function from an observation, as the environment gives it, to the
        names of what holds in it; or a ready one, `tiles()`. "boxes": observations are a few real numbers, and key
        states are boxes of them. "learned": observations are noisy, and key states are clusters of them, learned from
        random actions before the run, whose steps (1,000 with one environment) `env_steps` does not count. None: a key
        state is one observation.
    max_steps: budget of environment steps for exploration and solve phase together. Updates are whole: the last one may
        go past it, and the first is always made.
    solve: go on after the discovery until the policy completes the task.
    confirm: more episodes that must agree with the answer before the run stops exploring. None: 0 for a Task, whose
        world meets the assumptions of a proof (`discovery.consistent`); 60 for other environments.
    watch: in a notebook, show the run while it goes on, in place of the progress bar: the last episode on the map,
        where the answers left put key states, the tree, the bits left, what is missing, and a button to stop.
    contrast: how the guided method compares states, by exact coverage or by a trained f_ω.
    explorer: "planner" (asks by plans on a map that it learns), "policy" (the paper's GRU policy, trained by PPO),
        "auto" (the planner while its map predicts well, else the policy; always the policy with method "forward" and
        with boxes), or a function that makes one for a `Setting`. `Discovery.exploration` says which was used, and why.
    callbacks: called with the `RunState` after each update: its record, as kept in `history`, the last trajectories,
        the answers left and the tree. One that returns False ends the run.
    checkpoint: a directory. The run is saved there every minute; the same call resumes it.

    The answer is tested by every later episode, also of the solve phase. One that contradicts it withdraws it: the run
    goes back to exploration. `Discovery.tested` counts those that agreed. Where no answer is left and labels are exact,
    no further episode can help but to say why: the run gathers `confirm` more and ends, and `Discovery.missing` names
    the suspects (`discovery.diagnosis`).
    Ctrl-C ends the run after the current update: the result so far is returned, and the checkpoint is saved. An
    observation or label that cannot be used raises an `InputError`, whose `discovery` is the result so far.
    """
    config = config or LSTOCConfig()
    fsm = parse(fsm).fsm() if isinstance(fsm, str) else fsm
    _check(config, fsm, seed, max_steps, confirm, callbacks)
    check_success(success)
    problem, seed = named_environment(env) if isinstance(env, str) else env, operator.index(seed)
    confirm = (0 if isinstance(problem, Problem) else CONFIRM) if confirm is None else confirm
    fsm = fsm or (problem.fsm() if isinstance(problem, Problem) else None)
    used = fitting(explorer, method, boxes=events == BOXES)
    world = vector_of_ids(problem, num_envs(used, config), seed=seed, success=success, events=events)
    discount = problem.discount if isinstance(problem, Problem) else GAMMA
    again = partial(widened, problem, world, seed=seed, success=success)
    setting = Setting(world, fsm, config, seed, contrast, discount, again)
    finder = _chosen("method", method, METHODS)(setting)
    scout = _chosen("explorer", used, EXPLORERS)(setting)
    name = _name(method, finder)
    work, saved = Work(scout, finder, Journal()), None
    if checkpoint is not None:
        told = {"method": name, "explorer": _name(explorer, scout), "contrast": contrast, "seed": seed}
        told |= {} if success == "auto" else {"success": _name(success, success)}
        told |= {} if events is None else {"events": _name(events, events)}
        saved = Checkpoint(Path(checkpoint), _key(problem, world, fsm, config) | told)
        saved.load(work)
    journal = work.journal

    census = Census.of(fsm, setting)
    wanted = (Phase.EXPLORE, Phase.SOLVE) if solve else (Phase.EXPLORE,)
    so_far = partial(_result, name, seed, fsm, config, max_steps, scout, finder, journal)
    with (
        _collected(so_far),
        Interrupt() as interrupt,
        _view(setting, interrupt, shown=watch) as view,
        _bar(max_steps, scout, shown=progress and view is None) as bar,
        saved.kept(work) if saved else nullcontext(),
    ):
        while (
            journal.phase in wanted
            and scout.env_steps < max_steps
            and not (interrupt.requested or journal.hopeless(scout.trajectories, confirm))
        ):
            if journal.phase is Phase.EXPLORE:
                # Collect trajectories, guided by what is known (Algorithm LSTOC, lines 24 to 31).
                request = replace(finder.request, testing=journal.stopped is not None)
                stats = scout.explore(request, journal.silence(scout.trajectories))
                if journal.due(scout.trajectories, config.first_positives):
                    # Grow what is known from all of them (lines 7 to 23 and 32 to 41).
                    journal.looked(scout.trajectories, config.growth)
                    finder.advance(scout.trajectories)
                    if finder.finished:
                        journal.found(scout)
                journal.take_note(finder, scout.trajectories)
            else:
                # The sequences are known: learn to complete the task.
                stats = scout.pursue(finder.paths)
                if scout.solved:
                    journal.solved()
            # Every episode since tests the answer.
            journal.watch(finder, scout, confirm)
            journal.diagnose(finder, scout, confirm)
            journal.warn_of_flaws(scout, prompt=config.guided.prompt)
            record = journal.write(scout, finder, stats)
            _show(bar, record, finder)
            state = RunState(record, setting, scout, finder, census)
            if view is not None:
                view(state)
            if False in [callback(state) for callback in callbacks]:
                interrupt.request()
            if saved is not None and saved.due:
                saved.save(work)
        result = so_far(interrupt.requested)
        done, verb = journal.phase not in wanted, "proved" if result.proved else "found"
        ending = _ending(result, verb, journal.refuted is not None, done=done)
        _conclude(bar, result, ending, done=done)
        if view is not None:
            view.conclude(ending, done=done)
    return result


# --- what is given ----------------------------------------------------------------------------------------------------


def _check(
    config: LSTOCConfig,
    fsm: FSM | None,
    seed: int,
    max_steps: int,
    confirm: int | None,
    callbacks: Sequence[Callback],
) -> None:
    """Raise an error that names the remedy where an argument makes no sense."""
    if not isinstance(config, LSTOCConfig):
        raise TypeError(f"config is {config!r}: give an LSTOCConfig")
    if fsm is not None and not isinstance(fsm, FSM):
        raise TypeError(f"fsm is {fsm!r}: give a formula, 'a;b', or an FSM, as from parse('a;b').fsm()")
    if seed < 0:
        raise ValueError(f"seed is {seed}: give a number that is not negative")
    if max_steps < 1:
        raise ValueError(f"max_steps is {max_steps}: give at least 1")
    if confirm is not None and confirm < 0:
        raise ValueError(f"confirm is {confirm}: give a number of episodes, 0 for none")
    if callable(callbacks):
        raise TypeError("callbacks is a function: give a list of them, callbacks=[...]")


def _chosen(what: str, given: Any, known: Mapping[str, Any]) -> Any:
    """The factory of that name, or the factory that was given."""
    if callable(given):
        return given
    if given not in known:
        raise ValueError(unknown(what, given, known))
    return known[given]


def _name(given: Any, made: object) -> str:
    """What a method or explorer is called: its name as given, the factory's, or the class of what it made."""
    if isinstance(given, str):
        return given
    name = getattr(given, "__name__", "<lambda>")
    return type(made).__name__ if name == "<lambda>" else name


def _key(problem: Any, world: IdVectorEnv, fsm: FSM | None, config: LSTOCConfig) -> dict[str, Any]:
    """What the run is about, in JSON types."""
    table = world.observations
    spaces = f"{world.num_envs} × {table.dtype} observations of shape {table.shape[1:]}, {world.num_actions} actions"
    known = {"env": identity_of(problem), "spaces": spaces, "fsm": repr(fsm), "version": version("lstoc-core")}
    restored: dict[str, Any] = json.loads(json.dumps(known | asdict(config)))
    return restored


# --- what is shown and given back -------------------------------------------------------------------------------------


@contextmanager
def _collected(so_far: Callable[[bool], Discovery]) -> Iterator[None]:
    """A context in which input that cannot be used is reported with what was collected before it."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{error} (what was collected is in this error's `discovery`)", so_far(True)) from error


def _bar(max_steps: int, explorer: Explorer, *, shown: bool) -> Any:
    return tqdm(total=max_steps, initial=explorer.env_steps, unit="step", disable=not shown)


def _show(bar: Any, record: Record, method: DiscoveryMethod) -> None:
    """Phase, successes, trajectories and sequences so far, on the progress bar."""
    number = {key: index for index, key in enumerate(method.key_states)}
    sequences = " ".join("-".join(str(number[key]) for key in path) for path in method.paths)
    bar.update(record["env_steps"] - bar.n)
    bar.set_description(record["phase"])
    bar.set_postfix_str(f"{record['positives']}/{record['trajectories']} {sequences}")


def _view(setting: Setting, interrupt: Interrupt, *, shown: bool) -> AbstractContextManager[Any]:
    """The live view; None where it is not wanted, or there is no notebook to draw it in."""
    if not shown:
        return nullcontext()
    with needed_for("watch=True", extra="notebooks"):
        from lstoc_core.drawing import live  # imported here: only who watches needs matplotlib and ipywidgets
    if not live.notebook():
        warnings.warn("watch=True draws in a notebook, and this is none: the progress bar tells instead", stacklevel=3)
        return nullcontext()
    view = live.LiveView(setting, interrupt.request)
    view.show()
    return nullcontext(view)


def _ending(result: Discovery, verb: str, refuted: bool, *, done: bool) -> str:
    """How the run ended, in a line."""
    told = f"{verb} after {result.num_trajectories:,} trajectories, {result.num_positives:,} successes"
    if done:
        return told
    end = "stopped" if result.interrupted else "no answer agrees" if refuted else "budget used"
    return f"{told}; {end}" if result.finished else end


def _conclude(bar: Any, result: Discovery, ending: str, *, done: bool) -> None:
    """The end of the progress bar: full and green if all that was wanted is done, else amber with what is missing."""
    told = ending
    if not done:
        needs = "; ".join(need.told() for need in result.missing.needs) or "a policy that completes the task"
        told = f"{told}; still missing: {shortened(needs, 100)}"
    bar.colour, bar.total = ("green", bar.n) if done else ("#e69f00", max(bar.n, bar.total))
    bar.set_postfix_str("", refresh=False)
    bar.set_description_str(told)


def _result(
    name: str,
    seed: int,
    fsm: FSM | None,
    config: LSTOCConfig,
    max_steps: int,
    explorer: Explorer,
    method: DiscoveryMethod,
    journal: Journal,
    interrupted: bool,
) -> Discovery:
    counts, learner = journal.stopped or Counts.of(explorer), explorer.learner
    answer = answer_of(method, fsm, explorer.env.observations, explorer.trajectories)
    missing = Missing() if method.finished else _shortfall(explorer, method, config.first_positives, max_steps)
    return Discovery(
        **answer | ({} if method.finished else {"verdict": f"open: {missing}"}),
        method=name,
        seed=seed,
        missing=missing,
        tested=journal.tested,
        withdrawn=journal.withdrawn,
        warnings=tuple(journal.warnings.values()),
        interrupted=interrupted,
        num_trajectories=counts.trajectories,
        num_positives=counts.positives,
        env_steps=counts.env_steps,
        success_rate=explorer.success_rate,
        exploration=explorer.account,
        history=journal.history,
        trajectories=explorer.trajectories,
        policy=Predictor.of(learner.policy, explorer.env, seed=seed) if learner is not None else None,
        explorer=explorer,
        finder=method,
    )


def _shortfall(explorer: Explorer, method: DiscoveryMethod, first_positives: int, max_steps: int) -> Missing:
    """What was seen, and why it does not suffice."""
    store, taken = explorer.trajectories, explorer.env_steps
    steps = f"{taken} steps" if taken <= max_steps else f"{taken} steps (max_steps={max_steps}, and updates are whole)"
    if not len(store):
        return Missing.one(f"no episode ended within {steps}: raise max_steps or shorten the episodes")
    positives = int(store.labels.sum())
    needs = method.missing.needs
    if not positives:
        advice = "nothing to learn from; raise max_steps or the bonus, or make the task easier to stumble on"
        needs = (Need(advice),)
    elif positives < first_positives:
        needs = (Need(f"the first discovery waits for {first_positives} successes; raise max_steps"),)
    if positives == len(store):
        needs = (Need("without failures there is nothing to contrast"), *needs)
    return Missing(needs, seen=f"{positives} successes in {len(store)} trajectories of {steps}")
