"""Runs `binhop mix`, which joins separately made traces as if one processor had run them."""

from __future__ import annotations

from typing import Annotated

import typer

from binhop.claims import Claims, made_by
from binhop.cli import completion, mixing, show
from binhop.cli.options import Force, Length, Threads, positive
from binhop.cli.progress import progress
from binhop.cli.trace import Quiet  # noqa: TC001  # typer reads it


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
    quantum: mixing.Quantum = None,
    order: mixing.Order = None,
    latency: mixing.Latency = None,
    faults: mixing.Faults = None,
    fault_latency: mixing.FaultLatency = None,
    length: Length = None,
    until_first: mixing.UntilFirst = False,
    repeat: mixing.Repeat = False,
    force: Force = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Mix traces of separate runs: they take turns, and a process that waits gives up its turn.

    Where a trace ends, its processes exit, and the other traces go on. The command says when each trace
    ended, and how often it began again.
    """
    asked = mixing.Mixing(quantum, order, latency, faults, fault_latency, until_first, repeat)
    asked.check_for_file()
    mixed = asked.mixed(traces, length)
    claims = Claims(force=force)
    claims.reads(*traces)
    claims.writes(out, "-o", made_by("mix"))
    with progress(f"mixing {mixed.name}", quiet=quiet) as tell:
        written, notes = mixed.write(out, None, tell, threads=positive(threads, "--threads"), made_by="mix")
    if not quiet:
        totals = written["totals"]
        show.say(
            f"{out}: {show.counted(totals['references'], 'reference')}, "
            f"{show.counted(totals['instructions'], 'instruction')}, "
            f"{show.counted(totals['events']['switch'], 'switch', 'switches')}, "
            f"{show.counted(written['bytes'], 'byte')}"
        )
        for note in notes:
            show.say(f"note: {note}")
