"""The vectorised rewards against the rules written out for one environment at a time."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lstoc_core.policies.rewards import RewardConfig, RewardModel, RewardPlan
from lstoc_core.trajectories.recorder import EpisodeRecorder

FULL = RewardConfig(success=1.0, explained=0.25, progress=0.125, bonus=0.03125, approach=0.0625)


def contains(visits, path):
    """Whether the path is a subsequence of the visits."""
    remaining = iter(visits)
    return all(key in remaining for key in path)


def depth(visits, paths):
    """Length of the longest prefix of any path that has been visited in order."""
    return max((n for path in paths for n in range(len(path) + 1) if contains(visits, path[:n])), default=0)


def way_left(visits, here, paths, ways):
    """Fewest steps to the end of a path, key state after key state, from any place on it that has been reached."""

    def onward(path, at, here):
        if at == len(path):
            return 0
        steps = ways.get(path[at], [])
        return steps[here] + onward(path, at + 1, path[at]) if here < len(steps) else math.inf

    reached = [(path, at) for path in paths for at in range(len(path) + 1) if contains(visits, path[:at])]
    return min((onward(path, at, here) for path, at in reached), default=math.inf)


def reference(config, paths, explained, ways, worth, episode, success):
    """Rewards of one episode (ids, the start first), straight from the definitions."""
    rewards, seen = [], {episode[0]}
    paid_for = way_left([], episode[0], paths, ways)
    for time in range(1, len(episode)):
        before, now, here = episode[1:time], episode[1 : time + 1], episode[time]
        reward = config.progress * (depth(now, paths) > depth(before, paths))
        if here not in seen:
            reward += config.bonus * (worth[here] if here < len(worth) else 1)
        seen.add(here)
        left = way_left(now, here, paths, ways)
        if paid_for == math.inf:
            paid_for = left
        elif left < paid_for:
            reward += config.approach
            paid_for -= 1
        if config.rearm and depth(now, [*paths, *explained]) > depth(before, [*paths, *explained]):
            seen = {here}
        if config.quiet and any(contains(now, path[:-1]) for path in explained):
            reward = 0.0
        if time == len(episode) - 1 and success:
            reward += config.explained if any(contains(now, path) for path in explained) else config.success
        rewards.append(reward)
    return rewards


class Paid:
    """A reward model and the recorder of the episodes that it speaks of."""

    def __init__(self, num_envs, plan):
        self.model, self.recorder = RewardModel(num_envs, plan), EpisodeRecorder(num_envs)

    def follow(self, plan):
        self.model.follow(plan, self.recorder.running)

    def reset(self, ids):
        self.model.reset(ids)
        self.recorder.begin(ids)

    def step(self, *arguments):
        rewards = self.model.step(*arguments)
        self.recorder.step(*arguments)
        return rewards


def run(model, streams, lengths, labels, *, between=None):
    """Feed streams of ids [E][t] cut into episodes; rewards per environment, in order of time."""
    num_envs, time = len(streams), len(streams[0]) - 1
    at = np.zeros(num_envs, int)  # which episode is running
    position = np.zeros(num_envs, int)  # steps taken in it
    columns = np.array(streams)
    model.reset(columns[:, 0])
    out = [[] for _ in range(num_envs)]
    for step in range(1, time + 1):
        if between is not None:
            between(step)
        position += 1
        done = np.array([position[e] == lengths[e][at[e]] for e in range(num_envs)])
        success = np.array([labels[e][at[e]] for e in range(num_envs)])
        rewards = model.step(columns[:, step], done, success, columns[:, step])
        for e in range(num_envs):
            out[e].append(float(rewards[e]))
        at += done
        position[done] = 0
    return out


ids = st.integers(0, 4)
path = st.lists(ids, min_size=1, max_size=4).map(tuple)
number = st.sampled_from([1.0, 2.0, 3.0, 7.0, math.inf])
some_worth = st.lists(st.sampled_from([0.0, 0.5, 1.0]), max_size=5).map(np.array)
some_ways = st.dictionaries(ids, st.lists(number, min_size=1, max_size=5).map(np.array))


@st.composite
def worlds(draw):
    """Several environments with episodes of random lengths over the same number of steps."""
    num_envs, time = draw(st.integers(1, 3)), draw(st.integers(1, 25))
    streams = [draw(st.lists(ids, min_size=time + 1, max_size=time + 1)) for _ in range(num_envs)]
    lengths, labels = [], []
    for _ in range(num_envs):
        parts = []
        while sum(parts) <= time:
            parts.append(draw(st.integers(1, 12)))
        lengths.append(parts)
        labels.append([draw(st.booleans()) for _ in parts])
    return streams, lengths, labels


def episodes(stream, lengths, labels):
    """The stream of one environment as episodes; the final observation of one is the start of the next."""
    start = 0
    for length, label in zip(lengths, labels, strict=True):
        piece = stream[start : start + length + 1]
        yield piece, label and len(piece) == length + 1
        start += length
        if start >= len(stream) - 1:
            return


configs = st.builds(
    replace, st.just(FULL), rearm=st.booleans(), quiet=st.booleans(), bonus=st.sampled_from([0.0, 0.03125])
)


@given(worlds(), st.lists(path, max_size=3), st.lists(path, max_size=2), some_ways, some_worth, configs)
@settings(max_examples=150, deadline=None)
def test_rewards_follow_the_rules(world, paths, explained, ways, worth, config):
    streams, lengths, labels = world
    plan = RewardPlan(config, tuple(paths), tuple(explained), ways, worth)
    got = run(Paid(len(streams), plan), *world)
    for stream, parts, marks, mine in zip(streams, lengths, labels, got, strict=True):
        expected = [
            r
            for episode, success in episodes(stream, parts, marks)
            for r in reference(config, paths, explained, ways, worth, episode, success)
        ]
        assert mine == expected


@given(worlds(), st.lists(path, max_size=3), st.lists(path, max_size=2), some_ways, configs, st.data())
@settings(max_examples=60, deadline=None)
def test_sequences_and_config_may_change_within_episodes(world, paths, explained, ways, config, data):
    """After the change, rewards are those of a model that had them from the start."""
    change = data.draw(st.integers(1, len(world[0][0]) - 1))
    model = Paid(len(world[0]), RewardPlan(RewardConfig(bonus=0.5), ((0,), (1, 2)), ((3,),)))
    plan = RewardPlan(config, tuple(paths), tuple(explained), ways)

    def between(step):
        if step == change:
            model.follow(plan)

    late = run(model, *world, between=between)
    for mine, other in zip(late, run(Paid(len(world[0]), plan), *world), strict=True):
        assert mine[change - 1 :] == other[change - 1 :]


@given(worlds(), st.lists(path, max_size=3), st.lists(path, max_size=2), some_ways, some_worth, configs, st.data())
@settings(max_examples=40, deadline=None)
def test_a_saved_state_goes_on_the_same(world, paths, explained, ways, worth, config, data):
    change = data.draw(st.integers(1, len(world[0][0]) - 1))
    plan = RewardPlan(config, tuple(paths), tuple(explained), ways, worth)
    expected = run(Paid(len(world[0]), plan), *world)
    swapped = Paid(len(world[0]), plan)

    def between(step):
        """Before step `change`, save plan and episodes, and load them into fresh ones."""
        if step == change:
            recorder = EpisodeRecorder(len(world[0]))
            recorder.load_state_dict(swapped.recorder.state_dict())
            same = RewardPlan.from_state_dict(swapped.model.plan.state_dict())
            swapped.model, swapped.recorder = RewardModel(len(world[0]), same, recorder.running), recorder

    assert run(swapped, *world, between=between) == expected


@given(worlds(), st.lists(path, max_size=3), st.lists(path, max_size=2), some_ways, configs)
@settings(max_examples=40, deadline=None)
def test_following_the_same_plan_again_changes_nothing(world, paths, explained, ways, config):
    """Not even when it is worked out anew: replaying the running episodes gives what stepping them gave."""
    plan = RewardPlan(config, tuple(paths), tuple(explained), ways)
    expected = run(Paid(len(world[0]), plan), *world)
    for again in (plan, replace(plan, ways=dict(ways))):
        model = Paid(len(world[0]), plan)
        assert run(model, *world, between=lambda step, model=model, again=again: model.follow(again)) == expected


def one(config, paths, explained, episode, success=False, ways=None):
    """Rewards of a single episode."""
    model = Paid(1, RewardPlan(config, tuple(paths), tuple(explained), ways or {}))
    return run(model, [episode], [[len(episode) - 1]], [[success]])[0]


def test_the_papers_example_of_auxiliary_rewards():
    """r_a for the first visit to s1 and then for the first visit to s2; none for s2 before s1."""
    config = RewardConfig(progress=1.0)
    assert one(config, [(1, 2)], [], [0, 1, 0, 2, 1, 2]) == [1, 0, 1, 0, 0]
    assert one(config, [(1, 2)], [], [0, 2, 0, 2]) == [0, 0, 0]
    assert one(config, [(1, 2)], [], [1, 2, 1]) == [0, 1], "the start is not a visit"


def test_a_second_branch_pays_only_where_it_gets_further():
    config = RewardConfig(progress=1.0)
    assert one(config, [(1, 2, 4), (3, 4)], [], [0, 1, 3, 4, 2, 4]) == [1, 0, 1, 0, 1]


def test_explained_successes_and_the_step_before_them():
    config = RewardConfig(success=1, explained=0.5, progress=0.25, bonus=0.125)
    known = [(1, 2)]
    assert one(config, known, known, [0, 3, 1, 4, 2], True) == [0.125, 0, 0, 0.5]
    assert one(config, known, known, [0, 3, 2, 4, 0], True) == [0.125, 0.125, 0.125, 1.0]
    assert one(replace(config, quiet=False), known, known, [0, 1, 2], True) == [0.375, 0.875]


def test_the_bonus_is_armed_again_by_an_advance():
    config = RewardConfig(bonus=1.0)
    assert one(config, [(1,)], [], [0, 2, 1, 2, 1, 0]) == [1, 1, 1, 0, 1]
    assert one(replace(config, rearm=False), [(1,)], [], [0, 2, 1, 2, 1, 0]) == [1, 1, 0, 0, 0]


CORRIDOR = {key: abs(np.arange(5.0) - key) + 2 * (np.arange(5) == key) for key in range(5)}


def test_approach_pays_for_each_step_nearer_and_only_once():
    config = RewardConfig(approach=1.0)
    assert one(config, [(4, 0)], [], [2, 1, 2, 3, 4, 3, 2, 9, 1, 0], ways=CORRIDOR) == [0, 0, 1, 1, 1, 1, 0, 1, 1]
    assert one(config, [(4, 0)], [], [4, 3, 4, 3], ways=CORRIDOR) == [1, 1, 1], "the start is not a visit"
    assert one(config, [(4, 0)], [], [2, 3, 4], ways={0: CORRIDOR[0]}) == [0, 0], "no way is known"


def test_a_place_that_looks_nearer_than_it_is_pays_once_and_hides_nothing():
    config = RewardConfig(approach=1.0)
    assert one(config, [(4,)], [], [0, 3, 1, 2, 3, 4], ways=CORRIDOR) == [1, 0, 1, 1, 1]


def test_any_number_of_observations_and_steps():
    length = 300
    model = Paid(2, RewardPlan(RewardConfig(bonus=1.0)))
    episode = list(range(1, length + 2))
    got = run(model, [episode, [0] * (length + 1)], [[length], [length]], [[True], [False]])
    assert got == [[1.0] * (length - 1) + [2.0], [0.0] * length]
    store = model.recorder.store
    assert store.ids.tolist() == episode + [0] * (length + 1)
    assert store.lengths.tolist() == [length + 1] * 2
    assert store.labels.tolist() == [True, False]


def test_a_state_of_another_number_of_environments_is_refused():
    with pytest.raises(ValueError, match="2 environments"):
        EpisodeRecorder(3).load_state_dict(EpisodeRecorder(2).state_dict())


def test_approach_counts_no_step_of_episodes_that_are_shorter_than_others():
    """When sequences change, running episodes are replayed together, but each only as far as it has come."""
    config, ways = RewardConfig(approach=1.0), {0: np.array([1.0, 2.0, 3.0])}
    model = Paid(2, RewardPlan(config))

    def between(step):
        if step == 6:
            model.follow(RewardPlan(config, ((0,),), ways=ways))

    streams = [[2, 0, 1, 1, 1, 1, 0], [2, 2, 2, 2, 2, 0, 1]]
    rewards = run(model, streams, [[6], [4, 2]], [[False], [False, False]], between=between)
    assert rewards[1][-1:] == one(config, [(0,)], [], [2, 0, 1], ways=ways)[-1:]
