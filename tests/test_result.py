"""What comes after a discovery: kept in a file, acted by, compared with a truth of one's own, drawn."""

import io
import json
import zipfile
from dataclasses import fields, replace

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from PIL import Image
from test_conventions import Composed
from test_loop import Corridor, run, tiny

import lstoc_core as lstoc
from lstoc_core.discovery.tree import SubgoalTree
from lstoc_core.drawing.episodes import picture, progress, visits
from lstoc_core.policies.predictor import Predictor
from lstoc_core.scoring import Score
from lstoc_core.trajectories import random_walks

TASK = tiny("(a;b)|c")


@pytest.fixture(scope="module")
def found():
    return run(TASK, solve=True, max_steps=150_000)


@pytest.fixture(scope="module")
def offline():
    return lstoc.learn(random_walks(lstoc.make_vec(TASK, num_envs=16, seed=0), 400, seed=0), fsm="(a;b)|c")


# --- files ------------------------------------------------------------------------------------------------------------


def comparable(value):
    """A value that equals another one if and only if both are the same."""
    if isinstance(value, lstoc.TrajectoryStore):
        return [value.ids.tolist(), value.lengths.tolist(), value.labels.tolist()]
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.tolist()]
    if isinstance(value, Predictor):
        return {name: weight.tolist() for name, weight in value.network.state_dict().items()} | value.to_json()
    if isinstance(value, tuple) and value and isinstance(value[0], lstoc.KeyState):
        return [(key.index, key.observation_id, comparable(key.observation)) for key in value]
    return str(value) if isinstance(value, float | list) else value  # text: nan equals nan


def assert_same_result(one, two):
    for field in fields(lstoc.Discovery):
        if field.name not in {"explorer", "finder"}:
            assert comparable(getattr(one, field.name)) == comparable(getattr(two, field.name)), field.name


@pytest.mark.parametrize("which", ["found", "offline", "nothing", "composed"])
def test_what_is_saved_is_loaded(which, request, tmp_path):
    if which == "nothing":
        result = run(TASK, max_steps=600)
    elif which == "composed":
        result = run(Composed, max_steps=600)
    else:
        result = request.getfixturevalue(which)
    result.save(tmp_path / "it.lstoc")
    again = lstoc.load(tmp_path / "it.lstoc")
    assert_same_result(again, result)
    assert again.explorer is again.learner is again.finder is None
    assert [path.name for path in tmp_path.iterdir()] == ["it.lstoc"]
    again.save(tmp_path / "twice.lstoc")
    assert_same_result(lstoc.load(tmp_path / "twice.lstoc"), result)


def test_the_file_is_plain(found, tmp_path):
    found.save(tmp_path / "it.lstoc")
    with zipfile.ZipFile(tmp_path / "it.lstoc") as file:
        assert file.namelist() == ["discovery.json", "arrays.npz", "weights.pt"]
        facts = json.loads(file.read("discovery.json"))
        arrays = np.load(io.BytesIO(file.read("arrays.npz")), allow_pickle=False)
        assert all(arrays[name].dtype != object for name in arrays)
        assert torch.load(io.BytesIO(file.read("weights.pt")), weights_only=True)
    assert facts["sequences"] == [list(sequence) for sequence in found.sequences]


def test_other_files_are_refused(found, tmp_path):
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="was not written by Discovery"):
        lstoc.load(tmp_path / "text")
    with zipfile.ZipFile(tmp_path / "zip", "w") as file:
        file.writestr("other", "hello")
    with pytest.raises(ValueError, match="was not written by Discovery"):
        lstoc.load(tmp_path / "zip")
    found.save(tmp_path / "it.lstoc")
    with zipfile.ZipFile(tmp_path / "it.lstoc") as file, zipfile.ZipFile(tmp_path / "new.lstoc", "w") as other:
        facts = json.loads(file.read("discovery.json"))
        other.writestr("discovery.json", json.dumps({**facts, "format": 99}))
        for name in ("arrays.npz", "weights.pt"):
            other.writestr(name, file.read(name))
    with pytest.raises(ValueError, match="has format 99, this version reads 1"):
        lstoc.load(tmp_path / "new.lstoc")
    with pytest.raises(FileNotFoundError):
        lstoc.load(tmp_path / "nowhere")


def test_a_seed_of_numpy_is_saved(tmp_path):
    lstoc.learn([[0, 1], [0, 2]], [True, False], seed=np.int64(3)).save(tmp_path / "it")
    assert lstoc.load(tmp_path / "it").seed == 3


def test_a_file_that_cannot_be_written_leaves_nothing_behind(found, tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        found.save(tmp_path / "taken")
    with pytest.raises(TypeError):
        replace(found, seed=object()).save(tmp_path / "it")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize("key", [-1, 99])
def test_sequences_of_key_states_that_the_file_lacks_are_refused(found, key, tmp_path):
    replace(found, sequences=((key,),)).save(tmp_path / "it")
    with pytest.raises(lstoc.InputError, match="sequences of other key states than its 3: save it again"):
        lstoc.load(tmp_path / "it")


# --- acting -----------------------------------------------------------------------------------------------------------


def test_predict_is_the_network_step_by_step(found):
    """Against the readable reference of the network, which knows neither tables nor spaces."""
    rows = found.observations[found.trajectories.trajectory(0)[:9]]
    network, state = found.policy.network, None
    with torch.no_grad():
        ids, begins = torch.arange(len(rows)).unsqueeze(1), torch.zeros(len(rows), 1, dtype=torch.bool)
        logits, _ = network.reference(rows, ids, network.initial_hidden(1), begins)
    for row, expected in zip(rows, logits[:, 0], strict=True):
        action, state = found.policy.predict(row, state)
        assert action == expected.argmax()
        assert isinstance(action, np.integer)


def test_batches_and_single_observations_agree(found):
    rows = found.observations[:6].astype(np.float32)
    policy = found.policy
    first, state = policy.predict(rows)
    assert first.shape == (6,)
    second, state = policy.predict(rows[::-1], state, episode_start=np.arange(6) == 2)
    for i in range(6):
        action, own = policy.predict(rows[i])
        assert action == first[i]
        action, own = policy.predict(rows[5 - i], None if i == 2 else own)
        assert action == second[i]
        np.testing.assert_allclose(own[0][0], state[0][i], atol=1e-6)
    action, own = policy.predict(rows[0], own, episode_start=True)
    assert action == first[0]


def test_observations_never_seen_before_are_no_problem(found):
    strange = np.full(found.observations.shape[1:], 7)
    actions = {int(found.policy.predict(strange, deterministic=False)[0]) for _ in range(200)}
    assert actions <= {0, 1, 2, 3}


def test_draws_follow_the_policy_and_its_seed(found):
    network, row = found.policy.network, found.observations[0]
    with torch.no_grad():
        projection = network.project(network.embedding(row[None]))
        logits = network.step(projection, torch.zeros(1, dtype=torch.int64), network.initial_hidden(1)).logits
    one, two = (Predictor(network, found.policy.flat, found.policy.listed, seed=3) for _ in range(2))
    drawn = [int(one.predict(row, deterministic=False)[0]) for _ in range(2_000)]
    shares = np.bincount(drawn, minlength=4) / len(drawn)
    np.testing.assert_allclose(shares, torch.softmax(logits[0], 0).numpy(), atol=0.05)
    assert drawn[:50] == [int(two.predict(row, deterministic=False)[0]) for _ in range(50)]


def test_what_cannot_be_predicted_is_named(found, offline):
    with pytest.raises(ValueError, match=r"an observation of shape \(3, 3, 4\): the policy was trained on \(5, 5, 4\)"):
        found.policy.predict(np.zeros((3, 3, 4)))
    _, state = found.policy.predict(found.observations[:2])
    with pytest.raises(ValueError, match="a state of 2 episodes for 3 observations"):
        found.policy.predict(found.observations[:3], state)
    with pytest.raises(ValueError, match="there is no policy to act by"):
        offline.rollout(TASK)
    with pytest.raises(ValueError, match="give at least 1"):
        found.rollout(TASK, 0)
    with pytest.raises(TypeError, match="is not a single environment"):
        found.rollout(gymnasium.vector.SyncVectorEnv([Corridor]))


def test_rollouts_in_all_that_can_be_played(found):
    env = gymnasium.make("lstoc/Letter-v0", task=TASK)
    for where in (TASK, env, lambda: env):
        played = found.rollout(where, 20)
        assert np.mean([episode.success for episode in played]) > 0.8
    episode = played[0]
    assert len(episode.observations) == len(episode.actions) + 1 == len(episode.rewards) + 1
    assert episode.rewards.sum() == episode.success
    known = {row.tobytes() for row in found.observations}
    assert all(row.tobytes() in known for row in episode.observations)
    assert episode.frames == ()


def test_rollouts_are_reproducible_and_read_success_by_a_rule(found):
    parts = found.policy.network, found.policy.flat, found.policy.listed
    first, second = (replace(found, policy=Predictor(*parts)).rollout(TASK, 3, seed=5) for _ in range(2))
    assert [episode.actions.tolist() for episode in first] == [episode.actions.tolist() for episode in second]
    assert not any(episode.success for episode in found.rollout(TASK, 3, success=lambda end: end.truncated and False))


def test_rollouts_in_a_world_of_composed_spaces():
    result = run(Composed, max_steps=600)
    (episode,) = result.rollout(Composed)
    assert episode.observations.shape[1:] == (7,)
    assert episode.actions.shape == (len(episode.rewards), 2)


# --- other programs ---------------------------------------------------------------------------------------------------


def test_a_discovery_as_a_reward_machine(found, offline):
    for result in (found, offline):
        assert result.machine().minimal_sequences() == (("a", "b"), ("c",))
        assert result.to_reward_machine() == lstoc.parse("(a;b)|c").fsm().to_reward_machine()
    unnamed = replace(found, labeling=None)
    assert all(symbol.startswith("s") for symbol in unnamed.machine().symbols)
    with pytest.raises(ValueError, match="no sequence was discovered"):
        replace(found, sequences=()).to_reward_machine()


# --- a truth of one's own ---------------------------------------------------------------------------------------------


def test_score_against_a_truth_of_ones_own():
    result = run(Corridor, fsm="left;right")
    truth = {"left": [0, 4], "right": lambda observation: observation[0] == 4}
    assert lstoc.score(result, truth, "left;right") == Score(exact=True, found=1.0, labels_correct=True)
    assert lstoc.score(result, truth, [("left", "right")]).exact
    assert lstoc.score(result, truth, "right;left") == Score(exact=False, found=1.0, labels_correct=True)
    swapped = {"right": truth["left"], "left": truth["right"]}
    assert lstoc.score(result, swapped, "right;left") == Score(exact=True, found=1.0, labels_correct=False)
    elsewhere = {"left": [2, 2], "right": truth["right"]}
    assert lstoc.score(result, elsewhere, "left;right") == Score(exact=False, found=0.5, labels_correct=False)


@pytest.mark.parametrize(
    ("truth", "sequences", "message"),
    [
        ({"a": [0, 4]}, None, "sequences are missing"),
        ({"a": [0, 4]}, "a;b", r"the sequences name \['b'\]"),
        ({"a": [0, 4]}, [], "give at least one"),
        ({"a": lambda _: True, "b": lambda _: True}, "a;b", "is a and b at once"),
        ("letter-1", "a", "leave them out"),
    ],
)
def test_a_truth_that_makes_no_sense_is_named(found, truth, sequences, message):
    with pytest.raises(ValueError, match=message):
        lstoc.score(found, truth, sequences)


# --- pictures ---------------------------------------------------------------------------------------------------------


def test_a_truth_is_given_as_the_environment_sees_it():
    found = lstoc.discover("FrozenLake-v1", success="reward", fsm="goal", max_steps=20_000, progress=False)
    one_hot = np.eye(16, dtype=np.uint8)[15]
    for place in (15, one_hot, lambda seen: seen == 15):
        assert lstoc.score(found, {"goal": place}, "goal") == Score(exact=True, found=1.0, labels_correct=True)
    assert not lstoc.score(found, {"goal": 14}, "goal").exact


def test_a_verdict_says_what_the_fsm_leaves_open_and_what_is_missing():
    found = run(tiny("(a|c);b"))
    assert found.finished
    assert found.verdict.endswith("up to exchanging names that the FSM cannot tell apart: a and c")
    found = run(tiny("(a|c);b"), max_steps=1)
    assert found.verdict == f"open: {found.missing}"


def test_any_observation_has_a_picture():
    pixels = np.random.default_rng(0).integers(0, 256, (8, 9, 3), np.uint8)
    np.testing.assert_array_equal(picture(pixels), pixels)
    for shape in [(), (1,), (16,), (7,), (4, 5), (5, 5, 4), (2, 3, 4, 5)]:
        shown = picture(np.random.default_rng(0).random(shape))
        assert shown.dtype == np.uint8
        assert shown.ndim == 3
        assert shown.shape[2] == 3
    planes = np.zeros((2, 2, 3), np.uint8)
    planes[0, 0, 0] = planes[0, 0, 2] = planes[1, 1, 0] = 1
    shown = picture(planes)
    assert (shown[0, 0] != shown[1, 1]).any(), "the last plane is seen inside the first"
    assert (shown[0, 0] == shown[4, 4]).all()
    assert (shown[0, 5] == shown[5, 0]).all()


def test_progress_marks_every_path_visited_so_far():
    tree = SubgoalTree.from_sequences([(0, 1), (2, 0)])
    keys = [0, None, 1, 0, 2, 1, 0]
    told = progress(tree, [[] if key is None else [key] for key in keys])
    for time, reached in enumerate(told):
        for node in range(len(tree)):
            visits = iter(keys[1 : time + 1])
            assert (node in reached) == all(key in visits for key in tree.path(node))


def test_of_two_key_states_in_one_step_none_comes_before_the_other():
    tree = SubgoalTree.from_sequences([(0, 1)])
    assert [len(reached) for reached in progress(tree, [[0], [0, 1], [], [1]])] == [1, 2, 2, 3]


def test_progress_of_events_is_marked_wherever_they_begin(tmp_path):
    """Twelve cells in a ring; a holds in 3 and 4, b in 7 and 8, and a success goes to a, then to b."""
    names = {3: ["a"], 4: ["a"], 7: ["b"], 8: ["b"]}
    rng, episodes, labels = np.random.default_rng(0), [], []
    for _ in range(300):
        walk, reached = [int(rng.integers(12))], 0
        while len(walk) < 25 and reached < 2:
            walk.append(int(walk[-1] + rng.choice((-1, 1))) % 12)
            begins = {*names.get(walk[-1], [])} - ({*names.get(walk[-2], [])} if len(walk) > 2 else set())
            reached += "ab"[reached] in begins
        episodes.append(np.array(walk))
        labels.append(reached == 2)
    found = lstoc.learn(episodes, labels, "a;b", events=lambda cell: names.get(int(cell), []))
    assert found.finished, str(found.missing)
    number = {key.event: key.index for key in found.key_states}
    walk = np.array([3, 3, 2, 3, 5, 4, 8, 7, 8])
    told = [[], ["a"], [], ["a"], [], ["a"], ["b"], [], []]
    assert visits(found, walk) == [[number[name] for name in each] for each in told]
    for index in np.flatnonzero(labels):
        marks = progress(found.tree, visits(found, episodes[index]))
        assert [len(reached) for reached in marks].count(3) == 1, "complete at the last step, and no sooner"
    found.animate(tmp_path / "it.gif")
    found.save(tmp_path / "it")
    with pytest.raises(ValueError, match="events= is a function, and no file keeps it"):
        lstoc.load(tmp_path / "it").animate(tmp_path / "it.gif")


def test_the_tree_with_pictures(found):
    ax = found.draw()
    names = {text.get_text() for text in ax.texts}
    assert {"a", "b ✓", "c ✓", "$v_0$"} <= names
    images = [artist for artist in ax.artists if hasattr(artist, "offsetbox")]
    assert len(images) == len(found.tree) - 1
    ax.figure.canvas.draw()
    plt.close(ax.figure)
    _, given = plt.subplots()
    assert found.draw(given) is given
    plt.close(given.figure)


@pytest.mark.parametrize("env", [None, lambda: gymnasium.make("lstoc/Letter-v0", task=TASK, render_mode="rgb_array")])
def test_an_animation_shows_an_episode_to_its_end(found, env, tmp_path):
    path = found.animate(tmp_path / "it.gif", env, fps=3)
    frames = Image.open(path)
    assert frames.n_frames > 4
    first = np.asarray(frames.convert("RGB")).astype(int)
    frames.seek(frames.n_frames - 1)
    last = np.asarray(frames.convert("RGB")).astype(int)
    half = first.shape[1] // 2

    def red(image):
        return int(((image[:, half:, 0] > 170) & (image[:, half:, 1:] < 90).all(2)).sum())

    assert red(first) < 30 < red(last), "the satisfying path is marked at the end"
    assert not plt.get_fignums()


def test_an_mp4_is_every_frame_given_to_ffmpeg(found, tmp_path, monkeypatch):
    """A program of that name stands in, which writes down what it is asked and given."""
    program = tmp_path / "ffmpeg"
    program.write_text(f'#!/bin/sh\nfor last; do :; done\necho "$*" > {tmp_path}/asked\ncat > "$last"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert found.animate(tmp_path / "it.mp4", fps=3) == tmp_path / "it.mp4"
    asked = (tmp_path / "asked").read_text().split()
    width, height = map(int, asked[asked.index("-s") + 1].split("x"))
    observations = found.trajectories.lengths[found.trajectories.positives[-1]]
    frames = observations - 1 + 2 * 3  # the last one stays for two seconds
    shown = np.frombuffer((tmp_path / "it.mp4").read_bytes(), np.uint8).reshape(frames, height, width, 4)
    assert (shown[-1] != shown[0]).any()
    assert (shown[-1] == shown[-6]).all()


def test_animations_that_cannot_be_made_are_named(found, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"ends with \.gif or \.mp4"):
        found.animate(tmp_path / "it.png")
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(RuntimeError, match="needs the program ffmpeg"):
        found.animate(tmp_path / "it.mp4")
    failures = lstoc.TrajectoryStore()
    failures.append([[0, 1]], None, [False])
    with pytest.raises(ValueError, match="no success among the trajectories"):
        replace(found, trajectories=failures).animate(tmp_path / "it.gif")
