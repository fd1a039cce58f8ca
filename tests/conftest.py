"""Property tests draw the same examples in every run, so that a change alone decides whether they pass.

`pytest --hypothesis-profile=default` draws new ones.
"""

import matplotlib.pyplot as plt
import pytest
import torch
from hypothesis import settings

from lstoc_core import paths
from lstoc_core.study import cache

settings.register_profile("same", derandomize=True)
settings.load_profile("same")


@pytest.fixture(scope="module")
def one_thread():
    """torch computes with one thread: the number of threads changes last digits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Runs and figures go to a directory of the test; runs are done in this process."""
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    monkeypatch.setattr(paths, "DATA", tmp_path / "data")
    monkeypatch.setenv("LSTOC_FIGURES", str(tmp_path / "figures"))
    monkeypatch.setattr(cache, "with_loky", lambda call, items, lost, *, workers: map(call, items))
    yield
    plt.close("all")
