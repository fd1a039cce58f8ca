"""cache.py: what is stored is whole, fresh and the same whoever computed it; what is not is noticed and redone."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path

import distributed
import pytest
import workload
from pandas.testing import assert_frame_equal

from lstoc_core import paths
from lstoc_core.study import cache, executors, provenance

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """Empty build and data directories; worker processes find the module `workload` beside this file."""
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    monkeypatch.setattr(paths, "DATA", tmp_path / "data")
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    for name in ("LSTOC_SCHEDULER", "LSTOC_WORKERS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def specs(seeds=range(3), method="m", profile="quick", **config):
    return [cache.RunSpec("e", "letter-1", method, seed, profile, config) for seed in seeds]


def in_process(call, items, lost, *, workers):
    """An executor without processes, for tests of the store alone."""
    return map(call, items)


@pytest.fixture
def quickly(monkeypatch):
    monkeypatch.setattr(cache, "with_loky", in_process)


def compute(wanted, function=workload.curve, **options):
    return cache.compute(wanted, function, progress=False, **options)


def test_computes_once_and_reads_the_same_table_back(quickly, tmp_path):
    counter = tmp_path / "count"
    wanted = specs(counter=str(counter))
    table = compute(wanted)
    assert list(table.columns) == [*cache.RUN_COLUMNS, "step", "value"]
    assert table.groupby("seed").size().to_dict() == {0: 20, 1: 20, 2: 20}
    assert_frame_equal(compute(wanted), table)
    assert_frame_equal(cache.load("e", "quick"), table)
    compute([*wanted, *specs([7], counter=str(counter))])
    assert counter.read_text().splitlines() == [f"e/letter-1--m--{seed}" for seed in (0, 1, 2, 7)]


def test_runs_of_several_kinds_share_a_pool_each_with_its_function(quickly):
    one, two = (cache.RunSpec(name, "letter-1", "m", 0, "quick") for name in ("e", "f"))
    compute([one, two], {"e": workload.curve, "f": "workload:torch_curve"})
    written = [json.loads(spec.data_path.with_suffix(".json").read_text()) for spec in (one, two)]
    assert [manifest["function"] for manifest in written] == ["workload:curve", "workload:torch_curve"]
    assert written[0]["code_sha256"] != written[1]["code_sha256"]
    assert len(cache.load("f", "quick")) == 400


def test_the_table_is_sorted_by_number_not_by_text(quickly):
    compute(specs([10, 9, 1]))
    assert cache.load("e", "quick").seed.unique().tolist() == [1, 9, 10]


def test_manifest_says_what_was_done(quickly):
    compute(specs([4], points=5))
    manifest = json.loads((paths.BUILD / "quick/runs/e/letter-1--m--4.json").read_text())
    assert manifest["run"] == {"experiment": "e", "task": "letter-1", "method": "m", "seed": 4, "profile": "quick"}
    assert manifest["config"] == {"points": 5}
    assert manifest["function"] == "workload:curve"
    assert manifest["versions"]["torch"].startswith("2.")
    assert manifest["rows"] == 5
    (row,) = cache.manifests("e", "quick").to_dict("records")
    assert row["wall_time"] >= 0
    assert row["cpu_time"] >= 0
    assert row["seed"] == 4


def damage_truncate(data: Path) -> None:
    data.write_bytes(data.read_bytes()[:-10])


def damage_flip_a_bit(data: Path) -> None:
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)


def damage_empty(data: Path) -> None:
    data.write_bytes(b"")


def damage_no_manifest(data: Path) -> None:
    data.with_suffix(".json").unlink()


def damage_no_data(data: Path) -> None:
    data.unlink()


def damage_half_a_manifest(data: Path) -> None:
    manifest = data.with_suffix(".json")
    manifest.write_text(manifest.read_text()[:100])


def damage_foreign_manifest(data: Path) -> None:
    data.with_suffix(".json").write_text("[]")


def edit_manifest(data: Path, **changes) -> None:
    file = data.with_suffix(".json")
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def damage_another_seed(data: Path) -> None:
    """The files of another run under this one's name."""
    other = data.with_name("letter-1--m--0.parquet")
    data.write_bytes(other.read_bytes())
    data.with_suffix(".json").write_bytes(other.with_suffix(".json").read_bytes())


def damage_another_task(data: Path) -> None:
    manifest = json.loads(data.with_suffix(".json").read_text())
    edit_manifest(data, run=manifest["run"] | {"task": "letter-2"})


@pytest.mark.parametrize("damage", [f for name, f in list(globals().items()) if name.startswith("damage_")])
def test_a_damaged_run_is_noticed_moved_aside_and_redone(quickly, damage):
    wanted = specs(range(2))
    table = compute(wanted)
    data = wanted[1].data_path
    damage(data)
    assert [cache.state(spec) for spec in wanted] == ["finished", "corrupt"]
    with pytest.raises(cache.CorruptRunError, match=r"letter-1--m--1\.parquet"):
        cache.load("e", "quick")
    assert_frame_equal(compute(wanted), table)
    assert len(list(data.parent.glob("*.corrupt-1"))) >= 1
    assert not list(data.parent.glob("letter-1--m--0*.corrupt-*"))
    damage(data)
    compute(wanted)
    assert len(list(data.parent.glob("*.corrupt-2"))) >= 1


def test_another_configuration_makes_a_run_stale_and_keeps_the_old_file(quickly):
    (old,) = specs([0], points=3)
    compute([old])
    content = old.data_path.read_bytes()
    (new,) = specs([0], points=4)
    assert cache.state(new) == "stale"
    assert len(compute([new])) == 4
    assert Path(f"{new.data_path}.stale-1").read_bytes() == content
    assert len(cache.load("e", "quick")) == 4


def test_changed_code_makes_a_run_stale_unless_it_is_to_be_kept(quickly, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "changing.py"
    code = "import pandas as pd\ndef run(spec):\n    return pd.DataFrame({{'x': [{}]}})\n"
    wanted = specs([0])

    def edit(text: str) -> None:
        sys.modules.pop("changing", None)
        module.write_text(text)
        os.utime(module, ns=(time.time_ns(), time.time_ns() + len(text) * 10**9))  # no stale bytecode

    edit(code.format(1))
    assert compute(wanted, "changing:run").x.tolist() == [1]
    edit("'''Explained.'''\n" + code.format("1,  # no change of meaning\n    "))
    compute(wanted, "changing:run")
    assert not list(paths.BUILD.rglob("*.stale-*"))
    edit(code.format(22))
    assert compute(wanted, "changing:run", keep_stale=True).x.tolist() == [1]
    assert compute(wanted, "changing:run").x.tolist() == [22]


def test_another_library_makes_a_run_stale_unless_it_is_to_be_kept(quickly):
    (spec,) = specs([0])
    compute([spec])
    versions = json.loads(spec.data_path.with_suffix(".json").read_text())["versions"]
    edit_manifest(spec.data_path, versions=versions | {"torch": "1.0.0"})
    compute([spec], keep_stale=True)
    assert not list(paths.BUILD.rglob("*.stale-*"))
    compute([spec])
    assert list(paths.BUILD.rglob("*.stale-*"))
    assert json.loads(spec.data_path.with_suffix(".json").read_text())["versions"] == versions


def test_the_versions_are_those_of_the_process_that_did_the_run(quickly, monkeypatch):
    (spec,) = specs([0])
    done = cache.execute_run(spec, functions={"e": "workload:curve"}, logs=None)
    monkeypatch.setattr(cache, "with_loky", lambda *_, **__: [replace(done, versions={"torch": "9"})])
    compute([spec])
    assert json.loads(spec.data_path.with_suffix(".json").read_text())["versions"] == {"torch": "9"}


def test_a_worker_with_other_code_that_joins_late_does_no_run():
    (spec,) = specs([0])
    outcome = cache.execute_run(spec, functions={"e": "workload:curve"}, logs=None, expected="another")
    assert "other code or libraries: install the same there" in outcome.error


def test_the_code_key_follows_imports_but_not_into_presentation(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "made_up"
    package.mkdir()
    files = {
        "__init__": "",
        "a": "from . import b\nfrom .c import thing\nfrom lstoc_core import drawing",
        "b": "def lazily():\n    from made_up.d import x",
        "c": "thing = 1",
        "d": "import torch.nn\nx = 1",
        "e": "unrelated = 1",
    }
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    keys = {"": provenance.code_key("made_up.a")}
    for name in files:
        (package / f"{name}.py").write_text(files[name] + "\ny = 2")
        keys[name] = provenance.code_key("made_up.a")
        (package / f"{name}.py").write_text(files[name])
    changed = {name for name in files if keys[name] != keys[""]}
    assert changed == {"__init__", "a", "b", "c", "d"}  # a package's __init__ runs before its modules
    monkeypatch.setattr(provenance, "PRESENTATION", set())
    assert provenance.code_key("made_up.a") != keys[""]
    with pytest.raises(ModuleNotFoundError, match="no_such"):
        provenance.code_key("no_such_module")


def test_a_failed_run_is_named_with_its_traceback_and_the_rest_go_on():
    with pytest.raises(cache.RunsFailed, match="1 of 3 runs failed: e/letter-1--m--1") as caught:
        compute(specs(), workload.fail_on_seed_1, workers=2)
    assert "ZeroDivisionError: seed 1 cannot be done" in str(caught.value)
    assert [cache.state(spec) for spec in specs()] == ["finished", "missing", "finished"]
    log = specs([1])[0].data_path.with_suffix(".log").read_text()
    assert "ZeroDivisionError" in log
    assert "failed after" in log
    table = compute(specs(), workload.fail_on_seed_1, raise_failures=False)
    assert sorted(table.seed.unique()) == [0, 2]


def test_a_run_that_kills_its_process_does_not_stop_the_rest():
    with pytest.raises(cache.RunsFailed, match="process died") as caught:
        compute(specs(), workload.die_on_seed_1, workers=2)
    assert list(caught.value.failures) == ["e/letter-1--m--1"]
    assert [cache.state(spec) for spec in specs()] == ["finished", "missing", "finished"]


def test_loky_and_dask_processes_give_the_same_bytes():
    by_loky = compute(specs(profile="one"), workload.torch_curve, workers=2)
    by_dask = compute(specs(profile="two"), workload.torch_curve, executor="dask", workers=2)
    assert_frame_equal(by_loky.drop(columns="profile"), by_dask.drop(columns="profile"))
    for one, two in zip(specs(profile="one"), specs(profile="two"), strict=True):
        assert one.data_path.read_bytes() == two.data_path.read_bytes()
        for spec in (one, two):
            assert "threads 1\n" in spec.data_path.with_suffix(".log").read_text()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_cluster_is_used_by_its_address(monkeypatch, threads):
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=threads, processes=False, dashboard_address=None
    ) as cluster:
        monkeypatch.setenv("LSTOC_SCHEDULER", cluster.scheduler_address)
        if threads == 1:
            assert len(compute(specs([0]))) == 20
            assert "finished after" in specs([0])[0].data_path.with_suffix(".log").read_text()
        else:
            with pytest.raises(RuntimeError, match="--nthreads 1"):
                compute(specs([0]))


def test_a_cluster_with_other_code_is_refused():
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        results = executors.with_dask(
            str, [1], str, workers=1, scheduler=cluster.scheduler_address, identity=lambda: str(uuid.uuid4())
        )
        with pytest.raises(RuntimeError, match="other versions of the code or its libraries"):
            next(results)


def test_kill_in_the_middle_then_start_again(tmp_path):
    """A real `kill -9`: finished runs are not redone, the rest is, and the table is as if nothing had happened."""

    def start(build, pause):
        arguments = [str(tmp_path / build), str(pause), str(tmp_path / f"{build}.count")]
        return subprocess.Popen([sys.executable, str(HERE / "workload.py"), *arguments])

    def finished():
        return sorted((tmp_path / "killed").rglob("*.json"))

    process = start("killed", 0.3)
    deadline = time.monotonic() + 60
    while len(finished()) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = {path: path.stat().st_mtime_ns for path in finished()}
    assert 3 <= len(before) < 8

    counter = tmp_path / "killed.count"
    time.sleep(1.0)  # orphaned workers end by themselves
    already = counter.read_text().count("\n")
    assert start("killed", 0.3).wait() == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert counter.read_text().count("\n") - already == 8 - len(before)

    assert start("whole", 0.0).wait() == 0
    for path in sorted((tmp_path / "whole").rglob("*.parquet")):
        assert path.read_bytes() == (tmp_path / "killed" / path.relative_to(tmp_path / "whole")).read_bytes()


def test_two_processes_share_the_work(tmp_path):
    """Started together on the same runs: each run is done once, and both end well."""
    arguments = [str(tmp_path / "both"), "0.0", str(tmp_path / "count")]
    both = [subprocess.Popen([sys.executable, str(HERE / "workload.py"), *arguments]) for _ in range(2)]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    assert (tmp_path / "count").read_text().count("\n") == 8


def test_a_cluster_that_loses_all_workers_ends_with_a_sentence(monkeypatch):
    monkeypatch.setattr(executors, "LOOK_EVERY", 0.2)
    monkeypatch.setattr(executors, "WAIT_FOR_WORKERS", 0.5)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        results = executors.with_dask(
            workload.first_then_sleep, [0, 9], lambda item, why: why, workers=1, scheduler=cluster.scheduler_address
        )
        assert next(results) == 0
        cluster.scale(0)
        assert "are gone: start some, and give the command again" in next(results)


def test_leftovers_of_an_interrupted_write_are_not_read(quickly):
    (spec,) = specs([0])
    spec.data_path.parent.mkdir(parents=True)
    leftover = spec.data_path.with_name(f"{spec.data_path.name}.partial-12345")
    leftover.write_bytes(b"half")
    assert cache.state(spec) == "missing"
    compute([spec])
    assert not leftover.exists()


def test_promoted_runs_are_what_saved_reads(quickly):
    table = compute(specs())
    assert len(cache.promote("quick", "e")) == 6
    assert_frame_equal(cache.load("e"), table)
    assert set(cache.load("e").profile) == {"quick"}
    cache.promote("quick", "e")  # the same again is no change
    compute(specs(points=2))
    with pytest.raises(FileExistsError, match="replace=True"):
        cache.promote("quick", "e")
    cache.promote("quick", "e", replace=True)
    assert len(cache.load("e")) == 6


def test_data_is_compact(quickly):
    compute(specs([0], points=1000))
    assert specs([0])[0].data_path.stat().st_size < 15_000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cache.load("nothing", "quick"), "no runs of 'nothing'"),
        (lambda: compute([*specs(), *specs()]), "repeated: e/letter-1--m--0"),
        (lambda: compute([*specs(), *specs(profile="paper")]), "one profile"),
        (lambda: compute(specs(), lambda spec: None), "top level of a module"),
        (lambda: cache.RunSpec("e", "a/b", "m", 0, "quick"), "task 'a/b'"),
        (lambda: cache.RunSpec("e", "a--b", "m", 0, "quick"), "task 'a--b'"),
        (lambda: cache.RunSpec("e", "t", "m", -1, "quick"), "not negative"),
        (lambda: cache.RunSpec("e", "t", "m", 0, "saved"), "promote"),
        (lambda: cache.RunSpec("e", "t", "m", 0, "quick", {"x": {1, 2}}), "JSON"),
        (lambda: cache.RunSpec("e", "t", "m", 0, "quick", {"x": float("nan")}), "JSON"),
        (lambda: compute(specs([0]), workload.clashing_columns), r"columns \['seed'\]"),
    ],
)
def test_bad_input_is_named(quickly, call, message):
    with pytest.raises((ValueError, FileNotFoundError, cache.RunsFailed), match=message):
        call()


def test_the_time_left_goes_by_cost(quickly, monkeypatch, capsys):
    """Of three runs, the first two cost 9 of 10: after them, a tenth is left."""
    seconds = iter([0.0, 90.0, 180.0, 190.0])
    monkeypatch.setattr(cache.time, "perf_counter", lambda: next(seconds))
    outcomes = [cache.Outcome(spec) for spec in specs([0, 1, 2])]
    for _ in cache._watched(outcomes, specs([0, 1, 2]), 3, True, lambda spec: [45, 45, 10][spec.seed]):
        pass
    shown = capsys.readouterr().err
    assert all(text in shown for text in ("01:50 left", "00:20 left", "3 of 3 runs"))
