"""Runs `binhop compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

import binhop
from binhop.claims import Claims
from binhop.cli import completion, options, show, table_form
from binhop.cli.alternatives import alternatives_of, sorted_apart
from binhop.cli.delivery import delivering, end
from binhop.cli.early_end import report_unfinished
from binhop.cli.own_policy import Policies, own_policy
from binhop.cli.progress import progress
from binhop.comparison.alternatives import trace_names
from binhop.comparison.run import compare_chosen
from binhop.run_options import extended
from binhop.tables import TEXT
from binhop.tables.comparison import explained
from binhop.until import most_seeds, share

if TYPE_CHECKING:
    from binhop import Comparison
    from binhop.output import ResultDirectory


def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="MACHINE... TRACE...",
            autocompletion=completion.machines_and_traces,
            help="Machines (bundled, or files that end in .toml), then trace files or built-in workloads. "
            "With one machine and several traces, the traces are compared with each other.",
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE[,VALUE...]",
            autocompletion=completion.settings,
            help="Change the machines; may be given several times. A comma separates alternatives, as in "
            "placement.policy=random,first.",
        ),
    ] = None,
    v2p: Annotated[
        str | None,
        typer.Option(
            "--v2p",
            metavar="FILE",
            help="Also compare with a real placement, which is named recorded: a map of virtual to physical "
            "addresses.",
        ),
    ] = None,
    policy: Policies = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The alternative that all others are compared with. Default: the first."
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=completion.metrics,
            help="The metric to compare; may be given several times. Default: misses of each cache, and CPI. "
            "Traces are also compared in cycles and in counts of misses.",
        ),
    ] = None,
    seeds: options.Seeds = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Add placements until the difference in the first metric is known well enough: half the "
            "width of its interval is at most this share of the baseline's mean, as in 2%.",
        ),
    ] = None,
    length: options.Length = None,
    warmup: options.Warmup = "0",
    form: table_form.Form = TEXT,
    json_to: options.JsonTo = None,
    out: options.Out = None,
    force: options.Force = False,
    threads: options.Threads = None,
    confidence: options.Confidence = 0.95,
    quiet: options.Quiet = False,
) -> None:
    """Compare machines or policies, or traces on one machine, under the same random draws."""
    options.confidence_of(confidence)
    table_form.checked(form)
    machines, traces = sorted_apart(names)
    own = [one for text in policy or () if (one := own_policy(text)) is not None]
    chosen = alternatives_of(machines, settings or [], v2p, own, traces=len(traces))
    by_trace = len(chosen) == 1
    opened = options.opened(traces, apart=not by_trace)
    of_traces = trace_names(opened, traces) if by_trace else None
    called = of_traces or [each.name for each in chosen]
    if baseline is not None and baseline not in called:
        raise binhop._binhop.unknown(baseline, "--baseline", "no alternative has this name", called)
    given = options.run_options(warmup, threads)
    bound = options.positive(length, "--length")
    placements = options.seeds_of(seeds)
    goal = None
    if until is not None:
        goal = share(until, "--until")
        placements = most_seeds(placements, "--seeds")
    claims = Claims(force=force)
    claims.reads(*traces, v2p, *(text.rsplit(":", 1)[0] for text in policy or ()))
    claims.reads_machines([each.machine for each in chosen], *machines)
    several = len(opened) > 1 or goal is not None
    with delivering(claims, out, json_to, several=several, quiet=quiet) as delivery:
        stopped: list[str] = []
        with progress(
            f"{len(called)} alternatives on {' '.join(each.name for each in opened)}", quiet=quiet
        ) as tell:
            comparison = compare_chosen(
                chosen,
                [
                    (trace, extended(given, length=options.length_of(bound, trace), progress=tell))
                    for trace in opened
                ],
                seeds=placements,
                metrics=metric,
                baseline=baseline or 0,
                confidence=confidence,
                until=goal,
                names=of_traces,
                kept=delivery.kept,
                stopped=lambda done: stopped.append(report_unfinished(opened, done, delivery.kept)),
            )
        comparison.notes.extend(stopped)
        delivery.ready(comparison, lambda: print_comparison(comparison, form))
        delivery.write(lambda directory: _filled(directory, comparison, form))
    if delivery.show() and form == TEXT:
        show.written(out, delivery.names)
    end(early=bool(stopped))


def _filled(directory: ResultDirectory, comparison: Comparison, form: str) -> list[str]:
    """Fills a directory and returns the names of its files."""
    return table_form.fill(directory, comparison, comparison.tables(), comparison.notes, form)


def print_comparison(comparison: Comparison, form: str) -> None:
    """Prints the alternatives of each workload and metric, then what the columns mean, then the notes."""
    meaning = explained(comparison.summary, comparison.provenance)
    if form != TEXT:
        notes = [*([] if meaning is None else [meaning]), *comparison.notes]
        table_form.put(comparison.tables(), notes, form)
        return
    out = show.console()
    for table in comparison.tables():
        show.print_table(table, gap=1)
    if meaning is not None:
        out.print(meaning)
    for note in comparison.notes:
        out.print(f"note: {note}")
