"""The command that simulates."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

import binhop
from binhop.cli import show
from binhop.cli.progress import progress
from binhop.errors import RequestError
from binhop.numbers import count, like
from binhop.output import OutputFile, ResultDirectory
from binhop.results import Result, join
from binhop.summary import demand_misses

ENDLESS = "50M"
"""How much of a built-in workload is simulated unless told otherwise: it would never end."""

LENGTH_HELP = (
    f"References to simulate, in whole rows, as in 50M. Default: all; {ENDLESS} of a built-in workload."
)


def run(
    machine: Annotated[str, typer.Argument(help="A bundled machine's name, or a description's path.")],
    traces: Annotated[
        list[str], typer.Argument(metavar="TRACE...", help="Trace files or built-in workloads; a file wins.")
    ],
    seeds: Annotated[
        str | None, typer.Option(help="How many placements. Default: 32; 1 if nothing is random.")
    ] = None,
    seed: Annotated[
        list[str] | None, typer.Option(help="The placement of this number; may be given several times.")
    ] = None,
    length: Annotated[str | None, typer.Option(help=LENGTH_HELP)] = None,
    warmup: Annotated[
        str, typer.Option(help="References of it that are simulated first and reported apart.")
    ] = "0",
    interval: Annotated[str | None, typer.Option(help="Instructions in an interval of the series.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change the machine: cache.l2.size=1MiB."),
    ] = None,
    json_to: Annotated[
        str | None, typer.Option("--json", metavar="FILE|-", help="Write one JSON object with every row.")
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Write tables, provenance, figures.")] = None,
    threads: Annotated[str | None, typer.Option(help="How many threads. Default: all there are.")] = None,
    confidence: Annotated[float, typer.Option(help="Of the interval of the mean.")] = 0.95,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no table.")] = False,
) -> None:
    """Simulate traces on a machine, under many page placements."""
    if not 0 < confidence < 1:
        rule = "a confidence lies between 0 and 1"
        raise RequestError(str(confidence), "--confidence", rule, "give 0.95, or 0.9 as KH90 does")
    chosen = binhop.Machine.load(machine, settings or [])
    opened = _open(traces)
    plan: dict[str, Any] = {
        "seeds": _seeds(seeds, seed),
        "warmup": count(warmup, "--warmup") or 0,
        "interval": _positive(interval, "--interval"),
        "threads": _positive(threads, "--threads"),
    }
    length_given = _positive(length, "--length")
    endless = count(ENDLESS, "--length")
    with ExitStack() as stack:
        file = stack.enter_context(OutputFile(json_to, "--json")) if json_to not in (None, "-") else None
        directory = stack.enter_context(ResultDirectory(out, "--out")) if out is not None else None
        results: list[Result] = []
        for trace in opened:
            bound = length_given if length_given is not None or not trace.endless else endless
            with progress(f"{trace.name} on {chosen.name}", quiet=quiet) as tell:
                results.append(binhop.simulate(chosen, trace, length=bound, progress=tell, **plan))
        whole = join(results)
        names = directory.fill(whole, command=["binhop", *sys.argv[1:]]) if directory is not None else []
        if file is not None:
            file.write(whole.to_json() + "\n")
    if json_to == "-":
        sys.stdout.write(whole.to_json() + "\n")
        return
    if not quiet:
        print_result(whole, confidence)
        if out is not None:
            print(f"\nwritten: {', '.join(str(Path(out) / name) for name in names if _of_interest(name))}")


def _of_interest(name: str) -> bool:
    return name.endswith(".png") or name == "results.parquet"


def _open(names: list[str]) -> list[binhop.Trace]:
    opened = [binhop.Trace.of(name) for name in names]
    called = [trace.name for trace in opened]
    for name in called:
        if called.count(name) > 1:
            rule = "two traces of one run need two names: rows are told apart by them"
            raise RequestError(
                name, "TRACE", rule, "rename one of the files, or run them one after the other"
            )
    for name, trace in zip(names, opened, strict=True):
        if not trace.endless and name in binhop.workloads()["name"]:
            print(f"note: {name} is a file here; it wins over the built-in workload", file=sys.stderr)
    return opened


def _seeds(seeds: str | None, seed: list[str] | None) -> int | list[int] | None:
    if seed and seeds is not None:
        rule = "either a number of placements or the placements themselves"
        raise RequestError(f"--seeds {seeds} --seed {seed[0]}", "binhop run", rule, "leave one of them out")
    if seed:
        return [number for text in seed if (number := count(text, "--seed")) is not None]
    number = count(seeds, "--seeds")
    if number == 0:
        raise RequestError(
            "0", "--seeds", "a run needs at least one placement", "ask for 1 or more; the default is 32"
        )
    return number


def _positive(text: str | None, option: str) -> int | None:
    number = count(text, option)
    if number == 0:
        raise RequestError("0", option, "must be at least 1", like(option))
    return number


def print_result(result: Result, confidence: float) -> None:
    """For each workload and cache: demand misses, and misses per 1000 instructions over the placements."""
    out = show.console()
    for workload in result.workloads:
        _print_workload(result, workload, confidence)
    for note in result.notes:
        out.print(f"note: {note}")


def _print_workload(result: Result, workload: str, confidence: float) -> None:
    out = show.console()
    of = result.summary(confidence).filter(workload=workload)
    values = {row["metric"]: row for row in of.iter_rows(named=True)}
    n = len(result.seeds)
    executed = show.grouped(values["instructions"]["mean"])
    out.print(
        f"{workload} on {result.provenance['machine']}: "
        f"{show.grouped(values['references']['mean'])} references, "
        f"{executed} instructions, {n} placement{'s' * (n != 1)}"
    )
    out.print()
    measured = result.results.filter(workload=workload, phase="measured")
    caches = [metric.removesuffix(".mpi") for metric in values if metric.endswith(".mpi")]
    table = show.table(
        "cache",
        "misses",
        "MPI×1000",
        "median",
        f"{100 * confidence:g}% interval",
        "best (seed)",
        "worst (seed)",
        right=6,
    )
    for cache in caches:
        row = values[f"{cache}.mpi"]
        misses = demand_misses(measured, cache)["misses"].to_list()
        mean = sum(misses) / max(len(misses), 1)
        table.add_row(cache, show.grouped(mean), show.rate(row["mean"]), *_spread(row))
    out.print(table)
    out.print()


def _spread(row: dict[str, Any]) -> list[str]:
    """Median, interval, best and worst; nothing where there is one placement or no difference."""
    if row["n"] < 2:
        return ["-"] * 4
    if row["min"] == row["max"]:
        return [show.rate(row["median"]), "-", "the same", "for all"]
    return [
        show.rate(row["median"]),
        f"{show.rate(row['low'])}-{show.rate(row['high'])}",
        f"{show.rate(row['min'])} ({row['best_seed']})",
        f"{show.rate(row['max'])} ({row['worst_seed']})",
    ]
