"""Seconds from the start of a process to its first sign of life, beside a bare interpreter and `import torch`.

    python benchmarks/bench_startup.py [--quick] [--check]

An import counts until the process ends, a command until it prints its first line; both are also given as ratios. Rounds
go through all contenders in turn and the best round of each counts, so that a busy machine disturbs all alike. A first
round, which is not counted, lets Python write its bytecode to a directory of its own.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

BARE, TORCH = "bare interpreter", "import torch"
TARGET_RATIO = 1.5
"""Most that `from lstoc_core import discover` may cost, in times of `import torch`."""
TARGET_SECONDS = 1.0
"""Latest first line of a command."""

DISCOVER = "from lstoc_core import discover"
IMPORTS = {
    BARE: "pass",
    TORCH: TORCH,
    "import lstoc_core": "import lstoc_core",
    DISCOVER: DISCOVER,
    "from lstoc_core import label": "from lstoc_core import label",
    "from lstoc_core import TASKS": "from lstoc_core import TASKS",
}
COMMANDS = {
    "lstoc --help": ["--help"],
    "lstoc tasks": ["tasks"],
    'lstoc label "0 1" --formula "a;b"': ["label", "0 1", "--formula", "a;b"],
}
CONTENDERS = {
    **{name: [sys.executable, "-c", code] for name, code in IMPORTS.items()},
    **{name: [sys.executable, "-m", "lstoc_core", *arguments] for name, arguments in COMMANDS.items()},
}


def first_sign(command: list[str], environment: dict[str, str]) -> float:
    """Seconds until the command prints something or ends; RuntimeError if it fails."""
    begin = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seconds = time.perf_counter() - begin
        _, problem = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {problem.strip()}")
    return seconds


def measure(rounds: int) -> dict[str, float]:
    """Contender -> best seconds of so many rounds."""
    best = dict.fromkeys(CONTENDERS, float("inf"))
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = bytecode
        for number in range(rounds + 1):
            for name, command in CONTENDERS.items():
                seconds = first_sign(command, environment)
                if number:
                    best[name] = min(best[name], seconds)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    options = parser.parse_args()
    rounds = 1 if options.quick else 5
    best = measure(rounds)
    print(f"first sign of life, best of {rounds}")
    print(f"{'':36} {'seconds':>8} {'× bare':>8} {'× torch':>8}")
    for name, seconds in best.items():
        print(f"{name:36} {seconds:8.3f} {seconds / best[BARE]:8.1f} {seconds / best[TORCH]:8.2f}")
    ratio, slowest = best[DISCOVER] / best[TORCH], max(best[name] for name in COMMANDS)
    met = ratio <= TARGET_RATIO and slowest <= TARGET_SECONDS
    print(f"target {TARGET_RATIO} × torch for discover: {'met' if ratio <= TARGET_RATIO else 'MISSED'} ({ratio:.2f} ×)")
    print(
        f"target {TARGET_SECONDS} s for commands: {'met' if slowest <= TARGET_SECONDS else 'MISSED'} ({slowest:.2f} s)"
    )
    return int(options.check and not met)


if __name__ == "__main__":
    sys.exit(main())
