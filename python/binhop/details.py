"""Reads details of single placements: every page placed, in order, and the pages whose lines missed most."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from binhop import _binhop
from binhop._binhop import Machine
from binhop.arguments import seed_number, thread_count
from binhop.lazy_imports import pl
from binhop.run import run_all
from binhop.run_options import PlacementOptions, extended, takes
from binhop.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack

    from binhop.traces import ArrowStream


@takes(PlacementOptions)
def placements(
    machine: Machine | str | os.PathLike[str],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    seed: int = 0,
    **options: Unpack[PlacementOptions],
) -> pl.DataFrame:
    """Returns every page that one placement put into a frame, in order.

    `write_parquet` writes the table to a file, which repeats the placement: set `placement.policy=recorded`
    and `placement.file`.

    Args:
        machine: As for `simulate`.
        trace: As for `simulate`.

        seed: The number of the placement.
        **options: The keywords of `binhop.run_options.PlacementOptions`.

    Returns:
        One row for each fault: seed, fault (its ordinal, from 0), asid and page_no (where the page was
        touched), page (a number that stands for the page wherever it is mapped), segment, frame, and evicted:
        the page that was evicted from the frame, null if no page was evicted.

    >>> placements("kh90", "lin", length=20_000).columns
    ['seed', 'fault', 'asid', 'page_no', 'page', 'segment', 'frame', 'evicted']
    """
    ((_, outcome),) = run_all([machine], trace, extended(options, seeds=[seed]), log=True)
    assert outcome.placements is not None, "they were asked for"
    return pl.DataFrame(outcome.placements)


def export_memory(
    machine: Machine | str | os.PathLike[str],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    path: str | os.PathLike[str],
    to: str,
    *,
    seed: int = 0,
    scheme: str | None = None,
    length: int | str | None = None,
    threads: int | None = None,
    progress: Any = None,
) -> dict[str, Any]:
    """Writes what reaches a machine's memory under one placement, for a simulator of DRAM.

    The file holds, in order, the lines that caches read, the lines that they write back, and the stores that
    they pass down. Lines that are dirty at the end are not written. The file has as many reads and writes as
    `simulate` counts at memory.

    With a scheme for device data, the file holds the requests that the machine's memory with a controller
    gets, in order: those of devices, too, as `binhop.device_data` simulates them. Cycles are those of the
    memory. `binhop.dram` with the same memory serves these requests by the same commands.

    Args:
        machine: As for `simulate`.
        trace: As for `simulate`.
        path: The file; compressed if its name ends in .gz, .xz or .zst.
        to: Its format: see `binhop.exporters()`.

        seed: The number of the placement.
        scheme: The scheme (`binhop.schemes()`) behind which the requests are taken. The machine has a section
            `[dram]`. Default: no scheme, and no devices.
        length: References to simulate; default: the whole trace.
        threads: With 2 or more, the trace is decoded on a thread of its own.
        progress: As for `simulate`.

    Returns:
        Reads, writes, the file's bytes, and notes.
    """
    loaded = machine if isinstance(machine, Machine) else Machine.load(os.fspath(machine))
    opened = Trace.of(trace)
    known = [name for name, _ in _binhop.schemes()]
    if scheme is not None and scheme not in known:
        raise _binhop.unknown(str(scheme), "scheme", "no scheme has this name", known)
    said: dict[str, Any] = json.loads(
        _binhop.export_memory(
            loaded,
            opened.stream(),
            os.fspath(path),
            to,
            seed=seed_number(seed),
            threads=thread_count(threads),
            scheme=scheme,
            length=opened._bounded(length),
            progress=progress,
        )
    )
    return said


@takes(PlacementOptions)
def repeated_misses(
    machine: Machine | str | os.PathLike[str],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    *,
    cache: str | None = None,
    seeds: int | Iterable[int] | None = None,
    **options: Unpack[PlacementOptions],
) -> pl.DataFrame:
    """Returns the pages whose lines missed again in a cache, under each placement.

    A repeated miss is a demand miss (fetch, load, store), in a warm-up too, on a line that was in the cache
    before. The cache evicted the line either because it is too small (a capacity miss, under every placement)
    or because too many lines share the set (a conflict miss, which another placement may avoid). So compare
    seeds: a difference between seeds is an effect of the placement.

    Args:
        machine: As for `simulate`.
        trace: As for `simulate`.
        cache: A cache of the machine; default: the last before memory.
        seeds: As for `simulate`.
        **options: The keywords of `binhop.run_options.PlacementOptions`.

    Returns:
        One row for each seed and page that missed again: seed, page, asid and page_no (where the page was
        touched first), segment (its name, as docs/compare.md describes), frame (the page's last frame), bin
        (of the cache), misses.

    >>> repeated_misses("kh90", "lin", seeds=2, length=100_000).columns
    ['seed', 'page', 'asid', 'page_no', 'segment', 'frame', 'bin', 'misses']
    """
    loaded = machine if isinstance(machine, Machine) else Machine.load(os.fspath(machine))
    watched = cache or loaded.last_level
    ((_, outcome),) = run_all([loaded], trace, extended(options, seeds=seeds), watch=watched)
    assert outcome.pages is not None, "they were asked for"
    return pl.DataFrame(outcome.pages)
