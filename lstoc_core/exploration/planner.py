"""The planner: an explorer that asks what it does not know ("twenty questions").

It learns a map of the world (`world_map`), keeps the assignments that are consistent with every episode (`beliefs`),
and walks the plan whose outcome they disagree about most (`plans`). Where the map has gaps, it first tries what it has
never tried. Once the sequences are known, it walks the shortest ways through them.

Where key states are events, so are way-points and beliefs (`keys`), and the map is of what recurs (`map_ids`).

Without an FSM there are no assignments. Then it follows the paths that discovery asks for, some with a key state left
out, and walks tours. An answer is tested by tours that it says fail, and by ones that it says succeed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lstoc_core.config import LSTOCConfig
from lstoc_core.discovery.method import Request, nested_tuples
from lstoc_core.exploration.beliefs import Beliefs
from lstoc_core.exploration.doubts import doubting_walk, to_shun
from lstoc_core.exploration.errands import Errand, Question
from lstoc_core.exploration.imagined import imagined_pursuit
from lstoc_core.exploration.outcomes import Assignments, Words
from lstoc_core.exploration.plans import Judgement, Judges, Outset, PlanSearch
from lstoc_core.exploration.routes import Itinerary, Routes, States, nearest_gap
from lstoc_core.exploration.solving import Solving
from lstoc_core.exploration.survey import Survey
from lstoc_core.exploration.world_map import WorldMap
from lstoc_core.logic.fsm import FSM
from lstoc_core.policies.ppo import PPO, packed, unpacked
from lstoc_core.policies.pursuit import Pursuit
from lstoc_core.trajectories.matching import KeyPath
from lstoc_core.trajectories.store import TrajectoryStore
from lstoc_core.trajectories.vector_env import IdVectorEnv

FOLLOWED = 2 / 3
"""Without an FSM, the fraction of episodes that follow what discovery asks for; the others are tours."""
NEARLY = 1 / 2
"""Where key states are events, the fraction of episodes without a question that omit one."""
CLOSED = 1 / 2
"""Fraction of the walks that should fail which close a gap of the map instead, where there is one."""
LULL = 20
"""After so many episodes in a row with the same label, every other one seeks the other."""
MOST_QUESTIONS = 10_000
"""Questions that are kept."""
SEGMENT = 1000
"""Most steps of one call, in all environments together."""
FEWEST = 200
"""Of a sample of so few beliefs, all make plans and judge them; half of them could agree where all do not."""
LEAST_BITS = 1e-9
"""A plan that is expected to tell less tells nothing."""
MOST_SLIPS = 0.5
"""Highest rate of slips that plans expect."""


class PlannerExplorer:
    """An `Explorer` that plans on a map it learns."""

    def __init__(self, env: IdVectorEnv, config: LSTOCConfig, fsm: FSM | None, *, seed: int) -> None:
        self.env, self.config = env, config
        self.settings = config.planner
        self.env_steps, self._seed = 0, seed
        self._begun, self._policy_state = True, np.zeros(0, np.uint8)
        """What `load` leaves to `load_state_dict`: whether episodes go on, and the policy's file."""
        self._rng = np.random.default_rng(seed)
        self.survey = Survey(env)
        self.keys = self.survey.keys
        self.beliefs: Beliefs | None = None
        if fsm is not None:
            words, guided, reading = Words.of(fsm.minimal_sequences()), config.guided, self.keys.reading
            self.beliefs = Beliefs(
                words, self.settings, rng=self._rng, noise=guided.noise, prompt=guided.prompt, reading=reading
            )
        self._errands: list[Errand | None] = [None] * env.num_envs
        self._done = [0] * env.num_envs
        """Actions of its errand that each environment has taken."""
        self.questions: list[Question] = []
        """One per episode; in very long runs, of the last ones."""
        self._asked = [Question()] * env.num_envs
        """Of the episodes under way."""
        self._on_plan = [False] * env.num_envs
        """Whether the plan that an episode was judged by is still under way."""
        self._solving = Solving(self.settings, config.pursuit.solved)

    @property
    def trajectories(self) -> TrajectoryStore:
        return self.survey.recorder.store

    @property
    def map(self) -> WorldMap:
        return self.survey.map

    @property
    def routes(self) -> Routes:
        """Shortest ways on the map as of now."""
        return self.survey.routes

    @property
    def learner(self) -> PPO | None:
        """The policy trained on the map; None before."""
        return self._solving.learner

    @property
    def horizon(self) -> int:
        """Steps of the longest episode so far; 1000 before the first."""
        lengths = self.trajectories.lengths
        return int(lengths.max()) - 1 if len(lengths) else 1000

    @property
    def account(self) -> str:
        kind = "stochastic" if self.map.stochastic else "deterministic"
        made_of = "sets of features" if self.survey.reads_states else "exact observations"
        of = f" by {made_of}" if self.keys.reading else ""
        tried = f"was wrong in {self.map.error_rate:.1%} of the last {len(self.map.recent)} predictions"
        return (
            f"planner: its map of {len(self.map.ids)} places{of}, read as {kind}, "
            f"{tried if self.map.recent else 'has made no prediction yet'}"
        )

    def explore(self, request: Request, silence: int) -> dict[str, float]:
        """Go on until an episode ends, or for `SEGMENT` steps."""
        self._solving.forget()  # an answer was withdrawn, or there was none
        return self._collect(lambda env: self._next_errand(env, request))

    def _collect(self, choose: Callable[[int], Errand]) -> dict[str, float]:
        """Act until an episode ends. choose: an errand for an environment that has none."""
        before, limit = len(self.trajectories), self.env_steps + SEGMENT
        if self.survey.judged(self.env_steps):  # plans under way are in other ids
            self._errands, self._on_plan = [None] * self.env.num_envs, [False] * self.env.num_envs
        self.survey.refresh()
        while len(self.trajectories) == before and self.env_steps < limit:
            for env in range(self.env.num_envs):
                if self._errands[env] is None:
                    self._on_plan[env] = False
                    self._errands[env], self._done[env] = choose(env), 0
            self._step()
        labels = self.trajectories.labels[before:]
        return {"episodes": len(labels), "success_rate": float(labels.mean()) if len(labels) else float("nan")}

    # --- acting ---

    def _step(self) -> None:
        """One step of every environment, each on its errand."""
        envs = range(self.env.num_envs)
        errands = [errand for errand in self._errands if errand is not None]
        actions = np.array([errands[env].actions[self._done[env]] for env in envs])
        final_ids, done, success = self.survey.step(actions)
        self.env_steps += len(actions)
        for env, errand in enumerate(errands):
            self._done[env] += 1
            if done[env]:
                self._answer(env, bool(success[env]))
                self._errands[env] = None
            elif int(final_ids[env]) != errand.ids[self._done[env]]:
                self._errands[env] = self._rerouted(env, errand)
                self._done[env] = 0
            elif self._done[env] == len(errand.actions):
                self._errands[env] = None

    def _answer(self, env: int, label: bool) -> None:
        """The episode has ended: its question is answered."""
        known = {"error_rate": self.map.error_rate, "places": len(self.map.ids), "env_steps": self.env_steps}
        self.questions.append(self._asked[env].answered(label, on_plan=self._on_plan[env], **known))
        del self.questions[:-MOST_QUESTIONS]
        self._asked[env], self._on_plan[env] = Question(), False

    def _rerouted(self, env: int, errand: Errand) -> Errand | None:
        """The rest of an errand, from where a surprise has led."""
        left = errand.ahead(self._done[env])
        if not left:
            return None
        self.survey.refresh()
        rest = self.routes.walk(self.map.place(env), left, self._steps_left(env))
        return self._errand(self.routes, rest, judged=errand.judged) if len(rest.places) > 1 else None

    def _steps_left(self, env: int) -> int:
        return max(1, self.horizon + 1 - int(self.survey.recorder.running.lengths[env]))

    def _errand(self, routes: Routes, walk: Itinerary, *, judged: bool = False) -> Errand:
        actions = tuple(routes.action(*pair) for pair in zip(walk.places[:-1], walk.places[1:], strict=True))
        ids = tuple(self.map.ids[list(walk.places)].tolist())
        return Errand(actions, ids, walk.waypoints, walk.arrivals, judged)

    # --- choosing errands ---

    def _next_errand(self, env: int, request: Request) -> Errand:
        """What to do next: close a gap of the map, else the plan that tells most, else a tour."""
        self.survey.refresh()
        place = self.map.place(env)
        begins = self.survey.recorder.running.lengths[env] == 1
        if begins and self._lull(True) and (walk := self._again(env)):
            return walk
        budget = self.settings.mapping * len(self.map.known_ids) * self.env.num_actions
        gap = self._gap(place) if self.env_steps < budget or not begins else None
        if gap is not None:
            return self._towards(place, gap)
        if begins and request.testing and request.follow:
            return self._doubt(env, request.follow)
        if begins and self.beliefs is None and request.follow and self._rng.random() < FOLLOWED:
            return self._near_miss(env, request.follow) or self._contrast(env, request.follow)
        if self.beliefs is not None:
            self.beliefs.update(self.trajectories, self.keys.known(self.map.known_ids))
            plan = self._plan(env, place, self.beliefs)
            if plan is not None:
                return plan
            if begins and request.follow and (walk := self._near_miss(env, request.follow)):
                return walk
        return self._through(env, self.routes.tour(place, self._steps_left(env), 1.0, self._rng))

    def _through(self, env: int, waypoints: States) -> Errand:
        """An errand through way-points; if there is no way, to the nearest gap, or a random action."""
        place = self.map.place(env)
        walk = self.routes.walk(place, waypoints, self._steps_left(env))
        if len(walk.places) > 1:
            return self._errand(self.routes, walk)
        if gap := self._gap(place):
            return self._towards(place, gap)
        return Errand((int(self._rng.integers(self.env.num_actions)),), (-1, -1))

    def _contrast(self, env: int, paths: Sequence[KeyPath]) -> Errand:
        """Without an FSM: one of the paths, with a key state left out half of the time; then a tour."""
        path = list(paths[int(self._rng.integers(len(paths)))])
        if len(path) > 1 and self._rng.random() < 0.5:
            path.pop(int(self._rng.integers(len(path))))
        before = self.routes.tour(self.map.place(env), int(self._rng.integers(1, max(self.horizon, 2))), 1.0, self._rng)
        cut = int(self._rng.integers(len(before) + 1))
        return self._through(env, [*path[:1], *before[:cut], *path[1:], *before[cut:]])

    def _near_miss(self, env: int, paths: Sequence[KeyPath]) -> Errand | None:
        """Where key states are events, or all succeed, often: a walk that omits one, so that failures show its need."""
        wanted = self.keys.reading is not None or self._lull(False)
        return self._doubt(env, paths) if wanted and self._rng.random() < NEARLY else None

    def _lull(self, label: bool) -> bool:
        """Whether the last `LULL` episodes all had the other label; and, of successes, some had this one before."""
        labels = self.trajectories.labels
        if len(labels) < LULL or (labels[-LULL:] == label).any():
            return False
        return not label or bool(labels.any())

    def _again(self, env: int) -> Errand | None:
        """Often: a walk along what a past success has seen; None where no way leads there."""
        if self._rng.random() >= 0.5:
            return None
        walked = self.survey.walked.store
        seen = walked.trajectory(int(self._rng.choice(walked.positives)))
        here = np.flatnonzero(seen == self.map.ids[self.map.place(env)])
        routes = Routes(self.map.ids, self.map.links, np.zeros(len(self.map.ids)))  # to what is seen, not to events
        walk = routes.walk(
            self.map.place(env), seen[here[-1] + 1 if len(here) else 0 :].tolist(), self._steps_left(env)
        )
        return self._errand(routes, Itinerary((), (), walk.places)) if len(walk.places) > 1 else None

    def _doubt(self, env: int, paths: Sequence[KeyPath]) -> Errand:
        """To test an answer: a walk that should fail, mostly; or to a gap of the map, also where episodes may end."""
        place, links, rng = self.map.place(env), self.map.links, self._rng
        common = self.keys.common(self.trajectories, self.map.ids, links)
        shunned = to_shun(self.keys, self.map.ids, links, paths, common, rng)
        gap = nearest_gap(links, place, self.map.promise, shunned.tolist()) if len(shunned) else None
        if gap is not None and rng.random() < CLOSED:
            return self._towards(place, gap)
        given = self.keys, self.map.ids, links, place, self._steps_left(env)
        routes, walk = doubting_walk(*given, paths, shunned, rng=rng)
        return self._errand(routes, walk) if len(walk.places) > 1 else self._through(env, paths[0])

    def _gap(self, place: int) -> tuple[int, ...] | None:
        """The way to the nearest gap of the map: where the place is known, if there is one; else anywhere.

        States on which episodes end are avoided: those on which one has succeeded, and dead ends.
        """
        links, promise = self.map.links, self.map.promise
        shunned = np.flatnonzero(np.isin(self.map.ids, self.survey.ends())).tolist()
        known = np.where(self.map.anchored[:, None], promise, -1)
        return nearest_gap(links, place, known, shunned) or nearest_gap(links, place, promise, shunned)

    def _towards(self, place: int, actions: Sequence[int]) -> Errand:
        """An errand along actions; what the last one leads to is unknown."""
        ids = [int(self.map.ids[place])]
        for action in actions[:-1]:
            place = int(self.map.links[place, action])
            ids.append(int(self.map.ids[place]))
        return Errand(tuple(actions), (*ids, -1))

    def _plan(self, env: int, place: int, beliefs: Beliefs) -> Errand | None:
        """The plan that tells most, from here on; None if the beliefs agree about every plan."""
        search = self.search(env, place, beliefs) if len(beliefs) > 1 or not beliefs.complete else None
        best = search.best() if search is not None else None
        if search is None or best is None or best.bits < LEAST_BITS or len(best.itinerary.places) < 2:
            return None
        if np.isnan(self._asked[env].success):  # the first plan of the episode is its question
            limit, success = math.log2(search.outset.steps + 1), self._forecast(env, search, best, beliefs)
            self._asked[env] = Question(success, best.bits, beliefs.bits, beliefs.complete, limit)
            self._on_plan[env] = True
        return self._errand(search.routes[0], best.itinerary, judged=True)

    def _forecast(self, env: int, search: PlanSearch, plan: Judgement, beliefs: Beliefs) -> float:
        """Predicted probability that a plan succeeds.

        A sample of the beliefs by which a plan was chosen flatters it; then another sample predicts.
        """
        if beliefs.complete:
            return plan.success
        rng = np.random.default_rng((self._seed, env, len(self.trajectories)))  # plans are the same without a forecast
        others = beliefs.redrawn(self.trajectories, rng)
        left = search.outset.open(others.assignments, beliefs.words, beliefs.prompt)[: self.settings.judges]
        if not len(left):
            return plan.success
        judges = Judges(others.assignments[left], others.weights[left])
        return search.judged([plan.itinerary], judges, repeats=self.settings.rejudged)[0].success

    def search(self, env: int, place: int, beliefs: Beliefs) -> PlanSearch | None:
        """The search for a plan from a place in the episode under way; None if no belief is left."""
        config, store, running = self.settings, self.trajectories, self.survey.walked.running
        outset = Outset(
            self.map.ids, self.map.links, place, self._steps_left(env),
            successes=[self.keys.of(store, int(index)) for index in store.positives[-20:]],
            past=running.ids[env, : running.lengths[env] - 1].tolist(), keys=self.keys,
            slip=min(MOST_SLIPS, self.map.error_rate) if self.map.stochastic else 0.0,
        )  # fmt: skip
        chosen = self._rng.permutation(len(beliefs))[: 2 * config.judges]
        chosen = chosen[outset.open(beliefs.assignments[chosen], beliefs.words, beliefs.prompt)]
        few, half = len(chosen) <= (config.judges if beliefs.complete else FEWEST), len(chosen) // 2
        judges, makers = (chosen, chosen) if few else (chosen[:half], chosen[half:])
        if not len(judges):
            return None
        held = beliefs.assignments[judges]
        panel = Judges(held, beliefs.weights[judges], self._under_way(env, beliefs.words, held))
        made_of = beliefs.assignments[makers]
        return PlanSearch(outset, beliefs.words, config, made_of, panel, rng=self._rng, prompt=beliefs.prompt)

    def _under_way(self, env: int, words: Words, judges: Assignments) -> NDArray[np.int64] | None:
        """A number for each combination of outcomes that the judges predict for the planned episodes that run."""
        groups = None
        for other, errand in enumerate(self._errands):
            if other == env or errand is None or not errand.judged:
                continue
            length = int(self.survey.walked.running.lengths[other])
            walk = [*self.survey.walked.running.ids[other, :length].tolist(), *errand.ids[self._done[other] + 1 :]]
            times = words.success_times(self.keys.visits(walk, self.keys.size(walk, judges)), judges)
            joint = times if groups is None else groups * (len(walk) + 1) + times
            groups = np.unique(joint, return_inverse=True)[1]
        return groups

    def places(self) -> TrajectoryStore | None:
        """The finished episodes as places of the map instead of observations; None if it does not tell."""
        self.survey.refresh()
        return self.map.walked(self.trajectories)

    # --- solving ---

    def pursue(self, paths: Sequence[KeyPath]) -> dict[str, float]:
        """Complete one of the paths by the shortest walk; once that works, train a policy to do so on the map.

        If training takes too many steps, it is given up and the walks go on: then the task never counts as solved.
        """
        if self._solving.walking:
            stats = self._collect(lambda env: self._shortcut(env, paths))
            self._solving.recent.add(stats)
            return stats
        self.survey.refresh()
        return self._solving.train(tuple(paths), self._imagined)

    def _shortcut(self, env: int, paths: Sequence[KeyPath]) -> Errand:
        """The shortest walk through what the episode has still to visit of one of the paths."""
        self.survey.refresh()
        place, left, running = self.map.place(env), self._steps_left(env), self.survey.walked.running
        past = running.ids[env, : running.lengths[env]].tolist()
        rests = [path[self.keys.part(path, past) :] for path in paths]
        walks = [self.routes.walk(place, rest, left) for rest in rests]
        lengths = [
            len(walk.places) if walk.waypoints == rest else math.inf for walk, rest in zip(walks, rests, strict=True)
        ]
        return self._through(env, rests[int(np.argmin(lengths))])

    def _imagined(self, paths: tuple[KeyPath, ...]) -> Pursuit:
        given, made_of = (self.map, paths, self.env, self.config), self.survey.map_ids
        return imagined_pursuit(*given, keys=self.keys, map_ids=made_of, horizon=self.horizon, seed=self._seed)

    @property
    def success_rate(self) -> float:
        return self._solving.recent.rate

    @property
    def solved(self) -> bool:
        """Whether the walks complete the task, and so does the policy on the map, if one is trained."""
        return self._solving.solved

    # --- state ---

    def save(self, path: Path) -> None:
        arrays: dict[str, Any] = {
            "env": self.env.state_dict(),
            "survey": self.survey.state_dict(),
            "beliefs": self.beliefs.state_dict() if self.beliefs is not None else None,
        }
        if (policy := self._solving.policy_file(path)) is not None:
            arrays["policy"] = policy
        temporary = path.with_name(path.name + ".tmp")
        torch.save(packed(arrays), temporary)
        temporary.replace(path)

    def load(self, path: Path) -> None:
        arrays = unpacked(torch.load(path, weights_only=True))
        self.env.load_state_dict(arrays["env"])
        self.survey.load_state_dict(arrays["survey"])
        if self.beliefs is not None:
            self.beliefs.load_state_dict(arrays["beliefs"])
        self._begun = bool(arrays["env"].get("begun"))
        if not self._begun:
            self.survey.begin()
        self._policy_state = arrays.get("policy")

    def state_dict(self) -> dict[str, Any]:
        return {
            "env_steps": self.env_steps,
            "rng": self._rng.bit_generator.state,
            "errands": [asdict(errand) if errand else None for errand in self._errands],
            "done": self._done,
            "questions": [asdict(question) for question in self.questions],
            "asked": [asdict(question) for question in self._asked],
            "on_plan": self._on_plan,
            "solving": self._solving.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.env_steps, self._rng.bit_generator.state = state["env_steps"], state["rng"]
        self.questions = [Question(**question) for question in state["questions"]]
        self.survey.refresh()
        if self._begun:
            self._done = list(state["done"])
            self._asked = [Question(**question) for question in state["asked"]]
            self._on_plan = list(state["on_plan"])
            self._errands = [
                Errand(**{name: nested_tuples(value) for name, value in errand.items()}) if errand else None
                for errand in state["errands"]
            ]
        self._solving.load_state_dict(state["solving"], self._policy_state, self._imagined)
