"""Runs `binhop import`, `binhop inspect` and `binhop lint`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import binhop
from binhop.claims import Claims, made_by
from binhop.cli import completion, show
from binhop.cli.options import Force, Json, Threads, json_file, positive, written_as_json
from binhop.cli.progress import progress
from binhop.errors import RequestError

# The list is read at every start of a command, and its table would import Polars.
FORMATS = [name for name, *_ in binhop._binhop.formats()]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no notes.")]
PROCESSES = 1000
"""The most address spaces that `inspect` shows in its table."""
Length = Annotated[str | None, typer.Option(help="The greatest number of references to read, as in 50M.")]


def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT", help="A foreign trace: a file, a directory, or - for standard input."
        ),
    ],
    output: Annotated[str, typer.Argument(metavar="[-o] OUTPUT", help="The trace file to make.")] = "",
    out: Annotated[
        str, typer.Option("--output", "-o", metavar="OUTPUT", help="The trace file to make.")
    ] = "",
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            help=f"The format: {', '.join(FORMATS)}. Default: the format that the file's name tells.",
        ),
    ] = None,
    placement: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write the frames that pages had when the trace was recorded, as Parquet for --v2p.",
        ),
    ] = None,
    length: Length = None,
    force: Force = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Make a trace file from a foreign trace, compressed or not."""
    target = out or output
    if not target or (out and output):
        raise RequestError(target or "no output", "import", "needs one output", "write -o TRACE.parquet")
    if format is not None and format not in FORMATS:
        raise binhop._binhop.unknown(format, "--format", "no foreign format has this name", FORMATS)
    trace = _foreign(source, format)
    claims = Claims(force=force)
    claims.reads(source)
    claims.writes(target, "-o", made_by("import"))
    if placement is not None:
        claims.writes(placement, "--placement", made_by("import"))
    with progress(f"importing {trace.name}", quiet=quiet) as tell:
        written, notes = trace.write(
            target,
            positive(length, "--length"),
            tell,
            threads=positive(threads, "--threads"),
            placement=placement,
            made_by="import",
        )
    if not quiet:
        totals = written["totals"]
        rows = sum(totals["events"].values())
        summary = (
            f"{target}: {show.counted(totals['references'], 'reference')}, "
            f"{show.counted(totals['instructions'], 'instruction')}, {show.counted(rows, 'row')}, "
            f"{show.counted(written['bytes'], 'byte')}"
        )
        show.say(summary)
        for note in notes:
            show.say(f"note: {note}")


def _foreign(source: str, format: str | None) -> binhop.Trace:
    if format is None and binhop._binhop.format_of_path(source) is None:
        binhop._binhop.Stream.foreign(source)  # it reports why the file is no trace
    return binhop.Trace.open(source, format)


def inspect(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            autocompletion=completion.traces,
            help="A trace file, a foreign trace, or a workload.",
        ),
    ],
    json_to: Json = None,
    length: Length = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Report what a trace holds, and what is missing."""
    opened = binhop.Trace.of(trace)
    with json_file(json_to, trace, force=force) as file:
        with progress(f"reading {opened.name}", quiet=quiet) as tell:
            report = opened.inspect(positive(length, "--length"), tell)
        if written_as_json(report, json_to, file):
            return
    _print_report(opened.name, report)


def _print_report(name: str, report: dict[str, Any]) -> None:
    out = show.console()
    totals, meta = report["totals"], report["meta"]
    facts = show.table("what", "value")
    facts.show_header = False
    facts.add_row("references", show.grouped(totals["references"]))
    facts.add_row("instructions", show.grouped(totals["instructions"]))
    page = f"{report['page_size']} bytes{' (assumed)' if report['page_size_assumed'] else ''}"
    facts.add_row("pages touched", f"{show.grouped(report['pages'])} of {page}")
    facts.add_row("footprint", f"{report['footprint_bytes'] / 2**20:.2f} MiB")
    facts.add_row("content", f"{report['content_hash']} ({report['content']})")
    for key in ("recorder", "command", "sizes", "schedule"):
        if meta.get(key):
            facts.add_row(key, str(meta[key]))
    out.print(name)
    out.print(facts)
    out.print()
    events = show.table("event", "rows", right=1)
    for event, rows in totals["events"].items():
        if rows:
            events.add_row(event, show.grouped(rows))
    out.print(events)
    if len(report["processes"]) > 1 or any(process["pid"] for process in report["processes"]):
        _print_processes(report)
    for missing in report["missing"]:
        out.print()
        out.print(f"missing: {missing['what']}; {missing['consequence']}")


def _print_processes(report: dict[str, Any]) -> None:
    out = show.console()
    out.print()
    processes = show.table("asid", "pid", "command", "references", "pages", "MiB", right=3)
    for process in report["processes"][:PROCESSES]:
        processes.add_row(
            str(process["asid"]),
            str(process["pid"] or "-"),
            str(process["command"] or "-")[:32],
            show.grouped(process["references"]),
            show.grouped(process["pages"]),
            f"{process['footprint_bytes'] / 2**20:.2f}",
        )
    out.print(processes)
    more = len(report["processes"]) - PROCESSES
    if more > 0:
        out.print(f"{show.grouped(more)} more address spaces: --json lists all")
    switches = {cause: n for cause, n in report["switches"].items() if n}
    if switches:
        out.print()
        out.print("switches: " + ", ".join(f"{show.grouped(n)} {cause}" for cause, n in switches.items()))


def lint(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            autocompletion=completion.traces,
            help="A trace file, a foreign trace, or a workload.",
        ),
    ],
    json_to: Json = None,
    length: Length = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Check a trace, apart from any simulation. The exit code is 2 if the trace has errors."""
    opened = binhop.Trace.of(trace)
    with json_file(json_to, trace, force=force) as file:
        with progress(f"checking {opened.name}", quiet=quiet) as tell:
            findings = opened.lint(positive(length, "--length"), tell)
        written = written_as_json(findings, json_to, file)
    if not written:
        out = show.console()
        for finding in findings:
            out.print(f"{finding['severity']}: {finding['name']}, {show.counted(finding['count'], 'time')}")
            out.print(f"    {finding['meaning']}; {finding['remedy']}")
            for example in finding["examples"]:
                where = "" if example["row"] is None else f"row {example['row']}: "
                out.print(f"    {where}{example['detail']}")
        if not findings:
            out.print(f"{opened.name}: nothing to complain about")
    if any(finding["severity"] == "error" for finding in findings):
        raise typer.Exit(2)
