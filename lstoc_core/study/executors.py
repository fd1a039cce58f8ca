"""Many independent calls at once, each in a process of one thread: on this machine or on a dask cluster.

An executor takes a call and its items and yields the results as they come, in any order. `lost(item, reason)` stands in
for the result of an item whose process died.
"""

import contextlib
import os
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import as_completed
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""Environment of a process that computes: processes use the cores, and the number of threads changes last digits."""


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
    """In a worker: stop computing for a parent that was killed and cannot take the result any more."""
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
                n_workers=min(workers, len(items)), threads_per_worker=1, processes=True, dashboard_address=None
            )
            scheduler = stack.enter_context(cluster).scheduler_address
        client = stack.enter_context(distributed.Client(scheduler))
        _check_workers(client, scheduler, identity)
        jobs = {client.submit(call, item, pure=False): item for item in items}
        for job in distributed.as_completed(jobs):
            try:
                result = job.result()
            except distributed.KilledWorker:
                result = lost(jobs[job], traceback.format_exc())
            job.release()
            yield result


def _check_workers(client: Any, scheduler: str, identity: Callable[[], str] | None) -> None:
    """Fail early where calls would wait for ever, share a process and its standard output, or run other code."""
    threads = client.nthreads().values()
    if not threads:
        raise RuntimeError(f"the cluster has no workers yet: start some with `dask worker {scheduler} --nthreads 1`")
    if max(threads) > 1:
        raise RuntimeError(f"each run needs a process of its own: start the workers of {scheduler} with --nthreads 1")
    if identity is not None and (other := set(client.run(identity).values()) - {identity()}):
        raise RuntimeError(
            f"{len(other)} other versions of the code on the workers of {scheduler}: install this one there"
        )
