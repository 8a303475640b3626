"""The command that simulates one machine."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Annotated, Any

import typer

import binhop
from binhop.cli import options, show
from binhop.cli.look import Look, Looker, look_of, seeds_to_run
from binhop.cli.progress import progress
from binhop.errors import RequestError
from binhop.numbers import count
from binhop.output import OutputFile, ResultDirectory
from binhop.results import Result, join
from binhop.summary import demand_misses
from binhop.until import most_seeds, share, traces_until

Job = tuple[binhop.Trace, dict[str, Any]]
"""A trace, and how much of it is simulated in which manner."""


def run(
    machine: Annotated[
        str, typer.Argument(help="A bundled machine (binhop machines), or the path of a description.")
    ],
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE...", help="Trace files or built-in workloads (binhop workloads); a file wins."
        ),
    ],
    seeds: options.Seeds = None,
    seed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N|best|worst",
            help="The placement of this number, also several times. With --dump-placement or --top-conflicts "
            "the one to look at: fewest or most misses at the last level.",
        ),
    ] = None,
    until: options.Until = None,
    metric: Annotated[
        str | None, typer.Option(help="Whose interval --until looks at. Default: misses at the last level.")
    ] = None,
    length: options.Length = None,
    warmup: options.Warmup = "0",
    interval: Annotated[str | None, typer.Option(help="Instructions in an interval of the series.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change the machine, also several times: cache.l2.size=1MiB."
        ),
    ] = None,
    v2p: options.V2p = None,
    top: Annotated[
        str | None,
        typer.Option(
            "--top-conflicts",
            metavar="N",
            help="Name the pages, segments and processes that missed most at the last level, beyond the "
            "first touch, under one placement (--seed; default: the worst).",
        ),
    ] = None,
    dump: Annotated[
        str | None,
        typer.Option(
            "--dump-placement",
            metavar="FILE",
            help="Write every page of one placement (--seed; default: the worst) with its frame, as Parquet.",
        ),
    ] = None,
    json_to: options.JsonTo = None,
    out: options.Out = None,
    threads: options.Threads = None,
    confidence: options.Confidence = 0.95,
    quiet: options.Quiet = False,
) -> None:
    """Simulate traces on a machine, under many page placements."""
    options.confidence_of(confidence)
    chosen = binhop.Machine.load(machine, [*(settings or []), *options.recorded(v2p)])
    opened = options.opened(traces)
    plan = options.plan_of(warmup, threads) | {"interval": options.positive(interval, "--interval")}
    bound = options.positive(length, "--length")
    jobs = [(trace, {**plan, "length": options.length_of(bound, trace)}) for trace in opened]
    look = look_of(seed or [], dump, top, opened)
    numbers = _seeds(chosen, seeds, seed, until, look)
    narrow = _narrow(until, metric, numbers)
    looker = Looker(look, chosen, plan, quiet=quiet) if look is not None else None
    with ExitStack() as stack:
        file = stack.enter_context(OutputFile(json_to, "--json")) if json_to not in (None, "-") else None
        directory = stack.enter_context(ResultDirectory(out, "--out")) if out is not None else None
        dumped = stack.enter_context(looker.dump()) if looker is not None else None
        if narrow is not None:
            results = _until(chosen, jobs, narrow, metric, confidence, quiet=quiet)
        else:
            results = _each(chosen, jobs, numbers, quiet=quiet)
        if looker is not None:
            for result, (trace, of) in zip(results, jobs, strict=True):
                looker.look(result, trace, of["length"], dumped)
        whole = join(results)
        names = directory.fill(whole, command=["binhop", *sys.argv[1:]]) if directory is not None else []
        if file is not None:
            file.write(whole.to_json() + "\n")
    if json_to == "-":
        sys.stdout.write(whole.to_json() + "\n")
    elif not quiet:
        print_result(whole, confidence)
        if looker is not None:
            looker.tell()
        show.written(out, names)


def _each(
    machine: binhop.Machine, jobs: list[Job], seeds: int | list[int] | None, *, quiet: bool
) -> list[Result]:
    """Each trace with its plan, under these placements."""
    results = []
    for trace, plan in jobs:
        with progress(f"{trace.name} on {machine.name}", quiet=quiet) as tell:
            results.append(binhop.simulate(machine, trace, seeds=seeds, progress=tell, **plan))
    return results


def _until(
    machine: binhop.Machine,
    jobs: list[Job],
    narrow: tuple[float, int],
    metric: str | None,
    confidence: float,
    *,
    quiet: bool,
) -> list[Result]:
    """All traces, until the interval of each is narrow."""
    goal, most = narrow
    names = " ".join(trace.name for trace, _ in jobs)
    with progress(f"{names} on {machine.name}", quiet=quiet) as tell:
        plans = [{**plan, "progress": tell} for _, plan in jobs]
        traces = [trace for trace, _ in jobs]
        return traces_until(machine, traces, goal, most, metric, confidence, plans)


def _seeds(
    machine: binhop.Machine, seeds: str | None, seed: list[str] | None, until: str | None, look: Look | None
) -> int | list[int] | None:
    """How many placements to run, or which."""
    many = options.seeds_of(seeds)
    if look is not None:
        return seeds_to_run(look, many, machine, until=until is not None)
    if not seed:
        return many
    other = f"--seeds {seeds}" if seeds is not None else f"--until {until}" if until is not None else None
    if other is not None:
        rule = "either a number of placements or the placements themselves"
        raise RequestError(f"{other} --seed {seed[0]}", "run", rule, "leave one of them out")
    return [number for text in seed if (number := count(text, "--seed")) is not None]


def _narrow(until: str | None, metric: str | None, seeds: Any) -> tuple[float, int] | None:
    """How narrow, and the most seeds to get there."""
    if until is not None:
        return share(until, "--until"), most_seeds(seeds, "--seeds")
    if metric is not None:
        rule = "says whose interval --until looks at, and there is no --until"
        raise RequestError(metric, "--metric", rule, "add --until 2%, or leave --metric out")
    return None


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
