"""Runs `binhop switches`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

import binhop
from binhop import switching
from binhop.claims import Claims
from binhop.cli import completion, mixing, options, plans, show, table_form
from binhop.cli.delivery import delivering, end
from binhop.cli.early_end import ending_early, report_unfinished
from binhop.cli.progress import progress
from binhop.errors import RequestError
from binhop.lazy_imports import pl
from binhop.pace import Passes, references_of
from binhop.resumable import switched
from binhop.run_options import extended
from binhop.switch_cost import CONFIDENCE
from binhop.tables import TEXT

if TYPE_CHECKING:
    from pathlib import Path

    from binhop.kept_runs import KeptRuns
    from binhop.run_options import RunOptions
    from binhop.switching import SwitchResult

SEGMENT_COLUMNS = frozenset({"switch", "ended", "since", "cycles_shared", "cycles_private"})
"""Columns by which an earlier file of --segments is recognised."""
SEEDS = 4
"""The default number of placements. Private caches make a placement dearer than one of `binhop run`."""
Seeds = Annotated[
    str | None,
    typer.Option(help=f"The number of placements. Default: {SEEDS}, and 1 if nothing is random."),
]
"""The option that gives the number of placements."""


def switches(
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE...",
            autocompletion=completion.traces,
            help="Traces of several processes: files, built-in workloads or pipes. A file wins over a "
            "workload.",
        ),
    ],
    machine: Annotated[
        str,
        typer.Option(
            "--machine",
            metavar="M",
            autocompletion=completion.machines,
            help="A bundled machine (binhop machines), or a description's path. It must state costs.",
        ),
    ],
    mix: mixing.Mix = False,
    quantum: mixing.Quantum = None,
    order: mixing.Order = None,
    latency: mixing.Latency = None,
    faults: mixing.Faults = None,
    fault_latency: mixing.FaultLatency = None,
    until_first: mixing.UntilFirst = False,
    repeat: mixing.Repeat = False,
    seeds: Seeds = None,
    length: options.Length = None,
    warmup: options.Warmup = "0",
    settings: options.Settings = None,
    segments: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Write every interval after every switch into this file, as Parquet."
        ),
    ] = None,
    kernel: Annotated[
        bool,
        typer.Option(
            "--kernel", help="Let the kernel reference what the machine's \\[kernel.switch], … state."
        ),
    ] = False,
    explain: plans.Explain = False,
    form: table_form.Form = TEXT,
    json_to: options.JsonTo = None,
    out: options.Out = None,
    force: options.Force = False,
    threads: options.Threads = None,
    confidence: options.Confidence = CONFIDENCE,
    quiet: options.Quiet = False,
) -> None:
    """Measure what context switches cost, by cause, process and level (MB90; docs/switches.md)."""
    options.confidence_of(confidence)
    table_form.checked(form)
    chosen = binhop.Machine.load(machine, [*(settings or [])])
    switching.check_costs(chosen, "--machine")
    if kernel:
        switching.check_kernel(chosen, "--machine")
    asked = mixing.Mixing(quantum, order, latency, faults, fault_latency, until_first, repeat)
    bounded = asked.opened(traces, length, mix=mix)
    opened = [trace for trace, _ in bounded]
    if segments is not None and len(opened) > 1:
        rule = "holds the segments of one trace"
        raise RequestError(segments, "--segments", rule, "give one trace, or leave --segments out")
    numbers = options.seeds_of(seeds)
    given = extended(
        options.run_options(warmup, threads),
        seeds=numbers or (SEEDS if chosen.is_random else 1),
    )
    jobs = [(trace, extended(given, length=bound)) for trace, bound in bounded]
    if explain:
        plans.print_plans(chosen, jobs, switches=True)
        return
    claims = Claims(force=force)
    claims.reads(*traces)
    claims.reads_machines([chosen], machine)
    with ExitStack() as stack:
        several = len(jobs) > 1
        delivery = stack.enter_context(delivering(claims, out, json_to, several=several, quiet=quiet))
        raw = stack.enter_context(claims.file(segments, "--segments", _own_segments))
        results = _each(
            chosen, jobs, delivery.kept, segments=segments is not None, kernel=kernel, quiet=quiet
        )
        whole = switching.join(results, confidence)
        delivery.ready(whole, lambda: print_switches(whole, form))
        stopped = len(results) < len(jobs)
        if stopped:
            whole.own_notes.append(report_unfinished(opened, len(results), delivery.kept))
        if raw is not None and results[0].segments is not None:
            raw.write_by(results[0].segments.write_parquet)
        delivery.write(lambda directory: table_form.fill(directory, whole, whole.tables(), whole.notes, form))
    if delivery.show() and form == TEXT:
        show.written(out, delivery.names)
    end(early=stopped)


def _each(
    machine: binhop.Machine,
    jobs: list[tuple[binhop.Trace, RunOptions]],
    kept: KeptRuns | None,
    *,
    segments: bool,
    kernel: bool,
    quiet: bool,
) -> list[SwitchResult]:
    """Measures each trace. Ctrl-C ends the work early if nothing is kept."""
    results: list[SwitchResult] = []
    names = " ".join(trace.name for trace, _ in jobs)
    with ending_early(results, kept), progress(f"{names}, switches on {machine.name}", quiet=quiet) as tell:
        passes = None
        if tell is not None:
            passes = Passes(tell, [references_of(trace, of.get("length")) for trace, of in jobs])
        for trace, of in jobs:
            own = None if passes is None else passes.next()
            results.append(
                switched(kept, machine, trace, extended(of, progress=own), segments=segments, kernel=kernel)
            )
    return results


def _own_segments(path: Path) -> bool:
    """Returns whether a file has the columns that --segments writes."""
    try:
        return {*pl.read_parquet_schema(path)} >= SEGMENT_COLUMNS
    except pl.exceptions.PolarsError:
        return False


def print_switches(result: SwitchResult, form: str) -> None:
    """Prints the tables, and the notes below them."""
    table_form.print_tables(result.tables(), result.notes, form)
