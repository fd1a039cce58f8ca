"""A real browser, and servers on this machine alone. Where no browser is installed, the tests are skipped."""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest

from lstoc_core import paths

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
WITHIN = 200_000
"""Milliseconds that a page may take: machines that run tests are busy."""


@pytest.fixture(scope="session")
def browser():
    program = os.environ.get("LSTOC_BROWSER") or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"no browser: install one of {', '.join(PROGRAMS)}, or set LSTOC_BROWSER")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def page(browser, request):
    """A page; what it shows at the end is kept in LSTOC_SCREENSHOTS, or build/screenshots."""
    opened = browser.new_page(viewport={"width": 1400, "height": 1000})
    opened.set_default_timeout(WITHIN)
    yield opened
    directory = Path(os.environ.get("LSTOC_SCREENSHOTS") or paths.BUILD / "screenshots")
    directory.mkdir(parents=True, exist_ok=True)
    opened.screenshot(path=directory / f"{re.sub(r'[^a-z0-9]+', '-', request.node.name)}.png")
    opened.close()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="session")
def notebooks(tmp_path_factory):
    """A copy of the notebooks without outputs, so that what the tests see was made by them."""
    directory = tmp_path_factory.mktemp("served") / "notebooks"
    directory.mkdir()
    for name in ("00_overview", "12_playground"):
        notebook = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        nbformat.write(notebook, directory / f"{name}.ipynb")
    return directory


def served(command, address, log):
    """Start a server, wait until it answers, end it with its kernels afterwards."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(paths.ROOT),
        "OMP_NUM_THREADS": "1",
        "LSTOC_FIGURES": str(log.parent / "figures"),
    }
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment, start_new_session=True)
    try:
        deadline = time.monotonic() + WITHIN / 1000
        while True:
            try:
                with urllib.request.urlopen(address, timeout=30):
                    break
            except OSError:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.3)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def lab(browser, notebooks):
    """JupyterLab on the loopback interface; a function from a notebook's name to its address."""
    token, port = secrets.token_hex(16), free_port()
    settings = notebooks.parent / "settings"
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={port}", "--allow-root",
        f"--IdentityProvider.token={token}", f"--notebook-dir={notebooks}", f"--LabApp.user_settings_dir={settings}",
        f"--LabApp.workspaces_dir={settings}", "--LabApp.news_url=None",
    ]  # fmt: skip
    address = f"http://127.0.0.1:{port}/api"
    for _ in served(command, address, notebooks.parent / "lab.log"):
        yield lambda name: f"http://127.0.0.1:{port}/lab/tree/{name}.ipynb?reset&token={token}"


@pytest.fixture(scope="session")
def voila(browser, notebooks):
    """The playground as Voilà serves it."""
    port = free_port()
    command = [
        sys.executable, "-m", "voila", str(notebooks / "12_playground.ipynb"), "--no-browser", f"--port={port}",
        "--Voila.ip=127.0.0.1",
    ]  # fmt: skip
    yield from served(command, f"http://127.0.0.1:{port}/voila/static/voila.js", notebooks.parent / "voila.log")
