"""The store and its vectorised queries against plain Python on the lists they stand for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lstoc_core.trajectories import (
    TrajectoryStore,
    after,
    contains,
    earliest_match,
    explained_by,
    first_occupancy,
    latest_match,
    matching,
    segment_counts,
    shortest_ways,
)
from lstoc_core.trajectories import store as store_module

IDS = 5
batches = st.lists(st.lists(st.lists(st.integers(0, IDS - 1), min_size=1, max_size=12), max_size=5), max_size=4)
paths = st.lists(st.integers(0, IDS - 1), max_size=4)


def stored(groups: list[list[list[int]]]) -> tuple[TrajectoryStore, list[list[int]]]:
    """A store that was queried between appends, so that its index had to be extended, and the same as lists."""
    store = TrajectoryStore(IDS)
    for group in groups:
        store.append(group, None, [sum(t) % 2 == 0 for t in group])
        contains(store, [0, 1])
        first_occupancy(store)
    return store, [t for group in groups for t in group]


def visits_in_order(trajectory: list[int], path: list[int]) -> bool:
    rest = iter(trajectory[1:])
    return all(x in rest for x in path)


@given(batches)
def test_store_gives_back_what_was_appended(groups):
    store, lists = stored(groups)
    assert len(store) == len(lists)
    assert [store.trajectory(i).tolist() for i in range(len(store))] == lists
    assert store.positives.tolist() == [i for i, t in enumerate(lists) if sum(t) % 2 == 0]
    assert sorted([*store.positives, *store.negatives]) == list(range(len(lists)))
    assert store.num_steps == sum(len(t) - 1 for t in lists)


@given(batches, paths)
def test_matches_agree_with_scanning(groups, path):
    store, lists = stored(groups)
    earliest, latest = earliest_match(store, path), latest_match(store, path)
    for i, t in enumerate(lists):
        begin = store.offsets[i]
        ends = [k for k in range(len(t)) if visits_in_order(t[: k + 1], path)]
        starts = [k for k in range(1, len(t) + 1) if visits_in_order([-1, *t[k:]], path)]
        assert earliest[i] == (begin + ends[0] if ends else -1)
        assert latest[i] == (begin + starts[-1] if starts else -1)
    assert (contains(store, path) == [visits_in_order(t, path) for t in lists]).all()


@given(batches)
def test_shortest_ways_agree_with_scanning(groups):
    store, lists = stored(groups)
    ways = shortest_ways(store, range(IDS))
    for key in range(IDS):
        for start in range(IDS):
            gone = [
                j - i
                for t in lists
                for i in range(len(t))
                for j in range(i + 1, len(t))
                if (t[i], t[j]) == (start, key)
            ]
            assert ways[key][start] == min(gone, default=np.inf)


@given(batches, st.lists(paths, max_size=3))
def test_explained_by_any_sequence(groups, sequences):
    store, lists = stored(groups)
    assert explained_by(store, sequences).tolist() == [any(visits_in_order(t, s) for s in sequences) for t in lists]


@given(batches, paths, paths)
def test_after_keeps_the_rest_and_the_order(groups, path, rest):
    store, lists = stored(groups)
    chosen = [i for i, t in enumerate(lists) if visits_in_order(t, path)]
    if not chosen:
        with pytest.raises(ValueError, match="in order"):
            after(store, path)
        return
    cut = after(store, path)
    assert (cut.labels == store.labels[chosen]).all()
    assert (contains(cut, rest) == contains(store, [*path, *rest])[chosen]).all()
    for i, t in zip(range(len(cut)), (lists[i] for i in chosen), strict=True):
        assert cut.trajectory(i).tolist() == t[len(t) - len(cut.trajectory(i)) :]
        assert cut.trajectory(i)[0] == (path[-1] if path else t[0])


@given(batches)
def test_first_occupancy_keeps_first_visits_in_order(groups):
    store, lists = stored(groups)
    fr = first_occupancy(store)
    assert [fr.trajectory(i).tolist() for i in range(len(fr))] == [[t[0], *dict.fromkeys(t[1:])] for t in lists]
    assert (fr.labels == store.labels).all()


@given(batches, st.data())
def test_segment_counts_agree_with_sets(groups, data):
    store, lists = stored(groups)
    start, stop, seen = [], [], np.zeros(IDS + 2, int)
    for begin, t in zip(store.offsets, lists, strict=False):
        a, b = data.draw(st.integers(0, len(t) - 1)), data.draw(st.integers(0, len(t)))
        start.append(begin + a)
        stop.append(begin + b)
        for x in set(t[a + 1 : b]):
            seen[x] += 1
    assert segment_counts(store, start, stop, IDS + 2).tolist() == seen.tolist()


@settings(max_examples=20)
@given(batches, st.integers(1, 7))
def test_results_do_not_depend_on_the_block_size(groups, block):
    store, _ = stored(groups)
    whole = segment_counts(store, store.offsets[:-1], store.offsets[1:], IDS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "BLOCK", block)
        patch.setattr(matching, "BLOCK", block)
        again = TrajectoryStore(IDS)
        again.append_flat(store.ids, store.lengths, store.labels)
        assert (again.previous == store.previous).all()
        assert (segment_counts(again, again.offsets[:-1], again.offsets[1:], IDS) == whole).all()


@given(batches)
def test_select_by_index_and_by_mask(groups):
    store, lists = stored(groups)
    odd = np.arange(len(lists))[1::2]
    for chosen in (store.select(odd), store.select(np.isin(np.arange(len(lists)), odd))):
        assert [chosen.trajectory(i).tolist() for i in range(len(chosen))] == [lists[i] for i in odd]
    assert store.select([]).num_ids == IDS


@given(batches)
def test_files_round_trip(tmp_path_factory, groups):
    store, _ = stored(groups)
    path = tmp_path_factory.mktemp("store") / "t.npz"
    store.save(path)
    again = TrajectoryStore.load(path)
    for name in ("ids", "offsets", "labels"):
        assert np.array_equal(getattr(again, name), getattr(store, name))
    assert again.num_ids == store.num_ids


def test_padded_batches_and_tables_larger_than_16_bits():
    store = TrajectoryStore()
    store.append(np.array([[70_000, 1, 70_000, 1], [2, 3, 99, 99]]), [4, 2], [True, False])
    assert store.trajectory(1).tolist() == [2, 3]
    assert store.num_ids == 70_001
    assert store.previous.tolist() == [-1, -1, 0, 1, -1, -1]
    assert not contains(store, [80_000]).any()


def test_views_are_read_only():
    store, _ = stored([[[0, 1]]])
    with pytest.raises(ValueError, match="read-only"):
        store.trajectory(0)[0] = 3


@pytest.mark.parametrize(
    ("ids", "lengths", "labels", "message"),
    [
        ([0, 5], [2], [True], "id 5 is outside the table of 5"),
        ([-1, 0], [2], [True], "id -1 is outside"),
        ([0, 1], [2, 0], [True, True], "empty"),
        ([0, 1], [3], [True], "add up to 3"),
        ([0, 1], [1, 1], [True], "one label per trajectory"),
    ],
)
def test_bad_batches_name_the_fault_and_change_nothing(ids, lengths, labels, message):
    store = TrajectoryStore(IDS)
    with pytest.raises(ValueError, match=message):
        store.append_flat(ids, lengths, labels)
    assert len(store) == store.size == 0


def test_other_bad_input():
    store, _ = stored([[[0, 1, 2]]])
    with pytest.raises(ValueError, match="id 7 is outside"):
        earliest_match(store, [1, 7])
    with pytest.raises(TypeError, match="intern"):
        store.append_flat([0.5], [1], [True])
    with pytest.raises(ValueError, match="lengths"):
        store.append(np.zeros((2, 3), int), None, [True, True])
    with pytest.raises(ValueError, match="up to 3"):
        store.append(np.zeros((2, 3), int), [3, 4], [True, True])
    with pytest.raises(ValueError, match="num_ids"):
        segment_counts(store, [0], [3], IDS - 1)
    with pytest.raises(ValueError, match="without a match"):
        segment_counts(store, [-1], [3], IDS)
    with pytest.raises(IndexError, match="trajectory 1 of 1"):
        store.trajectory(1)
