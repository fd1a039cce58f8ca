"""Many independent calls at once, each in a process of one thread: on this machine or on a dask cluster.

An executor takes a call and its items and yields the results as they come, in any order. `lost(item, reason)` stands in
for the result of an item whose process died.
"""

import contextlib
import os
import re
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError, as_completed
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""Environment of a process that computes: processes use the cores, and the number of threads changes last digits."""

LOOK_EVERY = 5.0
"""Seconds after which the workers of a cluster are counted again."""
WAIT_FOR_WORKERS = 60.0
"""Seconds that a cluster may be without a worker before its calls are given up."""
CONNECT_WITHIN = 10
"""Seconds in which a scheduler must answer."""


class ExecutorError(RuntimeError):
    """The processes to compute with cannot be had as asked; the message names the remedy. Nothing has been run."""


def processes(given: int | None = None) -> int:
    """How many processes to compute with: as given, else LSTOC_WORKERS, else one for each core."""
    name, text = ("LSTOC_WORKERS", os.environ.get("LSTOC_WORKERS", "")) if given is None else ("workers", str(given))
    if not text:
        return os.cpu_count() or 1
    if not re.fullmatch(r"[0-9]+", text) or int(text) < 1:
        raise ExecutorError(f"{name} is {text!r}: give a whole number, 1 or more")
    return int(text)


def cluster_address(given: str | None = None) -> str | None:
    """Address of the dask scheduler to compute on: as given, else LSTOC_SCHEDULER, else None."""
    address = given or os.environ.get("LSTOC_SCHEDULER") or None
    if address and not re.fullmatch(r"(tcp|tls)://[^\s/]+:[0-9]+|inproc://.+", address):
        raise ExecutorError(f"scheduler {address!r} is no address: write it as tcp://host:8786, or tls://host:8786")
    return address


def with_loky(
    call: Callable[[Item], Result], items: Sequence[Item], lost: Callable[[Item, str], Result], *, workers: int
) -> Iterator[Result]:
    """Calls in loky's processes on this machine, started anew so that they read the code as it is now.

    A call that kills its process (out of memory, say) takes the whole pool with it: the calls that were lost are done
    again, each in a pool of its own, to find out which one it was.
    """
    for item in (yield from _pool(call, items, min(workers, len(items)))):
        if (yield from _pool(call, [item], 1)):
            yield lost(item, "its process died: out of memory, or killed from outside")


def _pool(call: Callable[[Item], Result], items: Sequence[Item], workers: int) -> Generator[Result, None, list[Item]]:
    """Yield the results; return the items without one because a process died."""
    from loky import ProcessPoolExecutor
    from loky.process_executor import TerminatedWorkerError

    # Loky starts a process anew when its memory has grown, and warns that it did: nothing is lost.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given to the executor")
    without: list[Item] = []
    complete = False
    pool = ProcessPoolExecutor(workers, env=ONE_THREAD, initializer=_end_with_parent)
    try:
        jobs = {pool.submit(call, item): item for item in items}
        for job in as_completed(jobs):
            try:
                yield job.result()
            except TerminatedWorkerError:
                without.append(jobs[job])
        complete = True
    finally:
        pool.shutdown(wait=True, kill_workers=not complete)
    return without


def _end_with_parent() -> None:
    """In a worker: stop computing for a parent that was killed and cannot take the result any more.

    A terminal sends Ctrl-C to all processes; only the parent is to answer it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def with_dask(
    call: Callable[[Item], Result],
    items: Sequence[Item],
    lost: Callable[[Item, str], Result],
    *,
    workers: int,
    scheduler: str | None = None,
    identity: Callable[[], str] | None = None,
) -> Iterator[Result]:
    """Calls on the workers of the dask cluster at `scheduler` (tcp://host:port), or of one started here.

    `identity` must give on every worker what it gives here: of the code, say, which may be another version there.
    """
    import distributed

    with contextlib.ExitStack() as stack:
        if scheduler is None:
            cluster = distributed.LocalCluster(
                host="127.0.0.1",  # nobody else's calls: whoever reaches a scheduler can run code
                n_workers=min(workers, len(items)),
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
            )
            scheduler = stack.enter_context(cluster).scheduler_address
        client = stack.enter_context(_client(scheduler))
        _check_workers(client, scheduler, identity)
        jobs = {client.submit(call, item, pure=False): item for item in items}
        last_seen = time.monotonic()
        while jobs:
            with contextlib.suppress(distributed.TimeoutError):
                distributed.wait(list(jobs), timeout=LOOK_EVERY, return_when="FIRST_COMPLETED")
            for job in [job for job in jobs if job.done()]:
                item = jobs.pop(job)
                try:
                    result = job.result()
                except (distributed.KilledWorker, CancelledError):
                    result = lost(item, traceback.format_exc())
                job.release()
                yield result
            if client.status == "running" and client.scheduler_info()["workers"]:
                last_seen = time.monotonic()
            elif time.monotonic() - last_seen > WAIT_FOR_WORKERS:
                for item in jobs.values():
                    yield lost(item, f"all workers of {scheduler} are gone: start some, and give the command again")
                return


def _client(scheduler: str) -> Any:
    import distributed

    try:
        return distributed.Client(scheduler, timeout=CONNECT_WITHIN)
    except OSError as error:
        raise ExecutorError(
            f"no dask scheduler answers at {scheduler}: start one with `dask scheduler`, or correct the address"
        ) from error


def _check_workers(client: Any, scheduler: str, identity: Callable[[], str] | None) -> None:
    """Fail early where calls would wait for ever, share a process and its standard output, or run other code."""
    threads = client.nthreads().values()
    if not threads:
        raise ExecutorError(f"the cluster has no workers yet: start some with `dask worker {scheduler} --nthreads 1`")
    if max(threads) > 1:
        raise ExecutorError(f"each run needs a process of its own: start the workers of {scheduler} with --nthreads 1")
    if identity is not None and (other := set(client.run(identity).values()) - {identity()}):
        raise ExecutorError(
            f"{len(other)} other versions of the code or its libraries on workers of {scheduler}: install these there"
        )
