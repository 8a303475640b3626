"""Tests spawned workers, Ctrl-C within a policy, and many address spaces."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from queue import SimpleQueue

import polars as pl
import pytest

import binhop


def misses(seed: int) -> float | None:
    """Simulates a trace in a worker, which imports this module anew."""
    return binhop.simulate("kh90", "mult2.2", length=100_000, seeds=[seed], threads=2).value("l2.mpi")


def first(request: binhop.Request, pool: binhop.Pool) -> int:
    return pool[0]


def placed(seed: int) -> float | None:
    return binhop.simulate("kh90", "lin", length=50_000, seeds=[seed], policy=first).value("os.faults")


def test_spawned_workers_give_the_same_values() -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert [*pool.map(misses, range(3))] == [misses(seed) for seed in range(3)]
        assert [*pool.map(placed, range(2))] == [placed(0)] * 2


@pytest.mark.parametrize("threads", [1, 2])
def test_a_signal_within_a_policy_is_heard_when_it_returns(threads: int) -> None:
    calls: SimpleQueue[int] = SimpleQueue()

    class Signalling:
        def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
            calls.put(threading.get_ident())
            if calls.qsize() == 5:
                os.kill(os.getpid(), signal.SIGINT)
            return pool[0]

    with pytest.raises(KeyboardInterrupt):
        binhop.simulate("kh90", "tv", length=10**12, seeds=4, threads=threads, policy=Signalling)
    if threads == 1:
        assert calls.qsize() == 5
    else:  # the main thread hears it, while the other one ends its block: some 17 M references
        pages = binhop.simulate("kh90", "tv", length=50_000_000, seeds=1).value("os.faults")
        assert pages is not None
        assert 5 <= calls.qsize() <= 4 * pages


def test_a_thousand_processes_are_told_apart() -> None:
    """Each process is switched to, makes ten references and is switched from. Every count is exact."""
    switch = next(code for code, name, _ in binhop._binhop.events() if name == "switch")
    asids = [asid for asid in range(1000) for _ in range(11)]
    rows = pl.DataFrame({"asid": asids, "nth": [*range(11)] * 1000}).with_columns(
        op=pl.when(pl.col("nth") == 0).then(switch).otherwise(1).cast(pl.UInt8),
        addr=pl.when(pl.col("nth") == 0).then(pl.col("asid")).otherwise(pl.col("nth") * 4096).cast(pl.UInt64),
        size=pl.when(pl.col("nth") == 0).then(0).otherwise(8).cast(pl.UInt32),
        count=pl.lit(1, pl.UInt32),
    )
    trace = rows.select("op", "addr", "size", "count")
    result = binhop.simulate("zen-4k", trace, seeds=2)
    assert result.value("references") == 10_000
    assert result.value("os.faults") == 10_000
    mine = result.processes.filter(metric="references", seed=0)
    assert mine["asid"].to_list() == [*range(1000)]
    assert set(mine["value"].to_list()) == {10.0}
