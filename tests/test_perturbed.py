"""Wrong labels and noisy pixels are what they say, and nothing else changes."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from lstoc_core.trajectories.interned import InternedVectorEnv
from lstoc_core.trajectories.representation import LearnedIdentity, train_representation
from lstoc_core.worlds import compile_world, make_env
from lstoc_core.worlds.perturbed import FlippedLabels, NoisyPixels, SlipperyMoves


def test_labels_are_wrong_at_the_given_rate_and_episodes_are_the_same():
    plain, flipped = make_env(task="letter-1"), FlippedLabels(make_env(task="letter-1"), 0.2)
    actions = np.random.default_rng(0).integers(4, size=60_000)
    wrong, episodes = 0, 0
    plain.reset(seed=0)
    flipped.reset(seed=0)
    for action in actions:
        one, other = plain.step(action), flipped.step(action)
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1:4] == other[1:4]
        if one[2] or one[3]:
            episodes += 1
            wrong += one[4]["success"] != other[4]["success"]
            plain.reset()
            flipped.reset()
    assert episodes > 250
    assert 0.1 < wrong / episodes < 0.3


def test_a_label_that_says_nothing_is_refused():
    with pytest.raises(ValueError, match="less than 1/2"):
        FlippedLabels(make_env(task="letter-1"), 0.5)


@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_moves_slip_at_the_given_rate(rate):
    env, rng, slipped = SlipperyMoves(make_env(task="letter-1"), rate), np.random.default_rng(0), 0
    env.reset(seed=0)
    grid = env.unwrapped
    for action in rng.integers(4, size=4_000):
        expected = grid.world.next_position[grid.position, action]
        _, _, terminated, truncated, _ = env.step(action)
        slipped += grid.position != expected
        if terminated or truncated:
            env.reset()
    assert slipped / 4_000 == pytest.approx(0.75 * rate, abs=0.02), "a quarter of the random moves are the chosen ones"


def test_a_rate_of_slips_is_a_probability():
    with pytest.raises(ValueError, match="from 0 to 1"):
        SlipperyMoves(make_env(task="letter-1"), 1.5)


@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
@pytest.mark.parametrize(
    "env",
    [
        NoisyPixels(make_env(task="crafter-1")),
        FlippedLabels(make_env(task="letter-1"), 0.1),
        SlipperyMoves(make_env(task="letter-1"), 0.1),
    ],
)
def test_gymnasium_has_no_complaint(env):
    check_env(env, skip_render_check=True)


def test_noisy_pixels_never_repeat_but_the_learned_identity_knows_the_state():
    env = NoisyPixels(make_env(task="crafter-1"))
    world = compile_world("crafter-1")
    rows = world.observations[:40]
    encoder = train_representation(rows, seed=0, iterations=60, batch=40)
    vector = InternedVectorEnv([env], LearnedIdentity(encoder))
    rng = np.random.default_rng(0)
    vector.reset(seed=0)
    for _ in range(20):
        vector.step(rng.integers(4, size=1))
    seen = env.observation(rows[0])
    assert (seen != env.observation(rows[0])).any()
    assert np.abs(seen.astype(int) - rows[0]).max() <= 3
    ids = vector.identity.ids(np.stack([env.observation(row) for row in rows]))
    again = vector.identity.ids(np.stack([env.observation(row) for row in rows]))
    np.testing.assert_array_equal(ids, again)
    assert len(np.unique(ids)) == len(rows)
