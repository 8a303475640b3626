"""Runs `binhop reuse`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from binhop import reuse_distances
from binhop.claims import Claims
from binhop.cli import completion, options, show
from binhop.cli.delivery import delivering, end
from binhop.cli.early_end import report_unfinished
from binhop.cli.passes import over_each, parts
from binhop.numbers import counted
from binhop.resumable import reused

if TYPE_CHECKING:
    from binhop.reuse_distances import ReuseResult


def reuse(
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE...",
            autocompletion=completion.traces,
            help="Trace files or built-in workloads (binhop workloads). A file wins over a workload.",
        ),
    ],
    unit: Annotated[
        str, typer.Option(help="The size of a line, or of a page as in 4KiB.")
    ] = reuse_distances.UNIT,
    kinds: Annotated[
        Literal["all", "fetch", "data"], typer.Option(help="The accesses that form the stream.")
    ] = "all",
    sizes: Annotated[
        str | None,
        typer.Option(help="The cache sizes of the curve, separated by commas. Default: powers of two."),
    ] = None,
    simulate: Annotated[
        str,
        typer.Option(
            metavar="SIZES",
            help="The sizes of the caches that are simulated beside the curve, as in 32KiB,1MiB.",
        ),
    ] = "",
    ways: Annotated[str, typer.Option(help="The ways of the simulated caches.")] = str(reuse_distances.WAYS),
    length: options.Length = None,
    json_to: options.JsonTo = None,
    out: options.Out = None,
    force: options.Force = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Measure reuse distances, and the miss ratio for every cache size (docs/reuse.md)."""
    opened = options.opened(traces)
    wanted: dict[str, Any] = {
        "unit": unit,
        "kinds": kinds,
        "sizes": None if sizes is None else parts(sizes),
        "simulated": parts(simulate),
        "ways": options.positive(ways, "--ways"),
        "threads": options.positive(threads, "--threads"),
    }
    bound = options.positive(length, "--length")
    claims = Claims(force=force)
    claims.reads(*traces)
    with delivering(claims, out, json_to, several=len(opened) > 1, quiet=quiet) as delivery:
        results = over_each(opened, bound, delivery.kept, reused, wanted, what="reuse distances", quiet=quiet)
        whole = reuse_distances.join(results)
        delivery.ready(whole, lambda: print_reuse(whole))
        stopped = len(results) < len(opened)
        if stopped:
            whole.notes.append(report_unfinished(opened, len(results), delivery.kept))
        delivery.write(lambda directory: directory.fill(whole, command=["binhop", *sys.argv[1:]]))
    if delivery.show():
        show.written(out, delivery.names)
    end(early=stopped)


def print_reuse(result: ReuseResult) -> None:
    """Prints each workload's miss ratios by size, and those of its processes and segments."""
    out = show.console()
    for trace in result.provenance["traces"]:
        out.print(
            f"{trace['name']}: {counted(trace['references'], 'reference')}, "
            f"{counted(trace['accesses'], 'access', 'accesses')} to {counted(trace['units'], 'unit')} of "
            f"{result.provenance['unit']}"
        )
    for table in result.tables():
        out.print()
        show.print_table(table)
    for note in result.notes:
        out.print(f"note: {note}")
