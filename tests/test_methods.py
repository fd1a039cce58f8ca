"""A discovery method of one's own: one function that makes it, given to `discover`; nothing else changes."""

from typing import Any

import numpy as np
import pytest
from test_loop import SMALL, run, tiny

import lstoc_core as lstoc
from lstoc_core.discovery.method import DiscoveryMethod, Missing, Request
from lstoc_core.discovery.tree import SubgoalTree
from lstoc_core.run.methods import METHODS, Setting


class LastState:
    """Takes the state on which every success ends for the only subgoal, once so many successes agree."""

    def __init__(self, needed: int) -> None:
        self.needed = needed
        self.key_states: list[int] = []
        self.names = None
        self.missing = Missing.one("no success was seen")

    @property
    def paths(self):
        return tuple((key,) for key in self.key_states)

    @property
    def tree(self):
        return SubgoalTree.from_sequences((index,) for index in range(len(self.key_states)))

    @property
    def request(self):
        return Request(self.paths, self.paths)

    @property
    def finished(self):
        return not self.missing

    def advance(self, store):
        ends = store.ids[store.offsets[1:] - 1][store.positives]
        self.key_states = np.unique(ends).tolist()
        enough = len(ends) >= self.needed
        self.missing = (
            Missing() if enough else Missing.one(f"{len(ends)} successes end on {{}}", tuple(self.key_states))
        )
        return self.missing

    def state_dict(self) -> dict[str, Any]:
        return {"key_states": self.key_states, "missing": self.missing.to_json()}

    def load_state_dict(self, state) -> None:
        self.key_states, self.missing = state["key_states"], Missing.from_json(state["missing"])


def last_state(setting: Setting) -> DiscoveryMethod:
    return LastState(needed=30)


def test_a_method_of_ones_own_through_the_whole_loop(tmp_path):
    task = tiny("a")
    found = run(task, method=last_state, solve=True, max_steps=150_000)
    assert lstoc.score(found, task).exact
    assert (found.method, found.history[-1]["phase"]) == ("last_state", "solved")
    assert found.labeling.mapping == {0: "a"}, "the integer program names what the method leaves unnamed"
    for steps in (2_000, 150_000):
        resumed = run(task, method=last_state, solve=True, max_steps=steps, checkpoint=tmp_path)
    assert [record["env_steps"] for record in resumed.history] == [record["env_steps"] for record in found.history]


def test_what_it_misses_is_told_with_symbols():
    found = run(tiny("a"), method=last_state, max_steps=1_000)
    assert not found.finished
    assert found.missing.told(lambda path: "a").endswith("successes end on a")


@pytest.mark.parametrize("name", METHODS)
def test_the_methods_by_name_fulfil_the_protocol(name):
    env = tiny("a;b").vector_env(SMALL.num_envs, seed=0)
    method: DiscoveryMethod = METHODS[name](Setting(env, lstoc.parse("a;b").fsm(), SMALL, seed=0))
    assert (method.paths, method.names, method.finished) == ((), None, False)
    assert str(method.missing) == "no success was seen"
    assert len(method.tree) == 1
    assert not method.request.follow
    again = METHODS[name](Setting(env, lstoc.parse("a;b").fsm(), SMALL, seed=0))
    again.load_state_dict(method.state_dict())
    assert again.state_dict() == method.state_dict()


def test_sequences_that_do_not_fit_the_fsm_are_left_unnamed():
    found = run(tiny("a"), method=last_state, fsm=lstoc.parse("x;y").fsm(), max_steps=150_000)
    assert found.finished
    assert found.labeling is None


def test_a_checkpoint_of_another_explorer_or_method_is_refused(tmp_path):
    run(tiny("a"), method=last_state, max_steps=1_000, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="method='last_state' instead of 'LastState'"):
        run(tiny("a"), method=lambda setting: LastState(30), max_steps=1_000, checkpoint=tmp_path)
