"""Runs `binhop mix`, which joins separately made traces as if one processor had run them."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

import binhop
from binhop.claims import Claims, made_by
from binhop.cli import completion, show
from binhop.cli.open_files import allow_open_files
from binhop.cli.options import Force, Length, Threads, length_of, positive
from binhop.cli.progress import progress
from binhop.cli.trace import Quiet  # noqa: TC001  # typer reads it
from binhop.errors import RequestError
from binhop.numbers import count


def mix(
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE…",
            autocompletion=completion.traces,
            help="Trace files, foreign traces, or workloads.",
        ),
    ],
    out: Annotated[str, typer.Option("--output", "-o", metavar="OUTPUT", help="The trace file to make.")],
    quantum: Annotated[str, typer.Option(help="The instructions of a turn.")] = "400k",
    latency: Annotated[
        str | None,
        typer.Option(
            help="The instructions for which a process that waits leaves the processor. Default: 100k if it "
            "waits for another process, 1M if it waits for a device or a page."
        ),
    ] = None,
    length: Length = None,
    until_first: Annotated[
        bool,
        typer.Option(
            "--until-first", help="End when the first trace ends. Default: end when the last trace ends."
        ),
    ] = False,
    repeat: Annotated[
        bool,
        typer.Option(
            "--repeat",
            help="Begin a trace that ends again, as new processes, until each trace has ended once.",
        ),
    ] = False,
    force: Force = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Mix traces of separate runs: they take turns, and a process that waits gives up its turn."""
    if until_first and repeat:
        rule = (
            "the first ends the mix with the first trace, and the second goes on until each trace has ended"
        )
        raise RequestError("--until-first --repeat", "mix", rule, "leave one of them out")
    ends: Literal["all", "first", "repeat"] = "first" if until_first else "repeat" if repeat else "all"
    allow_open_files(len(traces))
    parts = [binhop.Trace.of(trace) for trace in traces]
    mixed = binhop.Trace.mix(
        parts,
        positive(quantum, "--quantum") or 0,
        latency=count(latency, "--latency"),
        length=[length_of(positive(length, "--length"), part) for part in parts],
        ends=ends,
    )
    claims = Claims(force=force)
    claims.reads(*traces)
    claims.writes(out, "-o", made_by("mix"))
    with progress(f"mixing {mixed.name}", quiet=quiet) as tell:
        written, _ = mixed.write(out, None, tell, threads=positive(threads, "--threads"), made_by="mix")
    if not quiet:
        totals = written["totals"]
        show.say(
            f"{out}: {show.grouped(totals['references'])} references, "
            f"{show.grouped(totals['instructions'])} instructions, "
            f"{show.grouped(totals['events']['switch'])} switches, {show.grouped(written['bytes'])} bytes"
        )
