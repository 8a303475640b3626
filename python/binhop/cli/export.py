"""Runs `binhop export`."""

from __future__ import annotations

from typing import Annotated

import typer

import binhop
from binhop.claims import Claims, unmarked
from binhop.cli import completion, show
from binhop.cli.options import Force, Length, Threads, length_of, positive
from binhop.cli.progress import progress
from binhop.errors import RequestError
from binhop.numbers import count

# For each format, whether it holds what reaches memory.
FORMATS = {name: memory for name, _, _, memory in binhop._binhop.exporters()}
VIRTUAL = ", ".join(name for name, memory in FORMATS.items() if not memory)
PHYSICAL = ", ".join(name for name, memory in FORMATS.items() if memory)


def export(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            autocompletion=completion.traces,
            help="A trace file, a foreign trace, or a built-in workload.",
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            autocompletion=completion.formats,
            help=f"The format. {VIRTUAL} hold the program's references at virtual addresses. {PHYSICAL} "
            "hold what reaches a machine's memory behind its caches.",
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE|-",
            help="The file, which is compressed if its name ends in .gz, .xz or .zst.",
        ),
    ],
    machine: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.machines,
            help="The machine behind whose caches the memory lies: bundled, or the path of a description.",
        ),
    ] = None,
    seed: Annotated[str | None, typer.Option(help="The number of the page placement. Default: 0.")] = None,
    scheme: Annotated[
        str | None,
        typer.Option(
            metavar="S",
            help="Write the requests that the memory controller gets behind this scheme for device data "
            "(docs/io.md), requests of devices included. The machine needs a section dram, as in "
            "--set dram=ddr4-2400.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            autocompletion=completion.settings,
            help="Change the machine, as in cache.l2.size=1MiB; may be given several times.",
        ),
    ] = None,
    length: Length = None,
    force: Force = False,
    threads: Threads = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print no progress, summary and notes.")
    ] = False,
) -> None:
    """Write a trace for another simulator."""
    if to not in FORMATS:
        raise binhop._binhop.unknown(to, "--to", "nothing is exported under this name", list(FORMATS))
    opened = binhop.Trace.of(trace)
    bound = length_of(positive(length, "--length"), opened)
    claims = Claims(force=force)
    claims.reads(trace)
    if not FORMATS[to]:
        given = {"--machine": machine, "--seed": seed, "--scheme": scheme, "--set": settings}
        for option, value in given.items():
            if value:
                rule = f"{to} takes the program's own addresses, without a machine or a placement"
                raise RequestError(str(value), option, rule, f"leave it out, or say --to {PHYSICAL}")
        if output != "-":
            claims.writes(output, "-o", unmarked)
        with progress(f"exporting {opened.name}", quiet=quiet) as tell:
            said = opened.export(output, to, length=bound, progress=tell)
        what = show.counted(said["references"], "reference")
    else:
        if machine is None:
            rule = f"{to} takes what reaches a memory behind caches"
            raise RequestError("no machine", "export", rule, "say --machine, as in --machine kh90")
        loaded = binhop.Machine.load(machine, settings or [])
        claims.reads_machines([loaded], machine)
        if output != "-":
            claims.writes(output, "-o", unmarked)
        plan = {"length": bound, "threads": positive(threads, "--threads")}
        with progress(f"exporting {opened.name}", quiet=quiet) as tell:
            said = binhop.export_memory(
                loaded,
                opened,
                output,
                to,
                seed=count(seed, "--seed") or 0,
                scheme=scheme,
                progress=tell,
                **plan,
            )
        what = f"{show.counted(said['reads'], 'read')} and {show.counted(said['writes'], 'write')} of memory"
    if not quiet and output != "-":
        show.say(f"{output}: {what}, {show.counted(said['bytes'], 'byte')}")
    if not quiet:
        for note in said["notes"]:
            show.say(f"note: {note}")
