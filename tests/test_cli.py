"""The command line as a user meets it: help, exit codes, messages without a traceback."""

import errno
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from lstoc_core import cli, paths, reproduce
from lstoc_core.study import cache, executors

COMMANDS = ["reproduce", "run", "status", "claims", "discover", "label", "bench", "tasks"]


def run(capsys, *arguments):
    """Exit code, standard output and standard error of a command."""
    with pytest.raises(SystemExit) as ended:
        cli.main(list(arguments))
    return (ended.value.code, *capsys.readouterr())


@pytest.fixture
def environment(monkeypatch):
    """No LSTOC_WORKERS and LSTOC_SCHEDULER, neither before nor after."""
    for name in ("LSTOC_WORKERS", "LSTOC_SCHEDULER"):
        monkeypatch.setenv(name, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code in (None, 0)
    assert f"usage: lstoc {command}" in out


def test_help_needs_nothing_heavy():
    """The real process: `--help` names the commands and has imported neither torch nor pandas nor matplotlib."""
    check = (
        "import sys\nfrom lstoc_core import cli\ntry:\n    cli.main(['--help'])\n"
        "finally:\n    heavy = {'torch', 'pandas', 'matplotlib', 'papermill', 'cvxpy', 'scipy', 'crafter'}\n"
        "    print(heavy & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert all(command in result.stdout for command in COMMANDS)
    assert result.stdout.rstrip().endswith("set()")


MISTAKES = [
    (["discover", "leter-1"], "letter-1"),
    (["label", "0 1", "--formula", "a;;b"], "a;;b\n    ^"),
    (["label", "0 x", "--formula", "a;b"], "like '0 1 3'"),
    (["label", "--formula", "a;b"], "at least one sequence"),
    (["label", " ", "--formula", "a;b"], "at least one sequence"),
    (["bench", "env"], "did you mean envs"),
    (["run", "acuracy"], "accuracy"),
    (["run", "ablation", "--tasks", "letter-9"], "unknown task 'letter-9'"),
    (["run", "ablation", "--methods", "no-rerm"], "no-rearm"),
    (["reproduce", "--only", "no-such-figure"], "unknown notebook or figure 'no-such-figure'"),
    (["reproduce", "--profile", "fast"], "fast"),
    (["no-such-command"], "no-such-command"),
    (["discover"], "required"),
    (["run", "efficiency", "--seeds", "-1"], "seed -1 is negative"),
    (["run", "efficiency", "--seeds", "3", "3"], "seed 3 is given more than once"),
    (["run", "efficiency", "--tasks", "letter-1", "letter-1"], "task letter-1 is given more than once"),
    (["run", "efficiency", "--methods", "ppo", "ppo"], "method ppo is given more than once"),
    (["run", "efficiency", "--tasks", "robot"], "'robot' has no budget"),
    (["run", "accuracy", "--tasks", "rooms-corridor"], "'rooms-corridor' has no budget"),
    (["run", "readings", "--tasks", "robot"], "'robot' has no budget here"),
    (["run", "efficiency", "--workers", "0"], "workers is '0': give a whole number, 1 or more"),
    (["run", "efficiency", "--workers", "-2"], "workers is '-2'"),
    (["run", "efficiency", "--scheduler", "nonsense"], "scheduler 'nonsense' is no address: write it as tcp://"),
    (["run", "efficiency", "--scheduler", "http://localhost:80"], "is no address"),
    (["run", "efficiency", "--scheduler", "tcp://"], "is no address"),
    (["reproduce", "--workers", "0"], "LSTOC_WORKERS is '0'"),
    (["reproduce", "--scheduler", "nonsense"], "is no address"),
    (["reproduce", "-p", "profile", "paper"], "'profile' is given by --profile"),
    (["reproduce", "-p", "seed", "1", "-p", "seed", "2"], "'seed' is given more than once"),
    (["discover", "letter-1", "--seed", "-1"], "seed is -1"),
    (["discover", "letter-1", "--max-steps", "0"], "max_steps is 0"),
    (["discover", "letter-1", "--save", "/"], "--save / is a directory: name a file in it, like /result.json"),
    (["discover", "letter-1", "--save", "/dev/null/x.json"], "--save, /dev/null cannot be written to"),
    (["discover", "letter-1", "--gif", "film.mov"], "--gif film.mov: give a file name that ends with .gif"),
    (["discover", "letter-1", "--png", "/"], "--png / is a directory: name a file in it, like /tree.png"),
    (["discover", "letter-1", "--checkpoint", "/dev/null"], "checkpoint /dev/null cannot be"),
    (["label", "0 -1", "--formula", "a;b"], "key state -1 is negative"),
    (["label", "0 0", "--formula", "a;b"], "0 → 0 visits a key state twice in a row"),
    (["label", "0 1", "--formula", "a;a"], "no symbol can follow itself"),
    (["label", "0 1", "--formula", "&".join(f"s{i}" for i in range(24))], "its FSM needs more than 16,000 states"),
    (["discover", "letter-1", "--save", "/proc/result.json"], "--save, /proc cannot be written to"),
    (["discover", "letter-1", "--gif", "/sys/film.gif"], "--gif, /sys cannot be written to"),
    (["discover", "letter-1", "--checkpoint", "/sys/run"], "checkpoint /sys/run cannot be a directory that is written"),
    (["tasks", "--measure", "--episodes", "0"], "give at least one episode"),
    (["tasks", "--seed", "-1"], "a seed from 0 on"),
]
"""Arguments that make no sense, and what the message must say."""


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
@pytest.mark.usefixtures("places", "environment")
def test_a_mistake_is_named_and_ends_with_2(capsys, arguments, message):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in out + err


VARIABLES = [
    ("LSTOC_WORKERS", "abc", ["run", "efficiency"], "LSTOC_WORKERS is 'abc': give a whole number"),
    ("LSTOC_WORKERS", "-1", ["run", "efficiency"], "LSTOC_WORKERS is '-1'"),
    ("LSTOC_WORKERS", "abc", ["reproduce"], "LSTOC_WORKERS is 'abc'"),
    ("LSTOC_SCHEDULER", "xyz", ["run", "efficiency"], "scheduler 'xyz' is no address"),
    ("LSTOC_SCHEDULER", "xyz", ["reproduce"], "scheduler 'xyz' is no address"),
    ("LSTOC_FIGURES", "/dev/null", ["reproduce", "-P", "saved", "--only", "2"], "LSTOC_FIGURES /dev/null cannot"),
]
"""Environment variables that make no sense, a command that reads them, and what the message must say."""


@pytest.mark.parametrize(("name", "value", "command", "message"), VARIABLES)
@pytest.mark.usefixtures("places", "environment")
def test_a_mistake_in_an_environment_variable_is_named(capsys, monkeypatch, name, value, command, message):
    monkeypatch.setenv(name, value)
    code, out, err = run(capsys, *command)
    assert (code, "Traceback" in out + err) == (2, False)
    assert message in err


@pytest.mark.usefixtures("places", "environment")
def test_a_scheduler_that_does_not_answer_is_named(capsys, monkeypatch):
    monkeypatch.setattr(executors, "CONNECT_WITHIN", 0.2)
    with socket.socket() as taken:  # bound, but it does not listen
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        code, out, err = run(capsys, "run", "efficiency", "-P", "smoke", "--scheduler", address)
    assert (code, "Traceback" in out + err) == (2, False)
    assert f"no dask scheduler answers at {address}" in err


@pytest.mark.usefixtures("places", "environment")
def test_a_directory_that_takes_no_file_is_named_before_anything_is_run(capsys, monkeypatch, tmp_path):
    (tmp_path / "build").write_text("a file in the way")
    for command in (["run", "efficiency", "-P", "smoke"], ["reproduce", "-P", "smoke", "--only", "2"]):
        code, out, err = run(capsys, *command)
        assert (code, "Traceback" in out + err) == (2, False)
        assert "cannot be written to (Not a directory): name another place" in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.usefixtures("environment")
def test_a_full_disk_is_named_after_the_result_was_shown(capsys):
    code, out, err = run(capsys, "discover", "letter-1", "--max-steps", "100", "--no-progress", "--save", "/dev/full")
    assert (code, "Traceback" in out + err) == (1, False)
    assert "not finished" in out
    assert "No space left on device" in err


@pytest.mark.usefixtures("places", "environment")
def test_a_disk_that_is_full_when_a_run_is_stored_is_named_and_leaves_nothing_half(capsys, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache, "execute_run", lambda spec, **_: cache.Outcome(spec, b"data", 1))
    monkeypatch.setattr(cache.os, "fsync", full)
    one = ["--tasks", "letter-1", "--seeds", "0", "--methods", "ppo"]
    code, out, err = run(capsys, "run", "efficiency", "-P", "smoke", *one)
    assert (code, "Traceback" in out + err) == (1, False)
    assert "No space left on device" in err
    assert not list(paths.BUILD.rglob("*.parquet"))


def test_runs_that_all_fail_end_with_1_and_their_names(capsys, monkeypatch):
    def fail(*_, **__):
        raise cache.RunsFailed({"a-run": "the reason"}, 1)

    monkeypatch.setattr(cache, "compute", fail)
    monkeypatch.setattr(cache, "manifests", lambda *_: (_ for _ in ()).throw(FileNotFoundError("no runs")))
    code, out, err = run(capsys, "run", "efficiency", "-P", "smoke")
    assert (code, "a-run" in err, "asked for" in out) == (1, True, True)


def test_label_prints_the_names(capsys):
    code, out, _ = run(capsys, "label", "0 1 3", "2,3", "--formula", "((a;b)|c);d")
    assert code == 0
    assert all(f"{key} = {symbol}" in out for key, symbol in enumerate("abcd"))
    assert "unique" in out


def test_label_advises_a_task_that_is_new(capsys):
    code, out, _ = run(capsys, "label", "0 1 2", "--formula", "a;b")
    assert (code, "learn one more task: b;a" in out) == (0, True)
    code, out, _ = run(capsys, "label", "0 1", "--formula", "a")
    assert (code, "name key state" in out, "learn" in out) == (0, True, False)


def test_label_says_which_sequence_fits_nothing(capsys):
    code, _, err = run(capsys, "label", "0 1", "1 0", "--formula", "a;b")
    assert code == 1
    assert "1" in err
    assert "Traceback" not in err


def test_tasks_prints_what_was_measured(capsys):
    code, out, _ = run(capsys, "tasks")
    assert code == 0
    assert next(line for line in out.splitlines() if line.startswith("office-1")).endswith("0 of 20,000")
    first = next(line.split() for line in out.splitlines() if line.startswith("letter-1"))
    assert first == ["letter-1", "letter", "a;b;c", "200", "14", "13.00%"]


def test_label_prints_before_it_solves():
    """The first line comes before cvxpy is imported: a first sign of life at once."""
    check = (
        "import sys\nfrom lstoc_core import cli\nseen = []\n"
        "def note(*line, **options):\n    seen.append('cvxpy' in sys.modules)\n"
        "cli.print = note\ntry:\n    cli.main(['label', '0 1', '--formula', 'a;b'])\nfinally:\n    print(seen)"
    )
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[False, True]"


def test_tasks_measures_again(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "DATA", tmp_path)
    code, out, _ = run(capsys, "tasks", "--measure", "--episodes", "20")
    assert code == 0
    table = pd.read_csv(tmp_path / "tasks.csv")
    assert set(table.episodes) == {20}
    assert all(name in out for name in table.task)
    assert f"{table.random_successes[0] / 20:.2%}" in out


def test_discover_prints_and_saves_what_it_found(capsys, tmp_path):
    """The real thing on the smallest task; exit code and score must agree."""
    file, film, picture = (tmp_path / "deep" / name for name in ("result.json", "episode.gif", "tree.png"))
    arguments = [
        "--max-steps",
        "200000",
        "--no-progress",
        "--save",
        str(file),
        "--gif",
        str(film),
        "--png",
        str(picture),
    ]
    code, out, _ = run(capsys, "discover", "letter-1", *arguments)
    assert film.read_bytes()[:6] == b"GIF89a"
    assert picture.read_bytes()[1:4] == b"PNG"
    assert "\x1b" not in out, "no colours where nobody sees them"
    result = json.loads(file.read_text())
    assert code == (0 if result["score"]["exact"] else 1)
    assert f"exact: {result['score']['exact']}" in out
    assert "letter-1: a;b;c" in out
    assert result["env_steps"] <= 210_000
    assert result["history"]
    if result["score"]["exact"]:
        assert [[result["names"][str(key)] for key in sequence] for sequence in result["sequences"]] == [
            ["a", "b", "c"]
        ]
        assert "  start ─── a ─── b ─── c ✓\n" in out
        assert out.splitlines()[3] == "   · · ·[a]· · · · · ·", "row 1 of the map"


def test_discover_that_runs_out_of_steps_ends_with_1(capsys):
    code, out, _ = run(capsys, "discover", "office-1", "--max-steps", "5000", "--no-progress")
    assert code == 1
    assert "not finished" in out


def test_discover_says_that_there_is_nothing_to_draw(capsys, tmp_path):
    files = [tmp_path / name for name in ("episode.gif", "tree.png")]
    arguments = ["--max-steps", "500", "--no-progress", "--gif", str(files[0]), "--png", str(files[1])]
    code, out, _ = run(capsys, "discover", "office-1", *arguments)
    assert code == 1
    assert "--gif: nothing to draw, for no success was seen" in out
    assert "--png: nothing to draw, for no sequence was seen" in out
    assert not any(file.exists() for file in files)


def test_bench_runs_the_named_file_and_reports_failure(capfd, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    code, _, err = run(capfd, "bench")
    assert (code, "needs a checkout" in err) == (2, True)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks/bench_good.py").write_text("import sys; print('arguments', sys.argv[1:])")
    (tmp_path / "benchmarks/bench_bad.py").write_text("raise SystemExit(3)")
    code, out, _ = run(capfd, "bench", "good", "--quick")
    assert (code, "arguments ['--quick']" in out) == (0, True)
    code, out, err = run(capfd, "bench")
    assert (code, "arguments []" in out, "failed: bad" in err) == (1, True, True)


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("failed", 1), ("figures missing", 1)])
def test_reproduce_passes_everything_on_and_reports(capsys, monkeypatch, status, code):
    called = []

    def fake(profile, only, parameters):
        called.append((profile, tuple(only), parameters))
        return [reproduce.Result("00_x", 1.0, 1, 2, status, "why")]

    monkeypatch.setattr(reproduce, "reproduce", fake)
    monkeypatch.setenv("LSTOC_WORKERS", "")
    arguments = ["--profile", "smoke", "--only", "fsm", "--only", "4", "-p", "seed", "3", "-p", "note", "plain text"]
    got, out, _ = run(capsys, "reproduce", *arguments)
    assert called == [("smoke", ("fsm", "4"), {"seed": 3, "note": "plain text"})]
    assert got == code
    assert "00_x" in out
    assert status in out


def test_ctrl_c_shows_what_was_found_and_saves_the_checkpoint(tmp_path):
    command = [sys.executable, "-m", "lstoc_core", "discover", "office-1", "--checkpoint", str(tmp_path / "run")]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background ignore it
    )
    shown = ""
    while "explore" not in shown and process.poll() is None:
        shown += process.stderr.read(1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "not finished" in out
    assert "interrupted; the same command goes on from" in out
    assert (tmp_path / "run" / "loop.json").exists()
