"""A real browser, and servers on this machine alone. Where no browser is installed, the tests are skipped."""

import json
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
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from lstoc_core import paths

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
WITHIN = 200_000
"""Milliseconds that a page may take: machines that run tests are busy."""
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},  # else cells that are out of sight are not in the page
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
"""How JupyterLab differs from its defaults."""
NEEDED = {
    "00_overview": None,
    "04_contrastive_visualization": ("from", "profile =", "drawing.style()", "def explore", "def show", "panel ="),
    "05_tree_building": ("import", "profile =", "drawing.style()", "task = lstoc", "names =", "trees.replay"),
    "12_playground": None,
}
"""Notebooks that are served, and how the code cells begin that are kept: all where None, else what the widget needs.

These run with little data. Imports come first, then parameters.
"""


def pytest_configure():
    """Who ends the tests by a signal ends the servers, too: fixtures are left as by Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as driver:
        own = driver.chromium.executable_path  # that of `playwright install chromium`
        found = (os.environ.get("LSTOC_BROWSER"), *map(shutil.which, PROGRAMS), own if Path(own).exists() else None)
        program = next(filter(None, found), None)
        if program is None:
            pytest.skip(
                f"no browser: install {' or '.join(PROGRAMS)}, `playwright install chromium`, or set LSTOC_BROWSER"
            )
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


# --- notebooks --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def notebooks(tmp_path_factory):
    """A copy of the notebooks without outputs, so that what the tests see was made by them."""
    directory = tmp_path_factory.mktemp("served") / "notebooks"
    directory.mkdir()
    for name, beginnings in NEEDED.items():
        notebook = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", as_version=4)
        if beginnings is not None:
            notebook.cells = [_cell(notebook, beginning) for beginning in beginnings]
            notebook.cells[1].source = notebook.cells[1].source.replace('"saved"', '"smoke"')
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        nbformat.write(notebook, directory / f"{name}.ipynb")
    return directory


def _cell(notebook, beginning):
    """The first code cell that begins so."""
    return next(cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.startswith(beginning))


@pytest.fixture
def written(notebooks):
    """A function that writes a notebook of one cell, to be served."""

    def write(name, source):
        made = new_notebook(cells=[new_code_cell(source)])
        made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(made, notebooks / f"{name}.ipynb")
        return name

    return write


# --- servers ----------------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def served(command, address, log):
    """Start a server, wait until it answers, end it with its kernels afterwards."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(paths.ROOT),
        "OMP_NUM_THREADS": "1",
        "LSTOC_FIGURES": str(log.parent / "figures"),
    }
    with log.open("w") as file:
        process = psutil.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment)
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
        end(process)


def end(process):
    """End a process and all that it has started; kernels are in sessions of their own."""
    family = [*process.children(recursive=True), process] if process.is_running() else []
    for each in (process, *family):
        if each.is_running():
            each.terminate()
    _, alive = psutil.wait_procs(family, timeout=10)
    for each in alive:
        each.kill()
    psutil.wait_procs(alive, timeout=10)


@pytest.fixture(scope="session")
def lab(browser, notebooks):
    """JupyterLab on the loopback interface; a function from a notebook's name to its address."""
    token, port = secrets.token_hex(16), free_port()
    settings = notebooks.parent / "settings"
    for plugin, values in SETTINGS.items():
        file = settings / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={port}", "--allow-root",
        f"--IdentityProvider.token={token}", f"--notebook-dir={notebooks}", f"--LabApp.user_settings_dir={settings}",
        f"--LabApp.workspaces_dir={settings}", "--LabApp.news_url=None", "--LabApp.expose_app_in_browser=True",
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


@pytest.fixture
def run_all(page, lab):
    """A function that opens a notebook in JupyterLab and runs its cells; afterwards its kernel is ended."""

    def run(name):
        page.goto(lab(name))
        page.locator(".jp-Notebook .jp-Cell").first.wait_for()
        page.wait_for_function(
            "window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status == 'idle'"
        )
        page.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")

    yield run
    page.evaluate("window.jupyterapp?.serviceManager.sessions.shutdownAll()")
