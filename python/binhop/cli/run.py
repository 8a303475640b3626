"""Runs `binhop run`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

import binhop
from binhop.claims import Claims
from binhop.cli import completion, mixing, options, plans, show, table_form
from binhop.cli.delivery import delivering, end
from binhop.cli.early_end import ending_early, report_unfinished
from binhop.cli.look import Look, PlacementReporter, look_of, seeds_to_run
from binhop.cli.own_policy import Policy, alone, own_policy
from binhop.cli.progress import progress, watch
from binhop.errors import RequestError
from binhop.numbers import count
from binhop.pace import Passes, references_of
from binhop.results import Result, join
from binhop.resumable import simulated
from binhop.run_options import RunOptions, extended
from binhop.tables import TEXT
from binhop.until import most_seeds, share, traces_until

if TYPE_CHECKING:
    from binhop.kept_runs import KeptRuns
    from binhop.output import ResultDirectory

Job = tuple[binhop.Trace, RunOptions]
"""A trace, and the options of its simulation."""


def run(
    machine: Annotated[
        str,
        typer.Argument(
            metavar="MACHINE",
            autocompletion=completion.machines,
            help="A bundled machine (binhop machines), or the path of a description.",
        ),
    ],
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE...",
            autocompletion=completion.traces,
            help="Trace files or built-in workloads (binhop workloads). A file wins over a workload.",
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
    seeds: options.Seeds = None,
    seed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N|best|worst",
            help="Simulate the placement of this number; may be given several times. With --dump-placement "
            "or --top-conflicts: the placement to look at. best and worst have the fewest and the most "
            "misses at the last level, or in --cache.",
        ),
    ] = None,
    until: options.Until = None,
    metric: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.metrics,
            help="The metric whose interval --until looks at. Default: misses at the last level.",
        ),
    ] = None,
    length: options.Length = None,
    warmup: options.Warmup = "0",
    interval: options.Interval = None,
    settings: options.Settings = None,
    policy: Policy = None,
    v2p: options.V2p = None,
    top: Annotated[
        str | None,
        typer.Option(
            "--top-conflicts",
            metavar="N",
            help="Name the pages, segments and processes with the most misses at the last level under one "
            "placement (--seed; default: the worst). Misses of a first touch do not count.",
        ),
    ] = None,
    cache: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=completion.caches,
            help="The cache whose misses --top-conflicts, best and worst count, as in l1d.",
        ),
    ] = None,
    explain: plans.Explain = False,
    dump: Annotated[
        str | None,
        typer.Option(
            "--dump-placement",
            metavar="FILE",
            help="Write every page of one placement (--seed; default: the worst) with its frame, as Parquet.",
        ),
    ] = None,
    form: table_form.Form = TEXT,
    json_to: options.JsonTo = None,
    out: options.Out = None,
    force: options.Force = False,
    threads: options.Threads = None,
    confidence: options.Confidence = 0.95,
    quiet: options.Quiet = False,
) -> None:
    """Simulate traces on a machine, under many page placements."""
    options.confidence_of(confidence)
    table_form.checked(form)
    own = own_policy(policy)
    alone(own, [("--v2p", v2p)])
    chosen = binhop.Machine.load(machine, [*(settings or []), *options.recorded(v2p)])
    asked = mixing.Mixing(quantum, order, latency, faults, fault_latency, until_first, repeat)
    bounded = asked.opened(traces, length, mix=mix)
    opened = [trace for trace, _ in bounded]
    given = extended(
        options.run_options(warmup, threads),
        interval=options.positive(interval, "--interval"),
        policy=None if own is None else own.policy,
    )
    jobs = [(trace, extended(given, length=bound)) for trace, bound in bounded]
    look = look_of(seed or [], dump, top, opened, cache, chosen)
    numbers = _seeds(chosen.is_random or own is not None, seeds, seed, until, look)
    if explain:
        plans.print_plans(chosen, [(trace, extended(of, seeds=numbers)) for trace, of in jobs])
        return
    narrow = _narrow(until, metric, numbers)
    looker = PlacementReporter(look, chosen, quiet=quiet) if look is not None else None
    claims = Claims(force=force)
    claims.reads(*traces, v2p, policy and policy.rsplit(":", 1)[0])
    claims.reads_machines([chosen], machine)
    with ExitStack() as stack:
        several = len(jobs) > 1 or narrow is not None
        delivery = stack.enter_context(delivering(claims, out, json_to, several=several, quiet=quiet))
        dumped = stack.enter_context(looker.dump(claims)) if looker is not None else None
        if narrow is not None:
            results = _until(chosen, jobs, narrow, metric, confidence, delivery.kept, quiet=quiet)
        else:
            results = _each(chosen, jobs, numbers, delivery.kept, quiet=quiet)
        whole = join(results)
        delivery.ready(whole, lambda: print_result(whole, confidence, form))
        stopped = len(results) < len(jobs)
        if stopped:
            whole.own_notes.append(report_unfinished(opened, len(results), delivery.kept))
        elif looker is not None and not delivery.failed:
            for result, (trace, of) in zip(results, jobs, strict=True):
                looker.look(result, trace, of, dumped)
            whole = join(results)
            delivery.ready(whole, lambda: print_result(whole, confidence, form))
        delivery.write(lambda directory: _filled(directory, whole, confidence, form))
    if delivery.show():
        if looker is not None and not stopped:
            looker.tell()
        if form == TEXT:
            show.written(out, delivery.names)
    end(early=stopped)


def _each(
    machine: binhop.Machine,
    jobs: list[Job],
    seeds: int | list[int] | None,
    kept: KeptRuns | None,
    *,
    quiet: bool,
) -> list[Result]:
    """Simulates each trace under these placements. Ctrl-C ends the work early if nothing is kept."""
    results: list[Result] = []
    with ending_early(results, kept), watch(quiet=quiet) as report:
        title = ""
        passes = None
        if report is not None:
            lengths = [references_of(trace, of.get("length")) for trace, of in jobs]
            passes = Passes(lambda done, of: report(title, done, of), lengths)
        for trace, of in jobs:
            title = f"{trace.name} on {machine.name}"
            tell = None if passes is None else passes.next()
            results += simulated(kept, [machine], trace, extended(of, seeds=seeds, progress=tell))
    return results


def _until(
    machine: binhop.Machine,
    jobs: list[Job],
    narrow: tuple[float, int],
    metric: str | None,
    confidence: float,
    kept: KeptRuns | None,
    *,
    quiet: bool,
) -> list[Result]:
    """Simulates all traces until the interval of each is narrow."""
    goal, most = narrow
    names = " ".join(trace.name for trace, _ in jobs)
    with progress(f"{names} on {machine.name}", quiet=quiet) as tell:
        each = [extended(of, progress=tell) for _, of in jobs]
        traces = [trace for trace, _ in jobs]
        return traces_until(machine, traces, goal, most, metric, confidence, each, kept)


def _seeds(
    random: bool, seeds: str | None, seed: list[str] | None, until: str | None, look: Look | None
) -> int | list[int] | None:
    """Returns the number of placements to run, or their numbers."""
    many = options.seeds_of(seeds)
    if look is not None:
        return seeds_to_run(look, many, random=random, until=until is not None)
    if not seed:
        return many
    other = f"--seeds {seeds}" if seeds is not None else f"--until {until}" if until is not None else None
    if other is not None:
        rule = "give a number of placements, or the numbers of the placements"
        raise RequestError(f"{other} --seed {seed[0]}", "run", rule, "leave one of them out")
    return [number for text in seed if (number := count(text, "--seed")) is not None]


def _narrow(until: str | None, metric: str | None, seeds: Any) -> tuple[float, int] | None:
    """Returns the goal of --until and the most seeds; None without --until."""
    if until is not None:
        return share(until, "--until"), most_seeds(seeds, "--seeds")
    if metric is not None:
        rule = "says whose interval --until looks at, and there is no --until"
        raise RequestError(metric, "--metric", rule, "add --until 2%, or leave --metric out")
    return None


def _filled(directory: ResultDirectory, result: Result, confidence: float, form: str) -> list[str]:
    """Fills a directory with the result and its tables, and returns the names of its files."""
    return table_form.fill(directory, result, result.tables(confidence), result.notes, form)


def print_result(result: Result, confidence: float, form: str) -> None:
    """Prints each workload's misses at every level and its CPI over the placements, then the notes."""
    table_form.print_tables(result.tables(confidence), result.notes, form)
