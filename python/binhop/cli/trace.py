"""Runs `binhop trace head, cat, slice, filter, sample`, which make parts of traces."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import binhop
from binhop.claims import Claims, made_by
from binhop.cli import completion, show
from binhop.cli.open_files import allow_open_files
from binhop.cli.options import Force, Threads, positive
from binhop.cli.panels import PlainCommand
from binhop.cli.progress import progress
from binhop.errors import RequestError
from binhop.numbers import count, like

app = typer.Typer(
    name="trace",
    help="Show parts of a trace as lines of text, or write them as a trace of their own (-o).",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Source = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        autocompletion=completion.traces,
        help="A trace file, a foreign trace, or a built-in workload.",
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.parquet",
        help="Write a trace file. Default: print a line of text for each row.",
    ),
]
Json = Annotated[bool, typer.Option("--json-lines", help="Print a JSON object for each row instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary.")]


@app.command("head", cls=PlainCommand)
def head(
    trace: Source,
    rows: Annotated[str | None, typer.Option("--rows", "-n", help="The number of rows. Default: 10.")] = None,
    references: Annotated[
        str | None,
        typer.Option(
            "--references",
            "-r",
            help="The greatest number of references, as in 1M, instead of a number of rows.",
        ),
    ] = None,
    output: Output = None,
    json_lines: Json = False,
    force: Force = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Show or write the first rows, or the first references."""
    if rows is not None and references is not None:
        rule = "a part has a number of rows, or a number of references"
        raise RequestError(
            f"--rows {rows} --references {references}", "trace head", rule, "give one of the two options"
        )
    opened = _opened(trace)
    if references is not None:
        part = opened.first_references(positive(references, "--references") or 0)
    else:
        part = opened.first_rows(positive(rows, "--rows") or 10)
    _put(part, _PartOutput("trace head", [trace], output, json_lines, force, threads, quiet))


@app.command("cat", cls=PlainCommand)
def cat(
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE...",
            autocompletion=completion.traces,
            help="Trace files, foreign traces, or built-in workloads.",
        ),
    ],
    output: Output = None,
    json_lines: Json = False,
    force: Force = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Show or write whole traces, one after the other. Equal processes of two traces stay apart."""
    allow_open_files(len(traces))
    opened = [_opened(trace) for trace in traces]
    _put(
        opened[0] if len(opened) == 1 else binhop.Trace.join(opened),
        _PartOutput("trace cat", traces, output, json_lines, force, threads, quiet),
    )


@app.command("slice", cls=PlainCommand)
def slice_(
    trace: Source,
    start: Annotated[
        str, typer.Argument(metavar="FROM", help="The position of the first reference, as in 10M.")
    ],
    stop: Annotated[
        str | None,
        typer.Argument(metavar="[TO]", help="The position behind the last reference. Default: the end."),
    ] = None,
    output: Output = None,
    json_lines: Json = False,
    force: Force = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Show or write the references from one position up to another, with their mappings."""
    part = _opened(trace).slice(count(start, "FROM") or 0, count(stop, "TO"))
    _put(part, _PartOutput("trace slice", [trace], output, json_lines, force, threads, quiet))


@app.command("filter", cls=PlainCommand)
def filter_(
    trace: Source,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="Keep rows of an event (fetch, load, store, switch, …), or of reference, data or system."
        ),
    ] = None,
    process: Annotated[
        list[str] | None,
        typer.Option(
            help="Keep rows of an asid, of pid=NUMBER, or of a command.", metavar="ASID|pid=N|COMMAND"
        ),
    ] = None,
    address: Annotated[
        list[str] | None,
        typer.Option(metavar="FROM-TO", help="Keep references to addresses, as in 0x1000-0x2000."),
    ] = None,
    region: Annotated[
        list[str] | None,
        typer.Option(
            help="Keep references to a kind of segment (stack, heap), or to files with this text in the path."
        ),
    ] = None,
    kernel: Annotated[bool, typer.Option("--kernel", help="Keep the kernel's references.")] = False,
    user: Annotated[bool, typer.Option("--user", help="Keep the programs' references.")] = False,
    output: Output = None,
    json_lines: Json = False,
    force: Force = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Show or write the rows that pass every kind of filter. A filter given twice passes either value."""
    if kernel and user:
        raise RequestError(
            "--kernel --user", "trace filter", "together they pass every reference", "leave one of them out"
        )
    who = [_process(each) for each in process or ()]
    part = _opened(trace).filter(
        kinds=kind or (),
        asids=[value for which, value in who if which == "asid" and isinstance(value, int)],
        pids=[value for which, value in who if which == "pid" and isinstance(value, int)],
        commands=[value for which, value in who if isinstance(value, str)],
        addresses=[_range(each) for each in address or ()],
        regions=region or (),
        mode="kernel" if kernel else "user" if user else None,
    )
    _put(part, _PartOutput("trace filter", [trace], output, json_lines, force, threads, quiet))


@app.command("sample", cls=PlainCommand)
def sample(
    trace: Source,
    every: Annotated[
        str, typer.Option(help="Make one window in each span of this many references, as in 10M.")
    ],
    window: Annotated[str, typer.Option(help="The references in a window, as in 1M.")],
    seed: Annotated[
        str | None, typer.Option(help="Draw each window's place in its span. Default: its start.")
    ] = None,
    output: Output = None,
    json_lines: Json = False,
    force: Force = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Show or write windows of a trace. Caches keep their state from one window to the next."""
    part = _opened(trace).sample(
        count(every, "--every") or 0, count(window, "--window") or 0, count(seed, "--seed")
    )
    _put(part, _PartOutput("trace sample", [trace], output, json_lines, force, threads, quiet))


def _opened(trace: str) -> binhop.Trace:
    return binhop.Trace.of(trace)


@dataclass(frozen=True)
class _PartOutput:
    """`_PartOutput` is the output for a part of traces, with the command and the part's source traces."""

    command: str
    traces: list[str]
    output: str | None
    json_lines: bool
    force: bool
    threads: str | None
    quiet: bool


def _put(part: binhop.Trace, to: _PartOutput) -> None:
    """Writes a part where it is wanted."""
    output = to.output
    if output is None:
        # On a terminal, long metadata would push the rows out of sight.
        part.print(json=to.json_lines, meta=not sys.stdout.isatty())
        return
    if to.json_lines:
        raise RequestError(output, "--output", "is a trace file, not lines", "leave --json-lines out")
    if Path(output).suffix != ".parquet":
        rule = "a trace file's name ends in .parquet"
        raise RequestError(output, "--output", rule, "name it so; text goes to the standard output")
    if part.endless:
        rule = "a built-in workload never ends"
        remedy = "take a part first: binhop trace head WORKLOAD --references 50M -o FILE.parquet"
        raise RequestError(part.name, "--output", rule, remedy)
    claims = Claims(force=to.force)
    claims.reads(*to.traces)
    claims.writes(output, "-o", made_by(to.command))
    with progress(f"writing {output}", quiet=to.quiet) as tell:
        threads = positive(to.threads, "--threads")
        written, _ = part.write(output, progress=tell, threads=threads, made_by=to.command)
    if not to.quiet:
        totals = written["totals"]
        rows = sum(totals["events"].values())
        show.say(
            f"{output}: {show.counted(totals['references'], 'reference')}, {show.counted(rows, 'row')}, "
            f"{show.counted(written['bytes'], 'byte')}"
        )


def _process(text: str) -> tuple[str, int | str]:
    if text.startswith("pid="):
        return "pid", _whole(text.removeprefix("pid="), text)
    return ("asid", _whole(text, text)) if text.isdigit() else ("command", text)


def _whole(text: str, shown: str) -> int:
    if not text.isdigit() or int(text) >= 2**64:
        rule = "a process is an asid, pid=NUMBER, or a command"
        raise RequestError(shown, "--process", rule, "write it like --process 3 or --process pid=4711")
    return int(text)


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    try:
        ends = int(first, 0), int(last, 0)
    except ValueError:
        ends = -1, -1
    if not 0 <= ends[0] < ends[1] < 2**64:
        rule = "a range is its first address, and the address behind its last"
        raise RequestError(text, "--address", rule, like("--address"))
    return ends
