"""The policy against independent oracles: the readable reference, torch's GRU, and plain probability."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lstoc_core.policies.fused_gru import _Buffers
from lstoc_core.policies.gru import ProjectedTable, RecurrentPolicy, log_policy, sample

torch.set_num_threads(1)
TIME, BATCH, ROWS, ACTIONS = 7, 3, 5, 4


def make(shape=(2, 3), dtype=np.uint8, **options):
    generator = torch.Generator().manual_seed(1)
    return RecurrentPolicy(
        shape, dtype, ACTIONS, generator=generator, **{"hidden": 6, "features": 8, **options}
    ).double()


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return {
        "table": rng.integers(0, 2, (ROWS, 2, 3), dtype=np.uint8),
        "ids": torch.from_numpy(rng.integers(0, ROWS, (TIME, BATCH))),
        "hidden": torch.from_numpy(rng.normal(size=(BATCH, 6))),
        "begins": torch.from_numpy(rng.random((TIME, BATCH)) < 0.3),
        "weights": torch.from_numpy(rng.normal(size=(TIME, BATCH, ACTIONS + 1))),
    }


def scalar(logits, values, weights):
    """A loss that depends on every output in its own way."""
    return (torch.cat([logits, values.unsqueeze(-1)], -1).tanh() * weights).sum()


def project(policy, table):
    return policy.project(policy.embedding(table))


def gradients(policy, loss, *others):
    return torch.autograd.grad(loss, [*policy.parameters(), *others])


def oracle(policy, table, ids, hidden, begins):
    """The same network by torch's own GRU, fed with every observation embedded, episode by episode."""
    size, features = policy.hidden_size, policy.input.weight.shape[1]
    gru = nn.GRU(features, size).double()
    zeros = torch.zeros(2 * size, dtype=torch.float64)
    weights = {
        "weight_ih_l0": policy.input.weight,
        "bias_ih_l0": policy.input.bias,
        "weight_hh_l0": policy.recurrent,
        "bias_hh_l0": torch.cat([zeros, policy.recurrent_bias]),
    }
    columns = []
    for env in range(ids.shape[1]):
        state, states, embedded = hidden[env].view(1, 1, -1), [], []
        for time in range(len(ids)):
            state = state * (not begins[time, env])
            observation = torch.from_numpy(table[ids[time, env]]).double().flatten()
            embedded.append(policy.embed(observation[None]))
            _, state = torch.func.functional_call(gru, weights, (embedded[-1][None], state))
            states.append(state[0])
        columns.append(policy.output(torch.cat([torch.cat(states), torch.cat(embedded)], -1)))
    outputs = torch.stack(columns, 1)
    return outputs[..., :-1], outputs[..., -1]


def assert_equal_with_gradients(policy, ours, theirs, weights, hidden, tolerance=1e-10):
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=tolerance)
    for mine, other in zip(
        gradients(policy, scalar(*ours, weights), hidden),
        gradients(policy, scalar(*theirs, weights), hidden),
        strict=True,
    ):
        torch.testing.assert_close(mine, other, rtol=0, atol=tolerance)


def test_the_reference_is_torchs_gru(data):
    policy, hidden = make(), data["hidden"].requires_grad_()
    arguments = data["table"], data["ids"], hidden, data["begins"]
    assert_equal_with_gradients(
        policy, policy.reference(*arguments), oracle(policy, *arguments), data["weights"], hidden
    )


@given(
    time=st.integers(1, 9),
    batch=st.integers(1, 5),
    rows=st.integers(1, 6),
    units=st.integers(1, 7),
    begins=st.sampled_from([0.0, 0.3, 1.0]),
    memoryless=st.booleans(),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=60, deadline=None)
def test_the_fused_recurrence_equals_the_reference(time, batch, rows, units, begins, memoryless, seed):
    rng = np.random.default_rng(seed)
    policy = make(hidden=units, memoryless=memoryless)
    with torch.no_grad():
        for parameter in policy.parameters():  # large weights and biases, so that every term counts
            parameter.copy_(torch.from_numpy(rng.normal(scale=0.7, size=parameter.shape)))
    table = rng.integers(0, 2, (rows, 2, 3), dtype=np.uint8)
    hidden = torch.from_numpy(rng.normal(size=(batch, units))).requires_grad_()
    ids = torch.from_numpy(rng.integers(0, rows, (time, batch)))
    first = torch.from_numpy(rng.random((time, batch)) < begins)
    weights = torch.from_numpy(rng.normal(size=(time, batch, ACTIONS + 1)))
    fused = policy(project(policy, table), ids, hidden, first)
    assert_equal_with_gradients(policy, fused, policy.reference(table, ids, hidden, first), weights, hidden)


@pytest.mark.parametrize("shape", [(2, 3), (36, 40, 3)], ids=["vector", "pixels"])
def test_single_precision_and_pixels_equal_the_reference(data, shape):
    policy = make(shape).float()
    table = np.random.default_rng(2).integers(0, 256 if len(shape) > 2 else 2, (ROWS, *shape), dtype=np.uint8)
    hidden = data["hidden"].float().requires_grad_()
    fused = policy(project(policy, table), data["ids"], hidden, data["begins"])
    reference = policy.reference(table, data["ids"], hidden, data["begins"])
    assert_equal_with_gradients(policy, fused, reference, data["weights"].float(), hidden, tolerance=2e-4)


def test_memory_of_few_shapes_is_kept(data):
    policy = make()
    for time in range(1, TIME + 1):
        outputs = policy(project(policy, data["table"]), data["ids"][:time], data["hidden"], data["begins"][:time])
        scalar(*outputs, data["weights"][:time]).backward()
    assert [key[0] for key in _Buffers._free] == list(range(TIME + 1 - _Buffers.LIMIT, TIME + 1))
    kept = _Buffers._free[TIME, BATCH, 6, torch.float64]
    policy(project(policy, data["table"]), data["ids"], data["hidden"], data["begins"])[1].sum().backward()
    assert _Buffers._free[TIME, BATCH, 6, torch.float64] is kept, "the same memory is used again"


@pytest.mark.parametrize("shape", [(2, 3), (36, 40, 3)], ids=["vector", "pixels"])
def test_gradients_with_a_table_equal_those_of_embedding_every_observation(data, shape):
    policy = make(shape)
    table = np.random.default_rng(2).integers(0, 256, (ROWS, *shape), dtype=np.uint8)
    ids = data["ids"]
    once = policy(project(policy, table), ids, data["hidden"], data["begins"])
    every = project(policy, table[ids.flatten()])
    unrepeated = policy(every, torch.arange(ids.numel()).view_as(ids), data["hidden"], data["begins"])
    for mine, other in zip(
        gradients(policy, scalar(*once, data["weights"])),
        gradients(policy, scalar(*unrepeated, data["weights"])),
        strict=True,
    ):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-10)


def test_nothing_leaks_from_an_episode_into_the_next(data):
    policy, ids = make(), data["ids"]
    begins = torch.zeros(TIME, BATCH, dtype=torch.bool)
    begins[4] = True
    other = ids.clone()
    other[:4] = (other[:4] + 1) % ROWS
    projection = project(policy, data["table"])
    first, second = (policy(projection, x, data["hidden"], begins) for x in (ids, other))
    for mine, changed in zip(first, second, strict=True):
        assert torch.equal(mine[4:], changed[4:])
        assert not torch.isclose(mine[3], changed[3]).any()
    unmarked = policy(projection, ids, data["hidden"], torch.zeros_like(begins))
    assert not torch.isclose(first[1][4:], unmarked[1][4:]).any(), "the state does matter when no episode begins"


@pytest.mark.parametrize("memoryless", [False, True])
def test_stepping_gives_the_same_as_the_sequence(data, memoryless):
    policy = make(memoryless=memoryless)
    projection, hidden = project(policy, data["table"]), data["hidden"]
    logits, values = policy(projection, data["ids"], hidden, data["begins"])
    for time in range(TIME):
        hidden = hidden * ~data["begins"][time].unsqueeze(1)
        step = policy.step(projection, data["ids"][time], hidden)
        hidden = step.hidden
        torch.testing.assert_close(step.logits, logits[time], rtol=0, atol=1e-12)
        torch.testing.assert_close(step.value, values[time], rtol=0, atol=1e-12)


def test_without_memory_only_the_present_observation_counts(data):
    policy = make(memoryless=True)
    logits, _ = policy(project(policy, data["table"]), data["ids"], data["hidden"], data["begins"])
    for row in range(ROWS):
        same = logits[data["ids"] == row]
        assert torch.allclose(same, same[:1].expand_as(same))


def test_two_forward_passes_may_precede_their_backward_passes(data):
    policy = make()
    alone = []
    for ids in (data["ids"], data["ids"].flip(0)):
        outputs = policy(project(policy, data["table"]), ids, data["hidden"], data["begins"])
        alone.append(gradients(policy, scalar(*outputs, data["weights"])))
    losses = [
        scalar(*policy(project(policy, data["table"]), ids, data["hidden"], data["begins"]), data["weights"])
        for ids in (data["ids"], data["ids"].flip(0))
    ]
    for loss, expected in zip(losses, alone, strict=True):
        for mine, other in zip(gradients(policy, loss), expected, strict=True):
            assert torch.equal(mine, other)


def test_a_second_backward_pass_is_refused(data):
    policy = make()
    loss = scalar(*policy(project(policy, data["table"]), data["ids"], data["hidden"], data["begins"]), data["weights"])
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="forward pass again"):
        loss.backward()


logits_rows = st.lists(st.lists(st.floats(-30, 30), min_size=3, max_size=3), min_size=1, max_size=4)


@given(logits_rows, st.sampled_from([0.0, 1e-9, 0.1, 0.5, 1.0]))
@settings(max_examples=60, deadline=None)
def test_mixture_log_probabilities(rows, epsilon):
    logits = torch.tensor(rows, dtype=torch.float64)
    weights = np.exp(np.array(rows))
    expected = (1 - epsilon) * weights / weights.sum(1, keepdims=True) + epsilon / 3
    np.testing.assert_allclose(log_policy(logits, epsilon).exp().numpy(), expected, rtol=1e-12, atol=1e-300)


def test_mixture_has_a_finite_gradient_at_both_ends():
    for epsilon in (0.0, 1.0):
        logits = torch.tensor([[0.0, 200.0, -200.0]], requires_grad=True)
        log_policy(logits, epsilon)[0, 1].backward()
        assert torch.isfinite(logits.grad).all()


@given(logits_rows, st.floats(0, 1, exclude_max=True))
@settings(max_examples=60, deadline=None)
def test_sampling_inverts_the_cumulative_distribution(rows, draw):
    log_probability = log_policy(torch.tensor(rows, dtype=torch.float64))
    for row, action in zip(log_probability.exp(), sample(log_probability, torch.full((len(rows),), draw)), strict=True):
        assert row[:action].sum() <= draw + 1e-6
        assert action == len(row) - 1 or draw < row[: action + 1].sum() + 1e-6


def test_which_observations_are_pixels():
    policy = make((80, 80, 3), hidden=None, features=None)
    assert policy.hidden_size == 256
    sizes = [tuple(p.shape) for p in policy.embed.parameters() if p.ndim > 1]
    assert sizes == [(32, 3, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (512, 64 * 6 * 6)]
    assert make((36, 36, 1)).pixels, "grey pictures are pictures"
    assert not make((36, 36, 3), np.float32).pixels
    assert not make((10, 10, 3)).pixels, "a small binary view with three channels is not a picture"
    assert make((10, 10, 3), hidden=None).hidden_size == 128


def test_a_projected_table_fills_itself_and_grows(data):
    class World:
        observations = data["table"]

    policy, world = make(), World()
    table = ProjectedTable(policy, world, np.array([2]))
    for ids in (np.array([2, 2]), np.array([0, 4, 2]), np.array([1])):
        projection, slots = table.look_up(ids)
        torch.testing.assert_close(projection.gates[slots], project(policy, data["table"][ids]).gates)
    world.observations = np.concatenate([data["table"], 1 - data["table"]])
    projection, slots = table.look_up(np.array([9, 0, 5]))
    torch.testing.assert_close(projection.outputs[slots], project(policy, world.observations[[9, 0, 5]]).outputs)


def test_initial_weights_come_from_the_generator_alone():
    state = torch.random.get_rng_state()
    first, second = make(), make()
    assert torch.equal(torch.random.get_rng_state(), state)
    for mine, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(mine, other)
    with torch.no_grad():
        logits = first.step(project(first, np.eye(6).reshape(6, 2, 3)), torch.arange(6), first.initial_hidden(6)).logits
    assert logits.abs().max() < 0.1, "the first policy is nearly uniform"
