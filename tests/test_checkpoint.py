"""Runs that are stopped, interrupted or killed: what they return, what they save, and how they go on."""

import contextlib
import itertools
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from test_loop import SMALL, Corridor, assert_same, run, tiny

import lstoc_core.run.checkpoint
from lstoc_core import loop
from lstoc_core.run.environments import identity_of
from lstoc_core.run.lock import acquire


def test_a_finished_discovery_goes_on_to_solve(tmp_path):
    task = tiny("a;b")
    run(task, max_steps=150_000, checkpoint=tmp_path)
    found = run(task, solve=True, max_steps=150_000, checkpoint=tmp_path)
    assert found.history[-1]["phase"] == "solved"
    assert_same(found, run(task, solve=True, max_steps=150_000))


def test_an_interrupted_run_goes_on_as_if_it_had_not_been(tmp_path):
    task = tiny("a;b;a")
    whole = run(task, solve=True, max_steps=24_000)
    for budget in (3_000, 11_000, 24_000):
        resumed = run(task, solve=True, max_steps=budget, checkpoint=tmp_path)
    assert {record["phase"] for record in whole.history} == {"explore", "solve"}
    assert_same(whole, resumed)
    assert whole.missing == resumed.missing
    assert len(list(tmp_path.glob("explorer-*.pt"))) == 2, "the newest state and the one before it"


def test_a_killed_run_goes_on_from_its_last_checkpoint(tmp_path):
    program = textwrap.dedent(
        f"""
        import sys, torch
        sys.path.insert(0, {str(sys.path[0])!r})
        import lstoc_core.run.checkpoint
        from test_loop import run, tiny
        lstoc_core.run.checkpoint.SAVE_EVERY = 0.0
        run(tiny("a;b;a"), max_steps=10**9, solve=True, checkpoint={str(tmp_path)!r})
        """
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    deadline = time.monotonic() + 60
    while not (tmp_path / "loop.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    task = tiny("a;b;a")
    assert_same(run(task, solve=True, max_steps=6_000, checkpoint=tmp_path), run(task, solve=True, max_steps=6_000))


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    run(tiny("a;b"), max_steps=1_000, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="seed=0 instead of 1"):
        run(tiny("a;b"), max_steps=1_000, checkpoint=tmp_path, seed=1)
    with pytest.raises(ValueError, match=r"another run: env='custom, a;b, .*' instead of 'custom, a;c, "):
        run(tiny("a;c"), max_steps=1_000, checkpoint=tmp_path)


def published(task, **options):
    config = replace(SMALL, forward=replace(SMALL.forward, threshold=20, exact=True))
    return run(task, method="forward", config=config, **options)


@pytest.mark.parametrize("call", [run, published])
def test_a_run_stopped_in_any_phase_goes_on_the_same(tmp_path, call):
    """While exploring, at the stop, in the solve phase, and when all is done: each time it is taken up again."""
    task = tiny("a;b" if call is run else "a")
    whole = call(task, solve=True, max_steps=150_000)
    assert whole.history[-1]["phase"] == "solved"
    last = {record["phase"]: record["env_steps"] for record in whole.history}
    for steps, solve in ((1_000, False), (150_000, False), (last["explore"] + 2_000, True), (150_000, True)):
        resumed = call(task, solve=solve, max_steps=steps, checkpoint=tmp_path)
    assert_same(whole, resumed)
    assert whole.labeling == resumed.labeling
    again = call(task, solve=True, max_steps=150_000, checkpoint=tmp_path)
    assert_same(whole, again)
    assert (again.finished, again.labeling, again.success_rate) == (True, whole.labeling, whole.success_rate)
    assert again.tree == whole.tree


def test_a_callback_that_returns_false_ends_the_run_and_saves_it(tmp_path):
    task = tiny("a;b;a")
    seen = []

    def stop_soon(record):
        seen.append(record)
        return len(seen) < 3

    stopped = run(task, callbacks=[stop_soon], checkpoint=tmp_path)
    assert stopped.interrupted
    assert not stopped.finished
    assert len(stopped.history) == 3
    assert_same(run(task, checkpoint=tmp_path), run(task))


@pytest.fixture
def ctrl_c():
    """Ctrl-C as in a terminal, also where the tests run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_the_run_after_the_update_under_way(tmp_path):
    task = tiny("a;b;a")
    stopped = run(task, callbacks=[lambda record: signal.raise_signal(signal.SIGINT)], checkpoint=tmp_path)
    assert stopped.interrupted
    assert not stopped.finished
    assert len(stopped.history) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert_same(run(task, checkpoint=tmp_path), run(task))


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_ctrl_c_ends_it_at_once():
    def twice(record):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(tiny("a;b"), callbacks=[twice])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_of_a_terminal_ends_a_run_in_several_processes_with_its_result():
    """A terminal sends the signal to the whole group, environments in processes of their own included."""
    program = textwrap.dedent(
        f"""
        import os, signal, sys
        sys.path.insert(0, {str(sys.path[0])!r})
        from test_loop import Corridor, run
        from lstoc_core import InternedVectorEnv
        signal.signal(signal.SIGINT, signal.default_int_handler)
        env = InternedVectorEnv([Corridor] * 4, asynchronous=True)
        found = run(env, callbacks=[lambda record: os.killpg(0, signal.SIGINT)])
        print(found.interrupted, len(found.history))
        env.close()
        """
    )
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, start_new_session=True, timeout=120)
    assert ended.stdout.split() == ["True", "1"], ended.stderr


@pytest.mark.usefixtures("ctrl_c")
def test_a_run_that_was_told_to_ignore_ctrl_c_ignores_it():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    found = run(tiny("a;b"), max_steps=2_000, callbacks=[lambda record: signal.raise_signal(signal.SIGINT)])
    assert not found.interrupted
    assert len(found.history) == 4


def test_a_checkpoint_that_cannot_be_a_directory_is_refused_before_anything_is_run(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cannot be a directory that is written to .*: name another one"):
        run(tiny("a"), checkpoint=tmp_path / "file", callbacks=[pytest.fail])


# --- a checkpoint belongs to one run ---------------------------------------------------------------------------------


class Wide(Corridor):
    """Another environment with the same spaces."""


def test_another_environment_of_the_same_spaces_is_refused(tmp_path):
    run(Corridor, max_steps=300, checkpoint=tmp_path)
    with pytest.raises(ValueError, match=r"another run: env='test_loop.Corridor' instead of 'test_checkpoint.Wide'"):
        run(Wide, max_steps=300, checkpoint=tmp_path)


def test_factories_differ_by_their_arguments():
    def factory(discrete):
        return lambda: Corridor(discrete)

    assert identity_of(factory(True)) != identity_of(factory(False))
    assert identity_of(factory(True)) == identity_of(factory(True))
    assert identity_of(partial(Corridor, discrete=True)) != identity_of(partial(Corridor, discrete=False))
    assert identity_of(Corridor) == f"{Corridor.__module__}.Corridor"


def test_an_environment_is_known_by_its_fingerprint(tmp_path):
    class Named(Corridor):
        fingerprint = "corridor of Tuesday"

    run(Named(), max_steps=300, checkpoint=tmp_path)
    Named.fingerprint = "corridor of Wednesday"
    with pytest.raises(ValueError, match="env='corridor of Tuesday' instead of 'corridor of Wednesday'"):
        run(Named(), max_steps=300, checkpoint=tmp_path)


def test_another_version_of_the_code_is_refused(tmp_path, monkeypatch):
    run(tiny("a"), max_steps=500, checkpoint=tmp_path)
    monkeypatch.setattr(loop, "version", lambda package: "99")
    with pytest.raises(ValueError, match=r"version=.* instead of '99'; name another directory, or delete this one"):
        run(tiny("a"), max_steps=500, checkpoint=tmp_path)


def damages():
    def cut(file):
        file.write_bytes(file.read_bytes()[:-20])

    def flip(file):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)

    return [
        cut,
        flip,
        lambda file: file.write_bytes(b""),
        lambda file: file.write_text("[]"),
        lambda file: file.unlink(),
    ]


@pytest.mark.parametrize("damage", damages())
@pytest.mark.parametrize("what", ["loop.json", "explorer-*.pt"])
def test_a_damaged_state_falls_back_to_the_one_before(tmp_path, damage, what):
    task = tiny("a;b;a")
    for budget in (1_000, 2_000):
        run(task, max_steps=budget, checkpoint=tmp_path)
    damage(max(tmp_path.glob(what), key=lambda file: file.stat().st_mtime_ns))
    removed = not (tmp_path / "loop.json").exists()
    with (
        contextlib.nullcontext() if removed else pytest.warns(UserWarning, match="going on from the state saved before")
    ):
        resumed = run(task, max_steps=3_000, checkpoint=tmp_path)
    assert_same(resumed, run(task, max_steps=3_000))


def test_where_nothing_whole_is_left_the_remedy_is_named(tmp_path):
    run(tiny("a"), max_steps=500, checkpoint=tmp_path)
    (tmp_path / "loop.json").write_text('{"key": {}}')
    with pytest.raises(
        ValueError, match=r"loop\.json is damaged or of another version .*delete this one to begin anew"
    ):
        run(tiny("a"), max_steps=500, checkpoint=tmp_path, callbacks=[pytest.fail])


def test_a_directory_in_use_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(lstoc_core.run.checkpoint, "WAIT_FOR_LOCK", 0.1)
    with acquire(tmp_path / "lock"), pytest.raises(ValueError, match="in use by another process"):
        run(tiny("a"), max_steps=500, checkpoint=tmp_path)
    run(tiny("a"), max_steps=500, checkpoint=tmp_path)


class Breaking(Corridor):
    """Raises in its thousandth step."""

    steps = 0

    def step(self, action):
        Breaking.steps += 1
        if Breaking.steps == 1000:
            raise OSError("the simulator is gone")
        return super().step(action)


def test_an_environment_that_raises_loses_no_episode(tmp_path):
    with pytest.raises(OSError, match="simulator is gone"):
        run(Breaking, checkpoint=tmp_path)
    resumed = run(Breaking, max_steps=1, checkpoint=tmp_path)
    assert len(resumed.trajectories) > 10


class Seeds(Corridor):
    """Notes its seeds; starts where it likes, whatever the seed."""

    seen: ClassVar[list] = []
    starts = itertools.count()

    def reset(self, *, seed=None, options=None):
        Seeds.seen.append(seed)
        super().reset(seed=seed)
        self.cell = 1 + next(Seeds.starts) % 3
        return self.observe(), {}


def test_resuming_begins_other_episodes_and_copes_with_starts_that_ignore_the_seed(tmp_path):
    first = run(Seeds, max_steps=500, checkpoint=tmp_path)
    seeds = {seed for seed in Seeds.seen if seed is not None}
    Seeds.seen.clear()
    next(Seeds.starts)
    resumed = run(Seeds, max_steps=1_500, checkpoint=tmp_path)
    assert len(resumed.trajectories) > len(first.trajectories)
    assert not seeds & set(Seeds.seen)


def test_a_numpy_seed_is_a_seed(tmp_path):
    task = tiny("a")
    assert_same(run(task, max_steps=800, seed=np.int64(3), checkpoint=tmp_path), run(task, max_steps=800, seed=3))


def test_temporary_files_are_cleaned(tmp_path):
    (tmp_path / "explorer-7-1.pt.123.tmp").write_text("half")
    run(tiny("a"), max_steps=500, checkpoint=tmp_path)
    assert not list(tmp_path.glob("*.tmp"))
