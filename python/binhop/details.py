"""What single placements did: every page placed, in order, and the pages whose lines missed most."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from binhop import _binhop
from binhop._binhop import Machine
from binhop.arguments import seed_number, thread_count
from binhop.lazily import pl
from binhop.run import run_all
from binhop.traces import Trace

if TYPE_CHECKING:
    from binhop.traces import ArrowStream


def placements(
    machine: Machine | str | os.PathLike[str],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    seed: int = 0,
    **plan: Any,
) -> pl.DataFrame:
    """Every page that one placement put into a frame, in order.

    Written to a file with `write_parquet`, it can be replayed: `placement.policy=recorded` with
    `placement.file`.

    Args:
        machine: As for `simulate`.
        trace: As for `simulate`.
        seed: The placement.
        plan: `length`, `instructions`, `warmup`, `threads`, `policy`, `progress` of `simulate`.

    Returns:
        One row for each fault: seed, fault (its ordinal, from 0), asid and page_no (where the page was
        touched), page (a number that stands for it wherever it is mapped), segment, frame, and evicted: the
        page that had to leave the frame, null if none had.

    >>> placements("kh90", "lin", length=20_000).columns
    ['seed', 'fault', 'asid', 'page_no', 'page', 'segment', 'frame', 'evicted']
    """
    ((_, outcome),) = run_all([machine], trace, seeds=[seed], log=True, **plan)
    assert outcome.placements is not None, "they were asked for"
    return pl.DataFrame(outcome.placements)


def export_memory(
    machine: Machine | str | os.PathLike[str],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    path: str | os.PathLike[str],
    to: str,
    *,
    seed: int = 0,
    length: int | str | None = None,
    threads: int | None = None,
    progress: Any = None,
) -> dict[str, Any]:
    """Writes what reaches a machine's memory under one placement, for a simulator of DRAM.

    In order: lines that caches read, lines they write back, stores that are passed down. Lines that are dirty
    in the end stay where they are. There are as many reads and writes as `simulate` counts of memory.

    Args:
        machine: As for `simulate`.
        trace: As for `simulate`.
        path: The file; compressed if its name ends in .gz, .xz or .zst.
        to: Its format: see `binhop.exporters()`.
        seed: The placement.
        length: References to simulate; the whole trace if absent.
        threads: With 2 or more, the trace is decoded on a thread of its own.
        progress: As for `simulate`.

    Returns:
        Reads, writes, the file's bytes, and notes.
    """
    loaded = machine if isinstance(machine, Machine) else Machine.load(os.fspath(machine))
    opened = Trace.of(trace)
    said: dict[str, Any] = json.loads(
        _binhop.export_memory(
            loaded,
            opened.stream(),
            os.fspath(path),
            to,
            seed=seed_number(seed),
            threads=thread_count(threads),
            length=opened._bounded(length),
            progress=progress,
        )
    )
    return said


def repeated_misses(
    machine: Machine | str | os.PathLike[str],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    *,
    cache: str | None = None,
    **plan: Any,
) -> pl.DataFrame:
    """The pages whose lines missed again in a cache, under each placement.

    A miss counts if it is a demand miss (fetch, load, store) on a line that was in the cache before: for want
    of room (which no placement mends) or for the company it keeps there (which another placement may). So
    compare seeds: what differs between them is the placement's doing.

    Args:
        machine: As for `simulate`.
        trace: As for `simulate`.
        cache: A cache of the machine; default: the last before memory.
        plan: `seeds`, `length`, `instructions`, `warmup`, `threads`, `policy`, `progress` of `simulate`.
            Misses of a warm-up are counted too.

    Returns:
        One row for each seed and page that missed again: seed, page, asid and page_no (where it was touched
        first), segment (named by what it is: docs/compare.md), frame (the last it was in), bin (of the
        cache), misses.

    >>> repeated_misses("kh90", "lin", seeds=2, length=100_000).columns
    ['seed', 'page', 'asid', 'page_no', 'segment', 'frame', 'bin', 'misses']
    """
    checked = machine if isinstance(machine, Machine) else Machine.load(os.fspath(machine))
    ((_, outcome),) = run_all([checked], trace, watch=cache or checked.last_level, **plan)
    assert outcome.pages is not None, "they were asked for"
    return pl.DataFrame(outcome.pages)
