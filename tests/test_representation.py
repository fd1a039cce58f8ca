"""The encoders of the appendix, InfoNCE, and identities on observations that training never saw."""

import numpy as np
import pytest
import torch

import lstoc_core as lstoc
from lstoc_core.trajectories.representation import (
    MLP,
    SAME_STATE,
    ExactIdentity,
    LearnedIdentity,
    NatureCNN,
    make_encoder,
    represent,
    train_representation,
)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def letter_encoder() -> MLP | NatureCNN:
    return train_representation(lstoc.compile_world("letter-1").observations, seed=0)


def test_encoders_are_those_of_the_appendix():
    mlp = make_encoder((5, 5, 7), np.bool_)
    assert isinstance(mlp, MLP)
    assert [tuple(p.shape) for p in mlp.parameters()] == [(128, 175), (128,), (128, 128), (128,)]
    cnn = make_encoder((80, 80, 3), np.uint8)
    assert isinstance(cnn, NatureCNN)
    convolutions = [m for m in cnn.modules() if isinstance(m, torch.nn.Conv2d)]
    assert [(c.out_channels, c.kernel_size[0], c.stride[0]) for c in convolutions] == [
        (32, 8, 4),
        (64, 4, 2),
        (64, 3, 1),
    ]
    assert cnn(torch.zeros(2, 80, 80, 3, dtype=torch.uint8)).shape == (2, 512)


def test_held_out_states_are_told_apart_and_noisy_copies_are_not(letter_encoder):
    """Another layout of letters: none of these observations was trained on."""
    known = {o.tobytes() for o in lstoc.compile_world("letter-1").observations}
    held_out = lstoc.compile_world("letter-2").observations
    assert not known & {o.tobytes() for o in held_out}
    clean = represent(letter_encoder, held_out)
    noise = np.random.default_rng(0).normal(0, 0.01, held_out.shape).astype(np.float32)
    noisy = represent(letter_encoder, held_out + noise)
    similarity = (clean @ clean.T).fill_diagonal_(-1)
    assert similarity.max() < SAME_STATE
    assert (clean * noisy).sum(1).min() > SAME_STATE


def test_both_identities_give_the_same_ids_where_observations_repeat(letter_encoder):
    observations = lstoc.compile_world("letter-2").observations
    rng = np.random.default_rng(1)
    exact, learned = ExactIdentity(), LearnedIdentity(letter_encoder)
    for _ in range(4):
        batch = observations[rng.integers(0, len(observations), 60)]
        assert np.array_equal(exact.ids(batch), learned.ids(batch))
    assert np.array_equal(exact.observations, learned.observations)
    assert len(exact.observations) == len({o.tobytes() for o in exact.observations})


def test_learned_identity_sees_through_noise(letter_encoder):
    observations = lstoc.compile_world("letter-2").observations.astype(np.float32)
    identity = LearnedIdentity(letter_encoder)
    ids = identity.ids(observations)
    noise = np.random.default_rng(2).normal(0, 0.01, observations.shape).astype(np.float32)
    assert np.array_equal(identity.ids(observations + noise), ids)
    assert len(identity.observations) == len(observations)
    assert len(identity.ids(observations[:0])) == 0


def test_training_is_reproducible_and_leaves_the_global_stream_alone():
    observations = lstoc.compile_world("letter-1").observations
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    first, second = (train_representation(observations, seed=3, iterations=5) for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_bad_input(letter_encoder):
    with pytest.raises(ValueError, match="at least 2"):
        train_representation(np.zeros((1, 5, 5)), seed=0)
    with pytest.raises(ValueError, match="between -1 and 1"):
        LearnedIdentity(letter_encoder, threshold=99)
    with pytest.raises(ValueError, match="empty"):
        len(LearnedIdentity(letter_encoder).observations)
