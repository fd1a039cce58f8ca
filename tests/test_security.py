"""Files are data and never code, clusters of our own listen to this machine alone, servers keep their tokens."""

import ast
import json

import distributed
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lstoc_core import paths
from lstoc_core.run.checkpoint import Checkpoint, CheckpointError
from lstoc_core.study import cache, executors

SOURCES = sorted([*(paths.ROOT / "lstoc_core").rglob("*.py"), *(paths.ROOT / "benchmarks").glob("*.py")])
PICKLES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ANY_FILE = JSON.map(json.dumps) | st.text(max_size=30) | st.just("[" * 100_000) | st.just('{"run": []}')


def unsafe(tree):
    """What in a module reads or writes pickles, or runs text as code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            yield from (name for name in names if name.partition(".")[0] in PICKLES)
        if isinstance(node, ast.Call):
            call = ast.unparse(node.func)
            options = {option.arg: ast.unparse(option.value) for option in node.keywords}
            if call in ("eval", "exec") or call.endswith(("read_pickle", "to_pickle")):
                yield call
            if call == "torch.load" and options.get("weights_only") != "True":
                yield call
            if options.get("allow_pickle", "False") != "False":
                yield call


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from joblib import dump",
        "torch.load(file)",
        "np.load(file, allow_pickle=True)",
        "pd.read_pickle(file)",
        "eval(text)",
    ],
)
def test_what_is_unsafe_is_seen(text):
    assert list(unsafe(ast.parse(text)))


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(paths.ROOT)))
def test_no_pickle_and_no_text_run_as_code(file):
    assert not list(unsafe(ast.parse(file.read_text())))


def test_a_cluster_of_our_own_listens_to_this_machine_alone(monkeypatch):
    started = []

    class Noted(distributed.LocalCluster):
        def __init__(self, **options):
            super().__init__(**options)
            started.append(self.scheduler_address)

    monkeypatch.setattr(distributed, "LocalCluster", Noted)
    assert list(executors.with_dask(abs, [-1], lambda item, why: why, workers=1)) == [1]
    assert started[0].startswith("tcp://127.0.0.1:")


def test_servers_keep_their_tokens():
    for file in (paths.ROOT / "Makefile", *paths.ROOT.glob(".ci/*"), *paths.ROOT.glob(".github/workflows/*")):
        text = file.read_text().lower()
        assert not any(word in text for word in ("token=", "password=", "--no-auth", "0.0.0.0")), file


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(text=ANY_FILE)
def test_any_manifest_is_read_or_the_run_counts_as_corrupt(tmp_path, monkeypatch, text):
    monkeypatch.setattr(paths, "BUILD", tmp_path)
    spec = cache.RunSpec("e", "t", "m", 0, "quick")
    spec.data_path.parent.mkdir(parents=True, exist_ok=True)
    spec.data_path.write_bytes(b"data")
    spec.data_path.with_suffix(".json").write_text(text)
    assert cache.state(spec) == "corrupt"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(text=ANY_FILE)
def test_any_checkpoint_is_read_or_refused_with_a_remedy(tmp_path, text):
    (tmp_path / "loop.json").write_text(text)
    with pytest.raises(CheckpointError, match="delete this one to begin anew"):
        Checkpoint(tmp_path, {}).load(None)
