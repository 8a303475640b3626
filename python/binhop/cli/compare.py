"""The command that compares machines and policies."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

import binhop
from binhop.cli import options, show
from binhop.cli.alternatives import alternatives_of, sorted_apart
from binhop.cli.progress import progress
from binhop.comparison.run import compare_chosen
from binhop.output import OutputFile, ResultDirectory
from binhop.until import most_seeds, share

if TYPE_CHECKING:
    from binhop import Comparison


def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="MACHINE... TRACE...",
            help="Machines (bundled, or files that end in .toml), then trace files or built-in workloads.",
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE[,VALUE...]",
            help="Change the machines, also several times; a comma makes alternatives: "
            "placement.policy=random,first.",
        ),
    ] = None,
    v2p: Annotated[
        str | None,
        typer.Option(
            "--v2p",
            metavar="FILE",
            help="Compare with a real placement, too, called recorded: a map of virtual to physical "
            "addresses.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What the others are compared with. Default: the first."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="What to compare; may be given several times. Default: each cache, and CPI."),
    ] = None,
    seeds: options.Seeds = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Go on with more placements until half the width of the interval of the difference in the "
            "first metric is this share of the baseline's mean, or less: 2%.",
        ),
    ] = None,
    length: options.Length = None,
    warmup: options.Warmup = "0",
    json_to: options.JsonTo = None,
    out: options.Out = None,
    threads: options.Threads = None,
    confidence: options.Confidence = 0.95,
    quiet: options.Quiet = False,
) -> None:
    """Compare machines or policies on traces: the same seed is the same luck."""
    options.confidence_of(confidence)
    machines, traces = sorted_apart(names)
    chosen = alternatives_of(machines, settings or [], v2p)
    called = [each.name for each in chosen]
    if baseline is not None and baseline not in called:
        raise binhop._binhop.unknown(baseline, "--baseline", "no alternative has this name", called)
    opened = options.opened(traces)
    plan = options.plan_of(warmup, threads)
    bound = options.positive(length, "--length")
    placements = options.seeds_of(seeds)
    goal = None
    if until is not None:
        goal = share(until, "--until")
        placements = most_seeds(placements, "--seeds")
    with ExitStack() as stack:
        file = stack.enter_context(OutputFile(json_to, "--json")) if json_to not in (None, "-") else None
        directory = stack.enter_context(ResultDirectory(out, "--out")) if out is not None else None
        with progress(f"{len(chosen)} alternatives on {' '.join(traces)}", quiet=quiet) as tell:
            comparison = compare_chosen(
                chosen,
                [
                    (trace, {**plan, "length": options.length_of(bound, trace), "progress": tell})
                    for trace in opened
                ],
                seeds=placements,
                metrics=metric,
                baseline=baseline or 0,
                confidence=confidence,
                until=goal,
            )
        made = directory.fill(comparison, command=["binhop", *sys.argv[1:]]) if directory is not None else []
        if file is not None:
            file.write(comparison.to_json() + "\n")
    if json_to == "-":
        sys.stdout.write(comparison.to_json() + "\n")
        return
    if not quiet:
        print_comparison(comparison)
        show.written(out, made)


def print_comparison(comparison: Comparison) -> None:
    """For each workload and metric the alternatives below each other, then what the columns mean."""
    out = show.console()
    for workload in comparison.workloads:
        _print_workload(comparison, workload)
    base, level = comparison.baseline, f"{100 * comparison.confidence:g}%"
    if (comparison.summary["n"].max() or 1) != 1:
        out.print(
            f"difference: from {base} under the same seed, and the {level} interval of its mean (Student's "
            f"t). chance: in how many of the seeds it has less than {base}, a tie as half, and the {level} "
            "interval of that share (Wilson)."
        )
    for note in comparison.notes:
        out.print(f"note: {note}")


def _print_workload(comparison: Comparison, workload: str) -> None:
    out = show.console()
    measured = comparison.each().filter(workload=workload, alternative=comparison.baseline)
    totals = dict(measured.select("metric", "mean").iter_rows())
    n = len(comparison.seeds)
    out.print(
        f"{workload}: {show.grouped(totals['references'])} references, "
        f"{show.grouped(totals['instructions'])} instructions, {n} placement{'s' * (n != 1)}"
    )
    if comparison.summary.filter(workload=workload).is_empty():
        out.print("\nnothing to compare: every metric is undefined here\n")
        return
    level = f"{100 * comparison.confidence:g}% interval"
    table = show.table("", "mean", "difference", level, "reduction", "chance", right=5, gap=1)
    for metric in comparison.metrics:
        rows = comparison.summary.filter(workload=workload, metric=metric)
        if rows.is_empty():
            continue
        unit = rows["unit"][0]
        table.add_section()
        table.add_row(_title(metric, unit))
        table.add_row(f"  {comparison.baseline}", show.figure(rows["baseline_mean"][0], unit), "baseline")
        for row in rows.iter_rows(named=True):
            table.add_row(f"  {row['alternative']}", show.figure(row["mean"], unit), *_against(row, unit))
    out.print(table)
    out.print()


def _title(metric: str, unit: str) -> str:
    """What the rows below hold."""
    if metric.endswith(".mpi"):
        return f"{metric.removesuffix('.mpi')} MPI×1000"
    return metric if metric in (unit, "cpi") else f"{metric}, {unit}"


def _against(row: dict[str, Any], unit: str) -> list[str]:
    """Difference, interval, reduction, chance of one alternative; in words where there is no difference."""
    if row["ties"] == row["n"]:
        return ["the same", "-", "-", "-"]
    span = "-"
    if row["low"] is not None:
        span = f"{show.signed(row['low'], unit)} to {show.signed(row['high'], unit)}"
    reduction = "-" if row["reduction"] is None else f"{100 * row['reduction']:.1f}%"
    chance = "-"
    if row["n"] > 1:
        chance = f"{100 * row['chance']:.0f}%"
    if row["chance_low"] is not None:
        chance += f" ({100 * row['chance_low']:.0f}-{100 * row['chance_high']:.0f})"
    return [show.signed(row["difference"], unit), span, reduction, chance]
