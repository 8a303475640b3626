"""Runs `binhop paging`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from binhop import faults
from binhop.claims import Claims
from binhop.cli import completion, options, show
from binhop.cli.delivery import delivering, end
from binhop.cli.early_end import report_unfinished
from binhop.cli.passes import over_each, parts
from binhop.errors import RequestError
from binhop.numbers import UNITS, count, like
from binhop.resumable import paged

if TYPE_CHECKING:
    import polars as pl

    from binhop.faults import PagingResult

ACROSS = 7
"""The most color counts side by side in 80 columns."""


def paging(
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE...",
            autocompletion=completion.traces,
            help="Trace files or built-in workloads (binhop workloads). A file wins over a workload.",
        ),
    ],
    sizes: Annotated[str, typer.Option(help="The memory sizes, separated by commas.")] = ",".join(
        faults.SIZES
    ),
    colors: Annotated[
        str, typer.Option(help="The color counts, separated by commas. 1 is conventional LRU.")
    ] = (",".join(map(str, faults.COLORS))),
    page: Annotated[str, typer.Option(help="The page size.")] = faults.PAGE,
    length: options.Length = None,
    pid_hash: Annotated[
        bool, typer.Option("--pid-hash", help="Let a page's color also depend on its address space.")
    ] = False,
    json_to: options.JsonTo = None,
    out: options.Out = None,
    force: options.Force = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Count page faults over memory sizes and colors, in one pass (LF91; docs/paging.md)."""
    opened = options.opened(traces)
    wanted: dict[str, Any] = {
        "sizes": parts(sizes),
        "colors": [_color(part) for part in parts(colors)],
        "page": page,
        "pid_hash": pid_hash,
        "threads": options.positive(threads, "--threads"),
    }
    bound = options.positive(length, "--length")
    claims = Claims(force=force)
    claims.reads(*traces)
    with delivering(claims, out, json_to, several=len(opened) > 1, quiet=quiet) as delivery:
        results = over_each(opened, bound, delivery.kept, paged, wanted, what="page faults", quiet=quiet)
        whole = faults.join(results)
        delivery.ready(whole, lambda: print_paging(whole))
        stopped = len(results) < len(opened)
        if stopped:
            whole.notes.append(report_unfinished(opened, len(results), delivery.kept))
        delivery.write(lambda directory: directory.fill(whole, command=["binhop", *sys.argv[1:]]))
    if delivery.show():
        show.written(out, delivery.names)
    end(early=stopped)


def _color(text: str) -> int:
    number = count(text, "--colors")
    if number is None:
        raise RequestError(text, "--colors", "must be a whole number", like("--colors"))
    return number


def print_paging(result: PagingResult) -> None:
    """Prints each workload's faults per million references and its memory utilization, by color count."""
    out = show.console()
    for workload in result.workloads:
        cells = result.faults.filter(workload=workload)
        used = result.utilization.filter(workload=workload)
        out.print(
            f"{workload}: {show.counted(cells['references'][0], 'reference')}, "
            f"{show.counted(used['pages'][0], 'page')}; faults per million, by colors"
        )
        out.print()
        colors = used["colors"].to_list()
        for first in range(0, len(colors), ACROSS):
            _print_part(cells, used, colors[first : first + ACROSS])
    for note in result.notes:
        out.print(f"note: {note}")


def _print_part(cells: pl.DataFrame, used: pl.DataFrame, colors: list[int]) -> None:
    """Prints a row for each memory size, and a column for each of a few color counts."""
    out = show.console()
    table = show.table("memory", *map(str, colors), right=len(colors))
    for (size,), row in cells.group_by("size", maintain_order=True):
        rates = [row.filter(colors=color)["fault_rate"].item() for color in colors]
        table.add_row(_bytes(size), *(_per_million(rate) for rate in rates))
    shares = [used.filter(colors=color)["utilization"].item() for color in colors]
    table.add_row("utilization", *("-" if share is None else f"{share:.3f}" for share in shares))
    out.print(table)
    out.print()


def _per_million(rate: float | None) -> str:
    """Returns faults per million references. From 1000 on there are no decimals: 80 columns hold 7 rates."""
    if rate is None:
        return "-"
    number = 1e6 * rate
    return f"{number:.2f}" if round(number, 2) < 1000 else f"{number:.0f}"


def _bytes(size: int) -> str:
    unit, name = next(((1 << log2, name) for name, log2 in UNITS.items() if size % (1 << log2) == 0))
    return f"{size // unit} {name}"
