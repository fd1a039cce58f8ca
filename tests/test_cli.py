"""The command line as a user meets it: help, exit codes, messages without a traceback."""

import json
import signal
import subprocess
import sys

import pandas as pd
import pytest

from lstoc_core import cli, paths, reproduce

COMMANDS = ["reproduce", "run", "discover", "label", "bench", "tasks"]


def run(capsys, *arguments):
    """Exit code, standard output and standard error of a command."""
    with pytest.raises(SystemExit) as ended:
        cli.main(list(arguments))
    return (ended.value.code, *capsys.readouterr())


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
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
    ],
)
def test_a_mistake_is_named_and_ends_with_2(capsys, arguments, message):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in out + err


def test_label_prints_the_names(capsys):
    code, out, _ = run(capsys, "label", "0 1 3", "2,3", "--formula", "((a;b)|c);d")
    assert code == 0
    assert all(f"{key} = {symbol}" in out for key, symbol in enumerate("abcd"))
    assert "unique" in out


def test_label_says_which_sequence_fits_nothing(capsys):
    code, _, err = run(capsys, "label", "0 1", "1 0", "--formula", "a;b")
    assert code == 1
    assert "1" in err
    assert "Traceback" not in err


def test_tasks_prints_what_was_measured(capsys):
    code, out, _ = run(capsys, "tasks")
    assert code == 0
    first = next(line.split() for line in out.splitlines() if line.startswith("letter-1"))
    assert first == ["letter-1", "letter", "a;b;c", "200", "14", "16.23%"]


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
    file = tmp_path / "deep" / "result.json"
    code, out, _ = run(capsys, "discover", "letter-1", "--max-steps", "200000", "--no-progress", "--save", str(file))
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


def test_discover_that_runs_out_of_steps_ends_with_1(capsys):
    code, out, _ = run(capsys, "discover", "office-1", "--max-steps", "5000", "--no-progress")
    assert code == 1
    assert "not finished" in out


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
